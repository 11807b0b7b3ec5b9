"""Single bundles go to the group that takes them at the least growth of loss and still holds.

A group that holds *takes* a bundle if every share is kept: the bundle's own subjects are the only ones whose shares can
grow, and rows and distinct subjects only become more. So the counts of these subjects are all that is asked for
(`subject_counts`). A search visits VISITS nodes of the index of groups, and if no group takes the bundle, FAR_VISITS.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.jit import compiled, inlined
from streamer.recoding.algorithms.agglomeration import lack_of
from streamer.recoding.algorithms.bundles import Task
from streamer.recoding.algorithms.group_index import Groups, bound_of, groups_of, growth, join, put
from streamer.recoding.algorithms.subject_counts import SubjectCounts, count_of, count_row, counts_for
from streamer.table.arrays import Ints

VISITS = 128
FAR_VISITS = 2048


class _Kept(NamedTuple):
    """Groups that hold, and one more seat, in which every bundle without one stands for a moment.

    found (m,): each bundle's group, -1 for those without; aside: that seat; left (1,): bundles that no group took.
    """

    groups: Groups
    counts: SubjectCounts
    found: Ints
    aside: int
    left: Ints


@inlined
def takes(task: Task, groups: Groups, counts: SubjectCounts, seat: int, bundle: int) -> bool:
    """Whether a group that holds still does with one more bundle: every share is kept."""
    begin, end = task.bundles.begin[bundle], task.bundles.end[bundle]
    rows = groups.rows[seat] + end - begin
    for i in range(task.rules.distinct.shape[0]):
        if task.rules.numerator[i] == task.rules.denominator[i]:
            continue
        for row in range(begin, end):
            code, n = task.rules.subjects[row, i], 0
            if code == task.rules.uncounted[i]:
                continue
            for other in range(begin, end):
                n += task.rules.subjects[other, i] == code
            n += count_of(counts, seat, i, code)
            if n * task.rules.denominator[i] > rows * task.rules.numerator[i]:
                return False
    return True


@compiled
def taker(
    task: Task, groups: Groups, counts: SubjectCounts, own: int, bundle: int, limit: float, visits_max: int | np.int64
) -> tuple[int, float]:
    """The group, other than `own`, that holds with a bundle at the least growth below `limit`, and that."""
    cells, rows = task.bundles.cells[bundle], task.bundles.end[bundle] - task.bundles.begin[bundle]
    stack, bounds = np.empty(128, np.int64), np.empty(128)
    w, best, depth, visits = groups.lo.shape[0] // 2, -1, 0, 0
    bits = 0
    while 1 << bits < w:
        bits += 1
    while depth < bits:
        node = (w + own) >> (bits - depth - 1) ^ 1
        stack[depth], bounds[depth] = node, bound_of(task, groups, node, cells, rows, limit)
        depth += 1
    while depth > 0 and visits < visits_max:
        depth -= 1
        node = stack[depth]
        if bounds[depth] >= limit:
            continue
        visits += 1
        if node >= w:
            grown = growth(task, groups, node - w, cells, rows)
            if grown < limit and takes(task, groups, counts, node - w, bundle):
                best, limit = node - w, grown
            continue
        left = bound_of(task, groups, 2 * node, cells, rows, limit)
        right = bound_of(task, groups, 2 * node + 1, cells, rows, limit)
        nearer = 0 if left <= right else 1
        stack[depth], bounds[depth] = 2 * node + 1 - nearer, max(left, right)
        stack[depth + 1], bounds[depth + 1] = 2 * node + nearer, min(left, right)
        depth += 2
    return best, limit


def placed(task: Task, qi_group: Ints, n_seats: int, order: Ints) -> tuple[int, Ints]:
    """How many bundles are left, and groups where those of groups that do not hold have gone to others that do.

    The left ones have groups of their own. order: of bundles.
    """
    n_kept, found = _holding(task, qi_group, n_seats)
    if n_kept == 0:
        return len(qi_group), np.arange(len(qi_group))
    kept, order = _kept(task, found, n_kept), order[found[order] < 0]
    _place_all(task, kept, order)
    return int(kept.left[0]), kept.found


@compiled
def _holding(task: Task, qi_group: Ints, n_seats: int) -> tuple[int, Ints]:
    """How many groups hold, and each bundle's among them, numbered anew, -1 for the others; (m,)."""
    m = qi_group.shape[0]
    counts = counts_for(task.rules, n_seats)
    for bundle in range(m):
        for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
            count_row(task.rules, counts, qi_group[bundle], row)
    rows = np.zeros(n_seats, np.int64)
    for bundle in range(m):
        rows[qi_group[bundle]] += task.bundles.end[bundle] - task.bundles.begin[bundle]
    number, n_kept = np.full(n_seats, -1, np.int64), 0
    for seat in range(n_seats):
        if rows[seat] > 0 and lack_of(task.rules, rows[seat], counts.top[seat], counts.n_distinct[seat]) == 0:
            number[seat] = n_kept
            n_kept += 1
    return n_kept, number[qi_group]


@compiled
def _kept(task: Task, found: Ints, n_kept: int) -> _Kept:
    """The groups of found (m,), -1 for bundles without one."""
    one = np.where(found < 0, n_kept, found)
    groups, counts = groups_of(task, one, n_kept + 1), counts_for(task.rules, n_kept + 1)
    put(task, groups, n_kept, np.empty(0, np.int64))
    for bundle in range(found.shape[0]):
        if found[bundle] >= 0:
            for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
                count_row(task.rules, counts, found[bundle], row)
    return _Kept(groups, counts, found, n_kept, np.zeros(1, np.int64))


@compiled
def _place_all(task: Task, kept: _Kept, order: Ints) -> None:
    """Bundles without a group, one after the other, each to the group that takes it."""
    groups, counts, found, aside, left = kept
    # bare numbers would be types of their own, and everything compiled again for each
    near, far = np.int64(VISITS), np.int64(FAR_VISITS)
    for bundle in order:
        seat, _ = taker(task, groups, counts, aside, bundle, np.inf, near)
        if seat < 0:
            seat, _ = taker(task, groups, counts, aside, bundle, np.inf, far)
        if seat < 0:
            found[bundle] = aside + left[0]
            left[0] += 1
            continue
        found[bundle] = seat
        for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
            count_row(task.rules, counts, seat, row)
        join(task, groups, seat, bundle)
