"""Messages whose schema is in a registry: Confluent's wire format, in Avro and in JSON with a JSON Schema.

* Such a message begins with a zero byte and the id of its schema: four bytes, big-endian. Avro's binary form follows,
  or JSON. An id means the same schema for ever.
* This module asks no server. The caller fetches the schemas that its messages name (`streamer.kafka.registry`) and
  hands over those that are known. So what a message says follows from its bytes and its schema.
* If the registry does not know a schema, or it cannot be read, each of its messages is a dead letter. If a schema
  cannot be fetched at all, nothing is decoded.
* No error repeats bytes of a message or of a schema.
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

# -- Avro schemas -> Connect's types, as Confluent's and Apicurio's AvroConverter write them
#
# * `connect.name` and `connect.parameters` name a logical type of Connect. A producer other than Connect uses Avro's
#   `logicalType`, which means the same for decimals, dates and times.
# * A union with null is its other branch. A union of several others has no type of Connect, nor has a record that holds
#   itself: `logical_types` refuses a column that has one.
# * Values are read as they are: bytes, counts. Avro's logical types are removed from the schema first, so that fastavro
#   converts nothing.

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
    """A schema for fastavro, which then converts nothing by itself, and its type.

    Raises ValueError if it is not a schema, LibraryMissing if fastavro is not installed.
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
        raise ValueError(f"not an Avro schema ({type(error).__name__})") from None


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: value for name, value in schema.items() if name != "logicalType"}
    for name in ("type", "items", "values"):
        if name in plain:
            plain[name] = _without_logical_types(plain[name])
    if isinstance(fields := plain.get("fields"), list):
        plain["fields"] = [_without_logical_types(one) for one in fields]
    return plain


