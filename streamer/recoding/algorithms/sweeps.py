"""Sweeps over QI groups: moves that lower the loss, group by group, until one sweep gains nothing.

A group is cut afresh, alone or with its neighbours; dissolved; or its bundles go, one by one, or are exchanged, where
they add least. Invariants: every move keeps all groups holding and gains at least GAIN_MIN, so that rounding is never
taken for a gain. The argument, with its sources: docs/explanation/algorithms.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamer.kernels.boxes import Geometry, ncp_term, widen
from streamer.kernels.sorting import sort_stably
from streamer.native import compiled, inlined
from streamer.privacy.compiled import Scratch, holds
from streamer.progress import OnProgress, part_of, unheard
from streamer.recoding.algorithms.bundles import (
    EMPTY_HI,
    EMPTY_LO,
    Bundles,
    Task,
    add_bundle,
    bundles_hold,
    clear_bundles,
    remove_bundle,
)
from streamer.recoding.algorithms.cut_tree import Growth, Order, grow, growth_for
from streamer.recoding.algorithms.ends import ends_of, ncp_without, take_out
from streamer.recoding.algorithms.group_index import (
    FAIR,
    GAIN_MIN,
    VISITS,
    Groups,
    changed_slots,
    closest,
    count_group,
    discount_group,
    groups_of,
    growth,
    has,
    join,
    joined,
    laid_out,
    loss_of,
    members_of,
    nearest_of_all,
    put,
    slots_for,
)
from streamer.recoding.algorithms.seeding import SWAPPED_MAX, Bench, bench_for, found_in, swap
from streamer.recoding.algorithms.segments import FAR, Programme, begin_of, least_along, programme_for
from streamer.table.arrays import Floats, Ints

PARTNERS_MAX = 3
NEAR = 3
"""By effort 1, a group is recut with so many groups more: those that add least to the loss if the two become one."""
FAVOUR = 8.0
"""By effort 2, in more orders, too: in each of them one attribute counts as much as this many."""
GROWN_MAX = 128
"""Most bundles whose groups are grown when they are recut: that takes as many steps as their number squared."""
JOINED_MAX = 3
"""Most groups that are recut together if the model counts values, because asking takes longer then."""


def _empty(task: Task, groups: Groups, slot: int) -> None:
    """Empties a slot; it is the next to be filled."""
    put(task, groups, slot, np.empty(0, np.int64))
    groups.free[groups.n_free[0]] = slot
    groups.n_free[0] += 1


class _Desk(NamedTuple):
    """Memory to recut groups of up to m bundles."""

    members: Ints  # (m,)
    bundles: Bundles
    growth: Growth
    line: Programme
    grown: Order  # of up to GROWN_MAX bundles
    bench: Bench
    near: Ints  # the groups nearest to one: NEAR of them, or none
    favours: int  # of how many attributes each is favoured in an order of its own


def _desk_for(task: Task, effort: int) -> _Desk:
    """As large as the largest groups that are recut together need it."""
    m, d = task.bundles.cells.shape
    m = min(m, (PARTNERS_MAX + 1) * FAR * task.rows_min)
    bundles = Bundles(np.empty((m, d), np.int64), np.empty(m, np.int64), np.empty(m, np.int64))
    few = min(m, GROWN_MAX)
    grown = Order(np.empty(few, np.int64), np.zeros(few, np.int64), np.arange(few))
    near = np.empty(NEAR if effort > 0 else 0, np.int64)
    return _Desk(np.empty(m, np.int64), bundles, growth_for(m, d), programme_for(m, d, task.rows_min), grown,
        bench_for(task), near, d if effort > 1 else 0)  # fmt: skip


def _loaded(task: Task, groups: Groups, desk: _Desk, slots: Ints) -> Task:
    """The groups in some slots as a task of its own; desk.members: their bundles."""
    m = 0
    for slot in slots:
        bundle = groups.first[slot]
        while bundle >= 0:
            desk.members[m] = bundle
            desk.bundles.begin[m], desk.bundles.end[m] = task.bundles.begin[bundle], task.bundles.end[bundle]
            for j in range(task.bundles.cells.shape[1]):
                desk.bundles.cells[m, j] = task.bundles.cells[bundle, j]
            m += 1
            bundle = groups.next[bundle]
    bundles = Bundles(desk.bundles.cells[:m], desk.bundles.begin[:m], desk.bundles.end[:m])
    return Task(task.shape, bundles, task.rules, task.scratch, task.aside, task.rows_min, task.rows_per_call)


@inlined
def _ncp_with(shape: Geometry, cells: Ints, bundle: int, lo: Ints, hi: Ints, term: Floats, enough: float) -> float:
    """NCP of the box lo..hi once it contains a bundle too; less than that if it is no less than `enough`."""
    per_row, j = 0.0, 0
    while j < lo.shape[0] and per_row < enough:
        cell = cells[bundle, j]
        if lo[j] <= cell <= hi[j]:
            per_row += term[j]
        else:
            per_row += ncp_term(shape, j, min(cell, lo[j]), max(cell, hi[j]))
        j += 1
    return per_row


def put_as_groups_grow(task: Task, out: Ints, box: Ints, term: Floats) -> None:
    """Fills in the bundles (m,) in the order in which groups grow: from the first bundle, always by the nearest one.

    A group of the fewest rows is complete; the next one begins with the bundle that is farthest from it, of equals with
    the first. Rows that are too few for another group go to the last one. box (2, d), term (d,): scratch.
    """
    shape, (cells, first, last), (lo, hi), m, at, rows = task.shape, task.bundles, box, out.shape[0], 0, 0
    rows_min, waiting = task.rows_min, 0
    for i in range(m):
        out[i] = i
        waiting += last[i] - first[i]
    lo[:], hi[:], term[:] = EMPTY_LO, EMPTY_HI, 0.0
    for i in range(m):
        bundle = out[at]
        # the others stay in order: of equals the first is found
        for j in range(at, i, -1):
            out[j] = out[j - 1]
        out[i] = bundle
        size = last[bundle] - first[bundle]
        rows, waiting = rows + size, waiting - size
        widen(shape, cells[bundle], cells[bundle], lo, hi, term)
        complete = rows >= rows_min and waiting >= rows_min
        found = -1.0 if complete else np.inf
        for other in range(i + 1, m):
            per_row = _ncp_with(shape, cells, out[other], lo, hi, term, np.inf if complete else found)
            if (per_row > found) == complete and per_row != found:
                found, at = per_row, other
        if complete:
            rows = 0
            lo[:], hi[:], term[:] = EMPTY_LO, EMPTY_HI, 0.0


def _recut(task: Task, groups: Groups, desk: _Desk, slots: Ints) -> bool:
    """Recuts the groups in some slots together, in the order in which groups grow or of a tree; True if that gained."""
    limit = -GAIN_MIN
    for slot in slots:
        limit += groups.rows[slot] * groups.ncp[slot]
    together = _loaded(task, groups, desk, slots)
    m, least = together.bundles.begin.shape[0], np.inf
    order = Order(desk.grown.bundles[:m], desk.grown.tile[:m], desk.grown.blocks[:m])
    if slots.shape[0] > 1 and m <= GROWN_MAX:
        put_as_groups_grow(together, order.bundles, desk.line.box, desk.line.term)
        least = least_along(together, order, desk.line, limit)
    favour, tried = desk.growth.scan.favour, -1
    while least == np.inf and tried < desk.favours:
        if tried >= 0:
            favour[tried] = FAVOUR
        order = grow(together, desk.growth, 0)
        favour[:] = 1.0
        least = least_along(together, order, desk.line, limit)
        tried += 1
    if least == np.inf:
        return False
    for slot in slots[::-1]:
        _empty(task, groups, slot)
    along, end = desk.members[order.bundles], order.blocks.shape[0]
    while end > 0:
        begin = desk.line.origin[end]
        groups.n_free[0] -= 1
        slot = groups.free[groups.n_free[0]]
        behind = begin_of(order, end)
        put(task, groups, slot, along[order.blocks[begin] : behind])
        end = begin
    return True


@inlined
def _is_known(groups: Groups, pairs: Ints, slot: int, partner: int) -> bool:
    """True if a slot was recut with this partner in vain, and both are as they were then.

    pairs (g, partners, 2): with whom a slot was recut in vain, and how often the two had been filled in sum.
    """
    known = False
    for i in range(pairs.shape[1]):
        same = pairs[slot, i, 0] == partner
        known = known or (same and pairs[slot, i, 1] == groups.fillings[slot] + groups.fillings[partner])
    return known


def _recut_with_partners(
    task: Task, groups: Groups, desk: _Desk, pairs: Ints, slot: int, target: Ints, grown: Floats
) -> bool:
    """Recuts a group with the first of its bundles' targets, one of them or several; True if that gained.

    target, grown (m,): where each bundle would go, or -1, and at what growth.
    """
    together, n, m = np.full(pairs.shape[1] + 1, slot), 1, grown.shape[0]
    order = np.empty(m, np.int64)
    sort_stably(grown, order, np.empty(m, np.int64))
    near = desk.near[: closest(task, groups, slot, desk.near, VISITS) if desk.near.shape[0] > 0 else 0]
    first = m if near.shape[0] > 0 and desk.favours == 0 else 0  # earlier sweeps tried the targets, in the same orders
    for i in range(first, m + near.shape[0]):
        partner = target[order[i]] if i < m else near[i - m]
        if partner < 0 or groups.rows[partner] > FAR * task.rows_min or has(together[:n], partner):
            continue
        if i < m and n > PARTNERS_MAX:
            continue
        together[n] = partner
        n += 1
        if not _is_known(groups, pairs, partner, slot):
            if _recut(task, groups, desk, np.array([slot, partner])):
                return True
            pairs[slot, n - 2, 0] = partner
            pairs[slot, n - 2, 1] = groups.fillings[slot] + groups.fillings[partner]
    several, n = 3, min(n, PARTNERS_MAX + 1 if task.rules.distinct.shape[0] == 0 else JOINED_MAX)
    while several <= n and not _recut(task, groups, desk, together[:several]):
        several += 1
    return several <= n


def _dissolve(task: Task, groups: Groups, slot: int, members: Ints, target: Ints) -> bool:
    """Sends every bundle of a group to its target if that gains and all targets hold; True if it did."""
    if has(target, -1):
        return False
    gain = groups.rows[slot] * groups.ncp[slot]
    for i in range(target.shape[0]):
        if has(target[:i], target[i]):
            continue
        both = joined(groups, members, target, target[i])
        gain += groups.rows[target[i]] * groups.ncp[target[i]] - loss_of(task, both)
        if gain < GAIN_MIN or not bundles_hold(task, both):
            return False
    for i in range(target.shape[0]):
        if not has(target[:i], target[i]):
            put(task, groups, target[i], joined(groups, members, target, target[i]))
    _empty(task, groups, slot)
    return True


def _relieve(
    task: Task, aside: Task, groups: Groups, slot: int, members: Ints, target: Ints, bench: Bench, now: Ints
) -> bool:
    """Sends bundles of a group to their targets, or exchanges them there; True if that gained.

    aside: the same task with a scratch of its own; now: a copy of members, as scratch.
    """
    plain, relieved, at, ends = task.rules.distinct.shape[0] == 0, False, 0, bench.ends
    ends_of(task, now, ends)
    if not plain:
        count_group(task, groups, slot)
    for i in range(members.shape[0]):
        bundle, goal = members[i], target[i]
        cells, rows = task.bundles.cells[bundle], task.bundles.end[bundle] - task.bundles.begin[bundle]
        left, at = groups.rows[slot] - rows, at + 1
        if goal < 0 or left == 0 or groups.rows[goal] == 0:
            continue
        gain = groups.rows[slot] * groups.ncp[slot] - left * ncp_without(task.shape, ends, cells)
        pays = left >= task.rows_min and gain - growth(task, groups, goal, cells, rows) >= GAIN_MIN
        if pays and _may_go(task, aside, groups, left, bundle, goal):
            at -= 1
            now = take_out(task, groups, slot, now, at, ends)
            join(task, groups, goal, bundle)
            relieved = True
            continue
        if max(groups.rows[slot], groups.rows[goal]) <= SWAPPED_MAX and gain > rows * groups.ncp[slot] + GAIN_MIN:
            relieved = swap(task, aside, groups, None, slot, now, at - 1, bench, goal) or relieved
    if not plain:
        clear_bundles(task, now)
    return relieved


def _may_go(task: Task, aside: Task, groups: Groups, left: int, bundle: int, goal: int) -> bool:
    """True if a group, which is counted in `task`, holds without a bundle, and another one with it."""
    if task.rules.distinct.shape[0] == 0:
        return left >= task.rules.rows
    remove_bundle(task, bundle)
    if holds(task.rules, task.scratch) and _holds_with(aside, groups, goal, bundle):
        return True
    add_bundle(task, bundle)
    return False


def _holds_with(task: Task, groups: Groups, slot: int, bundle: int) -> bool:
    """True if a group with one more bundle holds; the counts are empty before and after."""
    add_bundle(task, bundle)
    count_group(task, groups, slot)
    answer = holds(task.rules, task.scratch)
    discount_group(task, groups, slot)
    remove_bundle(task, bundle)
    return answer


def _improve(task: Task, aside: Task, groups: Groups, desk: _Desk, pairs: Ints, slot: int) -> bool:
    """Tries all moves for one group; True if one was made."""
    if groups.rows[slot] >= 2 * task.rows_min and _recut(task, groups, desk, np.array([slot])):
        return True
    members = members_of(groups, slot)
    target, grown = nearest_of_all(task, groups, slot, members, FAIR, VISITS)
    return (
        _dissolve(task, groups, slot, members, target)
        or _relieve(task, aside, groups, slot, members, target, desk.bench, members.copy())
        or _recut_with_partners(task, groups, desk, pairs, slot, target, grown)
    )


def sweep(task: Task, groups: Groups, on_progress: OnProgress = unheard, effort: int = 0) -> int:
    """One sweep over all groups that have changed; how many were improved."""
    pairs = np.full((len(groups.rows), PARTNERS_MAX + (NEAR if effort else 0), 2), -1, dtype=np.int64)
    aside = task._replace(scratch=Scratch(*(counts.copy() for counts in task.scratch)))
    parts = changed_slots(task, groups, on_progress)
    return sum(_sweep_some(task, aside, groups, pairs, slots, effort) for slots in parts)


@compiled
def _sweep_some(task: Task, aside: Task, groups: Groups, pairs: Ints, slots: Ints, effort: int) -> int:
    """Tries to improve the groups in some slots, one after the other; how many were improved."""
    improved, desk = 0, _desk_for(task, effort)
    for slot in slots:
        rows, groups.changed[slot] = groups.rows[slot], False
        if 0 < rows <= FAR * task.rows_min and rows * groups.ncp[slot] >= GAIN_MIN:
            improved += _improve(task, aside, groups, desk, pairs, slot)
    return improved


def refined(
    task: Task, qi_group: Ints, n_rows: int, sweeps: Sequence[int], on_progress: OnProgress
) -> tuple[float, Ints, int]:
    """The loss and the groups of qi_group (m,) after up to so many sweeps of each effort; how many gained something.

    A sweep that gains nothing is the last one of its effort.
    """
    used, number = np.unique(qi_group, return_inverse=True)
    n_slots = slots_for(len(used), n_rows // task.rows_min)
    groups, done, gained, most = groups_of(task, laid_out(task, number, len(used), n_slots), n_slots), 0, 0, sum(sweeps)
    for effort, some in enumerate(sweeps):
        groups.changed[:] = True
        for i in range(done, done + some):
            if not sweep(task, groups, part_of(on_progress, i / most, (i + 1) / most), effort):
                break
            gained += 1
        done += some
    return (*found_in(groups, len(qi_group)), gained)
