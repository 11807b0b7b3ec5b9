"""Rows of people -> codes, and back.

The rules of this file
----------------------
* A row becomes one code per quasi-identifier, one canonical JSON text per kept column, the exact texts of decimals
  without a step, the counted text of the individual (`streamer.table.codes.same_text`), which is never published, and
  which quasi-identifiers are null. The code of a null is that of the value it counts as. Columns that table.yaml does
  not name are ignored.
* Here, and nowhere later, a value becomes what is published instead of it (`streamer.table.codes.disguise`).
* A source key is text: 7 and "7" are one. A composite one is the JSON array of its texts, in table.yaml order. In a
  file of a table without a key, the row's number is its key.
* `frame` encodes each distinct value once, with the same encoders as `row`. The meaning of a text (`na`, `written`), of
  a cell of a file or of a value of a DataFrame is decided first (`streamer.table.codes.source_texts`).
* A date or a timestamp is an ISO text, a `datetime.date` or a `datetime.datetime`; in a DataFrame also datetime64 and
  pandas' Timestamps. It is never a number.
* A value that cannot be encoded raises: `EventRefused` for an event, `ConfigError` with the line for a file; never with
  the value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec
import numpy as np

from streamer.errors import ConfigError, EventRefused, RowRefused, UsageError
from streamer.table.arrays import Ints
from streamer.table.codes import KeptColumn, from_code, is_stepless, read_decimal, source_cells, type_of_column
from streamer.table.codes.column_codes import decimal_exact, to_code, to_json_text
from streamer.table.codes.disguise import ShiftedDays
from streamer.table.codes.same_text import CountedText, counted_text
from streamer.table.codes.scalars import key_text
from streamer.table.codes.source_texts import (
    NUMBER_SPELLINGS,
    PLAIN_NUMBER,
    CellReader,
    in_its_own_form,
    meanings_of,
    reader_of_pattern,
)
from streamer.table.published.schemas import within_type
from streamer.table.row import Row, Values
from streamer.table.schema import Table
from streamer.table.stray_rows import judged, suspects_among

if TYPE_CHECKING:
    import pandas as pd

Fields = Mapping[str, object]
T = TypeVar("T")

UNREADABLE = (TypeError, NotImplementedError, ArithmeticError, KeyError)
"""Pandas' errors of a column with a list, also of Arrow, a signalling NaN or a complex number."""

TUPLES_REMEMBERED = 10_000
"""Different rows of kept values that are shared in memory: a million people often have few."""


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """n encoded rows by column; codes: int64 (n, d), the others have length n; nulls: empty if no row has one."""

    source_keys: list[str] = field(repr=False)
    codes: Ints = field(repr=False)
    values: list[Values] = field(repr=False)
    exact: list[tuple[str, ...]] = field(repr=False)
    individuals: list[str | None] = field(repr=False)
    nulls: Sequence[tuple[int, ...]] = field(default=(), repr=False)

    @classmethod
    def of_rows(cls, rows: Mapping[str, Row], d: int) -> EncodedRows:
        """Rows by source key, each with d codes, by column."""
        return cls(
            source_keys=list(rows),
            codes=np.array([row.codes for row in rows.values()], dtype=np.int64).reshape(-1, d),
            values=[row.values for row in rows.values()],
            exact=[row.exact for row in rows.values()],
            individuals=[row.individual for row in rows.values()],
            nulls=[row.nulls for row in rows.values()],
        )

    @classmethod
    def joined(cls, parts: Sequence[EncodedRows], d: int) -> EncodedRows:
        """Rows of several parts of one table, each with d codes, in their order."""
        return cls(
            [key for part in parts for key in part.source_keys],
            np.concatenate([np.empty((0, d), np.int64), *(part.codes for part in parts)]),
            _shared(values for part in parts for values in part.values),
            _shared(exact for part in parts for exact in part.exact),
            [individual for part in parts for individual in part.individuals],
            _shared(nulls for part in parts for nulls in part.nulls),
        )

    def some(self, indexes: Ints) -> EncodedRows:
        """Some of the rows, by their numbers."""
        numbers = indexes.tolist()
        columns = (self.source_keys, self.values, self.exact, self.individuals, self.nulls)
        keys, values, exact, individuals, nulls = ([column[i] for i in numbers] if column else [] for column in columns)
        return EncodedRows(keys, self.codes[indexes], values, exact, individuals, nulls or ())

    def rows(self) -> list[Row]:
        """The same, row by row."""
        codes = map(tuple, self.codes.tolist())
        nulls = self.nulls or [()] * len(self.values)
        return [Row(*parts) for parts in zip(codes, self.values, self.exact, self.individuals, nulls, strict=True)]


