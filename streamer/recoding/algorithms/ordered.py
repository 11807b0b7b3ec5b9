"""Ordered segments: all rows in one good order, the best way to cut it into QI groups, and sweeps that improve these.

The order is the leaves of a tree of best cuts (`cut_tree`). The tree is only an order: its cuts go down to single rows,
and QI groups need not be nodes. Dynamic programming cuts the order into the segments of least total loss, rows times
NCP. This is done for each sharpness of SHARPNESS and, if many rows have rare leaves, for orders that take these for
one. Each way is a *candidate*; the one of least loss wins, of equals the earlier. If the model counts sensitive values,
groups are seeded with rare values (`seeding`) and exchange bundles; segments are the start only if the seeded groups
lose FAR_MORE times as much, before exchanges and after. Then SWEEPS sweeps and those of `options.refine` improve the
QI groups; a sweep that gains nothing is the last one.

**Rare leaves.** If hundreds of leaves are right under one node, two of them cost as much as all of them. A leaf with
many rows is worth QI groups of its own. Rows of rare leaves share groups in any case, and cutting them by leaf prevents
cuts by attributes where something can still be gained. So this tree is built over a table in which the rare leaves
under one node are one leaf. The segments are those of the true table.

**Segments.** The loss of a segment is its rows times the NCP of its smallest publishable box. Of segmentations that
lose the same, the one whose last segment begins earlier wins, and so on back to the start. From every bundle the
segments are those that hold the model and have fewer than twice the rows of the shortest that holds. Under k-anonymity
these are the segments of k to 2k - 1 rows, and no better segmentation exists: a longer one could be cut in two that
hold and lose no more. Under other models a segment is looked for up to FAR times the fewest rows that any group needs,
and the *tiles* of the tree are segments too. Tiles make up the whole order, so there is always a solution. Source:
Hansen and Mukherjee 2003 for one attribute; Domingo-Ferrer et al. 2006 along an order of many-dimensional rows.

**Sweeps.** A sweep visits the groups by slot, but only those that changed since their last turn. It tries for each,
until one of these succeeds: *cut*, if it has twice the fewest rows: the group alone, into the segments of its own
order; *dissolve*, every bundle goes to the group where the loss grows least; *evict*, each bundle that the group can
spare goes there; *recut*, the group together with one of these groups, at most PARTNERS_MAX of them, least growth
first; *recut together*, with the first two of these, then with the first three. No pair is recut a second time from the
other side while both groups are as they were. A bundle looks no farther than where the loss grows by FAIR times its
part of its own group's loss. A group that publishes its rows unchanged has nothing to gain. One of more than FAR times
the fewest rows is no partner and gets no turn itself, but it takes bundles of others. Every move keeps all groups
holding and gains at least GAIN_MIN, so that rounding is never taken for a gain.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from streamer.numba_support.jit import compiled, inlined
from streamer.privacy.compiled import holds
from streamer.privacy.models import Model
from streamer.progress import OnProgress, part_of, unheard
from streamer.recoding.algorithms.bundles import (
    EMPTY_HI,
    EMPTY_LO,
    Bundles,
    Task,
    add_bundle,
    bundles_hold,
    clear_bundles,
    rows_in,
    task_of,
    total,
    widen,
)
from streamer.recoding.algorithms.contract import Algorithm, Options, Recoding, local_recoding
from streamer.recoding.algorithms.cut_tree import order_of
from streamer.recoding.algorithms.group_index import (
    GAIN_MIN,
    NEAREST_VISITS,
    Groups,
    changed_slots,
    groups_of,
    growth,
    members_of,
    nearest,
    put,
)
from streamer.recoding.algorithms.seeding import exchanged, seeded
from streamer.table.arrays import Bools, Floats, Ints
from streamer.table.microdata import INDIVIDUAL, Microdata

Candidate = Callable[[Task], tuple[float, Ints]]
"""The total loss, rows times NCP, and each bundle's QI group, int64 (m,); numbers may have gaps."""

SHARPNESS = (0, 7)
"""A small one for numbers, a large one for categories (`cut_tree`)."""

RARE_LEAVES = (2, 4)
"""Leaves with fewer rows than these times the fewest rows of a group are rare."""

SWEEPS, EXCHANGES = 2, 3

FAR_MORE = (1.2, 1.1)
"""Segments are used if seeded groups lose so many times as much: before exchanges, and after. Seeded groups gain more
by moves than segments do, so they win in the end even if they begin with a higher loss."""

BEGUN = 0.5
"""The share of the work that is done once the best candidate is known, about; the rest is the sweeps."""

