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
from typing import Any, Protocol, runtime_checkable

import msgspec

from streamer.errors import ConfigError, EventRefused, needs_extra
from streamer.incremental.events.logical_types import (
    CONNECT,
    DEBEZIUM,
    DEBEZIUM_DATA,
    DEBEZIUM_TIME,
    DECIMAL,
    ConnectType,
)

# Avro schemas -> Connect's types, as Confluent's and Apicurio's AvroConverter write them.
#
# * `connect.name` and `connect.parameters` say a logical type as Connect knows it. Where a producer other than Connect
#   has written the schema, Avro's own `logicalType` does; it means the same for decimals, dates and times.
# * A union with null is its other branch: whether a value may be null decides nothing here. A union of several others
#   has no type of Connect's, nor has a record that holds itself; a column that has one is refused (`logical_types`).
# * Values are read as they stand: bytes, counts. Avro's logical types are taken out of the schema first, which keeps
#   the library from converting by itself.

_OF_PRIMITIVES = {
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
    "enum": "string",
    "fixed": "bytes",
    "array": "array",
    "map": "map",
    "null": "null",
}
_OF_LOGICAL_TYPES = {
    "date": CONNECT + "Date",
    "time-millis": CONNECT + "Time",
    "time-micros": DEBEZIUM_TIME + "MicroTime",
    "timestamp-millis": CONNECT + "Timestamp",
    "local-timestamp-millis": DEBEZIUM_TIME + "Timestamp",
    "local-timestamp-micros": DEBEZIUM_TIME + "MicroTimestamp",
    "local-timestamp-nanos": DEBEZIUM_TIME + "NanoTimestamp",
    "uuid": DEBEZIUM_DATA + "Uuid",
}

UNION = ConnectType("union")

Schema = str | list[Any] | dict[str, Any]


def parsed_avro(schema: Schema) -> tuple[Schema, ConnectType]:
    """A schema as fastavro reads by it, with no conversion of its own, and its type.

    Raises ValueError if it is none, LibraryMissing if what reads Avro is not installed.
    """
    with needs_extra("avro"):
        from fastavro import parse_schema
    named: dict[str, dict[str, object]] = {}
    try:
        parsed = parse_schema(_without_logical_types(schema), named_schemas=named)
        original: dict[str, dict[str, object]] = {}
        typed = parse_schema(schema, named_schemas=original)
        return parsed, _type_of_avro(typed, original, ())
    except Exception as error:  # of many kinds, and quoting the schema
        raise ValueError(f"not a schema of Avro's ({type(error).__name__})") from None


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: said for name, said in schema.items() if name != "logicalType"}
    for name in ("type", "items", "values"):
        if name in plain:
            plain[name] = _without_logical_types(plain[name])
    if isinstance(fields := plain.get("fields"), list):
        plain["fields"] = [_without_logical_types(one) for one in fields]
    return plain


