"""What a machine pays on which nothing is compiled yet, and what a process pays where everything is.

An empty folder for machine code is filled by `streamer warm --core float32`, in a process of its own. Another process
then loads what is there, and two more play one stream of changes, uncompiled and compiled: their tables must be equal.

    python benchmarks/cold.py [--plain] [--quick] [--json]
    python benchmarks/cold.py --whole [--json]

--plain: the same without `streamer.numba_support.linking`, as numba compiles everybody's functions, which is what a
numba that lacks one of the names used there comes to; the tables must be equal again. --quick leaves the folder as it
is: what is compiled already is not compiled again.

--whole: from an empty machine to the demo's verdict, as `make demo` in a copy of the last commit with no cache; wall
seconds of each stage. What it downloads is downloaded first, by itself: `download_s`. The rest takes it from there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from streamer.incremental.events.changes import Delete, Insert, Modify
from streamer.table.attributes import CategoricalAttribute, NumericAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.row import Row
from streamer.table.schema import KeptColumn, Table

K, CELLS, ATTRIBUTES = 5, 50, 4
ROWS = 600
EVENTS, EVENTS_UNCOMPILED = 20_000, 200
QUICK_EVENTS, QUICK_EVENTS_UNCOMPILED = 500, 50


PLAIN = "import runpy, sys; sys.modules['streamer.numba_support.linking'] = None; del sys.argv[0]; "
"""What a process begins with in which that module cannot be imported; what it is to run follows."""


def compiling(plain: bool = False) -> dict[str, Any]:
    """Wall and CPU seconds of `streamer warm`, by entry and in all, and its largest memory."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    run = ["-c", PLAIN + "runpy.run_module(sys.argv[0], run_name='__main__')"] if plain else ["-m"]
    said = child(*run, "streamer.cli.main", "warm", "--core", "float32", "--json")
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter() - began
    return {
        "compile_s": round(seconds, 2),
        "compile_cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
        "compile_s_by_entry": said["sets"][0]["seconds"],
        "compile_mb": after.ru_maxrss // 1024,
    }


def loading() -> dict[str, Any]:
    """In this process: numba's import, then the machine code of every entry from the disk."""
    from streamer.incremental.core.step import warming_calls
    from streamer.numba_support.jit import compile_for

    calls = list(warming_calls("float32"))
    began = perf_counter()
    import numba  # noqa: F401

    imported = perf_counter()
    compiled = sum(compile_for(entry, arguments) for entry, arguments in calls)
    return {
        "import_numba_s": round(imported - began, 3),
        "load_s": round(perf_counter() - imported, 3),
        "not_on_disk": compiled,
    }


def playing(events: int) -> dict[str, Any]:
    """In this process: CPU time per event, applied and drained in batches of 50, after the first calls; the table."""
    from streamer.incremental.engine.engine import Engine

    engine, random = Engine(people()), np.random.default_rng(7)
    for i in range(ROWS):
        engine.apply(Insert(f"{i}", row(random)))
    engine.drain()
    spent = process_time()
    for i in range(events):
        engine.apply(change(i, random))
        if i % 50 == 49:
            engine.drain()
    engine.drain()
    spent = process_time() - spent
    rows, codes = engine.source_rows()
    table = repr((sorted(zip(map(str, rows), codes.tolist(), strict=True)), engine.n_qi_groups))
    digest = blake2b(table.encode(), digest_size=8).hexdigest()
    return {"us_per_event": round(spent / events * 1e6, 1), "table": digest}


def people() -> Table:
    """Two numbers and two categories."""
    one = Decimal(1)
    tree = Hierarchy.from_rows([(f"{leaf}", f"of {leaf // 10}", "*") for leaf in range(CELLS)])
    numbers = [NumericAttribute(name, (Decimal(0), Decimal(CELLS - 1)), one, one, Decimal(10)) for name in "ab"]
    categories = [CategoricalAttribute(name, tree, Decimal(10)) for name in "cd"]
    return Table("people", ("id",), (*numbers, *categories), (KeptColumn("problem", sensitive=True),), K)


def row(random: np.random.Generator) -> Row:
    codes = np.clip(random.normal(25, 10, ATTRIBUTES), 0, CELLS - 1).astype(int)
    return Row(tuple(codes.tolist()), (b'"flu"',))


def change(i: int, random: np.random.Generator) -> Insert | Delete | Modify:
    """Thirds: one comes, the oldest goes, one moves along an attribute."""
    n, what = divmod(i, 3)
    if what == 0:
        return Insert(f"{ROWS + n}", row(random))
    if what == 1:
        return Delete(f"{n}")
    return Modify(f"{n + ROWS // 2}", codes={int(random.integers(ATTRIBUTES)): int(random.integers(CELLS))})


def child(*words: str, **environment: str) -> Any:
    """What a process of its own prints, as JSON."""
    done = subprocess.run(
        [sys.executable, *words], env={**os.environ, **environment}, check=True, stdout=subprocess.PIPE
    )
    return json.loads(done.stdout)


