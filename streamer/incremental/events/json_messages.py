"""Bytes of a message -> values as JSON has them.

Reading is strict: UTF-8, one value, no NaN, no lone surrogates. Numbers with a point or an exponent become exact
Decimals. Of a member that comes twice the last one counts, as for Kafka Connect's own reader, and Connect's wrapping,
an object of exactly the two members `schema` and `payload`, is taken off. The text of an error says nothing of the
bytes. A message whose schema a registry keeps is read by that (`registered_schemas`). Who asks only how a message was
captured gets it as JSON without its wrapping (`capture_json`), whoever keeps its schema.

A connector writes its schema, thousands of bytes of it, before every payload. So the bytes before the payload of the
last few messages are remembered, with the readers that came of their schemas: where a message begins with the same
bytes, only the rest is read. What is remembered saves time and decides nothing: what cannot be read that way is read as
a whole.
"""

from __future__ import annotations

from decimal import Decimal, DecimalException
from typing import TypeGuard

import msgspec

from streamer.errors import EventRefused
from streamer.incremental.events.column_readers import MessageReaders, TableReaders
from streamer.incremental.events.connect_schema import connect_type_of
from streamer.incremental.events.registered_schemas import (
    HEAD_BYTES,
    Known,
    RegisteredSchema,
    is_registered,
    read_avro,
    schema_of,
)
from streamer.table.schema import Table

SCHEMAS_REMEMBERED = 8

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_json = msgspec.json.Decoder(float_hook=Decimal)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, DecimalException, RecursionError)


def read_json(data: bytes | memoryview) -> object:
    """One JSON value; raises EventRefused: malformed-json.

    >>> read_json(b'{"bmi": 21.50}')
    {'bmi': Decimal('21.50')}
    """
    try:
        value: object = _json.decode(data)
    except _UNREADABLE:
        raise EventRefused("malformed-json", "not one valid JSON value in UTF-8") from None
    return value


def read_registered(data: bytes, schema: RegisteredSchema) -> object:
    """The value of a message whose schema a registry keeps; raises EventRefused: malformed-avro, malformed-json."""
    return read_json(memoryview(data)[HEAD_BYTES:]) if schema.avro is None else read_avro(data, schema)


def unwrapped(value: object) -> object:
    """The value without Kafka Connect's `{"schema", "payload"}` around it.

    >>> unwrapped({"schema": None, "payload": 7}), unwrapped(7)
    (7, 7)
    """
    return value["payload"] if _is_wrapped(value) else value


class _Wrapped(msgspec.Struct, forbid_unknown_fields=True):
    schema: msgspec.Raw
    payload: msgspec.Raw


_wrapped = msgspec.json.Decoder(_Wrapped).decode


def capture_json(data: bytes, schemas: Known | None = None) -> bytes | msgspec.Raw:
    """A message out of Kafka Connect's wrapping, as JSON; where a registry keeps its schema, the telling members alone.

    Nothing is said of bytes that are no JSON. Raises EventRefused where `MessageReader.read` does for registered ones.

    >>> bytes(capture_json(b'{"schema": null, "payload": {"op": "c"}}')), capture_json(b'{"payload": 7}')
    (b'{"op": "c"}', b'{"payload": 7}')
    """
    if not is_registered(data):
        try:
            return _wrapped(data).payload
        except _UNREADABLE:
            return data
    message = read_registered(data, schema_of(data, schemas))
    if not isinstance(message, dict):
        return b""
    return msgspec.json.encode({name: of for name, of in message.items() if name in _OF_CAPTURE or name[:2] == "__"})


_OF_CAPTURE = ("op", "source")


def _is_wrapped(value: object) -> TypeGuard[dict[str, object]]:
    return type(value) is dict and len(value) == 2 and "payload" in value and "schema" in value


class MessageReader:
    """Reads messages of one table, and the types of what they say. schemas: those of a registry."""

    def __init__(self, table: Table, schemas: Known | None = None) -> None:
        self._of_table = TableReaders(table)
        self._schemas = schemas
        self._registered: dict[int, tuple[RegisteredSchema, MessageReaders]] = {}
        self.schemaless = self._of_table.schemaless
        self._known: list[tuple[bytes, MessageReaders]] = []

    def read(self, data: bytes) -> tuple[object, MessageReaders]:
        """The value of a message out of its wrapping, and how its columns are read; raises EventRefused.

        schema-registry, unknown-schema, malformed-avro, malformed-json.
        """
        if is_registered(data):
            schema, readers = self._readers_of(data)
            return read_registered(data, schema), readers
        for head, readers in self._known:
            if data.startswith(head) and data.endswith(b"}"):
                try:
                    return _json.decode(memoryview(data)[len(head) : -1]), readers
                except _UNREADABLE:
                    break
        message = read_json(data)
        if not _is_wrapped(message):
            return message, self.schemaless
        readers = self._of_table.of(connect_type_of(message["schema"]))
        self._remember(data, readers)
        return message["payload"], readers

    def _readers_of(self, data: bytes) -> tuple[RegisteredSchema, MessageReaders]:
        schema = schema_of(data, self._schemas)
        if schema.id not in self._registered:
            self._registered[schema.id] = schema, self._of_table.of(schema.type)
        return self._registered[schema.id]

    def _remember(self, data: bytes, readers: MessageReaders) -> None:
        """The bytes up to the payload, where they are as Connect writes them."""
        head = b'{"schema":' + bytes(_members(data)["schema"]) + b',"payload":'
        if data.startswith(head) and all(head != known for known, _ in self._known):
            self._known = [(head, readers), *self._known[: SCHEMAS_REMEMBERED - 1]]
