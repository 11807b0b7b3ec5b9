"""Segments of an order: the best way to cut it into QI groups, by dynamic programming.

The order is the leaves of a tree of best cuts (`cut_tree`). The tree is only an order: its cuts go down to single rows,
and QI groups need not be nodes. Every segmentation covers the whole order, so there is always a solution. Source:
Hansen and Mukherjee 2003, for one number; here along any order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.kernels.boxes import ncp_term, total, widen
from streamer.native import compiled, inlined
from streamer.privacy.compiled import holds_so_far
from streamer.recoding.algorithms.bundles import EMPTY_HI, EMPTY_LO, Task, add_bundle, clear_bundles
from streamer.recoding.algorithms.cut_tree import Order, order_of
from streamer.table.arrays import Bools, Floats, Ints

SHARPNESS = (0, 7)
"""A small one for numbers, a large one for categories (`cut_tree`)."""

SHARE_MIN = 0.1
"""If fewer rows than this share have rare leaves, in every attribute, another order is not worth its time."""

FAR = 8
"""Segments of up to this multiple of the fewest rows are tried until one holds, and sweeps recut groups of as many."""


class Programme(NamedTuple):
    """What is known of the b blocks of an order and the segments that end before each; the last three are scratch.

    Block i is in the window at i % w, until another one needs the place: the segments that begin with one block end
    near it, so the memory of boxes does not grow with the table.
    """

    best: Floats  # (b + 1,) the least loss up to there
    origin: Ints  # (b + 1,) the block with which the last segment then begins
    block: Ints  # (w,) which one is there; w: a power of two
    rows: Ints  # (w,)
    lo: Ints  # (w, d)
    hi: Ints
    known: Ints  # of laws, while a segment gets longer
    box: Ints
    term: Floats


def programme_for(b: int, d: int, rows_min: int) -> Programme:
    w = 1
    while w < min(b, FAR * rows_min):
        w *= 2
    return Programme(np.empty(b + 1), np.empty(b + 1, np.int64), np.empty(w, np.int64), np.empty(w, np.int64),
        np.empty((w, d), np.int64), np.empty((w, d), np.int64), np.empty(2, np.int64), np.empty((2, d), np.int64),
        np.empty(d))  # fmt: skip


@inlined
def begin_of(order: Order, i: int) -> int:
    """The position at which block i begins; after the last block, the end."""
    return int(order.blocks[i] if i < order.blocks.shape[0] else order.bundles.shape[0])


def _lay(task: Task, order: Order, line: Programme, i: int) -> None:
    """Puts block i into the window."""
    cells, at, rows = task.bundles.cells, i & (line.block.shape[0] - 1), 0
    line.lo[at], line.hi[at] = EMPTY_LO, EMPTY_HI
    for position in range(order.blocks[i], begin_of(order, i + 1)):
        bundle = order.bundles[position]
        rows += task.bundles.end[bundle] - task.bundles.begin[bundle]
        for j in range(cells.shape[1]):
            line.lo[at, j] = min(cells[bundle, j], line.lo[at, j])
            line.hi[at, j] = max(cells[bundle, j], line.hi[at, j])
    line.block[at], line.rows[at] = i, rows


@inlined
def _place(task: Task, order: Order, line: Programme, i: int) -> int:
    """Where block i is in the window, once it is there."""
    at = i & (line.block.shape[0] - 1)
    if line.block[at] != i:
        _lay(task, order, line, i)
    return int(at)


def _reach(task: Task, order: Order, line: Programme, start: int, limit: float) -> None:
    """Improves best and origin at the ends of all segments that begin with block `start`.

    limit: a loss from which on nothing is of use.
    """
    shape, best, (lo, hi), term = task.shape, line.best, line.box, line.term
    rows_least, rows_far, tile_end = task.rows_min, FAR * task.rows_min, order.tile[order.blocks[start]]
    b, plain = order.blocks.shape[0], task.rules.distinct.shape[0] == 0
    rows, shortest, per_row, end, position = 0, 0, 0.0, start, order.blocks[start]
    line.known[0], line.known[1] = 1, -1
    place = _place(task, order, line, start)
    for j in range(lo.shape[0]):
        lo[j], hi[j] = line.lo[place, j], line.hi[place, j]
    while end < b and rows + line.rows[place] < rows_least:
        for j in range(lo.shape[0]):
            lo[j], hi[j] = min(lo[j], line.lo[place, j]), max(hi[j], line.hi[place, j])
        rows += line.rows[place]
        end += 1
        if end < b:
            place = _place(task, order, line, end)
    for j in range(lo.shape[0]):
        term[j] = ncp_term(shape, j, lo[j], hi[j])
    per_row = total(term)
    while end < b:
        place = _place(task, order, line, end)
        rows += line.rows[place]
        is_window = rows < 2 * shortest if shortest > 0 else rows <= rows_far or end == start
        if not is_window and order.blocks[end] >= tile_end:
            break
        if widen(shape, line.lo[place], line.hi[place], lo, hi, term):
            per_row = total(term)
        if best[start] + rows * per_row >= limit:
            break
        end += 1
        begin, position = position, begin_of(order, end)
        if not plain:
            for at in range(begin, position):
                add_bundle(task, order.bundles[at])
        if is_window and rows >= task.rules.rows and (plain or holds_so_far(task.rules, task.scratch, line.known)):
            shortest = shortest if shortest > 0 else rows
        elif position != tile_end:
            continue
        if best[start] + rows * per_row < best[end]:
            best[end], line.origin[end] = best[start] + rows * per_row, start
    if not plain:
        clear_bundles(task, order.bundles[order.blocks[start] : position])


def least_along(task: Task, order: Order, line: Programme, limit: float) -> float:
    """The least loss of all segmentations, or infinite if none loses less than `limit`; line.origin then tells it."""
    b = order.blocks.shape[0]
    line.block[:] = -1
    line.best[: b + 1] = np.inf
    line.best[0] = 0.0
    for start in range(b):
        if line.best[start] < np.inf:
            _reach(task, order, line, start, limit)
    return float(line.best[b])


@compiled
def best_segments(task: Task, order: Order, limit: float) -> tuple[float, Ints]:
    """The least loss, and the number of every position's segment, int64 (m,), from 0 along the order.

    If nothing loses less than `limit`, the loss is infinite and the rest no answer.
    """
    b = order.blocks.shape[0]
    line = programme_for(b, task.bundles.cells.shape[1], task.rows_min)
    least = least_along(task, order, line, limit)
    number, end, at = np.zeros(order.bundles.shape[0], np.int64), b, -1
    while end > 0 and least < np.inf:
        end = line.origin[end]
        number[order.blocks[end]] = 1
    for i in range(number.shape[0]):
        at += number[i]
        number[i] = at
    return least, number


def segmented(task: Task, sharpness: int) -> tuple[float, Ints]:
    """The best segments along the order of one tree."""
    return _best_along(task, order_of(task, sharpness))


def _best_along(task: Task, order: Order) -> tuple[float, Ints]:
    loss, segment = best_segments(task, order, np.inf)
    qi_group = np.empty(len(order.bundles), dtype=np.int64)
    qi_group[order.bundles] = segment
    return loss, qi_group


def without_rare_leaves(task: Task, times: int) -> tuple[float, Ints]:
    """The best segments along an order that takes leaves of fewer than `times` the fewest rows of a group for one.

    The loss is infinite if there are few such leaves: then the order has nothing to offer.
    """
    simpler = pooled(task, times * task.rows_min)
    if simpler is None:
        return np.inf, np.zeros(len(task.bundles.begin), dtype=np.int64)
    return _best_along(task, order_of(simpler, SHARPNESS[-1]))


def pooled(task: Task, rows_min: int) -> Task | None:
    """The task with all leaves of fewer than rows_min rows under one node as one; None if few rows have such leaves."""
    shape, cells = task.shape, task.bundles.cells.copy()
    rows, worth_it = task.bundles.end - task.bundles.begin, False
    for j in np.flatnonzero(shape.axes.first_leaf >= 0).tolist():
        n_leaves = int(shape.axes.n_leaves[j])
        count = np.bincount(cells[:, j], weights=rows, minlength=n_leaves)
        rare = (count > 0) & (count < rows_min)
        worth_it |= bool(count[rare].sum() >= SHARE_MIN * rows.sum())
        start = int(shape.axes.first_leaf[j])
        cells[:, j] = _representatives(shape.loss_over[0, start : start + n_leaves - 1], rare)[cells[:, j]]
    return task._replace(bundles=task.bundles._replace(cells=cells)) if worth_it else None


def _representatives(pair_ncp: Floats, rare: Bools) -> Ints:
    """For every leaf itself, but for a rare one the first rare one under the same parent; int64 (leaves,).

    pair_ncp: NCP of the smallest node over each leaf and the next. A leaf's parent is the smaller of its two such
    nodes, and reaches as far as no pair has a larger one.
    """
    stands_for = np.arange(len(rare))
    above = np.minimum(np.append(np.inf, pair_ncp), np.append(pair_ncp, np.inf))
    for ncp in np.unique(above[rare]):
        leaves = np.flatnonzero(rare & (above == ncp))
        node = np.append(0, np.cumsum(pair_ncp > ncp))[leaves]
        _, first, which = np.unique(node, return_index=True, return_inverse=True)
        stands_for[leaves] = leaves[first][which]
    return stands_for
