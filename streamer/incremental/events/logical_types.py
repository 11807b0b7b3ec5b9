"""What values mean by their Connect type: values as a converter hands them over -> values that the encoder takes.

The rules of this file
----------------------
* Connect's own logical types and Debezium's are known by name. Numbers become exact Decimals, dates and times ISO text:
  an instant in UTC with a `Z`, a timestamp without time zone without one. Bits are text, most significant first; bytes
  are their base64, and never a number, even where that text looks like one.
* Bytes come as base64 text (JSON) or as bytes (Avro); both are the same here. So are a Decimal as bytes and as a number
  (the converter's `decimal.format`).
* A logical type that is not known is refused as soon as a column of table.yaml has it: what its numbers count, or its
  bytes hold, would be a guess. Nulls are none of these readers' business.
* Refusals name the column and the type, never a value. The name of a type came in with the message, so it is shown only
  where it looks like one.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np

from streamer.errors import EventRefused
from streamer.incremental.events.connect_schema import ConnectType
from streamer.incremental.events.moment_counts import day_text, time_text, timestamp_text
from streamer.table.scalars import DIGITS_MAX

Reader = Callable[[object], object]
"""A value that is not null -> what the encoder takes; raises EventRefused."""

CONNECT, DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium."
DEBEZIUM_DATA, DEBEZIUM_TIME = DEBEZIUM + "data.", DEBEZIUM + "time."

DECIMAL = CONNECT + "Decimal"
VARIABLE_SCALE_DECIMAL = DEBEZIUM_DATA + "VariableScaleDecimal"
ISO_DATE = DEBEZIUM_TIME + "IsoDate"
MILLI, MICRO, NANO = 10**3, 10**6, 10**9

DAYS = frozenset((CONNECT + "Date", DEBEZIUM_TIME + "Date"))
TIMES = {
    CONNECT + "Time": MILLI,
    DEBEZIUM_TIME + "Time": MILLI,
    DEBEZIUM_TIME + "MicroTime": MICRO,
    DEBEZIUM_TIME + "NanoTime": NANO,
}
LOCAL_TIMESTAMPS = {
    DEBEZIUM_TIME + "Timestamp": MILLI,
    DEBEZIUM_TIME + "MicroTimestamp": MICRO,
    DEBEZIUM_TIME + "NanoTimestamp": NANO,
}
AVRO_INSTANTS = {"avro.timestamp-micros": MICRO, "avro.timestamp-nanos": NANO}  # Connect has no name for them
INSTANTS = {CONNECT + "Timestamp": MILLI, **AVRO_INSTANTS}
"""Logical types of counts, with what they count: parts of a second."""

SCALE_MAX = 10_000
DECIMAL_BYTES_MAX = 170  # 400 decimal digits

_AS_TEXT = frozenset(
    [DEBEZIUM_DATA + name for name in ("Uuid", "Enum", "EnumSet", "Json", "Xml", "Ltree", "TsVector")]
    + [DEBEZIUM_TIME + name for name in ("ZonedTime", "IsoTime", "IsoTimestamp", "Interval")]
)
_DURATIONS = frozenset((DEBEZIUM_TIME + "MicroDuration", DEBEZIUM_TIME + "NanoDuration"))
_AS_THEY_COME = frozenset(("int8", "int16", "int32", "int64", "boolean", "string"))
_TYPE_NAME = re.compile(r"[A-Za-z0-9_.$-]{1,120}", re.ASCII)
_ZONED = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?)(\.\d+)?([+-]\d\d(?::?\d\d)?)", re.ASCII)


def reader_of(type_: ConnectType, column: str, *, of_numbers: bool) -> Reader | None:
    """How the values of a column are read that has this type; None where they are taken as they come.

    of_numbers: table.yaml says that the column holds numbers. What the reader refuses: wrong-type, out-of-domain,
    unknown-type.
    """
    name = type_.name
    if name is None:
        return _reader_by_type(type_, column, of_numbers)
    if name == DECIMAL:
        return _decimal(type_, column)
    if name in DAYS:
        return _counted(column, day_text)
    if name in TIMES:
        return _counted(column, lambda count: time_text(count, TIMES[name]))
    if name in LOCAL_TIMESTAMPS:
        return _counted(column, lambda count: timestamp_text(count, LOCAL_TIMESTAMPS[name]))
    if name in INSTANTS:
        return _counted(column, lambda count: _with_z(timestamp_text(count, INSTANTS[name])))
    return _reader_by_name(type_, name, column)


def _reader_by_name(type_: ConnectType, name: str, column: str) -> Reader | None:
    if name == VARIABLE_SCALE_DECIMAL:
        return lambda value: _variable_scale(value, column)
    if name == DEBEZIUM_TIME + "ZonedTimestamp":
        return lambda value: _in_utc(value, column)
    if name == ISO_DATE:
        return lambda value: _text_of(value, column).removesuffix("Z")
    if name == DEBEZIUM_DATA + "Bits":
        return _bits(type_, column)
    if name == DEBEZIUM_TIME + "Year":
        return None
    return (lambda value: _text_of(value, column)) if name in _AS_TEXT else _unknown(type_, column)


def _reader_by_type(type_: ConnectType, column: str, of_numbers: bool) -> Reader | None:
    if type_.type == "bytes":
        return _no_number(column) if of_numbers else lambda value: _base64(_bytes_of(value, column))
    if type_.type in ("float", "double"):
        return lambda value: _exact(value, column, single=type_.type == "float")
    return None if type_.type in _AS_THEY_COME else _unknown(type_, column)


# -- numbers ----------------------------------------------------------------------------------------------------------


def _decimal(type_: ConnectType, column: str) -> Reader:
    said = type_.parameters.get("scale")
    if not isinstance(said, str) or not re.fullmatch(r"-?\d{1,5}", said) or abs(int(said)) > SCALE_MAX:
        return _unknown(type_, column)
    scale = int(said)

    def read(value: object) -> object:
        if type(value) is int or isinstance(value, Decimal):  # the converter's decimal.format=NUMERIC
            return value
        return _scaled(_bytes_of(value, column), scale, column)

    return read


def _variable_scale(value: object, column: str) -> object:
    if not isinstance(value, dict):
        raise _not_as_said(column)
    scale = value.get("scale")
    if type(scale) is not int or abs(scale) > SCALE_MAX:
        raise _not_as_said(column)
    return _scaled(_bytes_of(value.get("value"), column), scale, column)


def _scaled(unscaled: bytes, scale: int, column: str) -> Decimal:
    if not unscaled:
        raise _not_as_said(column)
    if len(unscaled) > DECIMAL_BYTES_MAX:
        raise EventRefused("wrong-type", f"column {column!r}: a number of more than {DIGITS_MAX} digits", column)
    return Decimal(f"{int.from_bytes(unscaled, 'big', signed=True)}E{-scale}")


def _exact(value: object, column: str, single: bool) -> object:
    """A number of JSON is exact already; a float of Python's has the shortest decimal that reads back as it."""
    if type(value) is float and math.isfinite(value):
        return Decimal(str(np.float32(value)) if single else repr(value))
    if type(value) is int or isinstance(value, Decimal):
        return value
    raise EventRefused("wrong-type", f"column {column!r}: not a finite number", column)


