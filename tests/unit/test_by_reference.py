"""Named tuples that compiled functions get by reference (`streamer.by_reference`): the same as by value."""

from __future__ import annotations

from pathlib import Path

import pytest

from worlds.compiling import said

STAND_IN = '''
"""A tuple of arrays and of a tuple of arrays."""
import json
from typing import Any, NamedTuple
import numpy as np
from streamer.jit import by_reference, entry, part

class Sums(NamedTuple):
    total: Any
    even: Any

class Flat(NamedTuple):
    one: Any
    two: Any

@by_reference
class World(NamedTuple):
    figures: Any
    sums: Sums
    state: Any
    flat: Flat

@part
def add(sums, figure):
    sums.total[0] += figure
    if figure % 2 == 0:
        sums.even[0, 0] += figure

@part
def add_up(world):
    state = world.state[0]
    for i in range(world.figures.shape[0]):
        world.figures[i] += 1
        add(world.sums, world.figures[i])
        state.seen += 1
    world.flat.two[0] = world.flat.one[0] + world.figures[0]

@entry
def run(world):
    add_up(world)

@entry
def run_part(sums, figure):
    add(sums, figure)

def world(n):
    state = np.zeros(1, np.dtype([("seen", "i8")])).view(np.recarray)
    flat = Flat(np.full(1, 5), np.zeros(1, np.int64))
    return World(np.arange(n), Sums(np.zeros(1), np.zeros((1, 1))), state, flat)

def told(one):
    return [float(one.sums.total[0]), float(one.sums.even[0, 0]), int(one.state[0].seen), int(one.flat.two[0])]

def say(*what):
    print(json.dumps(what))
'''


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    return tmp_path


@pytest.mark.parametrize("disabled", ["0", "1"])
def test_what_parts_read_and_write_through_references_is_in_the_callers_arrays(disabled: str, stand_in: Path) -> None:
    script = """
        one = world(4)
        run(one)
        run(one)
        say(told(one), one.figures.tolist())
    """
    for _ in range(2):  # compiled, then loaded
        assert said(stand_in, script, NUMBA_DISABLE_JIT=disabled) == [[24.0, 12.0, 8, 7], [2, 3, 4, 5]]


def test_another_call_may_bring_other_arrays(stand_in: Path) -> None:
    """As when an array was short and has grown."""
    script = """
        small, large = world(1), world(100)
        run(small)
        run(large)
        grown = small._replace(figures=np.arange(3), sums=large.sums)
        run(grown)
        say(told(small), told(large), told(grown))
    """
    assert said(stand_in, script) == [[1.0, 0.0, 1 + 3, 6], [5056.0, 2552.0, 100, 6], [5056.0, 2552.0, 1 + 3, 6]]


def test_a_tuple_within_may_be_handed_over_alone_array_by_array(stand_in: Path) -> None:
    script = """
        sums = world(1).sums
        run_part(sums, 2)
        run_part(sums, 3)
        say(sums.total.tolist(), sums.even.tolist())
    """
    assert said(stand_in, script) == [[5.0], [[2.0]]]


def test_the_compiler_takes_tuples_of_this_class_alone_by_reference(stand_in: Path) -> None:
    script = """
        import numba
        run.dispatcher()
        from streamer.by_reference import Reference
        one = world(1)
        say([isinstance(numba.typeof(each), Reference) for each in (one, one.sums, tuple(one))])
    """
    assert said(stand_in, script) == [[True, False, False]]
