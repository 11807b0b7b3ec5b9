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
from streamer.recoding.algorithms.contract import Algorithm, Options, no_objections
from streamer.recoding.algorithms.kd_tree import Tree, after, allowed, cut, distinct, ends, leaf_numbers, tree_of
from streamer.recoding.algorithms.recoding import Recoding, local_recoding
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata
from streamer.table.space import Space

DONE = -1.0
"""Stands for the width of an attribute that cannot be cut, or was tried."""


def median_tree(space: Space, cells: Ints, model: Model, subjects: Ints) -> Tree:
    """The rows cells (n, d), n >= 1, cut; subjects: int64 (n, s), columns as in `model.subjects`.

    One leaf is the whole table if no cut is allowed.
    """
    tree = tree_of(cells, model, subjects)
    _cut_all(shape_of(space), tree)
    return tree


@compiled
def _cut_all(shape: Shape, tree: Tree) -> None:
    begin, end = 0, len(tree.layout.rows)
    while begin < end:
        begin, end = after(tree.leaves, begin, _cut_once(shape, tree, begin, end), end)


@compiled
def _cut_once(shape: Shape, tree: Tree, begin: int, end: int) -> int:
    """Cuts the positions begin..end in two; returns where the upper half begins, `begin` if no cut is allowed."""
    layout, _, demand, values = tree
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


def run(microdata: Microdata, model: Model, options: Options) -> Recoding:
    """Median Mondrian under any model."""
    tree = median_tree(microdata.space, microdata.cells, model, microdata.subjects(model.subjects))
    return local_recoding(microdata, leaf_numbers(tree))


MONDRIAN = Algorithm(
    "mondrian",
    "cuts at medians of the widest attribute",
    "LeFevre et al. 2006",
    run,
    no_objections,
)
