"""The published row: its columns, its key, its bytes."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import LawViolated
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import PublishedGroup
from streamer.table.codes import TIMESTAMP, KeptColumn, NumericAttribute, TemporalAttribute
from streamer.table.codes.calendar import CalendarCells
from streamer.table.published.rows import (
    RowKey,
    RowReader,
    frame_bytes,
    parse_key,
    parse_qi_group,
    published_columns,
    row_key,
)
from streamer.table.row import Values
from streamer.table.schema import Table
from worlds.dates import calendars, temporal
from worlds.published_groups import ALL_KINDS, SONG, VALUES_OF_TWO, boxes, table_of
from worlds.small_tables import AGE, CITY, PROBLEM


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


# Published rows read back: boxes, values and dates, and what is refused because no publisher of ours wrote it.


@pytest.mark.parametrize("name", ['Q2 "trust"', "back\\slash", "tab\there", "Größe (cm) 😀"])
def test_a_row_is_read_back_whatever_its_columns_are_called(name: str) -> None:
    odd = Table(
        "odd",
        ("id",),
        (NumericAttribute(name, (Decimal(0), Decimal(9)), Decimal(1), Decimal(1), Decimal(1)),),
        (KeptColumn(f"{name}?", sensitive=True),),
        k=2,
    )
    records, _ = Changelog(odd, 0).diff(1, None, PublishedGroup((2,), (3,), ((b'"yes"',),)))
    row = RowReader(odd).read(records[0].value or b"")
    assert (row.lo, row.hi, row.values) == ((2,), (3,), (b'"yes"',))
    for wrong in (b'{"qi_group":"0-1"}', (records[0].value or b"").replace(b"{", b'{"another":1,', 1)):
        with pytest.raises(LawViolated, match="does not have exactly the published columns"):
            RowReader(odd).read(wrong)


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


# -- dates and timestamps -------------------------------------------------------------------------------------------

BORN, SEEN = (
    temporal("born", "1980-01-01", "1989-06-15", "1 month"),
    temporal("seen", "2024-01-01", "2024-01-03", "6 hours", TIMESTAMP),
)
DATED = Table("people", ("id",), (BORN, SEEN), (KeptColumn("since", sensitive=True, type="date"),), k=2)


def dated_row(**changed: object) -> bytes:
    row = {"qi_group": "0-1", "born_lo": "1980-02-01", "born_hi": "1980-03-31"}
    row |= {"seen_lo": "2024-01-01T06:00:00Z", "seen_hi": "2024-01-01T18:00:00Z", "since": "1999-12-31"}
    return json.dumps({**row, **changed}, separators=(",", ":")).encode()


def test_dates_are_published_by_first_and_last_day_and_timestamps_by_edges() -> None:
    group = PublishedGroup((1, 1), (2, 2), ((b'"1999-12-31"',),))
    (record,), _ = Changelog(DATED, 0).diff(1, None, group)
    assert record.value == dated_row()
    assert RowReader(DATED).read(dated_row()) == ("0-1", (1, 1), (2, 2), (b'"1999-12-31"',))


@pytest.mark.parametrize(
    "wrong",
    [
        {"born_lo": "1980-02-02"},
        {"born_hi": "1980-03-30"},
        {"born_lo": "1980-04-01"},
        {"born_lo": "1979-12-01"},
        {"born_hi": "1989-06-30"},
        {"born_lo": "1980-02-01T00:00:00"},
        {"born_lo": 3683},
        {"born_lo": None},
        {"seen_lo": "2024-01-01T07:00:00+01:00"},
        {"seen_lo": "2024-01-01 06:00:00Z"},
        {"seen_hi": "2024-01-01T17:59:59.999999Z"},
        {"seen_hi": "2024-01-01T06:00:00Z"},
        {"since": "1999-12-32"},
        {"since": 7},
    ],
)
def test_moments_off_their_grid_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(LawViolated):
        RowReader(DATED).read(dated_row(**wrong))


@given(cells=calendars(), data=st.data())
def test_boxes_of_any_calendar_are_read_back(cells: CalendarCells, data: st.DataObject) -> None:
    small = Table("people", ("id",), (TemporalAttribute("x", cells, Decimal(1)),), (), k=2)
    lo = data.draw(st.integers(0, cells.n_cells - 1))
    hi = data.draw(st.integers(lo, cells.n_cells - 1))
    (record,), _ = Changelog(small, 0).diff(1, None, PublishedGroup((lo,), (hi,), ((),)))
    assert RowReader(small).read(record.value or b"") == ("0-1", (lo,), (hi,), ())
    assert len(record.key) + len(record.value or b"") <= frame_bytes(small)
