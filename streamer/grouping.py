"""QI groups of given rows by a whole-table algorithm: the one place where the two wings meet.

A shard begins with such groups, and a rebuild gives them to it region by region. The shard gets them from its caller,
so it needs no algorithm of its own, and nobody waits for the compiler who does not load a whole table.
"""

from __future__ import annotations

import numpy as np

from streamer.incremental.shard.rebuild_regions import FULL_DOMAIN
from streamer.incremental.shard.sparing import spared
from streamer.privacy.models import model_of
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.microdata import microdata_of
from streamer.table.schema import Table
from streamer.telling import Tick, silent


def first_groups(table: Table, rows: EncodedRows, seed: int, tick: Tick = silent) -> list[Ints]:
    """QI groups of a whole table by the default algorithm, as arrays of row numbers, in the order of their numbers.

    seed: decides among QI groups of one box, and among rows that are alike. tick: is told the share that is done.
    """
    from streamer.recoding.algorithms.initial import initial_groups

    return initial_groups(microdata_of(table, rows), model_of(table), seed, tick)


def groups_by(table: Table, rows: EncodedRows, algorithm: str, seed: int, tick: Tick = silent) -> list[Ints]:
    """QI groups of some rows of a table by a named algorithm: arrays of row numbers, every row in one of them.

    seed: all chance there is. The same rows in the same order, algorithm and seed give the same groups. tick: is told
    the share that is done. Raises UsageError for a name that is none and where the algorithm objects, ConfigError where
    the rows cannot hold the model in any way.
    """
    from streamer.recoding.algorithms.catalog import algorithm_named, run
    from streamer.recoding.algorithms.contract import Options

    chosen = algorithm_named(algorithm)
    if not len(rows.codes):
        return []
    recoding = run(chosen, microdata_of(table, rows), model_of(table), Options(seed=seed, chance=seed), tick)
    return np.split(np.argsort(recoding.qi_group, kind="stable"), np.cumsum(recoding.sizes)[:-1])


def groups_anew(
    table: Table, rows: EncodedRows, standing: Ints, algorithm: str, seed: int, tick: Tick = silent
) -> list[Ints]:
    """The same for a region that is rebuilt; standing: of `Region`. Groups stay as they are where they may.

    Raises what `groups_by` raises.
    """
    groups = groups_by(table, rows, algorithm, seed, tick)
    return groups if algorithm in FULL_DOMAIN else spared(table, rows, standing, groups)
