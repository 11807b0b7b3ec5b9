"""Counts of days and parts of a second as ISO texts, and back, beside Python's own calendar."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.events.moment_counts import (
    day_count,
    day_text,
    time_count,
    time_text,
    timestamp_count,
    timestamp_text,
)

PER_SECOND = st.sampled_from([10**3, 10**6, 10**9])


@given(st.dates())
def test_a_day_has_the_text_of_its_date(day: date) -> None:
    count = (day - date(1970, 1, 1)).days
    assert day_text(count) == day.isoformat()
    assert day_count(day.isoformat()) == count


@given(st.datetimes(), st.integers(0, 999))
def test_a_timestamp_has_the_text_of_its_moment_and_no_digit_is_lost(moment: datetime, nanoseconds: int) -> None:
    microseconds = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    count = microseconds * 1000 + nanoseconds
    fraction = f"{moment.microsecond:06}{nanoseconds:03}".rstrip("0")
    text = moment.replace(microsecond=0).isoformat() + ("." + fraction if fraction else "")
    assert timestamp_text(count, 10**9) == text
    assert timestamp_count(text, 10**9) == count


@given(st.integers(-(10**18), 10**18), PER_SECOND)
def test_a_count_comes_back_from_its_text(count: int, per_second: int) -> None:
    assert time_count(time_text(count, per_second), per_second) == count
    text = timestamp_text(count, per_second)
    assert text is None or timestamp_count(text, per_second) == count


def test_times_may_be_negative_or_more_than_a_day() -> None:
    assert time_text(-3_020_399_000_000, 10**6) == "-838:59:59"
    assert time_text(86_400_000, 10**3) == "24:00:00"
    assert time_text(-500, 10**3) == "-00:00:00.5"


@pytest.mark.parametrize("days", [-719_163, 2_932_897, 2**31 - 1, -(2**31)])
def test_outside_the_years_1_to_9999_there_is_no_text(days: int) -> None:
    assert day_text(days) is None
    assert timestamp_text(days * 86_400 * 10**6, 10**6) is None


@pytest.mark.parametrize("text", ["", "today", "1980-1-31", "1980-02-30", "19800131", "1980-01-31 ", "1980-01-31Z"])
def test_what_is_no_days_text_has_no_count(text: str) -> None:
    assert day_count(text) is None
    assert timestamp_count(f"{text}T00:00:00", 1000) is None


@pytest.mark.parametrize("text", ["", "7:00:00", "07:00", "07:60:00", "07:00:00.10", "07:00:00.0001", "-00:00:00", "x"])
def test_what_is_not_the_one_text_of_a_time_has_no_count(text: str) -> None:
    assert time_count(text, 1000) is None
    assert timestamp_count(f"1980-01-31T{text}", 1000) is None
