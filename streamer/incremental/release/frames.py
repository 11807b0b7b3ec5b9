"""A folded table as DataFrames, in the types of `streamer.table.typed_frame`: one frame, or the two of a lossy join.

Rows are sorted by shard, number of the QI group and slot. A QI group that is published whole has a row for every
combination of its kept values, with its number of rows in `count`; so has the sensitive table of a lossy join. A
*recorded* frame has one more column, `_record`, before all others: the key of the record that the row came with, for
those who keep a copy of the table current.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

import pandas as pd

from streamer.errors import LawViolated, StreamerError, needs_extra
from streamer.incremental.topics import LIVE, QIT, STT, outputs_of
from streamer.table.attributes import NumericAttribute
from streamer.table.published.groups import COUNT, VALUES, JoinReader, parse_group_key, qit_columns, stt_columns
from streamer.table.published.rows import (
    all_box_columns,
    interval_columns,
    parse_key,
    parse_qi_group,
    published_columns,
)
from streamer.table.schema import GROUPS, LOSSY_JOIN, Table
from streamer.table.source_texts import cell_text
from streamer.table.typed_frame import DATE_TYPE, column_types, decode_json, places_of_ends, typed_frame

PUBLISHED = LIVE
"""The name of the frame if there is one; those of a lossy join are called QIT and STT."""

RECORD = "_record"

Stored = Iterable[tuple[bytes, bytes]]
"""Key and value of every record of a folded table."""

Recorded = tuple[bytes, Mapping[str, object]]
"""The key of a record, and a row that came with it."""


def frame_names(table: Table) -> tuple[str, ...]:
    """The names of a table's frames, in order."""
    return outputs_of(table.form)


def frames(table: Table, stored: Stored) -> dict[str, pd.DataFrame]:
    """The folded table by `frame_names`. Raises LawViolated for a row that is not of the published form."""
    return {name: frame.iloc[:, 1:] for name, frame in recorded_frames(table, stored).items()}


def recorded_frames(table: Table, stored: Stored) -> dict[str, pd.DataFrame]:
    """The same with the column `_record` before all others: the key of the record, as text."""
    if table.form == LOSSY_JOIN:
        return _of_lossy_join(table, stored)
    of_form = _of_groups if table.form == GROUPS else _of_rows
    return {PUBLISHED: of_form(table, stored)}


def _of_rows(table: Table, stored: Stored) -> pd.DataFrame:
    placed = sorted((parse_key(key), key, value) for key, value in stored)
    rows = ((key, _decoded(value)) for _, key, value in placed)
    return _frame(table, published_columns(table), rows)


def _of_groups(table: Table, stored: Stored) -> pd.DataFrame:
    placed = sorted((parse_group_key(key), key, value) for key, value in stored)
    box = ("qi_group", *all_box_columns(table))
    rows = (
        (key, {name: group[name] for name in box if name in group} | entry)
        for key, group in ((key, _decoded(value)) for _, key, value in placed)
        for entry in _entries(group)
    )
    return _counted(_frame(table, (*published_columns(table), COUNT), rows))


def _of_lossy_join(table: Table, stored: Stored) -> dict[str, pd.DataFrame]:
    reader = JoinReader(table)
    two: tuple[list[Recorded], list[Recorded]] = ([], [])
    for key, value in sorted(stored):
        two[not reader.is_qit_key(key)].append((key, _decoded(value)))
    qit, stt = (sorted(rows, key=_qi_group) for rows in two)
    return {
        QIT: _frame(table, qit_columns(table), qit),
        STT: _counted(_frame(table, stt_columns(table), stt)),
    }


def _qi_group(recorded: Recorded) -> tuple[int, int]:
    return parse_qi_group(str(recorded[1].get("qi_group")))


def _decoded(text: bytes) -> dict[str, object]:
    try:
        decoded = decode_json(text)
    except ValueError:  # msgspec's own errors are ValueErrors
        raise _foreign() from None
    if not isinstance(decoded, dict):
        raise _foreign()
    return decoded


def _frame(table: Table, names: Sequence[str], rows: Iterable[Recorded]) -> pd.DataFrame:
    columns: dict[str, list[object]] = {name: [] for name in names}
    records: list[str] = []
    try:
        for record, row in rows:
            records.append(record.decode())
            for name, column in columns.items():
                column.append(row[name])
        frame = typed_frame(table, columns)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        raise _foreign() from None
    frame.insert(0, RECORD, pd.Series(records, dtype="str"), allow_duplicates=True)
    return frame


def _entries(group: Mapping[str, object]) -> list[dict[str, object]]:
    entries = group.get(VALUES)
    if not isinstance(entries, list):
        raise _foreign()
    return entries


def _counted(frame: pd.DataFrame) -> pd.DataFrame:
    try:
        return frame.astype({COUNT: "int64"})
    except (TypeError, ValueError):
        raise _foreign() from None


def _foreign() -> LawViolated:
    return LawViolated("a row does not have the published columns in their types")


# -- Arrow's types: the same for every row and at any time, and nothing rounded
#
# * They follow from table.yaml alone, so files written a year apart are one dataset. Ends of intervals are as in a
#   DataFrame, int64 or float64, else decimal128 with all their digits.
# * A kept column that is declared integer or boolean is int64 or bool. Every other one is text, a number its shortest
#   decimal: a `decimal` may have any number of digits, and no Arrow type holds them all.
# * A whole number beyond int64 in a kept column is refused with the remedy: a column cannot change its type.
# * pyarrow is imported when it is needed: who writes CSV need not install it.

DECIMAL128_DIGITS = 38
"""The digits of a decimal128; an end of an interval has at most 27."""


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
            ends = arrow.decimal128(DECIMAL128_DIGITS, places_of_ends(attribute))
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
