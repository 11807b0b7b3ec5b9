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

from collections.abc import Iterable
from typing import Protocol

from streamer.errors import LawViolated
from streamer.incremental.events.registered_schemas import Schemas
from streamer.incremental.formats.as_avro import AvroFormat
from streamer.incremental.formats.as_connect_json import ConnectJsonFormat
from streamer.incremental.topics import LIVE
from streamer.table.published import qi_group_of
from streamer.table.schema import AVRO, CONNECT_JSON, Table


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
    """The format that table.yaml names; schemas: of a registry. Raises ConfigError where one is needed and missing."""
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
