"""Tiny tables for engines, what a store would hold of them, and replacements of their QI groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from random import Random
from typing import TypeVar

import numpy as np

from streamer.errors import EventRefused
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.net_effect import Drained
from streamer.incremental.engine.replacing import Region
from streamer.incremental.engine.stored_state import QIGroupState, Record, SimilarityList, StoredTable
from streamer.incremental.events.changes import Change, Insert
from streamer.incremental.release.records import PublishedGroup
from streamer.incremental.shard.steps import similarity_of
from streamer.table.arrays import Ints
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.small_tables import YEARS, table

OF_TWO = table(YEARS, k=2)
OF_PEOPLE = table(YEARS, k=2, individual="ssn")


def row_of(year: int, problem: str = "flu", individual: str | None = None) -> Row:
    return Row((year,), (b'"%b"' % problem.encode(),), individual=individual)


def engine_with(years: Mapping[str, int], small: Table = OF_TWO) -> Engine:
    """A shard that these rows were inserted into, one by one, and whose news was drained."""
    engine = Engine(small)
    for source_key, year in years.items():
        engine.apply(Insert(source_key, row_of(year, individual=source_key if small.individual else None)))
    engine.drain()
    return engine


def apply_valid(engine: Engine, some: Iterable[Change]) -> None:
    """Applies changes; those that are refused change nothing."""
    for change in some:
        with suppress(EventRefused):
            engine.apply(change)


def groups_of(engine: Engine) -> set[frozenset[str]]:
    """Who is with whom."""
    together: dict[int, set[str]] = {}
    for source_key, number in engine.index_table():
        together.setdefault(number, set()).add(source_key)
    return set(map(frozenset, together.values()))


def sets_of(*names: str) -> set[frozenset[str]]:
    """`sets_of("ab", "cd")`: {a, b} and {c, d}."""
    return set(map(frozenset, names))


def boxes_in(drained: Drained) -> dict[int, tuple[int, int] | None]:
    """The published interval of every QI group that changed, None for one that went."""
    return {n: None if after is None else (after.lo[0], after.hi[0]) for n, _, after in drained.published}


def numbers_in(engine: Engine) -> set[int]:
    return {number for _, number in engine.index_table()}


def keys_in(engine: Engine) -> Iterable[str]:
    return sorted(source_key for source_key, _ in engine.index_table())


Name = TypeVar("Name")
Value = TypeVar("Value")


def overwrite(stored: dict[Name, Value], changed: Mapping[Name, Value | None]) -> None:
    """Puts what changed in the place of what was there; None removes it."""
    for name, value in changed.items():
        if value is None:
            stored.pop(name, None)
        else:
            stored[name] = value


class FoldedTable:
    """What a store would hold: all that was drained, one after the other."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.qi_groups: dict[int, QIGroupState] = {}
        self.similarity: dict[int, SimilarityList] = {}
        self.published: dict[int, PublishedGroup] = {}
        self.qi_group_next = 1

    def fold(self, drained: Drained) -> None:
        overwrite(self.records, drained.records)
        overwrite(self.qi_groups, drained.qi_groups)
        overwrite(self.similarity, similarity_of(drained, commit=1))
        for number, before, after in drained.published:
            assert self.published.get(number) == before
            if after is None:
                del self.published[number]
            else:
                self.published[number] = after
        self.qi_group_next = drained.qi_group_next

    def kept_table(self) -> StoredTable:
        groups, lists = list(self.qi_groups.items()), list(self.similarity.items())
        return StoredTable(self.qi_group_next, list(self.records.items()), groups, lists, ())


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