@dataclass(frozen=True, slots=True)
class Coded(Generic[T]):
    """A column of n encoded values, each different cell of the source encoded once; two may be encoded alike."""

    numbers: Ints = field(repr=False)  # int64 (n,)
    different: list[T] = field(repr=False)

    def __len__(self) -> int:
        return len(self.numbers)

    def by_row(self) -> list[T]:
        """The n values."""
        return [self.different[number] for number in self.numbers.tolist()]


@dataclass(frozen=True, slots=True)
class EncodedColumns:
    """n encoded rows, column by column; exact: of the attributes that have exact texts; nulls: by attribute."""

    source_keys: Coded[str] = field(repr=False)
    codes: Ints = field(repr=False)  # int64 (n, d)
    kept: list[Coded[bytes]] = field(repr=False)
    exact: list[Coded[str]] = field(repr=False)
    individuals: Coded[str] | None = field(repr=False)  # None: every row is one
    nulls: dict[int, Coded[bool]] = field(repr=False)

    def __len__(self) -> int:
        return len(self.codes)

    def by_row(self) -> EncodedRows:
        """The same with the values of a row together."""
        n = len(self)
        marks = zip(*(column.by_row() for column in self.nulls.values()), strict=True)
        return EncodedRows(
            self.source_keys.by_row(),
            self.codes,
            _transposed([column.by_row() for column in self.kept], n),
            _transposed([column.by_row() for column in self.exact], n),
            [None] * n if self.individuals is None else list(self.individuals.by_row()),
            [tuple(compress(self.nulls, row)) for row in marks] if self.nulls else (),
        )


