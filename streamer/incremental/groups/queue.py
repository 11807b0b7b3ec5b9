"""Operations on their way to the core: gathered change by change, run many at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamer.incremental.core.record_types import INSERT, NONE, OPERATION, Records
from streamer.incremental.groups.held import Held
from streamer.incremental.groups.lots import lot
from streamer.incremental.groups.rows import Rows
from streamer.table.row import Row


class Queue:
    """What the core has still to do for one shard, and which source keys it was done for since the last drain."""

    def __init__(self, rows: Rows, held: Held, secret: bytes) -> None:
        self._rows = rows
        self._held = held
        self.secret = secret
        self._operations: list[tuple[int, int, int, int, int, int]] = []
        self._codes: list[tuple[int, ...]] = []
        self._at: list[int] = []
        self._touched: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._operations)

    def add(self, kind: int, place: int = NONE, row: Row | None = None) -> None:
        """An operation on a row; row: its contents afterwards, where they are written."""
        values = who = NONE
        drawn = 0
        if place != NONE:
            source_key = self._rows.source_keys[place]
            self._touched[source_key] = None
            if kind == INSERT:
                drawn = lot(self.secret, source_key)
        if row is not None:
            values, who = self._rows.values.give(row.values), self._rows.who(row)
            self._codes.append(row.codes)
            self._at.append(len(self._operations))
        self._operations.append((drawn, kind, place, values, who, 0))

    def end(self) -> None:
        """A change is complete: what it broke is repaired behind its last operation."""
        if self._operations and self._operations[-1][5] == 0:
            self._operations[-1] = (*self._operations[-1][:5], 1)

    def run(self) -> bool:
        """Runs what there is. Raises LawViolated."""
        if not self._operations:
            return False
        self._held.run(*self._taken())
        return True

    def drain(self) -> None:
        """Runs what there is, and drains. Raises LawViolated."""
        if self._operations:
            self._held.drain(*self._taken())
        else:
            self._held.drain()

    def _taken(self) -> tuple[Records, Any]:
        """What there is as arrays; the rows are written, as far as they are not the core's."""
        self._rows.write()
        n, d = len(self._operations), self._rows.d
        operations = np.array(self._operations, dtype=OPERATION).view(np.recarray)
        cells = np.zeros((n, d), dtype=np.int32)
        if self._codes:
            cells[self._at] = self._rows.cells_of(np.array(self._codes, dtype=np.int64))
        self._operations, self._codes, self._at = [], [], []
        return operations, cells

    def take_touched(self) -> dict[str, None]:
        """Source keys of the rows that operations were run for; the next batch begins."""
        taken, self._touched = self._touched, {}
        return taken
