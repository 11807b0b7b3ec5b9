"""A table's columns as a statement sees them: exact values out of stored rows, and back.

A quasi-identifier is stored as its code (a decimal without a step: as its exact text), a kept column as its JSON text.
A null is null, whatever it counts as where it is published; what a text means is what table.yaml says it means.
Columns that a statement does not use are never touched, and each distinct stored value of a column is read once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import msgspec
import numpy as np

from streamer.errors import EventRefused
from streamer.incremental.events.statement_syntax import Scalar
from streamer.incremental.events.statement_values import TYPE_OF_CLOCK, TYPE_OF_KEPT, Moment, Type, Value, scalar
from streamer.table.arrays import Bools, Ints
from streamer.table.attributes import Attribute, CategoricalAttribute, TemporalAttribute
from streamer.table.encode import Encoder
from streamer.table.hierarchy import Hierarchy
from streamer.table.moments import CLOCKS, Clock, moment_of
from streamer.table.row import Row, RowsView, Values
from streamer.table.schema import Table

T = TypeVar("T")

NULL = b"null"
"""The JSON text of a kept column of which nothing is known."""


class RowsOnce:
    """The same rows, every property of the view asked for at most once."""

    def __init__(self, rows: RowsView) -> None:
        self._rows = rows

    @cached_property
    def codes(self) -> Ints:
        return self._rows.codes

    @cached_property
    def exact(self) -> Sequence[tuple[str, ...]]:
        return self._rows.exact

    @cached_property
    def values(self) -> Sequence[Values]:
        return self._rows.values

    @cached_property
    def nulls(self) -> Bools:
        return self._rows.nulls


@dataclass(slots=True)
class Draft:
    """A row that is being changed."""

    codes: list[int] = field(repr=False)
    exact: list[str] = field(repr=False)
    values: list[bytes] = field(repr=False)
    nulls: set[int] = field(repr=False)

    @classmethod
    def of(cls, row: Row) -> Draft:
        return cls(list(row.codes), list(row.exact), list(row.values), set(row.nulls))

    def row(self, individual: str | None) -> Row:
        return Row(tuple(self.codes), tuple(self.values), tuple(self.exact), individual, tuple(sorted(self.nulls)))


@dataclass(frozen=True, slots=True)
class Scale:
    """Codes as numbers: value = origin + step * code, for codes 0..code_max of attribute number `attribute`."""

    attribute: int
    origin: Fraction
    step: Fraction
    code_max: int


class Column(ABC):
    """A column that statements may use."""

    _encoder: Encoder

    def __init__(
        self,
        name: str,
        type_: Type,
        hierarchy: Hierarchy | None = None,
        scale: Scale | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.type = type_
        self.clock = clock  # of the moments it holds; None: it holds none
        self.hierarchy = hierarchy  # of the categories it may hold; None: not a category
        self.scale = scale  # None: its values are not evenly spaced codes

    def of_row(self, row: Row) -> Value:
        """The value of one row."""
        stored = self.stored(row)
        return None if stored is None else self.read(stored)

    def of_rows(self, rows: RowsOnce) -> list[Value]:
        """The values of n rows."""
        stored = self.all_stored(rows)
        known = {text: None if text is None else self.read(text) for text in set(stored)}
        return [known[text] for text in stored]

    @abstractmethod
    def are_null(self, rows: RowsOnce) -> Bools:
        """Of which of n rows nothing is known; (n,)."""

    def meant(self, text: str) -> object:
        """What a text means in this column, as the source writes them; None: a null. Raises EventRefused."""
        return self._encoder.meant(self.name, text)

    @abstractmethod
    def read(self, stored: Any) -> Value:
        """The value that a stored one stands for, which is none of None."""

    @abstractmethod
    def stored(self, row: Row) -> Hashable:
        """What the row holds of this column; None: it is null."""

    @abstractmethod
    def all_stored(self, rows: RowsOnce) -> Sequence[Hashable]:
        """What n rows hold of this column; None: it is null."""

    @abstractmethod
    def assign(self, draft: Draft, value: object) -> None:
        """Gives the draft a new value (int, Decimal, str, bool or None); raises EventRefused."""


class QuasiIdentifier(Column):
    """A quasi-identifier, number j of its table."""

    _j: int

    @property
    def takes_nulls(self) -> bool:
        return self._j in self._encoder.table.nullable

    def are_null(self, rows: RowsOnce) -> Bools:
        return rows.nulls[:, self._j]

    def but_nulls(self, rows: RowsOnce, stored: Sequence[T]) -> Sequence[T | None]:
        """What n rows hold, and None in place of what a null counts as."""
        if not self.takes_nulls:
            return stored
        are_null = self.are_null(rows).tolist()
        return [None if is_null else one for one, is_null in zip(stored, are_null, strict=True)]

    def note_null(self, draft: Draft, value: object) -> None:
        """Whether a draft, which has the code of a value, is null now."""
        if self._encoder.is_null(self._j, value):
            draft.nulls.add(self._j)
        else:
            draft.nulls.discard(self._j)


class CodedColumn(QuasiIdentifier):
    """One that its code tells: all but the decimals without a step."""

    def __init__(self, encoder: Encoder, j: int) -> None:
        attribute = encoder.table.attributes[j]
        if isinstance(attribute, TemporalAttribute):
            clock = attribute.calendar.clock
            super().__init__(attribute.name, TYPE_OF_CLOCK[clock], clock=clock)
        elif isinstance(attribute, CategoricalAttribute):
            scale = Scale(j, Fraction(0), Fraction(1), attribute.hierarchy.n_leaves)
            super().__init__(attribute.name, Type.TEXT, attribute.hierarchy, scale)
        else:
            origin, step = Fraction(attribute.domain[0]), Fraction(attribute.step or 1)
            scale = Scale(j, origin, step, int(attribute.width_codes))
            super().__init__(attribute.name, Type.NUMBER, scale=scale)
        self._encoder, self._j = encoder, j

    def read(self, stored: int) -> Value:
        return scalar(self._encoder.value(self._j, stored, None))

    def stored(self, row: Row) -> int | None:
        return None if self._j in row.nulls else row.codes[self._j]

    def all_stored(self, rows: RowsOnce) -> Sequence[int | None]:
        codes: list[int] = rows.codes[:, self._j].tolist()
        return self.but_nulls(rows, codes)

    def assign(self, draft: Draft, value: object) -> None:
        draft.codes[self._j], _ = self._encoder.code(self._j, value)
        self.note_null(draft, value)


class TemporalColumn(CodedColumn):
    """A quasi-identifier of dates or timestamps; codes: its codes as whole numbers, in the order of its moments."""

    def __init__(self, encoder: Encoder, j: int, attribute: TemporalAttribute) -> None:
        super().__init__(encoder, j)
        self.calendar = attribute.calendar
        self.codes = Scale(j, Fraction(0), Fraction(1), int(attribute.width_codes))

    def read(self, stored: int) -> Moment:
        return Moment(self.calendar.moment_of(stored), self.calendar.clock)


class ExactColumn(QuasiIdentifier):
    """One of decimals without a step: the exact text beside its code tells."""

    def __init__(self, encoder: Encoder, j: int) -> None:
        super().__init__(encoder.table.attributes[j].name, Type.NUMBER)
        self._encoder, self._j, self._number = encoder, j, encoder.table.stepless.index(j)

    def read(self, stored: str) -> Scalar:
        return scalar(Decimal(stored))

    def stored(self, row: Row) -> str | None:
        return None if self._j in row.nulls else row.exact[self._number]

    def all_stored(self, rows: RowsOnce) -> Sequence[str | None]:
        return self.but_nulls(rows, [exact[self._number] for exact in rows.exact])

    def assign(self, draft: Draft, value: object) -> None:
        code, exact = self._encoder.code(self._j, value)
        if exact is not None:
            draft.codes[self._j], draft.exact[self._number] = code, exact
            self.note_null(draft, value)


class JsonColumn(Column):
    """A kept column: its JSON text tells."""

    _json = msgspec.json.Decoder(float_hook=Decimal)

    def __init__(self, encoder: Encoder, i: int) -> None:
        kept = encoder.table.kept[i]
        type_ = Type.TEXT if kept.hierarchy is not None else TYPE_OF_KEPT[kept.type]
        super().__init__(kept.name, type_, kept.hierarchy, clock=CLOCKS.get(kept.type or ""))
        self._encoder, self._i = encoder, i

    def read(self, stored: bytes) -> Value:
        value = scalar(self._json.decode(stored))
        return Moment(moment_of(value, self.name, self.clock), self.clock) if self.clock else value

    def are_null(self, rows: RowsOnce) -> Bools:
        return np.array([values[self._i] == NULL for values in rows.values], np.bool_)

    def stored(self, row: Row) -> bytes | None:
        return None if row.values[self._i] == NULL else row.values[self._i]

    def all_stored(self, rows: RowsOnce) -> list[bytes | None]:
        return [None if values[self._i] == NULL else values[self._i] for values in rows.values]

    def assign(self, draft: Draft, value: object) -> None:
        draft.values[self._i] = self._encoder.kept(self._i, value)


@lru_cache(maxsize=16)
def columns_of(table: Table) -> dict[str, Column]:
    """The columns that statements about the table may use, by name."""
    encoder = Encoder(table)
    columns: list[Column] = [_column_of(encoder, j, attribute) for j, attribute in enumerate(table.attributes)]
    columns += [JsonColumn(encoder, i) for i in range(len(table.kept))]
    return {column.name: column for column in columns}


def _column_of(encoder: Encoder, j: int, attribute: Attribute) -> Column:
    if isinstance(attribute, TemporalAttribute):
        return TemporalColumn(encoder, j, attribute)
    return ExactColumn(encoder, j) if j in encoder.table.stepless else CodedColumn(encoder, j)


def find(name: str, table: Table) -> Column:
    """The column of a statement's name; raises EventRefused("bad-statement")."""
    column = columns_of(table).get(name)
    if column is not None:
        return column
    if name in table.source_key or name == table.individual:
        raise EventRefused("bad-statement", f"column {name!r} says whose row it is: statements may not use it", name)
    raise EventRefused(
        "bad-statement", "names a column that table.yaml does not have (a text literal stands in single quotes)"
    )
