"""A shard in the core's arrays, without source keys: operations one by one, cuts, and what must hold after them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np

from streamer.incremental.core import capacity
from streamer.incremental.core.cut import cut
from streamer.incremental.core.layout import (
    FORM,
    FREE,
    GATHER,
    HI,
    INSERT,
    LO,
    LOAD,
    LOSS_UNITS,
    NO_GROUP_YET,
    NONE,
    OPERATION,
    REWRITE,
    ROW,
    TAKE,
    CoreRows,
    Shard,
    empty_shard,
)
from streamer.incremental.core.tree import is_withheld
from streamer.incremental.engine.constraints import SubjectNumbers, ValueTexts
from streamer.incremental.engine.core_arrays import CoreArrays
from streamer.table.arrays import Ints, Records, records
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.engine_tables import OF_TWO
from worlds.twin import Twin


def check_arrays(s: Shard) -> None:
    """Raises AssertionError where one array says other than another. Between changes, or drained."""
    alive = [g for g in range(int(s.state.groups_used[0])) if s.groups.group[g].alive]
    assert int(s.state.n_groups[0]) == len(alive)
    assert int(s.state.n_grouped[0]) == sum(len(members_of(s, g)) for g in alive)
    shown = [g for g in alive if not is_withheld(s.groups, g, len(s.space.axes))]
    losses = [len(members_of(s, g)) * int(s.groups.group[g].ncp * LOSS_UNITS + 0.5) for g in shown]
    assert int(s.state.loss[0]) == sum(losses)
    assert not s.work.heap_size[:].any()
    _check_rows(s, alive)
    _check_counts(s, alive)
    check_blocks(s, alive)
    _check_free_groups(s, alive)


def rows_there(s: Shard) -> list[int]:
    """Indexes of all rows."""
    return [p for p in range(int(s.state.rows_used[0])) if s.rows.row[p].group != FREE]


def members_of(s: Shard, g: int) -> list[int]:
    """Indexes of a QI group's members."""
    group = s.groups.group[g]
    members: list[int] = s.groups.pool[0, group.block : group.block + group.members].tolist()
    return members


def slots_of(s: Shard, g: int) -> list[int]:
    """Numbers of a QI group's values, slot by slot."""
    group = s.groups.group[g]
    slots: list[int] = s.groups.pool[1, group.block : group.block + group.members].tolist()
    return slots


def indexes_by_number(s: Shard) -> dict[int, int]:
    """Where each QI group stands, by its number."""
    used = range(int(s.state.groups_used[0]))
    return {int(s.groups.group[g].number): g for g in used if s.groups.group[g].alive}


def box_of(s: Shard, g: int) -> tuple[int, int]:
    """First and last cell of a QI group's only column."""
    lo, hi = s.groups.box[g, (LO, HI), 0].tolist()
    return lo, hi


def _check_rows(s: Shard, alive: list[int]) -> None:
    for g in alive:
        members = members_of(s, g)
        assert [int(s.rows.row[p].group) for p in members] == [g] * len(members)
        assert [int(s.rows.row[p].at) for p in members] == list(range(len(members)))
        assert Counter(slots_of(s, g)) == Counter(int(s.rows.row[p]["values"]) for p in members)
        assert not s.groups.group[g].raw
    inside = [p for p in rows_there(s) if s.rows.row[p].group != NO_GROUP_YET]
    assert sorted(inside) == sorted(p for g in alive for p in members_of(s, g))


def _check_counts(s: Shard, alive: list[int]) -> None:
    rows = Counter((int(s.rows.row[p].group), int(s.rows.row[p].who)) for p in rows_there(s))
    assert int(s.state.n_pending[0]) == sum(n for (g, _), n in rows.items() if g == NO_GROUP_YET)
    tallied = Counter(rows if s.state.individuals[0] else {})
    for c in range(len(s.demands.demand)):
        tallied.update(_checked_demand(s, c, alive))
    kept = zip(s.work.tally.key.tolist(), s.work.tally.n.tolist(), strict=True)
    assert {key: n for key, n in kept if n} == {(g << 32) + who: n for (g, who), n in tallied.items()}
    assert int(s.state.tally_used[0]) == len(tallied)
    assert 2 * len(tallied) <= len(s.work.tally.n)
    counted = Counter(dict.fromkeys((NO_GROUP_YET, *alive), 0))
    for (g, _), n in rows.items():
        counted[g] += 1 if s.state.individuals[0] else n
    assert int(s.state.pending_count[0]) == counted.pop(NO_GROUP_YET)
    assert {g: int(s.groups.group[g].count) for g in alive} == counted


def _checked_demand(s: Shard, c: int, alive: list[int]) -> Counter[tuple[int, int]]:
    """What one demand has reached is what the rows say; returns what the tally has to hold for it."""
    demand = s.demands.demand[c]
    counted = Counter[tuple[int, int]]()
    for p in rows_there(s):
        row = s.rows.row[p]
        code = int(row.who) if demand.of_individuals else int(s.demands.code[row["values"], c])
        if code != NONE:
            counted[int(row.group), code] += 1
    shares = demand.numerator < demand.denominator
    for g in (NO_GROUP_YET, *alive):
        sizes = [n for (group, _), n in counted.items() if group == g]
        reached, top = s.demands.reached[g + 1, c], max(sizes, default=0) if shares else 0
        assert (reached.distinct, reached.single, reached.top) == (len(sizes), sizes.count(1), top)
    unused = set(range(-1, int(s.state.groups_used[0]))) - {NO_GROUP_YET, *alive}
    assert not any(s.demands.reached[g + 1, c].distinct or s.demands.reached[g + 1, c].top for g in unused)
    levels = Counter((-3 - group, n * len(s.demands.demand) + c) for (group, _), n in counted.items() if shares)
    return levels + (Counter() if demand.of_individuals else counted)


