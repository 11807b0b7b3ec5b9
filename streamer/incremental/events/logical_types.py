"""Values by their Connect type: what a converter hands over -> what the encoder takes.

* A type is that of Connect's schemas, whichever converter wrote it: `JsonConverter` (with `schemas.enable`) sends a
  schema with each payload, a registry keeps it apart. Whether a value may be null, versions, defaults and
  documentation do not matter here.
* Connect's own logical types and Debezium's are known by name. Numbers become exact Decimals, dates and times ISO
  texts: an instant in UTC with a `Z`, a timestamp without time zone without one (Debezium's IsoTimestamp has a Z that
  means nothing: it is taken off). Bits are text, most significant first. Bytes are their base64, and never a number.
* Bytes come as base64 text (JSON) or as bytes (Avro); a Decimal as bytes or as a number (the converter's
  `decimal.format`).
* An unknown logical type is refused if a column of table.yaml has it: its meaning would be a guess. These readers are
  never given a null.
* Refusals name the column and the type, never a value. The type's name came with the message: it is shown only if it
  looks like one.
* A count becomes the one text of the same moment: nothing is rounded, and a fraction has no more digits than it needs.
  Counts of days and of timestamps begin with 1970; those that stand for no end are `infinity`. Times of day may be
  negative, or more than a day: MySQL has such. A text becomes a count only if it is the text of that count, within the
  years 1 to 9999.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial

import numpy as np

from streamer.errors import EventRefused
from streamer.table.codes import DIGITS_MAX, EPOCH, INFINITY, SECONDS_PER_DAY, day_text, time_text, timestamp_text


@dataclass(frozen=True, slots=True)
class ConnectType:
    """The type of a value by Connect's schema."""

    type: str  # int8, int16, int32, int64, float, double, boolean, string, bytes, array, map or struct
    name: str | None = None  # of the logical type
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, ConnectType] = field(default_factory=dict)  # of a struct, by name


def connect_type_of(schema: object) -> ConnectType | None:
    """The type in a schema of `JsonConverter`; None if there is none.

    >>> connect_type_of({"type": "int32", "optional": True, "name": "io.debezium.time.Date", "version": 1}).name
    'io.debezium.time.Date'
    """
    if not isinstance(schema, dict) or not isinstance(schema.get("type"), str):
        return None
    name, parameters = schema.get("name"), schema.get("parameters")
    return ConnectType(
        schema["type"],
        name if isinstance(name, str) else None,
        parameters if isinstance(parameters, dict) else {},
        _fields(schema.get("fields")),
    )


def _fields(schemas: object) -> dict[str, ConnectType]:
    fields = {}
    for schema in schemas if isinstance(schemas, list) else []:
        type_ = connect_type_of(schema)
        if type_ is not None and isinstance(schema.get("field"), str):
            fields[schema["field"]] = type_
    return fields


_TIME = re.compile(r"(-?)(\d{2,}):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?", re.ASCII)


def day_count(text: str) -> int | None:
    """The count of days with this text."""
    try:
        days = date.fromisoformat(text).toordinal() - EPOCH
    except ValueError:
        return None
    return days if day_text(days) == text else None


