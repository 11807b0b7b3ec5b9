"""Avro schemas -> Connect's types, as Confluent's and Apicurio's AvroConverter write them.

The rules of this file
----------------------
* `connect.name` and `connect.parameters` say a logical type as Connect knows it. Where a producer other than Connect
  has written the schema, Avro's own `logicalType` does; it means the same for decimals, dates and times.
* A union with null is its other branch: whether a value may be null decides nothing here. A union of several others has
  no type of Connect's, nor has a record that holds itself; a column that has one is refused (`logical_types`).
* Values are read as they stand: bytes, counts. Avro's logical types are taken out of the schema first, which keeps the
  library from converting by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamer.errors import needs_extra
from streamer.incremental.events.connect_schema import ConnectType
from streamer.incremental.events.logical_types import CONNECT, DEBEZIUM_DATA, DEBEZIUM_TIME, DECIMAL

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

    Raises ValueError where it is none, LibraryMissing if what reads Avro is not installed.
    """
    with needs_extra("avro"):
        from fastavro import parse_schema
    named: dict[str, dict[str, object]] = {}
    try:
        parsed = parse_schema(_without_logical_types(schema), named_schemas=named)
        original: dict[str, dict[str, object]] = {}
        typed = parse_schema(schema, named_schemas=original)
        return parsed, _type_of(typed, original, ())
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


def _type_of(schema: object, named: Mapping[str, object], inside: tuple[str, ...]) -> ConnectType:
    """inside: the records that the schema stands in."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        return _type_of(others[0], named, inside) if len(others) == 1 else UNION
    if isinstance(schema, str):
        if schema in _OF_PRIMITIVES:
            return ConnectType(_OF_PRIMITIVES[schema])
        return UNION if schema in inside else _type_of(named[schema], named, inside)
    if not isinstance(schema, dict):
        raise ValueError("a schema is neither a name nor an object")
    said = schema["type"]
    if not isinstance(said, str) or said not in (*_OF_PRIMITIVES, "record"):
        return _type_of(said, named, inside)
    name, parameters = _named(schema)
    if said != "record":
        return ConnectType(_OF_PRIMITIVES[said], name, parameters)
    within = (*inside, str(schema["name"]))
    fields = {str(one["name"]): _type_of(one["type"], named, within) for one in _fields(schema)}
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
