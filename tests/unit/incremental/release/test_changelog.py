"""What a published QI group looks like as bytes, and which records turn one into another."""

from __future__ import annotations

from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.release.changelog import Changelog, PublishedGroup
from streamer.table.published import parse_key
from worlds.published_groups import ALL_KINDS, SONG, VALUES_OF_TWO, applied, boxes, table_of

QG1 = PublishedGroup((4, 2), (4, 3), ((b'"flu"',), (b'"gastritis"',)))


def digest_of(rows: dict[bytes, bytes]) -> int:
    hashes = (blake2b(key + b"\0" + row, digest_size=8).digest() for key, row in rows.items())
    return sum(int.from_bytes(text, "big") for text in hashes) % 2**64


FEW_BOXES = st.sampled_from([((0, 0, 0, 0), (1, 1, 0, 3)), ((0, 0, 0, 0), (1, 1, 0, 4))])
GROUPS = st.none() | st.builds(
    lambda box, slots: PublishedGroup(box[0], box[1], tuple(slots)),
    FEW_BOXES | boxes(),
    st.lists(VALUES_OF_TWO, min_size=1),
)


def test_the_golden_group_of_the_paper_is_published_in_exactly_these_bytes() -> None:
    records, _ = Changelog(SONG, 0).diff(17, None, QG1)
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
    records, _ = Changelog(SONG, 0).diff(17, QG1, more)
    assert [record.key for record in records] == [b'{"qi_group":"0-17","slot":2}']


def test_freed_slots_are_tombstones_and_come_last() -> None:
    before = PublishedGroup(QG1.lo, QG1.hi, tuple((b"%d" % i,) for i in range(4)))
    after = PublishedGroup(QG1.lo, QG1.hi, ((b"0",), (b"3",)))
    records, _ = Changelog(SONG, 0).diff(17, before, after)
    assert [(parse_key(record.key).slot, record.value is None) for record in records] == [
        (1, False),
        (2, True),
        (3, True),
    ]


def test_a_changed_box_rewrites_every_row() -> None:
    wider = PublishedGroup(QG1.lo, (5, 3), QG1.slots)
    records, _ = Changelog(SONG, 0).diff(17, QG1, wider)
    assert [parse_key(record.key).slot for record in records] == [0, 1]


@given(before=GROUPS, after=GROUPS)
def test_a_diff_turns_the_one_group_into_the_other_and_writes_nothing_twice_or_in_vain(
    before: PublishedGroup | None, after: PublishedGroup | None
) -> None:
    old, new = table_of(before), table_of(after)
    records, _ = Changelog(ALL_KINDS, 3).diff(17, before, after)
    assert applied(old, records) == new
    assert len({record.key for record in records}) == len(records)
    assert all(old.get(record.key) != record.value for record in records)


@given(before=GROUPS, after=GROUPS)
def test_the_digest_is_the_sum_of_the_published_rows_whatever_the_way_to_them(
    before: PublishedGroup | None, after: PublishedGroup | None
) -> None:
    log = Changelog(ALL_KINDS, 3)
    digest = log.diff(17, None, before)[1] + log.diff(17, before, after)[1]
    assert digest % 2**64 == digest_of(table_of(after))
