"""Kafka Connect's schemas of what is published, in the form of its JsonConverter.

The records themselves have none, so that they stay small; from Connect 4.2 on (KIP-1054) the converter takes it from
its setting `schema.content`. Members that the schema does not name are passed over by the converter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from streamer.incremental.connectors.published_types import (
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


def _struct(columns: Iterable[PublishedColumn]) -> dict[str, Any]:
    return {"type": "struct", "optional": False, "fields": [_field(column) for column in columns]}


def _field(column: PublishedColumn) -> dict[str, Any]:
    shared = {"field": column.name, "optional": column.nullable}
    if column.type == DECIMAL:
        name, parameters = "org.apache.kafka.connect.data.Decimal", {"scale": str(column.scale)}
        return {"type": "bytes", "name": name, "version": 1, "parameters": parameters, **shared}
    return {"type": _TYPES[column.type], **shared}
