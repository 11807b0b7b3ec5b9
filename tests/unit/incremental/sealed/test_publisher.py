"""The sealed publisher: what each epoch publishes, by hand-made examples and against the rules written down plainly."""

from __future__ import annotations

from random import Random

import pytest

from streamer.incremental.sealed.formation import median_cuts
from streamer.incremental.sealed.publisher import Sealed, drawn_by
from worlds.sealed_people import Event, InWords, as_log, ended, event, publisher, sealed_table, stream, told

START = "p1 20 flu; p2 22 cold"
C1 = "ADD c1 [20, 22] 2 cold,flu"

SCENARIOS: dict[str, tuple[list[str], list[list[str]]]] = {
    "S1: one newcomer waits": ([START, "p3 30 flu"], [[C1], []]),
    "S2: k newcomers are a cohort": ([START, "p3 30 flu; p4 31 cold"], [[C1], ["ADD c2 [30, 31] 2 cold,flu"]]),
    "S3: one value has too large a share": ([START, "p3 30 flu; p4 31 flu"], [[C1], ["ADD c2 [30, 31] 2 null"]]),
    "S4: a median cut": (
        ["p3 10 a; p4 20 b; p5 30 c; p6 40 a"],
        [["ADD c1 [10, 20] 2 a,b", "ADD c2 [30, 40] 2 a,c"]],
    ),
    "S5: the median goes left": (
        ["p3 10 a; p4 20 b; p5 30 c; p6 40 a; p7 50 b"],
        [["ADD c1 [10, 30] 3 a,b,c", "ADD c2 [40, 50] 2 a,b"]],
    ),
    "S6: no cut is made again because of values": (
        ["p3 10 a; p4 20 a; p5 30 c; p6 40 a", ""],
        [["ADD c1 [10, 20] 2 null", "ADD c2 [30, 40] 2 a,c"], []],
    ),
    "S7: a ghost": ([START, "p1 -"], [[C1], ["LIVE c1 1"]]),
    "S8: nobody is left": ([START, "p1 -; p2 -"], [[C1], ["RETIRE c1"]]),
    "S9: come and gone": ([START, "p3 30 flu; p3 -"], [[C1], []]),
    "S10: a move is not published": ([START, "p1 =60 ="], [[C1], []]),
    "S11: other values": (
        [START, "p1 = =asthma; p5 21 cold"],
        [[C1], ["LIVE c1 1", "ADD c2 [20, 21] 2 asthma,cold"]],
    ),
    "S12: a move in the pool": ([START, "p3 30 flu; p3 =35 =; p4 36 cold"], [[C1], ["ADD c2 [35, 36] 2 cold,flu"]]),
    "S18: no cut through ties": (["p3 30 a; p4 30 b; p5 30 c"], [["ADD c1 [30, 30] 3 a,b,c"]]),
}


def epochs_of(lines: list[str]) -> list[list[Event]]:
    return [[event(text) for text in line.split(";") if text.strip()] for line in lines]


def in_words(sealed: Sealed, lines: list[str]) -> list[list[str]]:
    words = InWords()
    return [words.of(records) for records in told(sealed, epochs_of(lines))]


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_scenario_publishes_exactly_these_records(name: str) -> None:
    lines, expected = SCENARIOS[name]
    assert in_words(publisher(sealed_table()), lines) == expected
