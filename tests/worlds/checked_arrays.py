"""What must hold between the arrays of a shard after every change, counted anew from the rows and their QI groups."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from streamer.incremental.core.layout import FREE, NO_GROUP_YET, NONE, Shard


def check_arrays(s: Shard) -> None:
    """Raises AssertionError where one array says other than another. Between changes, or drained."""
    alive = [g for g in range(int(s.state.groups_used[0])) if s.groups.group[g].alive]
    assert int(s.state.n_groups[0]) == len(alive)
    assert not s.work.heap_size[:].any()
    _check_rows(s, alive)
    _check_counts(s, alive)
    check_blocks(s, alive)
    _check_free_groups(s, alive)


def rows_there(s: Shard) -> list[int]:
    """Places of all rows."""
    return [p for p in range(int(s.state.rows_used[0])) if s.rows.row[p].group != FREE]


def members_of(s: Shard, g: int) -> list[int]:
    """Places of a QI group's members."""
    group = s.groups.group[g]
    members: list[int] = s.groups.pool[0, group.block : group.block + group.members].tolist()
    return members


def slots_of(s: Shard, g: int) -> list[int]:
    """Numbers of a QI group's values, slot by slot."""
    group = s.groups.group[g]
    slots: list[int] = s.groups.pool[1, group.block : group.block + group.members].tolist()
    return slots


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
    assert {(int(one.group), int(one.who)): int(one.n) for one in s.work.tally if one.n} == tallied
    assert int(s.state.tally_used[0]) == len(tallied)
    assert 2 * len(tallied) <= len(s.work.tally)
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
