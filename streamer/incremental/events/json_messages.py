"""Bytes of a message -> JSON values.

Reading is strict: UTF-8, one value, no NaN, no lone surrogates. Numbers with a point or an exponent become exact
Decimals. Of a member that comes twice the last one counts, as for Kafka Connect's own reader, and Connect's wrapping,
an object of exactly the two members `schema` and `payload`, is taken off. The text of an error says nothing of the
bytes.
"""

from __future__ import annotations

from decimal import Decimal, DecimalException

import msgspec

from streamer.errors import EventRefused

SCHEMA_REGISTRY_MAGIC = 0

_json = msgspec.json.Decoder(float_hook=Decimal)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, DecimalException, RecursionError)


def read_json(data: bytes) -> object:
    """One JSON value; raises EventRefused: schema-registry, malformed-json.

    >>> read_json(b'{"bmi": 21.50}')
    {'bmi': Decimal('21.50')}
    """
    try:
        value: object = _json.decode(data)
    except _UNREADABLE:
        raise _unreadable(data) from None
    return value


def _unreadable(data: bytes) -> EventRefused:
    if data and data[0] == SCHEMA_REGISTRY_MAGIC:
        return EventRefused(
            "schema-registry",
            "starts with a schema registry's magic byte; set the producer's or connector's converter to JSON without a "
            "schema registry (org.apache.kafka.connect.json.JsonConverter)",
        )
    return EventRefused("malformed-json", "not one valid JSON value in UTF-8")


def unwrapped(value: object) -> object:
    """The value without Kafka Connect's `{"schema", "payload"}` around it.

    >>> unwrapped({"schema": None, "payload": 7}), unwrapped(7)
    (7, 7)
    """
    if type(value) is dict and len(value) == 2 and "payload" in value and "schema" in value:
        payload: object = value["payload"]
        return payload
    return value
