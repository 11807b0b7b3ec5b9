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


SHARED = '''
"""A shared tuple with another in it; parts read and write what its arrays hold, and call each other with either."""
import json
from typing import Any, NamedTuple
import numpy as np
from streamer.numba_support.jit import compile_for, entry, part, shared

class Inner(NamedTuple):
    counts: Any
    pairs: Any

@shared
class Outer(NamedTuple):
    state: Any
    inner: Inner
    more: Any

@part
def counted(inner, place):
    inner.counts[place] += 1
    return inner.pairs[1, place]

@part
def summed(outer):
    total = 0
    for place in range(outer.inner.counts.shape[0]):
        total += counted(outer.inner, place)
        outer.state[0].last = place
    return total + outer.state[0].last

@entry
def total(outer):
    return summed(outer)

def arguments():
    state = np.zeros(1, [("last", np.int64)]).view(np.recarray)
    return (Outer(state, Inner(np.zeros(3, np.int64), np.arange(6).reshape(2, 3)), np.zeros(2)),)

def run():
    [outer] = arguments()
    return [int(total(outer)), int(total(outer)), outer.inner.counts.tolist(), int(outer.state[0].last)]

def say(*what):
    print(json.dumps(what))
'''


@pytest.fixture
def sharing(tmp_path: Path) -> Path:
    (tmp_path / "stand_in.py").write_text(SHARED)
    return tmp_path


def test_parts_read_and_write_the_arrays_of_a_shared_tuple_compiled_loaded_and_uncompiled(sharing: Path) -> None:
    answer = [14, 14, [2, 2, 2], 2]
    assert said(sharing, "say(run(), len(total.dispatcher().stats.cache_misses))") == [answer, 1]
    assert said(sharing, "say(run(), len(total.dispatcher().stats.cache_misses))") == [answer, 0]
    assert said(sharing, "say(run())", NUMBA_DISABLE_JIT="1") == [answer]


def test_a_shared_tuple_is_handed_on_as_one_pointer(sharing: Path) -> None:
    """Number by number, most of what is compiled would be their way from call to call."""
    script = """
        from streamer.numba_support.linking import PartLibrary
        found, finalize = {}, PartLibrary.finalize
        def finalized(library):
            finalize(library)
            for function in library.llvm_module().functions:
                if not function.is_declaration and library.name in function.name:
                    found[library.name] = len(list(function.arguments))
        PartLibrary.finalize = finalized
        compile_for(total, arguments())
        say(found)
    """
    [found] = said(sharing, script)
    returned = 2  # pointers to the result and to an error
    assert found == {"summed": returned + 1, "counted": returned + 2}
