"""JSON Schemas -> Connect's types, as Confluent's JsonSchemaConverter writes them.

`title` names Connect's logical type, `connect.type` and `connect.parameters` say the rest; another producer's schema
has JSON's own types alone, which are taken as they are. One branch beside null (`oneOf`, `anyOf`, a list of types)
counts; references within the schema are followed. What has no type of Connect's (several branches, a reference
elsewhere) is a `union`, and a column that has it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamer.incremental.events.avro_types import UNION
from streamer.incremental.events.connect_schema import ConnectType
from streamer.incremental.events.logical_types import CONNECT, DEBEZIUM

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
DEPTH_MAX = 32


def json_schema_type(schema: object) -> ConnectType:
    """The type of the values of a JSON Schema."""
    return _type_of(schema, schema, 0)


def _type_of(schema: object, whole: object, depth: int) -> ConnectType:
    if not isinstance(schema, dict) or depth > DEPTH_MAX:
        return UNION
    if isinstance(reference := schema.get("$ref"), str):
        return _type_of(_referred(reference, whole), whole, depth + 1)
    for several in ("oneOf", "anyOf"):
        if isinstance(branches := schema.get(several), list):
            others = [branch for branch in branches if branch != {"type": "null"}]
            return _type_of(others[0], whole, depth + 1) if len(others) == 1 else UNION
    type_ = _own_type(schema)
    if type_ is None:
        return UNION
    title, parameters = schema.get("title"), schema.get("connect.parameters")
    name = title if isinstance(title, str) and title.startswith((CONNECT, DEBEZIUM)) else None
    properties = schema.get("properties")
    fields = {
        field: _type_of(said, whole, depth + 1)
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