SHARE_MIN = 0.1
"""If fewer rows than this share have rare leaves, in every attribute, another order is not worth its time."""

FAR = 8
FAIR = 2.0
PARTNERS_MAX = 3
JOINED_MAX = 3
"""Most groups that are recut together if the model counts values, because asking takes longer then."""


def pooled(task: Task, rows_min: int) -> Task | None:
    """The task with all leaves of fewer than rows_min rows under one node as one; None if few rows have such leaves."""
    shape, cells = task.shape, task.bundles.cells.copy()
    rows, worth_it = task.bundles.end - task.bundles.begin, False
    for j in np.flatnonzero(shape.first_leaf >= 0).tolist():
        n_leaves = round(shape.width[j])
        count = np.bincount(cells[:, j], weights=rows, minlength=n_leaves)
        rare = (count > 0) & (count < rows_min)
        worth_it |= bool(count[rare].sum() >= SHARE_MIN * rows.sum())
        start = shape.first_leaf[j]
        cells[:, j] = _representatives(shape.node_ncp[0, start : start + n_leaves - 1], rare)[cells[:, j]]
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


@compiled
def _reach(
    task: Task, order: Ints, start: int, tile_end: int, limit: float, box: Ints, term: Floats, best: Floats,
    origin: Ints,
) -> None:  # fmt: skip
    """Improves best and origin (m + 1,) at the ends of all segments that begin at `start`.

    best: the least loss up to there; origin: where the last segment then begins; tile_end: where the tile that begins
    here ends, or 0; limit: a loss from which on nothing is of use. box (2, d), term (d,): scratch.
    """
    shape, cells, first, last = task.shape, task.bundles.cells, task.bundles.begin, task.bundles.end
    rows_least, rows_far = task.rules.rows, FAR * task.rows_min
    m, plain = order.shape[0], task.rules.distinct.shape[0] == 0
    box[0], box[1] = EMPTY_LO, EMPTY_HI
    lo, hi = box
    rows, shortest, per_row, end = 0, 0, 0.0, start
    while end < m:
        bundle = order[end]
        rows += last[bundle] - first[bundle]
        is_window = rows < 2 * shortest if shortest > 0 else rows <= rows_far or end == start
        if not is_window and end >= tile_end:
            break
        if widen(shape, cells[bundle], lo, hi, term):
            per_row = total(term)
        if best[start] + rows * per_row >= limit:
            break
        end += 1
        if not plain:
            add_bundle(task, bundle)
        if is_window and rows >= rows_least and (plain or holds(task.rules, task.scratch)):
            shortest = shortest if shortest > 0 else rows
        elif end != tile_end:
            continue
        if best[start] + rows * per_row < best[end]:
            best[end], origin[end] = best[start] + rows * per_row, start
    if not plain:
        clear_bundles(task, order[start:end])