def _no_number(column: str) -> Reader:
    def refuse(value: object) -> object:
        raise EventRefused(
            "wrong-type", f"column {column!r}: a number in table.yaml, and bytes in the message's schema", column
        )

    return refuse


# -- texts ------------------------------------------------------------------------------------------------------------


def _counted(column: str, text_of: Callable[[int], str | None]) -> Reader:
    def read(value: object) -> object:
        if type(value) is not int:
            raise _not_as_said(column)
        text = text_of(value)
        if text is None:
            raise EventRefused("out-of-domain", f"column {column!r}: outside the years 1 to 9999", column)
        return text

    return read


def _with_z(text: str | None) -> str | None:
    return None if text is None else text + "Z"


def _in_utc(value: object, column: str) -> str:
    """An ISO text with its offset, in UTC."""
    text = _text_of(value, column)
    if text.endswith("Z"):
        return text
    found = _ZONED.fullmatch(text)
    try:
        moment = datetime.fromisoformat(found[1] + found[3]).astimezone(UTC) if found else None
    except (ValueError, OverflowError):
        moment = None
    if found is None or moment is None:
        raise _not_as_said(column)
    return moment.replace(tzinfo=None).isoformat() + (found[2] or "") + "Z"


def _bits(type_: ConnectType, column: str) -> Reader:
    said = type_.parameters.get("length")
    if not isinstance(said, str) or not re.fullmatch(r"\d{1,9}", said):
        return _unknown(type_, column)
    length = int(said)

    def read(value: object) -> object:
        little_endian = _bytes_of(value, column)
        number = int.from_bytes(little_endian, "little")
        if number.bit_length() > length or len(little_endian) * 8 > length + 7:
            raise _not_as_said(column)
        return f"{number:0{length}b}" if length else ""

    return read


def _text_of(value: object, column: str) -> str:
    if type(value) is not str:
        raise _not_as_said(column)
    return value


def _bytes_of(value: object, column: str) -> bytes:
    """Bytes, or their base64 as a JSON text has them."""
    if type(value) is bytes:
        return value
    try:
        return base64.b64decode(_text_of(value, column), validate=True)
    except (binascii.Error, ValueError):
        raise _not_as_said(column) from None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


# -- refusals ---------------------------------------------------------------------------------------------------------


def _not_as_said(column: str) -> EventRefused:
    return EventRefused("wrong-type", f"column {column!r}: the value is not of the type that its schema says", column)


def _unknown(type_: ConnectType, column: str) -> Reader:
    said = type_.name or type_.type
    shown = repr(said) if _TYPE_NAME.fullmatch(said) else "of the message's schema"
    mend = (
        "set the connector's interval.handling.mode=string"
        if type_.name in _DURATIONS
        else "let the connector send the column as text or as a number (Debezium: a custom converter), or take it out "
        "of table.yaml"
    )

    def refuse(value: object) -> object:
        raise EventRefused("unknown-type", f"column {column!r}: Connect's type {shown} is not known; {mend}", column)

    return refuse
