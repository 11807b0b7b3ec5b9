"""What a column or an expression of a statement holds: its type, and one value, exact.

A value is an int, a Fraction, a text, a bool, None or a `Moment`; a number is never a binary float, and a bool is no
number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import TypeGuard

from streamer.incremental.events.statement_syntax import Number, Scalar
from streamer.table.moments import DATE, LOCAL_TIMESTAMP, TIMESTAMP, Clock, moment_text


class Type(Enum):
    """What a column or an expression holds; ANY where only the row can tell."""

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
"""What a kept column holds, by the `type` that table.yaml gives it; None: it gives none."""


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """A date or a timestamp; only those of one clock are compared."""

    number: int = field(repr=False)
    clock: Clock = field(compare=False)

    @property
    def text(self) -> str:
        return moment_text(self.number, self.clock)


Value = Scalar | Moment
"""What a column holds for one row."""


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


def is_number(value: Value) -> TypeGuard[Number]:
    """Whether a value is an int or a Fraction; a bool is none."""
    return isinstance(value, (int, Fraction)) and not isinstance(value, bool)


def scalar(value: object) -> Scalar:
    """A decoded JSON scalar with its number, if it is one, as an int or a Fraction."""
    if isinstance(value, Decimal):
        exact = Fraction(value)
        return exact.numerator if exact.denominator == 1 else exact
    if value is None or isinstance(value, (str, bool, int)):
        return value
    raise TypeError("a stored value is a JSON scalar")
