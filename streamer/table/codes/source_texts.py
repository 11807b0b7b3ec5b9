"""The meaning of a source's texts: words for nulls, and dates and numbers as people write them.

The rules of this file
----------------------
* A value that is one of a column's `na` words is a null, in files, messages and DataFrames alike, also in the key or
  the individual. Capitals of words count; blanks at the ends, as of a column char(10), do not. But in a column of
  numbers a word that is a number is that number in every form (`999`, `999.0`, a JSON number, a float), and in a column
  of dates or timestamps a word that is a moment is that moment. In other columns a number counts as its shortest text,
  and a boolean as `true` or `false`, as for categories and keys.
* A column of dates, local timestamps or numbers may say how its texts are `written`. Such a text becomes an ISO text or
  a number. No text can be read in two ways: under `1.234,5` the text `1.5` is refused. A date in ISO's form stays that
  date under every pattern. If nothing separates two parts of a date, both need all their digits: under `DDMMYYYY`,
  `1121980` could be two days.
* The meaning of a meaning is the same: `produce` sends what a file's texts mean, and the worker reads that again. So an
  ISO date that is one of the words is a null, however it was written.
* If a column has words, the texts of whole numbers and booleans (`7`, `true`) are these, in messages as in files.
  (Texts of decimals are numbers in any case.)
* `written` applies to texts only: a JSON number is that number.
* MMM is the name of a month, whole or short, in one of the languages of `MONTH_NAMES`; a day beside it may be an
  ordinal (`1er`, `3.`). A number may have one unit beside it, as in `1.234,5 EUR`: such a text may have it or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any
from unicodedata import combining, normalize
from uuid import UUID

import numpy as np

from streamer.errors import EventRefused
from streamer.table.arrays import Ints
from streamer.table.codes.attributes import Attribute, KeptColumn, NumericAttribute, SourceText, TemporalAttribute
from streamer.table.codes.scalars import (
    CLOCKS,
    ENDLESS_COUNT,
    EPOCH,
    SECONDS_PER_DAY,
    category_of,
    day_text,
    moment_anywhere,
    read_decimal,
    shortest_text,
    timestamp_text,
)

if TYPE_CHECKING:
    import pandas as pd  # a worker has no DataFrames, and pandas takes 80 MB

Meaning = Callable[[object], object]
"""A value of the source -> what it means, which may be the value itself. Raises EventRefused."""

DIGITS_ALONE = "digits"
PLAIN_NUMBER = "1234.5"
NUMBER_SPELLINGS = {
    "1,234.5": (",", "."),
    "1.234,5": (".", ","),
    "1 234,5": (" \u00a0\u202f", ","),
    "1 234.5": (" \u00a0\u202f", "."),
    "1'234.5": ("'\u2019", "."),
}
"""How numbers may be written, by example: the marks between thousands, and before the fraction."""

MONTH_NAMES = (
    "january february march april may june july august september october november december",
    "januar februar m\u00e4rz april mai juni juli august september oktober november dezember",
    "janvier f\u00e9vrier mars avril mai juin juillet ao\u00fbt septembre octobre novembre d\u00e9cembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "janeiro fevereiro mar\u00e7o abril maio junho julho agosto setembro outubro novembro dezembro",
    "januari februari maart april mei juni juli augustus september oktober november december",
    "j\u00e4nner feber mrz apr mai jun jul aug sept okt nov dez",
    "stycze\u0144 luty marzec kwiecie\u0144 maj czerwiec lipiec sierpie\u0144 wrzesie\u0144 pa\u017adziernik listopad"
    " grudzie\u0144",
    "stycznia lutego marca kwietnia maja czerwca lipca sierpnia wrze\u015bnia pa\u017adziernika listopada grudnia",
    "ledna \u00fanora b\u0159ezna dubna kv\u011btna \u010dervna \u010dervence srpna z\u00e1\u0159\u00ed \u0159\u00edjna"
    " listopadu prosince",
    "leden \u00fanor b\u0159ezen duben kv\u011bten \u010derven \u010dervenec srpen z\u00e1\u0159\u00ed \u0159\u00edjen"
    " listopad prosinec",
    "januari februari marts april maj juni juli augusti september oktober november desember",
)
"""The names of months: English, German, French, Spanish, Italian, Portuguese, Dutch, Austrian and short German, Polish
in two cases, Czech in two cases, Scandinavian."""


def plain_letters(text: str) -> str:
    """A text in small letters without accents, so that `F\u00c9VRIER` and `fevrier` are one.

    >>> plain_letters("F\u00c9VRIER"), plain_letters("Stra\u00dfe")
    ('fevrier', 'strasse')
    """
    return "".join(sign for sign in normalize("NFKD", text).casefold() if not combining(sign))


def _month_numbers() -> dict[str, int]:
    """The number of every name, and of its beginning of three letters or more if that means one month only.

    A name that begins another one, as the Czech `\u010derven` begins `\u010dervenec`, means its own month.
    """
    meant: dict[str, set[int]] = {}
    names = [(name, number) for said in MONTH_NAMES for number, name in enumerate(plain_letters(said).split(), 1)]
    for name, number in names:
        for end in range(3, len(name) + 1):
            meant.setdefault(name[:end], set()).add(number)
    return {beginning: min(numbers) for beginning, numbers in meant.items() if len(numbers) == 1} | dict(names)


_MONTHS = _month_numbers()

BOOLEANS = {"true": True, "false": False}

_TOKENS = {
    "YYYY": "(?P<year>[0-9]{4})", "MMM": r"(?P<name>[^\W\d_]+)\.?", "MM": "(?P<month>[0-9]{1,2})",
    "DD": "(?P<day>[0-9]{1,2})", "hh": "(?P<hour>[0-9]{1,2})", "mm": "(?P<minute>[0-9]{2})",
    "ss": "(?P<second>[0-9]{2})",
}  # fmt: skip
_TOKEN = re.compile("|".join(_TOKENS))
_NAMED_MONTH = "MMM"
_ORDINAL = r"(?:\.|er|re|st|nd|rd|th|\u00ba|\u00b0)?"
_ONE_OR_TWO, _TWO = "[0-9]{1,2}", "[0-9]{2}"
_LIKE_A_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_LIKE_ISO = "YYYY-DD-MM"
_OF_A_DAY = ("YYYY", "MM", "DD")
_OF_A_TIME = ("hh", "mm", "ss")


def meanings_of(texts: Iterable[SourceText], types: Mapping[str, str | None]) -> Mapping[str, Meaning]:
    """The readers of the columns that have words for nulls or a pattern, by name; types: of the table's columns."""
    return {text.column: meaning_of(text, types.get(text.column)) for text in texts}


