"""Rare leaves taken for one: an order for tables with wide hierarchies.

Where hundreds of leaves stand right under one node, two of them cost as much as all of them. A leaf with many rows is
worth QI groups of its own; rows of rare leaves share groups in any case, and cutting them by leaf keeps them from being
cut by what could still be gained. So the tree of best cuts is built over a table in which the rare leaves under one
node are one leaf; what it cuts by is then frequent leaves and other attributes alone. The segments are those of the
true table.
"""

from __future__ import annotations

import numpy as np

from streamer.recoding.algorithms.bundles import Task
from streamer.table.arrays import Bools, Floats, Ints

SHARE_MIN = 0.1
"""Below this share of the rows in rare leaves, in every attribute, another order is not worth its time."""


def pooled(task: Task, rows_min: int) -> Task | None:
    """The task with all leaves of fewer than rows_min rows under one node as one; None where few rows are in such."""
    shape, cells = task.shape, task.bundles.cells.copy()
    rows, worth_it = task.bundles.end - task.bundles.begin, False
    for j in np.flatnonzero(shape.first_leaf >= 0).tolist():
        n_leaves = round(shape.width[j])
        count = np.bincount(cells[:, j], weights=rows, minlength=n_leaves)
        rare = (count > 0) & (count < rows_min)
        worth_it |= bool(count[rare].sum() >= SHARE_MIN * rows.sum())
        start = shape.first_leaf[j]
        cells[:, j] = _one_for_all(shape.node_ncp[0, start : start + n_leaves - 1], rare)[cells[:, j]]
    return task._replace(bundles=task.bundles._replace(cells=cells)) if worth_it else None


def _one_for_all(pair_ncp: Floats, rare: Bools) -> Ints:
    """For every leaf itself, and for a rare one the first rare one under the same node right above; int64 (leaves,).

    pair_ncp: NCP of the smallest node over each leaf and the next. The node right above a leaf is the smaller one of
    its two, and reaches as far as no pair has a larger one.
    """
    stands_for = np.arange(len(rare))
    above = np.minimum(np.append(np.inf, pair_ncp), np.append(pair_ncp, np.inf))
    for ncp in np.unique(above[rare]):
        leaves = np.flatnonzero(rare & (above == ncp))
        node = np.append(0, np.cumsum(pair_ncp > ncp))[leaves]
        _, first, which = np.unique(node, return_index=True, return_inverse=True)
        stands_for[leaves] = leaves[first][which]
    return stands_for
