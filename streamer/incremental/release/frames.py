"""A folded table as DataFrames, in the types of `streamer.table.typed_frame`: one, or the two of a lossy join.

Rows stand by shard, number of the QI group and slot. A QI group that is published whole has a row for every combination
of its kept values, with the number of its rows that have it in `count`; so has the sensitive table of a lossy join.
Whoever keeps a copy of the table current asks for *recorded* frames: their first column, `_record`, is the key of the
record that a row came with, and goes with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

import pandas as pd

from streamer.errors import LawViolated, StreamerError, needs_extra
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

PUBLISHED, QIT, STT = "live", "qit", "stt"
"""What the frames are called."""

RECORD = "_record"
"""The column of a recorded frame that says which record a row came with."""

FRAMES_OF = {LOSSY_JOIN: (QIT, STT)}

Stored = Iterable[tuple[bytes, bytes]]
"""Key and value of every record of a folded table."""

Recorded = tuple[bytes, Mapping[str, object]]
"""The key of a record, and a row that came with it."""


def frame_names(table: Table) -> tuple[str, ...]:
    """The frames of a table's form, in order."""
    return FRAMES_OF.get(table.form, (PUBLISHED,))


def frames(table: Table, stored: Stored) -> dict[str, pd.DataFrame]:
    """The folded table by `frame_names`. Raises LawViolated for what is not of the published form."""
    return {name: frame.iloc[:, 1:] for name, frame in recorded_frames(table, stored).items()}


def recorded_frames(table: Table, stored: Stored) -> dict[str, pd.DataFrame]:
    """The same with the column `_record` before all others: the key, as text, of the record a row came with."""
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
    qit, stt = (sorted(rows, key=_place) for rows in two)
    return {
        QIT: _frame(table, qit_columns(table), qit),
        STT: _counted(_frame(table, stt_columns(table), stt)),
    }


def _place(recorded: Recorded) -> tuple[int, int]:
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
    """With numbers of rows as whole numbers."""
    try:
        return frame.astype({COUNT: "int64"})
    except (TypeError, ValueError):
        raise _foreign() from None


def _foreign() -> LawViolated:
    return LawViolated("a row does not have the published columns in their types")


# The published table in Arrow's types, the same for every row and every moment, and nothing rounded.
#
# * The types follow from table.yaml alone, so that files written a year apart are one dataset. Ends of intervals are
#   what they are in a DataFrame (`streamer.table.typed_frame`): int64 or float64, else decimal128 with all their
#   digits.
# * A kept column that is declared integer or boolean is int64 or bool. Any other is text, a number its shortest
#   decimal: what a table.yaml calls decimal may have any number of digits, and no type of Arrow holds them all.
# * A whole number beyond int64 in a kept column is refused, with the remedy: a column cannot change its type.
# * pyarrow is asked for when it is needed: who reads CSV need not install it.

DECIMAL128_DIGITS = 38
"""Digits that a decimal128 has; an end of an interval has 27 at most."""


def require(module: str, extra: str) -> Any:
    """A library that only some installations have. Raises LibraryMissing, which names the extra."""
    with needs_extra(extra):
        return import_module(module)


def arrow_types(table: Table) -> dict[str, Any]:
    """The Arrow type of every column that any frame of the table has."""
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
    for name in frame.columns:
        values = frame[name]
        if name in {column.name for column in table.kept} and types[name] == arrow.string():
            values = values.map(lambda value: None if pd.isna(value) else cell_text(value))
        try:
            columns[name] = arrow.array(values, type=types[name], from_pandas=True)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError, OverflowError):
            raise StreamerError(
                f"column {name!r} holds a number beyond 64 bits: declare it `type: text` in table.yaml"
            ) from None
    return arrow.table(columns)