def type_of_column(column: Attribute | KeptColumn) -> str | None:
    """The type of a column's values in the source; None: a category, or any value."""
    if isinstance(column, NumericAttribute):
        return "integer" if column.integer else "decimal"
    if isinstance(column, TemporalAttribute):
        return column.calendar.clock.name
    return column.source.type if isinstance(column, KeptColumn) else None


def meaning_of(text: SourceText, type_: str | None = None) -> Meaning:
    """The reader of one column's values; type_: as `type_of_column` gives it.

    >>> meaning = meaning_of(SourceText("born", ("?",), "DD.MM.YYYY"), "date")
    >>> meaning("?"), meaning("31.12.1980"), meaning(7), meaning("soon")
    (None, '1980-12-31', 7, 'soon')
    >>> [meaning_of(SourceText("age", ("999",)), "integer")(value) for value in ("999.0", 999, 99)]
    [None, None, 99]
    """
    words = frozenset(text.na)
    pattern = _TEXTS_OF.get(type_) if type_ != "decimal" else None
    if text.written is not None:
        pattern = reader_of_pattern(text.written)
    of_value = _identity(type_)
    nulls = frozenset(_of_words(text.na, pattern, of_value)) - {None}

    def meaning(value: object) -> object:
        if type(value) is str:
            if value in words or value.strip() in words:
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
    """The words as values of the column; a word that is not written as the column's texts are is read literally."""
    for word in words:
        try:
            yield of_value(word if pattern is None else pattern(word))
        except ValueError:
            yield of_value(word)


def _identity(type_: str | None) -> Callable[[object], Hashable]:
    """A function that is equal for equal values of a column of this type; None for what is not of the type."""
    if type_ in ("integer", "decimal"):
        return _number_itself
    clock = CLOCKS.get(type_ or "")

    def identity(value: object) -> Hashable:
        try:
            return category_of(value, "") if clock is None else moment_anywhere(value, "", clock)
        except EventRefused:
            return None

    return identity


def _number_itself(value: object) -> Hashable:
    number = read_decimal(value) if type(value) is str else value
    is_number = type(number) is int or isinstance(number, Decimal)  # True is 1 for Python, but not a number here
    return number if is_number else None


