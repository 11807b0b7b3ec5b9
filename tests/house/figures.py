"""The size and shape of the house in figures, beside what figures.json allows: `make house`.

A figure may rise only in a commit that changes figures.json (test_figures.py): `make house WHY="cohorts by month"`
writes what is counted now, and the reason beside every figure that changed. How each is counted stands in its words.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from worlds.checkout import ROOT
from worlds.shards import insert, served_shard
from worlds.source_code import (
    functions,
    lines_of,
    module_of,
    name_of,
    nodes,
    sources,
)

CORE, ENGINE = "streamer/incremental/core/", "streamer/incremental/engine/engine.py"
KAFKA_LIBRARIES = ("confluent_kafka", "kafka", "aiokafka")
READS = {"poll", "consume", "getmany", "getone"}


FILE = Path(__file__).with_name("figures.json")


class Figure(NamedTuple):
    """what: in words; now: its value; found: what was counted, if it is worth a list."""

    what: str
    now: int
    found: Sequence[str] = ()


def rooms() -> Iterator[Figure]:
    """The lines and modules of every folder, without the folders in it; of tests and benchmarks by kind."""
    lines: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for path in sources("streamer", "agents"):
        room = path.relative_to(ROOT).parent.as_posix()
        lines[room] += lines_of(path)
        modules[room] += 1
    for path in sources("tests", "benchmarks"):
        lines["/".join(path.relative_to(ROOT).parts[: 2 if name_of(path).startswith("tests/") else 1])] += lines_of(
            path
        )
    for room in sorted(lines):
        yield Figure(f"{room}: lines", lines[room])
        if modules[room]:
            yield Figure(f"{room}: modules", modules[room])


def imported() -> Iterator[Figure]:
    lines = (
        (node.end_lineno or node.lineno) - node.lineno + 1
        for path in sources("streamer", "agents")
        for node in nodes(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    yield Figure("lines of imports", sum(lines))


def way_of_an_insert() -> Iterator[Figure]:
    """Traced in memory: a shard at rest gets one row more, from the call that hands the batch over to its return."""
    passed: dict[str, None] = {}
    frames: list[int] = []

    def follow(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or (name := _file_of(frame)) is None:
            return
        passed[name] = None
        if name == ENGINE and not frames:
            frames.append(_depth(frame))

    shard = served_shard()
    publisher = shard.publisher()
    start = publisher.take_over(shard)
    sys.setprofile(follow)
    try:
        publisher.step([insert(start)])
    finally:
        sys.setprofile(None)
    without_core = [name for name in passed if not name.startswith(CORE)]
    yield Figure("modules that an INSERT passes, from its batch to the outlet", len(passed), list(passed))
    yield Figure("of them outside of the core", len(without_core))
    yield Figure("frames before the engine, from the batch on", frames[0] if frames else 0)


def _file_of(frame: FrameType) -> str | None:
    """The file of the project that a frame is in; None where it is in none."""
    return _file_named(frame.f_code.co_filename)


@cache
def _file_named(name: str) -> str | None:
    path = Path(name)
    inside = path.is_relative_to(ROOT / "streamer") or path.is_relative_to(ROOT / "agents")
    return path.relative_to(ROOT).as_posix() if inside else None


def _depth(frame: FrameType) -> int:
    """How many of the project's frames stand over this one."""
    above, outer = 0, frame.f_back
    while outer is not None:
        above, outer = above + (_file_of(outer) is not None), outer.f_back
    return above


def changing_state() -> Iterator[Figure]:
    """Attributes that a method other than `__init__` and `__post_init__` assigns to its `self`, and theirs."""
    paths = [
        path for path in sources("streamer/incremental/shard", "agents") if not name_of(path).startswith(SIDE_ROOMS)
    ]
    fields = {
        f"{module_of(path)}.{node.name}": changed
        for path in paths
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and (changed := _changed_fields(node))
    }
    listed = [f"{name}: {', '.join(sorted(changed))}" for name, changed in fields.items()]
    yield Figure("classes of shards and agents with state that changes", len(fields), listed)
    yield Figure("their fields", sum(map(len, fields.values())))


