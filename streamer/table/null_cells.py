"""Where nulls of quasi-identifiers are published, and which values of a data file are published there, too.

Whoever reads a published cell cannot tell a null that counts as a value from that value. So a cell of the nulls' own
says what it is, and one that values share claims of the nulls what nobody measured. A word for nulls that is in the
domain, too, is two things: a null as a text, and itself as a number of JSON.
"""

from __future__ import annotations

import pandas as pd

from streamer.errors import EventRefused
from streamer.table.encode import Encoder
from streamer.table.published import box_columns
from streamer.table.scalars import decimal_text, read_decimal, to_code
from streamer.table.schema import Attribute, NumericAttribute, Table
from streamer.table.source_texts import reader_of_pattern


def null_text(attribute: Attribute) -> str | None:
    """What is published of a null that stands alone: a category, or the ends of an interval; None: it is refused."""
    if attribute.null_code is None:
        return None
    cell = attribute.null_code // attribute.axis.codes_per_cell
    published = box_columns(attribute, cell, cell).values()
    return " to ".join(end if isinstance(end, str) else decimal_text(end) for end in published)


def words_that_are_values(table: Table) -> list[tuple[str, str]]:
    """Columns of numbers, with each of their `na` words that is a value of the domain and not in the nulls' cell."""
    numbers = {a.name: a for a in table.attributes if isinstance(a, NumericAttribute)}
    return [
        (text.column, word)
        for text in table.source_texts
        if (attribute := numbers.get(text.column)) is not None
        for word in text.na
        if _is_value(attribute, word, text.written)
    ]


def _is_value(attribute: NumericAttribute, word: str, written: str | None) -> bool:
    try:
        number = read_decimal(word) if written is None else reader_of_pattern(written)(word)
        code = None if number is None else to_code(attribute)(number)
    except (ValueError, EventRefused):
        return False
    if code is None or attribute.null_code is None:
        return code is not None
    return code // attribute.codes_per_cell != attribute.null_code // attribute.codes_per_cell


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