def reader_of_pattern(written: str) -> Callable[[str], object]:
    """The reader of texts that are `written` so: one of NUMBER_SPELLINGS, DIGITS_ALONE or a pattern of dates.

    A text that is not a date of the pattern stays as it is. Raises ValueError for a text that is not such a number.

    >>> reader_of_pattern("DD.MM.YYYY")("7.12.1980"), reader_of_pattern("1,234.5")("1,234")
    ('1980-12-07', Decimal('1234'))
    """
    if written == DIGITS_ALONE:
        return _digits
    parts = number_parts(written)
    return _number(written, *parts) if parts is not None else _moment(written)


_UNIT = re.compile(r"[^\d+.,'\u2019<>=~-]{0,20}")


def number_parts(written: str) -> tuple[str, str, str] | None:
    """The spelling in a pattern of numbers, and the units before and after it; None if it is none.

    >>> number_parts("1.234,5 EUR"), number_parts("1,234.5"), number_parts("DD.MM.YYYY")
    (('1.234,5', '', 'EUR'), ('1,234.5', '', ''), None)
    """
    for spelling in (*NUMBER_SPELLINGS, PLAIN_NUMBER):
        before, found, after = written.partition(spelling)
        if found and all(map(_UNIT.fullmatch, (before, after))) and written != PLAIN_NUMBER and not (before and after):
            return spelling, before.strip(), after.strip()
    return None


def fault_of_pattern(written: str, *, with_time: bool) -> str | None:
    """The fault of a pattern of dates, or with_time of local timestamps; None if it has none.

    >>> fault_of_pattern("DD.MM.YYYY", with_time=False), fault_of_pattern("DD.MM.YY", with_time=False)
    (None, 'must have YYYY, MM and DD once each, such as DD.MM.YYYY')
    """
    if _LIKE_ISO in written:
        return "cannot be told from ISO's YYYY-MM-DD; use other marks in the source, such as YYYY/DD/MM"
    tokens = ["MM" if token == _NAMED_MONTH else token for token in _TOKEN.findall(written)]
    if sorted(token for token in tokens if token in _OF_A_DAY) != sorted(_OF_A_DAY):
        return "must have YYYY, MM and DD once each, such as DD.MM.YYYY" + " hh:mm" * with_time
    if any(_NAMED_MONTH + token in written or token + _NAMED_MONTH in written for token in _TOKENS):
        return "must have a mark or a blank beside MMM, the name of a month"
    times = [token for token in tokens if token in _OF_A_TIME]
    if with_time and times not in (["hh", "mm"], ["hh", "mm", "ss"]):
        return "must have hh:mm or hh:mm:ss after the day, such as DD.MM.YYYY hh:mm"
    if times and not with_time:
        return "has a time of day, but the type is date; if the time is always midnight, write it out: 00:00"
    return None


def in_its_own_form(refused: EventRefused, text: SourceText, meant: object) -> EventRefused:
    """A refusal of a text that speaks of the column's own way of writing dates; any other as it is."""
    is_moment = text.written is not None and text.written != DIGITS_ALONE and number_parts(text.written) is None
    if not is_moment or type(meant) is not str or refused.reason != "wrong-type":
        return refused
    is_read = _LIKE_A_DAY.match(meant)
    what = "no such day or time, of the form" if is_read else "not of the form"
    return EventRefused("wrong-type", f"column {text.column!r}: {what} {text.written}", text.column)


def _number_or_text(text: str) -> object:
    number = read_decimal(text)
    return text if number is None else number


_TEXTS_OF: Mapping[str | None, Callable[[str], object]] = {
    "integer": _number_or_text,
    "decimal": _number_or_text,
    "boolean": lambda text: BOOLEANS.get(text, text),
}
"""The readers of texts by their column's type; the encoder refuses those that stay texts."""


def _digits(text: str) -> object:
    if not (text.isascii() and text.isdigit()):
        raise _otherwise(DIGITS_ALONE)
    return read_decimal(text)


def _number(written: str, spelling: str, before: str, after: str) -> Callable[[str], object]:
    thousands, point = NUMBER_SPELLINGS.get(spelling, ("", "."))
    grouped = rf"\d{{1,3}}([{re.escape(thousands)}]\d{{3}})+|" if thousands else ""
    is_number = re.compile(rf"[+-]?({grouped}\d+)({re.escape(point)}\d+)?", re.ASCII).fullmatch
    out = str.maketrans({**dict.fromkeys(thousands, ""), point: "."})

    def read(text: str) -> object:
        if before or after:
            text = text.strip().removeprefix(before).removesuffix(after).strip()
        if not is_number(text):
            raise _otherwise(written)
        return read_decimal(text.translate(out))

    return read


