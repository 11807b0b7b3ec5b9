"""The first groups of the ordered algorithm: seeds, and the rows that join them."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from streamer.numba_support.jit import compiled, inlined
from streamer.privacy.compiled import Rules
from streamer.progress import OnProgress, unheard
from streamer.recoding.algorithms.bundles import Shape, Task, ncp_term
from streamer.recoding.algorithms.cut_tree import order_of
from streamer.recoding.algorithms.group_index import (
    Groups,
    SubjectCounts,
    bound_of,
    count_of,
    count_row,
    counts_for,
    discount_row,
    groups_of,
    growth,
    join,
    put,
    unite,
)
from streamer.table.arrays import Bools, Floats, Ints

# Groups that do not hold the model join others, the one with which the total loss rises least, until all hold.
#
# Those of the least *rank* go first, then those of fewest rows, then the lower seat. There are two rules about who may
# join whom. The *strict* one is for founding small groups: two groups *fit* if they can still become one that holds
# with no more rows than the larger of them needs anyway. So no share is above what it may be in the fewest rows of any
# group, and no distinct subject is missing for which there would be no room; a group that fits nowhere is left as it
# is. The other rule is for what must hold in the end: together they lack fewer rows than apart; and where no such group
# is found, the nearest of all is joined.
#
# A search (`group_index` says how its bounds work) ends after VISITS_MAX nodes, or, as long as it has found nothing,
# after FAR_VISITS_MAX. Once enough seats are empty, the others are numbered anew, so that the tree stays short.

VISITS_MAX = 64
FAR_VISITS_MAX = 2_048
VAIN_MAX = 4_096
"""After so many searches in vain, one after the other, none goes that far, until one finds something again: where a
value is so rare that nearly all groups are full, every one of them would search in vain."""
FULL = 0.6
"""The part of the seats below which they are numbered anew."""
SOME_TURNS = 8_192
"""Seats of which one call of a compiled loop takes its turn; the next call puts those that wait in order again."""


class _Stage(NamedTuple):
    """g seats of m bundles while they are united. rank (g,): who goes first; waits (g,): whose turn is still to come;
    into (g,): the seat that another joined; n (2,): seats with rows, and searches in vain, one after the other.
    """

    groups: Groups
    counts: SubjectCounts
    rank: Floats
    waits: Bools
    into: Ints
    n: Ints


@inlined
def _bound(shape: Shape, groups: Groups, node: int, lo: Ints, hi: Ints, term: Floats, rows: int, limit: float) -> float:
    """What the loss rises at least when a group of a box lo..hi joins any below a node; `limit` or more: infinite."""
    least = 0.0
    for j in range(lo.shape[0]):
        first, last = groups.lo[node, j], groups.hi[node, j]
        if first > last or least >= limit:
            return np.inf
        if lo[j] <= last and first <= hi[j]:
            continue
        edge = first if hi[j] < first else last
        there = ncp_term(shape, j, min(lo[j], edge), max(hi[j], edge))
        former = ncp_term(shape, j, edge, edge) if shape.first_leaf[j] < 0 else groups.term[node, j]
        least += rows * (there - term[j]) + max(there - former, 0.0)
    return least


@compiled
def _rise(shape: Shape, groups: Groups, one: int, other: int) -> float:
    """How much the total loss rises when two seats become one group."""
    w = groups.lo.shape[0] // 2
    each = 0.0
    for j in range(groups.lo.shape[1]):
        lo, hi = (
            min(groups.lo[w + one, j], groups.lo[w + other, j]),
            max(groups.hi[w + one, j], groups.hi[w + other, j]),
        )
        if lo == groups.lo[w + other, j] and hi == groups.hi[w + other, j]:
            each += groups.term[w + other, j]
        elif lo == groups.lo[w + one, j] and hi == groups.hi[w + one, j]:
            each += groups.term[w + one, j]
        else:
            each += ncp_term(shape, j, lo, hi)
    rows, others = groups.rows[one], groups.rows[other]
    return float(rows * (each - groups.ncp[one]) + others * (each - groups.ncp[other]))


@compiled
def lack_of(rules: Rules, size: int, top: Ints, n_distinct: Ints) -> int:
    """How many rows a group needs at least until it holds."""
    most = rules.rows - size
    for i in range(rules.distinct.shape[0]):
        most = max(most, rules.distinct[i] - n_distinct[i])
        most = max(most, -(-top[i] * rules.denominator[i] // rules.numerator[i]) - size)
    return int(max(most, 0))


@compiled
def _load(task: Task, groups: Groups, seat: int, codes: Ints) -> int:
    """Counts a seat's rows into the task's scratch; codes (2, .): its subjects and codes, each once; how many."""
    n, bundle = 0, groups.first[seat]
    while bundle >= 0:
        for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
            for i in range(task.rules.distinct.shape[0]):
                code = task.rules.subjects[row, i]
                if code == task.rules.uncounted[i]:
                    continue
                if task.scratch.counts[i, code] == 0:
                    codes[0, n], codes[1, n] = i, code
                    n += 1
                task.scratch.counts[i, code] += 1
        bundle = groups.next[bundle]
    return n


@compiled
def _unload(task: Task, codes: Ints, n: int) -> None:
    for at in range(n):
        task.scratch.counts[codes[0, at], codes[1, at]] = 0


@compiled
def _fit(
    task: Task, groups: Groups, counts: SubjectCounts, loaded: int, n: int, codes: Ints, other: int, strict: bool
) -> bool:
    """Whether the loaded seat and another go together."""
    rules, top, n_distinct = task.rules, task.scratch.top, task.scratch.n_distinct  # written over, and emptied later
    for i in range(top.shape[0]):
        top[i] = max(counts.top[other, i], counts.top[loaded, i])
        n_distinct[i] = counts.n_distinct[other, i]
    for at in range(n):
        i, code = codes[0, at], codes[1, at]
        there = count_of(counts, other, i, code)
        if there == 0:
            n_distinct[i] += 1
        else:
            top[i] = max(top[i], there + task.scratch.counts[i, code])
    size = groups.rows[loaded] + groups.rows[other]
    if not strict:
        lack = lack_of(rules, groups.rows[loaded], counts.top[loaded], counts.n_distinct[loaded])
        lack += lack_of(rules, groups.rows[other], counts.top[other], counts.n_distinct[other])
        return lack_of(rules, size, top, n_distinct) < lack
    free = max(task.rows_min - size, 0)
    for i in range(top.shape[0]):
        missing = rules.distinct[i] - n_distinct[i]
        fewest = rules.distinct[i] - max(counts.n_distinct[loaded, i], counts.n_distinct[other, i])
        if missing > free and missing >= fewest:
            return False
        wanted = max(counts.top[loaded, i], counts.top[other, i])
        most = max((size + free) * rules.numerator[i] // rules.denominator[i], wanted)
        if top[i] > most:
            return False
    return True


@compiled
def _partner(
    task: Task, groups: Groups, counts: SubjectCounts, seat: int, codes: Ints, others: Ints, strict: bool, far: int
) -> int:
    """The seat that another joins: of least rise for what it then lacks less; or of least rise.

    far: nodes that are visited at most as long as nothing is found.
    """
    shape = task.shape
    w = groups.lo.shape[0] // 2
    lo, hi, term, rows = groups.lo[w + seat], groups.hi[w + seat], groups.term[w + seat], groups.rows[seat]
    stack, bounds = np.empty(128, np.int64), np.empty(128)
    bits, depth, visits, n_codes = 0, 0, 0, -1
    best, least, nearest, nearest_rise = -1, np.inf, -1, np.inf
    while 1 << bits < w:
        bits += 1
    while depth < bits:
        node = (w + seat) >> (bits - depth - 1) ^ 1
        stack[depth], bounds[depth] = node, _bound(shape, groups, node, lo, hi, term, rows, np.inf)
        depth += 1
    while depth > 0 and (visits < VISITS_MAX or (best < 0 and visits < far) or nearest < 0):
        depth -= 1
        node = stack[depth]
        if bounds[depth] >= least or bounds[depth] == np.inf:
            continue
        visits += 1
        if node >= w:
            other = node - w
            rise = _rise(shape, groups, seat, other)
            if rise < nearest_rise:
                nearest, nearest_rise = other, rise
            if rise >= least:
                continue
            if groups.rows[other] < rows:
                n_others = _load_aside(task, groups, other, others, n_codes, codes)
                fitting = _fit(task, groups, counts, other, n_others, others, seat, strict)
                _unload(task, others, n_others)
                n_codes = -1
            else:
                if n_codes < 0:
                    n_codes = _load(task, groups, seat, codes)
                fitting = _fit(task, groups, counts, seat, n_codes, codes, other, strict)
            if fitting:
                best, least = other, rise
            continue
        limit = least
        left_bound = _bound(shape, groups, 2 * node, lo, hi, term, rows, limit)
        right_bound = _bound(shape, groups, 2 * node + 1, lo, hi, term, rows, limit)
        nearer = 0 if left_bound <= right_bound else 1
        stack[depth], bounds[depth] = 2 * node + 1 - nearer, max(left_bound, right_bound)
        stack[depth + 1], bounds[depth + 1] = 2 * node + nearer, min(left_bound, right_bound)
        depth += 2
    if n_codes >= 0:
        _unload(task, codes, n_codes)
    task.scratch.top[:], task.scratch.n_distinct[:] = 0, 0
    return best if best >= 0 or strict else nearest


@compiled
def _load_aside(task: Task, groups: Groups, seat: int, codes: Ints, n_loaded: int, loaded: Ints) -> int:
    """Counts a seat's rows in place of what is loaded."""
    if n_loaded >= 0:
        _unload(task, loaded, n_loaded)
    return _load(task, groups, seat, codes)


