"""An entry and its parts, compiled as one (`streamer.numba_support.linking`): nothing is made ready twice, nothing gets
lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from worlds.compiling import said

STAND_IN = '''
"""Two parts that call a third, with integers of different widths."""
import json
import numpy as np
from streamer.numba_support.jit import compile_for, entry, part

@part
def at(figures, place):
    return figures[place] + 1

@part
def first(figures, places):
    return at(figures, places[0])

@part
def last(figures, places):
    return at(figures, places.shape[0] - 1)

@part
def highest_bits(number):
    return number >> np.uint64(60)

@entry
def both(figures, places, numbers, answers):
    answers[0] = first(figures, places)
    answers[1] = last(figures, places)
    numbers[0] = highest_bits(numbers[0])

def arguments(place=2):
    places = np.array([place, 0, 0, 0], np.int32)
    return np.arange(4) * 10, places, np.array([2**63 + 5], np.uint64), np.zeros(2, np.int64)

def run(place=2):
    figures, places, numbers, answers = arguments(place)
    both(figures, places, numbers, answers)
    return [int(answers[0]), int(answers[1]), int(numbers[0])]

def say(*what):
    print(json.dumps(what))
'''
ANSWERS = [21, 31, 8]


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    return tmp_path


def test_an_entry_computes_what_its_parts_say_compiled_and_loaded(stand_in: Path) -> None:
    assert said(stand_in, "say(run(), len(both.dispatcher().stats.cache_misses))") == [ANSWERS, 1]
    assert said(stand_in, "say(run(), len(both.dispatcher().stats.cache_misses))") == [ANSWERS, 0]
    assert said(stand_in, "say(run())", NUMBA_DISABLE_JIT="1") == [ANSWERS]


def test_machine_code_is_made_of_the_entry_alone(stand_in: Path) -> None:
    """By itself numba makes that of every part, with all that the part calls, and throws it away."""
    script = """
        from numba.core.codegen import CPUCodeLibrary
        from streamer.numba_support.linking import EntryLibrary
        made, make = [], CPUCodeLibrary._finalize_final_module
        CPUCodeLibrary._finalize_final_module = lambda self: (made.append(self.name), make(self))[1]
        compile_for(both, arguments())
        [code] = [one.library for one in both.dispatcher().overloads.values()]
        names = ("both", "first", "last", "at", "highest_bits")
        say([name for name in made if name in names], type(code) is EntryLibrary)
    """
    assert said(stand_in, script) == [["both"], True]


def test_a_part_is_compiled_once_for_integers_of_all_widths(stand_in: Path) -> None:
    script = """
        from numba.core import event
        with event.install_recorder("numba:compile") as recorder:
            compile_for(both, arguments())
        names = [one.data["dispatcher"].py_func.__name__ for _, one in recorder.buffer if one.is_start]
        say([names.count(name) for name in ("both", "first", "last", "at", "highest_bits")])
    """
    assert said(stand_in, script) == [[1, 1, 1, 1, 1]]


def test_a_place_outside_of_its_array_is_told_from_within_a_part(stand_in: Path) -> None:
    script = """
        try:
            run(4)
        except IndexError as error:
            say("out of bounds" in str(error), len(both.dispatcher().stats.cache_misses))
    """
    assert said(stand_in, script, NUMBA_BOUNDSCHECK="1") == [True, 1]
    assert said(stand_in, script, NUMBA_BOUNDSCHECK="1") == [True, 0]
