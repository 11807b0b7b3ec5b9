"""Hints about the texts of a column that cannot be drafted as numbers or dates: what they seem to be, what would help.

No hint repeats a value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from streamer.table.codes import DATE, read_decimal
from streamer.table.codes.source_texts import reader_of_pattern
from streamer.table.draft.kinds import DAYS, clock_of

DATES_HINT = "dates that are not all written alike: write them in one way, such as YYYY-MM-DD"
MONTH_NAMES_HINT = "dates with names of months? write them in digits, such as YYYY-MM-DD"
MONTHS_HINT = "months? write a day of each, such as YYYY-MM-01"
QUARTERS_HINT = "quarters or weeks? write a day of each, such as YYYY-MM-DD"
WEEKDAYS_HINT = "dates with days of the week? write them as YYYY-MM-DD"
TIMES_HINT = "dates with a time of day? write them in one way, such as 2024-02-28T14:30:00"
HALF_DAYS_HINT = "times with AM or PM? write them with 24 hours, such as 2024-02-28 14:30"
FINE_HINT = "times finer than a microsecond? write six digits after the second at most"
ZONES_HINT = "times with a zone by name? write the offset from UTC, such as 2024-02-28T14:30:00+01:00"
CLOCKS_HINT = "times of day or durations? write them as numbers, such as minutes"
SHORT_YEARS_HINT = "dates with years of two digits? write the whole year in the source, such as DD.MM.YYYY"
MEASURED_HINT = "contains digits: if they are codes or amounts, write them plainly to get intervals"
WORDS_HINT = (
    "numbers and a few words? list the words that are nulls in the column's `na`, and write the rest as numbers"
)

_MONTH = r"(jan|feb|mar|m\u00e4r|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[a-z]{0,6}\.?"
_DAY, _YEAR, _BETWEEN = r"\d{1,2}(st|nd|rd|th|\.)?", r"(\d{4}|\d\d)", r"[-/, ]{0,2}"
_WITH_MONTH = re.compile(
    rf"({_DAY}{_BETWEEN}{_MONTH}|{_MONTH}{_BETWEEN}{_DAY}){_BETWEEN}{_YEAR}([T ]\d\d?:\d\d(:\d\d)?)?",
    re.ASCII | re.IGNORECASE,
)
_SHORT_YEAR = re.compile(r"\d\d?([./-])\d\d?\1\d\d", re.ASCII)
_WEEKDAY = r"[^\W\d_]{2,12}\.?,? "
_SOME_DAY = rf"{_DAY}[-/. ]\d\d?[-/. ]\d{{4}}|\d{{4}}[-/. ]?\d\d?[-/. ]?\d\d?|{_WITH_MONTH.pattern}"
_SOME_TIME = r"([T ,]{1,2}\d\d?(:\d\d){1,2}|T\d{4,6}| \d\d?(?= ?[ap]))([.,]\d+)?"
_MOMENT = f"({_WEEKDAY})?({_SOME_DAY}){_SOME_TIME}"
_OFFSET = r"( ?Z| ?[+-]\d\d:?\d\d)?"
_SOME_MONTH = re.compile(
    rf"\d{{4}}[-/.](0?[1-9]|1[0-2])|(0?[1-9]|1[0-2])[-/.]\d{{4}}|{_MONTH}[-/ ]?\d{{4}}", re.IGNORECASE
)
_FORMS = {
    rf"{_MOMENT} ?[ap]\.?m\.?": HALF_DAYS_HINT,
    rf"{_MOMENT}(?<=\d{{7}}){_OFFSET}": FINE_HINT,
    rf"{_MOMENT}{_OFFSET} ?\[?[a-z][a-z_/]+([+-]\d\d?)?\]?": ZONES_HINT,
    f"{_MOMENT}{_OFFSET}": TIMES_HINT,
    f"{_WEEKDAY}({_SOME_DAY})": WEEKDAYS_HINT,
    r"\d{4}[-/ ]?[QTWK]\d{1,2}|[QTWK]\d{1,2}[-/ ]?\d{4}": QUARTERS_HINT,
    r"\d{1,3}(:\d\d){1,2}([.,]\d+)?( ?[ap]\.?m\.?)?": CLOCKS_HINT,
}
_OTHER_HINTS = {re.compile(form, re.IGNORECASE): hint for form, hint in _FORMS.items()}
_MEASURED = re.compile(r"\D{0,12}\d+([.,]\d+)*\D{0,12}", re.ASCII)
_READERS_OF_DAYS = [reader_of_pattern(day) for day in DAYS]


def hint_of(distinct: Sequence[str]) -> str:
    """A hint for texts that are neither numbers nor dates of one pattern: what they seem to be; "" if nothing."""
    if not distinct:
        return ""
    if all(map(is_some_date, distinct)):
        return DATES_HINT
    if all(map(_SHORT_YEAR.fullmatch, distinct)):
        return SHORT_YEARS_HINT
    if all(map(_SOME_MONTH.fullmatch, distinct)):
        return MONTHS_HINT
    if all(map(_WITH_MONTH.fullmatch, distinct)):
        return MONTH_NAMES_HINT
    for form, hint in _OTHER_HINTS.items():
        if all(map(form.fullmatch, distinct)):
            return hint
    if all(map(_MEASURED.fullmatch, distinct)):
        return MEASURED_HINT
    return WORDS_HINT if 2 * sum(read_decimal(text) is not None for text in distinct) >= len(distinct) else ""


def hint_of_spellings(categories: Iterable[str]) -> str:
    """The number of categories that differ from another one only in capitals and blanks; "" if none does."""
    looks = Counter("".join(text.split()).casefold() for text in categories)
    alike = sum(count for count in looks.values() if count > 1)
    return f"{alike} values are alike but for capitals or blanks: write them in one way in the source" if alike else ""


def is_no_header(names: Sequence[str]) -> bool:
    """True if the first line of a file seems to be a row: most of its names are numbers or dates, but not years."""
    numbers = [number for name in names if (number := read_decimal(name.strip())) is not None]
    are_years = len(names) > 1 and all(1900 <= number <= 2100 for number in numbers)
    return 2 * (len(numbers) + sum(map(is_some_date, names))) > len(names) and not are_years


def is_some_date(text: str) -> bool:
    return any(clock_of([str(read(text))]) == DATE for read in _READERS_OF_DAYS)
