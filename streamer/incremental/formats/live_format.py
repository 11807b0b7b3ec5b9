"""The format of published records in their topic: written last on the way to Kafka, read first on the way back.

* Everywhere else a record is plain JSON, whatever `publish.live.format` says: writers, store, digests, folds and laws
  do not know the format.
* Reading gives back, byte for byte, the key and value that were written.
* Equal keys have equal bytes in every format, because a compacted topic keeps one record per key, by bytes. The
  partition of a record does not follow from its key: it is the shard's.
* A tombstone is null in every format; its key is written like any other.
* A topic has one format, and in Avro one id for the schema of its keys. Keys with other bytes are never added: nothing
  would remove the old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from io import BytesIO
from typing import Any, Protocol, TypedDict

import msgspec

from streamer.errors import ConfigError, EventRefused, LawViolated, needs_extra
from streamer.incremental.events.logical_types import ConnectType
from streamer.incremental.events.registered_schemas import Schemas, read_avro, schema_ids, schema_of
from streamer.incremental.topics import LIVE, topic_name
from streamer.table.codes import decimal_text
from streamer.table.published import schemas as published
from streamer.table.published.groups import COUNT, VALUES, value_columns
from streamer.table.published.rows import TextsReader, qi_group_of
from streamer.table.published.schemas import (
    BOOLEAN,
    DECIMAL,
    DECIMAL_NAME,
    FLOAT,
    INTEGER,
    TEXT,
    PublishedColumn,
    envelopes,
    record_value_columns,
)
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, Table

TEXTS_MAX = 1 << 12
"""Texts of a column that are cached with their bytes: rows of a QI group share most of theirs."""


class LiveFormat(Protocol):
    """One format of one table's records; may be shared by the shards of a worker."""

    def begin(self) -> None:
        """Makes records writable. Raises RegistryUnreachable, ConfigError."""

    def written_key(self, key: bytes) -> bytes:
        """A record's key in the topic; only after `begin`."""

    def written_value(self, value: bytes) -> bytes:
        """A record's value in the topic; only after `begin`."""

    def learn(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Fetches what reading these records needs. Raises RegistryUnreachable."""

    def read_key(self, key: bytes) -> bytes:
        """A key out of the topic, after `learn`. Raises LawViolated if it is not in this format."""

    def read_value(self, value: bytes) -> bytes:
        """A value out of the topic, after `learn`. Raises LawViolated if it is not in this format."""


class PlainFormat:
    """Plain JSON: records are in their topic as they are."""

    def begin(self) -> None:
        """Does nothing."""

    def written_key(self, key: bytes) -> bytes:
        return key

    def written_value(self, value: bytes) -> bytes:
        return value

    def learn(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Does nothing."""

    def read_key(self, key: bytes) -> bytes:
        return key

    def read_value(self, value: bytes) -> bytes:
        return value


PLAIN = PlainFormat()


# -- Kafka Connect's schema in each record: `{"schema":{..},"payload":{..}}`, as its JsonConverter reads them
#
# * The schema is the one that `streamer connect sink` prints for plain records. Its bytes are made once.
# * Connect takes a decimal's scale from the number as it is written, and converters refuse one that is not the
#   schema's. So a decimal is written with all digits of its scale (`20.0`), and is the shortest text again when it is
#   read.
# * Members that the schema does not name (`values` of a QI group in one message) are in the payload all the same.
# * A record that is read may have an older schema: it says itself which columns are decimals.

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Field(msgspec.Struct):
    field: str
    name: str | None = None


class _Schema(msgspec.Struct):
    fields: list[_Field]


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    schema: msgspec.Raw
    payload: msgspec.Raw


_ENVELOPE = msgspec.json.Decoder(_Envelope)


class ConnectJsonFormat(PlainFormat):
    """Writes and reads the records of one table."""

    def __init__(self, table: Table) -> None:
        self._before_key, self._before_value = envelopes(table)
        names = value_columns(table)
        scales = {column.name: column.scale for column in record_value_columns(table) if column.scale}
        self._texts = TextsReader(names)
        self._full = [_full_writer(scales[name]) if name in scales else None for name in names]
        written = (msgspec.json.encode(name).replace(b"%", b"%%") for name in names)
        self._payload = b"{%b}" % b",".join(b"%b:%%b" % name for name in written)
        self._has_decimals = bool(scales)

    def written_key(self, key: bytes) -> bytes:
        return b"%b%b}" % (self._before_key, key)

    def written_value(self, value: bytes) -> bytes:
        return b"%b%b}" % (self._before_value, self._with_all_digits(value) if self._has_decimals else value)

    def _with_all_digits(self, value: bytes) -> bytes:
        texts = self._texts.read(value)
        return self._payload % tuple(
            [full(text) if full else text for full, text in zip(self._full, texts, strict=True)]
        )

    def read_key(self, key: bytes) -> bytes:
        return self.read_value(key)

    def read_value(self, value: bytes) -> bytes:
        try:
            envelope = _ENVELOPE.decode(value)
            decimals, payload = _decimals(bytes(envelope.schema)), bytes(envelope.payload)
            if not decimals:
                return payload
            members = [(name, bytes(text)) for name, text in _MEMBERS.decode(payload).items()]
            shortest = ((_name(name), _shortest(text) if name in decimals else text) for name, text in members)
            return b"{%b}" % b",".join([b"%b:%b" % member for member in shortest])
        except (msgspec.MsgspecError, UnicodeDecodeError, ArithmeticError):
            raise LawViolated('a record is not in the format connect-json: {"schema":{..},"payload":{..}}') from None


@lru_cache(TEXTS_MAX)
def _name(name: str) -> bytes:
    return msgspec.json.encode(name)


@lru_cache(TEXTS_MAX)
def _decimals(schema: bytes) -> tuple[str, ...]:
    return tuple(one.field for one in msgspec.json.decode(schema, type=_Schema).fields if one.name == DECIMAL_NAME)


def _full_writer(scale: int) -> Callable[[bytes], bytes]:
    """A decimal's shortest text -> the text with `scale` digits after the point."""

    def full(text: bytes) -> bytes:
        whole, _, digits = text.partition(b".")
        return b"%b.%b" % (whole, digits.ljust(scale, b"0"))

    return lru_cache(TEXTS_MAX)(full)


@lru_cache(TEXTS_MAX)
def _shortest(text: bytes) -> bytes:
    return decimal_text(Decimal(text.decode())).encode()


# -- Avro, in Confluent's wire format: a zero byte, the schema's id, the value
#
# * The schemas follow from table.yaml (`streamer.table.published.schemas`). They are registered as `<topic>-key` and
#   `<topic>-value` before anything is written. After that, writing needs no registry.
# * A record that is read may have another id: of an earlier table.yaml, or of a copy of the registry. It is read by the
#   schema with its own id, never by the one that is expected.
# * An Avro record is its columns' bytes one after the other, so it is written column by column.
# * Decimals are the shortest text on both sides, binary numbers the shortest text that gives them back.

_TYPES: Mapping[str, Any] = {TEXT: str, INTEGER: int, DECIMAL: Decimal, FLOAT: float, BOOLEAN: bool}

Written = Callable[[bytes], bytes]


class AvroFormat:
    """Writes and reads the records of one table (a `LiveFormat`). Raises ConfigError if there is no registry."""

    def __init__(self, table: Table, schemas: Schemas) -> None:
        if schemas.known is None:
            raise ConfigError(
                "publish.live.format: avro needs a schema registry: set SCHEMA_REGISTRY_URL, or publish `format: json`"
            )
        self._schemas = schemas
        self._topic = topic_name(table.name, LIVE)
        self._key_schema, self._value_schema = published.avro_key_schema(table), published.avro_value_schema(table)
        self._key_types = _types(published.record_key_columns(table))
        self._value_types = _types(record_value_columns(table))
        if table.form == GROUPS:
            counted = [*map(published.kept_column, table.kept), PublishedColumn(COUNT, INTEGER)]
            self._value_types[VALUES] = list[TypedDict("Counted", _types(counted))]  # type: ignore[misc, operator]
        self.written_key: Written = _not_begun
        self.written_value: Written = _not_begun

    def begin(self) -> None:
        """Registers the schemas. Raises RegistryUnreachable; ConfigError if the registry refuses them."""
        key_schema, value_schema = (msgspec.json.encode(one).decode() for one in (self._key_schema, self._value_schema))
        key_id = self._schemas.register(f"{self._topic}-key", key_schema)
        value_id = self._schemas.register(f"{self._topic}-value", value_schema)
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


def live_format(table: Table, schemas: Schemas) -> LiveFormat:
    """The format that table.yaml names. Raises ConfigError if it needs a registry and there is none."""
    if table.format == AVRO:
        return AvroFormat(table, schemas)
    return ConnectJsonFormat(table) if table.format == CONNECT_JSON else PLAIN


def is_written(key: bytes, by: LiveFormat) -> bool:
    """True if a key in a topic is, to the byte, as the format writes it; after `begin`. Raises RegistryUnreachable."""
    by.learn([(key, None)])
    try:
        plain = by.read_key(key)
        qi_group_of(plain)
    except LawViolated:
        return False
    return by.written_key(plain) == key
