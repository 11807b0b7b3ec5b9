"""What a published QI group looks like as bytes, and which records turn one into another."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import GroupTooLarge
from streamer.incremental.release.changelog import Changelog, GroupsWriter, JoinWriter, RowsWriter
from streamer.incremental.release.records import PublishedGroup
from streamer.table.published.rows import parse_key
from streamer.table.schema import Limits
from worlds.published_groups import ALL_KINDS, FORMS, SONG, VALUES_OF_TWO, applied, boxes, of_form, table_of

# QI groups as rows by slot: which bytes, and which of them a change writes.

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


def test_freed_slots_are_tombstones_and_come_last() -> None:
    before = PublishedGroup(QG1.lo, QG1.hi, tuple((b"%d" % i,) for i in range(4)))
    after = PublishedGroup(QG1.lo, QG1.hi, ((b"0",), (b"3",)))
    records = RowsWriter(SONG, 0).records(17, before, after)
    assert [(parse_key(record.key).slot, record.value is None) for record in records] == [
        (1, False),
        (2, True),
        (3, True),
    ]


# QI groups as one message each: any change is one record, and none where box and values stay.

FLU, GASTRITIS = (b'"flu"',), (b'"gastritis"',)
AS_GROUPS_QG1 = PublishedGroup((4, 2), (4, 3), (GASTRITIS, FLU))


def test_the_golden_group_of_the_paper_is_one_message_of_exactly_these_bytes() -> None:
    (record,) = GroupsWriter(SONG, 0).records(17, None, AS_GROUPS_QG1)
    assert (record.topic, record.key) == ("live", b'{"qi_group":"0-17"}')
    assert record.value == (
        b'{"qi_group":"0-17","age_lo":21,"age_hi":25,"zip_lo":11000,"zip_hi":20000,"size":2,'
        b'"values":[{"problem":"flu","count":1},{"problem":"gastritis","count":1}]}'
    )


def test_alike_values_are_counted_however_many() -> None:
    (record,) = GroupsWriter(SONG, 0).records(1, None, PublishedGroup(AS_GROUPS_QG1.lo, AS_GROUPS_QG1.hi, (FLU,) * 500))
    assert json.loads(record.value or b"")["values"] == [{"problem": "flu", "count": 500}]


def test_a_message_that_kafka_would_not_take_is_refused_without_a_value() -> None:
    small = replace(SONG, limits=Limits(row_bytes_max=1000))
    many = PublishedGroup(AS_GROUPS_QG1.lo, AS_GROUPS_QG1.hi, tuple((b'"canary %d"' % i,) for i in range(40)))
    with pytest.raises(GroupTooLarge, match="a QI group of 40 rows does not fit") as told:
        GroupsWriter(small, 0).records(1, None, many)
    assert "canary" not in str(told.value)


# QI groups as rows of two tables: what is new in either is written, and nothing else.

ALONE, BESIDE, FAR = (4, 2), (4, 3), (6, 9)
BEFORE = PublishedGroup((4, 2), (4, 3), (FLU, GASTRITIS, FLU), (ALONE, BESIDE))


def test_a_row_of_cells_is_its_own_key_and_a_row_of_values_has_a_count() -> None:
    cells, _, values, _ = JoinWriter(SONG, 0).records(17, None, BEFORE)
    row = b'{"qi_group":"0-17","age_lo":21,"age_hi":25,"zip_lo":11000,"zip_hi":15000}'
    assert (cells.topic, cells.key, cells.value) == ("qit", row, row)
    assert (values.topic, values.key) == ("stt", b'{"qi_group":"0-17","problem":"flu"}')
    assert values.value == b'{"qi_group":"0-17","problem":"flu","count":2}'


FEW_BOXES = st.sampled_from([((0, 0, 0, 0), (1, 1, 0, 3)), ((0, 0, 0, 0), (1, 1, 0, 4))])
GROUPS = st.none() | st.builds(
    lambda box, slots: PublishedGroup(box[0], box[1], tuple(slots)),
    FEW_BOXES | boxes(),
    st.lists(VALUES_OF_TWO, min_size=1),
)


@pytest.mark.parametrize("form", FORMS)
@given(before=GROUPS, after=GROUPS)
def test_a_diff_turns_the_one_group_into_the_other_and_writes_nothing_twice_or_in_vain(
    form: str, before: PublishedGroup | None, after: PublishedGroup | None
) -> None:
    old, new = table_of(before, form), table_of(after, form)
    records, _ = Changelog(of_form(form), 3).diff(17, before, after)
    assert applied(old, records) == new
    assert len({record.key for record in records}) == len(records)
    assert all(old.get(record.key) != record.value for record in records)


@given(before=GROUPS, after=GROUPS)
def test_the_digest_is_that_of_the_published_group_whatever_the_way_to_it(
    before: PublishedGroup | None, after: PublishedGroup | None
) -> None:
    log = Changelog(ALL_KINDS, 3)
    digest = log.diff(17, None, before)[1] + log.diff(17, before, after)[1]
    assert digest % 2**64 == log.diff(17, None, after)[1]


@given(one=GROUPS, other=GROUPS)
def test_two_tables_have_one_digest_where_their_rows_are_the_same_and_only_there(
    one: PublishedGroup | None, other: PublishedGroup | None
) -> None:
    log = Changelog(ALL_KINDS, 3)
    digests = [log.diff(17, None, group)[1] for group in (one, other)]
    assert (digests[0] == digests[1]) == (table_of(one) == table_of(other))


def test_the_digest_of_two_groups_of_the_same_rows_tells_their_numbers() -> None:
    log = Changelog(SONG, 0)
    assert log.diff(17, None, QG1)[1] != log.diff(18, None, QG1)[1]
