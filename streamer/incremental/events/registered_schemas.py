"""Messages whose schema a registry keeps: Confluent's wire format, in Avro and in JSON with a JSON Schema.

The rules of this file
----------------------
* Such a message begins with a zero byte and the number of its schema, four bytes, big-endian; what follows is Avro's
  binary form, or JSON. An id means the same schema for ever.
* Nothing is asked for here. Whoever reads messages has the schemas that they name fetched first
  (`streamer.kafka.registry`), and hands over what is known. So what a message says follows from its bytes
  and from what its schema's id means.
* A schema that the registry does not know, or that cannot be read, makes each of its messages a dead letter. What
  cannot be fetched at all is another matter: then nothing is decoded.
* No error here repeats bytes of a message, or of a schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Protocol, runtime_checkable

import msgspec

from streamer.errors import ConfigError, EventRefused
from streamer.incremental.events.avro_types import Schema, parsed_avro
from streamer.incremental.events.connect_schema import ConnectType
from streamer.incremental.events.json_schema_types import json_schema_type

HEAD_BYTES = 5

AVRO, JSON = "AVRO", "JSON"


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as messages are read by it. avro: as fastavro takes it; None: messages are JSON."""

    id: int
    type: ConnectType
    avro: Schema | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class UnusableSchema:
    """Why no message with this id can be read."""

    why: str


Known = Mapping[int, RegisteredSchema | UnusableSchema]


@runtime_checkable
class Schemas(Protocol):
    """Where schemas come from. known: all that were learned so far; it grows."""

    @property
    def known(self) -> Known | None:
        """None: nobody has named a registry."""

    def learn(self, ids: Iterable[int]) -> None:
        """Has every one of these in `known` that there is. Raises RegistryUnreachable."""

    def register(self, subject: str, schema: str) -> int:
        """The id of a schema of Avro's under a subject, which it is put under if need be.

        Raises RegistryUnreachable, ConfigError where the registry does not take it.
        """


class NoSchemas:
    """Of a table whose messages need no registry."""

    known: Known | None = None

    def learn(self, ids: Iterable[int]) -> None:
        """There is nobody to ask; messages that name an id are refused."""

    def register(self, subject: str, schema: str) -> int:
        raise ConfigError(f"subject {subject} needs a schema registry, and SCHEMA_REGISTRY_URL names none")


def schema_from(
    schema_id: int, kind: str, text: str, has_references: bool = False
) -> RegisteredSchema | UnusableSchema:
    """A schema as the registry tells it: kind AVRO, JSON or another."""
    if kind not in (AVRO, JSON):
        return UnusableSchema("is neither of Avro's nor a JSON Schema: set the converter to one of these")
    if has_references:
        return UnusableSchema("refers to other subjects, which is not followed: register it in one piece")
    try:
        said = msgspec.json.decode(text)
        if kind == JSON:
            return RegisteredSchema(schema_id, json_schema_type(said))
        avro, type_ = parsed_avro(said)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return UnusableSchema("cannot be read as what it is registered for")
    return RegisteredSchema(schema_id, type_, avro)


def is_registered(data: bytes | None) -> bool:
    """Whether a message key or value names a schema of a registry."""
    return data is not None and data[:1] == b"\0"


def schema_id_of(data: bytes) -> int:
    """The id in the head of a key or value; raises EventRefused: schema-registry."""
    if len(data) < HEAD_BYTES:
        raise EventRefused("schema-registry", "begins like Confluent's wire format, and ends before the schema's id")
    return int.from_bytes(data[1:HEAD_BYTES], "big")


def schema_ids(messages: Iterable[tuple[bytes | None, bytes | None]]) -> set[int]:
    """All ids that the keys and values of some messages name."""
    heads = {
        data[1:HEAD_BYTES]
        for message in messages
        for data in message
        if data is not None and is_registered(data) and len(data) >= HEAD_BYTES
    }
    return {int.from_bytes(head, "big") for head in heads}


def schema_of(data: bytes, known: Known | None) -> RegisteredSchema:
    """The schema of a key or value; raises EventRefused: schema-registry, unknown-schema."""
    if known is None:
        raise EventRefused("schema-registry", _NO_REGISTRY)
    schema_id = schema_id_of(data)
    schema = known.get(schema_id)
    if schema is None:
        raise EventRefused("unknown-schema", f"schema {schema_id} {_UNKNOWN}")
    if isinstance(schema, UnusableSchema):
        raise EventRefused("unknown-schema", f"schema {schema_id} {schema.why}")
    return schema


def read_avro(data: bytes, schema: RegisteredSchema) -> object:
    """The value behind the head, bytes and counts as they stand; raises EventRefused: malformed-avro."""
    if schema.avro is None:
        raise ValueError("not a schema of Avro's")
    from fastavro import schemaless_reader  # there, or this schema would not be known

    body = BytesIO(data)
    body.seek(HEAD_BYTES)
    try:
        value: object = schemaless_reader(body, schema.avro, None)
        ended = body.tell() == len(data)
    except Exception:  # of any kind, for bytes of any kind, and it may quote them
        ended = False
    if not ended:
        raise EventRefused("malformed-avro", f"is not what schema {schema.id} says: were its bytes written by another?")
    return value


_NO_REGISTRY = (
    "starts with a schema registry's magic byte, and no registry is named: set SCHEMA_REGISTRY_URL, or the producer's "
    "or connector's converter to JSON without a schema registry (org.apache.kafka.connect.json.JsonConverter); then "
    "read the input again from the start"
)
_UNKNOWN = (
    "is not known to the registry: is SCHEMA_REGISTRY_URL the one that the producer writes to? Then read the input "
    "again from the start"
)
