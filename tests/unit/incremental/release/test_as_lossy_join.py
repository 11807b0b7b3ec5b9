"""QI groups as rows of two tables: what is new in either is written, and nothing else."""

from __future__ import annotations

from streamer.incremental.release.as_lossy_join import JoinWriter
from streamer.incremental.release.published_group import PublishedGroup
from worlds.published_groups import SONG

FLU, GASTRITIS = (b'"flu"',), (b'"gastritis"',)
ALONE, BESIDE, FAR = (4, 2), (4, 3), (6, 9)
BEFORE = PublishedGroup((4, 2), (4, 3), (FLU, GASTRITIS, FLU), (ALONE, BESIDE))


def written(after: PublishedGroup | None) -> list[tuple[str, bytes, bytes | None]]:
    found = JoinWriter(SONG, 0).records(17, BEFORE, after)
    return [(record.topic, record.key.removeprefix(b'{"qi_group":"0-17",'), record.value) for record in found]


def test_a_row_of_cells_is_its_own_key_and_a_row_of_values_has_a_count() -> None:
    cells, _, values, _ = JoinWriter(SONG, 0).records(17, None, BEFORE)
    row = b'{"qi_group":"0-17","age_lo":21,"age_hi":25,"zip_lo":11000,"zip_hi":15000}'
    assert (cells.topic, cells.key, cells.value) == ("qit", row, row)
    assert (values.topic, values.key) == ("stt", b'{"qi_group":"0-17","problem":"flu"}')
    assert values.value == b'{"qi_group":"0-17","problem":"flu","count":2}'


def test_a_row_of_known_cells_changes_one_count() -> None:
    more = PublishedGroup(BEFORE.lo, BEFORE.hi, (*BEFORE.slots, FLU), BEFORE.cells)
    assert written(more) == [("stt", b'"problem":"flu"}', b'{"qi_group":"0-17","problem":"flu","count":3}')]


def test_a_row_that_moves_within_its_group_changes_cells_alone() -> None:
    moved = PublishedGroup((4, 2), (6, 9), BEFORE.slots, (ALONE, FAR))
    assert [(topic, value is None) for topic, _, value in written(moved)] == [("qit", False), ("qit", True)]


def test_a_box_that_grows_without_its_rows_says_nothing() -> None:
    assert written(PublishedGroup((0, 0), (9, 9), BEFORE.slots, BEFORE.cells)) == []


def test_values_that_nobody_has_any_more_are_removed() -> None:
    fewer = PublishedGroup(BEFORE.lo, BEFORE.hi, (FLU, FLU), BEFORE.cells)
    assert written(fewer) == [("stt", b'"problem":"gastritis"}', None)]


def test_a_group_that_is_gone_leaves_nothing_in_either_table() -> None:
    assert [(topic, value) for topic, _, value in written(None)] == [("qit", None)] * 2 + [("stt", None)] * 2