def _otherwise(written: str) -> ValueError:
    return ValueError(f"not a number that is written as {written}")


def _moment(written: str) -> Callable[[str], object]:
    is_moment = re.compile("".join(_expressions(written))).fullmatch

    def read(text: str) -> object:
        found = is_moment(text)
        if found is None:
            return text
        said = found.groupdict()
        if "name" in said:
            said["month"] = str(_MONTHS.get(plain_letters(said["name"]), 0))
        day = f"{said['year']}-{said['month']:0>2}-{said['day']:0>2}"
        if "hour" not in said:
            return day
        return f"{day}T{said['hour']:0>2}:{said['minute']}:{said.get('second') or '00'}"

    return read


def _expressions(written: str) -> Iterator[str]:
    """The parts of a pattern of dates as regular expressions."""
    parts = re.split(f"({_TOKEN.pattern})", written)  # texts and tokens alternate; the first and the last is a text
    last = len(parts) - 1
    for i, part in enumerate(parts):
        if i % 2 == 0:
            yield re.escape(part)
            continue
        touches = (parts[i - 1] == "" and i > 1) or (parts[i + 1] == "" and i + 1 < last)
        token = _TOKENS[part].replace(_ONE_OR_TWO, _TWO) if touches else _TOKENS[part]
        yield token + _ORDINAL if part == "DD" and _NAMED_MONTH in written else token


# Cells of files and values of DataFrames. A typed value counts as the text that a file would have (`cell_text`), except
# that `written` does not apply to it. What is not a scalar (bytes, a tuple) is left for the encoder to refuse, as in a
# message.

_BOOLEAN_TYPES = (bool, np.bool_)
_HALVES = re.compile("[\ud800-\udfff]")
_LONG = 8  # bytes of a float64, whose shortest decimal Python prints
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_NULL_TYPES = ("NAType", "NaTType")
"""Of pandas, which is not imported to ask whether a value is one of its nulls."""

_SCALARS = (str, *_BOOLEAN_TYPES, int, float, np.integer, np.floating, Decimal, date, np.datetime64, time, UUID)


class CellReader:
    """Reads cells of a table's columns by their types, and the meanings of those with words for nulls or a pattern."""

    def __init__(
        self, types: Mapping[str, str | None], meanings: Mapping[str, Meaning], untyped: Iterable[str]
    ) -> None:
        """untyped: columns that may hold any value."""
        readers = {name: _TEXTS_OF[type_] for name, type_ in types.items() if type_ in _TEXTS_OF}
        self._readers = readers | dict.fromkeys(untyped, _as_a_boolean_is)
        self._trimmed = frozenset(name for name, type_ in types.items() if type_ not in (None, "text"))
        self._meanings = meanings

    def value(self, name: str, cell: Any) -> object:
        """The value that a cell stands for, as a message would have it. Raises EventRefused for what is no text."""
        if not isinstance(cell, str) and not is_scalar(cell):
            return cell  # the encoder refuses it
        try:
            text, meaning = cell if type(cell) is str else cell_text(cell), self._meanings.get(name)
        except ValueError:  # a whole number of thousands of digits, which Python writes as no text
            return cell
        if name in self._trimmed:
            text = text.strip()
        if not text.isascii() and _HALVES.search(text):
            detail = "not a text: it holds half of a character (a lone surrogate); mend it in the source"
            raise EventRefused("wrong-type", f"column {name!r}: {detail}", name)
        if text and meaning is not None and isinstance(cell, str):
            try:
                meant = meaning(text)
            except EventRefused:
                return text  # the encoder refuses it
            if meant is not text:
                return meant
        if text == "":
            return None
        read = self._readers.get(name)
        return text if read is None else read(text)


def _as_a_boolean_is(text: str) -> str:
    """The text that a boolean of a DataFrame has, for those of pandas and Excel; any other as it is."""
    return text.lower() if text in ("True", "False", "TRUE", "FALSE") else text


def is_scalar(value: Any) -> bool:
    """True if a cell of a file could have this value of a DataFrame: no bytes, no list, no time span.

    >>> import pandas as pd
    >>> [is_scalar(value) for value in (7, None, pd.NaT, b"flu", (1, 2))]
    [True, True, True, False, False]
    """
    return value is None or isinstance(value, _SCALARS) or type(value).__name__ in _NULL_TYPES


