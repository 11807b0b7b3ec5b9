"""How the texts of a source are written: the words that say that nothing is known, and dates and numbers as people
write them.

The rules of this file
----------------------
* A value that is one of a column's `na` words is a null, in files, messages and DataFrames alike, and also where the
  column is the key or the individual. Words are compared as they stand: blanks and capitals count. But a word that is a
  number, in a column of numbers, is that number however it comes: `999`, `999.0`, a JSON number, a float; and a word
  that is a moment, in a column of dates or timestamps, is that moment. Elsewhere a number counts as its shortest text,
  a boolean as `true` or `false`, as they do for categories and keys.
* A column of dates, local timestamps or numbers may say how its texts are `written`. A text that is written so becomes
  what table.yaml speaks of, an ISO text or a number. No text is read in two ways: under `1.234,5` the text `1.5` is no
  number at all, and refused. A date in ISO's form is no other date under any pattern, and stays one. Where nothing
  stands between two parts of a date, they have all their digits: under `DDMMYYYY`, `1121980` could be two days.
* What a text means is asked again of its meaning: `produce` sends what a file's texts mean, and the worker reads that.
  So an ISO date that is one of the words is a null, however it was written.
* A column that holds words holds texts: where its values are whole numbers or booleans, their texts (`7`, `true`) are
  these, too, in messages as in files. (Texts of decimals are numbers anyway.)
* What is no text is not `written` in any way: a JSON number is that number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd

from streamer.errors import EventRefused
from streamer.table.attributes import Attribute, NumericAttribute, TemporalAttribute
from streamer.table.scalars import CLOCKS, DIGITS_MAX, Clock, category_of, decimal_text, moment_of, read_decimal
from streamer.table.schema import KeptColumn, SourceText, Table

Meaning = Callable[[object], object]
"""A value as it came -> what it means; a text that means nothing else is given back. Raises EventRefused."""

DIGITS_ALONE = "digits"
NUMBER_SPELLINGS = {
    "1,234.5": (",", "."),
    "1.234,5": (".", ","),
    "1 234,5": (" \u00a0\u202f", ","),
    "1 234.5": (" \u00a0\u202f", "."),
    "1'234.5": ("'\u2019", "."),
}
"""How numbers may be written, by example: what stands between thousands, and before the fraction."""

BOOLEANS = {"true": True, "false": False}
"""The texts of booleans."""

_TOKENS = {
    "YYYY": r"(?P<year>\d{4})", "MM": r"(?P<month>\d{1,2})", "DD": r"(?P<day>\d{1,2})",
    "hh": r"(?P<hour>\d{1,2})", "mm": r"(?P<minute>\d\d)", "ss": r"(?P<second>\d\d)",
}  # fmt: skip
_TOKEN = re.compile("|".join(_TOKENS))
_ONE_OR_TWO, _TWO = r"\d{1,2}", r"\d\d"
_LIKE_ISO = "YYYY-DD-MM"
_OF_A_DAY = ("YYYY", "MM", "DD")
_OF_A_TIME = ("hh", "mm", "ss")


def meanings_of(table: Table) -> Mapping[str, Meaning]:
    """The readers of the columns whose texts are written in a way of their own, by name."""
    types = {column.name: type_said(column) for column in (*table.attributes, *table.kept)}
    return {text.column: meaning_of(text, types.get(text.column)) for text in table.source_texts}


def type_said(column: Attribute | KeptColumn) -> str | None:
    """What table.yaml says of a column's values: a type, or the name of a clock; None: a category, or any value."""
    if isinstance(column, NumericAttribute):
        return "integer" if column.integer else "decimal"
    if isinstance(column, TemporalAttribute):
        return column.calendar.clock.name
    return column.type if isinstance(column, KeptColumn) else None


