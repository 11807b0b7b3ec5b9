"""Ordered segments: all rows in one good order, and the best way to cut this order into QI groups.

The order is the leaves of a tree of best cuts (`cut_tree`). The tree is only an order: its cuts go down to single
rows, and QI groups need not be nodes. Dynamic programming cuts the order into the segments of least total NCP
(`segments`). This is done for each sharpness of SHARPNESS, and where many rows have rare leaves, for orders that take
these for one (`rare_leaves`). Each way is a *candidate*: it makes QI groups that all hold the model, and says what they
lose; the least loss stands, of equals the earlier. Where the model counts sensitive values, groups are founded on
rare values (`founding`) and bundles change groups (`exchange`); segments are the start only where the founded groups
lose FAR_MORE times as much, before exchanges and after. SWEEPS sweeps and those of `options.refine` then
improve the QI groups (`refine`); a sweep that gains nothing is the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from streamer.privacy.models import Model
from streamer.progress import OnProgress, part_of, unheard
from streamer.recoding.algorithms.bundles import Task, task_of
from streamer.recoding.algorithms.contract import Algorithm, Options, no_objections
from streamer.recoding.algorithms.cut_tree import order_of
from streamer.recoding.algorithms.exchange import exchanged
from streamer.recoding.algorithms.founding import founded
from streamer.recoding.algorithms.group_index import groups_of, members_of
from streamer.recoding.algorithms.rare_leaves import pooled
from streamer.recoding.algorithms.recoding import Recoding, local_recoding
from streamer.recoding.algorithms.refine import sweep
from streamer.recoding.algorithms.segments import best_segments
from streamer.table.arrays import Ints
from streamer.table.microdata import INDIVIDUAL, Microdata

Candidate = Callable[[Task], tuple[float, Ints]]
"""The total loss, rows times NCP, and each bundle's QI group, int64 (m,); numbers may have gaps."""

SHARPNESS = (0, 7)
"""A small one for numbers, a large one for categories (`cut_tree`)."""

RARE = (2, 4)
"""Leaves with fewer rows than these times the fewest rows of a group are rare (`rare_leaves`)."""


def segmented(task: Task, sharpness: int) -> tuple[float, Ints]:
    """The best segments of the order of one tree."""
    return _best_along(task, *order_of(task, sharpness))


def _best_along(task: Task, order: Ints, tile: Ints) -> tuple[float, Ints]:
    loss, segment = best_segments(task, order, tile, np.inf)
    qi_group = np.empty(len(order), dtype=np.int64)
    qi_group[order] = segment
    return loss, qi_group


def without_rare_leaves(task: Task, times: int) -> tuple[float, Ints]:
    """The best segments of an order that takes leaves of fewer than `times` the fewest rows of a group for one.

    An infinite loss where there are few such leaves: then the order has nothing to offer.
    """
    simpler = pooled(task, times * task.rows_min)
    if simpler is None:
        return np.inf, np.zeros(len(task.bundles.begin), dtype=np.int64)
    return _best_along(task, *order_of(simpler, SHARPNESS[-1]))


SEGMENTED: tuple[Candidate, ...] = tuple(partial(segmented, sharpness=sharpness) for sharpness in SHARPNESS)
SWEEPS, EXCHANGES = 2, 3

FAR_MORE = (1.2, 1.1)
"""What founded groups lose, over what segments lose, before exchanges and after them, from which on segments stand.

Founded groups gain more by moves than segments do, and win in the end although they begin with a higher loss.
"""

OF_ROWS: tuple[Candidate, ...] = (*SEGMENTED, *(partial(without_rare_leaves, times=times) for times in RARE))
"""Where the model counts rows and individuals alone."""


def exchanging(task: Task, on_progress: OnProgress = unheard) -> tuple[float, Ints]:
    """Groups founded on rare values after sweeps of exchanges; or the best segments, if they lose far less."""
    loss, segment = segmented(task, SHARPNESS[0])
    start = founded(task, part_of(on_progress, 0.1, 0.6))
    found = exchanged(task, start, int(start.max()) + 1, EXCHANGES, part_of(on_progress, 0.6, 0.8))
    if exchanged(task, start, int(start.max()) + 1, 0)[0] > FAR_MORE[0] * loss:
        other = exchanged(task, segment, int(segment.max()) + 1, EXCHANGES, part_of(on_progress, 0.8, 1.0))
        return other if found[0] > FAR_MORE[1] * other[0] else found
    return found


BEGUN = 0.5
"""The fraction of the work after which the best candidate stands, about; the rest is that of the sweeps."""


def run(microdata: Microdata, model: Model, options: Options) -> Recoding:
    """Anonymizes by ordered segments, under any model."""
    rows, task = task_of(microdata, model)
    beginning = part_of(options.on_progress, 0.0, BEGUN)
    if set(model.subjects) <= {INDIVIDUAL}:
        qi_group = _best_of_rows(task, beginning)
    else:
        _, qi_group = exchanging(task, beginning)
    sweeps = _refined(task, qi_group, len(rows), SWEEPS + options.refine, part_of(options.on_progress, BEGUN, 1.0))
    by_row = np.empty(len(rows), dtype=np.int64)
    by_row[rows] = np.repeat(qi_group, task.bundles.end - task.bundles.begin)
    return local_recoding(microdata, by_row, sweeps=sweeps)


def _best_of_rows(task: Task, on_progress: OnProgress) -> Ints:
    """The QI groups of the candidate of least loss, (m,); of equals the first."""
    least, qi_group = np.inf, np.zeros(len(task.bundles.begin), dtype=np.int64)
    for done, candidate in enumerate(OF_ROWS, start=1):
        loss, found = candidate(task)
        if loss < least:
            least, qi_group = loss, found
        on_progress(done / len(OF_ROWS))
    return qi_group


def _refined(task: Task, qi_group: Ints, n_rows: int, sweeps_max: int, on_progress: OnProgress) -> int:
    """Improves qi_group (m,), by bundle, in up to sweeps_max sweeps; how many sweeps gained something."""
    n_seats = max(n_rows // task.rows_min, int(qi_group.max()) + 1)  # as many as groups can be; numbers have gaps
    groups, done = groups_of(task, qi_group, n_seats), 0
    while done < sweeps_max and sweep(task, groups, part_of(on_progress, done / sweeps_max, (done + 1) / sweeps_max)):
        done += 1
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
