"""The columns of what is published, with the types that a database or a stream processor needs of them.

The rules of this file
----------------------
* Names and order are those of `streamer.table.published` and its neighbours; what an attribute publishes is asked of
  `box_columns`. A column is a text where it publishes texts, whatever they mean.
* Ends of intervals are exact numbers with a known scale. A kept decimal has none: it is a binary float on the other
  side, and who needs more digits reads them with `streamer subscribe`.
* Only kept values can be null.
* A kept column whose values may be of any type cannot be a column of a database: a converter that expects a text makes
  null of a number, in silence. So it is refused here, as is a type that this file does not know.
* A lossy join is no table that others can keep current: its two topics have no release in common for a reader that
  takes them record by record, and until both have arrived a join may mix two moments.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from decimal import Decimal

from streamer.errors import ConfigError, UsageError
from streamer.table.attributes import Attribute, NumericAttribute, TemporalAttribute
from streamer.table.published import QI_GROUP, box_columns
from streamer.table.published_group import SIZE, VALUES
from streamer.table.schema import GROUPS, LOSSY_JOIN, KeptColumn, Table

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
            f" types {', '.join(KEPT_TYPES)}; a table that has begun is then begun anew (`streamer start-anew`)"
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
