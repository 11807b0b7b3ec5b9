"""What a published QI group looks like as bytes, and which records turn one into another."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import LawViolated
from streamer.incremental.release.changelog import Changelog, PublishedGroup
from streamer.incremental.release.records import Entry
from streamer.table.published import RowKey, RowReader, parse_key, parse_qi_group, published_columns, row_key
from streamer.table.row import Values
from streamer.table.schema import CategoricalAttribute, KeptColumn, NumericAttribute, Table
from worlds.small_tables import AGE, BMI, CITIES, CITY, PROBLEM, VALUES, YEARS

SONG_AGE = NumericAttribute("age", (Decimal(1), Decimal(120)), Decimal(5), Decimal(1), Decimal(1))
SONG_ZIP = NumericAttribute("zip", (Decimal(1000), Decimal(99000)), Decimal(5000), Decimal(1000), Decimal(1000))
SONG = Table("patients", ("id",), (SONG_AGE, SONG_ZIP), (PROBLEM,), k=2)
QG1 = PublishedGroup((4, 2), (4, 3), ((b'"flu"',), (b'"gastritis"',)))

ALL_KINDS = Table("people", ("id",), (AGE, BMI, CITY, YEARS), (PROBLEM, KeptColumn("ward", sensitive=False)), k=2)
NODES = sorted(CITIES.node_of)


def applied(rows: dict[bytes, bytes], records: Iterable[Entry]) -> dict[bytes, bytes]:
    """The table after some records."""
    rows = dict(rows)
    for record in records:
        if record.value is None:
            del rows[record.key]
        else:
            rows[record.key] = record.value
    return rows


def table_of(group: PublishedGroup | None) -> dict[bytes, bytes]:
    """All rows of a QI group, written one by one."""
    return applied({}, Changelog(ALL_KINDS, 3).diff(17, None, group)[0])


def digest_of(rows: dict[bytes, bytes]) -> int:
    hashes = (blake2b(key + b"\0" + row, digest_size=8).digest() for key, row in rows.items())
    return sum(int.from_bytes(text, "big") for text in hashes) % 2**64


@st.composite
def boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    ends: list[tuple[int, int]] = []
    for attribute in ALL_KINDS.attributes:
        if isinstance(attribute, CategoricalAttribute):
            ends.append(draw(st.sampled_from(NODES)))
        else:
            cell = st.integers(0, attribute.n_cells - 1)
            one, other = draw(cell), draw(cell)
            ends.append((min(one, other), max(one, other)))
    return tuple(lo for lo, _ in ends), tuple(hi for _, hi in ends)


VALUES_OF_TWO = st.tuples(VALUES, st.sampled_from([b"1", b"2.5", b"true"])).map(lambda v: (*v[0], v[1]))
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


def test_the_members_of_a_row_are_the_published_columns_in_their_order() -> None:
    (row, *_) = table_of(PublishedGroup((0, 0, 0, 0), (4, 2, 5, 9), ((b"null", b"2.5"),))).values()
    assert tuple(json.loads(row)) == published_columns(ALL_KINDS)
    assert row == (
        b'{"qi_group":"3-17","age_lo":1,"age_hi":23,"bmi_lo":10,"bmi_hi":12.5,"city":"*",'
        b'"years_lo":0,"years_hi":9,"problem":null,"ward":2.5}'
    )


def test_names_that_json_or_formatting_would_read_otherwise_are_published_as_they_are() -> None:
    odd = Table(
        "odd",
        ("id",),
        (NumericAttribute('50% "%d"', (Decimal(0), Decimal(9)), Decimal(1), Decimal(1), Decimal(1)),),
        (KeptColumn("%s%b", sensitive=True),),
        k=2,
    )
    records, _ = Changelog(odd, 0).diff(1, None, PublishedGroup((2,), (3,), ((b'"100%"',),)))
    assert json.loads(records[0].value or b"") == {
        "qi_group": "0-1",
        '50% "%d"_lo': 2,
        '50% "%d"_hi': 3,
        "%s%b": "100%",
    }


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


@given(box=boxes(), values=VALUES_OF_TWO)
def test_what_is_written_is_read_back(box: tuple[tuple[int, ...], tuple[int, ...]], values: Values) -> None:
    (row,) = table_of(PublishedGroup(box[0], box[1], (values,))).values()
    assert RowReader(ALL_KINDS).read(row) == ("3-17", *box, values)


def test_a_row_may_come_from_any_tool_that_writes_json() -> None:
    row = json.loads(
        b'{"problem":"gr\xc3\xbcn","zip_lo":11000,"zip_hi":20000,"age_hi":25,"age_lo":21,"qi_group":"0-1"}'
    )
    read = RowReader(SONG).read(json.dumps(row, indent=1).encode())
    assert read == ("0-1", (4, 2), (4, 3), ('"grün"'.encode(),))


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ('{"qi_group":"0-1","age_lo":20,"age_hi":25,"city":"a1","problem":"x"}', "column age .* grid"),
        ('{"qi_group":"0-1","age_lo":1,"age_hi":4,"city":"a1","problem":"x"}', "column age .* grid"),
        ('{"qi_group":"0-1","age_lo":6,"age_hi":5,"city":"a1","problem":"x"}', "column age .* grid"),
        ('{"qi_group":"0-1","age_lo":-4,"age_hi":5,"city":"a1","problem":"x"}', "column age .* grid"),
        ('{"qi_group":"0-1","age_lo":21,"age_hi":25,"city":"a1","problem":"x"}', "column age .* grid"),
        ('{"qi_group":"0-1","age_lo":1,"age_hi":"5","city":"a1","problem":"x"}', "column age .* grid"),
        ('{"qi_group":"0-1","age_lo":1,"age_hi":5e999999999,"city":"a1","problem":"x"}', "column age .* grid"),
        ('{"qi_group":"0-1","age_lo":null,"age_hi":5,"city":"a1","problem":"x"}', "column age .* grid"),
        ('{"qi_group":"0-1","age_lo":1,"age_hi":5,"city":"canary-7319","problem":"x"}', "column city .* node"),
        ('{"qi_group":"0-1","age_lo":1,"age_hi":5,"city":7319,"problem":"x"}', "column city .* text"),
        ('{"qi_group":"0-1","age_lo":1,"age_hi":5,"city":"a1","problem":["canary-7319"]}', "column problem"),
        ('{"qi_group":"0-1","age_lo":1,"age_hi":5,"city":"a1"}', "exactly the published columns"),
        ('{"qi_group":"0-1","age_lo":1,"age_hi":5,"city":"a1","problem":1,"canary-7319":1}', "exactly the published"),
        ('{"qi_group":"0-1","age_lo":1,"age_hi":5,"city":"a1","problem":"canary-7319', "exactly the published"),
        ('["canary-7319"]', "exactly the published columns"),
    ],
)
def test_what_no_publisher_of_ours_wrote_is_named_without_its_value(row: str, complaint: str) -> None:
    small = Table("people", ("id",), (AGE, CITY), (PROBLEM,), k=2)
    with pytest.raises(LawViolated, match=complaint) as found:
        RowReader(small).read(row.encode())
    assert "7319" not in str(found.value)


def test_a_key_is_read_back() -> None:
    assert parse_key(row_key(RowKey(2, 40, 7))) == RowKey(2, 40, 7)
    assert parse_qi_group("2-40") == (2, 40)


@pytest.mark.parametrize(
    "key",
    [
        b'{"qi_group": "0-17","slot":3}',
        b'{"qi_group":"0-17","slot":03}',
        b'{"qi_group":"0-17","slot":-1}',
        b'{"qi_group":"0-0","slot":3}',
        b'{"qi_group":"17","slot":3}',
        b'{"slot":3,"qi_group":"0-17"}',
        b'{"qi_group":"0-17","slot":3}\n',
        b"",
    ],
)
def test_a_key_has_one_form_only_because_compaction_compares_bytes(key: bytes) -> None:
    with pytest.raises(LawViolated, match="the key of a record"):
        parse_key(key)