@compiled
def _move_counts(task: Task, groups: Groups, counts: SubjectCounts, gone: int, stays: int) -> None:
    bundle = groups.first[gone]
    while bundle >= 0:
        for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
            discount_row(task.rules, counts, gone, row)
            count_row(task.rules, counts, stays, row)
        bundle = groups.next[bundle]
    counts.top[gone] = 0


def agglomerated(
    task: Task, qi_group: Ints, n_seats: int, rank: Floats, strict: bool, on_progress: OnProgress = unheard
) -> Ints:
    """Groups that all hold: those of qi_group (m,), and unions of them. rank (m,): the groups of the least first."""
    first = n_seats
    while True:
        stage, turns = _stage(task, qi_group, n_seats, rank), True
        while turns and stage.n[0] > n_seats * FULL:
            turns = _take_turns(task, stage, strict, SOME_TURNS)
            on_progress(1 - int(stage.waits.sum()) / first)
        qi_group = _united(stage.into, qi_group)
        if not stage.waits.any():
            return qi_group
        used = np.zeros(n_seats, dtype=np.int64)
        used[qi_group] = 1
        number = np.cumsum(used) - 1
        n_seats = int(number[-1]) + 1
        qi_group = number[qi_group]


@compiled
def _stage(task: Task, qi_group: Ints, n_seats: int, rank: Floats) -> _Stage:
    """Every seat with rows waits for its turn."""
    groups, counts = groups_of(task, qi_group, n_seats), counts_for(task.rules, n_seats)
    first_rank = np.full(n_seats, np.inf)
    for bundle in range(qi_group.shape[0]):
        first_rank[qi_group[bundle]] = min(first_rank[qi_group[bundle]], rank[bundle])
        for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
            count_row(task.rules, counts, qi_group[bundle], row)
    return _Stage(groups, counts, first_rank, groups.rows > 0, np.arange(n_seats), np.array([n_seats, 0]))


