"""The core by itself: operations go into its arrays one by one, over single years, with values that are letters."""

from __future__ import annotations

import numpy as np

from streamer.incremental.core import capacity, step
from streamer.incremental.core.layout import HI, INSERT, LO, NONE, OPERATION, REWRITE, TAKE, Shard, empty_shard, records
from worlds.checked_arrays import check_arrays, members_of
from worlds.small_tables import YEARS, table

Operation = tuple[int, int, int, int, int, int]
"""Kind, index, year, values, individual, whether it ends a change."""


def insert(index: int, year: int, values: int = 0, who: int = NONE, ends: int = 1) -> Operation:
    return INSERT, index, year, values, who, ends


def rewrite(index: int, year: int, values: int = 0, ends: int = 1) -> Operation:
    return REWRITE, index, year, values, NONE, ends


def take(index: int, ends: int = 1) -> Operation:
    return TAKE, index, 0, NONE, NONE, ends


class CoreShard:
    """A shard's arrays and the core over them. Values number i are the i-th letter."""

    def __init__(self, k: int = 2, recut: bool = True, shrink: bool = True, individuals: bool = False) -> None:
        s = empty_shard(table(YEARS).space, k, recut, shrink, individuals)
        s = capacity.with_individuals(capacity.with_rows(s, 100), 100 if individuals else 0)
        s = capacity.with_values(s, 26, 26)
        s.values.text[:26] = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
        s.values.value.at[:26], s.values.value.length[:26] = np.arange(26), 1
        s.values.value.prefix[:26] = s.values.text[:26].astype(np.uint64) << np.uint64(56)
        self.s: Shard = s

    def do(self, *operations: Operation, drains: bool = False) -> None:
        """Applies operations and, if wanted, drains; the arrays hold together afterwards."""
        given, cells = records(len(operations), OPERATION), np.zeros((len(operations), 1), np.int32)
        for i, (kind, index, year, values, who, ends) in enumerate(operations):
            given[i] = (index * 7919 % 1009, kind, index, values, who, ends)
            cells[i] = year
        done = step.advance(self.s, given, cells, 0, drains)
        while self.s.state.short[0]:
            self.s = capacity.grow(self.s)
            done = step.advance(self.s, given, cells, done, drains)
        if not self.s.state.fault[0] and not self.s.state.event_open[0] and (not operations or operations[-1][-1]):
            check_arrays(self.s)

    def drain(self) -> list[int]:
        """The numbers of the export."""
        self.do(drains=True)
        return list(map(int, self.s.export.numbers[: int(self.s.state.n_numbers[0])]))

    def index_of(self, number: int) -> int:
        """Where the QI group of this number stands."""
        (g,) = [g for g in self.alive() if self.s.groups.group[g].number == number]
        return g

    def alive(self) -> list[int]:
        return [g for g in range(int(self.s.state.groups_used[0])) if self.s.groups.group[g].alive]

    def groups(self) -> dict[int, set[int]]:
        """Members by number."""
        return {int(self.s.groups.group[g].number): set(members_of(self.s, g)) for g in self.alive()}

    def box(self, number: int) -> tuple[int, int]:
        lo, hi = self.s.groups.box[self.index_of(number), (LO, HI), 0].tolist()
        return lo, hi

    def slots(self, number: int) -> str:
        """Letters by slot."""
        group = self.s.groups.group[self.index_of(number)]
        return "".join(chr(97 + v) for v in self.s.groups.pool[1, group.block : group.block + group.members].tolist())
