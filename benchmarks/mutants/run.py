"""How many small faults in recoding, in privacy, and in what a shard does and keeps, do the tests see?

cosmic-ray's operators (and one of our own that swaps names such as `min` and `max`) change a module in one place; the
tests that the module's name leads to are run on a copy of the checkout; a mutant that they all pass has survived.
`mutants.toml` has the tests, the operators, and the mutants that are equivalent, with the reasons.

Where loops are compiled, all runs uncompiled (STREAMER_NATIVE=off), so a mutant costs no compilation. Libraries are
imported once: each mutant runs in a fork. A module's own examples are tests, too. Tests run the quickest first; those
that take longer than `seconds_per_test_max` are left out, as the output says. Hypothesis draws its usual examples,
without shrinking what it finds.

    .venv/bin/python benchmarks/mutants/run.py [--sample N] [--json FILE] [MODULE ...]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text(encoding="utf-8"))

sys.path.append(str(Path(sys.prefix) / "cosmic-ray"))  # after the project's own libraries, where they share some

import hypothesis  # noqa: E402
import matplotlib.pyplot  # noqa: E402, F401
import pandas  # noqa: E402, F401
import pydantic  # noqa: E402, F401
import pytest  # noqa: E402
from cosmic_ray.ast import ast_nodes, get_ast  # noqa: E402
from cosmic_ray.mutating import mutate_code  # noqa: E402
from cosmic_ray.operators.operator import Operator  # noqa: E402
from cosmic_ray.plugins import get_operator, operator_names  # noqa: E402

SWAPS = {one: other for pair in SETTINGS["swaps"] for one, other in (pair, pair[::-1])}


class SwapNames(Operator):
    """Replaces a name by its opposite: `min` by `max`, `any` by `all`."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        if node.type == "name" and node.value in SWAPS and node.parent.type not in ("import_from", "param", "funcdef"):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        node.value = SWAPS[node.value]
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


@dataclass(frozen=True)
class Place:
    """Where an operator changes a module: its n-th occurrence, in a line."""

    line: int
    operator: str
    occurrence: int


@dataclass(frozen=True)
class Mutant:
    """A module with one change, and the line it was and became."""

    place: Place
    was: str
    became: str
    source: str


@cache
def operators() -> dict[str, Operator]:
    known = set(operator_names())
    missing = [name for name in SETTINGS["operators"] if f"core/{name}" not in known]
    if missing:
        raise SystemExit(f"mutants.toml names operators that cosmic-ray does not have: {missing}")
    return {**{name: get_operator(f"core/{name}")() for name in SETTINGS["operators"]}, "SwapNames": SwapNames()}


def is_left_alone(node: Any) -> bool:
    """Whether a node stands in a type, which nothing evaluates, in a decorator, in what is raised, or behind `.shape`.

    The first axis of an array is often its last as well.
    """
    child, parent = node, node.parent
    if parent.type == "parameters":  # a star between parameters, which no operator is
        return True
    while parent is not None:
        if parent.type in ("tfpdef", "annassign") and parent.children.index(child) > 0:
            return parent.type == "tfpdef" or child is parent.children[1]
        if parent.type == "funcdef" and parent.annotation is child:
            return True
        if parent.type in ("raise_stmt", "decorator"):
            return True
        if parent.type == "trailer" and parent.get_previous_sibling().get_code() == ".shape":
            return True
        child, parent = parent, parent.parent
    return False


def places_of(source: str) -> list[Place]:
    """Every place of every operator in a module, that is not left alone."""
    nodes = list(ast_nodes(get_ast(source)))
    return [
        Place(start[0], name, occurrence)
        for name, operator in operators().items()
        for occurrence, (node, (start, _)) in enumerate(
            (node, ends) for node in nodes for ends in operator.mutation_positions(node)
        )
        if not is_left_alone(node)
    ]


