"""A published table in Arrow's types: the same for every row and at any time, and nothing rounded.

* They follow from table.yaml alone, so files written a year apart are one dataset. Ends of intervals are as in a
  DataFrame, int64 or float64, else decimal128 with all their digits.
* A kept column that is declared integer or boolean is int64 or bool. Every other one is text, a number its shortest
  decimal: a `decimal` may have any number of digits, and no Arrow type holds them all.
* A whole number beyond int64 in a kept column is refused with the remedy: a column cannot change its type.
* pyarrow is imported when it is needed: who writes CSV need not install it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pandas as pd

from streamer.errors import StreamerError, needs_extra
from streamer.table.codes import NumericAttribute, cell_text
from streamer.table.published.groups import COUNT
from streamer.table.published.rows import interval_columns
from streamer.table.schema import Table
from streamer.table.typed_frame import DATE_TYPE, column_types

RECORD = "_record"
"""The column of the keys of records, for those who keep a copy of a changelog's table current."""


def require(module: str, extra: str) -> Any:
    """An optional library. Raises LibraryMissing, which names the extra."""
    with needs_extra(extra):
        return import_module(module)


def arrow_types(table: Table) -> dict[str, Any]:
    """The Arrow type of every column of the table's frames."""
    arrow = require("pyarrow", "parquet")
    same = {
        "str": arrow.string(),
        "int64": arrow.int64(),
        "float64": arrow.float64(),
        DATE_TYPE: arrow.date32(),
        "datetime64[us]": arrow.timestamp("us"),
        "datetime64[us, UTC]": arrow.timestamp("us", tz="UTC"),
    }
    types = {name: same.get(kind) for name, kind in column_types(table).items()}
    for attribute in table.attributes:
        if isinstance(attribute, NumericAttribute) and types[interval_columns(attribute.name)[0]] is None:
            ends = arrow.decimal128(38, attribute.places)  # all its digits; an end of an interval has at most 27
            types |= dict.fromkeys(interval_columns(attribute.name), ends)
    declared = {"integer": arrow.int64(), "boolean": arrow.bool_()}
    kept = {column.name: declared.get(str(column.type), arrow.string()) for column in table.kept}
    return {RECORD: arrow.string(), **types, **kept, COUNT: arrow.int64()}


def to_arrow(table: Table, frame: pd.DataFrame) -> Any:
    """A frame of the published table as a pyarrow.Table. Raises StreamerError, ConfigError."""
    arrow = require("pyarrow", "parquet")
    types = arrow_types(table)
    columns = {}
    for name in frame.columns:  # the individuals of a whole table's lossy join have the type that they come in
        values = frame[name]
        if name in {column.name for column in table.kept} and types[name] == arrow.string():
            values = values.map(lambda value: None if pd.isna(value) else cell_text(value))
        try:
            columns[name] = arrow.array(values, type=types.get(name), from_pandas=True)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError, OverflowError):
            raise StreamerError(
                f"column {name!r} holds a number beyond 64 bits: declare it `type: text` in table.yaml"
            ) from None
    return arrow.table(columns)
