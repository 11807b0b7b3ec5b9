"""An order of bundles cut into segments, each one QI group, of least total loss: dynamic programming.

The loss of a segment is its rows times the NCP of its smallest publishable box; of segmentations that lose the same,
the one stands whose last segment begins earlier, and so on back to the start. From every bundle the segments are those
that hold the model and have fewer than twice the rows of the shortest that holds. Under k-anonymity these are the
segments of k to 2k - 1 rows, and no better segmentation exists: a longer segment could be cut in two that hold and
lose no more. Under other models, a segment is looked for up to FAR times the fewest rows that any group needs, and the
*tiles* (`algorithms.cut_tree`) are segments too. Tiles make up the whole order, so there always is a way through.

Source: Hansen and Mukherjee 2003 for one attribute; Domingo-Ferrer et al. 2006 along an order of many-dimensional
rows.
"""

from __future__ import annotations

import numpy as np

from streamer.jit import compiled
from streamer.privacy.compiled import holds
from streamer.recoding.algorithms.box_loss import EMPTY_HI, EMPTY_LO, total, widen
from streamer.recoding.algorithms.bundles import Task, count_in, forget
from streamer.table.arrays import Floats, Ints

FAR = 8


@compiled
def _reach(
    task: Task, order: Ints, start: int, tile_end: int, limit: float, box: Ints, term: Floats, best: Floats,
    origin: Ints,
) -> None:  # fmt: skip
    """Improves best and origin (m + 1,) at the ends of all segments that begin at `start`.

    best: the least loss up to there; origin: where the last segment then begins; tile_end: where the tile that begins
    here ends, else 0; from a loss of `limit` on nothing is of use. box (2, d), term (d,): scratch.
    """
    shape, cells, first, last = task.shape, task.bundles.cells, task.bundles.begin, task.bundles.end
    rows_least, rows_far = task.rules.rows, FAR * task.rows_min
    m, plain = order.shape[0], task.rules.distinct.shape[0] == 0
    box[0], box[1] = EMPTY_LO, EMPTY_HI
    lo, hi = box
    rows, shortest, each, end = 0, 0, 0.0, start
    while end < m:
        bundle = order[end]
        rows += last[bundle] - first[bundle]
        is_window = rows < 2 * shortest if shortest > 0 else rows <= rows_far or end == start
        if not is_window and end >= tile_end:
            break
        if widen(shape, cells[bundle], lo, hi, term):
            each = total(term)
        if best[start] + rows * each >= limit:
            break
        end += 1
        if not plain:
            count_in(task, bundle)
        if is_window and rows >= rows_least and (plain or holds(task.rules, task.scratch)):
            shortest = shortest if shortest > 0 else rows
        elif end != tile_end:
            continue
        if best[start] + rows * each < best[end]:
            best[end], origin[end] = best[start] + rows * each, start
    if not plain:
        forget(task, order[start:end])


@compiled
def best_segments(task: Task, order: Ints, tile: Ints, limit: float) -> tuple[float, Ints]:
    """The least loss, and the number of every position's segment, int64 (m,), from 0 along the order.

    order, tile: as `order_of` answers. If nothing loses less than `limit`: an infinite loss, and no answer.
    """
    m, d = order.shape[0], task.bundles.cells.shape[1]
    best, origin = np.full(m + 1, np.inf), np.zeros(m + 1, np.int64)
    box, term = np.empty((2, d), np.int64), np.zeros(d)
    best[0] = 0.0
    for start in range(m):
        if best[start] < np.inf:
            _reach(task, order, start, tile[start], limit, box, term, best, origin)
    begins, end = np.zeros(m, np.int64), m
    while end > 0:
        end = origin[end]
        begins[end] = 1
    return float(best[m]), np.cumsum(begins) - 1
