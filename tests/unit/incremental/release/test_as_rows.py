"""QI groups as rows by slot: which bytes, and which of them a change writes."""

from __future__ import annotations

from streamer.incremental.release.as_rows import RowsWriter
from streamer.incremental.release.published_group import PublishedGroup
from streamer.table.published import parse_key
from worlds.published_groups import SONG

QG1 = PublishedGroup((4, 2), (4, 3), ((b'"flu"',), (b'"gastritis"',)))


def test_the_golden_group_of_the_paper_is_published_in_exactly_these_bytes() -> None:
    records = RowsWriter(SONG, 0).records(17, None, QG1)
    assert [(record.topic, record.key, record.value) for record in records] == [
        (
            "live",
            b'{"qi_group":"0-17","slot":0}',
            b'{"qi_group":"0-17","age_lo":21,"age_hi":25,"zip_lo":11000,"zip_hi":20000,"problem":"flu"}',
        ),
        (
            "live",
            b'{"qi_group":"0-17","slot":1}',
            b'{"qi_group":"0-17","age_lo":21,"age_hi":25,"zip_lo":11000,"zip_hi":20000,"problem":"gastritis"}',
        ),
    ]


def test_a_row_that_joins_an_unchanged_box_is_one_record() -> None:
    more = PublishedGroup(QG1.lo, QG1.hi, (*QG1.slots, (b'"flu"',)))
    records = RowsWriter(SONG, 0).records(17, QG1, more)
    assert [record.key for record in records] == [b'{"qi_group":"0-17","slot":2}']


def test_freed_slots_are_tombstones_and_come_last() -> None:
    before = PublishedGroup(QG1.lo, QG1.hi, tuple((b"%d" % i,) for i in range(4)))
    after = PublishedGroup(QG1.lo, QG1.hi, ((b"0",), (b"3",)))
    records = RowsWriter(SONG, 0).records(17, before, after)
    assert [(parse_key(record.key).slot, record.value is None) for record in records] == [
        (1, False),
        (2, True),
        (3, True),
    ]


def test_a_changed_box_rewrites_every_row() -> None:
    wider = PublishedGroup(QG1.lo, (5, 3), QG1.slots)
    records = RowsWriter(SONG, 0).records(17, QG1, wider)
    assert [parse_key(record.key).slot for record in records] == [0, 1]