SIDE_ROOMS = ("agents/web/", "streamer/cli/demo/")
"""Pages and the demo hold no shard."""


def _changed_fields(of: ast.ClassDef) -> set[str]:
    """What methods assign to `self`, or to a value that it holds, or replace in such a value."""
    methods = (node for node in of.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {
        name
        for method in methods
        if method.name not in ("__init__", "__post_init__")
        for node in ast.walk(method)
        for name in _fields_of_self(node)
    }


def _fields_of_self(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        place = ast.unparse(node)
        if place.startswith("self.") and place.count(".") <= 2 and place.replace(".", "").isidentifier():
            yield place.removeprefix("self.")
    elif isinstance(node, ast.Call):
        replaced = {"replace": node.args[:1], "_replace": [getattr(node.func, "value", node)]}
        for held in replaced.get(getattr(node.func, "attr", getattr(node.func, "id", "")), []):
            if ast.unparse(held).startswith("self."):
                yield from (f"{ast.unparse(held).removeprefix('self.')}.{of.arg}" for of in node.keywords)


def laws_written_once() -> Iterator[Figure]:
    """Each is one function of the house, or one module, where there is one way of doing it."""
    commits = _functions_with(lambda node: _calls(node, {"commit"}) and len(getattr(node, "args", ())) > 1)
    yield Figure("functions that commit to a store", len(commits), commits)
    reads = [
        place
        for path in sources("streamer", "agents")
        if _imports_of(path, KAFKA_LIBRARIES)
        for place in _functions_with(_loops_over_reads, path)
    ]
    yield Figure("functions that read Kafka in a loop", len(reads), reads)
    shares = _functions_with(_compares_shares)
    yield Figure("functions that compare a share", len(shares), shares)
    deaf = _deaf_outlets()
    yield Figure("outlets that publish nothing", len(deaf), deaf)
    maps = [name_of(path) for path in sources("streamer", "agents") if _maps_errors(path)]
    yield Figure("modules that make errors of Kafka's libraries ours", len(maps), maps)


def _functions_with(is_one: Callable[[ast.AST], bool], *paths: Path) -> list[str]:
    return [
        f"{name_of(path)}:{function.lineno} {function.name}"
        for path in paths or sources("streamer", "agents")
        for function in functions(path)
        if any(map(is_one, ast.walk(function)))
    ]


def _deaf_outlets() -> list[str]:
    """Classes with a method `publish` that does nothing, in tests too."""
    return [
        f"{name_of(path)}:{of.lineno} {of.name}"
        for path in sources("streamer", "agents", "tests")
        for of in nodes(path)
        if isinstance(of, ast.ClassDef) and "Protocol" not in " ".join(map(ast.unparse, of.bases))
        for method in of.body
        if isinstance(method, ast.FunctionDef) and method.name == "publish"
        if all(isinstance(line, ast.Expr | ast.Pass) and not _is_call(line) for line in method.body)
    ]


def _is_call(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Call)


def _calls(node: ast.AST, methods: set[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods


def _loops_over_reads(node: ast.AST) -> bool:
    return isinstance(node, ast.While | ast.For) and any(_calls(inner, READS) for inner in ast.walk(node))


def _imports_of(path: Path, libraries: tuple[str, ...]) -> set[str]:
    names = {alias.name for node in nodes(path) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes(path) if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.split(".")[0] for name in names} & set(libraries)


def _maps_errors(path: Path) -> bool:
    """Whether a module catches an error of a Kafka library, or is given one, and raises or returns one of ours."""
    text = path.read_text(encoding="utf-8")
    theirs = re.search(r"\bKafka(Error|Exception)\b", text)
    return bool(
        theirs
        and re.search(r"\b(raise|return)\s+(\w+\.)*(ServerUnreachable|\w*Refused|\w*Denied|\w*failure\w*)\(", text)
    )


def _compares_shares(node: ast.AST) -> bool:
    """count * denominator against size * numerator."""
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    return len(sides) == 2 and all(
        isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult) and name in ast.unparse(side)
        for side, name in zip(sides, ("denominator", "numerator"), strict=True)
    )


def lost_walks() -> Iterator[Figure]:
    """Where neither mypy nor a search for callers finds what is called."""
    lost = _functions_with(
        lambda node: (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Call)
            and isinstance(node.func.func, ast.Name)
            and node.func.func.id == "getattr"
        )
    )
    yield Figure("functions that call a method by a name which they were given", len(lost), lost)


def tests() -> Iterator[Figure]:
    """How often tests pass by the public doors."""
    inside = [
        f"{name_of(path)}:{node.lineno} {ast.unparse(node)}"
        for path in sources("tests")
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr) and ast.unparse(node.value) not in OWN
        if node.attr not in PUBLIC_IN_SPITE_OF_ITS_NAME
    ]
    yield Figure("private names that tests use of others", len(inside), inside)
    patched = [
        f"{name_of(path)}:{node.lineno} {ast.unparse(node.args[0])}"
        for path in sources("tests")
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and _calls(node, {"setattr"})
        and node.args
        and isinstance(node.args[0], ast.Constant)
    ]
    yield Figure("patches by dotted path", len(patched), patched)


OWN = ("self", "cls", "super()")
PUBLIC_IN_SPITE_OF_ITS_NAME = ("_replace", "_exit")
"""Of a NamedTuple and of the module `os`. A constant of a library, such as `KafkaError._TIMED_OUT`, is none of ours."""


def words() -> Iterator[Figure]:
    architecture = (ROOT / "streamer/ARCHITECTURE.md").read_text(encoding="utf-8")
    yield Figure("words of README.md", len((ROOT / "README.md").read_text(encoding="utf-8").split()))
    yield Figure("words of ARCHITECTURE.md", len(architecture.split()))
    pages = [architecture, *(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("glossary.md")))]
    yield Figure("rows of the glossary", sum(map(_rows_of_words, pages)))


