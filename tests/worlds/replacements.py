"""Other QI groups for a region's rows, drawn by chance, and what readers must see of a replacement by definition."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np

from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.replacing import Region
from streamer.incremental.engine.stored_state import QIGroupState
from streamer.table.arrays import Ints
from streamer.table.schema import Table


def drawn_groups(table: Table, region: Region, chance: Random) -> list[Ints]:
    """A random partition of a region's rows into QI groups that hold k; some have the rows that they had."""
    rows, groups, some = region.rows, list[list[int]](), list[int]()
    order = list(range(len(rows.source_keys)))
    chance.shuffle(order)
    if chance.random() < 0.5:
        order.sort(key=lambda i: rows.codes[i].tolist())
    size = chance.choice([table.k, table.k, 2 * table.k])
    for i in order:
        some.append(i)
        if counted(table, region, some) >= size:
            groups.append(some)
            some = []
    if some and counted(table, region, some) >= table.k:
        groups.append(some)
    elif some and groups:
        groups[-1] += some
    return [np.array(members, dtype=np.int64) for members in groups]


def same_groups(engine: Engine, region: Region) -> list[Ints]:
    """The region's QI groups as they are."""
    number_of = dict(engine.index_table())
    now = np.array([number_of[key] for key in region.rows.source_keys])
    return [np.flatnonzero(now == number) for number in region.numbers]


def counted(table: Table, region: Region, rows: list[int]) -> int:
    """What k counts."""
    return len(rows) if table.individual is None else len({region.rows.individuals[i] for i in rows})


def swapped(region: Region, groups: list[Ints], chance: Random) -> list[Ints]:
    """The same with some rows that look alike in each other's place: readers see nothing of it."""
    group_of = {int(i): g for g, members in enumerate(groups) for i in members}
    alike: dict[object, list[int]] = {}
    for i in group_of:
        look = (tuple(region.rows.codes[i].tolist()), region.rows.values[i], region.rows.individuals[i])
        alike.setdefault(look, []).append(i)
    stands_in: dict[int, int] = {}
    for rows in alike.values():
        others = rows[:]
        chance.shuffle(others)
        stands_in |= dict(zip(rows, others, strict=True))
    return [np.array([stands_in[int(i)] for i in members], dtype=np.int64) for members in groups]


def seen(state: QIGroupState) -> tuple[object, ...]:
    """What readers see of a QI group beside its number, whatever the order of its slots."""
    return state.lo, state.hi, tuple(sorted(state.slots))


def fewest_upserts(before: QIGroupState | None, after: QIGroupState) -> int:
    """The fewest rows that have to be published when a QI group's rows may stand in any order."""
    if before is None or (before.lo, before.hi) != (after.lo, after.hi):
        return len(after.slots)
    there = Counter(before.slots[: len(after.slots)])
    return len(after.slots) - (there & Counter(after.slots)).total()
