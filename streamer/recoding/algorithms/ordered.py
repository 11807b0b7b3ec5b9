"""Ordered segments: all rows in one good order, and the best way to cut this order into QI groups.

The order is the leaves of a tree of best cuts (`cut_tree`). The tree is only an order: its cuts go down to single
rows, and QI groups need not be nodes. Dynamic programming cuts the order into the segments of least total NCP.
This is done for each sharpness of SHARPNESS, and where many rows have rare leaves, for orders that take
these for one. Each way is a *candidate*: it makes QI groups that all hold the model, and says what they
lose; the least loss stands, of equals the earlier. Where the model counts sensitive values, groups are founded on
rare values (`seeding`) and bundles change groups; segments are the start only where the founded groups
lose FAR_MORE times as much, before exchanges and after. SWEEPS sweeps and those of `options.refine` then
improve the QI groups; a sweep that gains nothing is the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from streamer.numba_support.jit import compiled, inlined
from streamer.privacy.compiled import Scratch, holds
from streamer.privacy.models import Model
from streamer.progress import OnProgress, part_of, pieces, unheard
from streamer.recoding.algorithms.bundles import (
    EMPTY_HI,
    EMPTY_LO,
    Bundles,
    Shape,
    Task,
    count_in,
    count_out,
    forget,
    hold,
    ncp_term,
    task_of,
    total,
    weight,
    widen,
)
from streamer.recoding.algorithms.contract import Algorithm, Options, Recoding, local_recoding, no_objections
from streamer.recoding.algorithms.cut_tree import order_of
from streamer.recoding.algorithms.group_index import (
    Groups,
    SubjectCounts,
    count_row,
    counts_for,
    discount_row,
    groups_of,
    growth,
    join,
    members_of,
    nearest,
    put,
)
from streamer.recoding.algorithms.seeding import founded, taker
from streamer.table.arrays import Bools, Floats, Ints
from streamer.table.microdata import INDIVIDUAL, Microdata

# Rare leaves taken for one: an order for tables with wide hierarchies.
#
# Where hundreds of leaves stand right under one node, two of them cost as much as all of them. A leaf with many rows is
# worth QI groups of its own; rows of rare leaves share groups in any case, and cutting them by leaf keeps them from
# being cut by what could still be gained. So the tree of best cuts is built over a table in which the rare leaves under
# one node are one leaf; what it cuts by is then frequent leaves and other attributes alone. The segments are those of
# the true table.

SHARE_MIN = 0.1
"""Below this share of the rows in rare leaves, in every attribute, another order is not worth its time."""


def pooled(task: Task, rows_min: int) -> Task | None:
    """The task with all leaves of fewer than rows_min rows under one node as one; None if few rows are in such."""
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


# An order of bundles cut into segments, each one QI group, of least total loss: dynamic programming.
#
# The loss of a segment is its rows times the NCP of its smallest publishable box; of segmentations that lose the same,
# the one stands whose last segment begins earlier, and so on back to the start. From every bundle the segments are
# those that hold the model and have fewer than twice the rows of the shortest that holds. Under k-anonymity these are
# the segments of k to 2k - 1 rows, and no better segmentation exists: a longer segment could be cut in two that hold
# and lose no more. Under other models, a segment is looked for up to FAR times the fewest rows that any group needs,
# and the *tiles* (`algorithms.cut_tree`) are segments too. Tiles make up the whole order, so there always is a way
# through.
#
# Source: Hansen and Mukherjee 2003 for one attribute; Domingo-Ferrer et al. 2006 along an order of many-dimensional
# rows.

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


# Sweeps that improve QI groups: each move only where every group still holds and the total loss falls.
#
# A sweep goes through the groups by their seats, those alone that have changed since it was their turn, and tries for
# each, in this order, until one succeeds: *cut*, a group of twice the fewest rows or more alone, by the order and the
# segments of `ordered`; *dissolve*, every bundle goes to the group that takes it at the least growth of loss; *evict*,
# each bundle that the group can spare goes there; *re-cut*, the group together with one of these groups, at most
# PARTNERS_MAX of them, the least growth first, by the order and the segments of `ordered`, and the first that gains
# stands; *re-cut together*, the group with the first two of these, then with the first three. No pair is cut anew a
# second time from the other side while both groups are as they were; and where the model counts values no more than
# TOGETHER_MAX groups are cut together.
#
# A bundle looks no farther than where the loss grows by FAIR times its part of its own group's loss. A group that
# publishes its rows unchanged has nothing to gain, and one of more than FAR times the fewest rows is no partner and
# goes nowhere itself; it takes bundles of others. A sweep that makes no move is the last. A move gains at least
# GAIN_MIN, so that rounding is never taken for a gain.

FAIR = 2.0
PARTNERS_MAX = 3
GAIN_MIN = 1e-9
JOINED_MAX = 3
"""Groups that are cut anew together where the model counts values, and asking takes longer."""

SOME_SEATS = 256
"""Seats that one call of a compiled loop looks at."""


@compiled
def loss_of(task: Task, members: Ints) -> float:
    """Loss of the bundles as one group: rows times NCP."""
    d = task.bundles.cells.shape[1]
    lo, hi, term = np.full(d, EMPTY_LO), np.full(d, EMPTY_HI), np.zeros(d)
    for bundle in members:
        widen(task.shape, task.bundles.cells[bundle], lo, hi, term)
    return weight(task.bundles, members) * total(term)


@compiled
def _empty(task: Task, groups: Groups, seat: int) -> None:
    """Empties a seat; it is the next to be filled."""
    put(task, groups, seat, np.empty(0, np.int64))
    groups.free[groups.n_free[0]] = seat
    groups.n_free[0] += 1


@compiled
def _recut(task: Task, groups: Groups, seats: Ints) -> bool:
    """Cuts the groups in some seats anew, all together; whether that gained."""
    members, before = np.empty(0, np.int64), 0.0
    for seat in seats:
        members = np.append(members, members_of(groups, seat))
        before += groups.rows[seat] * groups.ncp[seat]
    bundles = Bundles(task.bundles.cells[members], task.bundles.begin[members], task.bundles.end[members])
    here = Task(task.shape, bundles, task.rules, task.scratch, task.rows_min)
    order, tile = order_of(here, np.int64(0))  # a bare 0 would be a type of its own, and compiled again
    after, segment = best_segments(here, order, tile, before - GAIN_MIN)
    if after == np.inf:
        return False
    for seat in seats[::-1]:
        _empty(task, groups, seat)
    along = members[order]
    for i in range(segment[-1] + 1):
        groups.n_free[0] -= 1
        put(task, groups, groups.free[groups.n_free[0]], along[segment == i])
    return True


@inlined
def _is_known(groups: Groups, pairs: Ints, seat: int, partner: int) -> bool:
    """Whether a seat was in vain cut anew with this partner, and both are as they were then.

    pairs (g, PARTNERS_MAX, 2): with whom a seat was cut anew in vain, and how often the two had been filled, together.
    """
    known = False
    for i in range(PARTNERS_MAX):
        same = pairs[seat, i, 0] == partner
        known = known or (same and pairs[seat, i, 1] == groups.fillings[seat] + groups.fillings[partner])
    return known


@compiled
def _recut_with_partners(
    task: Task, groups: Groups, pairs: Ints, seat: int, target: Ints, grown: Floats
) -> bool:  # fmt: skip
    """Cuts a group anew with the first of its bundles' targets, one of them or several; whether that gained.

    target, grown (m,): where each bundle would go, or -1, and at what growth.
    """
    together, n = np.full(PARTNERS_MAX + 1, seat), 1
    for i in np.argsort(grown, kind="mergesort"):
        partner = target[i]
        if partner < 0 or groups.rows[partner] > FAR * task.rows_min or (together[:n] == partner).any():
            continue
        together[n] = partner
        n += 1
        if not _is_known(groups, pairs, partner, seat):
            if _recut(task, groups, np.array([seat, partner])):
                return True
            pairs[seat, n - 2, 0] = partner
            pairs[seat, n - 2, 1] = groups.fillings[seat] + groups.fillings[partner]
        if n > PARTNERS_MAX:
            break
    several, n = 3, n if task.rules.distinct.shape[0] == 0 else min(n, JOINED_MAX)
    while several <= n and not _recut(task, groups, together[:several]):
        several += 1
    return several <= n


@compiled
def _dissolve(task: Task, groups: Groups, seat: int, members: Ints, target: Ints) -> bool:
    """Sends every bundle of a group to its target, if that gains and all of those hold; whether it did."""
    if (target < 0).any():
        return False
    gain = groups.rows[seat] * groups.ncp[seat]
    for i in range(target.shape[0]):
        if (target[:i] == target[i]).any():
            continue
        joined = np.append(members_of(groups, target[i]), members[target == target[i]])
        gain += groups.rows[target[i]] * groups.ncp[target[i]] - loss_of(task, joined)
        if gain < GAIN_MIN or not hold(task, joined):
            return False
    for i in range(target.shape[0]):
        if not (target[:i] == target[i]).any():
            put(task, groups, target[i], np.append(members_of(groups, target[i]), members[target == target[i]]))
    _empty(task, groups, seat)
    return True


@compiled
def _evict(task: Task, groups: Groups, seat: int, members: Ints, target: Ints) -> bool:
    """Sends single bundles of a group to their targets, where that gains and both groups hold; whether one went."""
    moved = False
    for i in range(members.shape[0]):
        bundle, goal = members[i], target[i]
        rows = task.bundles.end[bundle] - task.bundles.begin[bundle]
        if goal < 0 or groups.rows[seat] - rows < task.rows_min:
            continue
        now = members_of(groups, seat)
        rest = now[now != bundle]
        gain = groups.rows[seat] * groups.ncp[seat] - loss_of(task, rest)
        if gain - growth(task, groups, goal, task.bundles.cells[bundle], rows) < GAIN_MIN:
            continue
        joined = np.append(members_of(groups, goal), bundle)
        if hold(task, rest) and hold(task, joined):
            put(task, groups, seat, rest)
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
def _targets(task: Task, groups: Groups, seat: int, members: Ints) -> tuple[Ints, Floats]:
    """Where each bundle of a group would go, or -1, and at what growth; (m,) each.

    Bundles that are alike go to one place, and it is looked for once.
    """
    cells, size = task.bundles.cells, task.bundles.end[members] - task.bundles.begin[members]
    target, grown = np.empty(members.shape[0], np.int64), np.empty(members.shape[0])
    for i in range(members.shape[0]):
        bundle, like = members[i], 0
        while like < i and not (size[like] == size[i] and _equal(cells[members[like]], cells[bundle])):
            like += 1
        if like < i:
            target[i], grown[i] = target[like], grown[like]
            continue
        limit = FAIR * size[i] * groups.ncp[seat]
        target[i], grown[i] = nearest(task, groups, seat, cells[bundle], size[i], limit)
    return target, grown


@compiled
def _improve(task: Task, groups: Groups, pairs: Ints, seat: int) -> bool:
    """Tries all moves for one group; whether one was made."""
    if groups.rows[seat] >= 2 * task.rows_min and _recut(task, groups, np.array([seat])):
        return True
    members = members_of(groups, seat)
    target, grown = _targets(task, groups, seat, members)
    return (
        _dissolve(task, groups, seat, members, target)
        or _evict(task, groups, seat, members, target)
        or _recut_with_partners(task, groups, pairs, seat, target, grown)
    )


def sweep(task: Task, groups: Groups, on_progress: OnProgress = unheard) -> int:
    """One sweep over all groups that have changed; how many of them were improved."""
    seats, improved = np.flatnonzero(groups.changed), 0
    pairs = np.full((len(groups.rows), PARTNERS_MAX, 2), -1, dtype=np.int64)
    for piece in pieces(len(seats), SOME_SEATS, on_progress):
        improved += _sweep_some(task, groups, pairs, seats[piece])
    return improved


@compiled
def _sweep_some(task: Task, groups: Groups, pairs: Ints, seats: Ints) -> int:
    """Tries to improve the groups in some seats, one after the other; how many of them were."""
    improved = 0
    for seat in seats:
        rows, groups.changed[seat] = groups.rows[seat], False
        if (
            0 < rows <= FAR * task.rows_min
            and rows * groups.ncp[seat] >= GAIN_MIN
            and _improve(task, groups, pairs, int(seat))
        ):
            improved += 1
    return improved


# Bundles change their groups where every group still holds and the total loss falls.
#
# A sweep goes through the groups by their seats, those alone that have changed since it was their turn. A bundle that
# its group can spare goes to the group that takes it (`seeding`) at the least growth, if that is less than what its
# own group gains. One that makes its group's box larger and cannot go is exchanged for a bundle of the group where it
# would grow the loss least, of that group's the one with which most is gained and both groups hold. So a rare value,
# which no group can spare, still finds its way. Groups of more than SWAPPED_MAX rows exchange nothing.

VISITS = 48
SWAPPED_MAX = 256


@compiled
def ends_of(task: Task, members: Ints, ends: Ints) -> None:
    """ends (6, d): the lowest cells, how many bundles have them, the next ones; and the highest likewise."""
    d = ends.shape[1]
    for j in range(d):
        lo, n_lo, next_lo = np.iinfo(np.int64).max, 0, np.iinfo(np.int64).max
        hi, n_hi, next_hi = -1, 0, -1
        for bundle in members:
            cell = task.bundles.cells[bundle, j]
            if cell < lo:
                lo, n_lo, next_lo = cell, 1, lo
            elif cell == lo:
                n_lo += 1
            elif cell < next_lo:
                next_lo = cell
            if cell > hi:
                hi, n_hi, next_hi = cell, 1, hi
            elif cell == hi:
                n_hi += 1
            elif cell > next_hi:
                next_hi = cell
        ends[0, j], ends[1, j], ends[2, j], ends[3, j], ends[4, j], ends[5, j] = lo, n_lo, next_lo, hi, n_hi, next_hi


@inlined
def _ncp_without(shape: Shape, ends: Ints, cells: Ints) -> float:
    """NCP of a group of two bundles and more without one."""
    each = 0.0
    for j in range(cells.shape[0]):
        lo = ends[2, j] if cells[j] == ends[0, j] and ends[1, j] == 1 else ends[0, j]
        hi = ends[5, j] if cells[j] == ends[3, j] and ends[4, j] == 1 else ends[3, j]
        each += ncp_term(shape, j, lo, hi)
    return each


@inlined
def _ncp_instead(shape: Shape, ends: Ints, cells: Ints, new: Ints, alone: bool) -> float:
    """NCP of a group without one bundle and with another instead."""
    each = 0.0
    for j in range(cells.shape[0]):
        lo = ends[2, j] if cells[j] == ends[0, j] and ends[1, j] == 1 else ends[0, j]
        hi = ends[5, j] if cells[j] == ends[3, j] and ends[4, j] == 1 else ends[3, j]
        if alone:
            lo = hi = new[j]
        each += ncp_term(shape, j, min(lo, new[j]), max(hi, new[j]))
    return each


@inlined
def _touches(ends: Ints, cells: Ints) -> bool:
    """Whether a bundle lies at an end of its group."""
    at = False
    for j in range(cells.shape[0]):
        at = at or cells[j] == ends[0, j] or cells[j] == ends[3, j]
    return at


@compiled
def _recount(task: Task, counts: SubjectCounts, bundle: int, source: int, target: int) -> None:
    for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
        discount_row(task.rules, counts, source, row)
        count_row(task.rules, counts, target, row)


@compiled
def _swap(
    task: Task, aside: Task, groups: Groups, counts: SubjectCounts, seat: int, members: Ints, at: int, ends: Ints,
    limit: float,
) -> bool:  # fmt: skip
    """Exchanges a bundle of a group, whose rows are counted, for one of another; whether that gained."""
    shape, bundles = task.shape, task.bundles
    bundle = members[at]
    cells, rows = bundles.cells[bundle], bundles.end[bundle] - bundles.begin[bundle]
    other, _ = nearest(task, groups, seat, cells, rows, limit)
    if other < 0 or groups.rows[other] > SWAPPED_MAX:
        return False
    theirs = members_of(groups, other)
    their_ends = np.empty_like(ends)
    ends_of(task, theirs, their_ends)
    n_here = groups.rows[seat] - rows
    before = groups.rows[seat] * groups.ncp[seat] + groups.rows[other] * groups.ncp[other]
    best, least = -1, before - GAIN_MIN
    loaded = False
    for i in range(theirs.shape[0]):
        their = theirs[i]
        their_rows = bundles.end[their] - bundles.begin[their]
        after = (n_here + their_rows) * _ncp_instead(shape, ends, cells, bundles.cells[their], members.shape[0] == 1)
        if after >= least:
            continue
        after += (groups.rows[other] + rows - their_rows) * _ncp_instead(
            shape, their_ends, bundles.cells[their], cells, theirs.shape[0] == 1
        )
        if after >= least:
            continue
        if not loaded:
            loaded = True
            for one in theirs:
                count_in(aside, one)
        count_out(task, bundle)
        count_in(task, their)
        count_out(aside, their)
        count_in(aside, bundle)
        if holds(task.rules, task.scratch) and holds(task.rules, aside.scratch):
            best, least = i, after
        count_out(task, their)
        count_in(task, bundle)
        count_out(aside, bundle)
        count_in(aside, their)
    if loaded:
        for one in theirs:
            count_out(aside, one)
    if best < 0:
        return False
    their = theirs[best]
    count_out(task, bundle)
    count_in(task, their)
    _recount(task, counts, bundle, seat, other)
    _recount(task, counts, their, other, seat)
    members[at], theirs[best] = their, bundle
    put(task, groups, other, theirs)
    put(task, groups, seat, members)
    ends_of(task, members, ends)
    return True


@compiled
def _relieve(task: Task, aside: Task, groups: Groups, counts: SubjectCounts, seat: int) -> int:
    """Sends bundles of a group elsewhere; how many went."""
    bundles = task.bundles
    members = members_of(groups, seat)
    ends = np.empty((6, bundles.cells.shape[1]), np.int64)
    for bundle in members:
        count_in(task, bundle)
    ends_of(task, members, ends)
    moved, at = 0, 0
    while at < members.shape[0]:
        bundle = members[at]
        cells, rows = bundles.cells[bundle], bundles.end[bundle] - bundles.begin[bundle]
        left = groups.rows[seat] - rows
        gain = groups.rows[seat] * groups.ncp[seat]
        if left > 0:
            gain -= left * _ncp_without(task.shape, ends, cells)
        at += 1
        if gain < GAIN_MIN:
            continue
        count_out(task, bundle)
        if left == 0 or holds(task.rules, task.scratch):
            other, _ = taker(task, groups, counts, seat, bundle, gain - GAIN_MIN, np.int64(VISITS))
            if other >= 0:
                _recount(task, counts, bundle, seat, other)
                members = np.append(members[: at - 1], members[at:])
                at -= 1
                touched = _touches(ends, cells)
                put(task, groups, seat, members)
                join(task, groups, other, bundle)
                if touched:
                    ends_of(task, members, ends)
                moved += 1
                continue
        count_in(task, bundle)
        if groups.rows[seat] <= SWAPPED_MAX and left > 0 and gain > rows * groups.ncp[seat] + GAIN_MIN:
            moved += _swap(task, aside, groups, counts, seat, members, at - 1, ends, gain)
    for bundle in members:
        count_out(task, bundle)
    return moved


def exchanged(
    task: Task, qi_group: Ints, n_seats: int, sweeps: int, on_progress: OnProgress = unheard
) -> tuple[float, Ints]:
    """The loss and the groups of qi_group (m,), all below n_seats, after some sweeps of moves."""
    aside = task._replace(scratch=Scratch(*(counts.copy() for counts in task.scratch)))
    groups, counts = groups_of(task, qi_group, n_seats), counts_for(task.rules, n_seats)
    _count_all(task, counts, qi_group)
    for done in range(sweeps):
        seats, moved = np.flatnonzero(groups.changed), 0
        for piece in pieces(len(seats), SOME_SEATS, part_of(on_progress, done / sweeps, (done + 1) / sweeps)):
            moved += _exchange_some(task, aside, groups, counts, seats[piece])
        if moved == 0:
            break
    return _found(groups, len(qi_group))


@compiled
def _count_all(task: Task, counts: SubjectCounts, qi_group: Ints) -> None:
    for bundle in range(qi_group.shape[0]):
        for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
            count_row(task.rules, counts, qi_group[bundle], row)


@compiled
def _exchange_some(task: Task, aside: Task, groups: Groups, counts: SubjectCounts, seats: Ints) -> int:
    """Sends bundles of the groups in some seats elsewhere; how many went."""
    moved = 0
    for at in seats:
        seat = int(at)
        groups.changed[seat] = False
        if groups.rows[seat] * groups.ncp[seat] > GAIN_MIN:
            moved += _relieve(task, aside, groups, counts, seat)
    return moved


@compiled
def _found(groups: Groups, m: int) -> tuple[float, Ints]:
    """The loss of all groups, and every bundle's group; (m,)."""
    found, loss = np.empty(m, np.int64), 0.0
    for seat in range(groups.rows.shape[0]):
        loss += groups.rows[seat] * groups.ncp[seat]
        bundle = groups.first[seat]
        while bundle >= 0:
            found[bundle] = seat
            bundle = groups.next[bundle]
    return loss, found


Candidate = Callable[[Task], tuple[float, Ints]]
"""The total loss, rows times NCP, and each bundle's QI group, int64 (m,); numbers may have gaps."""

SHARPNESS = (0, 7)
"""A small one for numbers, a large one for categories (`cut_tree`)."""

RARE_LEAVES = (2, 4)
"""Leaves with fewer rows than these times the fewest rows of a group are rare."""


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

    An infinite loss if there are few such leaves: then the order has nothing to offer.
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

OF_ROWS: tuple[Candidate, ...] = (*SEGMENTED, *(partial(without_rare_leaves, times=times) for times in RARE_LEAVES))
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
