"""Compiled functions: who loads the compiler and when, and how an entry goes from uncompiled to compiled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numba
import numpy as np
import pytest

from streamer.numba_support.cache import PACKAGE, folder
from streamer.numba_support.jit import borrowing, compiled, links
from worlds.compiling import said

STAND_IN = '''
"""A stand-in for the core: an entry made of parts."""
import json, sys
from typing import Any, NamedTuple
import numpy as np
from streamer.numba_support.jit import compile_for, entry, part, switching
from streamer.numba_support.cache import mark

class Column(NamedTuple):
    figures: Any

@part
def add_up(column, total) -> None:
    for i in range(column.figures.shape[0]):
        total[0] += float(column.figures[i]) / 3  # float: numpy alone would divide in float32

def set_of(column, total):
    return f"stand-in-{column.figures.dtype.name}"

@switching(set_of)
def step(column, total):
    add_up(column, total)

def figures(dtype="float32"):
    return Column(np.arange(1, 1001, dtype=dtype))

def run(dtype="float32"):
    total = np.zeros(1)
    step(figures(dtype), total)
    return float(total[0]).hex()

def uncompiled(dtype="float32"):
    total = np.zeros(1)
    add_up(figures(dtype), total)
    return float(total[0]).hex()

def warm(dtype="float32"):
    had_to = compile_for(step, (figures(dtype), np.zeros(1)))
    mark(set_of(figures(dtype), None))
    return had_to

def compiler():
    return "numba" in sys.modules

def say(*what):
    print(json.dumps(what))
'''


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    return tmp_path


def test_an_entry_runs_as_it_stands_until_its_machine_code_is_there_then_switches_with_the_same_results(
    stand_in: Path,
) -> None:
    script = """
        before = run(), compiler()
        had_to = warm()
        say(before, had_to, run(), step._there == {"stand-in-float32"}, uncompiled())
    """
    (first, loaded), had_to, second, switched, brute = said(stand_in, script)
    assert (loaded, had_to, switched) == (False, True, True)
    assert first == second == brute


def test_it_switches_between_two_calls_when_another_process_has_compiled(stand_in: Path) -> None:
    script = """
        import subprocess
        before = run(), len(step._there)
        subprocess.run([sys.executable, "-c", "from stand_in import *; warm()"], check=True)
        say(before, (run(), len(step._there)))
    """
    before, after = said(stand_in, script)
    assert (before[1], after[1]) == (0, 1)
    assert before[0] == after[0]


def test_where_the_machine_code_is_on_disk_it_is_loaded_not_compiled_again(stand_in: Path) -> None:
    assert said(stand_in, "say(warm())") == [True]
    script = """
        result = run()
        say(sum(step.dispatcher().stats.cache_hits.values()), len(step.dispatcher().stats.cache_misses), warm())
    """
    assert said(stand_in, script) == [1, 0, False]


def test_machine_code_for_other_figures_is_a_set_of_its_own(stand_in: Path) -> None:
    script = """
        warm("float32")
        run("float32")
        run("float64")
        say(sorted(step._there), len(step.dispatcher().stats.cache_misses))
    """
    assert said(stand_in, script) == [["stand-in-float32"], 1]


def test_where_a_set_is_marked_and_something_of_it_is_missing_nobody_waits_and_the_mark_goes(stand_in: Path) -> None:
    """A worker that compiled while it is called would be taken for one that hangs."""
    script = """
        from streamer.numba_support.cache import is_there
        import logging
        warned = []
        handler = logging.Handler()
        handler.emit = lambda record: warned.append(record.getMessage())
        logging.getLogger().addHandler(handler)
        mark("stand-in-float32")
        first = run(), is_there("stand-in-float32"), len(step.dispatcher().overloads)
        warm()
        say(first, uncompiled(), (run(), len(step._there)), warned)
    """
    (first, is_marked, compiled_there), brute, (second, switched), (warned,) = said(stand_in, script)
    assert (is_marked, compiled_there, switched) == (False, 0, 1)
    assert "the machine code of step is on disk and cannot be loaded" in warned
    assert first == second == brute


@pytest.mark.parametrize("kind", ["nbc", "nbi"])
@pytest.mark.parametrize("left", [0, 100])
def test_machine_code_that_is_damaged_on_disk_counts_as_missing_and_is_recreated(
    kind: str, left: int, stand_in: Path
) -> None:
    """Before: each call raised what numba raised, and a worker took its messages for the cause."""
    script = """
        from pathlib import Path
        from streamer.numba_support.cache import folder
        warm()
        files = list(Path(folder()).rglob("*.KIND"))
        for file in files:
            file.write_bytes(file.read_bytes()[:LEFT])
        say(len(files))
    """
    assert said(stand_in, script.replace("KIND", kind).replace("LEFT", str(left)))[0] > 0
    script = """
        from streamer.numba_support.cache import is_there
        say(run() == uncompiled(), is_there("stand-in-float32"), len(step._there))
    """
    assert said(stand_in, script) == [True, False, 0]
    assert said(stand_in, "say(warm(), run() == uncompiled(), len(step._there))") == [True, True, 1]


def test_machine_code_holds_when_its_package_is_copied_or_touched(stand_in: Path) -> None:
    """A checkout that is copied with its folder of machine code: numba by itself goes by path and time."""
    assert said(stand_in, "say(warm())") == [True]
    shutil.copytree(stand_in, copied := stand_in.parent / "copied")
    os.utime(copied / "stand_in.py")
    script = "say(run() == uncompiled(), len(step._there), len(step.dispatcher().stats.cache_misses))"
    assert said(copied, script) == [True, 1, 0]


MISSING = {
    "the class of libraries": "del numba.core.codegen.JITCodeLibrary",
    "an option": "del numba.core.cpu._options_mixin.forceinline",
}


@pytest.mark.parametrize("name", MISSING)
def test_where_numba_lacks_a_name_that_it_never_documented_it_compiles_as_for_everybody(
    name: str, stand_in: Path
) -> None:
    script = """
        from streamer.numba_support.jit import links
        import numba
        TAKE_AWAY
        say(warm(), run() == uncompiled(), len(step._there), links())
    """.replace("TAKE_AWAY", MISSING[name])
    assert said(stand_in, script) == [True, True, 1, False]


@pytest.mark.drill
@pytest.mark.timeout(3600)
def test_the_whole_core_compiled_as_for_everybody_comes_to_the_same_table() -> None:
    """Some minutes: three times as long as an entry and its parts as one."""
    command = [sys.executable, "benchmarks/cold.py", "--plain", "--quick", "--json"]
    figures = json.loads(subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, check=True).stdout)
    assert figures["tables_equal"]
    assert set(figures["plain_compile_s_by_entry"]) == {"advance", "restore"}


def test_told_to_compile_nothing_it_runs_as_it_stands_for_ever_and_never_loads_the_compiler(stand_in: Path) -> None:
    said(stand_in, "say(warm())")
    script = """
        import stand_in
        say(run() == uncompiled(), compiler(), stand_in.step.__class__.__name__, warm())
    """
    assert said(stand_in, script, NUMBA_DISABLE_JIT="1") == [True, False, "function", False]


def test_an_entry_that_does_not_switch_is_compiled_when_it_is_first_called_and_not_before(stand_in: Path) -> None:
    script = """
        @entry
        def three_times(total):
            add_up(Column(total), total)
        before = compiler()
        total = np.ones(1)
        three_times(total)
        say(before, compiler(), len(three_times.dispatcher().stats.cache_misses))
    """
    (stand_in / "stand_in.py").write_text(STAND_IN + dedent(script).replace("say(", "answer = ("))
    assert said(stand_in, "say(*answer)") == [False, True, 1]


def test_shards_in_two_threads_may_switch_at_the_same_moment(stand_in: Path) -> None:
    script = """
        from concurrent.futures import ThreadPoolExecutor
        expected = uncompiled()
        with ThreadPoolExecutor(4) as threads:
            results = [call.result() for call in [threads.submit(run) for _ in range(16)]]
        say(set(results) == {expected}, len(step._there), len(step.dispatcher().stats.cache_misses))
    """
    said(stand_in, "say(warm())")
    assert said(stand_in, script) == [True, 1, 0]


def test_other_peoples_compiled_functions_are_kept_where_they_were() -> None:
    before = numba.config.CACHE_DIR

    @compiled
    def twice(x: int) -> int:
        return 2 * x

    assert twice(21) == 42
    assert before == numba.config.CACHE_DIR
    assert Path(folder()).is_dir()


def test_a_function_that_borrows_may_read_its_arrays_and_may_not_make_one() -> None:
    @borrowing
    def sum_of(figures: np.ndarray) -> int:
        return int(figures[0] + figures[1])

    @borrowing
    def length_of_new(n: int) -> int:
        return np.empty(n).shape[0]

    assert sum_of(np.array([20, 22])) == 42
    if links():
        with pytest.raises(numba.errors.NumbaError, match="Only accept returning of array"):
            length_of_new(3)


@pytest.mark.parametrize(
    "module",
    [
        "streamer.reader",
        "streamer.incremental.core.scores",
        "streamer.incremental.core.layout",
        "streamer.cli.stream.replay",
        "streamer.cli.operate.status",
        "streamer.cli.batch.verify",
        "streamer.cli.batch.warm",
        "agents.app",
        "agents.shard_agent",
    ],
)
def test_who_compiles_nothing_does_not_wait_for_the_compiler(module: str) -> None:
    script = f"import sys, {module}; print('numba' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=PACKAGE.parent, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout.strip()) == (0, "False"), done.stderr


def test_one_thread_at_a_time_loads_numba(tmp_path: Path) -> None:
    """Shards make their first call at the same time: modules that two threads import at once are found half made."""
    script = """
        import sys, threading
        from streamer.numba_support import jit

        loading = threading.Thread(target=jit.Entry(lambda x: x).load, args=([1.0],))
        with jit._lock:
            loading.start()
            loading.join(1)
            print(json.dumps(loading.is_alive() and "numba" not in sys.modules))
        loading.join()
    """
    (tmp_path / "stand_in.py").write_text("import json")
    assert said(tmp_path, script) is True
