"""Ordered segments: all rows in one good order, the best way to cut it into QI groups, and sweeps that improve these.

The order is the leaves of a tree of best cuts (`cut_tree`). The tree is only an order: its cuts go down to single rows,
and QI groups need not be nodes. Dynamic programming cuts the order into the segments of least total loss, rows times
NCP. This is done for each sharpness of SHARPNESS and, if many rows have rare leaves, for orders that take these for
one. Each way is a *candidate*; the one of least loss wins, of equals the earlier. If groups have FEW_FROM rows or more,
there are more candidates (OF_FEW), each that loses little more than the best is swept, and the best result wins. If the
model counts sensitive values, groups are seeded with rare values (`seeding`) and exchange bundles; segments are the
start only if the seeded groups lose FAR_MORE times as much, before exchanges and after. If a law about a distribution
asks for groups of far more than the fewest rows, seeds would search in vain: segments compete with `bottom-up`, and
under t-closeness with groups that are cut fairly (`fair_cuts`). Then SWEEPS sweeps improve the QI groups, and of few
groups NEAR_SWEEPS more; `options.refine` are thorough ones. A sweep that gains nothing is the last one of its effort.

Invariants: every segmentation covers the whole order, so there is always a solution. Every move of a sweep keeps all
groups holding and gains at least GAIN_MIN, so that rounding is never taken for a gain. The argument, with its sources:
docs/explanation/algorithms.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import NamedTuple

import numpy as np

from streamer.kernels.boxes import Geometry, ncp_term, total, widen
from streamer.kernels.sorting import sort_stably
from streamer.native import compiled, inlined
from streamer.privacy.compiled import Scratch, holds, rules_of
from streamer.privacy.distributions import AtMostDistance, Recursive
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
    remove_bundle,
    task_of,
)
from streamer.recoding.algorithms.contract import (
    PLAIN,
    STAYING,
    SUPPRESSED,
    Algorithm,
    Options,
    Recoding,
    local_recoding,
)
from streamer.recoding.algorithms.cut_tree import FINE, Growth, Order, grow, growth_for, order_of
from streamer.recoding.algorithms.ends import ends_of, ncp_without, take_out
from streamer.recoding.algorithms.fair_cuts import fair_groups
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
from streamer.recoding.algorithms.local_recoding import BOTTOM_UP
from streamer.recoding.algorithms.seeding import (
    SWAPPED_MAX,
    Bench,
    bench_for,
    exchanged,
    found_in,
    seeded,
    swap,
)
from streamer.recoding.algorithms.suppression import left_out
from streamer.table.arrays import Bools, Floats, Ints
from streamer.table.microdata import INDIVIDUAL, Microdata

Candidate = Callable[[Task], tuple[float, Ints]]
"""The total loss, rows times NCP, and each bundle's QI group, int64 (m,); numbers may have gaps."""

SHARPNESS = (0, 7)
"""A small one for numbers, a large one for categories (`cut_tree`)."""

RARE_LEAVES = (2, 4)
"""Leaves with fewer rows than these times the fewest rows of a group are rare."""

SWEEPS, NEAR_SWEEPS, EXCHANGES = 4, 2, 3

FAR_MORE = (1.2, 1.1)
"""Segments are used if seeded groups lose this many times as much: before exchanges, and after. Seeded groups gain more
by moves than segments do, so they win in the end even if they begin with a higher loss."""

SEED_ROOM = 2
"""Seeded groups may come to this multiple of the fewest rows: sweeps cut them where that pays."""

PARTS_OF_DISTANCE = Decimal(1), Decimal("0.85")
"""Of each t, cuts that are not fair may use so much, by start."""

SEEDED_UP_TO = 2
"""If segments have more than this multiple of the fewest rows, on average, no seeds are tried."""

LEAVING = 4
"""Rows are left out in this number of turns: after the first, sweeps find groups for the others that need fewer."""

BEGUN = 0.5
"""The share of the work that is done once the best candidate is known, about; the rest is the sweeps."""

