"""The type of a value as Kafka Connect's schemas say it, whichever converter wrote it.

`JsonConverter` (with `schemas.enable`) sends a schema beside each payload; a schema registry keeps it apart. Either way
it comes down to this: a type, the name of a logical type that says what the value means, its parameters, and for a
struct its fields. Whether a value may be null, versions, defaults and documentation decide nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ConnectType:
    """What Connect's schema says of one value.

    type: as `JsonConverter` writes it (int8, int16, int32, int64, float, double, boolean, string, bytes, array, map,
    struct). name: of the logical type. fields: of a struct, by their names.
    """

    type: str
    name: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, ConnectType] = field(default_factory=dict)


def connect_type_of(schema: object) -> ConnectType | None:
    """The type that `JsonConverter`'s schema object says; None where it says none.

    >>> connect_type_of({"type": "int32", "optional": True, "name": "io.debezium.time.Date", "version": 1}).name
    'io.debezium.time.Date'
    """
    if not isinstance(schema, dict) or not isinstance(schema.get("type"), str):
        return None
    name, parameters = schema.get("name"), schema.get("parameters")
    return ConnectType(
        schema["type"],
        name if isinstance(name, str) else None,
        parameters if isinstance(parameters, dict) else {},
        _fields(schema.get("fields")),
    )


def _fields(said: object) -> dict[str, ConnectType]:
    fields = {}
    for schema in said if isinstance(said, list) else []:
        type_ = connect_type_of(schema)
        if type_ is not None and isinstance(schema.get("field"), str):
            fields[schema["field"]] = type_
    return fields
