"""The rules of the tests' own house, read off their source: which module is tested where, and how tests reach in.

A test stands by its kind and its price: unit/ (seconds; mirrors streamer/ and agents/), laws/, papers/, simulation/,
servers/ (a real Kafka and Redis), drills/, house/; what several tests stand in is built in worlds/.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from worlds.checkout import ROOT

TESTS = ROOT / "tests"

# Modules whose tests stand elsewhere than their name leads to: they need servers, or are parts of one whole.
ELSEWHERE = {
    "agents/anew/command.py": "servers/test_start_anew.py",
    "agents/anew/first_rows.py": "servers/test_start_anew.py",
    "agents/anew/load.py": "servers/test_start_anew.py",
    "agents/anew/reading.py": "servers/test_start_anew.py",
    "agents/anew/run.py": "servers/test_start_anew.py",
    "agents/anew/shards.py": "servers/test_start_anew.py",
    "agents/app.py": "servers/test_worker.py",
    "agents/cli.py": "servers/test_worker.py",
    "agents/control.py": "servers/test_skip.py",
    "agents/drift_look.py": "unit/agents/test_rebuilds.py",
    "agents/demo/command.py": "servers/test_demo.py",
    "agents/embedded.py": "servers/test_embedded.py",
    "agents/input_again.py": "servers/test_dead_letters.py",
    "agents/outlet.py": "servers/test_outlet.py",
    "agents/shard_input.py": "servers/test_outlet.py",
    "streamer/cli/check_data.py": "unit/cli/test_check.py",
    "streamer/cli/dead_letters.py": "servers/test_dead_letters.py",
    "streamer/cli/end_snapshot.py": "servers/test_first_snapshot.py",
    "streamer/cli/groups.py": "servers/test_status.py",
    "streamer/cli/index.py": "servers/test_index.py",
    "streamer/cli/produce.py": "servers/test_produce.py",
    "streamer/cli/rebuild.py": "servers/test_rebuild.py",
    "streamer/cli/skip.py": "servers/test_skip.py",
    "streamer/cli/status.py": "servers/test_status.py",
    "streamer/cli/topics.py": "servers/test_topics.py",
    "streamer/incremental/events/statement_assignments.py": "unit/incremental/events/test_statements.py",
    "streamer/incremental/store/base.py": "worlds/store_contract.py",  # a protocol: every store is held to it
    "streamer/incremental/store/redis.py": "servers/test_redis_store.py",
    "streamer/incremental/store/redis_lookups.py": "servers/test_redis_lookups.py",
    "streamer/incremental/store/redis_server.py": "servers/test_redis_store.py",
    "streamer/recoding/algorithms/group_index.py": "unit/recoding/algorithms/test_refine.py",
    "streamer/recoding/algorithms/kd_tree.py": "unit/recoding/algorithms/test_entropy.py",
    "streamer/table/yaml_faults.py": "unit/table/test_yaml_shape.py",
}

# Types, values and options without a rule of their own: nothing there can be wrong by itself.
NOTHING_TO_TEST = {
    "agents/kafka_calls.py",
    "agents/web/facts.py",
    "streamer/cli/options.py",
    "streamer/incremental/checks/contract.py",
    "streamer/incremental/groups/kept.py",
    "streamer/incremental/groups/outcome.py",
    "streamer/incremental/shard/input.py",
    "streamer/recoding/algorithms/contract.py",
    "streamer/recoding/report/provenance.py",
    "streamer/table/arrays.py",
}


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=name_of(path))))


def must_be_empty(broken: list[str], rule: str) -> None:
    assert not broken, "\n".join([rule, *(f"  {line}" for line in broken)])


def modules() -> list[str]:
    """Every module of both packages but those that only open a folder."""
    return [name_of(path) for path in sources("streamer", "agents") if path.name != "__init__.py"]


def home_of(module: str) -> str:
    """Where the tests of a module stand, below tests/."""
    folder, _, name = module.removeprefix("streamer/").rpartition("/")
    return ELSEWHERE.get(module, "/".join(filter(None, ("unit", folder, f"test_{name}"))))


def test_every_module_has_tests_that_its_name_leads_to() -> None:
    lost = [
        f"{module}: there is no tests/{home_of(module)}"
        for module in modules()
        if module not in NOTHING_TO_TEST and not (TESTS / home_of(module)).is_file()
    ]
    must_be_empty(lost, "whoever changes a module must find its tests without asking:")


def is_told_of(home: Path, module: str) -> bool:
    """Whether a file of tests, with the worlds that it stands in, imports a module or names it in a text.

    Named are modules that run in a process of their own, and commands.
    """
    dotted = module.removesuffix(".py").replace("/", ".")
    command = Path(module).stem.replace("_", "-") if module.startswith("streamer/cli/") else dotted
    for path in (home, *worlds_of(home)):
        imported = {name for node in nodes(path) for name in imported_names(node)}
        words = {word for node in nodes(path) for word in words_of(node)}
        if dotted in imported or command in words or any(f"{word}.".startswith(f"{dotted}.") for word in words):
            return True
    return False


def worlds_of(home: Path) -> list[Path]:
    imported = {name for node in nodes(home) for name in imported_modules(node)}
    return [path for path in sources("tests/worlds") if f"worlds.{path.stem}" in imported]


def words_of(node: ast.AST) -> list[str]:
    """The words of a text."""
    return node.value.split() if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def imported_names(node: ast.AST) -> list[str]:
    """Every module that an import may stand for: `from a import b` imports a, and a.b where that is one."""
    return [
        *imported_modules(node),
        *(f"{node.module}.{alias.name}" for alias in getattr(node, "names", ()) if isinstance(node, ast.ImportFrom)),
    ]


def test_tests_are_of_the_module_that_leads_to_them() -> None:
    broken = [
        f"tests/{home_of(module)} knows nothing of {module}"
        for module in modules()
        if module not in NOTHING_TO_TEST
        and (TESTS / home_of(module)).is_file()
        and not is_told_of(TESTS / home_of(module), module)
    ]
    must_be_empty(broken, "a file of tests must test what it is named for:")


def test_no_exception_outlives_its_module_or_its_reason() -> None:
    gone = [module for module in {*ELSEWHERE, *NOTHING_TO_TEST} if module not in modules()]
    tested = [
        module
        for module in NOTHING_TO_TEST
        if (TESTS / "unit" / module.removeprefix("streamer/")).with_name(f"test_{Path(module).name}").is_file()
    ]
    must_be_empty(gone + tested, "these modules are not there any more, or are tested after all:")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def is_through_two_doors(node: ast.AST) -> bool:
    """Whether an expression reads `a._b._c`, calls and subscripts between them or not."""
    if not (isinstance(node, ast.Attribute) and is_private(node.attr)):
        return False
    inner: ast.AST = node.value
    while isinstance(inner, ast.Call | ast.Subscript | ast.Attribute):
        if isinstance(inner, ast.Attribute) and is_private(inner.attr):
            return True
        inner = inner.func if isinstance(inner, ast.Call) else inner.value
    return False


@pytest.mark.parametrize(
    ("line", "breaks"),
    [("a._b._c", True), ("a._b(1).c[0]._d", True), ("a._b.c", False), ("a.b._c", False), ("a.__b__._c", False)],
)
def test_the_rule_on_private_names_counts_them(line: str, breaks: bool) -> None:
    assert any(map(is_through_two_doors, ast.walk(ast.parse(line)))) is breaks


def test_no_test_reaches_through_two_private_names() -> None:
    broken = [
        f"{name_of(path)}:{node.lineno} {ast.unparse(node)}"
        for path in sources("tests")
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and is_through_two_doors(node)
    ]
    must_be_empty(broken, "whoever needs what is two doors in needs a door:")


def imported_modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


def test_tests_share_what_is_in_worlds_and_never_import_one_another() -> None:
    broken = [
        f"{name_of(path)} imports {module}"
        for path in sources("tests")
        for node in nodes(path)
        for module in imported_modules(node)
        if any(part.startswith("test_") for part in module.split("."))
    ]
    must_be_empty(broken, "what two files of tests need is built in worlds/:")


# What these were called: a word of the domain, a word of nothing, the word for where the tests live.
UNTELLING = {"ward", "kept", "house", "stuff", "thing", "helper", "helpers", "util", "utils"}


def test_a_helper_is_named_for_what_it_is() -> None:
    broken = [
        f"{name_of(path)}:{node.lineno} {node.name}"
        for path in sources("tests")
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name.lower() in UNTELLING
    ]
    must_be_empty(broken, "these names do not say what they stand for:")
