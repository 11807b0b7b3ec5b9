"""Kafka Connect's schemas of what is published, in the form of its JsonConverter.

Plain records have none, so that they stay small; from Connect 4.2 on (KIP-1054) the converter takes it from its setting
`schema.content`. Under `format: connect-json` every record has it in it. Members that the schema does not name are
passed over by the converter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from streamer.table.published_types import (
    BOOLEAN,
    DECIMAL,
    FLOAT,
    INTEGER,
    TEXT,
    PublishedColumn,
    record_key_columns,
    record_value_columns,
)
from streamer.table.schema import Table

CONNECT_VERSION = (4, 2)
"""The first version of Connect whose JsonConverter has `schema.content`."""

DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"
"""Connect's name of a decimal, which has a scale."""

_TYPES = {TEXT: "string", INTEGER: "int64", FLOAT: "double", BOOLEAN: "boolean"}


def key_schema(table: Table) -> dict[str, Any]:
    """The schema of a record's key. Raises UsageError for a lossy join."""
    return _struct(record_key_columns(table))


def value_schema(table: Table) -> dict[str, Any]:
    """The schema of a record's value. Raises UsageError for a lossy join, ConfigError for a column without a type."""
    return _struct(record_value_columns(table))


def schema_text(schema: dict[str, Any]) -> str:
    """A schema as the text of a setting."""
    return msgspec.json.encode(schema).decode()


def envelopes(table: Table) -> tuple[bytes, bytes]:
    """What stands before the payload of a key and of a value that have their schema in them; behind it: `}`."""
    key, value = (
        b'{"schema":%b,"payload":' % schema_text(schema).encode() for schema in (key_schema(table), value_schema(table))
    )
    return key, value


def _struct(columns: Iterable[PublishedColumn]) -> dict[str, Any]:
    return {"type": "struct", "optional": False, "fields": [_field(column) for column in columns]}


def _field(column: PublishedColumn) -> dict[str, Any]:
    shared = {"field": column.name, "optional": column.nullable}
    if column.type == DECIMAL:
        parameters = {"scale": str(column.scale)}
        return {"type": "bytes", "name": DECIMAL_NAME, "version": 1, "parameters": parameters, **shared}
    return {"type": _TYPES[column.type], **shared}
