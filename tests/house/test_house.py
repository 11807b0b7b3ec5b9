"""The rules of the house, read off the source: who may import what, what pure rooms may call, names, sizes.

One test per rule. A failure lists every place that breaks it, as `file:line what`. `make house` prints the figures.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from worlds.checkout import ROOT
from worlds.source_code import (
    classes,
    constants,
    functions,
    imports,
    lines_of,
    module_of,
    modules,
    must_be_empty,
    name_of,
    nodes,
    of_one_neighbour,
    sources,
)

ALL = sources("streamer", "agents")

# The rooms from the ground up. A module imports its own room, and those that stand before it in the line of its wing;
# the commands stand on both wings, and so do the agents, which import nothing of the commands.
GROUND = (
    "streamer.errors", "streamer.progress", "streamer.shown", "streamer.uninterrupted", "streamer.native",
    "streamer.table", "streamer.kernels", "streamer.privacy",
)  # fmt: skip
INCREMENTAL = (
    *(
        f"streamer.incremental.{room}"
        for room in (
            "topics", "remedies", "connect", "release", "events", "formats", "core", "engine", "sealed", "estimate",
            "checks", "store", "shard", "message_files", "verification", "replay", "forecast",
        )
    ),
    "streamer.kafka", "streamer.status", "streamer.reader", "streamer.copies",
)  # fmt: skip
RECODING = (
    *(
        f"streamer.recoding.{room}"
        for room in ("algorithms", "metrics", "publication", "fragments", "report", "costs", "frame", "comparison")
    ),
    "streamer.engines", "streamer.spark",
)  # fmt: skip

# Where the wings meet, then the loading of tables, the erasure of rows and the audit of what is published, then the
# commands and the agents, which know nothing of each other.
MEETING = ("streamer.native.examples", "streamer.native.build", "streamer.grouping", "streamer.worker")
ABOVE = (
    *MEETING,
    "streamer.loading",
    "streamer.erasure",
    "streamer.audit",
    "streamer.checking",
    "streamer.cli",
    "agents",
)

# Whatever is not named here holds values and functions of values only.
SHELLS = (
    "streamer/native/", "streamer/kafka/",
    "streamer/table/files.py", "streamer/table/csv_files.py", "streamer/table/parquet_files.py",
    "streamer/table/sources.py", "streamer/table/workbooks.py", "streamer/table/key_files.py",
    "streamer/table/yaml/loading.py", "streamer/table/draft/",
    "streamer/incremental/store/redis.py", "streamer/incremental/store/redis_server.py",
    "streamer/incremental/store/redis_lookups.py", "streamer/incremental/store/memory.py",
    "streamer/incremental/shard/commit.py", "streamer/status/collect.py",
    "streamer/incremental/message_files.py", "streamer/reader.py",
    "streamer/incremental/replay.py", "streamer/incremental/forecast.py",
    "streamer/recoding/frame.py", "streamer/recoding/report/",
)  # fmt: skip
IMPURE_MODULES = {
    "aiokafka", "asyncio", "confluent_kafka", "faust", "http", "httpx", "io", "kafka", "logging", "multiprocessing",
    "os", "random", "redis", "requests", "secrets", "shutil", "socket", "subprocess", "sys",
    "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip
VALUES_OF_IMPURE_MODULES = {
    "io.BytesIO",
    "io.StringIO",
    "uuid.UUID",
}  # bytes and texts in memory, which the libraries of Avro and CSV take as files; a name
IMPURE_CALLS = {"open", "print", "input", "breakpoint", "exec", "eval"}
IMPURE_METHODS = {"now", "utcnow", "today", "read_text", "read_bytes", "write_text", "write_bytes"}

# Library -> the only places that may import it. Whole folders end with a slash.
HOMES = {
    "httpx": ("streamer/kafka/",),
    "redis": ("streamer/incremental/store/",),
    "kafka": ("streamer/kafka/", "streamer/reader.py"),
    "faust": ("agents/",),
    "mode": ("agents/",),
    "aiokafka": ("agents/",),
    "confluent_kafka": ("streamer/kafka/",),
    "aiohttp": ("agents/web/",),
    "prometheus_client": ("agents/web/",),
    "sqlalchemy": ("streamer/table/sources.py",),
    "psycopg": ("streamer/table/sources.py",),
    "pymysql": (),
    "python_calamine": ("streamer/table/workbooks.py",),
    "fastavro": ("streamer/incremental/events/", "streamer/incremental/formats/"),
}
VAGUE_NAMES = {
    "common", "data", "group", "helper", "helpers", "key", "manager", "misc", "partition", "tool", "tools", "util",
    "utils",
}  # fmt: skip
FUNCTION_LINES_MAX, MODULE_LINES_MAX, SHORT_MODULE_LINES = 70, 800, 150

# Short modules that only one neighbour in their folder imports, each with the reason why it is no part of that one.
STANDS_ALONE: dict[str, str] = {
    "agents.servers": "Kafka and Redis as one part, which tests replace",
    "streamer.native.examples": "what is compiled, apart from how",
    "streamer.native.program": "one of the five parts of the translator",
}
STAND_ALONE_MAX = 3


def is_within(path: Path, homes: tuple[str, ...]) -> bool:
    return any(name_of(path) == home or (home.endswith("/") and name_of(path).startswith(home)) for home in homes)


def pure_sources() -> list[Path]:
    rooms = ("table", "kernels", "privacy", "incremental", "recoding", "audit")
    return [path for path in sources(*(f"streamer/{room}" for room in rooms)) if not is_within(path, SHELLS)]


def rooms_of(line: tuple[str, ...], module: str) -> int | None:
    """The number of the room in a line of rooms that holds a module, the narrowest one; None where none does."""
    inside = [i for i, room in enumerate(line) if module == room or module.startswith(f"{room}.")]
    return max(inside, key=lambda i: len(line[i]), default=None)


def wrong_imports(paths: Iterable[Path], is_wrong: Callable[[Path, str], object]) -> list[str]:
    return [
        f"{name_of(path)}:{line} imports {module}"
        for path in paths
        for line, module in imports(path)
        if is_wrong(path, module)
    ]


def wrong_nodes(paths: Iterable[Path], is_wrong: Callable[[ast.AST], bool]) -> list[str]:
    return [
        f"{name_of(path)}:{getattr(node, 'lineno', 0)} {ast.unparse(node)}"
        for path in paths
        for node in nodes(path)
        if is_wrong(node)
    ]


def top(module: str) -> str:
    return module.split(".")[0]


def test_pure_rooms_import_no_clock_no_io_no_logging_no_chance() -> None:
    broken = wrong_imports(
        pure_sources(),
        lambda _, module: top(module) in IMPURE_MODULES and module not in VALUES_OF_IMPURE_MODULES,
    )
    must_be_empty(broken, "pure rooms hold values and functions of values only:")


def test_pure_rooms_call_no_clock_no_io() -> None:
    broken = wrong_nodes(pure_sources(), is_impure_call)
    must_be_empty(broken, "time enters a pure room as an event, files as text, results as values:")


def is_impure_call(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in IMPURE_CALLS
    return isinstance(node.func, ast.Attribute) and node.func.attr in IMPURE_METHODS


def test_chance_in_pure_rooms_is_seeded_and_handed_in() -> None:
    """Allowed: `default_rng(seed)` and the types `Generator` and `SeedSequence`; not numpy's global generator."""
    broken = wrong_nodes(pure_sources(), draws_unseeded)
    must_be_empty(broken, "the same events must give the same table, so chance needs a seed:")