def check_blocks(s: Shard, alive: list[int]) -> None:
    """Blocks, those in use and the free ones, lie side by side and fill what has been used of the pool."""
    blocks = [(int(s.groups.group[g].block), int(s.groups.group[g].block_bits)) for g in alive]
    for room, first in enumerate(s.groups.block_free.tolist()):
        while first != NONE:
            blocks.append((first, room))
            first = int(s.groups.pool[0, first])
    ends = [0, *(at + (1 << room) for at, room in sorted(blocks))]
    assert [at for at, _ in sorted(blocks)] == ends[:-1]
    assert int(s.state.pool_used[0]) == ends[-1] <= s.groups.pool.shape[1]
    assert all(s.groups.group[g].members <= 1 << s.groups.group[g].block_bits for g in alive)


def _check_free_groups(s: Shard, alive: list[int]) -> None:
    free, g = list[int](), int(s.state.group_free[0])
    while g != NONE:
        free.append(g)
        g = int(s.groups.group[g].next_free)
    gone: list[Any] = s.journal.gone[: int(s.state.n_gone[0])].tolist()
    assert sorted([*alive, *free, *gone]) == list(range(int(s.state.groups_used[0])))
    assert all(one < other for one, other in pairwise(sorted(int(s.groups.group[g].number) for g in alive)))


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
        return indexes_by_number(self.s)[number]

    def numbers(self) -> list[int]:
        return sorted(indexes_by_number(self.s))

    def members(self, number: int) -> list[int]:
        """Indexes, in no order."""
        return members_of(self.s, self.group(number))

    def slots(self, number: int) -> list[str]:
        numbers = slots_of(self.s, self.group(number))
        return [b"".join(self.texts.things[one] or ()).decode() for one in numbers]

    def cells(self, number: int) -> list[int]:
        return sorted(int(self.s.rows.cells[index, 0]) for index in self.members(number))

    def cells_by_number(self) -> dict[int, list[int]]:
        return {number: self.cells(number) for number in self.numbers()}

    def box(self, number: int) -> tuple[int, int]:
        return box_of(self.s, self.group(number))


NUMBER, NEXT = 3, 8
"""Of the QI group, and the next unused one."""

Halves = tuple[list[int], list[int]]
"""Members by their index: first those that keep the number."""


def shard_of(small: Table, cells: Ints, tie_hashes: Ints, who: Ints | None = None) -> Shard:
    """A shard whose QI group 0 has the rows 0..n-1 as members, in falling order of their indexes."""
    n = len(cells)
    shard = empty_shard(small.space, small.k, recut=True, shrink=True, individuals=who is not None)
    row = records(n, ROW)
    row.tie_hash, row.who = tie_hashes, NONE if who is None else who
    pool = np.tile(np.arange(n, dtype=np.int32)[::-1], (2, 1))
    work = shard.work._replace(
        ints=np.zeros((7, n), np.int32),
        tie_hashes=np.zeros((2, n), np.uint64),
        losses=np.zeros(n),
        last_seen=np.zeros(1 if who is None else int(who.max()) + 1, np.int64),
    )
    group = shard.groups.group[0]
    group["number"], group["members"], group["count"] = NUMBER, n, n if who is None else len(np.unique(who))
    shard.state.qi_group_next = NEXT
    return shard._replace(
        rows=CoreRows(row, cells.astype(np.int32)), groups=shard.groups._replace(pool=pool), work=work
    )


def halves(shard: Shard) -> Halves | None:
    position, lower_keeps = cut(shard, 0)
    if position == 0:
        return None
    n = int(shard.groups.group[0]["members"])
    lower, upper = sorted(shard.work.ints[0, :position].tolist()), sorted(shard.work.ints[0, position:n].tolist())
    return (lower, upper) if lower_keeps else (upper, lower)


def twin_of(small: Table, people: list[Row]) -> Twin:
    twin = Twin(small, b"secret")
    twin.rows = {str(i): row for i, row in enumerate(people)}
    twin.form(NUMBER, list(twin.rows))
    twin.next_number = NEXT
    return twin


def shard_like(twin: Twin) -> Shard:
    keys = list(twin.rows)
    names: dict[str | None, int] = {}
    who = np.array([names.setdefault(twin.rows[key].individual, len(names)) for key in keys])
    cells, tie_hashes = np.array([twin.cells(key) for key in keys]), np.array([twin.tie_hash(key) for key in keys])
    return shard_of(twin.table, cells, tie_hashes, None if twin.table.individual is None else who)


def expected(twin: Twin) -> Halves | None:
    members = twin.groups[NUMBER].members
    found = twin.cut(NUMBER) if twin.count(members) >= 2 * twin.table.k else None
    return None if found is None else (sorted(map(int, found[0])), sorted(map(int, found[1])))
