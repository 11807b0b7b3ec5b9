"""QI groups of rows that are there, by a whole-table algorithm: the one place where the two wings meet.

A shard begins with such groups, and a rebuild gives them to it region by region. The shard takes them as a function,
so that it needs no algorithm of its own, and whoever loads no table at once does not wait for the compiler.
"""

from __future__ import annotations

import numpy as np

from streamer.errors import UsageError
from streamer.privacy.models import model_of
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.microdata import microdata_of
from streamer.table.schema import Table


def first_groups(table: Table, rows: EncodedRows, seed: int) -> list[Ints]:
    """QI groups of a whole table by the default algorithm, as arrays of row numbers, in the order of their numbers.

    seed: decides among QI groups of one box, and among rows that are alike.
    """
    from streamer.recoding.algorithms.initial import initial_groups

    return initial_groups(microdata_of(table, rows), model_of(table), seed)


def groups_by(table: Table, rows: EncodedRows, algorithm: str, seed: int) -> list[Ints]:
    """QI groups of some rows of a table by a named algorithm: arrays of row numbers, every row in one of them.

    seed: all chance there is. The same rows in the same order, algorithm and seed give the same groups. Raises
    UsageError for a name that is none and where the algorithm objects, ConfigError where the rows cannot hold the model
    in any way.
    """
    from streamer.recoding.algorithms.catalog import algorithm_named, run
    from streamer.recoding.algorithms.contract import Options

    chosen = algorithm_named(algorithm)
    if not len(rows.codes):
        return []
    recoding = run(chosen, microdata_of(table, rows), model_of(table), Options(seed=seed, chance=seed))
    return np.split(np.argsort(recoding.qi_group, kind="stable"), np.cumsum(recoding.sizes)[:-1])


def check_rebuilds(table: Table, algorithm: str, n_rows: int, n_regions: int) -> None:
    """Raises UsageError where the algorithm cannot rebuild a shard of so many rows that is cut into so many regions.

    A full-domain algorithm recodes all rows of a table alike, which regions would not be.
    """
    from streamer.recoding.algorithms.catalog import algorithm_named, objections

    chosen = algorithm_named(algorithm)
    if said := objections(chosen, table, model_of(table)):
        raise UsageError(f"{algorithm} cannot do this: {said[0]}")
    if chosen.full_domain and n_regions > 1:
        raise UsageError(
            f"{algorithm} recodes all rows of a shard alike, and so needs them in one region; this shard has {n_rows} "
            f"rows, a region at most limits.transaction_rows_max = {table.limits.transaction_rows_max}"
        )
