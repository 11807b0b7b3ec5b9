"""Ordered segments: all rows in one good order, and the best way to cut this order into QI groups.

The rules of this file
----------------------
* The order is the leaves of a tree of best cuts (`cut_tree`). The tree is only an order: its cuts go down to single
  rows, and QI groups need not be nodes.
* Dynamic programming cuts the order into the segments of least total NCP (`segments`).
* This is done for each sharpness of SHARPNESS, and the segmentation of least total NCP stands; equal: the earlier.
* Each sweep of `options.refine` then improves the QI groups (`refine`); a sweep that gains nothing is the last one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.algorithms.box_loss import shape_of
from streamer.algorithms.bundles import bundled
from streamer.algorithms.contract import Algorithm, Options, Tick, no_objections
from streamer.algorithms.cut_tree import order_of
from streamer.algorithms.group_index import groups_of, members_of
from streamer.algorithms.recoding import Recoding, local_recoding
from streamer.algorithms.refine import sweep
from streamer.algorithms.segments import best_segments
from streamer.privacy.compiled import rules_of, scratch_for
from streamer.privacy.models import Model
from streamer.table.microdata import Microdata

Ints = npt.NDArray[np.int64]

SHARPNESS = (0, 7)

SMALL = 4
"""Nodes of fewer than this times the fewest rows of a group are cut by their own loss."""


def run(microdata: Microdata, model: Model, options: Options, tick: Tick) -> Recoding:
    """Anonymizes by ordered segments, under any model."""
    rows, bundles = bundled(microdata, model)
    shape = shape_of(microdata.space)
    rules = rules_of(model, microdata.rows(rows).subjects(model.subjects))
    scratch = scratch_for(rules)
    least, qi_group = np.inf, np.zeros(len(bundles.begin), dtype=np.int64)
    for i, sharpness in enumerate(SHARPNESS):
        order, block = order_of(shape, bundles, rules, scratch, sharpness, SMALL * model.rows_min)
        loss, segment = best_segments(shape, bundles, order, block, rules, scratch, model.rows_min)
        if loss < least:
            least = loss
            qi_group[order] = segment
        tick((i + 1) / (len(SHARPNESS) + options.refine))
    n_sweeps = 0
    if options.refine:
        groups = groups_of(shape, bundles, qi_group, len(rows) // model.rows_min)
        while n_sweeps < options.refine and sweep(shape, bundles, groups, rules, scratch, model.rows_min):
            n_sweeps += 1
            tick((len(SHARPNESS) + n_sweeps) / (len(SHARPNESS) + options.refine))
        for slot in np.flatnonzero(groups.rows):
            qi_group[members_of(groups, slot)] = slot
    by_row = np.empty(len(rows), dtype=np.int64)
    by_row[rows] = np.repeat(qi_group, bundles.end - bundles.begin)
    return local_recoding(microdata, by_row, sweeps=n_sweeps)


ORDERED = Algorithm(
    "ordered",
    "cuts a good order of all rows into the best segments",
    "this project; Hansen and Mukherjee 2003 along an order of best cuts",
    run,
    no_objections,
    refines=True,
)
