"""The rows that a simulated reload brings."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np

from simulation.simulator import World
from streamer.incremental.shard.bootstrap import known_secret
from streamer.incremental.shard.first_commits import FirstTable
from streamer.incremental.store.memory import MemoryStore
from streamer.table.encode import EncodedRows
from streamer.table.row import Row

NEW_SECRET = b"of the table begun anew"
"""The secret of a table that had none before it was reloaded."""

N_NEW = 11


def new_rows(seed: int = 0) -> dict[str, Row]:
    rng = random.Random(seed)
    return {f"n{i}": Row((rng.randrange(10), rng.randrange(6)), (b'"flu"',)) for i in range(N_NEW)}


def first_table(world: World, rows: Mapping[str, Row], k: int, next_: int | None = None) -> FirstTable:
    order = sorted(range(len(rows)), key=lambda i: list(rows.values())[i].codes)
    cut = [np.array(order[i : i + k]) for i in range(0, len(order), k)]
    if len(cut) > 1 and len(cut[-1]) < k:
        cut[-2:] = [np.concatenate(cut[-2:])]
    stored = MemoryStore(world.server, world.table.name, 0).meta()
    secret = known_secret(world.kept_secret(), stored) or NEW_SECRET
    return FirstTable(EncodedRows.of_rows(rows, 2), cut, secret, world.end if next_ is None else next_)
