"""Where nulls of quasi-identifiers are published, and which values of a data file are published there, too.

A reader of a published cell cannot tell a null that counts as a value from that value. So nulls should have a cell of
their own: in one that they share with values, they are published as measured.
"""

from __future__ import annotations

import pandas as pd

from streamer.table.attributes import Attribute
from streamer.table.encode import Encoder
from streamer.table.published import box_columns
from streamer.table.scalars import decimal_text
from streamer.table.schema import Table


def null_text(attribute: Attribute) -> str | None:
    """What is published of a null that stands alone: a category, or the ends of an interval; None: it is refused."""
    if attribute.null_code is None:
        return None
    cell = attribute.null_code // attribute.axis.codes_per_cell
    published = box_columns(attribute, cell, cell).values()
    return " to ".join(end if isinstance(end, str) else decimal_text(end) for end in published)


def beside_nulls(table: Table, frame: pd.DataFrame) -> dict[str, int]:
    """By column, how many rows that are no null lie in the cell of the nulls; columns without such rows are left out.

    frame: rows that table.yaml accepts.
    """
    encoder, found = Encoder(table), {}
    for j, attribute in enumerate(table.attributes):
        if attribute.null_code is None:
            continue
        per_cell, rows = attribute.axis.codes_per_cell, 0
        for text, count in frame[attribute.name].value_counts(dropna=False).items():
            value = encoder.fields({attribute.name: str(text)})[attribute.name]
            is_there = value is not None and encoder.code(j, value)[0] // per_cell == attribute.null_code // per_cell
            rows += int(count) * is_there
        if rows:
            found[attribute.name] = rows
    return found
