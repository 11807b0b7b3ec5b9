"""The core's arrays of one shard: runs operations over them, and enlarges them when the core runs out of capacity."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamer.errors import LawViolated
from streamer.incremental.core import capacity, layout, step
from streamer.incremental.core.layout import OPERATION, STATE, Shard, empty_shard
from streamer.incremental.engine.constraints import counted_by_k, demands_of, laws_asked
from streamer.table.arrays import Ints, Records, records
from streamer.table.schema import Table

BROKEN_LAWS = {
    layout.NOTHING_TO_MERGE_WITH: "QI group {} has nothing to merge with, and is not the only one",
    layout.MISCOUNTED: "QI group {} miscounts its rows or individuals",
    layout.BELOW_K: "QI group {} holds fewer than the k = {} it needs",
    layout.OUTSIDE_ITS_BOX: "QI group {} has a row outside its box",
    layout.WIDER_THAN_ITS_ROWS: "QI group {} has a box that is wider than its rows",
    layout.BREAKS_MODEL: "QI group {} holds k and breaks the rest of the privacy model",
}

AT = {name: i for i, name in enumerate(STATE.names or ())}
"""Indexes of the fields of the state, eight bytes each."""


class CoreArrays:
    """The arrays of a shard. Every call may replace `arrays`: read the attribute again after each."""

    def __init__(self, table: Table) -> None:
        self._k = counted_by_k(table)
        self._nothing = records(0, OPERATION), np.zeros((0, table.space.d), np.int32)
        self._is_drained = False
        demands, repair, has_individuals = demands_of(table), table.repair, table.individual is not None
        self.arrays: Shard = empty_shard(
            table.space, self._k, table.recut, table.shrink, has_individuals, demands, repair.price, repair.share,
            laws_asked(table),
        )  # fmt: skip
        self._state: Ints = self.arrays.state.view(np.ndarray).view(np.int64)

    def field(self, name: str) -> int:
        return int(self._state[AT[name]])

    def run(self, operations: Records, cells: Any) -> None:
        """Applies operations (n,) with cells (n, d) int32. Raises LawViolated."""
        self._advance(operations, cells, drains=False)

    def drain(self, operations: Records | None = None, cells: Any = None) -> None:
        """Applies operations, if any, and exports the net effect of the batch. Raises LawViolated.

        Until `mark_read` it can be exported again, and nothing else may run, which would lose it.
        """
        if operations is not None:
            self._advance(operations, cells, drains=True)
        elif not self._is_drained:
            self._advance(*self._nothing, drains=True)
        self._is_drained = True

    def mark_read(self) -> None:
        """Notes that the net effect was read."""
        self._is_drained = False

    def _advance(self, operations: Records, cells: Any, drains: bool) -> None:
        if self._is_drained:
            raise LawViolated("a batch begins before the net effect of the one before it was read")
        first = step.advance(self.arrays, operations, cells, 0, drains)
        while self._grew():
            first = step.advance(self.arrays, operations, cells, first, drains)

    def restore(self) -> None:
        """Puts groups that were written into the arrays into the tree."""
        first = step.restore(self.arrays, 0)
        while self._grew():
            first = step.restore(self.arrays, first)

    def _grew(self) -> bool:
        """True if the last call ran out of capacity, which there is now."""
        fault = self.field("fault")
        if fault:
            raise LawViolated(BROKEN_LAWS[fault].format(self.field("fault_at"), self._k))
        if not self.field("short"):
            return False
        self.arrays = capacity.grow(self.arrays)
        return True