@compiled
def _take_turns(task: Task, stage: _Stage, strict: bool, turns: int) -> bool:
    """Unites seats, turn after turn, until all hold or many seats are empty; whether turns are left to take."""
    groups, counts, first_rank, waits, into, n = stage
    n_seats, size = waits.shape[0], task.rules.subjects.shape[0] * task.rules.distinct.shape[0] + 1
    codes, others = np.empty((2, size), np.int64), np.empty((2, size), np.int64)
    waiting = [(first_rank[seat], groups.rows[seat], seat) for seat in range(n_seats) if waits[seat]]
    heapify(waiting)
    while len(waiting) > 0 and n[0] > n_seats * FULL and turns > 0:
        _, rows, seat = heappop(waiting)
        if groups.rows[seat] != rows or not waits[seat]:
            continue
        turns -= 1
        waits[seat] = False
        if lack_of(task.rules, rows, counts.top[seat], counts.n_distinct[seat]) == 0:
            continue
        far = FAR_VISITS_MAX if n[1] < VAIN_MAX else VISITS_MAX
        other = _partner(task, groups, counts, seat, codes, others, strict, far)
        n[1] = n[1] + 1 if other < 0 else 0
        if other < 0:
            continue
        gone, stays = (seat, other) if rows <= groups.rows[other] else (other, seat)
        _move_counts(task, groups, counts, gone, stays)
        unite(task, groups, gone, stays)
        into[gone] = stays
        n[0] -= 1
        first_rank[stays] = min(first_rank[stays], first_rank[gone])
        waits[gone], waits[stays] = False, True
        heappush(waiting, (first_rank[stays], groups.rows[stays], stays))
    return len(waiting) > 0


