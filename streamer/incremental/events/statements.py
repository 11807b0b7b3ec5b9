"""Statements about many rows: which rows (a condition), and what becomes of them (assignments).

The rules of this file
----------------------
* Statements are those of Song et al. 2009: conditions and assignments over the table's attributes. Their text is read
  by the grammar of `streamer.incremental.events.statement_syntax`; nothing is ever evaluated as Python.
* Usable are the quasi-identifiers and the kept columns: never the key, never the individual.
* All arithmetic is exact: integers and fractions. What is not exactly a value of its column is refused, for that row.
* A comparison with null is false, arithmetic with null is null. Numbers and times have an order, and numbers alone are
  computed with. A comparison of a text with a number is refused where table.yaml can tell, and false where only the row
  can.
* A date or a timestamp stands in quotes, as rows have it: `born < '1980-01-01'`. A day alone stands for its first
  moment. Two columns are compared where both are of one type.
* Right-hand sides see the old values of the row.
* Codes that are evenly spaced are compared as whole columns of integers; every other comparison reads row by row.
* No message shows a part of a statement: an unquoted text literal looks like a column's name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from itertools import repeat
from typing import TypeAlias

import numpy as np

from streamer.errors import EventRefused
from streamer.incremental.events.statement_columns import (
    MOMENTS,
    Column,
    Draft,
    Moment,
    RowsOnce,
    Scale,
    TemporalColumn,
    Type,
    Value,
    find,
    is_number,
    type_of,
)
from streamer.incremental.events.statement_syntax import (
    TESTS,
    Comparison,
    Constant,
    Number,
    Operator,
    Postfix,
    Reference,
    read_condition,
    read_expression,
)
from streamer.table.arrays import Bools
from streamer.table.moments import Clock, limit_of, moment_text
from streamer.table.row import Row, RowsView
from streamer.table.schema import Table

RESULT_BITS_MAX = 2048
"""Bits that numerator and denominator of a computed number may have: about 600 decimal digits."""

INT64_SAFE = 2**62


@dataclass(frozen=True)
class Condition:
    """A conjunction of comparisons (Song et al. 2009, phi_D and phi_M); columns: alpha(phi), all that occur in it."""

    columns: frozenset[str]
    _tests: tuple[_CodeTest | _ValueTest, ...] = field(repr=False)

    def matches(self, rows: RowsView) -> Bools:
        """Which rows satisfy the condition; bool (n,)."""
        once = RowsOnce(rows)
        matching: Bools = np.logical_and.reduce([test.matches(once) for test in self._tests])
        return matching


@dataclass(frozen=True)
class Assignments:
    """What becomes of a row (Song et al. 2009, F_M); columns: all that occur, on the left or on the right."""

    columns: frozenset[str]
    targets: tuple[str, ...]
    _assigned: tuple[_Assigned, ...] = field(repr=False)

    def applied_to(self, row: Row) -> Row:
        """The row with its new values; raises EventRefused where one of them is not a value of its column."""
        draft = Draft.of(row)
        for assigned in self._assigned:
            assigned.apply(row, draft)
        return draft.row(row.individual)


@lru_cache(maxsize=256)
def parse_condition(text: str, table: Table) -> Condition:
    """The condition that a text says about a table's rows; raises EventRefused("bad-statement").

    A quoted name, a constant, an offset: `"marital-status" = 'Divorced' and age >= 30 and age < years + 12.5`.
    """
    return condition_of(read_condition(text), table)


def condition_of(comparisons: Sequence[Comparison], table: Table) -> Condition:
    """The condition that some comparisons say about a table's rows; raises EventRefused("bad-statement")."""
    names = {name for each in comparisons for name in (each.left, each.right) if name is not None}
    return Condition(frozenset(names), tuple(_test_of(comparison, table) for comparison in comparisons))


def parse_assignments(texts: Mapping[str, str], table: Table) -> Assignments:
    """The assignments column -> expression for a table's rows; raises EventRefused("bad-statement").

    A computed number, a constant, a null: `{"age": "(age + years) / 2", "problem": "'flu'", "ward": "null"}`.
    """
    return _parse_assignments(tuple(texts.items()), table)


