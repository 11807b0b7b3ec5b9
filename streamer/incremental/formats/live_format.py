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

from collections.abc import Callable, Collection, Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Protocol

import msgspec

from streamer.errors import LawViolated
from streamer.incremental.events.registered_schemas import Schemas
from streamer.incremental.formats.as_avro import TEXTS_MAX, AvroFormat
from streamer.incremental.topics import LIVE
from streamer.table.codes import decimal_text
from streamer.table.published.groups import value_columns
from streamer.table.published.rows import TextsReader, qi_group_of
from streamer.table.published.schemas import DECIMAL_NAME, envelopes, record_value_columns
from streamer.table.schema import AVRO, CONNECT_JSON, Table


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


class ConnectJsonFormat:
    """Writes and reads the records of one table (a `LiveFormat`)."""

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
        """Does nothing: every record has its schema."""

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
        """Does nothing: every record has its schema."""

    def read_key(self, key: bytes) -> bytes:
        return self.read_value(key)

    def read_value(self, value: bytes) -> bytes:
        try:
            envelope = _ENVELOPE.decode(value)
            decimals, payload = _decimals(bytes(envelope.schema)), bytes(envelope.payload)
            return _shortened(payload, decimals) if decimals else payload
        except (msgspec.MsgspecError, UnicodeDecodeError, ArithmeticError):
            raise LawViolated('a record is not in the format connect-json: {"schema":{..},"payload":{..}}') from None


def _shortened(payload: bytes, decimals: Collection[str]) -> bytes:
    members = [(name, bytes(text)) for name, text in _MEMBERS.decode(payload).items()]
    return b"{%b}" % b",".join(
        [b"%b:%b" % (_name(name), _shortest(text) if name in decimals else text) for name, text in members]
    )


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


def live_format(table: Table, schemas: Schemas) -> LiveFormat:
    """The format that table.yaml names. Raises ConfigError if it needs a registry and there is none."""
    if table.format == AVRO:
        return AvroFormat(table, schemas, LIVE)
    return ConnectJsonFormat(table) if table.format == CONNECT_JSON else PLAIN


def is_written(key: bytes, by: LiveFormat) -> bool:
    """Whether a key in a topic is, to the byte, what the format writes; after `begin`. Raises RegistryUnreachable."""
    by.learn([(key, None)])
    try:
        plain = by.read_key(key)
        qi_group_of(plain)
    except LawViolated:
        return False
    return by.written_key(plain) == key
