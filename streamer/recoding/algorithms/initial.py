"""The QI groups in which a shard publishes its first table: those of the catalog's default algorithm.

The incremental engine goes on from there, so the table should begin as good as it can be had at once. A table that does
not hold the model has no QI group: its rows wait, as they would if they came one by one.
"""

from __future__ import annotations

import numpy as np

from streamer.privacy.models import Model
from streamer.progress import OnProgress, unheard
from streamer.recoding.algorithms.catalog import ALGORITHMS, DEFAULT, run
from streamer.recoding.algorithms.contract import Options
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata


def initial_groups(microdata: Microdata, model: Model, seed: int, on_progress: OnProgress = unheard) -> list[Ints]:
    """QI groups as arrays of row numbers, in the order of their numbers; none if the table does not hold the model.

    seed: decides among QI groups of one box, and among rows that are alike (`streamer.recoding.algorithms.contract`).
    """
    if not model.holds(microdata.subjects(model.subjects)):
        return []
    options = Options(chance=seed, on_progress=on_progress)
    qi_group = run(ALGORITHMS[DEFAULT], microdata, model, options).qi_group
    order = np.argsort(qi_group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(qi_group[order])) + 1)
