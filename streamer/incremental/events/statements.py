"""Statements about many rows: which rows (a condition), and how they change (assignments).

* Statements are those of Song et al. 2009: conditions and assignments over the table's attributes. The grammar of
  `events.statement_syntax` reads their text; nothing is ever evaluated as Python.
* They may use quasi-identifiers and kept columns, never the key and never the individual.
* All arithmetic is exact: integers and fractions. A result that is not exactly a value of its column is refused, for
  its row.
* Nulls are those of SQL, in quasi-identifiers too, whatever they count as in what is published: a comparison with null
  matches no row, `is null` and `is not null` test for it, arithmetic with null is null.
* Numbers and times have an order; only numbers have arithmetic. A comparison of a text with a number is refused if
  table.yaml shows it, and false if only the row shows it.
* A text in quotes means the same as in a row (`na`, `written`); a word for null cannot be compared. A date or a
  timestamp is in quotes: `born < '1980-01-01'`. A day alone is its first moment. Two columns are compared only if
  they have one type.
* Right-hand sides see the old values of the row.
* Evenly spaced codes are compared as whole columns of integers, all else row by row. A column that a statement does not
  use is never read, and each distinct stored value of a column is read once.
* No message shows a part of a statement: an unquoted text literal looks like a column's name.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias, TypeGuard, TypeVar

import msgspec
import numpy as np

from streamer.errors import EventRefused
from streamer.incremental.events import statement_syntax as syntax
from streamer.incremental.events.statement_syntax import TESTS
from streamer.table.arrays import Bools, Ints
from streamer.table.codes import (
    CLOCKS,
    DATE,
    LOCAL_TIMESTAMP,
    TIMESTAMP,
    CategoricalAttribute,
    Clock,
    TemporalAttribute,
    constant_of,
    moment_of,
    moment_text,
)
from streamer.table.encode import Encoder
from streamer.table.hierarchy import Hierarchy
from streamer.table.row import Patch, Row, RowsView, Values
from streamer.table.schema import Table


class Type(Enum):
    """The type of a column or an expression; ANY: only the row shows it."""

    NUMBER = "a number"
    TEXT = "a text"
    BOOLEAN = "true or false"
    NULL = "null"
    DATE = "a date"
    TIMESTAMP = "a timestamp"
    LOCAL_TIMESTAMP = "a local-timestamp"
    ANY = "any value"


TYPE_OF_CLOCK = {DATE: Type.DATE, TIMESTAMP: Type.TIMESTAMP, LOCAL_TIMESTAMP: Type.LOCAL_TIMESTAMP}
MOMENTS = frozenset(TYPE_OF_CLOCK.values())

TYPE_OF_KEPT: dict[str | None, Type] = {
    None: Type.ANY,
    "text": Type.TEXT,
    "integer": Type.NUMBER,
    "decimal": Type.NUMBER,
    "boolean": Type.BOOLEAN,
    **{clock.name: type_ for clock, type_ in TYPE_OF_CLOCK.items()},
}
"""The type of a kept column by its `type` in table.yaml; None: it has none."""


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """A date or a timestamp; compared with those of the same clock only."""

    number: int = field(repr=False)
    clock: Clock = field(compare=False)

    @property
    def text(self) -> str:
        return moment_text(self.number, self.clock)


Value = syntax.Scalar | Moment
"""The value of a column for one row; numbers are exact, and a bool is not a number."""


def type_of(value: Value) -> Type:
    """The type of one value.

    >>> type_of(True), type_of(Fraction(1, 2))
    (<Type.BOOLEAN: 'true or false'>, <Type.NUMBER: 'a number'>)
    """
    if value is None:
        return Type.NULL
    if isinstance(value, Moment):
        return TYPE_OF_CLOCK[value.clock]
    if isinstance(value, str):
        return Type.TEXT
    return Type.BOOLEAN if isinstance(value, bool) else Type.NUMBER


def is_number(value: Value) -> TypeGuard[syntax.Number]:
    return isinstance(value, (int, Fraction)) and not isinstance(value, bool)


def scalar(value: object) -> syntax.Scalar:
    """A decoded JSON scalar, a number as an int or a Fraction."""
    if isinstance(value, Decimal):
        exact = Fraction(value)
        return exact.numerator if exact.denominator == 1 else exact
    if value is None or isinstance(value, (str, bool, int)):
        return value
    raise TypeError("a stored value is a JSON scalar")


# -- columns as statements see them: exact values out of stored rows, and back
#
# A quasi-identifier is stored as its code (a decimal without a step as its exact text), a kept column as its JSON text.

T = TypeVar("T")

NULL_TEXT = b"null"  # of a kept column


class RowsOnce:
    """A view of rows that reads each property at most once."""

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


class CodedCell(NamedTuple):
    """A new value of a quasi-identifier; exact: its text, if the table keeps it."""

    code: int
    exact: str | None
    is_null: bool


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

    hierarchy: Hierarchy | None = None  # of its categories; None: it holds none
    scale: Scale | None = None  # None: its values are not evenly spaced codes
    clock: Clock | None = None  # of its moments; None: it holds none

    def __init__(self, name: str, type_: Type) -> None:
        self.name, self.type = name, type_

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
        """True for each of n rows that is null; (n,)."""

    def meant(self, text: str) -> object:
        """The value of a text, as the source writes it; None: a null. Raises EventRefused."""
        return self._encoder.meant(self.name, text)

    @abstractmethod
    def read(self, stored: Any) -> Value:
        """The value of a stored one that is not None."""

    @abstractmethod
    def stored(self, row: Row) -> Hashable:
        """The row's stored value of this column; None: null."""

    @abstractmethod
    def all_stored(self, rows: RowsOnce) -> Sequence[Hashable]:
        """The stored values of n rows in this column; None: null."""

    @abstractmethod
    def cell(self, value: object) -> Any:
        """A new value (int, Decimal, str, bool or None) as `assign` writes it; raises EventRefused."""

    @abstractmethod
    def assign(self, patch: Patch, cell: Any) -> None:
        """Adds a new value to the patch."""


