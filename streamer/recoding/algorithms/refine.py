"""Sweeps that improve QI groups: each move only where every group still holds and the total loss falls.

A sweep goes through the groups by their seats, those alone that have changed since it was their turn, and tries for
each, in this order, until one succeeds: *cut*, a group of twice the fewest rows or more alone, by the order and the
segments of `ordered`; *dissolve*, every bundle goes to the group that takes it at the least growth of loss; *evict*,
each bundle that the group can spare goes there; *re-cut*, the group together with one of these groups, at most
PARTNERS_MAX of them, the least growth first, by the order and the segments of `ordered`, and the first that gains
stands; *re-cut together*, the group with the first two of these, then with the first three. No pair is cut anew a
second time from the other side while both groups are as they were; and where the model counts values no more than
TOGETHER_MAX groups are cut together.

A bundle looks no farther than where the loss grows by FAIR times its part of its own group's loss. A group that
publishes its rows unchanged has nothing to gain, and one of more than FAR times the fewest rows is no partner and goes
nowhere itself; it takes bundles of others. A sweep that makes no move is the last. A move gains at least GAIN_MIN, so
that rounding is never taken for a gain.
"""

from __future__ import annotations

import numpy as np

from streamer.jit import compiled, inlined
from streamer.progress import OnProgress, pieces, unheard
from streamer.recoding.algorithms.box_loss import EMPTY_HI, EMPTY_LO, total, widen
from streamer.recoding.algorithms.bundles import Bundles, Task, hold, weight
from streamer.recoding.algorithms.cut_tree import order_of
from streamer.recoding.algorithms.group_index import Groups, growth, members_of, nearest, put
from streamer.recoding.algorithms.segments import FAR, best_segments
from streamer.table.arrays import Floats, Ints

FAIR = 2.0
PARTNERS_MAX = 3
GAIN_MIN = 1e-9
TOGETHER_MAX = 3
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
    several, n = 3, n if task.rules.distinct.shape[0] == 0 else min(n, TOGETHER_MAX)
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
