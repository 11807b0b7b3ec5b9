"""Parts of a message key that have a logical type: the text of a source key -> the JSON that Connect's converter has.

A row's message keys must follow from its source key alone (`streamer.incremental.events.key_form`), so what
`logical_types` reads out of a key is written back here, byte for byte. A *kind* names the way: `days`, `decimal(2)`,
`instant(1000)`. Where no kind is named, the part stands in the key as the number or the text that the source key has. A
VariableScaleDecimal has none: 1.5 and 1.50 are one source key, and two message keys.
"""

from __future__ import annotations

import base64
import re
from decimal import Decimal

from streamer.incremental.events.connect_schema import ConnectType
from streamer.incremental.events.logical_types import DAYS, DECIMAL, INSTANTS, ISO_DATE, LOCAL_TIMESTAMPS, TIMES
from streamer.incremental.events.moment_counts import day_count, time_count, timestamp_count
from streamer.table.scalars import read_decimal

_KIND = re.compile(r"(decimal|time|local|instant)\((-?\d+)\)")


def kind_of(type_: ConnectType) -> str | None:
    """How a part of this type stands in a message key; None where it stands there as the source key has it.

    >>> kind_of(ConnectType("bytes", DECIMAL, {"scale": "2"})), kind_of(ConnectType("int32"))
    ('decimal(2)', None)
    """
    name = type_.name or ""
    if name == DECIMAL:
        return f"decimal({type_.parameters.get('scale')})"
    if name in DAYS:
        return "days"
    if name == ISO_DATE:
        return "iso-date"
    for way, per_second in (("time", TIMES), ("local", LOCAL_TIMESTAMPS), ("instant", INSTANTS)):
        if name in per_second:
            return f"{way}({per_second[name]})"
    return None


def written_part(kind: str, text: str) -> bytes | None:
    """A part of a source key as JSON; None where no value of this kind has that text.

    >>> written_part("decimal(2)", "-26588.24"), written_part("days", "1980-01-31"), written_part("days", "today")
    (b'"1234"', b'3682', None)
    """
    if kind == "days":
        return _number(day_count(text))
    if kind == "iso-date":
        return None if day_count(text) is None else f'"{text}Z"'.encode()
    found = _KIND.fullmatch(kind)
    if found is None:
        raise ValueError(f"{kind} is no kind of a message key's part")
    way, number = found[1], int(found[2])
    if way == "decimal":
        return _decimal(text, number)
    if way == "time":
        return _number(time_count(text, number))
    if way == "instant":
        return _number(timestamp_count(text[:-1], number)) if text.endswith("Z") else None
    return _number(timestamp_count(text, number))


def _number(count: int | None) -> bytes | None:
    return None if count is None else b"%d" % count


def _decimal(text: str, scale: int) -> bytes | None:
    number = read_decimal(text)
    if number is None:
        return None
    sign, digits, exponent = number.as_tuple()
    shift = int(exponent) + scale
    unscaled = int(Decimal((sign, digits, 0)))
    if shift < 0:
        unscaled, rest = divmod(unscaled, 10**-shift)
        if rest:
            return None
    else:
        unscaled *= 10**shift
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return b'"%b"' % base64.b64encode(unscaled.to_bytes(bits // 8 + 1, "big", signed=True))
