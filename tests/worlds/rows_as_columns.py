"""Rows as columns, as statements look at them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamer.table.row import Row
from streamer.table.schema import Table


@dataclass
class RowsAsColumns:
    """Rows of a table without nulls."""

    table: Table
    rows: list[Row]

    @property
    def codes(self) -> np.ndarray:
        return np.array([row.codes for row in self.rows], dtype=np.int64).reshape(-1, self.table.space.d)

    @property
    def exact(self) -> list[tuple[str, ...]]:
        return [row.exact for row in self.rows]

    @property
    def values(self) -> list[tuple[bytes, ...]]:
        return [row.values for row in self.rows]

    @property
    def nulls(self) -> np.ndarray:
        return np.zeros((len(self.rows), self.table.space.d), dtype=np.bool_)