def draws_unseeded(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "default_rng":
        return not (node.args or node.keywords)
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) in {"np.random", "numpy.random"}:
        return node.attr not in {"default_rng", "Generator", "SeedSequence"}
    return False


def test_every_library_is_imported_in_its_own_home_alone() -> None:
    broken = wrong_imports(ALL, lambda path, module: top(module) in HOMES and not is_within(path, HOMES[top(module)]))
    must_be_empty(broken, f"servers are reached from one place each ({HOMES}):")


@pytest.mark.parametrize(("wing", "other"), [("incremental", "recoding"), ("recoding", "incremental")])
def test_the_wings_do_not_know_each_other(wing: str, other: str) -> None:
    broken = wrong_imports(sources(f"streamer/{wing}"), lambda _, module: module.startswith(f"streamer.{other}"))
    must_be_empty(broken, "where the wings meet, one is handed to the other as a function:")


@pytest.mark.parametrize(
    "line", [(*GROUND, *INCREMENTAL, *ABOVE), (*GROUND, *RECODING, *ABOVE)], ids=["incremental", "recoding"]
)
def test_no_arrow_of_the_house_runs_up(line: tuple[str, ...]) -> None:
    """So there is no circle either."""

    def runs_up(path: Path, module: str) -> bool:
        room, other = rooms_of(line, module_of(path)), rooms_of(line, module)
        return room is not None and other is not None and other > room

    must_be_empty(wrong_imports(ALL, runs_up), f"a room stands on those before it ({', '.join(line)}):")