class Encoder:
    """Encodes rows of one table; raises EventRefused for what table.yaml does not allow."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.unlisted: Counter[str] = Counter()
        """The number of values that only `other` took, by column; callers clear it."""
        types = {column.name: type_of_column(column) for column in (*table.attributes, *table.kept)}
        self._meanings = meanings_of(table.source_texts, types)
        note, capitals = self._note_unlisted, table.capitals_count
        self._codes_plan = tuple(
            (a.name, self._of_source(a.name, to_code(a, note, capitals_count=capitals))) for a in table.attributes
        )
        self._kept_plan = tuple((c.name, self._of_source(c.name, self._to_json(c))) for c in table.kept)
        shifts = ((i, column.disguise) for i, column in enumerate(table.kept))
        self._shifts = tuple((i, shift) for i, shift in shifts if isinstance(shift, ShiftedDays))
        if self._shifts and not table.source_key and table.individual is None:
            name = table.kept[self._shifts[0][0]].name
            raise ConfigError(
                f"columns.{name}.publish.shift_days: the days are those of a person, but table and data have neither"
                " `individual` nor `key` to tell whose a row is"
            )
        self._exact: dict[int, Callable[[object], str]] = {
            j: self._of_source(a.name, partial(decimal_exact, attribute=a))
            for j, a in enumerate(table.attributes)
            if is_stepless(a)
        }
        self._stepless = tuple((j, table.attributes[j].name, exact) for j, exact in self._exact.items())
        names = ((j, table.attributes[j].name) for j in table.nullable)
        self._nullable = tuple((j, name, self._of_source(name, _is_null)) for j, name in names)
        self._key_plan = tuple((n, self._of_source(n, partial(_key_part, n))) for n in table.source_key)
        self._who: tuple[str, Callable[[object], str]] | None = None
        if (who := table.individual) is not None:
            self._who = who, self._of_source(who, partial(_individual_of, who, table.counted_text))
        self._columns = tuple(column.name for column in (*table.attributes, *table.kept))
        self._cells = CellReader(types, self._meanings, [c.name for c in table.kept if self._may_be_anything(c)])

    def _to_json(self, column: KeptColumn) -> Callable[[object], bytes]:
        table = self.table
        encode = to_json_text(column.source, self._note_unlisted, capitals_count=table.capitals_count)
        if column.disguise is not None:
            encode = column.disguise.instead(column.name, encode, table.counted_text)
        return within_type(column, table.format, encode)

    def _may_be_anything(self, column: KeptColumn) -> bool:
        """True for a column of any scalars; a key or an individual is a text."""
        whose = (*self.table.source_key, self.table.individual)
        return column.source.type is None and column.name not in whose

    def _note_unlisted(self, name: str) -> None:
        self.unlisted[name] += 1

    def _of_source(self, name: str, encode: Callable[[object], T]) -> Callable[[object], T]:
        """The encoder, applied to what a value of the source means."""
        meaning = self._meanings.get(name)
        text = next((text for text in self.table.source_texts if text.column == name), None)
        if meaning is None or text is None:
            return encode

        def of_source(value: object) -> T:
            meant = meaning(value)
            try:
                return encode(meant)
            except EventRefused as refused:
                raise in_its_own_form(refused, text, meant) from None

        return of_source

    def source_key(self, fields: Fields) -> str:
        """Canonical text of a row's primary key; EventRefused: missing-key, wrong-type."""
        if len(self._key_plan) == 1:
            name, part = self._key_plan[0]
            return part(fields.get(name))
        return _joined([part(fields.get(name)) for name, part in self._key_plan])

    def source_key_of(self, value: object) -> str:
        """The same of a scalar, if the key has one column, or of an object with the key columns."""
        if isinstance(value, Mapping):
            return self.source_key(value)
        names = self.table.source_key
        if len(names) > 1:
            raise EventRefused("wrong-type", f"the key must be an object with the columns {', '.join(names)}")
        return self.source_key({names[0]: value})

    def individual(self, fields: Fields) -> str | None:
        """The individual's counted text; None if the table declares none. EventRefused: missing-individual."""
        if self._who is None:
            return None
        name, individual = self._who
        return individual(fields.get(name))

    def row(self, fields: Fields, source_key: str | None = None) -> Row:
        """A whole row, which must have every named column; source_key: if it is known already. Raises EventRefused."""
        individual = self.individual(fields)
        try:
            codes = tuple([code(fields[name]) for name, code in self._codes_plan])
            values = tuple([text(fields[name]) for name, text in self._kept_plan])
        except KeyError:
            name = next(name for name in self._columns if name not in fields)
            raise EventRefused("missing-column", f"column {name!r} is missing", name) from None
        if self._shifts:
            if individual is None and source_key is None:
                source_key = self.source_key(fields)
            whose = source_key if individual is None else individual
            values = tuple(self._shifted(dict(enumerate(values)), whose).values())
        exact = tuple([text(fields[name]) for _, name, text in self._stepless]) if self._stepless else ()
        return Row(codes, values, exact, individual, self._nulls(fields) if self._nullable else ())

    def _nulls(self, fields: Fields) -> tuple[int, ...]:
        """Numbers of the attributes that are there and null."""
        return tuple([j for j, name, is_null in self._nullable if name in fields and is_null(fields[name])])

    def some(
        self, fields: Fields, whose: str | None = None
    ) -> tuple[dict[int, int], dict[int, str], dict[int, bytes], tuple[int, ...]]:
        """The named columns that are there: codes and exact texts by attribute number, JSON texts by kept number, and
        the numbers of the attributes that are null.

        whose: the individual, or the source key if the table declares none; None: not known. Raises EventRefused.
        """
        codes = {j: code(fields[name]) for j, (name, code) in enumerate(self._codes_plan) if name in fields}
        exact = {j: text(fields[name]) for j, name, text in self._stepless if name in fields}
        values = {i: text(fields[name]) for i, (name, text) in enumerate(self._kept_plan) if name in fields}
        return codes, exact, self._shifted(values, whose), self._nulls(fields)

    def _shifted(self, values: dict[int, bytes], whose: str | None) -> dict[int, bytes]:
        """JSON texts by kept number, those of shifted columns shifted."""
        for i, shift in self._shifts:
            if i in values and whose is None:
                name = self.table.kept[i].name
                detail = f"column {name!r} is shifted by days of its person, so {self.table.individual!r} must be sent"
                raise EventRefused("missing-individual", f"{detail} beside it", name)
            if i in values and whose is not None:
                values[i] = shift.shifted(values[i], whose)
        return values

    def code(self, j: int, value: object) -> tuple[int, str | None]:
        """One quasi-identifier's value -> its code and, for a decimal without a step, its exact text."""
        code, exact = self._codes_plan[j][1](value), self._exact.get(j)
        return code, None if exact is None else exact(value)

    def is_null(self, j: int, value: object) -> bool:
        """True if one quasi-identifier's value, which has a code, is a null or a word for it."""
        return any(is_null(value) for number, _, is_null in self._nullable if number == j)

    def kept(self, i: int, value: object) -> bytes:
        """One kept column's value -> its canonical JSON text; a date that is to be shifted as it is."""
        return self._kept_plan[i][1](value)

    def meant(self, name: str, text: str) -> object:
        """The meaning of a text of a column; None: a null. EventRefused: wrong-type."""
        meaning = self._meanings.get(name)
        return text if meaning is None else meaning(text)

    def value(self, j: int, code: int, exact: str | None) -> int | Decimal | str:
        """The exact value that a code, with its exact text, stands for; a label or an ISO text for others than
        numbers."""
        return from_code(self.table.attributes[j], code, exact)

    def named_columns(self, frame: pd.DataFrame) -> list[str]:
        """The columns that table.yaml names, each once. Raises ConfigError if the data does not have each exactly
        once."""
        columns = list(self.table.named)
        if missing := [name for name in columns if name not in frame.columns]:
            if len(missing) == len(columns):  # the first line may be somebody's row, so it is not quoted
                raise ConfigError("the data has none of the columns that table.yaml names: is its first line a header?")
            looks, name = counted_text(capitals_count=False), missing[0]
            alike = next((has for has in frame.columns if isinstance(has, str) and looks(has) == looks(name)), None)
            if alike is not None:
                what = f"it has {alike!a}, which differs in capitals, blanks, accents or a sign that nobody sees"
                raise ConfigError(f"the data has no column {name!a}, which table.yaml names; {what}")
            has = ", ".join(repr(name) if isinstance(name, str) else f"{name} (no text)" for name in frame.columns)
            raise ConfigError(f"the data has no column {missing[0]!r}, which table.yaml names; it has {has}")
        if several := [name for name in columns if frame[name].ndim > 1]:  # only in a DataFrame
            raise ConfigError(
                f"the data has several columns {several[0]!r}, which table.yaml names; rename all but one"
            )
        return columns

    def fields(self, cells: Mapping[str, object]) -> dict[str, object]:
        """The meaning of a row of a CSV file: numbers and booleans by their column's type, an empty cell is a null.

        Raises EventRefused for what is no text.
        """
        return {name: self._cells.value(name, cell) for name, cell in cells.items()}

    def frame(self, frame: pd.DataFrame) -> EncodedRows:
        """A whole table of texts or typed values, as `columns` encodes it, row by row."""
        return self.columns(frame).by_row()

    def columns(self, frame: pd.DataFrame, first_row: int = 1) -> EncodedColumns:
        """A whole table of texts or typed values, or the part of one that begins with data row `first_row`.

        Raises ConfigError for a missing column, RowRefused for a refused value and a repeated source key, with column
        and data row.
        """
        try:
            return self._columns_of(frame, first_row)
        except _CellRefused as refused:
            at = first_row - 1 + refused.at
            stray = judged(suspects_among(frame, first_row - 1), first_row - 1 + len(frame)).get(at)
            what = "" if stray is None else f"; the row seems to be {stray}: remove it from the source"
            raise RowRefused(f"data row {at + 1}: {refused.why}{what}") from None

    def _columns_of(self, frame: pd.DataFrame, first_row: int) -> EncodedColumns:
        self.named_columns(frame)
        codes = np.empty((len(frame), self.table.space.d), dtype=np.int64)
        for j, (name, code) in enumerate(self._codes_plan):
            column = self._column(frame, name, code)
            codes[:, j] = np.array(column.different, dtype=np.int64)[column.numbers]
        columns = EncodedColumns(
            self._source_keys(frame, first_row),
            codes,
            [self._column(frame, name, text) for name, text in self._kept_plan],
            [self._column(frame, name, text) for _, name, text in self._stepless],
            None if self._who is None else self._column(frame, *self._who),
            {j: self._column(frame, name, is_null) for j, name, is_null in self._nullable},
        )
        whose = columns.source_keys if columns.individuals is None else columns.individuals
        for i, shift in self._shifts:
            columns.kept[i] = _with_each(columns.kept[i], whose, shift.shifted)
        return columns

    def _column(self, frame: pd.DataFrame, name: str, encode: Callable[[object], T]) -> Coded[T]:
        import pandas as pd

        try:
            numbers, texts = pd.factorize(source_cells(frame[name]), use_na_sentinel=False)
        except UNREADABLE:
            raise ConfigError(
                f"column {name!r} holds a value that is neither text, number, boolean nor null; convert it, or leave"
                " the column out of table.yaml"
            ) from None
        encoded: list[T] = []
        for number, text in enumerate(texts):
            try:
                encoded.append(encode(self._cells.value(name, text)))
            except EventRefused as refused:
                at, detail = int(np.argmax(numbers == number)), refused.detail
                if refused.reason == "wrong-type" and isinstance(text, str):
                    is_number = detail.endswith(("not a number", "not an integer")) and read_decimal(text) is None
                    detail += _hint(text) or (_otherwise_written(text) if is_number else "")
                if refused.reason == "unknown-category" and self._is_none_known(name, texts, encode):
                    detail = (
                        f"column {name!r}: none of its values is a leaf of its hierarchy: is that another column's?"
                    )
                raise _CellRefused(at, f"{detail} ({refused.reason})") from None
        return Coded(numbers.astype(np.int64, copy=False), encoded)

    def _is_none_known(self, name: str, texts: Iterable[object], encode: Callable[[object], T]) -> bool:
        """True if there are several values, and each of them is refused or a null."""
        values = [value for value in (self._cells.value(name, text) for text in texts) if value is not None]
        for value in values:
            with suppress(EventRefused):
                encode(value)
                return False
        return len(values) > 1

    def _source_keys(self, frame: pd.DataFrame, first_row: int) -> Coded[str]:
        import pandas as pd

        names, n = self.table.source_key, len(frame)
        if not names:
            return Coded(np.arange(n), [str(number) for number in range(first_row, first_row + n)])
        columns = [self._column(frame, name, part) for name, part in self._key_plan]
        if len(names) == 1 and len(set(columns[0].different)) == n:
            return columns[0]
        texts = (column.by_row() for column in columns)
        keys = columns[0].by_row() if len(names) == 1 else [_joined(parts) for parts in zip(*texts, strict=True)]
        repeated = pd.Series(keys, dtype=object).duplicated().to_numpy()
        if repeated.any():
            raise _CellRefused(int(np.argmax(repeated)), f"an earlier row has the same key ({', '.join(names)})")
        return Coded(np.arange(n), keys)


