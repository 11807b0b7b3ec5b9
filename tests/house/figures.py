"""The size and shape of the house in figures, each with the target it is held against: `make house`.

How each is counted stands in its words. Nothing here fails: rules, which must hold, are in test_house.py.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

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


class Figure(NamedTuple):
    """what: in words; now: its value; target: to be reached; found: what was counted, if it is worth a list."""

    what: str
    now: str
    target: str
    found: Sequence[str] = ()


def size() -> Iterator[Figure]:
    paths = sources("streamer", "agents")
    yield Figure("modules in streamer and agents", f"{len(paths):,}", "190")
    yield Figure("their lines", f"{sum(map(lines_of, paths)):,}", "42,000")
    imported = (
        (node.end_lineno or node.lineno) - node.lineno + 1
        for path in paths
        for node in nodes(path)
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    yield Figure("lines of imports", f"{sum(imported):,}", "2,600")
    yield Figure("lines of tests", f"{sum(map(lines_of, sources('tests'))):,}", "58,000")


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
    yield Figure("modules that an INSERT passes, from its batch to the outlet", str(len(passed)), "32", list(passed))
    yield Figure("of them outside of the core", str(len(without_core)), "22")
    yield Figure("frames before the engine, from the batch on", str(frames[0] if frames else 0), "5")


def _file_of(frame: FrameType) -> str | None:
    """The file of the project that a frame is in; None where it is in none."""
    path = Path(frame.f_code.co_filename)
    inside = path.is_relative_to(ROOT / "streamer") or path.is_relative_to(ROOT / "agents")
    return path.relative_to(ROOT).as_posix() if inside else None


def _depth(frame: FrameType) -> int:
    """How many of the project's frames stand over this one."""
    above, outer = 0, frame.f_back
    while outer is not None:
        above, outer = above + (_file_of(outer) is not None), outer.f_back
    return above


def changing_state() -> Iterator[Figure]:
    """Attributes that a method other than `__init__` and `__post_init__` assigns to its `self`."""
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
    yield Figure("classes of shards and agents with state that changes", str(len(fields)), "4", listed)
    yield Figure("their fields", str(sum(map(len, fields.values()))), "30")


SIDE_ROOMS = ("agents/web/", "streamer/cli/demo/")
"""Pages and the demo hold no shard."""


def _changed_fields(of: ast.ClassDef) -> set[str]:
    methods = (node for node in of.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {
        node.attr
        for method in methods
        if method.name not in ("__init__", "__post_init__")
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def laws_written_once() -> Iterator[Figure]:
    """Each is one function of the house, or one module, where there is one way of doing it."""
    commits = _functions_with(lambda node: _calls(node, {"commit"}) and len(getattr(node, "args", ())) > 1)
    yield Figure("functions that commit to a store", str(len(commits)), "1", commits)
    reads = [
        place
        for path in sources("streamer", "agents")
        if _imports_of(path, KAFKA_LIBRARIES)
        for place in _functions_with(_loops_over_reads, path)
    ]
    yield Figure("functions that read Kafka in a loop", str(len(reads)), "1", reads)
    maps = [name_of(path) for path in sources("streamer", "agents") if _maps_errors(path)]
    yield Figure("modules that make errors of Kafka's libraries ours", str(len(maps)), "1", maps)


def _functions_with(is_one: Callable[[ast.AST], bool], *paths: Path) -> list[str]:
    return [
        f"{name_of(path)}:{function.lineno} {function.name}"
        for path in paths or sources("streamer", "agents")
        for function in functions(path)
        if any(map(is_one, ast.walk(function)))
    ]


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


def tests() -> Iterator[Figure]:
    """How often tests pass by the public doors."""
    inside = [
        f"{name_of(path)}:{node.lineno} {ast.unparse(node)}"
        for path in sources("tests")
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr) and ast.unparse(node.value) not in OWN
        if node.attr not in PUBLIC_IN_SPITE_OF_ITS_NAME
    ]
    yield Figure("private names that tests use of others", str(len(inside)), "0", inside)
    patched = [
        f"{name_of(path)}:{node.lineno} {ast.unparse(node.args[0])}"
        for path in sources("tests")
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and _calls(node, {"setattr"})
        and node.args
        and isinstance(node.args[0], ast.Constant)
    ]
    yield Figure("patches by dotted path", str(len(patched)), "0", patched)


OWN = ("self", "cls", "super()")
PUBLIC_IN_SPITE_OF_ITS_NAME = ("_replace", "_exit")
"""Of a NamedTuple and of the module `os`. A constant of a library, such as `KafkaError._TIMED_OUT`, is none of ours."""


def words() -> Iterator[Figure]:
    architecture = (ROOT / "streamer/ARCHITECTURE.md").read_text(encoding="utf-8")
    yield Figure("words of ARCHITECTURE.md", f"{len(architecture.split()):,}", "3,000")
    pages = [architecture, *(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("glossary.md")))]
    yield Figure("rows of the glossary", str(sum(map(_rows_of_words, pages))), "15")


def _rows_of_words(text: str) -> int:
    """Rows of the table below the heading `Words` or `Glossary`, without its head."""
    section = re.search(r"^#+ (?:Words|Glossary)\b.*?(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\|.*\|$", section[0], re.MULTILINE) if section else []
    return max(len(rows) - 2, 0)


def main() -> None:
    lists = "--list" in sys.argv
    print(f"{'figure':64} {'now':>24} {'target':>24}")
    for part in (size, way_of_an_insert, changing_state, laws_written_once, tests, words):
        for figure in part():
            print(f"{figure.what:64} {figure.now:>24} {figure.target:>24}")
            if lists or len(figure.found) <= 10:
                for one in figure.found:
                    print(textwrap.indent(one, "    "))


if __name__ == "__main__":
    main()
