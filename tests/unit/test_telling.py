"""Saying how far some work is: parts of a whole, and nothing that is not more than before."""

from __future__ import annotations

from streamer.telling import nth_part, part_of, pieces, rising, silent


def test_a_part_of_the_work_tells_its_share_of_the_whole() -> None:
    told: list[float] = []
    half = part_of(told.append, 0.5, 1.0)
    for share in (0.0, 0.5, 1.0):
        half(share)
    quarter = part_of(half, 0.0, 0.5)
    quarter(1.0)
    assert told == [0.5, 0.75, 1.0, 0.75]


def test_equal_parts_lie_behind_each_other_and_come_to_the_whole() -> None:
    told: list[float] = []
    for done in range(4):
        one = nth_part(told.append, done, 4)
        one(0.5)
        one(1.0)
    assert told == [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0]


def test_what_is_not_more_than_before_is_not_passed_on() -> None:
    told: list[float] = []
    tick = rising(told.append)
    for share in (0.0, 0.25, 0.25, 0.1, 0.5, 1.0, 1.0, 1.5):
        tick(share)
    assert told == [0.25, 0.5, 1.0]


def test_nobody_need_listen() -> None:
    silent(0.5)


def test_pieces_are_all_of_it_and_each_is_told_once_it_is_done() -> None:
    told: list[float] = []
    seen: list[range] = []
    for piece in pieces(7, 3, told.append):
        assert len(told) == len(seen)
        seen.append(range(7)[piece])
    assert [n for one in seen for n in one] == list(range(7))
    assert told == [3 / 7, 6 / 7, 1.0]
    assert list(pieces(0, 3, told.append)) == []
