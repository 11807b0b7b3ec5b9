"""Ordered segments: all rows in one good order, and the best way to cut this order into QI groups.

The order is the leaves of a tree of best cuts (`cut_tree`). The tree is only an order: its cuts go down to single
rows, and QI groups need not be nodes. Dynamic programming cuts the order into the segments of least total NCP
(`segments`). This is done for each sharpness of SHARPNESS, and the segmentation of least total NCP stands; of equals
the earlier. Each sweep of `options.refine` then improves the QI groups (`refine`); a sweep that gains nothing is the
last one.
"""

from __future__ import annotations

import numpy as np

from streamer.privacy.models import Model
from streamer.recoding.algorithms.bundles import Task, task_of
from streamer.recoding.algorithms.contract import Algorithm, Options, Tick, no_objections
from streamer.recoding.algorithms.cut_tree import order_of
from streamer.recoding.algorithms.group_index import groups_of, members_of
from streamer.recoding.algorithms.recoding import Recoding, local_recoding
from streamer.recoding.algorithms.refine import sweep
from streamer.recoding.algorithms.segments import best_segments
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata

SHARPNESS = (0, 7)
"""A small one for numbers, a large one for categories (`cut_tree`)."""


def run(microdata: Microdata, model: Model, options: Options, tick: Tick) -> Recoding:
    """Anonymizes by ordered segments, under any model."""
    rows, task = task_of(microdata, model)
    steps, least = len(SHARPNESS) + options.refine, np.inf
    qi_group = np.zeros(len(task.bundles.begin), dtype=np.int64)
    for i, sharpness in enumerate(SHARPNESS):
        order, tile = order_of(task, sharpness)
        loss, segment = best_segments(task, order, tile)
        if loss < least:
            least = loss
            qi_group[order] = segment
        tick((i + 1) / steps)
    sweeps = _refined(task, qi_group, len(rows), options.refine, lambda done: tick((len(SHARPNESS) + done) / steps))
    by_row = np.empty(len(rows), dtype=np.int64)
    by_row[rows] = np.repeat(qi_group, task.bundles.end - task.bundles.begin)
    return local_recoding(microdata, by_row, sweeps=sweeps)


def _refined(task: Task, qi_group: Ints, n_rows: int, sweeps_max: int, tick: Tick) -> int:
    """Improves qi_group (m,), by bundle, in up to sweeps_max sweeps; how many sweeps gained something."""
    if not sweeps_max:
        return 0
    groups, done = groups_of(task, qi_group, n_rows // task.rows_min), 0
    while done < sweeps_max and sweep(task, groups):
        done += 1
        tick(done)
    for seat in np.flatnonzero(groups.rows).tolist():
        qi_group[members_of(groups, seat)] = seat
    return done


ORDERED = Algorithm(
    "ordered",
    "cuts a good order of all rows into the best segments",
    "this project; Hansen and Mukherjee 2003 along an order of best cuts",
    run,
    no_objections,
    refines=True,
)
