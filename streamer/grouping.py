"""QI groups of a shard's rows by a whole-table algorithm: the only module that imports both wings.

A shard begins with such groups, and a rebuild replaces its groups by them, region by region. The algorithms are
imported when they are called: commands that need none do not wait for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streamer.incremental.sealed.formation import Formation, median_cuts
from streamer.incremental.shard.rebuild import FULL_DOMAIN, spared
from streamer.privacy.models import model_of
from streamer.progress import OnProgress, unheard
from streamer.table.arrays import Ints
from streamer.table.codes import Diversity
from streamer.table.encode import EncodedRows
from streamer.table.microdata import microdata_of
from streamer.table.schema import Table


def first_groups(table: Table, rows: EncodedRows, seed: int, on_progress: OnProgress = unheard) -> list[Ints]:
    """QI groups of a whole table by the default algorithm: arrays of row numbers, in the order of the groups' numbers.

    seed: breaks ties among QI groups of one box, and among rows that are alike.
    """
    from streamer.recoding.algorithms.catalog import initial_groups

    return initial_groups(microdata_of(table, rows), model_of(table), seed, on_progress)


def groups_by(table: Table, rows: EncodedRows, algorithm: str, seed: int) -> list[Ints]:
    """QI groups of some rows of a table by a named algorithm: arrays of row numbers; every row is in one.

    The same rows in the same order, algorithm and seed give the same groups. Raises UsageError if there is no such
    algorithm or it objects, ConfigError if the rows cannot satisfy the privacy model.
    """
    from streamer.recoding.algorithms.catalog import algorithm_named, run
    from streamer.recoding.algorithms.contract import STAYING, Options

    chosen = algorithm_named(algorithm)
    if not len(rows.codes):
        return []
    recoding = run(
        chosen, microdata_of(table, rows), model_of(table), Options(seed=seed, chance=seed, too_wide=STAYING)
    )
    return np.split(np.argsort(recoding.qi_group, kind="stable"), np.cumsum(recoding.sizes)[:-1])


def regrouped_region(table: Table, rows: EncodedRows, standing: Ints, algorithm: str, seed: int) -> list[Ints]:
    """`groups_by` for a region that is rebuilt; unchanged groups stay if they may. standing: of `Region`."""
    groups = groups_by(table, rows, algorithm, seed)
    return groups if algorithm in FULL_DOMAIN else spared(table, rows, standing, groups)


def cohort_formation(table: Table) -> Formation:
    """Cohorts of a sealed changelog: those of the default algorithm, or of median cuts if these lose no more.

    The algorithm gets the table without any column but quasi-identifiers, and cells as codes.
    """
    bare = replace(table, kept=(), individual=None, diversity=Diversity())
    by_medians = median_cuts(table.space, table.k)

    def form(cells: Ints, seed: int) -> Sequence[Ints]:
        rows = EncodedRows([""] * len(cells), cells * table.space.codes_per_cell, [()] * len(cells), [], [])
        ways = by_medians(cells, seed), groups_by(bare, rows, "ordered", seed)
        return min(ways, key=lambda cohorts: table.space.loss_of(cells, cohorts))

    return form