def time_count(text: str, per_second: int) -> int | None:
    """The count of parts of a second with this text as time of day."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    sign, hours, minutes, seconds, fraction = found.groups()
    parts = int((fraction or "0").ljust(9, "0")) * per_second // 10**9
    count = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * per_second + parts
    count = -count if sign else count
    return count if time_text(count, per_second) == text else None


def timestamp_count(text: str, per_second: int) -> int | None:
    """The count of parts of a second with this text as date and time of day."""
    day, _, clock = text.partition("T")
    days, rest = day_count(day), time_count(clock, per_second)
    if days is None or rest is None:
        return None
    count = days * SECONDS_PER_DAY * per_second + rest
    return count if timestamp_text(count, per_second) == text else None


Reader = Callable[[object], object]
"""A value that is not null -> what the encoder takes; raises EventRefused."""

CONNECT, DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium."
DEBEZIUM_DATA, DEBEZIUM_TIME = DEBEZIUM + "data.", DEBEZIUM + "time."

DECIMAL = CONNECT + "Decimal"
VARIABLE_SCALE_DECIMAL = DEBEZIUM_DATA + "VariableScaleDecimal"
ISO_DATE, ISO_TIMESTAMP = DEBEZIUM_TIME + "IsoDate", DEBEZIUM_TIME + "IsoTimestamp"
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
CONNECT_TIMESTAMP = CONNECT + "Timestamp"
INSTANTS = {CONNECT_TIMESTAMP: MILLI, **AVRO_INSTANTS}
"""Logical types of counts -> parts per second."""

SCALE_MAX = 10_000
DECIMAL_BYTES_MAX = 170  # 400 decimal digits

_DURATIONS = frozenset((DEBEZIUM_TIME + "MicroDuration", DEBEZIUM_TIME + "NanoDuration"))
_AS_THEY_COME = frozenset(("int8", "int16", "int32", "int64", "boolean", "string"))
_TYPE_NAME = re.compile(r"[A-Za-z0-9_.$-]{1,120}", re.ASCII)
_ENDLESS_YEAR = re.compile(r"\+?(-?)\d{6,}-", re.ASCII)
_FAR_YEAR = re.compile(r"[+-]\d", re.ASCII)
_ZONED = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?)(\.\d+)?([+-]\d\d(?::?\d\d)?)", re.ASCII)


def reader_of(type_: ConnectType, column: str, *, of_numbers: bool) -> Reader | None:
    """Reads the values of a column with this type; None: they are taken as they are.

    of_numbers: table.yaml says that the column holds numbers. The reader refuses: wrong-type, out-of-domain,
    unknown-type.
    """
    name = type_.name
    if name is None and type_.type == "bytes":
        return _no_number(column) if of_numbers else lambda value: base64.b64encode(_bytes_of(value, column)).decode()
    if name is None and type_.type in ("float", "double"):
        return lambda value: _exact(value, column, single=type_.type == "float")
    if name is None:
        return None if type_.type in _AS_THEY_COME else _unknown(type_, column)
    if name == DECIMAL:
        return _decimal(type_, column)
    if name == DEBEZIUM_DATA + "Bits":
        return _bits(type_, column)
    if name == DEBEZIUM_TIME + "Year":
        return None
    if name in _TEXTS_OF_COUNTS:
        return _counted(column, _TEXTS_OF_COUNTS[name])
    if name in _VALUES_BY_NAME:
        read = _VALUES_BY_NAME[name]
        return lambda value: read(value, column)
    return _unknown(type_, column)


def _decimal(type_: ConnectType, column: str) -> Reader:
    text = type_.parameters.get("scale")
    if not isinstance(text, str) or not re.fullmatch(r"-?\d{1,5}", text) or abs(int(text)) > SCALE_MAX:
        return _unknown(type_, column)
    scale = int(text)

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
    """A number of JSON is exact; a float becomes the shortest decimal that reads back as the same float."""
    if type(value) is float and math.isfinite(value):
        return Decimal(str(np.float32(value)) if single else repr(value))
    if type(value) is int or isinstance(value, Decimal):
        return value
    detail = "not a finite number; if NaN or Infinity is a null, list it in `na`"
    raise EventRefused("wrong-type", f"column {column!r}: {detail}", column)


def _no_number(column: str) -> Reader:
    def refuse(value: object) -> object:
        raise EventRefused(
            "wrong-type", f"column {column!r}: a number in table.yaml, but bytes in the message's schema", column
        )

    return refuse


def _counted(column: str, text_of: Callable[[int], str]) -> Reader:
    def read(value: object) -> object:
        if type(value) is not int:
            raise _not_as_said(column)
        return text_of(value)

    return read


def _dated(value: object, column: str) -> str:
    """A text of a moment; a year that no calendar has stands for no end."""
    text = _text_of(value, column)
    endless = _ENDLESS_YEAR.match(text)
    return text if endless is None else endless[1] + INFINITY


def _without_z(value: object, column: str) -> str:
    """A local timestamp: its Z means nothing."""
    text = _dated(value, column)
    if not text.endswith(("Z", INFINITY)):
        raise _not_as_said(column)
    return text.removesuffix("Z")


def _in_utc(value: object, column: str) -> str:
    """An ISO text with its offset, in UTC."""
    text = _dated(value, column)
    if text.endswith(("Z", INFINITY)) or _FAR_YEAR.match(text):
        return text
    found = _ZONED.fullmatch(text)
    try:
        moment = datetime.fromisoformat(found[1] + found[3]).astimezone(UTC) if found else None
    except OverflowError:  # in UTC it is outside the years 1 to 9999
        return text
    except ValueError:
        moment = None
    if found is None or moment is None:
        raise _not_as_said(column)
    return moment.replace(tzinfo=None).isoformat() + (found[2] or "") + "Z"


def _bits(type_: ConnectType, column: str) -> Reader:
    text = type_.parameters.get("length")
    if not isinstance(text, str) or not re.fullmatch(r"\d{1,9}", text):
        return _unknown(type_, column)
    length = int(text)

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


_TEXTS_OF_COUNTS: dict[str, Callable[[int], str]] = {
    **dict.fromkeys(DAYS, day_text),
    **{name: partial(time_text, per_second=per_second) for name, per_second in TIMES.items()},
    **{name: partial(timestamp_text, per_second=per_second) for name, per_second in LOCAL_TIMESTAMPS.items()},
    **{name: partial(timestamp_text, per_second=per_second, zone="Z") for name, per_second in INSTANTS.items()},
}
_VALUES_BY_NAME: dict[str, Callable[[object, str], object]] = {
    VARIABLE_SCALE_DECIMAL: _variable_scale,
    DEBEZIUM_TIME + "ZonedTimestamp": _in_utc,
    ISO_TIMESTAMP: _without_z,
    ISO_DATE: lambda value, column: _dated(value, column).removesuffix("Z"),
    **{DEBEZIUM_DATA + n: _text_of for n in ("Uuid", "Enum", "EnumSet", "Json", "Xml", "Ltree", "TsVector")},
    **{DEBEZIUM_TIME + n: _text_of for n in ("ZonedTime", "IsoTime", "Interval")},
}


def _not_as_said(column: str) -> EventRefused:
    return EventRefused("wrong-type", f"column {column!r}: the value is not of the type in its schema", column)


def _unknown(type_: ConnectType, column: str) -> Reader:
    name = type_.name or type_.type
    shown = repr(name) if _TYPE_NAME.fullmatch(name) else "of the message's schema"
    remedy = (
        "set the connector's interval.handling.mode=string"
        if type_.name in _DURATIONS
        else "let the connector send the column as text or as a number (Debezium: a custom converter), or remove it "
        "from table.yaml"
    )

    def refuse(value: object) -> object:
        raise EventRefused("unknown-type", f"column {column!r}: Connect's type {shown} is not known; {remedy}", column)

    return refuse
