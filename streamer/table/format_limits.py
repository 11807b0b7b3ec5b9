"""What a format of `live` other than plain JSON cannot hold: a table, a value, and bytes of a message.

The rules of this file
----------------------
* Readers get their types from schemas, so a table that has none is refused when its table.yaml is read: a lossy join,
  a kept column without a type, a name that Avro does not know.
* Whatever a row says comes back exactly out of what is published of it. A whole number of a schema has 64 bits, and
  Avro's number with decimals is a binary one: a row with a kept value that would come back as another one is a dead
  letter. (Kafka Connect rounds decimals when it reads JSON; the JSON itself has every digit.)
* A schema in each record counts towards the limit of a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal

from streamer.errors import ConfigError, EventRefused
from streamer.table.avro_schemas import avro_key_schema, avro_value_schema
from streamer.table.connect_schemas import envelopes, key_schema, value_schema
from streamer.table.published_types import FLOAT, KEPT_TYPES, record_value_columns
from streamer.table.scalars import decimal_text
from streamer.table.schema import AVRO, CONNECT_JSON, JSON, LOSSY_JOIN, KeptColumn, Table

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
