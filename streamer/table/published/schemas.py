"""Types of what is published, their schemas in Avro and Kafka Connect, and what fits neither."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from streamer.errors import ConfigError, EventRefused, UsageError
from streamer.table.attributes import Attribute, NumericAttribute, TemporalAttribute
from streamer.table.published.groups import COUNT, SIZE, VALUES
from streamer.table.published.rows import LONGEST_NAME, QI_GROUP, box_bytes, box_columns, frame_bytes, names_bytes
from streamer.table.scalars import decimal_text
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, JSON, LOSSY_JOIN, KeptColumn, Table

# The columns of what is published, with the types that a database or a stream processor needs of them.
#
# * Names and order are those of `streamer.table.published.rows` and its neighbours; what an attribute publishes is
#   asked of `box_columns`. A column is a text where it publishes texts, whatever they mean.
# * Ends of intervals are exact numbers with a known scale. A kept decimal has none: it is a binary float on the other
#   side, and who needs more digits reads them with `streamer subscribe`.
# * Only kept values can be null.
# * A kept column whose values may be of any type cannot be a column of a database: a converter that expects a text
#   makes null of a number, in silence. So it is refused here, as is a type that this file does not know.
# * A lossy join is no table that others can keep current: its two topics have no release in common for a reader that
#   takes them record by record, and until both have arrived a join may mix two moments.

TEXT, INTEGER, DECIMAL, FLOAT, BOOLEAN = "text", "integer", "decimal", "float", "boolean"

SLOT = "slot"
"""The column that tells the rows of a QI group apart, in a record's key alone."""

TEMPORAL = ("date", "timestamp", "local-timestamp")
"""Types of table.yaml that are published as ISO texts."""

CLOCKS = ("timestamp", "local-timestamp")
"""Those with a time of day: instants, and what a clock on the wall showed."""

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
    """One column; of a DECIMAL with the most digits before and after the point."""

    name: str
    type: str
    nullable: bool = False
    whole_digits: int = 0
    scale: int = 0


def record_key_columns(table: Table) -> tuple[PublishedColumn, ...]:
    """The columns of a record's key. Raises UsageError for a lossy join."""
    _refuse_two_topics(table)
    qi_group = PublishedColumn(QI_GROUP, TEXT)
    return (qi_group,) if table.form == GROUPS else (qi_group, PublishedColumn(SLOT, INTEGER))


def record_value_columns(table: Table) -> tuple[PublishedColumn, ...]:
    """The flat columns of a record's value: of a QI group in one message all but the list of its values.

    Raises UsageError for a lossy join, ConfigError for a column that has no type.
    """
    _refuse_two_topics(table)
    box = [column for attribute in table.attributes for column in _box_columns(attribute)]
    rest = [PublishedColumn(SIZE, INTEGER)] if table.form == GROUPS else [*map(kept_column, table.kept)]
    return (PublishedColumn(QI_GROUP, TEXT), *box, *rest)


def all_columns(table: Table) -> tuple[PublishedColumn, ...]:
    """The columns of key and value, each once, those of the key first."""
    keys = record_key_columns(table)
    return (*keys, *(column for column in record_value_columns(table) if column not in keys))


def kept_column(column: KeptColumn) -> PublishedColumn:
    """A column that is published as it is. Raises ConfigError."""
    if column.hierarchy is not None:
        return PublishedColumn(column.name, TEXT, nullable=True)
    if column.type not in KEPT_TYPES:
        what = "its values may be of any type" if column.type is None else f"type {column.type} is not known here"
        raise ConfigError(
            f"columns.{column.name}: {what}, and a column on the other side has one: give it a hierarchy, or one of the"
            f" types {', '.join(KEPT_TYPES)}; a table that has begun is then begun anew (`streamer reload`)"
        )
    return PublishedColumn(column.name, KEPT_TYPES[column.type], nullable=True)


def temporal_columns(table: Table, types: Container[str] = TEMPORAL) -> list[str]:
    """The columns of dates and times of these types."""
    timed = [a for a in table.attributes if isinstance(a, TemporalAttribute)]
    intervals = [attribute.name for attribute in timed if attribute.calendar.clock.name in types]
    return intervals + [column.name for column in table.kept if column.type is not None and column.type in types]