def _type_of_avro(schema: object, named: Mapping[str, object], inside: tuple[str, ...]) -> ConnectType:
    """inside: the records that the schema stands in."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        return _type_of_avro(others[0], named, inside) if len(others) == 1 else UNION
    if isinstance(schema, str):
        if schema in _OF_PRIMITIVES:
            return ConnectType(_OF_PRIMITIVES[schema])
        return UNION if schema in inside else _type_of_avro(named[schema], named, inside)
    if not isinstance(schema, dict):
        raise ValueError("a schema is neither a name nor an object")
    said = schema["type"]
    if not isinstance(said, str) or said not in (*_OF_PRIMITIVES, "record"):
        return _type_of_avro(said, named, inside)
    name, parameters = _named(schema)
    if said != "record":
        return ConnectType(_OF_PRIMITIVES[said], name, parameters)
    within = (*inside, str(schema["name"]))
    fields = {str(one["name"]): _type_of_avro(one["type"], named, within) for one in _fields(schema)}
    return ConnectType("struct", name, parameters, fields)


def _named(schema: Mapping[str, object]) -> tuple[str | None, Mapping[str, str]]:
    name, parameters = schema.get("connect.name"), schema.get("connect.parameters")
    if isinstance(name, str):
        return name, parameters if isinstance(parameters, dict) else {}
    logical = schema.get("logicalType")
    if logical == "decimal":
        return DECIMAL, {"scale": str(schema.get("scale", 0))}
    if not isinstance(logical, str):
        return None, {}
    return _OF_LOGICAL_TYPES.get(logical, f"avro.{logical}"), {}


def _fields(schema: Mapping[str, object]) -> list[dict[str, object]]:
    fields = schema["fields"]
    return [one for one in fields if isinstance(one, dict)] if isinstance(fields, list) else []


# JSON Schemas -> Connect's types, as Confluent's JsonSchemaConverter writes them.
#
# `title` names Connect's logical type, `connect.type` and `connect.parameters` say the rest; another producer's schema
# has JSON's own types alone, which are taken as they are. One branch beside null (`oneOf`, `anyOf`, a list of types)
# counts; references within the schema are followed. What has no type of Connect's (several branches, a reference
# elsewhere) is a `union`, and a column that has it is refused.

_OF_TYPES = {
    "integer": "int64",
    "number": "double",
    "string": "string",
    "boolean": "boolean",
    "array": "array",
    "object": "struct",
}
_OF_CONNECT = frozenset(
    ("int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes", "array", "map", "struct")
)
SCHEMA_DEPTH_MAX = 32


def json_schema_type(schema: object) -> ConnectType:
    """The type of the values of a JSON Schema."""
    return _type_of_json_schema(schema, schema, 0)


def _type_of_json_schema(schema: object, whole: object, depth: int) -> ConnectType:
    if not isinstance(schema, dict) or depth > SCHEMA_DEPTH_MAX:
        return UNION
    if isinstance(reference := schema.get("$ref"), str):
        return _type_of_json_schema(_referred(reference, whole), whole, depth + 1)
    for several in ("oneOf", "anyOf"):
        if isinstance(branches := schema.get(several), list):
            others = [branch for branch in branches if branch != {"type": "null"}]
            return _type_of_json_schema(others[0], whole, depth + 1) if len(others) == 1 else UNION
    type_ = _own_type(schema)
    if type_ is None:
        return UNION
    title, parameters = schema.get("title"), schema.get("connect.parameters")
    name = title if isinstance(title, str) and title.startswith((CONNECT, DEBEZIUM)) else None
    properties = schema.get("properties")
    fields = {
        field: _type_of_json_schema(said, whole, depth + 1)
        for field, said in (properties if isinstance(properties, dict) else {}).items()
    }
    return ConnectType(type_, name, parameters if isinstance(parameters, dict) else {}, fields)


def _own_type(schema: Mapping[str, object]) -> str | None:
    connect, said = schema.get("connect.type"), schema.get("type")
    if isinstance(connect, str) and connect in _OF_CONNECT:
        return connect
    if isinstance(said, list):
        others = [one for one in said if one != "null"]
        said = others[0] if len(others) == 1 else None
    return _OF_TYPES.get(said) if isinstance(said, str) else None


def _referred(reference: str, whole: object) -> object:
    """The part of the schema that `#/definitions/Value` means; None for any other place."""
    if not reference.startswith("#"):
        return None
    found = whole
    for name in filter(None, reference[1:].split("/")):
        found = found.get(name) if isinstance(found, dict) else None
    return found


HEAD_BYTES = 5

AVRO_SCHEMA, JSON_SCHEMA = "AVRO", "JSON"


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

        Raises RegistryUnreachable, ConfigError if the registry does not take it.
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
    if kind not in (AVRO_SCHEMA, JSON_SCHEMA):
        return UnusableSchema("is neither of Avro's nor a JSON Schema: set the converter to one of these")
    if has_references:
        return UnusableSchema("refers to other subjects, which is not followed: register it in one piece")
    try:
        said = msgspec.json.decode(text)
        if kind == JSON_SCHEMA:
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