class QuasiIdentifier(Column):
    """A quasi-identifier, number j of its table."""

    _j: int

    def are_null(self, rows: RowsOnce) -> Bools:
        return rows.nulls[:, self._j]

    def but_nulls(self, rows: RowsOnce, stored: Sequence[T]) -> Sequence[T | None]:
        """The stored values of n rows, with None for null."""
        if self._j not in self._encoder.table.nullable:
            return stored
        are_null = self.are_null(rows).tolist()
        return [None if is_null else one for one, is_null in zip(stored, are_null, strict=True)]

    def cell(self, value: object) -> CodedCell:
        code, exact = self._encoder.code(self._j, value)
        return CodedCell(code, exact, self._encoder.is_null(self._j, value))

    def assign(self, patch: Patch, cell: CodedCell) -> None:
        patch.codes[self._j] = cell.code
        if cell.is_null:
            patch.nulls.add(self._j)


class CodedColumn(QuasiIdentifier):
    """A quasi-identifier that is stored as its code: all but decimals without a step."""

    def __init__(self, encoder: Encoder, j: int) -> None:
        attribute = encoder.table.attributes[j]
        if isinstance(attribute, TemporalAttribute):
            self.clock = attribute.calendar.clock
            type_ = TYPE_OF_CLOCK[self.clock]
        elif isinstance(attribute, CategoricalAttribute):
            type_, self.hierarchy = Type.TEXT, attribute.hierarchy
            self.scale = Scale(j, Fraction(0), Fraction(1), attribute.hierarchy.n_leaves)
        else:
            type_, origin, step = Type.NUMBER, Fraction(attribute.domain[0]), Fraction(attribute.step or 1)
            self.scale = Scale(j, origin, step, int(attribute.width_codes))
        super().__init__(attribute.name, type_)
        self._encoder, self._j = encoder, j

    def read(self, stored: int) -> Value:
        return scalar(self._encoder.value(self._j, stored, None))

    def stored(self, row: Row) -> int | None:
        return None if self._j in row.nulls else row.codes[self._j]

    def all_stored(self, rows: RowsOnce) -> Sequence[int | None]:
        codes: list[int] = rows.codes[:, self._j].tolist()
        return self.but_nulls(rows, codes)


class TemporalColumn(CodedColumn):
    """A quasi-identifier of dates or timestamps; codes: in the order of its moments."""

    def __init__(self, encoder: Encoder, j: int, attribute: TemporalAttribute) -> None:
        super().__init__(encoder, j)
        self.calendar = attribute.calendar
        self.codes = Scale(j, Fraction(0), Fraction(1), int(attribute.width_codes))

    def read(self, stored: int) -> Moment:
        return Moment(self.calendar.moment_of(stored), self.calendar.clock)