def _rows_of_words(text: str) -> int:
    """Rows of the table below the heading `Words` or `Glossary`, without its head."""
    section = re.search(r"^#+ (?:Words|Glossary)\b.*?(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\|.*\|$", section[0], re.MULTILINE) if section else []
    return max(len(rows) - 2, 0)


# -- what is allowed ---------------------------------------------------------------------------------------------------


def allowed() -> dict[str, dict[str, Any]]:
    """What each figure may be (`now`), what it is to become (`target`, of some), and the reason of its last change."""
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


@cache
def counted() -> dict[str, Figure]:
    parts = (rooms, imported, way_of_an_insert, changing_state, laws_written_once, lost_walks, tests, words)
    return {figure.what: figure for part in parts for figure in part()}


def write(why: str) -> None:
    """Writes what is counted now, and why, beside every figure that changed."""
    before, after = allowed() if FILE.exists() else {}, {}
    for what, figure in counted().items():
        one = before.get(what, {})
        after[what] = one if one.get("now") == figure.now else {**one, "now": figure.now, "why": why}
    lines = [f"{json.dumps(what)}: {json.dumps(one)}" for what, one in after.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--list", action="store_true", help="with what was counted")
    options.add_argument("--why", default="", help="write figures.json; the reason of what has changed")
    given = options.parse_args()
    if given.why:
        write(given.why)
    before = allowed()
    print(f"{'figure':70} {'now':>8} {'allowed':>8} {'target':>8}")
    for what, figure in counted().items():
        one = before.get(what, {})
        print(f"{what:70} {figure.now:>8,} {one.get('now', 'new'):>8} {one.get('target', ''):>8}")
        for place in figure.found if given.list or len(figure.found) <= 10 else ():
            print(textwrap.indent(place, "    "))
    ours = ("streamer", "agents")
    all_lines = sum(lines_of(path) for path in sources(*ours))
    print(f"in all: {len(sources(*ours))} modules, {all_lines:,} lines; tests {sum(map(lines_of, sources('tests'))):,}")


if __name__ == "__main__":
    main()