@lru_cache(maxsize=256)
def _parse_assignments(texts: tuple[tuple[str, str], ...], table: Table) -> Assignments:
    if not texts:
        raise EventRefused("bad-statement", "the statement sets no column")
    assigned = tuple(_assigned_of(find(name, table), read_expression(text), table) for name, text in texts)
    operands = (name for each in assigned for name in each.operands)
    targets = tuple(name for name, _ in texts)
    return Assignments(frozenset((*targets, *operands)), targets, assigned)


# -- conditions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _CodeTest:
    """The sum of weight * code over some attributes, against a bound: all in integers, over whole columns."""

    weights: tuple[tuple[int, int], ...]  # attribute number, weight
    test: str
    bound: int
    fits: bool  # every such sum is an int64

    @classmethod
    def of(cls, signed: Sequence[tuple[Scale, int]], test: str, constant: Number) -> _CodeTest:
        """The sum of sign * value over some scales, against a constant."""
        bound = constant - sum(sign * scale.origin for scale, sign in signed)
        common = math.lcm(bound.denominator, *(scale.step.denominator for scale, _ in signed))
        weights = tuple((scale.attribute, int(sign * scale.step * common)) for scale, sign in signed)
        largest = sum(
            abs(weight) * max(1, scale.code_max) for (_, weight), (scale, _) in zip(weights, signed, strict=True)
        )
        return cls(weights, test, int(bound * common), largest < INT64_SAFE)

    def matches(self, rows: RowsOnce) -> Bools:
        codes = rows.codes if self.fits else rows.codes.astype(object)
        total = sum(codes[:, j] * weight for j, weight in self.weights)
        return np.asarray(TESTS[self.test](total, self.bound), dtype=np.bool_)


@dataclass(frozen=True)
class _ValueTest:
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


def _test_of(comparison: Comparison, table: Table) -> _CodeTest | _ValueTest:
    """The fastest way to answer a comparison; raises EventRefused("bad-statement") where it makes no sense."""
    left = find(comparison.left, table)
    right = None if comparison.right is None else find(comparison.right, table)
    constant = comparison.constant
    if left.clock is not None and right is None and isinstance(constant, str):
        return _test_of_moment(left, left.clock, comparison.test, constant)
    _check_types(comparison, left, type_of(constant) if right is None else right.type)
    if left.hierarchy is not None and isinstance(constant, str):
        constant = left.hierarchy.code_of.get(constant)
        if constant is None:
            raise EventRefused(
                "bad-statement", f"column {left.name!r}: compared with no leaf of its hierarchy", left.name
            )
        if left.scale is not None:
            return _CodeTest.of([(left.scale, 1)], comparison.test, constant)
    elif left.type is Type.NUMBER and left.scale is not None and is_number(constant):
        if right is None:
            return _CodeTest.of([(left.scale, 1)], comparison.test, constant)
        if right.type is Type.NUMBER and right.scale is not None:
            return _CodeTest.of([(left.scale, 1), (right.scale, -1)], comparison.test, constant)
    return _ValueTest(left, comparison.test, right, comparison.constant, comparison.has_offset)


def _test_of_moment(left: Column, clock: Clock, test: str, text: str) -> _CodeTest | _ValueTest:
    """A column of dates or timestamps against one of them."""
    moment = _moment_in_statement(text, left.name, clock)
    if isinstance(left, TemporalColumn):
        return _CodeTest.of([(left.codes, 1)], test, left.calendar.code_or_beyond(moment))
    return _ValueTest(left, test, None, Moment(moment, clock), has_offset=False)


def _moment_in_statement(text: str, column: str, clock: Clock) -> int:
    try:
        return limit_of(text, column, clock)
    except EventRefused as refused:
        raise EventRefused("bad-statement", refused.detail, column) from None


def _check_types(comparison: Comparison, left: Column, right: Type) -> None:
    if Type.ANY not in (left.type, right) and left.type is not right:
        raise EventRefused(
            "bad-statement",
            f"column {left.name!r} holds {left.type.value} and is compared with {right.value}",
            left.name,
        )
    if comparison.has_offset and left.type in MOMENTS:
        detail = f"column {left.name!r} holds {left.type.value}, which takes no offset: name the moment in quotes"
        raise EventRefused("bad-statement", detail, left.name)
    ordered = comparison.test != "=" or comparison.has_offset
    if ordered and not {left.type, right} <= {Type.NUMBER, Type.ANY, *MOMENTS}:
        raise EventRefused(
            "bad-statement",
            f"column {left.name!r}: only numbers and times have an order, and only numbers take an offset",
            left.name,
        )


