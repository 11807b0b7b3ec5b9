"""What one setting of table.yaml may say, whichever it is: numbers, durations, lengths, names and lists of words.

Every value arrives as the text that stands in the file. What is none of its kind is refused in words that say what is
allowed; `yaml_faults` puts the place before them.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, InstanceOf, StringConstraints

from streamer.table.calendar_cells import Span, read_span
from streamer.table.scalars import read_decimal

WHOLE_DIGITS_MAX, FRACTION_DIGITS_MAX = 18, 9
"""Digits of a number of table.yaml before and after the point: sums and multiples of such numbers stay exact."""

REPAIR_MAX = 100
NEVER = "never"
UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
DURATION_LEAST, DURATION_MOST = 60, 3_650 * 86_400
WORDS_MAX = 100
"""Words that are nulls."""

DRIFT_LEAST, DRIFT_MOST = Decimal("1.01"), Decimal(100)
"""The loss cannot be told more exactly than by a percent or so."""


def _number(text: object) -> Decimal:
    number = read_decimal(text) if isinstance(text, str) else None
    if number is None:
        raise ValueError("must be a number")
    if abs(number) >= 10**WHOLE_DIGITS_MAX or number != round(number, FRACTION_DIGITS_MAX):
        raise ValueError(
            f"must have at most {WHOLE_DIGITS_MAX} digits before the point, {FRACTION_DIGITS_MAX} after it"
        )
    return number


def _price(text: object) -> Decimal:
    if text == "off":
        return Decimal(0)
    number = read_decimal(text) if isinstance(text, str) else None
    if number is None or not 0 < number <= REPAIR_MAX or number != round(number, FRACTION_DIGITS_MAX):
        raise ValueError(
            f"must be `off`, or what a row must save that is published again: a number above 0, {REPAIR_MAX} at most,"
            " where 1 is the whole domain of one column"
        )
    return number


def _duration(text: object) -> int | None:
    """Seconds of a duration such as 90s, 30m, 24h, 7d; None for `never`."""
    if text == NEVER:
        return None
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"must be a duration such as 30m, 24h or 7d, or `{NEVER}`")
    seconds = int(found[1]) * UNIT_SECONDS[found[2]]
    if not DURATION_LEAST <= seconds <= DURATION_MOST:
        raise ValueError(f"must be 1m at least and 3650d at most, or `{NEVER}`")
    return seconds


def _drift(text: object) -> Decimal | None:
    """How much more than a fresh table may be lost, as a factor; None for `never`."""
    if text == NEVER:
        return None
    factor = _number(text)
    if not DRIFT_LEAST <= factor <= DRIFT_MOST:
        raise ValueError(f"must be {DRIFT_LEAST} at least and {DRIFT_MOST} at most, or `{NEVER}`")
    return factor


def _span(text: object) -> Span:
    span = read_span(text)
    if span is None:
        raise ValueError("must be a length such as 1 day, 7 days, 3 months, 5 years, 1 hour or 15 minutes")
    return span


def _listed(names: object) -> object:
    """Names in a list, where a single one may stand by itself."""
    return [names] if isinstance(names, str) else names


Number = Annotated[Decimal, BeforeValidator(_number)]
Price = Annotated[Decimal, BeforeValidator(_price)]
Algorithm = Literal["mondrian", "emp", "ola", "degree-first", "gdppr", "bottom-up", "top-down", "ordered"]
REBUILD_ALGORITHMS: tuple[str, ...] = get_args(Algorithm)
LevelUnit = Literal["minute", "hour", "day", "month", "quarter", "year", "decade", "century", "millennium"]
Duration = Annotated[int | None, BeforeValidator(_duration)]
Drift = Annotated[Decimal | None, BeforeValidator(_drift)]
Length = Annotated[InstanceOf[Span], BeforeValidator(_span)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+$")]
Names = Annotated[tuple[Name, ...], BeforeValidator(_listed), Field(min_length=1)]
Words = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(max_length=WORDS_MAX)]
TableName = Annotated[str, StringConstraints(max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