SHARE_MIN = 0.1
"""If fewer rows than this share have rare leaves, in every attribute, another order is not worth its time."""

FAR = 8
PARTNERS_MAX = 3
NEAR = 3
"""By effort 1, a group is recut with so many groups more: those that add least to the loss if the two become one."""
FAVOUR = 8.0
"""By effort 2, in more orders, too: in each of them one attribute counts as much as this many."""
GROWN_MAX = 128
"""Most bundles whose groups are grown when they are recut: that takes as many steps as their number squared."""
JOINED_MAX = 3
"""Most groups that are recut together if the model counts values, because asking takes longer then."""


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


class _Programme(NamedTuple):
    """What is known of the b blocks of an order and the segments that end before each; the last two are scratch.

    Block i is in the window at i % w, until another one needs the place: the segments that begin with one block end
    near it, so the memory of boxes does not grow with the table.
    """

    best: Floats  # (b + 1,) the least loss up to there
    origin: Ints  # (b + 1,) the block with which the last segment then begins
    block: Ints  # (w,) which one is there; w: a power of two
    rows: Ints  # (w,)
    lo: Ints  # (w, d)
    hi: Ints
    box: Ints
    term: Floats


def _programme_for(b: int, d: int, rows_min: int) -> _Programme:
    w = 1
    while w < min(b, FAR * rows_min):
        w *= 2
    return _Programme(np.empty(b + 1), np.empty(b + 1, np.int64), np.empty(w, np.int64), np.empty(w, np.int64),
        np.empty((w, d), np.int64), np.empty((w, d), np.int64), np.empty((2, d), np.int64), np.empty(d))  # fmt: skip


@inlined
def _begin_of(order: Order, i: int) -> int:
    """The position at which block i begins; behind the last block, the end."""
    return int(order.blocks[i] if i < order.blocks.shape[0] else order.bundles.shape[0])


def _lay(task: Task, order: Order, line: _Programme, i: int) -> None:
    """Puts block i into the window."""
    cells, at, rows = task.bundles.cells, i & (line.block.shape[0] - 1), 0
    line.lo[at], line.hi[at] = EMPTY_LO, EMPTY_HI
    for position in range(order.blocks[i], _begin_of(order, i + 1)):
        bundle = order.bundles[position]
        rows += task.bundles.end[bundle] - task.bundles.begin[bundle]
        for j in range(cells.shape[1]):
            line.lo[at, j] = min(cells[bundle, j], line.lo[at, j])
            line.hi[at, j] = max(cells[bundle, j], line.hi[at, j])
    line.block[at], line.rows[at] = i, rows


@inlined
def _place(task: Task, order: Order, line: _Programme, i: int) -> int:
    """Where block i is in the window, once it is there."""
    at = i & (line.block.shape[0] - 1)
    if line.block[at] != i:
        _lay(task, order, line, i)
    return int(at)


def _reach(task: Task, order: Order, line: _Programme, start: int, limit: float) -> None:
    """Improves best and origin at the ends of all segments that begin with block `start`.

    limit: a loss from which on nothing is of use.
    """
    shape, best, (lo, hi), term = task.shape, line.best, line.box, line.term
    rows_least, rows_far, tile_end = task.rows_min, FAR * task.rows_min, order.tile[order.blocks[start]]
    b, plain = order.blocks.shape[0], task.rules.distinct.shape[0] == 0
    rows, shortest, per_row, end, position = 0, 0, 0.0, start, order.blocks[start]
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
        begin, position = position, _begin_of(order, end)
        if not plain:
            for at in range(begin, position):
                add_bundle(task, order.bundles[at])
        if is_window and rows >= task.rules.rows and (plain or holds(task.rules, task.scratch)):
            shortest = shortest if shortest > 0 else rows
        elif position != tile_end:
            continue
        if best[start] + rows * per_row < best[end]:
            best[end], line.origin[end] = best[start] + rows * per_row, start
    if not plain:
        clear_bundles(task, order.bundles[order.blocks[start] : position])