def meaning_of(text: SourceText, type_: str | None = None) -> Meaning:
    """The reader of one column's values; type_: what table.yaml says of them (`type_said`).

    >>> meaning = meaning_of(SourceText("born", ("?",), "DD.MM.YYYY"), "date")
    >>> meaning("?"), meaning("31.12.1980"), meaning(7), meaning("soon")
    (None, '1980-12-31', 7, 'soon')
    >>> [meaning_of(SourceText("age", ("999",)), "integer")(value) for value in ("999.0", 999, 99)]
    [None, None, 99]
    """
    words = frozenset(text.na)
    pattern = _TEXTS_OF.get(type_ or "") if text.written is None else reader_of_pattern(text.written)
    of_value = _identity(type_)
    nulls = frozenset(_of_words(text.na, pattern, of_value)) - {None}

    def meaning(value: object) -> object:
        if type(value) is str:
            if value in words:
                return None
            if pattern is not None:
                try:
                    value = pattern(value)
                except ValueError as error:
                    raise EventRefused("wrong-type", f"column {text.column!r}: {error}", text.column) from None
        return None if nulls and of_value(value) in nulls else value

    return meaning


def _of_words(
    words: tuple[str, ...], pattern: Callable[[str], object] | None, of_value: Callable[[object], Hashable]
) -> Iterator[Hashable]:
    """What values of the column the words are; one that is not written as the column's texts are is what it says."""
    for word in words:
        try:
            yield of_value(word if pattern is None else pattern(word))
        except ValueError:
            yield of_value(word)


def _identity(type_: str | None) -> Callable[[object], Hashable]:
    """By what a value of a column of this type is told from others; None: it is none of this type."""
    if type_ in ("integer", "decimal"):
        return _number_itself
    clock = CLOCKS.get(type_ or "")
    return _text_itself if clock is None else lambda value: _moment_itself(value, clock)


def _number_itself(value: object) -> Hashable:
    number = read_decimal(value) if type(value) is str else value
    is_number = type(number) is int or isinstance(number, Decimal)  # True is 1 for Python, and no number here
    return number if is_number else None


def _moment_itself(value: object, clock: Clock) -> Hashable:
    if not isinstance(value, str | date):
        return None
    try:
        return moment_of(value, "", clock)
    except EventRefused:
        return None


def _text_itself(value: object) -> Hashable:
    try:
        return category_of(value, "")
    except EventRefused:
        return None


def reader_of_pattern(written: str) -> Callable[[str], object]:
    """The reader of texts that are written so, one of NUMBERS, DIGITS or a pattern of dates; what
    is no date of this pattern stays as it is. Raises ValueError for what is no such number.

    >>> reader_of_pattern("DD.MM.YYYY")("7.12.1980"), reader_of_pattern("1,234.5")("1,234")
    ('1980-12-07', Decimal('1234'))
    """
    if written == DIGITS_ALONE:
        return _digits
    return _number(written) if written in NUMBER_SPELLINGS else _moment(written)


def fault_of_pattern(written: str, *, with_time: bool) -> str | None:
    """What is wrong with a pattern of dates, or, with_time, of local timestamps; None if nothing is.

    >>> fault_of_pattern("DD.MM.YYYY", with_time=False), fault_of_pattern("DD.MM.YY", with_time=False)
    (None, 'must have YYYY, MM and DD once each, such as DD.MM.YYYY')
    """
    if _LIKE_ISO in written:
        return "cannot be told from ISO's YYYY-MM-DD; let the source write it with other marks, such as YYYY/DD/MM"
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


def _boolean_or_text(text: str) -> object:
    return BOOLEANS.get(text, text)


_TEXTS_OF: Mapping[str, Callable[[str], object]] = {"integer": _number_or_text, "boolean": _boolean_or_text}
"""What the texts of a column are by its type, if they are not written in a way of their own."""


def _digits(text: str) -> object:
    if not (text.isascii() and text.isdigit()):
        raise _otherwise(DIGITS_ALONE)
    return read_decimal(text)


