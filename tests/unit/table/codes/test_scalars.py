"""What a raw value says by itself: one shortest text for a number, one text for a category and a key, or a refusal."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.table.codes import (
    CLOCKS,
    DATE,
    LOCAL_TIMESTAMP,
    TIMESTAMP,
    Clock,
    decimal_text,
    limit_of,
    moment_of,
    moment_text,
    read_decimal,
)
from streamer.table.codes.scalars import category_of, key_text, moment_anywhere, number_of

D = Decimal


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9))
def test_the_text_of_a_decimal_is_its_shortest(value: Decimal) -> None:
    shortest = decimal_text(value)
    assert D(shortest) == value
    assert "E" not in shortest
    assert shortest == "0" or not ("." in shortest and shortest.endswith(("0", ".")))
    assert read_decimal(shortest) == value


@pytest.mark.parametrize("value", [10**400, D("1E+401"), D("1E-401"), "1e401"])
def test_a_number_that_no_table_of_people_has_is_refused(value: object) -> None:
    assert number_of(10**399, "x") == 10**399
    with pytest.raises(EventRefused, match="more than 400 digits") as refused:
        number_of(value, "x")
    assert (refused.value.reason, refused.value.column) == ("wrong-type", "x")


def test_one_and_quoted_one_are_the_same_category_and_the_same_key() -> None:
    written = (1, "1", D("1.0"))
    assert [category_of(value, "x") for value in written] == ["1", "1", "1"]
    assert [key_text(value, "x") for value in written] == ["1", "1", "1"]


def test_true_is_a_category_and_no_key() -> None:
    assert category_of(True, "x") == "true"
    with pytest.raises(EventRefused, match="neither text nor a number"):
        key_text(True, "x")


# Dates and times as whole numbers, against Python's own calendar.

DAY_1 = datetime(1, 1, 1)


def refusal(value: object, clock: Clock) -> tuple[str, str]:
    with pytest.raises(EventRefused) as caught:
        moment_of(value, "x", clock)
    assert caught.value.column == "x"
    return caught.value.reason, caught.value.detail


# -- round trips ------------------------------------------------------------------------------------------------------


@given(st.dates())
def test_a_date_counts_the_days_of_the_calendar(day: date) -> None:
    moment = (day - date(1, 1, 1)).days
    assert moment_of(day.isoformat(), "x", DATE) == moment_of(day, "x", DATE) == moment
    assert moment_text(moment, DATE) == day.isoformat()


@given(st.datetimes())
def test_a_local_timestamp_counts_microseconds(wall: datetime) -> None:
    moment = (wall - DAY_1) // timedelta(microseconds=1)
    assert moment_of(wall.isoformat(), "x", LOCAL_TIMESTAMP) == moment_of(wall, "x", LOCAL_TIMESTAMP) == moment
    assert moment_text(moment, LOCAL_TIMESTAMP) == wall.isoformat()


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)), st.integers(-23 * 60 - 59, 23 * 60 + 59), st.booleans())
def test_an_instant_is_the_same_whatever_its_offset(wall: datetime, minutes: int, space: bool) -> None:
    there = wall.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    text = there.isoformat(" " if space else "T")
    expected = there.astimezone(UTC).replace(tzinfo=None)
    assert moment_of(text, "x", TIMESTAMP) == (expected - DAY_1) // timedelta(microseconds=1)
    assert moment_text(moment_of(text, "x", TIMESTAMP), TIMESTAMP) == expected.isoformat() + "Z"


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2020-02-29T08:00Z", "2020-02-29T08:00:00Z"),
        ("2020-02-29 08:00:00.5+02", "2020-02-29T06:00:00.500000Z"),
        ("2020-02-29T08:00:00.000001000-0130", "2020-02-29T09:30:00.000001Z"),
        (pd.Timestamp("2020-02-29T08:00+01:00"), "2020-02-29T07:00:00Z"),
    ],
)
def test_forms_of_an_instant(text: object, instant: str) -> None:
    assert moment_text(moment_of(text, "x", TIMESTAMP), TIMESTAMP) == instant


def test_a_date_may_come_with_the_midnight_that_a_data_frame_gives_it() -> None:
    for value in ("1980-01-31 00:00:00", datetime(1980, 1, 31), pd.Timestamp("1980-01-31")):
        assert moment_text(moment_of(value, "x", DATE), DATE) == "1980-01-31"


def test_a_day_alone_is_its_first_moment_in_table_yaml_and_in_statements_only() -> None:
    for clock, text in ((TIMESTAMP, "1980-01-31T00:00:00Z"), (LOCAL_TIMESTAMP, "1980-01-31T00:00:00")):
        assert moment_text(limit_of("1980-01-31", "x", clock), clock) == text
        assert refusal("1980-01-31", clock)[0] == "wrong-type"


def test_the_last_moments_are_those_of_year_9999() -> None:
    assert [moment_text(clock.last, clock) for clock in CLOCKS.values()] == [
        "9999-12-31", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999",
    ]  # fmt: skip


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "", "31.01.1980", "1980-1-31", "19800131", "1980-02-30", "1980-13-01", "1980", 3682, True, 1.5, ["1980-01-31"],
        "1980-01-31Z", "1980-01-31T00:00:00Z", " 1980-01-31", "1980-01-31\n", "١٩٨٠-٠١-٣١",
    ],
)  # fmt: skip
def test_what_is_no_date_is_refused_and_not_repeated(value: object) -> None:
    reason, detail = refusal(value, DATE)
    assert reason == "wrong-type"
    expected = "not a date; expected text such as 1980-01-31"
    offset = "has an offset from UTC, which a date has not; let the column's type be timestamp"
    assert detail == f"column 'x': {offset if str(value).endswith('Z') and 'T' in str(value) else expected}"


@pytest.mark.parametrize(
    "text", ["1980-01-31T24:00:00Z", "1980-01-31T23:59:60Z", "1980-01-31T8:00Z", "1980-01-31T08:00+24:00", "08:00Z"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    assert refusal(text, TIMESTAMP) == (
        "wrong-type", "column 'x': not a timestamp; expected text such as 1980-01-31T08:00:00Z"
    )  # fmt: skip


def test_an_instant_and_a_clock_on_the_wall_are_not_taken_for_each_other() -> None:
    assert "local-timestamp" in refusal("1980-01-31T08:00:00", TIMESTAMP)[1]
    assert "let the column's type be timestamp" in refusal("1980-01-31T08:00:00Z", LOCAL_TIMESTAMP)[1]


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("0000-12-31", DATE),
        ("10000-01-01", DATE),
        ("-0044-03-15", DATE),
        ("0001-01-01T00:30:00+01:00", TIMESTAMP),
        ("9999-12-31T23:30:00-01:00", TIMESTAMP),
        ("+12345-01-01T00:00:00", LOCAL_TIMESTAMP),
        ("0044-03-15 BC", DATE),
        ("0044-03-15 (BC)", DATE),
        ("0044-03-15 00:00:00+00 BC", TIMESTAMP),
        ("infinity", TIMESTAMP),
        ("-Infinity", LOCAL_TIMESTAMP),
        ("292278994-08-17T07:12:55.807", LOCAL_TIMESTAMP),
    ],
)
def test_a_year_that_the_calendar_does_not_have_is_out_of_every_domain(text: str, clock: Clock) -> None:
    assert refusal(text, clock) == ("out-of-domain", "column 'x': outside the years 1 to 9999")


@pytest.mark.parametrize("text", ["0000-00-00", "10000-02-30", "0044-13-01 BC", "infinite", "10001-02-29"])
def test_a_day_that_no_calendar_has_is_no_date_however_far_away(text: str) -> None:
    assert refusal(text, DATE)[0] == "wrong-type"


@given(st.dates(), st.sampled_from([-400_000, -10_000, 10_000, 200_000]))
def test_all_that_lies_outside_the_years_is_one_moment_on_each_side(day: date, years: int) -> None:
    text = f"{'-' * (years < 0)}{abs(day.year + years):04}{day.isoformat()[4:]}"
    assert moment_anywhere(text, "x", DATE) == (-1 if years < 0 else DATE.last + 1)


def test_nothing_is_rounded() -> None:
    assert refusal("1980-01-31T08:00:00.0000001", LOCAL_TIMESTAMP)[0] == "off-the-step"
    assert refusal("1980-01-31T08:00:00", DATE) == ("off-the-step", "column 'x': a date with a time of day")


LOCAL_MEAN_TIME = timezone(timedelta(minutes=19, seconds=32))
"""Of Amsterdam until 1937."""


@pytest.mark.parametrize("clock", [TIMESTAMP, LOCAL_TIMESTAMP, DATE], ids=lambda clock: clock.name)
def test_an_offset_with_seconds_is_refused_and_never_rounded(clock: Clock) -> None:
    for value in (datetime(1890, 1, 1, 8, tzinfo=LOCAL_MEAN_TIME), "1890-01-01T08:00:00+00:19:32"):
        with pytest.raises(EventRefused) as refused:
            moment_of(value, "x", clock)
        assert refused.value.reason == "wrong-type"


@pytest.mark.parametrize("fold", [0, 1])
def test_of_an_hour_that_comes_twice_an_instant_is_the_one_that_is_meant_and_a_clock_on_the_wall_shows_the_same(
    fold: int,
) -> None:
    twice = datetime(2024, 10, 27, 2, 30, fold=fold)
    assert moment_of(twice, "x", LOCAL_TIMESTAMP) == moment_of("2024-10-27T02:30:00", "x", LOCAL_TIMESTAMP)
    there = twice.replace(tzinfo=ZoneInfo("Europe/Amsterdam"))
    assert moment_text(moment_of(there, "x", TIMESTAMP), TIMESTAMP) == f"2024-10-27T0{fold}:30:00Z"
