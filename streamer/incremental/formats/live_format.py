"""How published records stand in their topic: the last thing that happens to them on the way out, the first on the way
in.

The rules of this file
----------------------
* Within the house a record is plain JSON, whatever `publish.live.format` says: writers, the store, digests, folds and
  laws know nothing of formats. A format is written where records are handed to Kafka, and read where they come from it.
* What is read is, byte for byte, what was written: key and value come out of a format as they went into it.
* Equal keys have equal bytes in every format, since a compacted topic keeps one record per key, by bytes. Which
  partition a record is in does not follow from them: it is the shard's.
* A tombstone is null in every format; its key is written like any other.
* One topic has one format, and under Avro one id of the keys' schema. Other keys are never written beside those that
  are there: nothing would remove these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Protocol

import msgspec

from streamer.errors import LawViolated
from streamer.incremental.events.registered_schemas import Schemas
from streamer.incremental.formats.as_avro import AvroFormat
from streamer.incremental.topics import LIVE
from streamer.table.published.groups import value_columns
from streamer.table.published.rows import TextsReader, qi_group_of
from streamer.table.published.schemas import DECIMAL_NAME, envelopes, record_value_columns
from streamer.table.scalars import decimal_text
from streamer.table.schema import AVRO, CONNECT_JSON, Table

# Records with Kafka Connect's schema in each: `{"schema":{..},"payload":{..}}`, as its JsonConverter reads them.
#
# * The schema is the one that `streamer connect sink` prints for plain records. Its bytes are made once, and put before
#   each payload as they are.
# * A decimal of the schema has all digits of its scale (`20.0`): Connect takes the scale from the number as it is
#   written, and converters behind it refuse one that is not the schema's. Read back, it is the shortest text again.
# * Members that the schema does not name (`values` of a QI group in one message) are in the payload all the same.
# * What is read may have an older schema, of a table.yaml of before: which of its columns are decimals it says itself.

TEXTS_MAX = 1 << 12
"""Ends of intervals, and schemas, that are remembered with what they become."""

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


class ConnectJsonFormat:
    """Writes and reads records of one table. Implements `streamer.incremental.formats.live_format.LiveFormat`."""

    def __init__(self, table: Table) -> None:
        self._before_key, self._before_value = envelopes(table)
        names = value_columns(table)
        scales = {column.name: column.scale for column in record_value_columns(table) if column.scale}
        self._texts = TextsReader(names)
        self._full = [_full_writer(scales[name]) if name in scales else None for name in names]
        written = (msgspec.json.encode(name).replace(b"%", b"%%") for name in names)
        self._payload = b"{%b}" % b",".join(b"%b:%%b" % name for name in written)
        self._has_decimals = bool(scales)

    def begin(self) -> None:
        """Nothing is needed: every record has its schema."""

    def written_key(self, key: bytes) -> bytes:
        return b"%b%b}" % (self._before_key, key)

    def written_value(self, value: bytes) -> bytes:
        return b"%b%b}" % (self._before_value, self._with_all_digits(value) if self._has_decimals else value)

    def _with_all_digits(self, value: bytes) -> bytes:
        texts = self._texts.read(value)
        return self._payload % tuple(
            [full(text) if full else text for full, text in zip(self._full, texts, strict=True)]
        )

    def learn(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Nothing is needed: every record has its schema."""

    def read_key(self, key: bytes) -> bytes:
        return self.read_value(key)

    def read_value(self, value: bytes) -> bytes:
        try:
            envelope = _ENVELOPE.decode(value)
            decimals, payload = _decimals(bytes(envelope.schema)), bytes(envelope.payload)
            return _shortened(payload, decimals) if decimals else payload
        except (msgspec.MsgspecError, UnicodeDecodeError, ArithmeticError):
            raise LawViolated('a record is not of the format connect-json: {"schema":{..},"payload":{..}}') from None


def _shortened(payload: bytes, decimals: Collection[str]) -> bytes:
    """A JSON object with some of its members as shortest decimals."""
    members = [(name, bytes(text)) for name, text in _MEMBERS.decode(payload).items()]
    return b"{%b}" % b",".join(
        [b"%b:%b" % (_name(name), _shortest(text) if name in decimals else text) for name, text in members]
    )


@lru_cache(TEXTS_MAX)
def _name(name: str) -> bytes:
    return msgspec.json.encode(name)


@lru_cache(TEXTS_MAX)
def _decimals(schema: bytes) -> tuple[str, ...]:
    """The columns of a schema that are decimals."""
    return tuple(one.field for one in msgspec.json.decode(schema, type=_Schema).fields if one.name == DECIMAL_NAME)


def _full_writer(scale: int) -> Callable[[bytes], bytes]:
    """A decimal's shortest text -> the one with all digits behind the point."""

    def full(text: bytes) -> bytes:
        whole, _, digits = text.partition(b".")
        return b"%b.%b" % (whole, digits.ljust(scale, b"0"))

    return lru_cache(TEXTS_MAX)(full)


@lru_cache(TEXTS_MAX)
def _shortest(text: bytes) -> bytes:
    return decimal_text(Decimal(text.decode())).encode()


class LiveFormat(Protocol):
    """One format of one table's records; may be shared by the shards of a worker."""

    def begin(self) -> None:
        """Sees that records can be written. Raises RegistryUnreachable, ConfigError."""

    def written_key(self, key: bytes) -> bytes:
        """A record's key as it stands in the topic; only after `begin`."""

    def written_value(self, value: bytes) -> bytes:
        """A record's value as it stands in the topic; only after `begin`."""

    def learn(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Fetches what is needed to read some records. Raises RegistryUnreachable."""

    def read_key(self, key: bytes) -> bytes:
        """A key out of the topic, after `learn`. Raises LawViolated for what is not of this format."""

    def read_value(self, value: bytes) -> bytes:
        """A value out of the topic, after `learn`. Raises LawViolated for what is not of this format."""


class PlainFormat:
    """Plain JSON: records stand in their topic as they are."""

    def begin(self) -> None:
        """Nothing is needed."""

    def written_key(self, key: bytes) -> bytes:
        return key

    def written_value(self, value: bytes) -> bytes:
        return value

    def learn(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Nothing is needed."""

    def read_key(self, key: bytes) -> bytes:
        return key

    def read_value(self, value: bytes) -> bytes:
        return value


PLAIN = PlainFormat()


def live_format(table: Table, schemas: Schemas) -> LiveFormat:
    """The format that table.yaml names; schemas: of a registry. Raises ConfigError if one is needed and missing."""
    if table.format == AVRO:
        return AvroFormat(table, schemas, LIVE)
    return ConnectJsonFormat(table) if table.format == CONNECT_JSON else PLAIN


def is_written(key: bytes, by: LiveFormat) -> bool:
    """Whether a key out of a topic is, to the byte, what a format writes; after `begin`. Raises RegistryUnreachable."""
    by.learn([(key, None)])
    try:
        plain = by.read_key(key)
        qi_group_of(plain)
    except LawViolated:
        return False
    return by.written_key(plain) == key