def sink_table(table: Table) -> str:
    """The name of the table that a sink keeps.

    >>> from streamer.table.schema import Table
    >>> sink_table(Table("ward-7.patients", ("id",), (), (), k=2))
    'ward_7_patients_live'
    """
    return f"{plain_name(table)}_live"


def view_name(table: Table) -> str:
    """The name of the view by which the sink's table is read."""
    return f"{plain_name(table)}_anonymous"


def plain_name(table: Table) -> str:
    """The table's name as a word of letters, digits and underscores."""
    return re.sub(r"\W", "_", table.name, flags=re.ASCII)


def left_out(table: Table) -> tuple[str, ...]:
    """Members of a message that no flat column takes."""
    return (VALUES,) if table.form == GROUPS else ()


def _box_columns(attribute: Attribute) -> list[PublishedColumn]:
    shown = box_columns(attribute, 0, 0)
    if not isinstance(attribute, NumericAttribute):
        if all(isinstance(end, str) for end in shown.values()):
            return [PublishedColumn(name, TEXT) for name in shown]
        raise ConfigError(f"columns.{attribute.name}: its type has no counterpart on the other side")
    if attribute.integer:
        return [PublishedColumn(name, INTEGER) for name in shown]
    numbers = (*attribute.domain, attribute.grid, attribute.step or Decimal(0))
    whole = max(len(str(int(abs(end)))) for end in attribute.domain)
    scale = max(0, *(-int(number.as_tuple().exponent) for number in numbers))
    return [PublishedColumn(name, DECIMAL, whole_digits=whole, scale=scale) for name in shown]


def _refuse_two_topics(table: Table) -> None:
    if table.form == LOSSY_JOIN:
        raise UsageError(
            "publish.live.form: a lossy join is two topics, and what a sink or a query joins of them record by record"
            " may be of two moments; readers must apply whole releases of both: give others a copy (`streamer subscribe"
            " --csv`), or publish `rows` or `groups`"
        )


# Avro's schemas of what is published, as they stand in a schema registry.
#
# * Columns and types are those of `streamer.table.published.schemas`, which Kafka Connect's schemas are made of, too:
#   ends of intervals are decimals of one precision and scale, moments are texts, only kept values can be null.
# * A QI group in one message has all that it has in JSON: the list of its values is an array of records.
# * Names are those of table.yaml. Avro knows letters, digits and underscores only: another name has no schema.
# * The names of the records begin with a word of ours, so that a table whose name begins with a digit has schemas, too.

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
            f"columns.{column.name}: Avro's names have letters, digits and underscores, and begin with no digit: rename"
            " the column, or publish `format: connect-json`"
        )
    if column.nullable:
        return {"name": column.name, "type": ["null", _type(column)], "default": None}
    return {"name": column.name, "type": _type(column)}


