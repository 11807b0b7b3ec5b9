"""A folded table as DataFrames, in the types of `streamer.table.typed_frame`: one frame, or the two of a lossy join.

Rows are sorted by shard, number of the QI group and slot. A QI group that is published whole has a row for every
combination of its kept values, with its number of rows in `count`; so has the sensitive table of a lossy join. A
*recorded* frame has one more column, `_record`, before all others: the key of the record that the row came with, for
those who keep a copy of the table current.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from streamer.errors import LawViolated
from streamer.incremental.topics import LIVE, QIT, STT, outputs_of
from streamer.table.arrow_table import RECORD
from streamer.table.published.groups import COUNT, VALUES, JoinReader, parse_group_key, qit_columns, stt_columns
from streamer.table.published.rows import all_box_columns, parse_key, parse_qi_group, published_columns
from streamer.table.schema import GROUPS, LOSSY_JOIN, Table
from streamer.table.typed_frame import decode_json, typed_frame

PUBLISHED = LIVE
"""The name of the frame if there is one; those of a lossy join are called QIT and STT."""

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
    """The folded table with the column `_record` before all others: the key of the record, as text."""
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
    return {QIT: _frame(table, qit_columns(table), qit), STT: _counted(_frame(table, stt_columns(table), stt))}


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
