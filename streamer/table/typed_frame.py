"""The published table as a DataFrame: exactly what was published, in types to compute with.

The rules of this file
----------------------
* table.yaml alone decides the types of the columns that publish the box, so they never change. A category is a str, and
  so is an end of an interval with a `width`. Another interval is int64 if all possible ends are whole and fit; float64
  if all have at most `FLOAT_DIGITS` digits, because then the shortest decimal of a float is the published text; else
  object, holding Decimal. Dates are datetime64 in seconds, timestamps in microseconds, instants in UTC; both have room
  for all years from 1 to 9999.
* Kept columns hold what JSON says (dtype object). A number with a point is a float if the float's shortest decimal is
  the published number, else a Decimal: nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import NoneType
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from streamer.errors import EventRefused
from streamer.table.arrays import Objects
from streamer.table.codes import (
    DATE,
    LOCAL_TIMESTAMP,
    TIMESTAMP,
    CategoricalAttribute,
    Clock,
    NumericAttribute,
    TemporalAttribute,
    moment_of,
    moment_text,
)
from streamer.table.published.rows import QI_GROUP, interval_columns
from streamer.table.schema import Table

DATE_TYPE = "datetime64[s]"
_TYPE_OF = {DATE: DATE_TYPE, TIMESTAMP: "datetime64[us, UTC]", LOCAL_TIMESTAMP: "datetime64[us]"}
_CLOCK_OF = {type_: clock for clock, type_ in _TYPE_OF.items()}

_TEXTS, _NUMBERS = {str}, {int, float, Decimal}
_SCALARS = {*_TEXTS, *_NUMBERS, bool, NoneType}

FLOAT_DIGITS = int(np.finfo(np.float64).precision)
"""Significant digits that survive a float64: 15."""


def column_types(table: Table) -> dict[str, str]:
    """Types of the published columns that publish the box: str, int64, float64, object for Decimals, or datetime64."""
    types = {QI_GROUP: "str"}
    for attribute in table.attributes:
        if isinstance(attribute, CategoricalAttribute):
            types[attribute.name] = "str"
        else:
            types |= dict.fromkeys(interval_columns(attribute.name), _type_of_interval(attribute))
    return types


def _type_of_interval(attribute: NumericAttribute | TemporalAttribute) -> str:
    """The narrowest type that holds every end that an interval of the attribute can have."""
    if isinstance(attribute, TemporalAttribute):
        return _TYPE_OF[attribute.calendar.clock]
    if attribute.width is not None:
        return "str"
    places = attribute.places
    largest = max(abs(end) for end in attribute.domain)  # ends lie inside the domain, on multiples of 10^-places
    if places == 0:
        return "int64" if largest <= np.iinfo(np.int64).max else "object"
    return "float64" if largest.scaleb(places) < 10**FLOAT_DIGITS else "object"


def exact_number(text: str) -> float | Decimal:
    """A number with a point or an exponent, as JSON writes it, without rounding.

    >>> exact_number("0.1"), exact_number("0.1000000000000000055"), exact_number("1e400")
    (0.1, Decimal('0.1000000000000000055'), Decimal('1E+400'))
    """
    number, exact = float(text), Decimal(text)
    return number if Decimal(repr(number)) == exact else exact


decode_json = msgspec.json.Decoder(float_hook=exact_number).decode
"""A published JSON text without rounding."""


def typed_frame(table: Table, columns: Mapping[str, Sequence[object] | Objects]) -> pd.DataFrame:
    """Published columns, of equal length, as a DataFrame. Raises ValueError for a value that its column cannot hold."""
    types = column_types(table)
    return pd.DataFrame({name: _typed(values, types.get(name)) for name, values in columns.items()})


def _typed(values: Sequence[object] | Objects, kind: str | None) -> pd.Series[Any]:
    """One column; kind: its entry of `column_types`, None for a kept one."""
    found, clock = set(map(type, values)), _CLOCK_OF.get(kind or "")
    if not found <= (_SCALARS if kind is None else _TEXTS if kind == "str" or clock else _NUMBERS):
        raise ValueError("a published column holds a value of another type")
    if kind is None or kind == "str":
        return pd.Series(values, dtype=kind or object)
    if clock is not None:
        return _moments(values, clock)
    numbers = {value: _end(Decimal(str(value)), kind) for value in set(values)}
    return pd.Series([numbers[value] for value in values], dtype=kind)


def _moments(texts: Sequence[object] | Objects, clock: Clock) -> pd.Series[Any]:
    """Texts of moments as datetime64; length n. Raises ValueError for other texts."""
    try:
        foreign = any(moment_text(moment_of(text, "", clock), clock) != text for text in set(texts))
    except EventRefused:
        foreign = True
    if foreign:
        raise ValueError("a published column holds a value of another type")
    bare = [str(text).removesuffix("Z") for text in texts]
    moments = pd.Series(np.array(bare, dtype="datetime64[s]" if clock == DATE else "datetime64[us]"))
    return moments.dt.tz_localize("UTC") if clock.zoned else moments


def with_iso_texts(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column of a published table, with moments as the published texts; other columns as they are."""
    if not pd.api.types.is_datetime64_any_dtype(column.dtype):
        return column
    days_only = str(column.dtype) == DATE_TYPE
    texts = {stamp: stamp.isoformat().replace("+00:00", "Z") for stamp in column.unique()}
    return column.map({stamp: text[:10] if days_only else text for stamp, text in texts.items()}).astype(object)


def _end(exact: Decimal, kind: str) -> int | float | Decimal:
    """One end of an interval in its column's type. Raises ValueError if that would round."""
    number: int | float | Decimal = exact
    if kind == "int64":
        number = int(exact)
    elif kind == "float64":
        number = float(exact)
    if Decimal(repr(number) if isinstance(number, float) else number) != exact:
        raise ValueError(f"a published number does not fit {kind}")
    return number
