"""QI groups as one message each: any change is one record, and none where box and values stay."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from streamer.errors import GroupTooLarge
from streamer.incremental.release.as_groups import GroupsWriter
from streamer.incremental.release.published_group import PublishedGroup
from streamer.table.schema import Limits
from worlds.published_groups import SONG

FLU, GASTRITIS = (b'"flu"',), (b'"gastritis"',)
QG1 = PublishedGroup((4, 2), (4, 3), (GASTRITIS, FLU))


def test_the_golden_group_of_the_paper_is_one_message_of_exactly_these_bytes() -> None:
    (record,) = GroupsWriter(SONG, 0).records(17, None, QG1)
    assert (record.topic, record.key) == ("live", b'{"qi_group":"0-17"}')
    assert record.value == (
        b'{"qi_group":"0-17","age_lo":21,"age_hi":25,"zip_lo":11000,"zip_hi":20000,"size":2,'
        b'"values":[{"problem":"flu","count":1},{"problem":"gastritis","count":1}]}'
    )


@pytest.mark.parametrize(
    "after",
    [
        PublishedGroup(QG1.lo, QG1.hi, (GASTRITIS, FLU, FLU)),
        PublishedGroup(QG1.lo, QG1.hi, (FLU, FLU)),
        PublishedGroup(QG1.lo, (5, 3), QG1.slots),
        None,
    ],
    ids=["a row more", "another value", "a wider box", "gone"],
)
def test_any_change_is_one_record(after: PublishedGroup | None) -> None:
    (record,) = GroupsWriter(SONG, 0).records(17, QG1, after)
    assert (record.value is None) == (after is None)


def test_slots_that_change_places_say_nothing() -> None:
    assert GroupsWriter(SONG, 0).records(17, QG1, PublishedGroup(QG1.lo, QG1.hi, (FLU, GASTRITIS))) == []
    assert GroupsWriter(SONG, 0).records(17, None, None) == []


def test_alike_values_are_counted_however_many() -> None:
    (record,) = GroupsWriter(SONG, 0).records(1, None, PublishedGroup(QG1.lo, QG1.hi, (FLU,) * 500))
    assert json.loads(record.value or b"")["values"] == [{"problem": "flu", "count": 500}]


def test_a_message_that_kafka_would_not_take_is_refused_without_a_value() -> None:
    small = replace(SONG, limits=Limits(row_bytes_max=1000))
    many = PublishedGroup(QG1.lo, QG1.hi, tuple((b'"canary %d"' % i,) for i in range(40)))
    with pytest.raises(GroupTooLarge, match="a QI group of 40 rows does not fit") as told:
        GroupsWriter(small, 0).records(1, None, many)
    assert "canary" not in str(told.value)