def _type_of_avro(schema: object, named: Mapping[str, object], inside: tuple[str, ...]) -> ConnectType:
    """inside: the records around the schema."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        return _type_of_avro(others[0], named, inside) if len(others) == 1 else UNION
    if isinstance(schema, str):
        if schema in _OF_PRIMITIVES:
            return ConnectType(_OF_PRIMITIVES[schema])
        return UNION if schema in inside else _type_of_avro(named[schema], named, inside)
    if not isinstance(schema, dict):
        raise ValueError("a schema is neither a name nor an object")
    kind = schema["type"]
    if not isinstance(kind, str) or kind not in (*_OF_PRIMITIVES, "record"):
        return _type_of_avro(kind, named, inside)
    name, parameters = _named(schema)
    if kind != "record":
        return ConnectType(_OF_PRIMITIVES[kind], name, parameters)
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


# -- JSON Schemas -> Connect's types, as Confluent's JsonSchemaConverter writes them
#
# `title` names Connect's logical type, `connect.type` and `connect.parameters` say the rest. Another producer's
# schema has JSON's own types alone, which are taken as they are. One branch besides null counts (`oneOf`, `anyOf`, a
# list of types), and references within the schema are followed. What has no type of Connect (several branches, a
# reference elsewhere) is a `union`, and a column that has it is refused.

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


def json_schema_type(schema: object, whole: object = None, depth: int = 0) -> ConnectType:
    """The type of the values of a JSON Schema; whole: the schema around it, to which references lead."""
    whole = schema if whole is None else whole
    if not isinstance(schema, dict) or depth > SCHEMA_DEPTH_MAX:
        return UNION
    if isinstance(reference := schema.get("$ref"), str):
        return json_schema_type(_referred(reference, whole), whole, depth + 1)
    for several in ("oneOf", "anyOf"):
        if isinstance(branches := schema.get(several), list):
            others = [branch for branch in branches if branch != {"type": "null"}]
            return json_schema_type(others[0], whole, depth + 1) if len(others) == 1 else UNION
    type_ = _own_type(schema)
    if type_ is None:
        return UNION
    title, parameters = schema.get("title"), schema.get("connect.parameters")
    name = title if isinstance(title, str) and title.startswith((CONNECT, DEBEZIUM)) else None
    properties = schema.get("properties")
    fields = {
        field: json_schema_type(inner, whole, depth + 1)
        for field, inner in (properties if isinstance(properties, dict) else {}).items()
    }
    return ConnectType(type_, name, parameters if isinstance(parameters, dict) else {}, fields)


def _own_type(schema: Mapping[str, object]) -> str | None:
    connect, type_ = schema.get("connect.type"), schema.get("type")
    if isinstance(connect, str) and connect in _OF_CONNECT:
        return connect
    if isinstance(type_, list):
        others = [one for one in type_ if one != "null"]
        type_ = others[0] if len(others) == 1 else None
    return _OF_TYPES.get(type_) if isinstance(type_, str) else None


def _referred(reference: str, whole: object) -> object:
    """The part of the schema at `#/definitions/Value`; None for a reference elsewhere."""
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
    """A schema by which messages are read."""

    id: int
    type: ConnectType
    avro: Schema | None = field(default=None, repr=False)  # for fastavro; None: messages are JSON


@dataclass(frozen=True, slots=True)
class UnusableSchema:
    """A schema by which no message can be read, and why."""

    why: str


Known = Mapping[int, RegisteredSchema | UnusableSchema]


@runtime_checkable
class Schemas(Protocol):
    """The source of schemas."""

    @property
    def known(self) -> Known | None:
        """All fetched schemas; None: there is no registry."""

    def learn(self, ids: Iterable[int]) -> None:
        """Fetches those of these ids that are not in `known`. Raises RegistryUnreachable."""

    def register(self, subject: str, schema: str) -> int:
        """The id of an Avro schema under a subject, registered if need be.

        Raises RegistryUnreachable, ConfigError if the registry refuses it.
        """


class NoSchemas:
    """For a table without a registry."""

    known: Known | None = None

    def learn(self, ids: Iterable[int]) -> None:
        """Fetches nothing; messages that name an id are refused."""

    def register(self, subject: str, schema: str) -> int:
        raise ConfigError(f"subject {subject} needs a schema registry, and SCHEMA_REGISTRY_URL names none")


def schema_from(
    schema_id: int, kind: str, text: str, has_references: bool = False
) -> RegisteredSchema | UnusableSchema:
    """A schema as the registry returns it. kind: AVRO, JSON or another."""
    if kind not in (AVRO_SCHEMA, JSON_SCHEMA):
        return UnusableSchema("is neither an Avro schema nor a JSON Schema: use a converter for one of these")
    if has_references:
        return UnusableSchema("refers to other subjects, and these are not read: register it in one piece")
    try:
        document = msgspec.json.decode(text)
        if kind == JSON_SCHEMA:
            return RegisteredSchema(schema_id, json_schema_type(document))
        avro, type_ = parsed_avro(document)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return UnusableSchema("cannot be read as the type of schema that it is registered as")
    return RegisteredSchema(schema_id, type_, avro)


def is_registered(data: bytes | None) -> bool:
    """True if a message key or value names a schema of a registry."""
    return data is not None and data[:1] == b"\0"


def schema_ids(messages: Iterable[tuple[bytes | None, bytes | None]]) -> set[int]:
    """The ids in the keys and values of some messages."""
    heads = {data[:HEAD_BYTES] for message in messages for data in message if data}
    return {int.from_bytes(head[1:], "big") for head in heads if is_registered(head) and len(head) == HEAD_BYTES}


def schema_of(data: bytes, known: Known | None) -> RegisteredSchema:
    """The schema of a key or value; raises EventRefused: schema-registry, unknown-schema."""
    if known is None:
        raise EventRefused("schema-registry", _NO_REGISTRY)
    if len(data) < HEAD_BYTES:
        raise EventRefused("schema-registry", "begins like Confluent's wire format, but ends before the schema's id")
    schema_id = int.from_bytes(data[1:HEAD_BYTES], "big")
    schema = known.get(schema_id)
    if schema is None:
        raise EventRefused("unknown-schema", f"schema {schema_id} {_UNKNOWN}")
    if isinstance(schema, UnusableSchema):
        raise EventRefused("unknown-schema", f"schema {schema_id} {schema.why}")
    return schema


def read_avro(data: bytes, schema: RegisteredSchema) -> object:
    """The value after the head, bytes and counts as they are; raises EventRefused: malformed-avro."""
    if schema.avro is None:
        raise ValueError("not an Avro schema")
    from fastavro import schemaless_reader  # installed, or this schema would not be known

    body = BytesIO(data)
    body.seek(HEAD_BYTES)
    try:
        value: object = schemaless_reader(body, schema.avro, None)
        ended = body.tell() == len(data)
    except Exception:  # of any class, and it may quote the bytes
        ended = False
    if not ended:
        raise EventRefused("malformed-avro", f"does not fit schema {schema.id}: was it written by another schema?")
    return value


_NO_REGISTRY = (
    "starts with a schema registry's magic byte, but no registry is set: set SCHEMA_REGISTRY_URL, or the producer's "
    "or connector's converter to JSON without a schema registry (org.apache.kafka.connect.json.JsonConverter); then "
    "read the input again from the start"
)
_UNKNOWN = (
    "is not known to the registry: let SCHEMA_REGISTRY_URL be the one that the producer writes to, and read the input "
    "again from the start"
)
