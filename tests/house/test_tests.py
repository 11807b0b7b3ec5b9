"""The rules of the tests' own house, read off their source: what the gate stands for, how tests reach in.

A test stands by its kind and its price: unit/ (seconds; by folders of streamer/ and agents/, a file for an idea),
laws/, papers/, simulation/, golden/, servers/ (a real Kafka and Redis), drills/, house/; what several tests stand in is
built in worlds/. `make test` is the gate, `make night` the rest.
"""

from __future__ import annotations

import ast
import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from docs.generate.commands import all_commands
from streamer.cli.main import COMMANDS
from worlds.checkout import ROOT
from worlds.covering import covering, covering_pairs, parts_of
from worlds.durations import ALONE, WRITTEN, longest_first, written_down
from worlds.golden_cases import ASK_NO_SERVER
from worlds.small_tables import MODEL_TABLES
from worlds.source_code import modules, must_be_empty, name_of, nodes, sources

FAULTS = {
    "a killed worker", "a frozen worker", "a message that ends its worker", "refused messages",
    "a killed Redis", "a frozen Redis", "lost keys of Redis", "a killed Kafka", "a frozen Kafka",
    "a lost answer of Kafka", "a writer that was shut out",
    "lost topics", "a recreated input", "a recreated output", "a secured Kafka", "a secured Redis",
}  # fmt: skip
"""What goes wrong around a worker, each on real servers once in `make test`."""


def at_the_gate() -> set[str]:
    """What tests on servers that `make test` runs stand for."""
    return {
        argument.value
        for path in sources("tests")
        for node in nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.gate"
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def test_the_gate_takes_every_command_to_real_servers_once() -> None:
    asking = {
        name
        for name, command in all_commands()
        if name not in ASK_NO_SERVER and any(one.name in ("kafka", "redis") for one in command.params)
    }
    assert len(asking) > 10
    must_be_empty(sorted(asking - at_the_gate()), "no test marked `gate` stands for these commands:")


def test_the_gate_meets_every_class_of_faults_once() -> None:
    must_be_empty(sorted(FAULTS - at_the_gate()), "no test marked `gate` stands for these faults:")


def test_a_command_that_a_test_starts_can_be_interrupted_although_the_tests_were_told_to_ignore_that() -> None:
    """As in `make test &` of a script, and under nohup."""
    started = "import signal; print(int(signal.getsignal(signal.SIGINT) == signal.SIG_IGN))"
    tests = f"import conftest, subprocess, sys; subprocess.run([sys.executable, '-c', {started!r}], check=True)"
    done = subprocess.run(
        [sys.executable, "-c", tests],
        cwd=ROOT / "tests", env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}, capture_output=True, text=True, timeout=120,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    assert done.stdout.strip() == "0", done.stderr


def test_what_took_longest_is_begun_first_file_by_file(tmp_path: Path) -> None:
    seconds = {"gate": {"a.py::one": 1.0, "b.py::one": 2.0, "b.py::two": 2.0}, "night": {f"{ALONE}c.py::one": 3.0}}
    (tmp_path / "durations").write_text(json.dumps(seconds))
    items: list[Any] = [
        SimpleNamespace(nodeid=test)
        for test in ("new.py::one", *seconds["gate"], f"{ALONE}d.py::one", f"{ALONE}c.py::one")
    ]
    longest_first(items, tmp_path / "durations")
    assert [item.nodeid for item in items] == [
        "b.py::one", "b.py::two", f"{ALONE}d.py::one", f"{ALONE}c.py::one", "a.py::one", "new.py::one"
    ]  # fmt: skip


QUICK_SECONDS_MAX = 130
"""Of all quick tests together. Two processors do them in a minute, and take another one to collect them."""

GATE_MINUTES_MAX, GATE_PROCESSES = 12, 3


def test_the_quick_tests_stay_within_two_minutes_and_the_gate_within_twelve() -> None:
    """By the last run that the night has written down."""
    found = json.loads(WRITTEN.read_text(encoding="utf-8"))
    assert 0 < found["quick"] <= QUICK_SECONDS_MAX
    assert 0 < found["gate"] / GATE_PROCESSES <= 60 * GATE_MINUTES_MAX


def test_what_is_not_quick_is_written_down_as_slow() -> None:
    seconds = {
        "quick": {"a.py::one": 1.04, "a.py::two": 0.09},
        "gate": {"b.py::one": 9.0},
        "night": {"c.py::one": 99.0},
    }
    assert written_down(seconds) == {"quick": 0, "gate": 10, "slow": {"a.py::one": 1.04, "b.py::one": 9.0}}


def test_the_gate_meets_each_demand_and_each_shape_and_is_the_same_each_time() -> None:
    chosen = covering(MODEL_TABLES, parts_of)
    assert chosen == covering(dict(MODEL_TABLES), parts_of)
    assert len(chosen) < len(MODEL_TABLES)
    met = {part for name in chosen for part in parts_of(MODEL_TABLES[name])}
    assert met == {part for small in MODEL_TABLES.values() for part in parts_of(small)}
    assert {part[0] for part in met} >= {"shape", "individuals", "table", "column", "law"}


@pytest.mark.parametrize(("rows", "columns"), [(8, 10), (3, 4), (12, 3), (2, 2)])
def test_the_gate_has_each_row_of_a_product_with_three_columns_and_each_column_with_two_rows(
    rows: int, columns: int
) -> None:
    names, models = [f"row {i}" for i in range(rows)], [f"column {i}" for i in range(columns)]
    pairs = covering_pairs(names, models)
    assert pairs <= {(name, model) for name in names for model in models}
    assert min(Counter(name for name, _ in pairs)[one] for one in names) >= min(3, columns)
    assert min(Counter(model for _, model in pairs)[one] for one in models) >= min(2, rows)


def known_to_tests() -> set[str]:
    """Every module that a file of tests imports or names, also as a command or as a process of its own.

    Rules of the house name modules without testing them.
    """
    named: set[str] = set()
    for path in {*sources("tests")} - {*sources("tests/house")}:
        for node in nodes(path):
            named |= {*imported_names(node), *words_of(node)}
    dotted = {word.removesuffix(":").rpartition(".")[0] for word in named} | named
    return dotted | {COMMANDS[name.partition(" ")[0]].module for name, _ in all_commands()}


def words_of(node: ast.AST) -> list[str]:
    """The words of a text."""
    return node.value.split() if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def imported_names(node: ast.AST) -> list[str]:
    """Every module that an import may stand for: `from a import b` imports a, and a.b where that is one."""
    return [
        *imported_modules(node),
        *(f"{node.module}.{alias.name}" for alias in getattr(node, "names", ()) if isinstance(node, ast.ImportFrom)),
    ]


def test_tests_know_every_module() -> None:
    unknown = {module for module, path in modules().items() if path.name != "__init__.py"} - known_to_tests()
    must_be_empty(sorted(unknown), "no test imports or names these modules:")


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
