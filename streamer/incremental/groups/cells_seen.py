"""Which cells the rows of every published QI group are in, for a form that publishes them (`form: lossy-join`).

The core nets what readers see of boxes and values; cells within a box it does not remember. So they are gathered here
from the members, when a QI group was touched, and held against those of the last time: once for each group, as bytes.
Other forms do not publish them, and nobody gathers them there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TypeAlias

import numpy as np

from streamer.incremental.groups.kept import QIGroupState
from streamer.incremental.release.published_group import PublishedGroup
from streamer.table.arrays import Ints
from streamer.table.vectors import row_numbers

Seen: TypeAlias = tuple[int, PublishedGroup | None, PublishedGroup | None]
"""Number of a QI group, and the group as readers see it before and after."""

CellsOf: TypeAlias = Callable[[Iterable[str]], Ints]
"""The cells (n, d) of the rows with some source keys."""


class CellsSeen:
    """The distinct cells of every published QI group of one shard. d: number of quasi-identifiers."""

    def __init__(self, d: int) -> None:
        self._d = d
        self._cells: dict[int, bytes] = {}

    def begin(self, numbers: Ints, cells: Ints) -> None:
        """Takes note of a table as it is published. numbers: QI group of each row, int64 (n,); cells (n, d)."""
        self._cells = dict(_gathered(numbers, cells))

    def completed(
        self, published: Iterable[Seen], touched: Mapping[int, QIGroupState | None], cells_of: CellsOf
    ) -> list[Seen]:
        """The QI groups in which readers see a difference, cells counted, by number.

        published: those whose box or values differ; touched: all that changed, as they are now.
        """
        there = {number: state for number, state in touched.items() if state is not None}
        now = self._now(there, cells_of)
        seen = {number: (before, after) for number, before, after in published}
        for number, state in there.items():
            if number not in seen and now[number] != self._cells[number]:
                same = PublishedGroup(state.lo, state.hi, state.slots)
                seen[number] = same, same
        completed = [
            (number, self._with(before, self._cells.get(number)), self._with(after, now.get(number)))
            for number, (before, after) in sorted(seen.items())
        ]
        for number in touched:
            self._cells.pop(number, None)
        self._cells.update(now)
        return completed

    def _now(self, there: Mapping[int, QIGroupState], cells_of: CellsOf) -> dict[int, bytes]:
        sizes = [len(state.members) for state in there.values()]
        numbers = np.repeat(np.fromiter(there, np.int64, len(there)), sizes)
        members = chain.from_iterable(state.members for state in there.values())
        return dict(_gathered(numbers, cells_of(members))) if there else {}

    def _with(self, group: PublishedGroup | None, cells: bytes | None) -> PublishedGroup | None:
        if group is None or cells is None:
            return None
        vectors = np.frombuffer(cells, np.int32).reshape(-1, self._d).tolist()
        return PublishedGroup(group.lo, group.hi, group.slots, tuple(map(tuple, vectors)))


def _gathered(numbers: Ints, cells: Ints) -> Iterable[tuple[int, bytes]]:
    """The distinct cells of every QI group, in order, as bytes of int32."""
    rows = np.column_stack([numbers, cells])
    _, first = np.unique(row_numbers(rows), return_index=True)
    distinct = rows[first]
    ends = np.flatnonzero(np.diff(distinct[:, 0], append=-1)) + 1
    start = 0
    for end in ends.tolist():
        yield int(distinct[start, 0]), distinct[start:end, 1:].astype(np.int32).tobytes()
        start = end