def test_the_core_knows_nothing_that_may_not_decide() -> None:
    """Cells, numbers of values and of individuals, lots: no codes, no source keys, no names, no texts of events."""
    tables = ("streamer.table.arrays", "streamer.table.space", "streamer.table.hierarchy")
    allowed = ("streamer.incremental.core", *tables, "streamer.errors", "streamer.native", "streamer.kernels")
    broken = wrong_imports(
        sources("streamer/incremental/core"),
        lambda _, module: top(module) == "streamer" and rooms_of(allowed, module) is None,
    )
    must_be_empty(broken, "what the core cannot see cannot decide what is published:")


def test_every_module_stands_in_a_room() -> None:
    line = (*GROUND, *INCREMENTAL, *RECODING, *ABOVE)
    lost = [name_of(path) for path in ALL if path.name != "__init__.py" and rooms_of(line, module_of(path)) is None]
    must_be_empty(lost, "the line of the rooms does not name where these stand:")


def test_streamer_never_imports_agents() -> None:
    broken = wrong_imports(sources("streamer"), lambda _, module: top(module) == "agents")
    must_be_empty(broken, "agents/ stands on streamer/, never the other way round:")


def test_agents_import_nothing_of_the_commands() -> None:
    broken = wrong_imports(sources("agents"), lambda _, module: f"{module}.".startswith("streamer.cli."))
    must_be_empty(broken, "what both need stands below both:")


@pytest.mark.parametrize("room", ["agents", "streamer.cli"])
def test_no_folders_of_a_room_stand_in_a_circle(room: str) -> None:
    """Each as a whole, and the modules beside them."""
    needs: dict[str, set[str]] = defaultdict(set)
    for module, path in modules().items():
        for _, name in imports(path):
            mine, other = part_of(room, module), part_of(room, name)
            if mine and other and mine != other:
                needs[mine].add(other)
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other: {' <- '.join(error.args[1])}")


def part_of(room: str, name: str) -> str:
    """The folder of a room, or the module beside it, that a dotted name leads into; empty for what is elsewhere."""
    inside, _, below = name.partition(f"{room}.")
    return "" if inside else below.partition(".")[0]


def test_laws_are_raised_not_asserted() -> None:
    broken = wrong_nodes(ALL, lambda node: isinstance(node, ast.Assert))
    must_be_empty(broken, "`python -O` drops assertions, and with them the laws: use raise")


def test_functions_fit_on_a_screen() -> None:
    broken = [
        f"{name_of(path)}:{function.lineno} {function.name} has {length} lines"
        for path in ALL
        for function in functions(path)
        if (length := (function.end_lineno or function.lineno) - function.lineno + 1) > FUNCTION_LINES_MAX
    ]
    must_be_empty(broken, f"a function has at most {FUNCTION_LINES_MAX} lines:")