@compiled
def best_segments(task: Task, order: Ints, tile: Ints, limit: float) -> tuple[float, Ints]:
    """The least loss, and the number of every position's segment, int64 (m,), from 0 along the order.

    order, tile: as `order_of` answers. If nothing loses less than `limit`, the loss is infinite and the rest no answer.
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


@compiled
def loss_of(task: Task, members: Ints) -> float:
    """Loss of the bundles as one group: rows times NCP."""
    d = task.bundles.cells.shape[1]
    lo, hi, term = np.full(d, EMPTY_LO), np.full(d, EMPTY_HI), np.zeros(d)
    for bundle in members:
        widen(task.shape, task.bundles.cells[bundle], lo, hi, term)
    return rows_in(task.bundles, members) * total(term)


@compiled
def _empty(task: Task, groups: Groups, slot: int) -> None:
    """Empties a slot; it is the next to be filled."""
    put(task, groups, slot, np.empty(0, np.int64))
    groups.free[groups.n_free[0]] = slot
    groups.n_free[0] += 1


@compiled
def _recut(task: Task, groups: Groups, slots: Ints) -> bool:
    """Recuts the groups in some slots together; whether that gained."""
    members, before = np.empty(0, np.int64), 0.0
    for slot in slots:
        members = np.append(members, members_of(groups, slot))
        before += groups.rows[slot] * groups.ncp[slot]
    bundles = Bundles(task.bundles.cells[members], task.bundles.begin[members], task.bundles.end[members])
    together = Task(task.shape, bundles, task.rules, task.scratch, task.rows_min, task.rows_per_call)
    # a bare 0 would be a type of its own, for which all is compiled again
    order, tile = order_of(together, np.int64(0))
    after, segment = best_segments(together, order, tile, before - GAIN_MIN)
    if after == np.inf:
        return False
    for slot in slots[::-1]:
        _empty(task, groups, slot)
    along = members[order]
    for i in range(segment[-1] + 1):
        groups.n_free[0] -= 1
        put(task, groups, groups.free[groups.n_free[0]], along[segment == i])
    return True


@inlined
def _is_known(groups: Groups, pairs: Ints, slot: int, partner: int) -> bool:
    """Whether a slot was recut with this partner in vain, and both are as they were then.

    pairs (g, PARTNERS_MAX, 2): with whom a slot was recut in vain, and how often the two had been filled in sum.
    """
    known = False
    for i in range(PARTNERS_MAX):
        same = pairs[slot, i, 0] == partner
        known = known or (same and pairs[slot, i, 1] == groups.fillings[slot] + groups.fillings[partner])
    return known


@compiled
def _recut_with_partners(task: Task, groups: Groups, pairs: Ints, slot: int, target: Ints, grown: Floats) -> bool:
    """Recuts a group with the first of its bundles' targets, one of them or several; whether that gained.

    target, grown (m,): where each bundle would go, or -1, and at what growth.
    """
    together, n = np.full(PARTNERS_MAX + 1, slot), 1
    for i in np.argsort(grown, kind="mergesort"):
        partner = target[i]
        if partner < 0 or groups.rows[partner] > FAR * task.rows_min or (together[:n] == partner).any():
            continue
        together[n] = partner
        n += 1
        if not _is_known(groups, pairs, partner, slot):
            if _recut(task, groups, np.array([slot, partner])):
                return True
            pairs[slot, n - 2, 0] = partner
            pairs[slot, n - 2, 1] = groups.fillings[slot] + groups.fillings[partner]
        if n > PARTNERS_MAX:
            break
    several, n = 3, n if task.rules.distinct.shape[0] == 0 else min(n, JOINED_MAX)
    while several <= n and not _recut(task, groups, together[:several]):
        several += 1
    return several <= n


@compiled
def _dissolve(task: Task, groups: Groups, slot: int, members: Ints, target: Ints) -> bool:
    """Sends every bundle of a group to its target if that gains and all targets hold; whether it did."""
    if (target < 0).any():
        return False
    gain = groups.rows[slot] * groups.ncp[slot]
    for i in range(target.shape[0]):
        if (target[:i] == target[i]).any():
            continue
        joined = np.append(members_of(groups, target[i]), members[target == target[i]])
        gain += groups.rows[target[i]] * groups.ncp[target[i]] - loss_of(task, joined)
        if gain < GAIN_MIN or not bundles_hold(task, joined):
            return False
    for i in range(target.shape[0]):
        if not (target[:i] == target[i]).any():
            put(task, groups, target[i], np.append(members_of(groups, target[i]), members[target == target[i]]))
    _empty(task, groups, slot)
    return True


@compiled
def _evict(task: Task, groups: Groups, slot: int, members: Ints, target: Ints) -> bool:
    """Sends each bundle of a group to its target if that gains and both groups hold; whether one went."""
    moved = False
    for i in range(members.shape[0]):
        bundle, goal = members[i], target[i]
        rows = task.bundles.end[bundle] - task.bundles.begin[bundle]
        if goal < 0 or groups.rows[slot] - rows < task.rows_min:
            continue
        now = members_of(groups, slot)
        rest = now[now != bundle]
        gain = groups.rows[slot] * groups.ncp[slot] - loss_of(task, rest)
        if gain - growth(task, groups, goal, task.bundles.cells[bundle], rows) < GAIN_MIN:
            continue
        joined = np.append(members_of(groups, goal), bundle)
        if bundles_hold(task, rest) and bundles_hold(task, joined):
            put(task, groups, slot, rest)
            put(task, groups, goal, joined)
            moved = True
    return moved


@inlined
def _equal(one: Ints, other: Ints) -> bool:
    """Whether two bundles have the same cells (d,)."""
    j = 0
    while j < one.shape[0] and one[j] == other[j]:
        j += 1
    return bool(j == one.shape[0])


@compiled
def _targets(task: Task, groups: Groups, slot: int, members: Ints) -> tuple[Ints, Floats]:
    """Where each bundle of a group would go, or -1, and at what growth; (m,) each. Equal bundles go to one slot."""
    cells, size = task.bundles.cells, task.bundles.end[members] - task.bundles.begin[members]
    target, grown = np.empty(members.shape[0], np.int64), np.empty(members.shape[0])
    for i in range(members.shape[0]):
        bundle, like = members[i], 0
        while like < i and not (size[like] == size[i] and _equal(cells[members[like]], cells[bundle])):
            like += 1
        if like < i:
            target[i], grown[i] = target[like], grown[like]
            continue
        limit = FAIR * size[i] * groups.ncp[slot]
        target[i], grown[i] = nearest(task, groups, None, slot, bundle, limit, np.int64(NEAREST_VISITS))
    return target, grown


@compiled
def _improve(task: Task, groups: Groups, pairs: Ints, slot: int) -> bool:
    """Tries all moves for one group; whether one was made."""
    if groups.rows[slot] >= 2 * task.rows_min and _recut(task, groups, np.array([slot])):
        return True
    members = members_of(groups, slot)
    target, grown = _targets(task, groups, slot, members)
    return (
        _dissolve(task, groups, slot, members, target)
        or _evict(task, groups, slot, members, target)
        or _recut_with_partners(task, groups, pairs, slot, target, grown)
    )


def sweep(task: Task, groups: Groups, on_progress: OnProgress = unheard) -> int:
    """One sweep over all groups that have changed; how many were improved."""
    pairs = np.full((len(groups.rows), PARTNERS_MAX, 2), -1, dtype=np.int64)
    return sum(_sweep_some(task, groups, pairs, slots) for slots in changed_slots(task, groups, on_progress))


@compiled
def _sweep_some(task: Task, groups: Groups, pairs: Ints, slots: Ints) -> int:
    """Tries to improve the groups in some slots, one after the other; how many were improved."""
    improved = 0
    for slot in slots:
        rows, groups.changed[slot] = groups.rows[slot], False
        if 0 < rows <= FAR * task.rows_min and rows * groups.ncp[slot] >= GAIN_MIN:
            improved += _improve(task, groups, pairs, int(slot))
    return improved


def segmented(task: Task, sharpness: int) -> tuple[float, Ints]:
    """The best segments along the order of one tree."""
    return _best_along(task, *order_of(task, sharpness))


def _best_along(task: Task, order: Ints, tile: Ints) -> tuple[float, Ints]:
    loss, segment = best_segments(task, order, tile, np.inf)
    qi_group = np.empty(len(order), dtype=np.int64)
    qi_group[order] = segment
    return loss, qi_group


def without_rare_leaves(task: Task, times: int) -> tuple[float, Ints]:
    """The best segments along an order that takes leaves of fewer than `times` the fewest rows of a group for one.

    The loss is infinite if there are few such leaves: then the order has nothing to offer.
    """
    simpler = pooled(task, times * task.rows_min)
    if simpler is None:
        return np.inf, np.zeros(len(task.bundles.begin), dtype=np.int64)
    return _best_along(task, *order_of(simpler, SHARPNESS[-1]))


SEGMENTED: tuple[Candidate, ...] = tuple(partial(segmented, sharpness=sharpness) for sharpness in SHARPNESS)
OF_ROWS: tuple[Candidate, ...] = (*SEGMENTED, *(partial(without_rare_leaves, times=times) for times in RARE_LEAVES))
"""The candidates if the model counts rows and individuals alone."""


def exchanging(task: Task, on_progress: OnProgress = unheard) -> tuple[float, Ints]:
    """Groups seeded with rare values after exchanges; or the best segments after exchanges, if these lose far less."""
    loss, segment = segmented(task, SHARPNESS[0])
    start = seeded(task, part_of(on_progress, 0.1, 0.6))
    found = exchanged(task, start, int(start.max()) + 1, EXCHANGES, part_of(on_progress, 0.6, 0.8))
    if exchanged(task, start, int(start.max()) + 1, 0)[0] > FAR_MORE[0] * loss:
        other = exchanged(task, segment, int(segment.max()) + 1, EXCHANGES, part_of(on_progress, 0.8, 1.0))
        return other if found[0] > FAR_MORE[1] * other[0] else found
    return found


def run(microdata: Microdata, model: Model, options: Options) -> Recoding:
    """Anonymizes by ordered segments, under any model."""
    rows, task = task_of(microdata, model, options.rows_per_call)
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
    n_slots = max(n_rows // task.rows_min, int(qi_group.max()) + 1)  # as many groups as there can be; numbers have gaps
    groups, done = groups_of(task, qi_group, n_slots), 0
    while done < sweeps_max and sweep(task, groups, part_of(on_progress, done / sweeps_max, (done + 1) / sweeps_max)):
        done += 1
    for slot in np.flatnonzero(groups.rows).tolist():
        qi_group[members_of(groups, slot)] = slot
    return done


ORDERED = Algorithm(
    "ordered",
    "cuts a good order of all rows into the best segments",
    "this project; Hansen and Mukherjee 2003 along an order of best cuts",
    run,
    refines=True,
)
