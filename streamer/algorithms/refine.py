"""Sweeps that improve QI groups: each move only where every group still holds and the total loss falls.

The rules of this file
----------------------
* A sweep goes through the groups by their numbers, and tries for each, in this order, until one succeeds:
  1. *Cut*: a group of twice the fewest rows or more alone, by the order and the segments of `ordered`.
  2. *Dissolve*: every bundle goes to the group where it alone costs least.
  3. *Evict*: each bundle that the group can spare goes to the group where it costs least.
  4. *Re-cut*: the group together with another that one of its bundles is near to, PARTNERS_MAX of them, those of
     least growth first, by the order and the segments of `ordered`; the first that gains stands.
* A group that publishes its rows unchanged has nothing to gain, and one of more than FAR times the fewest rows is no
  partner and goes nowhere itself; it takes bundles of others.
* A sweep that makes no move is the last. A move gains at least GAIN_MIN, so that rounding is never taken for a gain.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamer.algorithms.box_loss import EMPTY_HI, EMPTY_LO, Shape, widen
from streamer.algorithms.bundles import Bundles, hold, weight
from streamer.algorithms.cut_tree import order_of
from streamer.algorithms.group_index import Groups, growth, members_of, nearest, put, total
from streamer.algorithms.segments import FAR, best_segments
from streamer.jit import compiled
from streamer.privacy.compiled import Rules, Scratch

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

PARTNERS_MAX = 3
GAIN_MIN = 1e-9


@compiled
def loss_of(shape: Shape, bundles: Bundles, members: Ints) -> float:
    """Loss of the bundles as one group: rows times NCP."""
    d = bundles.cells.shape[1]
    lo, hi, term = np.full(d, EMPTY_LO), np.full(d, EMPTY_HI), np.zeros(d)
    for bundle in members:
        widen(shape, bundles.cells[bundle], lo, hi, term)
    return weight(bundles, members) * total(term)


@compiled
def _recut(
    shape: Shape,
    bundles: Bundles,
    groups: Groups,
    slots: Ints,
    free: Ints,
    n_free: int,
    rules: Rules,
    scratch: Scratch,
    rows_min: int,
) -> int:
    """Cuts the groups in `slots` anew; the number of free slots, or -1 where that gains nothing.

    free: slots that are empty, the first n_free of it.
    """
    members = np.empty(0, np.int64)
    before = 0.0
    for slot in slots:
        members = np.concatenate((members, members_of(groups, slot)))
        before += groups.rows[slot] * groups.ncp[slot]
    members.sort()
    here = Bundles(bundles.cells[members], bundles.begin[members], bundles.end[members])
    order, block = order_of(shape, here, rules, scratch, 0, 0)
    loss, segment = best_segments(shape, here, order, block, rules, scratch, rows_min)
    if loss > before - GAIN_MIN:
        return -1
    for slot in slots[::-1]:
        free[n_free] = slot
        n_free += 1
        put(shape, bundles, groups, slot, members[:0])
    along = members[order]
    for i in range(segment[-1] + 1):
        n_free -= 1
        put(shape, bundles, groups, free[n_free], along[segment == i])
    return n_free


@compiled
def _dissolve(
    shape: Shape,
    bundles: Bundles,
    groups: Groups,
    slot: int,
    members: Ints,
    target: Ints,
    rules: Rules,
    scratch: Scratch,
) -> bool:
    """Sends every bundle of a group to its target, if that gains and all of those hold; whether it did."""
    if (target < 0).any():
        return False
    gain = groups.rows[slot] * groups.ncp[slot]
    goals = np.unique(target)
    for goal in goals:
        joined = np.concatenate((members_of(groups, goal), members[target == goal]))
        gain += groups.rows[goal] * groups.ncp[goal] - loss_of(shape, bundles, joined)
        if gain < GAIN_MIN or (rules.distinct.shape[0] > 0 and not hold(rules, scratch, bundles, joined)):
            return False
    for goal in goals:
        joined = np.concatenate((members_of(groups, goal), members[target == goal]))
        put(shape, bundles, groups, goal, joined)
    put(shape, bundles, groups, slot, members[:0])
    return True


@compiled
def _evict(
    shape: Shape,
    bundles: Bundles,
    groups: Groups,
    slot: int,
    members: Ints,
    target: Ints,
    rules: Rules,
    scratch: Scratch,
) -> bool:
    """Sends single bundles of a group to their targets, where that gains and both groups hold; whether one went."""
    moved = False
    for i in range(members.shape[0]):
        bundle, goal = members[i], target[i]
        rows = bundles.end[bundle] - bundles.begin[bundle]
        if goal < 0 or groups.rows[slot] - rows < rules.rows:
            continue
        now = members_of(groups, slot)
        rest = now[now != bundle]
        gain = groups.rows[slot] * groups.ncp[slot] - loss_of(shape, bundles, rest)
        if gain - growth(shape, groups, goal, bundles.cells[bundle], rows) < GAIN_MIN:
            continue
        joined = np.append(members_of(groups, goal), bundle)
        if not hold(rules, scratch, bundles, rest) or not hold(rules, scratch, bundles, joined):
            continue
        put(shape, bundles, groups, slot, rest)
        put(shape, bundles, groups, goal, joined)
        moved = True
    return moved


@compiled
def sweep(
    shape: Shape, bundles: Bundles, groups: Groups, rules: Rules, scratch: Scratch, rows_min: int
) -> int:
    """One sweep over all groups; how many moves it made."""
    moves, n_slots = 0, groups.rows.shape[0]
    free = np.empty(n_slots, np.int64)
    n_free = 0
    for slot in range(n_slots - 1, -1, -1):
        if groups.rows[slot] == 0:
            free[n_free] = slot
            n_free += 1
    for slot in range(n_slots):
        if groups.rows[slot] > FAR * rows_min or groups.rows[slot] * groups.ncp[slot] < GAIN_MIN:
            continue
        if groups.rows[slot] >= 2 * rows_min:
            left = _recut(shape, bundles, groups, np.array([slot]), free, n_free, rules, scratch, rows_min)
            if left >= 0:
                moves, n_free = moves + 1, left
                continue
        members = members_of(groups, slot)
        target, grown = np.empty(members.shape[0], np.int64), np.empty(members.shape[0])
        limit = groups.rows[slot] * groups.ncp[slot]
        for i in range(members.shape[0]):
            rows = bundles.end[members[i]] - bundles.begin[members[i]]
            target[i], grown[i] = nearest(shape, groups, slot, bundles.cells[members[i]], rows, rows_min, limit)
        if _dissolve(shape, bundles, groups, slot, members, target, rules, scratch):
            free[n_free] = slot
            moves, n_free = moves + 1, n_free + 1
            continue
        if _evict(shape, bundles, groups, slot, members, target, rules, scratch):
            moves += 1
            continue
        left = _recut_with_partner(
            shape, bundles, groups, slot, target[np.argsort(grown, kind="mergesort")], free, n_free, rules, scratch, rows_min
        )
        if left >= 0:
            moves, n_free = moves + 1, left
    return moves


@compiled
def _recut_with_partner(
    shape: Shape,
    bundles: Bundles,
    groups: Groups,
    slot: int,
    partners: Ints,
    free: Ints,
    n_free: int,
    rules: Rules,
    scratch: Scratch,
    rows_min: int,
) -> int:
    """Cuts a group anew with the first partner with which that gains; the number of free slots, or -1."""
    tried = 0
    for i in range(partners.shape[0]):
        partner = partners[i]
        if partner < 0 or (partners[:i] == partner).any() or groups.rows[partner] > FAR * rows_min:
            continue
        left = _recut(shape, bundles, groups, np.array([slot, partner]), free, n_free, rules, scratch, rows_min)
        tried += 1
        if left >= 0:
            return left
        if tried == PARTNERS_MAX:
            break
    return -1
