"""Median Mondrian: the table cut in two at medians, again and again, as long as both halves hold the model.

The attribute of widest NCP is cut first (for categories: the part of all leaves that its node has); where a half would
not hold the model, the next widest is cut; of equal widths the earlier attribute. Cuts are *strict*: rows of one cell
stay on one side. The median row's cell goes to the lower half where both halves then hold the model, else to the upper
half. This is the baseline (LeFevre et al. 2006) with which the other algorithms and the incremental table are compared.
"""

from __future__ import annotations

import numpy as np

from streamer.jit import compiled
from streamer.privacy.models import Model
from streamer.recoding.algorithms.box_loss import Shape, ncp_term, shape_of
from streamer.recoding.algorithms.contract import SOME_ROWS, Algorithm, Options, no_objections
from streamer.recoding.algorithms.kd_tree import (
    Demand,
    Layout,
    Leaves,
    Values,
    after,
    allowed,
    cut,
    demand_of,
    distinct,
    ends,
    layout_of,
    leaf_numbers,
    leaves_for,
    values_for,
)
from streamer.recoding.algorithms.recoding import Recoding, local_recoding
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata
from streamer.table.space import Space
from streamer.telling import Tick, silent

DONE = -1.0
"""Stands for the width of an attribute that cannot be cut, or was tried."""


def median_tree(space: Space, cells: Ints, model: Model, subjects: Ints, tick: Tick = silent) -> tuple[Layout, Leaves]:
    """The rows cells (n, d), n >= 1, cut; subjects: int64 (n, s), columns as in `model.subjects`.

    One leaf is the whole table where no cut is allowed.
    """
    n = len(cells)
    layout, leaves, values = layout_of(cells), leaves_for(n), values_for(n)
    shape, demand = shape_of(space), demand_of(model, subjects)
    begin, end = 0, n
    while begin < end:
        begin, end = _cut_some(shape, demand, layout, leaves, values, begin, end, SOME_ROWS)
        tick(begin / n)
    return layout, leaves


@compiled
def _cut_some(
    shape: Shape, demand: Demand, layout: Layout, leaves: Leaves, values: Values, begin: int, end: int, rows: int
) -> tuple[int, int]:
    """Cuts part after part, until these had so many rows together; the part that comes next, empty at the end."""
    while begin < end and rows > 0:
        rows -= end - begin
        middle = _cut_once(shape, demand, layout, values, begin, end)
        begin, end = after(leaves, begin, middle, end)
    return begin, end


@compiled
def _cut_once(shape: Shape, demand: Demand, layout: Layout, values: Values, begin: int, end: int) -> int:
    """Cuts the positions begin..end in two; returns where the upper half begins, `begin` where no cut is allowed."""
    if end - begin < 2 * demand.rows_min:
        return begin
    d = layout.columns.shape[0]
    width = np.full(d, DONE)
    for j in range(d):
        lo, hi = ends(layout.columns[j, begin:end])
        if lo < hi:
            width[j] = ncp_term(shape, j, lo, hi)
    rows = layout.rows[begin:end]
    for _ in range(d):
        j = int(np.argmax(width))
        if width[j] == DONE:
            break
        width[j] = DONE
        along = layout.columns[j, begin:end]
        n_below, i = 0, 0
        distinct(along, values)
        while n_below + values.counts[i] <= (len(rows) - 1) // 2:
            n_below += values.counts[i]
            i += 1
        median = values.cells[i]
        if allowed(demand, rows, along, median, n_below + values.counts[i]):
            return cut(layout, begin, end, j, median)
        if allowed(demand, rows, along, median - 1, n_below):
            return cut(layout, begin, end, j, median - 1)
    return begin


def run(microdata: Microdata, model: Model, options: Options, tick: Tick) -> Recoding:
    """Median Mondrian under any model."""
    tree = median_tree(microdata.space, microdata.cells, model, microdata.subjects(model.subjects), tick)
    return local_recoding(microdata, leaf_numbers(*tree))


MONDRIAN = Algorithm(
    "mondrian",
    "cuts at medians of the widest attribute",
    "LeFevre et al. 2006",
    run,
    no_objections,
)