class ExactColumn(QuasiIdentifier):
    """A quasi-identifier of decimals without a step, which is stored as its exact text."""

    def __init__(self, encoder: Encoder, j: int) -> None:
        super().__init__(encoder.table.attributes[j].name, Type.NUMBER)
        self._encoder, self._j, self._number = encoder, j, encoder.table.stepless.index(j)

    def read(self, stored: str) -> syntax.Scalar:
        return scalar(Decimal(stored))

    def stored(self, row: Row) -> str | None:
        return None if self._j in row.nulls else row.exact[self._number]

    def all_stored(self, rows: RowsOnce) -> Sequence[str | None]:
        return self.but_nulls(rows, [exact[self._number] for exact in rows.exact])

    def assign(self, patch: Patch, cell: CodedCell) -> None:
        if cell.exact is not None:
            super().assign(patch, cell)
            patch.exact[self._number] = cell.exact


class JsonColumn(Column):
    """A kept column, which is stored as its JSON text."""

    _json = msgspec.json.Decoder(float_hook=Decimal)

    def __init__(self, encoder: Encoder, i: int) -> None:
        kept = encoder.table.kept[i]
        type_ = Type.TEXT if kept.hierarchy is not None else TYPE_OF_KEPT[kept.type]
        super().__init__(kept.name, type_)
        self.hierarchy, self.clock = kept.hierarchy, CLOCKS.get(kept.type or "")
        self._encoder, self._i = encoder, i

    def read(self, stored: bytes) -> Value:
        value = scalar(self._json.decode(stored))
        return Moment(moment_of(value, self.name, self.clock), self.clock) if self.clock else value

    def are_null(self, rows: RowsOnce) -> Bools:
        return np.array([values[self._i] == NULL_TEXT for values in rows.values], np.bool_)

    def stored(self, row: Row) -> bytes | None:
        return None if row.values[self._i] == NULL_TEXT else row.values[self._i]

    def all_stored(self, rows: RowsOnce) -> list[bytes | None]:
        return [None if values[self._i] == NULL_TEXT else values[self._i] for values in rows.values]

    def cell(self, value: object) -> bytes:
        return self._encoder.kept(self._i, value)

    def assign(self, patch: Patch, cell: bytes) -> None:
        patch.values[self._i] = cell


@lru_cache(maxsize=16)
def columns_of(table: Table) -> dict[str, Column]:
    """The columns that statements about the table may use, by name."""
    encoder = Encoder(table)
    columns: list[Column] = []
    for j, attribute in enumerate(table.attributes):
        if isinstance(attribute, TemporalAttribute):
            columns.append(TemporalColumn(encoder, j, attribute))
        else:
            columns.append(ExactColumn(encoder, j) if j in table.stepless else CodedColumn(encoder, j))
    columns += [JsonColumn(encoder, i) for i in range(len(table.kept))]
    return {column.name: column for column in columns}


def find(name: str, table: Table) -> Column:
    """The column of a statement's name; raises EventRefused("bad-statement")."""
    column = columns_of(table).get(name)
    if name in table.coarse:
        what = "is rounded, top-coded or published as something else (`publish`)"
        detail = f"column {name!r}: {what}, so a statement could mean other rows: send their changes"
        raise EventRefused("bad-statement", detail, name)
    if column is not None:
        return column
    if name in table.source_key or name == table.individual:
        raise EventRefused("bad-statement", f"statements may not use column {name!r}, which says whose row it is", name)
    raise EventRefused(
        "bad-statement", "names a column that table.yaml does not have (write a text literal in single quotes)"
    )


def meant(column: Column, constant: syntax.Scalar) -> syntax.Scalar:
    """The value of a constant in a column, texts read as in a row; raises EventRefused("bad-statement")."""
    if not isinstance(constant, str):
        return constant
    try:
        return scalar(column.meant(constant))
    except EventRefused as refused:
        raise EventRefused("bad-statement", refused.detail, column.name) from None


def known(constant: syntax.Scalar, column: Column) -> syntax.Scalar:
    """The constant; raises EventRefused("bad-statement") for null, with which nothing can be compared."""
    if constant is None:
        detail = f"column {column.name!r}: compared with a word for null, which no value equals: write `is null`"
        raise EventRefused("bad-statement", detail, column.name)
    return constant


def moment_in_statement(text: str, column: str, clock: Clock) -> int:
    """A text in quotes as a moment, in the clock's ticks; raises EventRefused("bad-statement")."""
    try:
        return constant_of(text, column, clock)
    except EventRefused as refused:
        raise EventRefused("bad-statement", refused.detail, column) from None


