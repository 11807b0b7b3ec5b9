"""A table of one column in the core's arrays: rows by their places, operations one by one, and what came of them."""

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
"""Kind, place, cell, published value, individual."""


class CoreTable:
    """A shard without source keys; a row's lot is its place."""

    def __init__(self, small: Table = OF_TWO) -> None:
        self.held = CoreArrays(small)
        self.texts = ValueTexts()
        self.subjects = SubjectNumbers(small)
        self.n_places = 0

    @property
    def s(self) -> Shard:
        return self.held.arrays

    def gathered(self, *operations: Operation, ends: bool = True) -> tuple[Records, np.ndarray]:
        """Operations as the core takes them; ends: they are one change."""
        run = records(len(operations), OPERATION)
        cells = np.zeros((len(operations), 1), np.int32)
        for i, (kind, place, cell, value, who) in enumerate(operations):
            run[i].kind, run[i].place, run[i].lot, run[i].who = kind, place, place, who
            run[i].values = self.texts.give((value.encode(),))
            cells[i] = cell
        if ends:
            run[-1].ends = 1
        s = self.texts.told(self.subjects.told(self.held.arrays, self.texts.untold()))
        s = capacity.with_places(s, self.n_places)
        self.held.arrays = capacity.with_individuals(s, 1 + max(who for *_, who in operations))
        return run, cells

    def run(self, *operations: Operation, ends: bool = True) -> None:
        self.held.run(*self.gathered(*operations, ends=ends))

    # -- changes --------------------------------------------------------------------------------------------------

    def next_place(self) -> int:
        self.n_places += 1
        return self.n_places - 1

    def insert(self, cell: int, value: str = "flu", who: int = NONE) -> int:
        place = self.next_place()
        self.run((INSERT, place, cell, value, who))
        return place

    def take(self, *places: int) -> None:
        self.run(*[(TAKE, place, 0, "flu", NONE) for place in places])

    def rewrite(self, place: int, cell: int, value: str = "flu") -> None:
        self.run((REWRITE, place, cell, value, NONE))

    def load(self, cell: int, value: str = "flu", who: int = NONE) -> int:
        """A row that waits."""
        place = self.next_place()
        self.run((LOAD, place, cell, value, who), ends=False)
        return place

    def form(self, *cells: int, values: tuple[str, ...] = ()) -> list[int]:
        """A QI group of new rows; returns their places."""
        places = [self.load(cell, value) for cell, value in zip(cells, values or ("flu",) * len(cells), strict=True)]
        named = [(GATHER, place, 0, "flu", NONE) for place in places]
        self.run(*named, (FORM, NONE, 0, "flu", NONE), ends=False)
        return places

    # -- what came of them ----------------------------------------------------------------------------------------

    def group(self, number: int) -> int:
        """The place of a QI group."""
        group = self.s.groups.group[: self.held.say("groups_used")]
        return int(np.flatnonzero((group.number == number) & (group.alive == 1))[0])

    def numbers(self) -> list[int]:
        group = self.s.groups.group[: self.held.say("groups_used")]
        return sorted(group.number[group.alive == 1].tolist())

    def members(self, number: int) -> list[int]:
        """Places, in no order."""
        group = self.s.groups.group[self.group(number)]
        return [int(place) for place in self.s.groups.pool[0, group.block : group.block + group.members]]

    def slots(self, number: int) -> list[str]:
        group = self.s.groups.group[self.group(number)]
        numbers = self.s.groups.pool[1, group.block : group.block + group.members].tolist()
        return [b"".join(self.texts.things[one] or ()).decode() for one in numbers]

    def cells(self, number: int) -> list[int]:
        return sorted(int(self.s.rows.cells[place, 0]) for place in self.members(number))

    def cells_by_number(self) -> dict[int, list[int]]:
        return {number: self.cells(number) for number in self.numbers()}

    def box(self, number: int) -> tuple[int, int]:
        g = self.group(number)
        return int(self.s.groups.box[g, LO, 0]), int(self.s.groups.box[g, HI, 0])
