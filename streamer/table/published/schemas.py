"""Types of what is published, its schemas in Avro and for Kafka Connect, and what these cannot hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import msgspec

from streamer.errors import ConfigError, EventRefused, UsageError
from streamer.table.codes import Attribute, KeptColumn, NumericAttribute, decimal_text
from streamer.table.published.groups import COUNT, SIZE, VALUES
from streamer.table.published.rows import LONGEST_NAME, QI_GROUP, box_bytes, box_columns, frame_bytes, names_bytes
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, JSON, LOSSY_JOIN, Table

# The columns of what is published, with the types that a database or a stream processor needs.
#
# * Names and order are those of `streamer.table.published.rows` and `groups`. Dates and times are texts.
# * Ends of intervals are exact numbers with a known scale. A kept decimal has no scale, so it becomes a binary float.
#   The exact digits are read by `streamer subscribe`, and by a sink into Postgres, of plain records.
# * Only kept values can be null.
# * A kept column that may hold any type is refused, because a converter that expects a text would silently make null of
#   a number.
# * A lossy join is refused: its two topics have no release in common for a reader that takes them record by record, so
#   their join may mix two moments.

TEXT, INTEGER, DECIMAL, FLOAT, BOOLEAN = "text", "integer", "decimal", "float", "boolean"

SLOT = "slot"
"""The column that distinguishes the rows of a QI group; only in keys."""

TEMPORAL = ("date", "timestamp", "local-timestamp")
"""Types of table.yaml that are published as ISO texts."""

KEPT_TYPES = {
    "text": TEXT,
    "integer": INTEGER,
    "decimal": FLOAT,
    "boolean": BOOLEAN,
    **dict.fromkeys(TEMPORAL, TEXT),
}
"""A kept column's type in table.yaml -> the type of what it publishes."""


@dataclass(frozen=True)
class PublishedColumn:
    """One column."""

    name: str
    type: str
    nullable: bool = False
    whole_digits: int = 0  # of a DECIMAL: the most digits before the point
    scale: int = 0  # of a DECIMAL: the most digits after it


def record_key_columns(table: Table) -> tuple[PublishedColumn, ...]:
    """The columns of a record's key. Raises UsageError for a lossy join."""
    _refuse_two_topics(table)
    qi_group = PublishedColumn(QI_GROUP, TEXT)
    return (qi_group,) if table.form == GROUPS else (qi_group, PublishedColumn(SLOT, INTEGER))


def record_value_columns(table: Table) -> tuple[PublishedColumn, ...]:
    """The flat columns of a record's value, without the list of values of `form: groups`.

    Raises UsageError for a lossy join, ConfigError for a column that has no type.
    """
    _refuse_two_topics(table)
    box = [column for attribute in table.attributes for column in _box_columns(attribute)]
    rest = [PublishedColumn(SIZE, INTEGER)] if table.form == GROUPS else [*map(kept_column, table.kept)]
    return (PublishedColumn(QI_GROUP, TEXT), *box, *rest)


def all_columns(table: Table) -> tuple[PublishedColumn, ...]:
    """The columns of key and value, each once, the key's first."""
    keys = record_key_columns(table)
    return (*keys, *(column for column in record_value_columns(table) if column not in keys))


def kept_column(column: KeptColumn) -> PublishedColumn:
    """A column that is published as it is. Raises ConfigError."""
    if column.hierarchy is not None:
        return PublishedColumn(column.name, TEXT, nullable=True)
    if column.type not in KEPT_TYPES:
        what = "its values may be of any type" if column.type is None else f"type {column.type} is not known here"
        raise ConfigError(
            f"columns.{column.name}: {what}, but a column on the other side has one type: give it a hierarchy, or one"
            f" of the types {', '.join(KEPT_TYPES)}; a table that has begun must then be reloaded (`streamer reload`)"
        )
    return PublishedColumn(column.name, KEPT_TYPES[column.type], nullable=True)


def sink_table(table: Table) -> str:
    """The name of the table that a sink keeps.

    >>> from streamer.table.schema import Table
    >>> sink_table(Table("ward-7.patients", ("id",), (), (), k=2))
    'ward_7_patients_live'
    """
    return f"{plain_name(table)}_live"


def view_name(table: Table) -> str:
    """The name of the view through which the sink's table is read."""
    return f"{plain_name(table)}_anonymous"


def plain_name(table: Table) -> str:
    """The table's name as a word of letters, digits and underscores."""
    return re.sub(r"\W", "_", table.name, flags=re.ASCII)


def left_out(table: Table) -> tuple[str, ...]:
    """Members of a message that are in no flat column."""
    return (VALUES,) if table.form == GROUPS else ()