# -- assignments ------------------------------------------------------------------------------------------------------

_Step: TypeAlias = Constant | Column | Operator


@dataclass(frozen=True)
class _Assigned:
    """`column = expression`; the expression in postfix."""

    column: Column
    steps: tuple[_Step, ...]

    @property
    def operands(self) -> list[str]:
        """Names of the columns on the right."""
        return [step.name for step in self.steps if isinstance(step, Column)]

    def apply(self, row: Row, draft: Draft) -> None:
        """Computes from the row, writes to the draft; raises EventRefused."""
        self.column.assign(draft, _plain(self._result(row), self.column.name))

    def _result(self, row: Row) -> Value:
        stack: list[Value] = []
        for step in self.steps:
            if isinstance(step, Constant):
                stack.append(step.value)
            elif isinstance(step, Column):
                stack.append(step.of_row(row))
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(self._computed(step, left, right))
        return stack.pop()

    def _computed(self, compute: Operator, left: Value, right: Value) -> Number | None:
        if left is None or right is None:
            return None
        if not is_number(left) or not is_number(right):
            raise _bad_result("arithmetic with a value that is no number", self.column.name)
        try:
            return _bounded(compute(left, right), self.column.name)
        except ZeroDivisionError:
            raise _bad_result("division by zero", self.column.name) from None


def _assigned_of(column: Column, postfix: Postfix, table: Table) -> _Assigned:
    """Ties an expression to a table; raises EventRefused("bad-statement") for what can never be right."""
    steps = tuple(find(step.name, table) if isinstance(step, Reference) else step for step in postfix)
    type_ = _type_of_steps(steps)
    if column.clock is not None and isinstance(steps[0], Constant) and isinstance(text := steps[0].value, str):
        moment = _moment_in_statement(text, column.name, column.clock)
        type_, steps = column.type, (Constant(moment_text(moment, column.clock)),)
    assigned = _Assigned(column, steps)
    if type_ is not column.type and Type.ANY not in (type_, column.type) and type_ is not Type.NULL:
        detail = f"column {column.name!r} holds {column.type.value} and is set to {type_.value}"
        raise EventRefused("bad-statement", detail, column.name)
    if not assigned.operands:
        _check_constant(assigned, table)
    return assigned


def _type_of_steps(steps: tuple[_Step, ...]) -> Type:
    """What an expression gives; raises EventRefused("bad-statement") for arithmetic with what is never a number."""
    first = steps[0]
    if len(steps) == 1 and isinstance(first, Column):
        return first.type
    if len(steps) == 1 and isinstance(first, Constant):
        return type_of(first.value)
    for step in steps:
        if isinstance(step, Column) and step.type not in (Type.NUMBER, Type.ANY):
            detail = f"arithmetic with column {step.name!r}, which holds {step.type.value}"
            raise EventRefused("bad-statement", detail, step.name)
    return Type.NUMBER


def _check_constant(assigned: _Assigned, table: Table) -> None:
    """What no row can take is refused once, and not for every row."""
    nobody = Row((0,) * len(table.attributes), (b"null",) * len(table.kept), ("0",) * len(table.stepless))
    try:
        assigned.apply(nobody, Draft.of(nobody))
    except EventRefused as refused:
        raise EventRefused("bad-statement", f"no row can take it: {refused.detail}", refused.column) from None


def _plain(value: Value, column: str) -> int | Decimal | str | bool | None:
    """A value as rows of the input have it; raises EventRefused where a fraction has no finite decimal form."""
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


def _bounded(number: Number, column: str) -> Number:
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > RESULT_BITS_MAX:
        raise _bad_result(f"a number of more than {RESULT_BITS_MAX} bits", column)
    return number


def _bad_result(what: str, column: str) -> EventRefused:
    return EventRefused("bad-result", f"column {column!r}: {what}", column)