def require_frame(call: str, frame: object) -> None:
    """Raises UsageError if a call from Python was not given a DataFrame."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise UsageError(f"{call} takes a pandas DataFrame of people, not {type(frame).__name__}")


def with_index(frame: pd.DataFrame, table: Table) -> pd.DataFrame:
    """The frame, in which the levels of its index that the table names are columns like all others."""
    levels = [name for name in frame.index.names if name in table.named and name not in frame.columns]
    return frame.reset_index(level=levels) if levels else frame


def without_absent_key(table: Table, columns: Iterable[object]) -> Table:
    """The table without its key if the data has none of its columns: a whole table needs no key."""
    return replace(table, source_key=()) if set(table.source_key).isdisjoint(columns) else table


class _CellRefused(Exception):
    """A value of a table cannot be used; at: the number of its row, from 0."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at, self.why = at, why


_HIDDEN = re.compile(r"[\u00a0\u00ad\u2000-\u200f\u2028-\u202f\u2060\u2212\ufeff\uff10-\uff19]")


def _hint(text: str) -> str:
    """The probable cause of a text that its column's type refuses, without the text."""
    if found := _HIDDEN.search(text):
        return f"; it holds U+{ord(found[0]):04X}, a sign that cannot be seen or only looks like another: remove it"
    if text and not any(map(str.isdigit, text)):
        return "; if such words mean that nothing is known, list them in the column's `na`"
    return ""