def _box_columns(attribute: Attribute) -> list[PublishedColumn]:
    shown = box_columns(attribute, 0, 0)
    if not isinstance(attribute, NumericAttribute) or attribute.width is not None:
        if all(isinstance(end, str) for end in shown.values()):
            return [PublishedColumn(name, TEXT) for name in shown]
        raise ConfigError(f"columns.{attribute.name}: its type has no counterpart on the other side")
    if attribute.integer:
        return [PublishedColumn(name, INTEGER) for name in shown]
    whole, scale = attribute.whole_digits, attribute.scale
    return [PublishedColumn(name, DECIMAL, whole_digits=whole, scale=scale) for name in shown]


def _refuse_two_topics(table: Table) -> None:
    if table.form == LOSSY_JOIN:
        raise UsageError(
            "publish.live.form: a lossy join is two topics, and a sink or a query that joins them record by record may"
            " join two moments; readers must apply whole releases of both: give others a copy (`streamer subscribe"
            " --csv`), or publish `rows` or `groups`"
        )


# Avro's schemas of what is published, as a schema registry has them. Names are those of table.yaml, so a column needs a
# name of letters, digits and underscores. The namespace begins with a word of ours, because a table's name may begin
# with a digit.

_AVRO_TYPES = {TEXT: "string", INTEGER: "long", FLOAT: "double", BOOLEAN: "boolean"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def avro_key_schema(table: Table) -> dict[str, Any]:
    """The schema of a record's key. Raises UsageError for a lossy join."""
    return _record(table, "Key", map(_avro_field, record_key_columns(table)))


def avro_value_schema(table: Table) -> dict[str, Any]:
    """The schema of a record's value.

    Raises UsageError for a lossy join, ConfigError for a column without a type or with a name that Avro does not know.
    """
    fields = [_avro_field(column) for column in record_value_columns(table)]
    if table.form == GROUPS:
        members = [*map(kept_column, table.kept), PublishedColumn(COUNT, INTEGER)]
        items = _record(table, "Counted", map(_avro_field, members))
        fields.append({"name": VALUES, "type": {"type": "array", "items": items}})
    return _record(table, "Value", fields)


def _record(table: Table, name: str, fields: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": f"streamer_{plain_name(table)}", "fields": list(fields)}


def _avro_field(column: PublishedColumn) -> dict[str, Any]:
    if not _NAME.fullmatch(column.name):
        raise ConfigError(
            f"columns.{column.name}: Avro's names have letters, digits and underscores, and do not begin with a digit:"
            " rename the column, or publish `format: connect-json`"
        )
    if column.nullable:
        return {"name": column.name, "type": ["null", _type(column)], "default": None}
    return {"name": column.name, "type": _type(column)}


def _type(column: PublishedColumn) -> object:
    if column.type != DECIMAL:
        return _AVRO_TYPES[column.type]
    digits = column.whole_digits + column.scale
    return {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": column.scale}


# Kafka Connect's schemas of what is published, in the form of its JsonConverter. Plain records have none, to stay
# small: from Connect 4.2 on (KIP-1054) the converter takes it from its setting `schema.content`. With `format:
# connect-json` every record has it. The converter skips members that the schema does not name.

DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"
"""Connect's name of a decimal with a scale."""

_CONNECT_TYPES = {TEXT: "string", INTEGER: "int64", FLOAT: "double", BOOLEAN: "boolean"}


def key_schema(table: Table) -> dict[str, Any]:
    """The schema of a record's key. Raises UsageError for a lossy join."""
    return _struct(record_key_columns(table))


def value_schema(table: Table, exact: bool = False) -> dict[str, Any]:
    """The schema of a record's value. Raises UsageError for a lossy join, ConfigError for a column without a type.

    exact: kept decimals keep their digits, whatever scale the schema says: for a reader whose columns are there.
    """
    columns = record_value_columns(table)
    return _struct(replace(one, type=DECIMAL) if exact and one.type == FLOAT else one for one in columns)


def schema_text(schema: dict[str, Any]) -> str:
    """A schema as the text of a setting."""
    return msgspec.json.encode(schema).decode()


def envelopes(table: Table) -> tuple[bytes, bytes]:
    """The bytes before the payload of a key and of a value that contain their schema; `}` follows it."""
    key, value = (
        b'{"schema":%b,"payload":' % schema_text(schema).encode() for schema in (key_schema(table), value_schema(table))
    )
    return key, value


def _struct(columns: Iterable[PublishedColumn]) -> dict[str, Any]:
    return {"type": "struct", "optional": False, "fields": [_connect_field(column) for column in columns]}


def _connect_field(column: PublishedColumn) -> dict[str, Any]:
    shared = {"field": column.name, "optional": column.nullable}
    if column.type == DECIMAL:
        parameters = {"scale": str(column.scale)}
        return {"type": "bytes", "name": DECIMAL_NAME, "version": 1, "parameters": parameters, **shared}
    return {"type": _CONNECT_TYPES[column.type], **shared}


# What a format other than plain JSON cannot hold.
#
# * A table without a schema is refused when its table.yaml is read: a lossy join, a kept column without a type, a name
#   that Avro does not know.
# * Published values come back exactly. An integer of a schema has 64 bits, and Avro's number with decimals is a binary
#   one, so a row with a kept value that would change is a dead letter. (Kafka Connect rounds decimals when it reads
#   JSON; the JSON itself has every digit.)
# * A schema in each record counts towards the limit of a message.

INT64_MAX = 2**63 - 1

HEAD_BYTES = 5
"""The prefix of a key or value in a registry's format."""

FLOAT_BYTES_MORE = 3
"""The most by which Avro's number in a nullable column is longer than its JSON with the shortest name: 9 to 6."""

ToText = Callable[[object], bytes]


def no_schema(table: Table) -> Iterator[str]:
    """Why the table has no schema, if its format needs one: a sentence for each reason."""
    if table.format == JSON:
        return
    if table.form == LOSSY_JOIN:
        yield (
            f"publish.live.format: {table.format}: a lossy join is two topics, and no schema makes them one table:"
            " publish `form: rows` or `form: groups`, or remove the format"
        )
        return
    try:
        _ = avro_value_schema(table) if table.format == AVRO else value_schema(table)
    except ConfigError as error:
        yield f"{error} (publish.live.format: {table.format})"


def bytes_more(table: Table) -> tuple[int, int]:
    """The most bytes that a format adds to key and value of a record, and to each row of kept values."""
    if table.format == CONNECT_JSON:
        zeros = sum(column.scale + len(".") for column in record_value_columns(table) if column.scale)
        return sum(len(before) + len("}") for before in envelopes(table)) + zeros, 0
    if table.format == AVRO:
        floats = sum(KEPT_TYPES.get(str(column.type)) == FLOAT for column in table.kept)
        return 2 * HEAD_BYTES, FLOAT_BYTES_MORE * floats
    return 0, 0


def within_type(column: KeptColumn, format_: str, text: ToText) -> ToText:
    """A kept column's encoder that refuses what a format's type cannot hold (EventRefused: wrong-type)."""
    if format_ == JSON or column.type not in ("integer", "decimal"):
        return text
    if column.type == "integer":
        return _checked(column.name, text, lambda text: -INT64_MAX - 1 <= int(text) <= INT64_MAX, "beyond 64 bits")
    if format_ == AVRO:
        return _checked(column.name, text, _is_a_float, "with more digits than Avro's double keeps")
    return text


def _checked(name: str, text: ToText, fits: Callable[[bytes], bool], what: str) -> ToText:
    def checked(value: object) -> bytes:
        written = text(value)
        if written != b"null" and not fits(written):
            remedy = "declare `type: text` in table.yaml"
            raise EventRefused("wrong-type", f"column {name!r}: a number {what}: {remedy}", name)
        return written

    return checked


def _is_a_float(text: bytes) -> bool:
    """True if a decimal is the shortest text of the nearest binary number."""
    nearest = Decimal(repr(float(text)))
    return nearest.is_finite() and decimal_text(nearest).encode() == text


# How long the kept values of one row may be, so that everything published of it fits into one message. A row is refused
# before anything changes: later its shard would stop, because Kafka would reject the message forever.

LONGEST_COUNT = 18
"""Digits of a number of rows."""


def values_bytes_max(table: Table) -> int:
    """The most bytes of the JSON texts of one row's kept values; below 0 if nothing fits."""
    row_bytes = table.limits.row_bytes_max
    for_record, for_values = bytes_more(table)
    row_bytes -= for_record
    kept = names_bytes(column.name for column in table.kept)
    counted = kept + names_bytes([COUNT]) + LONGEST_COUNT + len("{}") + for_values
    name = names_bytes([QI_GROUP]) + len(LONGEST_NAME) + len('""')
    if table.form == GROUPS:
        frame = len("{}") + name + box_bytes(table) + names_bytes([SIZE, VALUES]) + LONGEST_COUNT + len("[]")
        return (row_bytes - frame) // (2 * table.k) - counted - len(",")
    if table.form == LOSSY_JOIN:
        return (row_bytes - 2 * (name + counted)) // 2
    return row_bytes - frame_bytes(table) - for_values
