"""What answers a comparison of a statement's condition: whole columns of integers where it can be, else row by row.

What can be told from table.yaml is refused when the statement is read; what only a row can tell is false for that row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TypeAlias

import numpy as np

from streamer.errors import EventRefused
from streamer.incremental.events.statement_columns import Column, RowsOnce, Scale, TemporalColumn, find
from streamer.incremental.events.statement_constants import known, meant, moment_in_statement
from streamer.incremental.events.statement_syntax import IS_NOT_NULL, IS_NULL, TESTS, Comparison, Number
from streamer.incremental.events.statement_values import MOMENTS, Moment, Type, Value, is_number, type_of
from streamer.table.arrays import Bools
from streamer.table.moments import Clock
from streamer.table.schema import Table

INT64_SAFE = 2**62


@dataclass(frozen=True)
class CodeTest:
    """The sum of weight * code over some attributes, against a bound: all in integers, over whole columns."""

    weights: tuple[tuple[int, int], ...]  # attribute number, weight
    test: str
    bound: int
    fits: bool  # every such sum is an int64
    nullable: tuple[int, ...] = ()  # those of the attributes that may be null

    @classmethod
    def of(cls, signed: Sequence[tuple[Scale, int]], test: str, constant: Number) -> CodeTest:
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
    """Whether a column is null, or is not."""

    column: Column
    is_null: bool

    def matches(self, rows: RowsOnce) -> Bools:
        are_null = self.column.are_null(rows)
        return are_null if self.is_null else ~are_null


Answer: TypeAlias = CodeTest | ValueTest | NullTest


def answer_to(comparison: Comparison, table: Table) -> Answer:
    """The fastest way to answer a comparison; raises EventRefused("bad-statement") where it makes no sense."""
    left = find(comparison.left, table)
    if comparison.test in (IS_NULL, IS_NOT_NULL):
        return NullTest(left, comparison.test == IS_NULL)
    test = _test_of_values(comparison, left, table)
    if not isinstance(test, CodeTest):
        return test
    return replace(test, nullable=tuple(j for j, _ in test.weights if j in table.nullable))


def _test_of_values(comparison: Comparison, left: Column, table: Table) -> CodeTest | ValueTest:
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
    """A column of dates or timestamps against one of them."""
    moment = moment_in_statement(text, left.name, clock)
    if isinstance(left, TemporalColumn):
        return CodeTest.of([(left.codes, 1)], test, left.calendar.code_or_beyond(moment))
    return ValueTest(left, test, None, Moment(moment, clock), has_offset=False)


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