@compiled
def _united(into: Ints, qi_group: Ints) -> Ints:
    """The seat in which every bundle is in the end; (m,)."""
    found = np.empty(qi_group.shape[0], np.int64)
    for bundle in range(qi_group.shape[0]):
        seat = qi_group[bundle]
        while into[seat] != seat:
            into[seat] = into[into[seat]]
            seat = into[seat]
        found[bundle] = seat
    return found


# Single bundles go to the group that takes them at the least growth of loss and still holds.
#
# A group that holds *takes* a bundle if every share is kept: the bundle's own subjects are the only ones whose shares
# can grow, and rows and distinct subjects only become more. So the counts of these subjects are all that is asked for
# (`group_index`). A search visits VISITS nodes of the index of groups, and if no group takes the bundle, FAR_VISITS.

PLACEMENT_VISITS = 128
FAR_VISITS = 2048


class _HeldGroups(NamedTuple):
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
def _kept(task: Task, found: Ints, n_kept: int) -> _HeldGroups:
    """The groups of found (m,), -1 for bundles without one."""
    one = np.where(found < 0, n_kept, found)
    groups, counts = groups_of(task, one, n_kept + 1), counts_for(task.rules, n_kept + 1)
    put(task, groups, n_kept, np.empty(0, np.int64))
    for bundle in range(found.shape[0]):
        if found[bundle] >= 0:
            for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
                count_row(task.rules, counts, found[bundle], row)
    return _HeldGroups(groups, counts, found, n_kept, np.zeros(1, np.int64))


@compiled
def _place_all(task: Task, kept: _HeldGroups, order: Ints) -> None:
    """Bundles without a group, one after the other, each to the group that takes it."""
    groups, counts, found, aside, left = kept
    # bare numbers would be types of their own, and everything compiled again for each
    near, far = np.int64(PLACEMENT_VISITS), np.int64(FAR_VISITS)
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


# QI groups founded on rare values: who has them chooses first; the others join where the loss rises least.
#
# Every bundle begins as a group of its own. Groups are merged that *fit*, those with the rarest
# subjects first, each with the one with which the total loss rises least. What then does not hold is taken apart, and
# every bundle goes to the group that takes it and holds. What no group takes is merged until it holds.

SEED_SHARPNESS = 7


def founded(task: Task, on_progress: OnProgress = unheard) -> Ints:
    """Each bundle's QI group, int64 (m,); all of them hold."""
    order, _ = order_of(task, SEED_SHARPNESS)
    seat = np.empty(len(order), dtype=np.int64)
    seat[order] = np.arange(len(order))
    rarity = _rarity(task)
    qi_group = agglomerated(task, seat, len(order), rarity, True, on_progress)
    left, qi_group = placed(task, qi_group, int(qi_group.max()) + 1, np.arange(len(order)))
    if left:
        qi_group = agglomerated(task, qi_group, int(qi_group.max()) + 1, np.zeros_like(rarity), False)
    return qi_group


def _rarity(task: Task) -> Floats:
    """How common the rarest row of each bundle is, (m,): the product over subjects of how many rows have its code."""
    common = np.ones(len(task.rules.subjects))
    for codes in task.rules.subjects.T:
        common *= np.bincount(codes)[codes]
    return np.minimum.reduceat(common, task.bundles.begin)