def test_modules_are_as_long_as_their_idea() -> None:
    broken = [f"{name_of(path)} has {lines} lines" for path in ALL if (lines := lines_of(path)) > MODULE_LINES_MAX]
    must_be_empty(broken, f"a module has at most {MODULE_LINES_MAX} lines:")


def test_what_only_one_neighbour_imports_is_part_of_it() -> None:
    """A module of 150 lines and more has an idea of its own."""
    found = {one: of for one, of in of_one_neighbour().items() if lines_of(modules()[one]) < SHORT_MODULE_LINES}
    broken = [f"{module} is imported by {one} alone" for module, one in found.items() if module not in STANDS_ALONE]
    must_be_empty(broken, "an idea is one module; exceptions are named with their reason:")
    assert len(STANDS_ALONE) <= STAND_ALONE_MAX
    must_be_empty([*(STANDS_ALONE.keys() - found.keys())], "these need no exception any more:")


def test_a_class_has_a_name_of_its_own() -> None:
    broken = [f"{name}: {', '.join(places)}" for name, places in sorted(classes().items()) if len(places) > 1]
    must_be_empty(broken, "one word means one thing everywhere:")


def test_a_constant_has_one_value_everywhere() -> None:
    broken = [
        f"{name}: {', '.join(f'{value} at {place}' for value, places in values.items() for place in places)}"
        for name, values in sorted(constants().items())
        if len(values) > 1
    ]
    must_be_empty(broken, "two limits have two names:")


def test_files_say_what_they_hold() -> None:
    broken = [name_of(path) for path in ALL if path.stem in VAGUE_NAMES]
    must_be_empty(broken, f"these file names say nothing: {', '.join(sorted(VAGUE_NAMES))}:")


def project_texts() -> Iterator[tuple[str, str]]:
    """Every text file of the checkout that is, or is about to be, part of the project."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("not a git checkout: which files belong to the project is unknown")
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file():
            yield name, path.read_bytes().decode("utf-8", errors="replace")


# Put together here, so that this file does not break its own rule.
REGISTRY_HOSTS = [".".join(words) for words in (
    ("pypi", "org"), ("pythonhosted", "org"), ("repo", "maven", "apache", "org"), ("repo1", "maven", "org"),
    ("registry", "npmjs", "org"), ("docker", "io"),
)]  # fmt: skip
ELSEWHERE = re.compile(r"(?<![\w.-])/(?:work|root|home/\w+)/|" + "|".join(map(re.escape, REGISTRY_HOSTS)))


def test_nothing_points_at_one_machine_or_one_registry() -> None:
    broken = [
        f"{name}:{text.count(chr(10), 0, found.start()) + 1} {found[0]}"
        for name, text in project_texts()
        for found in ELSEWHERE.finditer(text)
    ]
    must_be_empty(broken, "the project must work anywhere, through whatever registry is configured:")


@pytest.mark.parametrize(
    ("line", "breaks"),
    [
        ("np.random.shuffle(rows)", True),
        ("np.random.default_rng()", True),
        ("np.random.default_rng(7)", False),
        ("generator.integers(5)", False),
    ],
)
def test_the_rule_on_chance_tells_seeded_from_unseeded(line: str, breaks: bool) -> None:
    assert any(draws_unseeded(node) for node in ast.walk(ast.parse(line))) is breaks


@pytest.mark.parametrize(("line", "breaks"), [("datetime.now()", True), ("open(path)", True), ("node.open", False)])
def test_the_rule_on_calls_tells_io_from_values(line: str, breaks: bool) -> None:
    assert any(map(is_impure_call, ast.walk(ast.parse(line)))) is breaks


def test_a_worker_has_no_data_frames_in_memory() -> None:
    """pandas and pyarrow take 80 MB, which every worker would pay."""
    command = "import sys, agents.app, streamer.cli.operate.worker; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True, cwd=ROOT)
    assert {"pandas", "pyarrow"}.isdisjoint(done.stdout.split())
