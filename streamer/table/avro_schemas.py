"""Avro's schemas of what is published, as they stand in a schema registry.

The rules of this file
----------------------
* Columns and types are those of `streamer.table.published_types`, which Kafka Connect's schemas are made of, too: ends
  of intervals are decimals of one precision and scale, moments are texts, only kept values can be null.
* A QI group in one message has all that it has in JSON: the list of its values is an array of records.
* Names are those of table.yaml. Avro knows letters, digits and underscores only: another name has no schema.
* The names of the records begin with a word of ours, so that a table whose name begins with a digit has schemas, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from streamer.errors import ConfigError
from streamer.table.published_group import COUNT, VALUES
from streamer.table.published_types import (
    BOOLEAN,
    DECIMAL,
    FLOAT,
    INTEGER,
    TEXT,
    PublishedColumn,
    kept_column,
    plain_name,
    record_key_columns,
    record_value_columns,
)
from streamer.table.schema import GROUPS, Table

_TYPES = {TEXT: "string", INTEGER: "long", FLOAT: "double", BOOLEAN: "boolean"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def avro_key_schema(table: Table) -> dict[str, Any]:
    """The schema of a record's key. Raises UsageError for a lossy join."""
    return _record(table, "Key", map(_field, record_key_columns(table)))


def avro_value_schema(table: Table) -> dict[str, Any]:
    """The schema of a record's value.

    Raises UsageError for a lossy join, ConfigError for a column without a type or with a name that Avro does not know.
    """
    fields = [_field(column) for column in record_value_columns(table)]
    if table.form == GROUPS:
        members = [*map(kept_column, table.kept), PublishedColumn(COUNT, INTEGER)]
        items = _record(table, "Counted", map(_field, members))
        fields.append({"name": VALUES, "type": {"type": "array", "items": items}})
    return _record(table, "Value", fields)


def _record(table: Table, name: str, fields: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": f"streamer_{plain_name(table)}", "fields": list(fields)}


def _field(column: PublishedColumn) -> dict[str, Any]:
    if not _NAME.fullmatch(column.name):
        raise ConfigError(
            f"columns.{column.name}: Avro's names have letters, digits and underscores, and begin with no digit: rename"
            " the column, or publish `format: connect-json`"
        )
    if column.nullable:
        return {"name": column.name, "type": ["null", _type(column)], "default": None}
    return {"name": column.name, "type": _type(column)}


def _type(column: PublishedColumn) -> object:
    if column.type != DECIMAL:
        return _TYPES[column.type]
    digits = column.whole_digits + column.scale
    return {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": column.scale}