def _least_along(task: Task, order: Order, line: _Programme, limit: float) -> float:
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
    line = _programme_for(b, task.bundles.cells.shape[1], task.rows_min)
    least = _least_along(task, order, line, limit)
    number, end, at = np.zeros(order.bundles.shape[0], np.int64), b, -1
    while end > 0 and least < np.inf:
        end = line.origin[end]
        number[order.blocks[end]] = 1
    for i in range(number.shape[0]):
        at += number[i]
        number[i] = at
    return least, number


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
    line: _Programme
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
    return _Desk(np.empty(m, np.int64), bundles, growth_for(m, d), _programme_for(m, d, task.rows_min), grown,
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
        least = _least_along(together, order, desk.line, limit)
    favour, tried = desk.growth.scan.favour, -1
    while least == np.inf and tried < desk.favours:
        if tried >= 0:
            favour[tried] = FAVOUR
        order = grow(together, desk.growth, 0)
        favour[:] = 1.0
        least = _least_along(together, order, desk.line, limit)
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
        behind = _begin_of(order, end)
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


SEGMENTED: tuple[Candidate, ...] = tuple(partial(segmented, sharpness=sharpness) for sharpness in SHARPNESS)
OF_ROWS: tuple[Candidate, ...] = (*SEGMENTED, *(partial(without_rare_leaves, times=times) for times in RARE_LEAVES))
"""The candidates if the model counts rows and individuals alone."""

OF_FEW: tuple[Candidate, ...] = (
    *(partial(segmented, sharpness=sharpness) for sharpness in (0, 1, 3, 7)),
    *OF_ROWS[len(SEGMENTED) :],
)
FEW_FROM, FEW_GROUPS, LITTLE_MORE = 2 * FINE, 64, 1.1
"""If groups have FEW_FROM rows they are few, sweeps take little time, and the best start shows only after them:
every one is swept that loses at most LITTLE_MORE times as much as the best. The groups of `bottom-up` are one, too. If
the model counts values, seeds without room are a second start in tables that have room for fewer than FEW_GROUPS."""


def exchanging(task: Task, segments: tuple[float, Ints], on_progress: OnProgress = unheard) -> tuple[float, Ints]:
    """Groups seeded with rare values after exchanges; or the best segments after exchanges, if these lose far less.

    segments: their loss, and each bundle's (m,).
    """
    loss, segment = segments
    lost, start = _seeds(task, FAR_MORE[0] * loss, part_of(on_progress, 0.1, 0.6))
    found = exchanged(task, start, int(start.max()) + 1, EXCHANGES, part_of(on_progress, 0.6, 0.8))
    if lost > FAR_MORE[0] * loss:
        other = exchanged(task, segment, int(segment.max()) + 1, EXCHANGES, part_of(on_progress, 0.8, 1.0))
        return other if found[0] > FAR_MORE[1] * other[0] else found
    return found


def _seeds(task: Task, most: float, on_progress: OnProgress) -> tuple[float, Ints]:
    """Loss and groups (m,), seeded with room; if they lose more than `most`, those without room if these lose less."""
    found = np.inf, np.zeros(0, dtype=np.int64)
    for begun, room in ((0.0, SEED_ROOM), (0.5, 1)):
        start = seeded(task, part_of(on_progress, begun, begun + 0.5), room)
        found = min(found, exchanged(task, start, int(start.max()) + 1, 0), key=lambda one: one[0])
        if found[0] <= most:
            break
    return found


def run(microdata: Microdata, model: Model, options: Options) -> Recoding:
    """Anonymizes by ordered segments, under any model."""
    rows, task = task_of(microdata, model, options.rows_per_call)
    beginning = part_of(options.on_progress, 0.0, BEGUN)
    if set(model.subjects) <= {INDIVIDUAL}:
        starts = _starts_of_rows(microdata, model, rows, task, beginning)
    elif _asks_for_large_groups(model, task, segments := segmented(task, SHARPNESS[0]), len(rows)):
        starts = [_start_of_large_groups(microdata, model, rows, task, segments[1], beginning)]
    else:
        starts = [exchanging(task, segments, beginning)[1]]
        if len(rows) < FEW_GROUPS * task.rows_min:
            tight = seeded(task)
            starts.append(exchanged(task, tight, int(tight.max()) + 1, EXCHANGES)[1])
    last, least, best, sweeps = _last_sweeps(task, options.refine), np.inf, starts[0], 0
    rows_max = options.suppressed_max(len(rows))
    turns = len(starts) + any(last) + (rows_max > 0)
    parts = [
        part_of(options.on_progress, *(BEGUN + (1 - BEGUN) * at / turns for at in (i, i + 1))) for i in range(turns)
    ]
    for start, part in zip(starts, parts, strict=False):
        loss, found, done = _refined(task, start, len(rows), (SWEEPS,), part)
        if loss < least:
            least, best, sweeps = loss, found, done
    if any(last):
        _, best, done = _refined(task, best, len(rows), last, parts[len(starts)])
        sweeps += done
    if microdata.space.is_bounded and options.too_wide != STAYING:
        best = _narrowed(task, best, len(rows))
    if rows_max:
        best = _without_outliers(task, best, rows_max, len(rows), parts[-1])
    return _recoded(microdata, task, rows, best, sweeps)


def _narrowed(task: Task, qi_group: Ints, n_rows: int) -> Ints:
    """The groups (m,) without the rows that make them wider than `coarsest` allows, which are SUPPRESSED."""
    used, number = np.unique(qi_group, return_inverse=True)
    leave, found = left_out(task, number, len(used), n_rows, too_wide=True)
    return np.where(leave, SUPPRESSED, found)


def _without_outliers(task: Task, qi_group: Ints, rows_max: int, n_rows: int, on_progress: OnProgress) -> Ints:
    """The groups (m,) without the rows whose absence lowers the loss of the others most; SUPPRESSED: at most rows_max.

    They leave in LEAVING turns, with sweeps over the others after each. qi_group: some may be SUPPRESSED already.
    """
    found, stay = qi_group.copy(), np.flatnonzero(qi_group != SUPPRESSED)
    some = task._replace(bundles=Bundles(*(column[stay] for column in task.bundles)))
    gone = n_rows - int((some.bundles.end - some.bundles.begin).sum())
    if gone >= rows_max:
        return found
    for turn in range(1, LEAVING + 1):
        used, number = np.unique(found[stay], return_inverse=True)
        begun, left, ended = ((turn - 1 + share) / LEAVING for share in (0, 0.5, 1))
        room = max(rows_max * turn // LEAVING - gone, 0)
        leave, number = left_out(some, number, len(used), room, part_of(on_progress, begun, left))
        gone += int((some.bundles.end - some.bundles.begin)[leave].sum())
        found[stay] = np.where(leave, SUPPRESSED, number)
        stay, some = stay[~leave], some._replace(bundles=Bundles(*(column[~leave] for column in some.bundles)))
        _, found[stay], _ = _refined(some, found[stay], n_rows - gone, (SWEEPS,), part_of(on_progress, left, ended))
    return found


def swept(microdata: Microdata, model: Model, qi_group: Ints, options: Options) -> Recoding:
    """Sweeps QI groups (n,) that hold, from 0 without gaps, in which no bundle is torn."""
    rows, task = task_of(microdata, model, options.rows_per_call)
    start = qi_group[rows[task.bundles.begin]]
    sweeps = SWEEPS, *_last_sweeps(task, options.refine)[1:]
    _, found, done = _refined(task, start, len(rows), sweeps, options.on_progress)
    return _recoded(microdata, task, rows, found, done)


def _recoded(microdata: Microdata, task: Task, rows: Ints, qi_group: Ints, sweeps: int) -> Recoding:
    """The recoding of the bundles' groups (m,); rows: in the order of the bundles."""
    by_row = np.empty(len(rows), dtype=np.int64)
    by_row[rows] = np.repeat(qi_group, task.bundles.end - task.bundles.begin)
    return local_recoding(microdata, by_row, sweeps=sweeps)


def _starts_of_rows(microdata: Microdata, model: Model, rows: Ints, task: Task, on_progress: OnProgress) -> list[Ints]:
    """The QI groups, (m,), of the candidate of least loss, of equals the first; of few groups all those near it.

    rows: the rows' numbers in the order of the bundles.
    """
    few = task.rows_min >= FEW_FROM
    ways, found = OF_FEW if few else OF_ROWS, list[tuple[float, Ints]]()
    for done, candidate in enumerate(ways, start=1):
        found.append(candidate(task))
        on_progress(done / len(ways))
    if few and not model.subjects:
        joined = BOTTOM_UP.run(microdata, model, PLAIN).qi_group[rows[task.bundles.begin]]
        found.append(found_in(groups_of(task, joined, int(joined.max()) + 1), len(joined)))
    least = min(loss for loss, _ in found)
    if not few:
        return [next(qi_group for loss, qi_group in found if loss == least)]
    # ways that lose exactly the same have found the same groups: one of them is swept
    return list({loss: qi_group for loss, qi_group in found[::-1] if loss <= LITTLE_MORE * least}.values())


def _asks_for_large_groups(model: Model, task: Task, segments: tuple[float, Ints], n_rows: int) -> bool:
    """True if laws about distributions ask for groups of far more than the fewest rows; seeds then search in vain."""
    kinds = any(not isinstance(law, Recursive) for law in model.laws)
    return kinds and n_rows > SEEDED_UP_TO * task.rows_min * (int(segments[1].max()) + 1)


def _start_of_large_groups(
    microdata: Microdata, model: Model, rows: Ints, task: Task, segment: Ints, on_progress: OnProgress
) -> Ints:
    """The best start after exchanges: segments (m,), what `bottom-up` finds, or, if distances count, fair cuts.

    rows: in the order of the bundles. What loses FAR_MORE times as much as another to begin with stays behind it, and
    is not exchanged.
    """
    merged = BOTTOM_UP.run(microdata, model, Options(on_progress=part_of(on_progress, 0.1, 0.2)))
    found = [segment, merged.qi_group[rows[task.bundles.begin]]]
    cut = PARTS_OF_DISTANCE if any(isinstance(law, AtMostDistance) for law in model.laws) else ()
    for i, part in enumerate(cut):
        strict = rules_of(_with_distances(model, part), task.rules.subjects)
        found.append(fair_groups(task, strict, part_of(on_progress, 0.2 + 0.2 * i, 0.4 + 0.2 * i)))
    begun = [found_in(groups_of(task, start, int(start.max()) + 1), len(start)) for start in found]
    least = min(loss for loss, _ in begun)
    near, after = [start for loss, start in begun if loss <= FAR_MORE[0] * least], list[tuple[float, Ints]]()
    for i, start in enumerate(near):
        heard = part_of(on_progress, *(0.6 + 0.4 * at / len(near) for at in (i, i + 1)))
        after.append(exchanged(task, start, int(start.max()) + 1, EXCHANGES, heard))
    return min(after, key=lambda one: one[0])[1]


def _with_distances(model: Model, part: Decimal) -> Model:
    """The model with this part of each t."""
    return Model(replace(one, t=one.t * part) if isinstance(one, AtMostDistance) else one for one in model.constraints)


def _last_sweeps(task: Task, refine: int) -> tuple[int, int, int]:
    """The sweeps, by effort, of the best groups that were found: of few groups near ones, then those asked for."""
    return 0, NEAR_SWEEPS if task.rows_min >= FEW_FROM else 0, refine


def _refined(
    task: Task, qi_group: Ints, n_rows: int, sweeps: Sequence[int], on_progress: OnProgress
) -> tuple[float, Ints, int]:
    """The loss and the groups of qi_group (m,) after up to so many sweeps of each effort; how many gained something."""
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


ORDERED = Algorithm(
    "ordered",
    "cuts a good order of all rows into the best segments",
    "this project; Hansen and Mukherjee 2003 along an order of best cuts",
    run,
    suppresses=True,
    refines=True,
)
