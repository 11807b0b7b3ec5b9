"""What a statement sets a column to: an expression, computed exactly from the row as it was."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from streamer.errors import EventRefused
from streamer.incremental.events.statement_columns import Column, Draft, find
from streamer.incremental.events.statement_constants import meant, moment_in_statement
from streamer.incremental.events.statement_syntax import Constant, Number, Operator, Postfix, Reference
from streamer.incremental.events.statement_values import Moment, Type, Value, is_number, type_of
from streamer.table.moments import moment_text
from streamer.table.row import Row
from streamer.table.schema import Table

RESULT_BITS_MAX = 2048
"""Bits that numerator and denominator of a computed number may have: about 600 decimal digits."""

_Step: TypeAlias = Constant | Column | Operator


@dataclass(frozen=True)
class Assigned:
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


def assigned_of(column: Column, postfix: Postfix, table: Table) -> Assigned:
    """Ties an expression to a table; raises EventRefused("bad-statement") for what can never be right."""
    steps = tuple(find(step.name, table) if isinstance(step, Reference) else step for step in postfix)
    if isinstance(steps[0], Constant) and isinstance(steps[0].value, str):
        steps = (Constant(meant(column, steps[0].value)),)
    type_ = _type_of_steps(steps)
    if column.clock is not None and isinstance(steps[0], Constant) and isinstance(text := steps[0].value, str):
        moment = moment_in_statement(text, column.name, column.clock)
        type_, steps = column.type, (Constant(moment_text(moment, column.clock)),)
    assigned = Assigned(column, steps)
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


def _check_constant(assigned: Assigned, table: Table) -> None:
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