# -- comparisons


@dataclass(frozen=True)
class CodeTest:
    """`sum of weight * code  test  bound`, over whole columns of integers."""

    weights: tuple[tuple[int, int], ...]  # attribute number, weight
    test: str
    bound: int
    fits: bool  # all sums fit into int64
    nullable: tuple[int, ...] = ()  # attributes that may be null

    @classmethod
    def of(cls, signed: Sequence[tuple[Scale, int]], test: str, constant: syntax.Number) -> CodeTest:
        """`sum of sign * value  test  constant`."""
        bound = constant - sum(sign * scale.origin for scale, sign in signed)
        common = math.lcm(bound.denominator, *(scale.step.denominator for scale, _ in signed))
        weights = tuple((scale.attribute, int(sign * scale.step * common)) for scale, sign in signed)
        largest = sum(
            abs(weight) * max(1, scale.code_max) for (_, weight), (scale, _) in zip(weights, signed, strict=True)
        )
        return cls(weights, test, int(bound * common), fits=largest < 2**62)

    def matches(self, rows: RowsOnce) -> Bools:
        codes = rows.codes if self.fits else rows.codes.astype(object)
        total = sum(codes[:, j] * weight for j, weight in self.weights)
        holds = np.asarray(TESTS[self.test](total, self.bound), dtype=np.bool_)
        return holds & ~rows.nulls[:, self.nullable].any(axis=1) if self.nullable else holds


@dataclass(frozen=True)
class ValueTest:
    """`left test constant`, or `left test right + constant`, row by row."""

    left: Column
    test: str
    right: Column | None
    constant: Value
    has_offset: bool

    def matches(self, rows: RowsOnce) -> Bools:
        lefts = self.left.of_rows(rows)
        rights = repeat(self.constant, len(lefts)) if self.right is None else self.right.of_rows(rows)
        return np.fromiter(map(self._holds, lefts, rights), np.bool_, len(lefts))

    def _holds(self, left: Value, right: Value) -> bool:
        if isinstance(left, Moment) and isinstance(right, Moment):
            return bool(TESTS[self.test](left, right))
        if is_number(left) and is_number(right):
            offset = self.constant if self.has_offset and is_number(self.constant) else 0
            return bool(TESTS[self.test](left, right + offset))
        comparable = self.test == "=" and not self.has_offset and left is not None
        return comparable and type_of(left) is type_of(right) and left == right


@dataclass(frozen=True)
class NullTest:
    """`column is null`, or `column is not null`."""

    column: Column
    is_null: bool

    def matches(self, rows: RowsOnce) -> Bools:
        are_null = self.column.are_null(rows)
        return are_null if self.is_null else ~are_null


Comparator: TypeAlias = CodeTest | ValueTest | NullTest


def comparator_of(comparison: syntax.Comparison, table: Table) -> Comparator:
    """The fastest test of a comparison; raises EventRefused("bad-statement") if it can never make sense."""
    left = find(comparison.left, table)
    if comparison.test in (syntax.IS_NULL, syntax.IS_NOT_NULL):
        return NullTest(left, comparison.test == syntax.IS_NULL)
    test = _test_of_values(comparison, left, table)
    if not isinstance(test, CodeTest):
        return test
    return replace(test, nullable=tuple(j for j, _ in test.weights if j in table.nullable))


def _test_of_values(comparison: syntax.Comparison, left: Column, table: Table) -> CodeTest | ValueTest:
    right = None if comparison.right is None else find(comparison.right, table)
    constant = comparison.constant if right is not None else known(meant(left, comparison.constant), left)
    if left.clock is not None and right is None and isinstance(constant, str):
        return _test_of_moment(left, left.clock, comparison.test, constant)
    _check_types(comparison, left, type_of(constant) if right is None else right.type)
    if left.hierarchy is not None and isinstance(constant, str):
        leaf = left.hierarchy.code_of.get(constant)
        if leaf is None:
            raise EventRefused(
                "bad-statement", f"column {left.name!r}: compared with no leaf of its hierarchy", left.name
            )
        if left.scale is not None:
            return CodeTest.of([(left.scale, 1)], comparison.test, leaf)
    elif left.type is Type.NUMBER and left.scale is not None and is_number(constant):
        if right is None:
            return CodeTest.of([(left.scale, 1)], comparison.test, constant)
        if right.type is Type.NUMBER and right.scale is not None:
            return CodeTest.of([(left.scale, 1), (right.scale, -1)], comparison.test, constant)
    return ValueTest(left, comparison.test, right, constant, comparison.has_offset)