def _number(written: str) -> Callable[[str], object]:
    thousands, point = NUMBER_SPELLINGS[written]
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
    is_moment = re.compile("".join(_expressions(written)), re.ASCII).fullmatch

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


def _expressions(written: str) -> Iterator[str]:
    """The parts of a pattern of dates as regular expressions."""
    parts = re.split(f"({_TOKEN.pattern})", written)  # texts and tokens take turns, and begin and end with a text
    last = len(parts) - 1
    for place, part in enumerate(parts):
        if place % 2 == 0:
            yield re.escape(part)
            continue
        touches = (parts[place - 1] == "" and place > 1) or (parts[place + 1] == "" and place + 1 < last)
        yield _TOKENS[part].replace(_ONE_OR_TWO, _TWO) if touches else _TOKENS[part]


# A cell of a file, or a value of a DataFrame -> what it stands for in its column, as a message would have it.
#
# A CSV file has texts only; an empty cell is a null, and a text stands for what its column's type says. A typed value
# of a DataFrame counts as the text it would be in a file (`cell_text`), but that a typed number is not `written` in any
# way; what is no scalar (bytes, a tuple) stays as it is, and is refused by the encoder as it is in a message.

_BOOLEAN_TYPES = (bool, np.bool_)
_SCALARS = (str, *_BOOLEAN_TYPES, int, float, np.integer, np.floating, Decimal, date, np.datetime64, time, UUID)


class CellReader:
    """What the cells of a table's columns stand for; meanings: of the columns that are written in their own way."""

    def __init__(self, table: Table, meanings: Mapping[str, Meaning]) -> None:
        self._types = {column.name: type_said(column) for column in (*table.attributes, *table.kept)}
        self._meanings = meanings

    def value(self, name: str, cell: Any) -> object:
        """The value that a cell of a file stands for: what the source's way of writing makes of it, or its type."""
        if not isinstance(cell, str) and not is_scalar(cell):
            return cell  # the encoder says so
        text, meaning = cell_text(cell), self._meanings.get(name)
        if text and meaning is not None and isinstance(cell, str):  # a typed value is not written in any way
            try:
                meant = meaning(text)
            except EventRefused:
                return text  # the encoder says so
            if meant is not text:
                return meant
        return _from_text(self._types.get(name), text)


def _from_text(type_: str | None, text: str) -> object:
    """The value a CSV cell stands for; what its type cannot read stays text, for the encoder to refuse."""
    if text == "":
        return None
    if type_ in ("integer", "decimal"):
        number = read_decimal(text)
        return text if number is None else number
    return BOOLEANS.get(text, text) if type_ == "boolean" else text


def is_scalar(value: Any) -> bool:
    """Whether a value of a DataFrame is one that a cell of a file could have: no bytes, no list, no span of time.

    >>> [is_scalar(value) for value in (7, None, pd.NaT, b"flu", (1, 2))]
    [True, True, True, False, False]
    """
    return value is None or value is pd.NA or value is pd.NaT or isinstance(value, _SCALARS)


def told_apart(cells: pd.Series[Any]) -> pd.Series[Any]:
    """A column in which true and 1 are two, which are one for Python and in no source."""
    if cells.dtype != object or set(map(type, cells)).isdisjoint(_BOOLEAN_TYPES):
        return cells
    return cells.map(lambda cell: cell_text(cell) if isinstance(cell, _BOOLEAN_TYPES) else cell)


def cell_text(value: Any) -> str:
    """One value of a DataFrame as the text of a CSV cell; numbers as shortest decimals, a hole as an empty cell.

    >>> [cell_text(value) for value in (10.0, 0.5, True, None, "flu", float("nan"))]
    ['10', '0.5', 'true', '', 'flu', '']
    """
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()  # as messages have it
    number = read_decimal(str(value))
    return str(value) if number is None or abs(number.adjusted()) > DIGITS_MAX else decimal_text(number)
