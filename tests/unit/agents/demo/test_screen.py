"""What the demo shows of a release: what went, what came, and what stayed."""

from __future__ import annotations

from agents.demo.screen import difference


def test_the_difference_marks_what_went_and_what_came() -> None:
    before = {"0-1": {0: {"v": 1}, 1: {"v": 2}, 2: {"v": 3}}}
    after = {"0-1": {0: {"v": 1}, 1: {"v": 9}}, "0-2": {0: {"v": 4}}}
    assert [(mark, name, slot, row["v"]) for mark, name, slot, row in difference(before, after)] == [
        (" ", "0-1", 0, 1),
        ("-", "0-1", 1, 2),
        ("+", "0-1", 1, 9),
        ("-", "0-1", 2, 3),
        ("+", "0-2", 0, 4),
    ]