def is_missing(value: object) -> bool:
    """True if a value of a DataFrame is a null: None, NaN, or pandas' NA or NaT.

    >>> [is_missing(value) for value in (None, float("nan"), Decimal("nan"), "", 0)]
    [True, True, True, False, False]
    """
    if isinstance(value, float | Decimal | np.generic):
        return bool(value != value)
    return value is None or type(value).__name__ in _NULL_TYPES


def source_cells(cells: pd.Series[Any]) -> pd.Series[Any]:
    """A column whose values are apart as in a source: true is not 1, and 0.1 of a short float is 0.1.

    For Python true and 1 are equal, and a float32 is a float64 with digits that nobody wrote. Dates that Python has
    not, outside the years 1 to 9999, become texts.
    """
    import pandas as pd

    kind = cells.dtype.categories.dtype if isinstance(cells.dtype, pd.CategoricalDtype) else cells.dtype
    if isinstance(kind, pd.ArrowDtype) and hasattr(kind.pyarrow_dtype, "index_type"):  # a dictionary: Arrow's category
        kind = pd.ArrowDtype(kind.pyarrow_dtype.value_type)
    if pd.api.types.is_datetime64_any_dtype(kind) or str(kind).startswith("date"):
        return _with_texts_of_far_dates(cells.astype(kind))
    n_bytes = getattr(kind, "itemsize", _LONG)
    if pd.api.types.is_float_dtype(kind) and n_bytes < _LONG:
        short = cells.to_numpy(dtype=f"float{8 * n_bytes}", na_value=np.nan)
        return pd.Series(short.astype(str).astype(np.float64), index=cells.index, name=cells.name)
    if cells.dtype != object or set(map(type, cells)).isdisjoint(_BOOLEAN_TYPES):
        return cells
    return cells.map(lambda cell: cell_text(cell) if isinstance(cell, _BOOLEAN_TYPES) else cell)


def _with_texts_of_far_dates(cells: pd.Series[Any]) -> pd.Series[Any]:
    """A column of dates or timestamps; those outside the years 1 to 9999, and those without end, become texts."""
    import pandas as pd

    counts, text_of, per_day = _counts_of(cells)
    days = counts // per_day
    is_far = (days < 1 - EPOCH) | (days > date.max.toordinal() - EPOCH) | (np.abs(counts) >= ENDLESS_COUNT)
    is_far &= cells.notna().to_numpy()
    if not is_far.any():
        return cells
    different, which = np.unique(counts[is_far], return_inverse=True)
    texts = np.array([text_of(count) for count in different.tolist()], dtype=object)
    shown = cells.mask(is_far).astype(object).to_numpy(dtype=object, copy=True)
    shown[is_far] = texts[which]
    return pd.Series(shown, index=cells.index, name=cells.name, dtype=object)


def _counts_of(cells: pd.Series[Any]) -> tuple[Ints, Callable[[int], str], int]:
    """What a column of dates or timestamps counts since 1970, the text of a count, and how many are a day."""
    import pandas as pd

    if isinstance(cells.dtype, pd.ArrowDtype):
        import pyarrow as arrow

        found = arrow.array(cells)
        kind = found.type
        if kind == arrow.date32():
            return found.cast(arrow.int32()).fill_null(0).to_numpy().astype(np.int64), day_text, 1
        counts = found.cast(arrow.int64()).fill_null(0).to_numpy()
        unit, is_zoned = getattr(kind, "unit", "ms"), getattr(kind, "tz", None) is not None
    else:
        counts, unit = cells.array.asi8, cells.dt.unit
        is_zoned = isinstance(cells.dtype, pd.DatetimeTZDtype)
    per_second = _PER_SECOND[unit]
    text_of = partial(timestamp_text, per_second=per_second, zone="Z" * is_zoned)
    return counts, text_of, SECONDS_PER_DAY * per_second


def cell_text(value: Any) -> str:
    """One value of a DataFrame as the text of a CSV cell; numbers as shortest decimals, a missing one as an empty cell.

    >>> [cell_text(value) for value in (10.0, 0.5, True, None, "flu", float("nan"))]
    ['10', '0.5', 'true', '', 'flu', '']
    """
    if isinstance(value, str):
        return str.__str__(value)  # numpy's texts are of a class of their own
    if type(value) is int:
        return str(value)
    if is_missing(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()  # as messages have it
    return shortest_text(str(value))
