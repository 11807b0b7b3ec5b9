"""Published records in Avro, in Confluent's wire format: a zero byte, the schema's id, the value.

* The schemas follow from table.yaml (`streamer.table.published.schemas`). They are registered as `<topic>-key` and
  `<topic>-value` before anything is written. After that, writing needs no registry.
* A record that is read may have another id: of an earlier table.yaml, or of a copy of the registry. It is read by the
  schema with its own id, never by the one that is expected.
* An Avro record is its columns' bytes one after the other, so it is written column by column.
* Decimals are the shortest text on both sides, binary numbers the shortest text that gives them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from io import BytesIO
from typing import Any, TypedDict

import msgspec

from streamer.errors import ConfigError, EventRefused, LawViolated, needs_extra
from streamer.incremental.events.logical_types import ConnectType
from streamer.incremental.events.registered_schemas import Schemas, read_avro, schema_ids, schema_of
from streamer.incremental.topics import topic_name
from streamer.table.codes import decimal_text
from streamer.table.published import schemas as published
from streamer.table.published.groups import COUNT, VALUES
from streamer.table.published.rows import TextsReader
from streamer.table.published.schemas import BOOLEAN, DECIMAL, FLOAT, INTEGER, TEXT, PublishedColumn
from streamer.table.schema import GROUPS, Table

_TYPES: Mapping[str, Any] = {TEXT: str, INTEGER: int, DECIMAL: Decimal, FLOAT: float, BOOLEAN: bool}

TEXTS_MAX = 1 << 12
"""How many texts of a column are cached with their bytes: rows of a QI group share most of theirs."""

Written = Callable[[bytes], bytes]


class AvroFormat:
    """Writes and reads the records of one topic (a `LiveFormat`). kind: of the topic.

    Raises ConfigError if there is no registry.
    """

    def __init__(self, table: Table, schemas: Schemas, kind: str) -> None:
        if schemas.known is None:
            raise ConfigError(
                "publish.live.format: avro needs a schema registry: set SCHEMA_REGISTRY_URL, or publish `format: json`"
            )
        self._schemas = schemas
        self._topic = topic_name(table.name, kind)
        self._key_schema, self._value_schema = published.avro_key_schema(table), published.avro_value_schema(table)
        self._key_types, self._value_types = (
            _types(published.record_key_columns(table)),
            _types(published.record_value_columns(table)),
        )
        if table.form == GROUPS:
            counted = [*map(published.kept_column, table.kept), PublishedColumn(COUNT, INTEGER)]
            self._value_types[VALUES] = list[TypedDict("Counted", _types(counted))]  # type: ignore[misc, operator]
        self.written_key: Written = _not_begun
        self.written_value: Written = _not_begun

    def begin(self) -> None:
        """Registers the schemas. Raises RegistryUnreachable; ConfigError if the registry refuses them."""
        key_id = self._schemas.register(f"{self._topic}-key", _text(self._key_schema))
        value_id = self._schemas.register(f"{self._topic}-value", _text(self._value_schema))
        self.written_key = _writer(key_id, self._key_schema, self._key_types)
        self.written_value = _writer(value_id, self._value_schema, self._value_types)

    def learn(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        self._schemas.learn(schema_ids(records))

    def read_key(self, key: bytes) -> bytes:
        return self.read_value(key)

    def read_value(self, value: bytes) -> bytes:
        if value[:1] != b"\0":
            raise LawViolated("a record is not in the format avro: it does not begin with a schema's id")
        try:
            schema = schema_of(value, self._schemas.known)
            return _json(read_avro(value, schema), schema.type)
        except EventRefused as refused:
            raise LawViolated(f"a record cannot be read: {refused.detail}") from None
        except (KeyError, TypeError, ValueError, ArithmeticError):
            raise LawViolated("a record has a schema that streamer does not write") from None


def _not_begun(text: bytes) -> bytes:
    raise RuntimeError("the schemas are not registered: call begin first")


def _text(schema: dict[str, Any]) -> str:
    return msgspec.json.encode(schema).decode()


def _writer(schema_id: int, schema: dict[str, Any], types: Mapping[str, Any]) -> Written:
    """JSON of a record's key or value -> its bytes on the wire. types: what the members are decoded into."""
    head = b"\0" + schema_id.to_bytes(4, "big")
    texts = TextsReader([field["name"] for field in schema["fields"]])
    writers = [_field_writer(field["type"], types[field["name"]]) for field in schema["fields"]]

    def written(text: bytes) -> bytes:
        return head + b"".join([writer(one) for writer, one in zip(writers, texts.read(text), strict=True)])

    return written


def _field_writer(type_: Any, member: Any) -> Written:
    """JSON of one member -> its part of the record."""
    with needs_extra("avro"):
        from fastavro import parse_schema, schemaless_writer
    parsed, decode = parse_schema(type_), msgspec.json.Decoder(member).decode

    def written(text: bytes) -> bytes:
        out = BytesIO()
        schemaless_writer(out, parsed, decode(text))
        return out.getvalue()

    return lru_cache(TEXTS_MAX)(written)


def _types(columns: Iterable[PublishedColumn]) -> dict[str, Any]:
    """The types that JSON is decoded into: numbers exact, and of the type that fastavro expects."""
    return {one.name: _TYPES[one.type] | None if one.nullable else _TYPES[one.type] for one in columns}


def _json(value: object, type_: ConnectType | None = None) -> bytes:
    """The canonical JSON that a value was written from; raises TypeError for a type that no published record has."""
    if value is None or isinstance(value, str | bool):
        return msgspec.json.encode(value)
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, float):
        return decimal_text(Decimal(repr(value))).encode()
    if isinstance(value, bytes):
        return _decimal(value, type_)
    if isinstance(value, list):
        return b"[%b]" % b",".join(map(_json, value))
    if isinstance(value, dict):
        types = {} if type_ is None else type_.fields
        pairs = [(msgspec.json.encode(name), _json(one, types.get(name))) for name, one in value.items()]
        return b"{%b}" % b",".join([b"%b:%b" % pair for pair in pairs])
    raise TypeError(f"{type(value).__name__} is not a type of a published record")


def _decimal(unscaled: bytes, type_: ConnectType | None) -> bytes:
    if type_ is None:
        raise TypeError("bytes without a scale")
    number = Decimal(int.from_bytes(unscaled, "big", signed=True))
    return decimal_text(number.scaleb(-int(type_.parameters["scale"]))).encode()
