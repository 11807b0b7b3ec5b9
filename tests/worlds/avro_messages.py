"""Messages in Avro as Debezium's connectors send them through AvroConverter, written by plain arithmetic.

The schemas have what AvroConverter writes into them (`connect.name`, `connect.parameters`, unions with null, a row that
is named once and referred to the second time); the bytes come from Avro's specification, and from no library.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

NAME = "shop.public.people"
DECIMAL = "org.apache.kafka.connect.data.Decimal"


def logical(type_: str, name: str, **parameters: str) -> dict[str, Any]:
    """A primitive type with a logical type of Connect's."""
    more: dict[str, Any] = {"connect.parameters": parameters} if parameters else {}
    return {"type": type_, "connect.version": 1, "connect.name": name, **more}


def money(scale: int = 2) -> dict[str, Any]:
    """A NUMERIC, as AvroConverter writes it: with Avro's own logical type, too."""
    avro = {"scale": scale, "precision": 64, "logicalType": "decimal"}
    return {**logical("bytes", DECIMAL, scale=str(scale)), **avro}


def record(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a struct."""
    said = [{"name": field, "type": type_} for field, type_ in fields.items()]
    return {"type": "record", "name": name, "namespace": NAME, "fields": said, "connect.name": f"{NAME}.{name}"}


def optional(type_: Any) -> list[Any]:
    return ["null", type_]


SOURCE = {"connector": "string", "snapshot": optional("string")}
LOGGED = {**SOURCE, "lsn": optional("long"), "ts_ms": "long"}
"""Members of the source block, and with those that say where in PostgreSQL's log a change stands."""


def envelope(fields: Mapping[str, Any], source_block: Mapping[str, Any] = SOURCE) -> dict[str, Any]:
    """The schema of Debezium's envelope around a row."""
    source = record("Source", source_block)
    return record(
        "Envelope",
        {
            "before": optional(record("Value", fields)),
            "after": optional("Value"),
            "source": source,
            "op": "string",
            "ts_ms": optional("long"),
        },
    )


def number(count: int) -> bytes:
    """Zigzag, then seven bits a byte, the lowest first."""
    rest, written = (count << 1) if count >= 0 else ((-count << 1) - 1), b""
    while rest > 127:
        written, rest = written + bytes([rest & 127 | 128]), rest >> 7
    return written + bytes([rest])


def unscaled(value: Decimal, scale: int) -> bytes:
    """The fewest bytes that hold the number times 10**scale with its sign."""
    count = int(value.scaleb(scale))
    length = next(n for n in range(1, 100) if -(1 << 8 * n - 1) <= count < 1 << 8 * n - 1)
    return count.to_bytes(length, "big", signed=True)


def body(schema: Any, value: Any, named: dict[str, Any] | None = None) -> bytes:
    """A value in Avro's binary form."""
    named = {} if named is None else named
    if isinstance(schema, list):
        branch = 0 if value is None else 1
        return number(branch) + (b"" if value is None else body(schema[1], value, named))
    if isinstance(schema, str) and schema in named:
        return body(named[schema], value, named)
    type_ = schema["type"] if isinstance(schema, dict) else schema
    if type_ == "record":
        named[schema["name"]] = schema
        _name_all(schema, named)
        return b"".join(body(field["type"], value[field["name"]], named) for field in schema["fields"])
    if type_ in ("int", "long"):
        return number(value)
    if type_ == "boolean":
        return b"\x01" if value else b"\x00"
    if type_ == "double":
        return struct.pack("<d", value)
    data = value.encode() if type_ == "string" else value
    return number(len(data)) + data


def _name_all(schema: Any, named: dict[str, Any]) -> None:
    """A row that is null in `before` has its name for `after` all the same."""
    if isinstance(schema, list):
        for branch in schema:
            _name_all(branch, named)
    elif isinstance(schema, dict) and schema["type"] == "record":
        named[schema["name"]] = schema
        for field in schema["fields"]:
            _name_all(field["type"], named)


def head(schema_id: int) -> bytes:
    """What Confluent's wire format begins with."""
    return b"\0" + schema_id.to_bytes(4, "big")


def message(schema_id: int, schema: Any, value: Any) -> bytes:
    """A key or value on the wire."""
    return head(schema_id) + body(schema, value)


def change(op: str, row: Mapping[str, Any], before: Mapping[str, Any] | None = None, snapshot: str = "false") -> Any:
    """What Debezium says of a row."""
    gone = op == "d"
    source = {"connector": "postgresql", "snapshot": snapshot}
    return {"before": row if gone else before, "after": None if gone else row, "source": source, "op": op, "ts_ms": 1}