def _otherwise_written(text: str) -> str:
    """The way in which a text that is no plain number is one, or how such are written here."""
    for way in NUMBER_SPELLINGS:
        with suppress(ValueError):
            reader_of_pattern(way)(text)
            return f"; it is one that is written as {way}: say so by the column's `written`"
    return f"; expected text such as {PLAIN_NUMBER}, or as the column's `written` says"


def _with_each(values: Coded[bytes], whose: Coded[str], encode: Callable[[bytes, str], bytes]) -> Coded[bytes]:
    """A column that is encoded by its values and by whose they are, each different pair once."""
    n = len(whose.different)
    pairs, numbers = np.unique(values.numbers * n + whose.numbers, return_inverse=True)
    different = [encode(values.different[pair // n], whose.different[pair % n]) for pair in pairs.tolist()]
    return Coded(numbers.astype(np.int64, copy=False), different)


def _key_part(name: str, value: object) -> str:
    if value is None:
        raise EventRefused("missing-key", f"key column {name!r} is missing or null", name)
    return key_text(value, name)


def _joined(texts: Sequence[str]) -> str:
    """The parts of a composite source key as one text."""
    return msgspec.json.encode(texts).decode()


def _individual_of(name: str, counted: CountedText, value: object) -> str:
    if value is None:
        raise EventRefused("missing-individual", f"column {name!r}, whom k counts, is missing or null", name)
    return counted(key_text(value, name))


def _is_null(value: object) -> bool:
    return value is None


def _transposed(columns: Sequence[Sequence[T]], n: int) -> list[tuple[T, ...]]:
    """Columns -> one tuple per row, most equal ones shared; n empty tuples if there is no column."""
    if not columns:
        return [()] * n
    return _shared(zip(*columns, strict=True))


def _shared(tuples: Iterable[tuple[T, ...]]) -> list[tuple[T, ...]]:
    """The same; most that are equal are one in memory."""
    known: dict[tuple[T, ...], tuple[T, ...]] = {}
    rows: list[tuple[T, ...]] = []
    for row in tuples:
        rows.append(known.setdefault(row, row) if len(known) < TUPLES_REMEMBERED else known.get(row, row))
    return rows
