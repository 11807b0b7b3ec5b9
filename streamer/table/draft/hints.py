"""What the texts of a column seem to be that no draft can read: a few words that say what would help.

Told by patterns that all the texts have, or by what most of them are, never by one of them; nothing of a text is
repeated.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal

from streamer.errors import EventRefused
from streamer.table.draft.written import DAYS
from streamer.table.moments import DATE, moment_of
from streamer.table.scalars import read_decimal
from streamer.table.source_texts import reader_of_pattern

CODES = "codes? give them a hierarchy, by what they begin with"
DATES = "dates that are not all written alike: write them in one way, such as YYYY-MM-DD"
MONTHS = "dates with names of months? write them in digits, such as YYYY-MM-DD"
MEASURED = "numbers with a unit, a sign or words beside them? plain numbers would get intervals"
PHONES = "phone numbers, or numbers of contracts? they would name people"
WORDS = "numbers, and a few words? let those that are nulls be the column's `na`, and write the others as numbers"
TIMES = "times of day? write whole numbers of hours or minutes, which get intervals"

_MONTH = r"(jan|feb|mar|m\u00e4r|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[a-z]{0,6}\.?"
_DAY, _YEAR, _BETWEEN = r"\d{1,2}(st|nd|rd|th|\.)?", r"(\d{4}|\d\d)", r"[-/, ]{0,2}"
_PATTERNS = {
    MONTHS: re.compile(
        rf"({_DAY}{_BETWEEN}{_MONTH}|{_MONTH}{_BETWEEN}{_DAY}){_BETWEEN}{_YEAR}([T ]\d\d?:\d\d(:\d\d)?)?",
        re.ASCII | re.IGNORECASE,
    ),
    TIMES: re.compile(r"\d{1,2}:\d\d(:\d\d)?( ?[AaPp][Mm])?", re.ASCII),
    PHONES: re.compile(r"[+(]?(\d[ ()/.-]*){7,}", re.ASCII),
    CODES: re.compile(r"[A-Za-z]{1,3}[-. ]?\d[\dA-Za-z.-]*", re.ASCII),
    MEASURED: re.compile(r"\D{0,12}\d+([.,]\d+)*\D{0,12}", re.ASCII),
}
_READERS_OF_DAYS = [reader_of_pattern(day) for day in DAYS]
_NAMES_OF_DAYS = {"date", "day", "born", "birth", "dob", "birthday", "since", "until", "datum", "geburtsdatum", "seit"}
_EXCEL_DAYS = (Decimal(7_000), Decimal(73_000))  # of 1919 to 2099


def hint_of(distinct: Sequence[str]) -> str:
    """What the texts, which are neither numbers nor dates of one pattern, seem to be; "" where nothing is seen.

    >>> hint_of(["34 years", "7 years"]) == MEASURED, hint_of(["flu", "cough 2"])
    (True, '')
    """
    if distinct and all(map(_is_some_date, distinct)):
        return DATES
    for said, pattern in _PATTERNS.items():
        if distinct and all(map(pattern.fullmatch, distinct)):
            return said
    numbers = sum(read_decimal(text) is not None for text in distinct)
    return WORDS if 2 * numbers >= len(distinct) > 0 else ""


def hint_of_spellings(categories: Iterable[str]) -> str:
    """How many of the categories are another one but for capitals and blanks; "" where none is.

    >>> hint_of_spellings(["m", "M", "f"]).partition(":")[0], hint_of_spellings(["m", "f"])
    ('2 values are alike but for capitals or blanks', '')
    """
    looks = Counter("".join(text.split()).casefold() for text in categories)
    alike = sum(count for count in looks.values() if count > 1)
    return f"{alike} values are alike but for capitals or blanks: write them in one way in the source" if alike else ""


def could_be_excel_days(words: Collection[str], numbers: Sequence[Decimal]) -> bool:
    """Whether whole numbers in a column called so (words of its name) could count days as Excel does."""
    first, last = _EXCEL_DAYS
    return not _NAMES_OF_DAYS.isdisjoint(words) and all(first <= number <= last for number in numbers)


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
    return any(_is_date(str(read(text))) for read in _READERS_OF_DAYS)


def _is_date(text: str) -> bool:
    try:
        moment_of(text, "", DATE)
    except EventRefused:
        return False
    return True