def _test_of_moment(left: Column, clock: Clock, test: str, text: str) -> CodeTest | ValueTest:
    """A column of dates or timestamps, compared with a constant."""
    moment = moment_in_statement(text, left.name, clock)
    if isinstance(left, TemporalColumn):
        return CodeTest.of([(left.codes, 1)], test, left.calendar.code_or_beyond(moment))
    return ValueTest(left, test, None, Moment(moment, clock), has_offset=False)


def _check_types(comparison: syntax.Comparison, left: Column, right: Type) -> None:
    if Type.ANY not in (left.type, right) and left.type is not right:
        raise EventRefused(
            "bad-statement",
            f"column {left.name!r} holds {left.type.value} and is compared with {right.value}",
            left.name,
        )
    if comparison.has_offset and left.type in MOMENTS:
        detail = f"column {left.name!r} holds {left.type.value}, which takes no offset: write the moment in quotes"
        raise EventRefused("bad-statement", detail, left.name)
    ordered = comparison.test != "=" or comparison.has_offset
    if ordered and not {left.type, right} <= {Type.NUMBER, Type.ANY, *MOMENTS}:
        raise EventRefused(
            "bad-statement",
            f"column {left.name!r}: only numbers and times have an order, and only numbers take an offset",
            left.name,
        )


# -- assignments: computed exactly from the row as it was

RESULT_BITS_MAX = 2048
"""Bits of the numerator and of the denominator of a result: about 600 decimal digits."""

NO_ROW = Row((), ())
_Step: TypeAlias = syntax.Constant | Column | syntax.Operator


@dataclass(frozen=True)
class ColumnAssigned:
    """`column = expression`, in postfix."""

    column: Column
    steps: tuple[_Step, ...]

    @property
    def operands(self) -> list[str]:
        """The columns on the right, by name."""
        return [step.name for step in self.steps if isinstance(step, Column)]

    def cell(self, row: Row) -> Any:
        """The row's new value, as the column assigns it; raises EventRefused."""
        return self.column.cell(_plain(self._result(row), self.column.name))

    def _result(self, row: Row) -> Value:
        stack: list[Value] = []
        for step in self.steps:
            if isinstance(step, syntax.Constant):
                stack.append(step.value)
            elif isinstance(step, Column):
                stack.append(step.of_row(row))
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(self._computed(step, left, right))
        return stack.pop()

    def _computed(self, compute: syntax.Operator, left: Value, right: Value) -> syntax.Number | None:
        if left is None or right is None:
            return None
        if not is_number(left) or not is_number(right):
            raise _bad_result("arithmetic with a value that is not a number", self.column.name)
        try:
            return _bounded(compute(left, right), self.column.name)
        except ZeroDivisionError:
            raise _bad_result("division by zero", self.column.name) from None


def assigned_of(column: Column, postfix: syntax.Postfix, table: Table) -> ColumnAssigned:
    """An expression over a table's columns; raises EventRefused("bad-statement") if it can never be right."""
    steps = tuple(find(step.name, table) if isinstance(step, syntax.ColumnReference) else step for step in postfix)
    if isinstance(steps[0], syntax.Constant) and isinstance(steps[0].value, str):
        steps = (syntax.Constant(meant(column, steps[0].value)),)
    type_ = _type_of_steps(steps)
    if column.clock is not None and isinstance(steps[0], syntax.Constant) and isinstance(text := steps[0].value, str):
        moment = moment_in_statement(text, column.name, column.clock)
        type_, steps = column.type, (syntax.Constant(moment_text(moment, column.clock)),)
    assigned = ColumnAssigned(column, steps)
    if type_ is not column.type and Type.ANY not in (type_, column.type) and type_ is not Type.NULL:
        raise EventRefused(
            "bad-statement",
            f"column {column.name!r} holds {column.type.value} and is set to {type_.value}",
            column.name,
        )
    if not assigned.operands:
        _check_constant(assigned)
    return assigned


def _type_of_steps(steps: tuple[_Step, ...]) -> Type:
    """The type of an expression; raises EventRefused("bad-statement") for arithmetic with a column without numbers."""
    first = steps[0]
    if len(steps) == 1 and isinstance(first, Column):
        return first.type
    if len(steps) == 1 and isinstance(first, syntax.Constant):
        return type_of(first.value)
    for step in steps:
        if isinstance(step, Column) and step.type not in (Type.NUMBER, Type.ANY):
            raise EventRefused(
                "bad-statement", f"arithmetic with column {step.name!r}, which holds {step.type.value}", step.name
            )
    return Type.NUMBER


