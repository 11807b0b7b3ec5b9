"""A published DataFrame as rows of a changelog, byte by byte: so it can be held to the same laws.

Ends may be two columns or one of intervals, in any type of pandas that holds the same values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import pandas as pd

from streamer.errors import ConfigError, LawViolated
from streamer.table.codes import DATE, Attribute, CategoricalAttribute, NumericAttribute, TemporalAttribute
from streamer.table.encode import Encoder
from streamer.table.microdata import compared_with
from streamer.table.published.rows import QI_GROUP, RowKey, attribute_columns, json_texts, parse_qi_group, row_key
from streamer.table.schema import Table
from streamer.table.typed_frame import DATE_TYPE, with_iso_texts


def rows_of_frame(table: Table, published: pd.DataFrame) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each row; slots are numbered in the order of the frame.

    Raises LawViolated for other columns than those that the table publishes, or values that it never publishes.
    """
    columns: dict[str, list[bytes]] = {}
    names, others = _column(published, QI_GROUP).tolist(), {str(name) for name in published.columns} - {QI_GROUP}
    for attribute in table.attributes:
        is_one = attribute.name in published.columns and not isinstance(attribute, CategoricalAttribute)
        for side, name in zip(("left", "right"), attribute_columns(attribute), strict=False):
            cells = _column(published, attribute.name if is_one else name)
            if is_one and not isinstance(cells.dtype, pd.IntervalDtype):
                raise LawViolated(f"column {attribute.name} does not hold intervals")
            ends = pd.Series(getattr(cells.array, side)) if is_one else cells
            columns[name] = _texts(attribute, name, ends)
            others.discard(attribute.name if is_one else name)
    columns |= _kept_texts(_as_published(table), published)
    if others := others.difference(columns):
        raise LawViolated(f"column {min(others)!r} is none that the table publishes")
    members = [msgspec.json.encode(name) + b":" for name in columns]
    slots: dict[str, int] = {}
    for name, *texts in zip(names, *columns.values(), strict=True):
        slots[name] = slot = slots.get(name, -1) + 1
        shard, number = parse_qi_group(str(name))
        inside = b",".join(member + text for member, text in zip(members, texts, strict=True))
        yield row_key(RowKey(shard, number, slot)), b'{"qi_group":"%b",%b}' % (str(name).encode(), inside)


def compared_with_frame(table: Table, published: pd.DataFrame, source: pd.DataFrame | None) -> Table:
    """The table with the values of its source, else of what it published, as the distributions that it leaves open."""
    if all(one.distribution is None for one in table.kept):
        return table
    texts = _kept_texts(_as_published(table), published) if source is None else _kept_texts(table, source)
    return compared_with(table, [Counter(of_column) for of_column in texts.values()])


def _as_published(table: Table) -> Table:
    """The table whose source has in its kept columns what this one publishes there."""
    return replace(table, kept=tuple(replace(column, disguise=None, disguised=None) for column in table.kept))


def _column(published: pd.DataFrame, name: str) -> pd.Series[Any]:
    cells = published[name] if name in published.columns else None
    if not isinstance(cells, pd.Series):
        raise LawViolated(f"column {name!r} is {'missing' if cells is None else 'there several times'}")
    return cells


def _texts(attribute: Attribute, name: str, cells: pd.Series[Any]) -> list[bytes]:
    """The JSON texts of labels or of the ends of intervals, as `json_texts` writes them."""
    try:
        if isinstance(attribute, TemporalAttribute):
            cells = pd.to_datetime(cells, format="ISO8601", utc=attribute.calendar.clock.zoned)
            is_day = attribute.calendar.clock == DATE
            cells = with_iso_texts(cells.astype(pd.api.types.pandas_dtype(DATE_TYPE)) if is_day else cells)
        is_number = isinstance(attribute, NumericAttribute) and attribute.width is None
        known = {cell: Decimal(str(cell)) if is_number else str(cell) for cell in cells.unique()}
        texts = {cell: json_texts({name: said})[name] for cell, said in known.items()}
        return [texts[cell] for cell in cells]
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        raise LawViolated(f"column {name} holds a value that the table never publishes") from None


def _kept_texts(table: Table, published: pd.DataFrame) -> dict[str, list[bytes]]:
    """The JSON texts of the kept columns of a source; a published value is read as a source's."""
    names = [column.name for column in table.kept]
    if not names:
        return {}
    alone = replace(table, source_key=(), individual=None, attributes=(), source_texts=())
    try:
        found = Encoder(alone).columns(pd.DataFrame({name: _column(published, name) for name in names})).kept
    except ConfigError as refused:
        raise LawViolated(str(refused)) from None
    return {name: column.by_row() for name, column in zip(names, found, strict=True)}
