"""Hints about texts that no draft can read: a few words on what would help.

A hint follows from what all texts, or most of them, look like; it repeats nothing of a text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from streamer.table.draft.times import clock_of
from streamer.table.draft.written import DAYS
from streamer.table.moments import DATE
from streamer.table.scalars import read_decimal
from streamer.table.source_texts import reader_of_pattern

DATES = "dates that are not all written alike: write them in one way, such as YYYY-MM-DD"
MONTHS = "dates with names of months? write them in digits, such as YYYY-MM-DD"
MEASURED = "numbers with a unit, a sign or words beside them? plain numbers would get intervals"
WORDS = "numbers, and a few words? let those that are nulls be the column's `na`, and write the others as numbers"

_MONTH = r"(jan|feb|mar|m\u00e4r|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[a-z]{0,6}\.?"
_DAY, _YEAR, _BETWEEN = r"\d{1,2}(st|nd|rd|th|\.)?", r"(\d{4}|\d\d)", r"[-/, ]{0,2}"
_WITH_MONTH = re.compile(
    rf"({_DAY}{_BETWEEN}{_MONTH}|{_MONTH}{_BETWEEN}{_DAY}){_BETWEEN}{_YEAR}([T ]\d\d?:\d\d(:\d\d)?)?",
    re.ASCII | re.IGNORECASE,
)
_MEASURED = re.compile(r"\D{0,12}\d+([.,]\d+)*\D{0,12}", re.ASCII)
_READERS_OF_DAYS = [reader_of_pattern(day) for day in DAYS]


def hint_of(distinct: Sequence[str]) -> str:
    """What the texts, which are neither numbers nor dates of one pattern, seem to be; "" if they look like nothing.

    >>> hint_of(["34 years", "7 years"]) == MEASURED, hint_of(["flu", "cough 2"])
    (True, '')
    """
    if distinct and all(map(_is_some_date, distinct)):
        return DATES
    if distinct and all(map(_WITH_MONTH.fullmatch, distinct)):
        return MONTHS
    if distinct and all(map(_MEASURED.fullmatch, distinct)):
        return MEASURED
    numbers = sum(read_decimal(text) is not None for text in distinct)
    return WORDS if 2 * numbers >= len(distinct) > 0 else ""


def hint_of_spellings(categories: Iterable[str]) -> str:
    """How many of the categories are another one but for capitals and blanks; "" if none is.

    >>> hint_of_spellings(["m", "M", "f"]).partition(":")[0], hint_of_spellings(["m", "f"])
    ('2 values are alike but for capitals or blanks', '')
    """
    looks = Counter("".join(text.split()).casefold() for text in categories)
    alike = sum(count for count in looks.values() if count > 1)
    return f"{alike} values are alike but for capitals or blanks: write them in one way in the source" if alike else ""


def is_no_header(names: Sequence[str]) -> bool:
    """Whether the first line of a file seems to be a row: most of its names are numbers or dates.

    >>> is_no_header(["7", "34", "m"]), is_no_header(["id", "2023", "2024"]), is_no_header(["id"])
    (True, False, False)
    """
    values = sum(read_decimal(name.strip()) is not None or _is_some_date(name) for name in names)
    return 2 * values > len(names) and not (len(names) > 1 and _are_years(names))


def _are_years(names: Sequence[str]) -> bool:
    return all(1900 <= number <= 2100 for name in names if (number := read_decimal(name)) is not None)


def _is_some_date(text: str) -> bool:
    return any(clock_of([str(read(text))]) is DATE for read in _READERS_OF_DAYS)
