"""One QI group in the core's arrays, ready to be cut, and its halves; and the same group in the plain twin."""

from __future__ import annotations

import numpy as np

from streamer.incremental.core.cut import cut
from streamer.incremental.core.layout import NONE, ROW, CoreRows, Shard, empty_shard, records
from streamer.table.arrays import Ints
from streamer.table.row import Row
from streamer.table.schema import Table
from worlds.twin import Twin

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
        ints=np.zeros((5, n), np.int32),
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
