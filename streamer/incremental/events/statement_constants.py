"""What a constant of a statement means in a column: a text as a row has it, a moment in quotes."""

from __future__ import annotations

from streamer.errors import EventRefused
from streamer.incremental.events.statement_columns import Column
from streamer.incremental.events.statement_syntax import Scalar
from streamer.incremental.events.statement_values import scalar
from streamer.table.moments import Clock, limit_of


def meant(column: Column, constant: Scalar) -> Scalar:
    """What a constant means in a column: a text as a row has it. Raises EventRefused("bad-statement")."""
    if not isinstance(constant, str):
        return constant
    try:
        return scalar(column.meant(constant))
    except EventRefused as refused:
        raise EventRefused("bad-statement", refused.detail, column.name) from None


def known(constant: Scalar, column: Column) -> Scalar:
    """A constant that something can be compared with; raises EventRefused("bad-statement") for a word for null."""
    if constant is None:
        detail = f"column {column.name!r}: compared with a word for null, which no value equals; say `is null`"
        raise EventRefused("bad-statement", detail, column.name)
    return constant


def moment_in_statement(text: str, column: str, clock: Clock) -> int:
    """The moment that a text in quotes names, in the clock's ticks; raises EventRefused("bad-statement")."""
    try:
        return limit_of(text, column, clock)
    except EventRefused as refused:
        raise EventRefused("bad-statement", refused.detail, column) from None
