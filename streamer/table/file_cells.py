"""A cell of a file, or a value of a DataFrame -> what it stands for in its column, as a message would have it.

A CSV file has texts only; an empty cell is a null, and a text stands for what its column's type says. A typed value of
a DataFrame counts as the text it would be in a file (`cell_text`), but that a typed number is not `written` in any way;
what is no scalar (bytes, a tuple) stays as it is, and is refused by the encoder as it is in a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd

from streamer.errors import EventRefused
from streamer.table.scalars import DIGITS_MAX, decimal_text, read_decimal
from streamer.table.schema import Table
from streamer.table.source_texts import BOOLEANS, Meaning, type_said

_BOOLEAN_TYPES = (bool, np.bool_)
_SCALARS = (str, *_BOOLEAN_TYPES, int, float, np.integer, np.floating, Decimal, date, np.datetime64, time, UUID)


class CellReader:
    """What the cells of a table's columns stand for; meanings: of the columns that are written in their own way."""

    def __init__(self, table: Table, meanings: Mapping[str, Meaning]) -> None:
        self._types = {column.name: type_said(column) for column in (*table.attributes, *table.kept)}
        self._meanings = meanings

    def value(self, name: str, cell: Any) -> object:
        """The value that a cell of a file stands for: what the source's way of writing makes of it, or its type."""
        if not isinstance(cell, str) and not is_scalar(cell):
            return cell  # the encoder says so
        text, meaning = cell_text(cell), self._meanings.get(name)
        if text and meaning is not None and isinstance(cell, str):  # a typed value is not written in any way
            try:
                meant = meaning(text)
            except EventRefused:
                return text  # the encoder says so
            if meant is not text:
                return meant
        return _from_text(self._types.get(name), text)


def _from_text(type_: str | None, text: str) -> object:
    """The value a CSV cell stands for; what its type cannot read stays text, for the encoder to refuse."""
    if text == "":
        return None
    if type_ in ("integer", "decimal"):
        number = read_decimal(text)
        return text if number is None else number
    return BOOLEANS.get(text, text) if type_ == "boolean" else text


def is_scalar(value: Any) -> bool:
    """Whether a value of a DataFrame is one that a cell of a file could have: no bytes, no list, no span of time.

    >>> [is_scalar(value) for value in (7, None, pd.NaT, b"flu", (1, 2))]
    [True, True, True, False, False]
    """
    return value is None or value is pd.NA or value is pd.NaT or isinstance(value, _SCALARS)


def told_apart(cells: pd.Series[Any]) -> pd.Series[Any]:
    """A column in which true and 1 are two, which are one for Python and in no source."""
    if cells.dtype != object or set(map(type, cells)).isdisjoint(_BOOLEAN_TYPES):
        return cells
    return cells.map(lambda cell: cell_text(cell) if isinstance(cell, _BOOLEAN_TYPES) else cell)


def cell_text(value: Any) -> str:
    """One value of a DataFrame as the text of a CSV cell; numbers as shortest decimals, a hole as an empty cell.

    >>> [cell_text(value) for value in (10.0, 0.5, True, None, "flu", float("nan"))]
    ['10', '0.5', 'true', '', 'flu', '']
    """
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()  # as messages have it
    number = read_decimal(str(value))
    return str(value) if number is None or abs(number.adjusted()) > DIGITS_MAX else decimal_text(number)