def mutant_at(place: Place, source: str) -> Mutant | None:
    """The module with this one change; None where that changes nothing."""
    changed = mutate_code(source, operators()[place.operator], place.occurrence)
    if changed is None or changed == source:
        return None
    was, became = (text.split("\n")[place.line - 1].strip() for text in (source, changed))
    return Mutant(place, was, became, changed)


class Quickest:
    """A plugin of pytest: measures the tests, or runs them in the order of what they took, without the longest."""

    def __init__(self, seconds: dict[str, float] | None = None) -> None:
        self.seconds: dict[str, float] = {} if seconds is None else seconds
        self.known = seconds is not None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.known:
            longest = SETTINGS["seconds_per_test_max"]
            items[:] = [item for item in items if self.seconds.get(item.nodeid, 0) <= longest]
            items.sort(key=lambda item: self.seconds.get(item.nodeid, 0))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = time.process_time()
        outcome = yield
        if not self.known:
            self.seconds[item.nodeid] = time.process_time() - before
        return outcome


def in_fork(copy: Path, tests: list[str], plugin: Quickest, seconds_max: int) -> str:
    """What the tests say of the copy: "survived", "killed", "timeout" (of the processor), or "broken" (no tests)."""
    out = copy / "output.txt"
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds_max, seconds_max + 5))  # whatever else the machine does
            os.chdir(copy)
            sys.dont_write_bytecode = plugin.known  # bytecode of the first run serves the others
            handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            options = ["-x", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--import-mode=importlib"]
            options += ["--doctest-modules"]
            options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is imported before the fork
            # Hashing wraps around, silently if compiled.
            options += ["-W", "ignore:overflow encountered:RuntimeWarning"]
            options += ["--hypothesis-profile=mutants", "-m", "not servers and not slow and not night"]
            options += ["-o", "timeout=0", "--rootdir", str(copy)]
            options += [f"--deselect={name}" for name in SETTINGS["tests_left_out"]]
            code = int(pytest.main([*options, *tests], plugins=[plugin]))
            if not plugin.known:
                (copy / "seconds.json").write_text(json.dumps(plugin.seconds), encoding="utf-8")
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return "timeout"
    return {0: "survived", 5: "broken"}.get(code, "killed")


def tests_of(module: str) -> list[str]:
    """The tests that a module's name leads to, those that mutants.toml adds, and the module's own examples."""
    own = "tests/unit" + module.removeprefix("streamer").rpartition("/")[0] + f"/test_{Path(module).name}"
    named = SETTINGS["tests"].get(module, [])
    examples = [module] if "\n    >>> " in (ROOT / module).read_text(encoding="utf-8") else []
    return [*([own] if (ROOT / own).is_file() else []), *named, *examples]


def copied(into: Path) -> Path:
    """A copy of the checkout, as far as its tests need it."""
    leave = shutil.ignore_patterns("__pycache__", "run")
    for folder in ("streamer", "agents", "tests", "benchmarks", "examples"):
        shutil.copytree(ROOT / folder, into / folder, ignore=leave)
    shutil.copy(ROOT / "pyproject.toml", into)
    return into


def is_equivalent(module: str, mutant: Mutant) -> bool:
    return any(
        entry["module"] == module and entry["was"] == mutant.was and mutant.became in entry["became"]
        for entry in SETTINGS.get("equivalent", [])
    )


def measured(copy: Path, tests: list[str]) -> Quickest:
    """The tests on the module as it is: they must pass; how long each takes, twice, the first with all imports."""
    seen = Quickest()
    if in_fork(copy, tests, seen, SETTINGS["seconds_of_baseline_max"]) != "survived":
        raise SystemExit(f"these tests fail on the code as it is: {tests}\n{(copy / 'output.txt').read_text()[-3000:]}")
    return Quickest(json.loads((copy / "seconds.json").read_text(encoding="utf-8")))


def score(module: str, copy: Path, sample: int | None, seed: int, lines: set[str] | None) -> dict[str, Any]:
    """Every mutant of a module, a seeded sample, or those of the lines that are named, against its tests."""
    path, tests = copy / module, tests_of(module)
    os.environ["STREAMER_NATIVE"] = "off" if module.startswith(tuple(SETTINGS["compiled"])) else ""
    source = path.read_text(encoding="utf-8")
    every = places_of(source)
    if lines is not None:
        text = source.split("\n")
        every = [place for place in every if text[place.line - 1].strip() in lines]
    chosen = every if sample is None else random.Random(f"{seed} {module}").sample(every, min(sample, len(every)))
    plugin = measured(copy, tests)
    longest = SETTINGS["seconds_per_test_max"]
    left_out = [name for name, seconds in plugin.seconds.items() if seconds > longest]
    whole = sum(seconds for seconds in plugin.seconds.values() if seconds <= longest)
    print(f"{module}: {len(chosen)} of {len(every)} mutants; the tests take {whole:.1f} s", flush=True)
    for name in left_out:
        print(f"  left out, longer than {longest} s: {name}", flush=True)
    for bytecode in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        bytecode.unlink()  # else a mutant of the same second and size would be taken for the module
    fates = dict.fromkeys(("killed", "timeout", "survived", "equivalent"), 0)
    survivors = []
    for place in sorted(chosen, key=lambda place: (place.line, place.operator, place.occurrence)):
        mutant = mutant_at(place, source)
        if mutant is None or is_equivalent(module, mutant):
            fates["equivalent"] += 1
            continue
        path.write_text(mutant.source, encoding="utf-8")
        fate = in_fork(copy, tests, plugin, int(5 + 3 * whole))
        path.write_text(source, encoding="utf-8")
        if fate == "broken":
            raise SystemExit(f"no test was run:\n{(copy / 'output.txt').read_text()[-3000:]}")
        fates[fate] += 1
        if fate == "survived":
            survivors.append({**asdict(place), "was": mutant.was, "became": mutant.became})
            print(f"  {place.line}  {mutant.was}\n    ->  {mutant.became}", flush=True)
    return {"module": module, "mutants": len(every), **fates, "tests_left_out": left_out, "survivors": survivors}


def modules() -> list[str]:
    """Every module of these rooms that holds a rule, in mutants.toml's order of rooms."""
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in SETTINGS["folders"]
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name != "__init__.py"
    ]
    return [module for module in found if module not in SETTINGS["nothing_to_test"] and tests_of(module)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="paths from the checkout; all without")
    parser.add_argument("--sample", type=int, metavar="N", help="at most N mutants of each module, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=Path, metavar="FILE", help="only the lines of the survivors in this --json")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the results go, survivors with their lines")
    asked = parser.parse_args()
    hypothesis.settings.register_profile(
        "mutants",
        max_examples=30,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    results = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = copied(Path(folder))
        former = {} if asked.again is None else {one["module"]: one for one in json.loads(asked.again.read_text())}
        for module in asked.modules or list(former) or modules():
            lines = {survivor["was"] for survivor in former[module]["survivors"]} if module in former else None
            results.append(score(module, copy, asked.sample, asked.seed, lines))
            if asked.json:
                asked.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print_table(results)


def print_table(results: list[dict[str, Any]]) -> None:
    print(f"\n{'module':58} {'all':>5} {'equal':>5} {'run':>5} {'seen':>5} {'score':>6}")
    for one in results:
        print_line(one["module"], [one])
    print_line("all", results)


def print_line(name: str, of: list[dict[str, Any]]) -> None:
    every, equal, survived = (sum(one[what] for one in of) for what in ("mutants", "equivalent", "survived"))
    seen = sum(one["killed"] + one["timeout"] for one in of)
    print(f"{name:58} {every:5} {equal:5} {seen + survived:5} {seen:5} {seen / max(seen + survived, 1):6.1%}")


if __name__ == "__main__":
    main()
