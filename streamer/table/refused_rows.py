"""Rows of a data file that table.yaml refuses: which they are and why, without their values; and the file without them.

A key that comes twice is refused from the second time on, in the order of the file, as a stream of insertions would.
Where rows say how they shall be, as upserts do, the last one of a key counts, and none is refused for its key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from streamer.errors import EventRefused
from streamer.table.encode import Encoder
from streamer.table.schema import Table


class RefusedRow(NamedTuple):
    """A row that is refused: its number (the first one is 1), the reason of the refusal, the column at fault."""

    data_row: int
    reason: str
    column: str


def refused_rows(table: Table, frame: pd.DataFrame, *, upserts: bool = False) -> list[RefusedRow]:
    """The rows that would be refused, in the order of the file; upserts: keys may come twice.

    Raises ConfigError if a column is missing.
    """
    return list(_refused(table, frame, upserts))


def without_refused(frame: pd.DataFrame, refused: Sequence[RefusedRow]) -> pd.DataFrame:
    """The rows that are left."""
    kept = np.ones(len(frame), dtype=bool)
    kept[[row.data_row - 1 for row in refused]] = False
    return frame[kept]


def counted(refused: Sequence[RefusedRow]) -> list[tuple[str, str, int]]:
    """Reason, column and number of rows, the most frequent ones first."""
    counts = Counter((row.reason, row.column) for row in refused)
    return [(reason, column, rows) for (reason, column), rows in counts.most_common()]


def _refused(table: Table, frame: pd.DataFrame, upserts: bool) -> Iterator[RefusedRow]:
    encoder, known = Encoder(table), set()
    columns = encoder.named_columns(frame)
    for number, texts in enumerate(zip(*(frame[name].tolist() for name in columns), strict=True), start=1):
        fields = encoder.fields(dict(zip(columns, texts, strict=True)))
        try:
            source_key = encoder.source_key(fields) if table.source_key else str(number)
            encoder.row(fields)
        except EventRefused as refused:
            yield RefusedRow(number, refused.reason, refused.column or "")
            continue
        if source_key in known and not upserts:
            yield RefusedRow(number, "key-exists", ", ".join(table.source_key))
        known.add(source_key)
