"""What a raw value says by itself: an exact number, a category, the text of a key.

Input values are what JSON has: text, int, Decimal (never a binary float), bool, None; a bool is never a number.
Numbers are computed with exactly, and a number that JSON can say but no table of people has (hundreds of digits before
or after the point) is refused, so that no exponent of eight characters becomes a text of a million. Any other
value raises `EventRefused`, naming reason and column and never the value.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from streamer.errors import EventRefused

DIGITS_MAX = 400
"""Digits before the point, and leading zeros behind it, that a number may have (a binary float has 325 at most)."""

_INTEGER_BITS_MAX = 1328  # 400 decimal digits
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)


def read_decimal(text: str) -> Decimal | None:
    """The number a text stands for, exactly; None where it is not a finite decimal number.

    >>> read_decimal("-1.50"), read_decimal("1e2"), read_decimal("NaN"), read_decimal("1_000"), read_decimal("")
    (Decimal('-1.50'), Decimal('1E+2'), None, None, None)
    """
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def decimal_text(number: Decimal) -> str:
    """The shortest plain text of a number: no exponent, no trailing zeros, no minus zero.

    >>> decimal_text(Decimal("1.50")), decimal_text(Decimal("1E+2")), decimal_text(Decimal("-0.0"))
    ('1.5', '100', '0')
    """
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def number_of(value: object, column: str) -> Decimal:
    """A JSON number, or a text that is one (as change-data-capture's string mode has it); else EventRefused."""
    if type(value) is int:
        return Decimal(_bounded(value, column))
    if type(value) is str:
        value = read_decimal(value)
    if not isinstance(value, Decimal) or not value.is_finite():
        raise EventRefused("wrong-type", f"column {column!r}: not a number", column)
    if abs(value.adjusted()) > DIGITS_MAX:
        raise EventRefused("wrong-type", f"column {column!r}: a number of more than {DIGITS_MAX} digits", column)
    return value


def integer_of(value: object, column: str) -> int:
    """A JSON number with an integral value; else EventRefused.

    >>> integer_of(Decimal("7.0"), "age")
    7
    """
    if type(value) is int:
        return _bounded(value, column)
    if not isinstance(value, Decimal):
        raise EventRefused("wrong-type", f"column {column!r}: not an integer", column)
    number = number_of(value, column)
    if number != number.to_integral_value():
        raise EventRefused("wrong-type", f"column {column!r}: not an integer", column)
    return int(number)


def _bounded(value: int, column: str) -> int:
    if value.bit_length() > _INTEGER_BITS_MAX:
        raise EventRefused("wrong-type", f"column {column!r}: a number of more than {DIGITS_MAX} digits", column)
    return value


def category_of(value: object, column: str) -> str:
    """The text of a category: 1 and "1" are the same; else EventRefused."""
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if isinstance(value, (int, Decimal)):
        return decimal_text(number_of(value, column))
    raise EventRefused("wrong-type", f"column {column!r}: not a category; expected text", column)


def key_text(value: object, column: str) -> str:
    """The text of a primary key or of an individual: 7, 7.0 and "7" are one; null and bool are none."""
    if type(value) is str:
        return value
    if type(value) is int or isinstance(value, Decimal):
        return decimal_text(number_of(value, column))
    raise EventRefused("wrong-type", f"column {column!r}: neither text nor a number", column)
