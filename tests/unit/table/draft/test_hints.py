"""Hints about texts of a column that no draft can read."""

from __future__ import annotations

import pytest

from streamer.table.draft.hints import (
    CLOCKS_HINT,
    DATES_HINT,
    FINE_HINT,
    HALF_DAYS_HINT,
    MEASURED_HINT,
    MONTH_NAMES_HINT,
    MONTHS_HINT,
    QUARTERS_HINT,
    TIMES_HINT,
    WEEKDAYS_HINT,
    WORDS_HINT,
    ZONES_HINT,
    hint_of,
    hint_of_spellings,
    is_no_header,
)

# What a column seems to be that no draft can read: a few words that help, and none of its own.


@pytest.mark.parametrize(
    ("texts", "hint"),
    [
        (["31.12.1980", "1980-12-31"], DATES_HINT),
        (["12/31/1980", "31.12.1980"], DATES_HINT),
        (["12-Jan-1980", "1-DEC-1981"], MONTH_NAMES_HINT),
        (["12 January 1980", "3. M\u00e4rz 1981", "12Sept80"], MONTH_NAMES_HINT),
        (["Jan 12, 1980", "December 1st, 1981 08:15"], MONTH_NAMES_HINT),
        (["34 years", "7 years"], MEASURED_HINT),
        ([">90", "34"], MEASURED_HINT),
        (["12%", "7%"], MEASURED_HINT),
        (["\u20ac 1.200,50", "\u20ac 7"], MEASURED_HINT),
        (["34", "7.5", "90+", "unknown"], WORDS_HINT),
        (["2024-02-02T01:00:00.123456789Z", "2024-02-02 01:00:00.1234567"], FINE_HINT),
        (["2/2/2024 2:01 PM", "12/31/2024 11:59 a.m."], HALF_DAYS_HINT),
        (["2024-02-02 01:00:00 UTC", "2024-02-02T01:00:00+01:00[Europe/Berlin]"], ZONES_HINT),
        (["Fri, 02 Feb 2024 01:00:00 GMT"], ZONES_HINT),
        (["02/02/1951 10:00:00.000", "20240202T010000Z"], TIMES_HINT),
        (["Mo, 02.02.1951", "Friday 2 Feb 2024"], WEEKDAYS_HINT),
        (["2024-02", "02/2024", "Feb 2024"], MONTHS_HINT),
        (["2024-Q1", "W05 2024"], QUARTERS_HINT),
        (["14:30", "01:30:22", "2:30 pm"], CLOCKS_HINT),
    ],
)
def test_a_hint_says_what_all_texts_seem_to_be(texts: list[str], hint: str) -> None:
    assert hint_of(texts) == hint


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["flu"],
        ["flu", "34 years"],
        ["E11.9", "flu"],
        ["31.12.1980", "soon"],
        ["12-Jan-1980", "soon"],
        ["12 Marbles 7"],
    ],
)
def test_texts_that_have_nothing_in_common_tell_nothing(texts: list[str]) -> None:
    assert hint_of(texts) == ""


@pytest.mark.parametrize(
    ("categories", "alike"),
    [(["m", "M", "f"], 2), (["male", "male ", "Male", "f", "F"], 5), (["New York", "new  york", "NewYork", "Ulm"], 3)],
)
def test_categories_that_differ_in_capitals_or_blanks_alone_are_counted(categories: list[str], alike: int) -> None:
    assert hint_of_spellings(categories).startswith(f"{alike} values are alike")
    assert not any(category in hint_of_spellings(categories) for category in categories if len(category) > 1)


@pytest.mark.parametrize("categories", [[], ["m"], ["m", "f"], ["a b", "a-b"]])
def test_other_categories_are_not(categories: list[str]) -> None:
    assert hint_of_spellings(categories) == ""


@pytest.mark.parametrize(
    ("names", "row"),
    [
        (["7", "34", "m"], True),
        (["17", "1980-12-31", "12.5"], True),
        (["id", "age", "1"], False),
        (["id", "2021", "2022", "2023"], False),
        (["2021", "2022"], False),
        (["age"], False),
    ],
)
def test_a_first_line_of_numbers_and_dates_is_a_row_unless_they_are_years(names: list[str], row: bool) -> None:
    assert is_no_header(names) is row
