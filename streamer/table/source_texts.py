"""How the texts of a source are written: the words that say that nothing is known, and dates and numbers as people
write them.

The rules of this file
----------------------
* A text that is one of a column's `na` words is a null, in files and in messages alike, and also where the column is
  the key or the individual. Words are compared as they stand: blanks and capitals count.
* A column of dates, local timestamps or numbers may say how its texts are `written`. A text that is written so becomes
  what table.yaml speaks of, an ISO text or a number. No text is read in two ways: under `1.234,5` the text `1.5` is no
  number at all, and refused. A date in ISO's form is no other date under any pattern, and stays one.
* A column that holds words holds texts: where its numbers are whole ones, their texts are numbers, too, in messages as
  in files. (Texts of decimals are numbers anyway.)
* What is no text is no matter of this file: a JSON number is that number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from streamer.errors import EventRefused
from streamer.table.scalars import read_decimal
from streamer.table.schema import NumericAttribute, SourceText, Table

Meaning = Callable[[object], object]
"""A value as it came -> what it means; a text that means nothing else is given back. Raises EventRefused."""

DIGITS = "digits"
NUMBERS = {
    "1,234.5": (",", "."),
    "1.234,5": (".", ","),
    "1 234,5": (" \u00a0\u202f", ","),
    "1 234.5": (" \u00a0\u202f", "."),
    "1'234.5": ("'\u2019", "."),
}
"""How numbers may be written, by example: what stands between thousands, and before the fraction."""

_TOKENS = {
    "YYYY": r"(?P<year>\d{4})", "MM": r"(?P<month>\d{1,2})", "DD": r"(?P<day>\d{1,2})",
    "hh": r"(?P<hour>\d{1,2})", "mm": r"(?P<minute>\d\d)", "ss": r"(?P<second>\d\d)",
}  # fmt: skip
_TOKEN = re.compile("|".join(_TOKENS))
_OF_A_DAY = ("YYYY", "MM", "DD")
_OF_A_TIME = ("hh", "mm", "ss")


def meanings_of(table: Table) -> Mapping[str, Meaning]:
    """The readers of the columns whose texts are written in a way of their own, by name."""
    integers = {a.name for a in table.attributes if isinstance(a, NumericAttribute) and a.integer}
    integers |= {column.name for column in table.kept if column.type == "integer"}
    return {text.column: meaning_of(text, of_integers=text.column in integers) for text in table.source_texts}


def meaning_of(text: SourceText, *, of_integers: bool = False) -> Meaning:
    """The reader of one column's values; of_integers: it holds whole numbers.

    >>> meaning = meaning_of(SourceText("born", ("?",), "DD.MM.YYYY"))
    >>> meaning("?"), meaning("31.12.1980"), meaning(7), meaning("soon")
    (None, '1980-12-31', 7, 'soon')
    """
    words, pattern = frozenset(text.na), None if text.written is None else reader_of_pattern(text.written)
    if pattern is None and of_integers:
        pattern = _number_or_text

    def meaning(value: object) -> object:
        if type(value) is not str:
            return value
        if value in words:
            return None
        if pattern is None:
            return value
        try:
            return pattern(value)
        except ValueError as error:
            raise EventRefused("wrong-type", f"column {text.column!r}: {error}", text.column) from None

    return meaning


def reader_of_pattern(written: str) -> Callable[[str], object]:
    """The reader of texts that are written so, one of NUMBERS, DIGITS or a pattern of dates; what
    is no date of this pattern stays as it is. Raises ValueError for what is no such number.

    >>> reader_of_pattern("DD.MM.YYYY")("7.12.1980"), reader_of_pattern("1,234.5")("1,234")
    ('1980-12-07', Decimal('1234'))
    """
    if written == DIGITS:
        return _digits
    return _number(written) if written in NUMBERS else _moment(written)


def fault_of_pattern(written: str, *, with_time: bool) -> str | None:
    """What is wrong with a pattern of dates, or, with_time, of local timestamps; None where nothing is.

    >>> fault_of_pattern("DD.MM.YYYY", with_time=False), fault_of_pattern("DD.MM.YY", with_time=False)
    (None, 'must have YYYY, MM and DD once each, such as DD.MM.YYYY')
    """
    tokens = _TOKEN.findall(written)
    if sorted(token for token in tokens if token in _OF_A_DAY) != sorted(_OF_A_DAY):
        return "must have YYYY, MM and DD once each, such as DD.MM.YYYY" + " hh:mm" * with_time
    times = [token for token in tokens if token in _OF_A_TIME]
    if with_time and times not in (["hh", "mm"], ["hh", "mm", "ss"]):
        return "must have hh:mm or hh:mm:ss behind the day, such as DD.MM.YYYY hh:mm"
    if times and not with_time:
        return "has a time of day, and the type is date; write a midnight that is always there as it is, 00:00"
    return None


def _number_or_text(text: str) -> object:
    number = read_decimal(text)
    return text if number is None else number


def _digits(text: str) -> object:
    if not (text.isascii() and text.isdigit()):
        raise _otherwise(DIGITS)
    return read_decimal(text)


def _number(written: str) -> Callable[[str], object]:
    thousands, point = NUMBERS[written]
    between, before_fraction = f"[{re.escape(thousands)}]", re.escape(point)
    is_number = re.compile(rf"[+-]?(\d{{1,3}}({between}\d{{3}})+|\d+)({before_fraction}\d+)?", re.ASCII).fullmatch
    out = str.maketrans({**dict.fromkeys(thousands, ""), point: "."})

    def read(text: str) -> object:
        if not is_number(text):
            raise _otherwise(written)
        return read_decimal(text.translate(out))

    return read


def _otherwise(written: str) -> ValueError:
    return ValueError(f"not a number that is written as {written}")


def _moment(written: str) -> Callable[[str], object]:
    parts: Iterable[str] = re.split(f"({_TOKEN.pattern})", written)
    is_moment = re.compile("".join(_TOKENS.get(part) or re.escape(part) for part in parts), re.ASCII).fullmatch

    def read(text: str) -> object:
        found = is_moment(text)
        if found is None:
            return text
        said = found.groupdict()
        day = f"{said['year']}-{said['month']:0>2}-{said['day']:0>2}"
        if "hour" not in said:
            return day
        return f"{day}T{said['hour']:0>2}:{said['minute']}:{said.get('second') or '00'}"

    return read
