"""A table of one column in the core's arrays: rows by their indexes, operations one by one, and what came of them."""

from __future__ import annotations

import numpy as np

from streamer.incremental.core import capacity
from streamer.incremental.core.layout import (
    FORM,
    GATHER,
    HI,
    INSERT,
    LO,
    LOAD,
    NONE,
    OPERATION,
    REWRITE,
    TAKE,
    Records,
    Shard,
    records,
)
from streamer.incremental.engine.constraints import SubjectNumbers, ValueTexts
from streamer.incremental.engine.core_arrays import CoreArrays
from streamer.table.schema import Table
from worlds.shard_tables import OF_TWO

Operation = tuple[int, int, int, str, int]
"""Kind, index, cell, published value, individual."""


class CoreTable:
    """A shard without source keys; a row's tie hash is its index."""

    def __init__(self, small: Table = OF_TWO) -> None:
        self.core = CoreArrays(small)
        self.texts = ValueTexts()
        self.subjects = SubjectNumbers(small)
        self.rows_used = 0

    @property
    def s(self) -> Shard:
        return self.core.arrays

    def gathered(self, *operations: Operation, ends: bool = True) -> tuple[Records, np.ndarray]:
        """Operations as the core takes them; ends: they are one change."""
        run = records(len(operations), OPERATION)
        cells = np.zeros((len(operations), 1), np.int32)
        for i, (kind, index, cell, value, who) in enumerate(operations):
            run[i].kind, run[i].index, run[i].tie_hash, run[i].who = kind, index, index, who
            run[i].values = self.texts.give((value.encode(),))
            cells[i] = cell
        if ends:
            run[-1].ends = 1
        s = self.texts.write_to(self.subjects.write_to(self.core.arrays, self.texts.unwritten()))
        s = capacity.with_rows(s, self.rows_used)
        self.core.arrays = capacity.with_individuals(s, 1 + max(who for *_, who in operations))
        return run, cells

    def run(self, *operations: Operation, ends: bool = True) -> None:
        self.core.run(*self.gathered(*operations, ends=ends))

    # -- changes --------------------------------------------------------------------------------------------------

    def next_index(self) -> int:
        self.rows_used += 1
        return self.rows_used - 1

    def insert(self, cell: int, value: str = "flu", who: int = NONE) -> int:
        index = self.next_index()
        self.run((INSERT, index, cell, value, who))
        return index

    def take(self, *indexes: int) -> None:
        self.run(*[(TAKE, index, 0, "flu", NONE) for index in indexes])

    def rewrite(self, index: int, cell: int, value: str = "flu") -> None:
        self.run((REWRITE, index, cell, value, NONE))

    def load(self, cell: int, value: str = "flu", who: int = NONE) -> int:
        """A row that waits."""
        index = self.next_index()
        self.run((LOAD, index, cell, value, who), ends=False)
        return index

    @classmethod
    def of(cls, small: Table, *groups: tuple[int, ...]) -> CoreTable:
        """QI groups of these cells, numbered from 1, whose rows have indexes in this order; drained."""
        world = cls(small)
        for cells in groups:
            world.form(*cells)
        world.drain()
        return world

    def drain(self) -> None:
        self.core.drain()
        self.core.mark_read()

    def form(self, *cells: int, values: tuple[str, ...] = ()) -> list[int]:
        """A QI group of new rows; returns their indexes."""
        indexes = [self.load(cell, value) for cell, value in zip(cells, values or ("flu",) * len(cells), strict=True)]
        named = [(GATHER, index, 0, "flu", NONE) for index in indexes]
        self.run(*named, (FORM, NONE, 0, "flu", NONE), ends=False)
        return indexes

    # -- what came of them ----------------------------------------------------------------------------------------

    def group(self, number: int) -> int:
        """The index of a QI group."""
        group = self.s.groups.group[: self.core.field("groups_used")]
        return int(np.flatnonzero((group.number == number) & (group.alive == 1))[0])

    def numbers(self) -> list[int]:
        group = self.s.groups.group[: self.core.field("groups_used")]
        return sorted(group.number[group.alive == 1].tolist())

    def members(self, number: int) -> list[int]:
        """Places, in no order."""
        group = self.s.groups.group[self.group(number)]
        return [int(index) for index in self.s.groups.pool[0, group.block : group.block + group.members]]

    def slots(self, number: int) -> list[str]:
        group = self.s.groups.group[self.group(number)]
        numbers = self.s.groups.pool[1, group.block : group.block + group.members].tolist()
        return [b"".join(self.texts.things[one] or ()).decode() for one in numbers]

    def cells(self, number: int) -> list[int]:
        return sorted(int(self.s.rows.cells[index, 0]) for index in self.members(number))

    def cells_by_number(self) -> dict[int, list[int]]:
        return {number: self.cells(number) for number in self.numbers()}

    def box(self, number: int) -> tuple[int, int]:
        g = self.group(number)
        return int(self.s.groups.box[g, LO, 0]), int(self.s.groups.box[g, HI, 0])
