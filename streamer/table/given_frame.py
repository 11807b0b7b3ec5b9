"""A DataFrame of people, as a call from Python is given it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pandas as pd

from streamer.errors import UsageError
from streamer.table.schema import Table


def require_frame(call: str, frame: object) -> None:
    """Raises UsageError if a call was not given a DataFrame."""
    if not isinstance(frame, pd.DataFrame):
        raise UsageError(f"{call} takes a pandas DataFrame of people, not {type(frame).__name__}")


def with_index(frame: pd.DataFrame, table: Table) -> pd.DataFrame:
    """The frame, in which the levels of its index that the table names are columns like all others."""
    levels = [name for name in frame.index.names if name in table.named and name not in frame.columns]
    return frame.reset_index(level=levels) if levels else frame


def without_absent_key(table: Table, columns: Iterable[object]) -> Table:
    """The table without its key if the data has none of its columns: a whole table needs no key."""
    return replace(table, source_key=()) if set(table.source_key).isdisjoint(columns) else table