def part(name: str, *words: str, **environment: str) -> Any:
    """A part of this benchmark in a process of its own."""
    return child(__file__, "--part", name, *words, **environment)


def plainly(events: int, few: int) -> dict[str, Any]:
    """The same compiled without linking, in a folder of its own; few: events that are played uncompiled, too."""
    run = ["-c", PLAIN + "runpy.run_path(sys.argv[0], run_name='__main__')", __file__, "--part", "playing"]
    with TemporaryDirectory(prefix="streamer-cold-") as empty:
        os.environ["NUMBA_CACHE_DIR"] = empty
        figures = compiling(plain=True)
        if child(*run, str(few))["table"] != part("playing", str(few), NUMBA_DISABLE_JIT="1")["table"]:
            raise RuntimeError("uncompiled and compiled without linking, one stream of changes came to two tables")
        figures["compiled_us_per_event"] = child(*run, str(events))["us_per_event"]
    return {f"plain_{name}": figure for name, figure in figures.items()}


ROOT = Path(__file__).resolve().parents[1]
OWN = ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "PYTHONPATH", "VIRTUAL_ENV", "PIP_CACHE_DIR")
"""Variables of a machine that the empty one has not, or has of its own."""

STAMPS = {"made": "make_venv_s", "libraries": "install_base_s", "workers' libraries": "install_demo_s"}
"""What `.ci/venv` calls its steps, and what they are called here."""


def whole() -> dict[str, Any]:
    """Seconds of each stage from nothing to the demo's verdict, in folders of its own; CPU seconds of all together."""
    with TemporaryDirectory(prefix="streamer-cold-") as empty:
        folder = Path(empty)
        copy = folder / "streamer"
        subprocess.run(["git", "clone", "--quiet", ROOT, copy], check=True)
        pip = {name: value for name, value in os.environ.items() if name not in OWN}
        environment = {**pip, "HOME": empty, "XDG_CACHE_HOME": f"{empty}/cache"}
        began = perf_counter()
        download = "-m pip download --quiet --require-hashes -r requirements/demo.txt --dest wheels"
        subprocess.run([sys.executable, *download.split()], cwd=copy, env=environment, check=True)
        figures: dict[str, Any] = {"download_s": round(perf_counter() - began, 1)}
        environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(copy / "wheels"), "PYTHON": sys.executable}
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
        run = subprocess.run(["make", "demo"], cwd=copy, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter() - began
    [steps] = re.findall(r"\.venv is there: (.*)", run.stdout)
    figures |= {STAMPS[name]: int(took) for name, took in re.findall(r"(?:^|, )([a-z' ]+) (\d+) s", steps)}
    [(demo, waited)] = re.findall(r"The demo took (\d+) s; before, it waited (\d+) s", run.stdout)
    return figures | {
        "wait_for_compiler_s": int(waited),
        "demo_s": int(demo),
        "make_demo_s": round(seconds, 1),
        "make_demo_cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "verdict": "every law holds at every release" in run.stdout,
    }


def measured(quick: bool) -> dict[str, Any]:
    """All of it, over the folder that NUMBA_CACHE_DIR names."""
    events, few = (QUICK_EVENTS, QUICK_EVENTS_UNCOMPILED) if quick else (EVENTS, EVENTS_UNCOMPILED)
    figures = compiling() | part("loading")
    uncompiled = part("playing", str(few), NUMBA_DISABLE_JIT="1")
    same = part("playing", str(few))
    if uncompiled["table"] != same["table"]:
        raise RuntimeError("uncompiled and compiled, one stream of changes came to two tables")
    return figures | {
        "uncompiled_ms_per_event": round(uncompiled["us_per_event"] / 1e3, 2),
        "compiled_us_per_event": part("playing", str(events))["us_per_event"],
        "tables_equal": True,
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    arguments.add_argument("--plain", action="store_true")
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--whole", action="store_true")
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--part", choices=["loading", "playing"], help=argparse.SUPPRESS)
    arguments.add_argument("events", nargs="?", type=int, help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    parts: dict[str, Callable[[], dict[str, Any]]] = {"loading": loading, "playing": lambda: playing(chosen.events)}
    if chosen.part:
        print(json.dumps(parts[chosen.part]()))
        return
    if chosen.whole:
        report(whole(), chosen.json)
        return
    os.environ["PYTHONPATH"] = str(ROOT)
    with TemporaryDirectory(prefix="streamer-cold-") as empty:
        if not chosen.quick:
            os.environ["NUMBA_CACHE_DIR"] = empty
        figures = measured(chosen.quick)
    if chosen.plain:
        events, few = (QUICK_EVENTS, QUICK_EVENTS_UNCOMPILED) if chosen.quick else (EVENTS, EVENTS_UNCOMPILED)
        figures |= plainly(events, few)
    report(figures, chosen.json)


def report(figures: dict[str, Any], as_json: bool) -> None:
    if not as_json:
        show(figures)
    print(json.dumps(figures))


def show(figures: dict[str, Any]) -> None:
    table = RichTable("figure", "value", title="A cold machine, and a warm one")
    for name, figure in figures.items():
        table.add_row(name, json.dumps(figure))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
