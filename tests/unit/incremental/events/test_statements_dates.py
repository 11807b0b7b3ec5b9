"""Statements about dates and timestamps, against Python's own."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.events.statements import parse_assignments, parse_condition
from streamer.table.codes import LOCAL_TIMESTAMP, TIMESTAMP, KeptColumn
from streamer.table.encode import Encoder
from worlds.dates import temporal
from worlds.small_tables import YEARS, RowsAsColumns, table

BORN = temporal("born", "1980-01-01", "1981-06-15", "1 month")
WED = temporal("wed", "1980-01-01", "1981-06-15", "7 days")
SEEN = temporal("seen", "2024-01-01", "2024-01-02", "6 hours", TIMESTAMP)
WALL = temporal("wall", "2024-01-01", "2024-01-02", "1 hour", LOCAL_TIMESTAMP)
SINCE, MET = KeptColumn("since", sensitive=True, type="date"), KeptColumn("met", sensitive=False, type="timestamp")
NOTE = KeptColumn("note", sensitive=False, type="text")
COMPARED = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
DATED = replace(table(BORN, WED, SEEN, WALL, YEARS), kept=(SINCE, MET, NOTE))
BEA = {
    "id": 1, "born": "1980-05-17", "wed": "1981-01-31", "seen": "2024-01-01T08:00:00+01:00",
    "wall": "2024-01-01T08:00:00", "years": 4, "since": "2020-02-29", "met": "2024-01-01T00:00:00Z",
    "note": "1980-05-17",
}  # fmt: skip


def holds(text: str, **changed: object) -> bool:
    return bool(parse_condition(text, DATED).matches(RowsAsColumns(DATED, [Encoder(DATED).row({**BEA, **changed})]))[0])


def refusal(attempt: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(EventRefused) as caught:
        attempt()
    return caught.value.reason, caught.value.detail


@given(
    st.sampled_from([*COMPARED]), st.dates(date(1980, 1, 1), date(1981, 6, 15)),
    st.dates(date(1979, 1, 1), date(1982, 1, 1)), st.sampled_from(["born", "wed", "since"]),
)  # fmt: skip
def test_dates_are_compared_as_the_calendar_has_them(test: str, day: date, other: date, column: str) -> None:
    """With a day of any cell, or of none."""
    expected = COMPARED[test](day, other)
    assert holds(f"{column} {test} '{other}'", **{column: day.isoformat()}) is expected


@given(st.sampled_from([*COMPARED]), st.integers(-1, 26 * 60), st.integers(0, 24 * 60))
def test_instants_are_compared_whatever_their_offsets(test: str, bound: int, minute: int) -> None:
    new_year = datetime(2024, 1, 1, tzinfo=UTC)
    seen, other = (new_year + timedelta(minutes=minutes) for minutes in (minute, bound))
    text = other.astimezone(timezone(timedelta(hours=-5))).isoformat()
    for column in ("seen", "met"):
        assert holds(f"{column} {test} '{text}'", **{column: seen.isoformat()}) is COMPARED[test](minute, bound)


def test_two_columns_of_one_type_are_compared() -> None:
    assert holds("born < wed and wed < since and seen > met")
    assert not holds("born = wed")
    assert holds("born = wed", wed="1980-05-17")
    assert not holds("born < since", since=None)
    assert not holds("since < '2030-01-01'", since=None)


def test_a_day_alone_is_its_first_moment() -> None:
    assert holds("wall >= '2024-01-01' and wall < '2024-01-02' and seen >= '2024-01-01'")
    assert not holds("wall > '2024-01-01'", wall="2024-01-01T00:00:00")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("born < 1980", "column 'born' holds a date and is compared with a number"),
        ("born < 'soon'", "column 'born': not a date; expected text such as 1980-01-31"),
        ("since = '1980-02-30'", "column 'since': not a date"),
        ("seen < '2024-01-01T08:00'", "column 'seen': has no offset from UTC"),
        ("born < seen", "column 'born' holds a date and is compared with a timestamp"),
        ("wall < seen", "column 'wall' holds a local-timestamp and is compared with a timestamp"),
        ("born < wed + 3", "column 'born' holds a date, which takes no offset: write the moment in quotes"),
        ("note < '1980-05-17'", "column 'note': only numbers and times have an order"),
    ],
)
def test_a_comparison_of_dates_that_makes_no_sense_is_refused(text: str, said: str) -> None:
    reason, detail = refusal(lambda: parse_condition(text, DATED))
    assert reason == "bad-statement"
    assert detail.startswith(said)


def test_dates_are_set_to_a_moment_in_quotes_or_to_a_column_of_their_type() -> None:
    encoder, bea = Encoder(DATED), Encoder(DATED).row(BEA)
    texts = {
        "born": "'1981-06-15'",
        "wed": "born",
        "since": "wed",
        "seen": "'2024-01-01'",
        "met": "seen",
        "wall": "wall",
    }
    row = parse_assignments(texts, DATED).applied_to(bea)
    assert [encoder.value(j, row.codes[j], None) for j in range(4)] == [
        "1981-06-15", "1980-05-17", "2024-01-01T00:00:00Z", "2024-01-01T08:00:00",
    ]  # fmt: skip
    assert row.values[:2] == (b'"1981-01-31"', b'"2024-01-01T07:00:00Z"')
    assert parse_assignments({"since": "null"}, DATED).applied_to(bea).values[0] == b"null"
    assert refusal(lambda: parse_assignments({"wed": "since"}, DATED).applied_to(bea))[0] == "out-of-domain"


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"born": "born + 1"}, "arithmetic with column 'born', which holds a date"),
        ({"years": "wed - born"}, "arithmetic with column 'wed', which holds a date"),
        ({"born": "3652"}, "column 'born' holds a date and is set to a number"),
        ({"born": "note"}, "column 'born' holds a date and is set to a text"),
        ({"note": "born"}, "column 'note' holds a text and is set to a date"),
        ({"wall": "seen"}, "column 'wall' holds a local-timestamp and is set to a timestamp"),
        ({"born": "'soon'"}, "column 'born': not a date; expected text such as 1980-01-31"),
        (
            {"born": "'1999-01-01'"},
            "no row can take it: column 'born': outside the domain of table.yaml; widen it, or let `outside: ends`"
            " count this as its nearer end",
        ),
    ],
)
def test_an_assignment_of_dates_that_makes_no_sense_is_refused(texts: dict[str, str], said: str) -> None:
    assert refusal(lambda: parse_assignments(texts, DATED)) == ("bad-statement", said)


def test_every_moment_lies_before_infinity_and_after_minus_infinity() -> None:
    for column in ("born", "seen", "wall", "since"):
        assert holds(f"{column} < 'infinity'") and holds(f"{column} > '-infinity'")
        assert not holds(f"{column} = 'infinity'") and not holds(f"{column} <= '-0043-03-15'")
