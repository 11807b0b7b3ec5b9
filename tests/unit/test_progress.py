"""Progress callbacks: parts of a whole, and pieces of which all are reported."""

from __future__ import annotations

from streamer.progress import part_of, pieces, unheard


def test_a_part_of_the_work_reports_its_share_of_the_whole() -> None:
    heard: list[float] = []
    half = part_of(heard.append, 0.5, 1.0)
    for share in (0.0, 0.5, 1.0):
        half(share)
    part_of(half, 0.0, 0.5)(1.0)
    assert heard == [0.5, 0.75, 1.0, 0.75]


def test_nobody_need_listen() -> None:
    unheard(0.5)


def test_pieces_are_all_of_it_and_each_is_reported_once_it_is_done() -> None:
    heard: list[float] = []
    seen: list[range] = []
    for piece in pieces(7, 3, heard.append):
        assert len(heard) == len(seen)
        seen.append(range(7)[piece])
    assert [n for one in seen for n in one] == list(range(7))
    assert heard == [3 / 7, 6 / 7, 1.0]
    assert list(pieces(0, 3, heard.append)) == []