def _check_constant(assigned: ColumnAssigned) -> None:
    """Refuses a constant that no row can take once, instead of for every row."""
    try:
        assigned.cell(NO_ROW)
    except EventRefused as refused:
        raise EventRefused("bad-statement", f"no row can take it: {refused.detail}", refused.column) from None


def _plain(value: Value, column: str) -> int | Decimal | str | bool | None:
    """A value as in rows of the input; raises EventRefused for a fraction without a finite decimal form."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, Moment):
        return value.text
    if isinstance(_bounded(value, column), int):
        return int(value)
    digits = value.denominator.bit_length()  # 2^a 5^b divides 10^max(a, b), and max(a, b) < digits
    shifted = value * 10**digits
    if shifted.denominator != 1:
        raise _bad_result("a fraction without an exact decimal form", column)
    return Decimal(f"{shifted.numerator}E-{digits}")


def _bounded(number: syntax.Number, column: str) -> syntax.Number:
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > RESULT_BITS_MAX:
        raise _bad_result(f"a number of more than {RESULT_BITS_MAX} bits", column)
    return number


def _bad_result(what: str, column: str) -> EventRefused:
    return EventRefused("bad-result", f"column {column!r}: {what}", column)


@dataclass(frozen=True)
class Condition:
    """A conjunction of comparisons (Song et al. 2009, phi_D and phi_M); columns: alpha(phi), all in it."""

    columns: frozenset[str]
    _tests: tuple[Comparator, ...] = field(repr=False)

    def matches(self, rows: RowsView) -> Bools:
        """True for each row that satisfies the condition; bool (n,)."""
        once = RowsOnce(rows)
        matching: Bools = np.logical_and.reduce([test.matches(once) for test in self._tests])
        return matching


@dataclass(frozen=True)
class Assignments:
    """The assignments of a statement (Song et al. 2009, F_M); columns: all on the left or on the right."""

    columns: frozenset[str]
    targets: tuple[str, ...]
    _assigned: tuple[ColumnAssigned, ...] = field(repr=False)

    @cached_property
    def _constants(self) -> Patch:
        """What every row gets, computed once."""
        patch = Patch()
        for one in self._assigned:
            if not one.operands:
                one.column.assign(patch, one.cell(NO_ROW))
        return patch

    @cached_property
    def _computed(self) -> list[ColumnAssigned]:
        return [one for one in self._assigned if one.operands]

    def applied_to(self, row: Row) -> Row:
        """The row with its new values; raises EventRefused if one is not a value of its column."""
        patch = self._constants
        if self._computed:
            patch = patch.copy()
            for one in self._computed:
                one.column.assign(patch, one.cell(row))
        return patch.on(row)


@lru_cache(maxsize=256)
def parse_condition(text: str, table: Table) -> Condition:
    """The condition of a text over a table's rows; raises EventRefused("bad-statement").

    With a quoted name, a constant, an offset: `"marital-status" = 'Divorced' and age >= 30 and age < years + 12.5`.
    """
    return condition_of(syntax.read_condition(text), table)


def condition_of(comparisons: Sequence[syntax.Comparison], table: Table) -> Condition:
    """The condition of some comparisons; raises EventRefused("bad-statement")."""
    names = {name for each in comparisons for name in (each.left, each.right) if name is not None}
    return Condition(frozenset(names), tuple(comparator_of(comparison, table) for comparison in comparisons))


def parse_assignments(texts: Mapping[str, str], table: Table) -> Assignments:
    """The assignments column -> expression; raises EventRefused("bad-statement").

    With a computed number, a constant, a null: `{"age": "(age + years) / 2", "problem": "'flu'", "ward": "null"}`.
    """
    return _parse_assignments(tuple(texts.items()), table)


@lru_cache(maxsize=256)
def _parse_assignments(texts: tuple[tuple[str, str], ...], table: Table) -> Assignments:
    if not texts:
        raise EventRefused("bad-statement", "the statement sets no column")
    assigned = tuple(assigned_of(find(name, table), syntax.read_expression(text), table) for name, text in texts)
    operands = (name for each in assigned for name in each.operands)
    targets = tuple(name for name, _ in texts)
    return Assignments(frozenset((*targets, *operands)), targets, assigned)