def _type(column: PublishedColumn) -> object:
    if column.type != DECIMAL:
        return _AVRO_TYPES[column.type]
    digits = column.whole_digits + column.scale
    return {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": column.scale}


# Kafka Connect's schemas of what is published, in the form of its JsonConverter.
#
# Plain records have none, so that they stay small; from Connect 4.2 on (KIP-1054) the converter takes it from its
# setting `schema.content`. Under `format: connect-json` every record has it in it. Members that the schema does not
# name are skipped by the converter.

CONNECT_VERSION = (4, 2)
"""The first version of Connect whose JsonConverter has `schema.content`."""

DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"
"""Connect's name of a decimal, which has a scale."""

_CONNECT_TYPES = {TEXT: "string", INTEGER: "int64", FLOAT: "double", BOOLEAN: "boolean"}


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
    return {"type": "struct", "optional": False, "fields": [_connect_field(column) for column in columns]}


def _connect_field(column: PublishedColumn) -> dict[str, Any]:
    shared = {"field": column.name, "optional": column.nullable}
    if column.type == DECIMAL:
        parameters = {"scale": str(column.scale)}
        return {"type": "bytes", "name": DECIMAL_NAME, "version": 1, "parameters": parameters, **shared}
    return {"type": _CONNECT_TYPES[column.type], **shared}


# What a format of `live` other than plain JSON cannot hold: a table, a value, and bytes of a message.
#
# * Readers get their types from schemas, so a table that has none is refused when its table.yaml is read: a lossy join,
#   a kept column without a type, a name that Avro does not know.
# * Whatever a row says comes back exactly out of what is published of it. A whole number of a schema has 64 bits, and
#   Avro's number with decimals is a binary one: a row with a kept value that would come back as another one is a dead
#   letter. (Kafka Connect rounds decimals when it reads JSON; the JSON itself has every digit.)
# * A schema in each record counts towards the limit of a message.

INT64_MAX = 2**63 - 1

HEAD_BYTES = 5
"""What a key or value in a registry's format begins with."""

FLOAT_BYTES_MORE = 3
"""By how much Avro's number in a nullable column may be longer than its JSON with the shortest name: 9 bytes over 6."""

ToText = Callable[[object], bytes]


def no_schema(table: Table) -> Iterator[str]:
    """What of a table has no schema, one sentence each, where its format needs one."""
    if table.format == JSON:
        return
    if table.form == LOSSY_JOIN:
        yield (
            f"publish.live.format: {table.format}: a lossy join is two topics that no schema makes one table: publish"
            " `form: rows` or `form: groups`, or leave out the format"
        )
        return
    try:
        _schemas(table)
    except ConfigError as error:
        yield f"{error} (publish.live.format: {table.format})"


def _schemas(table: Table) -> tuple[dict[str, object], dict[str, object]]:
    if table.format == AVRO:
        return avro_key_schema(table), avro_value_schema(table)
    return key_schema(table), value_schema(table)


def bytes_more(table: Table) -> tuple[int, int]:
    """The most bytes by which a format makes key and value of a record longer: whatever they say, and for every row of
    kept values."""
    if table.format == CONNECT_JSON:
        zeros = sum(column.scale + len(".") for column in record_value_columns(table) if column.scale)
        return sum(len(before) + len("}") for before in envelopes(table)) + zeros, 0
    if table.format == AVRO:
        floats = sum(KEPT_TYPES.get(str(column.type)) == FLOAT for column in table.kept)
        return 2 * HEAD_BYTES, FLOAT_BYTES_MORE * floats
    return 0, 0


def within_type(column: KeptColumn, format_: str, text: ToText) -> ToText:
    """A kept column's encoder, which refuses what a format's type cannot hold: EventRefused, wrong-type."""
    if format_ == JSON or column.type not in ("integer", "decimal"):
        return text
    if column.type == "integer":
        return _checked(column.name, text, _has_64_bits, "beyond 64 bits")
    if format_ == AVRO:
        return _checked(column.name, text, _is_a_float, "with more digits than Avro's double keeps")
    return text


def _checked(name: str, text: ToText, fits: Callable[[bytes], bool], what: str) -> ToText:
    def checked(value: object) -> bytes:
        written = text(value)
        if written != b"null" and not fits(written):
            mend = "declare `type: text` in table.yaml"
            raise EventRefused("wrong-type", f"column {name!r}: a number {what}: {mend}", name)
        return written

    return checked


def _has_64_bits(text: bytes) -> bool:
    return -INT64_MAX - 1 <= int(text) <= INT64_MAX


def _is_a_float(text: bytes) -> bool:
    """Whether a decimal comes back out of the nearest binary number, by that number's shortest text."""
    nearest = Decimal(repr(float(text)))
    return nearest.is_finite() and decimal_text(nearest).encode() == text


# How long the kept values of one row may be, so that all that is published of it fits into one message.
#
# A row is refused before anything changes: later its shard would stop, because Kafka would reject the message forever.

LONGEST_COUNT = 18
"""Digits of a number of rows."""


def values_bytes_max(table: Table) -> int:
    """The most bytes that the JSON texts of one row's kept values may have; below 0 where nothing fits."""
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
