"""Looking up groups by box, and what they hold of each individual.

Every group has a *seat*, a number that another group may get once it is empty; an empty seat has no rows and takes no
part. The bundles of a group hang in a chain. The seats are the leaves of a binary tree whose nodes keep the box around
all groups below, and of each attribute the largest NCP of any of them. From these follows a bound that no group below
can beat: a group that does not reach the bundle's cell grows at least to the cell from the near edge of the box around
all. `nearest` goes down to the child of the lower bound first (equal: the left one) and passes over what cannot beat
the best found so far. It ends after VISITS_MAX nodes, so a search costs no more in a table of a million rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.numba_support.jit import compiled, inlined
from streamer.privacy.compiled import Rules
from streamer.recoding.algorithms.bundles import EMPTY_HI, EMPTY_LO, Shape, Task, ncp_term, total, widen
from streamer.table.arrays import Bools, Floats, Ints

# How often every subject stands in every QI group, while groups change: what one more bundle would do to a group.
#
# `streamer.privacy.compiled` counts one group at a time; filling its scratch costs the rows of the group. Here the
# counts of all groups stand in one table with open addressing, so that a question about a large group and a few rows
# costs as much as the few rows. A *seat* is a group's number, as in `group_index`.

PRIME = 2_147_483_629
FACTOR = 2_654_435_761  # both below 2^32, so that no product leaves int64
ROOM = 3


class SubjectCounts(NamedTuple):
    """Counts over g seats and s subjects with c codes in all.

    first (s,): where a subject's codes begin among the c; n_codes (1,): c. place (2^i,): seat * c + code, -1 where
    nothing stands; times (2^i,): rows. top (g, s): the largest count, or more; n_distinct (g, s).
    """

    first: Ints
    n_codes: Ints
    place: Ints
    times: Ints
    top: Ints
    n_distinct: Ints


@compiled
def counts_for(rules: Rules, n_seats: int) -> SubjectCounts:
    """Counts of nothing, with room for all rows."""
    n, s = rules.subjects.shape
    first, n_codes = np.zeros(s, np.int64), 0
    for i in range(s):
        first[i] = n_codes
        n_codes += rules.subjects[:, i].max() + 1
    size = 16
    while size < ROOM * n * s:
        size *= 2
    return SubjectCounts(
        first,
        np.full(1, n_codes, np.int64),
        np.full(size, -1, np.int64),
        np.zeros(size, np.int64),
        np.zeros((n_seats, s), np.int64),
        np.zeros((n_seats, s), np.int64),
    )


@inlined
def _home(place: int, size: int) -> int:
    return ((place % PRIME) * FACTOR >> 15) & (size - 1)


@inlined
def _at(counts: SubjectCounts, seat: int, i: int, code: int) -> int:
    """Where the count stands, or the empty place where it would."""
    place = seat * counts.n_codes[0] + counts.first[i] + code
    size = counts.place.shape[0]
    at = _home(place, size)
    while counts.place[at] >= 0 and counts.place[at] != place:
        at = (at + 1) & (size - 1)
    return at


@inlined
def count_of(counts: SubjectCounts, seat: int, i: int, code: int) -> int:
    """Rows of a seat with a code of subject i."""
    at = _at(counts, seat, i, code)
    return counts.times[at] if counts.place[at] >= 0 else 0


@compiled
def count_row(rules: Rules, counts: SubjectCounts, seat: int, row: int) -> None:
    """Counts a row into a seat."""
    for i in range(rules.distinct.shape[0]):
        code = rules.subjects[row, i]
        if code == rules.uncounted[i]:
            continue
        at = _at(counts, seat, i, code)
        if counts.place[at] < 0:
            counts.place[at] = seat * counts.n_codes[0] + counts.first[i] + code
            counts.times[at] = 0
            counts.n_distinct[seat, i] += 1
        counts.times[at] += 1
        counts.top[seat, i] = max(counts.top[seat, i], counts.times[at])


@compiled
def discount_row(rules: Rules, counts: SubjectCounts, seat: int, row: int) -> None:
    """Takes a row out of a seat; `top` stays, and may then be too large."""
    for i in range(rules.distinct.shape[0]):
        code = rules.subjects[row, i]
        if code == rules.uncounted[i]:
            continue
        at = _at(counts, seat, i, code)
        counts.times[at] -= 1
        if counts.times[at] == 0:
            counts.n_distinct[seat, i] -= 1
            _clear(counts, at)


@compiled
def _clear(counts: SubjectCounts, at: int) -> None:
    """Empties a place, and moves up what was displaced by what stood there."""
    size = counts.place.shape[0]
    hole, here = at, at
    while True:
        here = (here + 1) & (size - 1)
        if counts.place[here] < 0:
            break
        home = _home(counts.place[here], size)
        if ((here - home) & (size - 1)) >= ((here - hole) & (size - 1)):
            counts.place[hole], counts.times[hole] = counts.place[here], counts.times[here]
            hole = here
    counts.place[hole] = -1


BOX_VISITS_MAX = 128


class Groups(NamedTuple):
    """g seats over m bundles.

    first (g,), next (m,): the chains of bundles, -1 at their ends. rows (g,), ncp (g,). free (g,), n_free (1,):
    the empty seats, the one to fill next last. changed (g,): set by whatever fills a seat, cleared by who has seen it;
    fillings (g,): how often a seat was filled by `put`.
    lo, hi (2w, d), term (2w, d): box and NCP by attribute of seat i at w + i; of inner node i over its children 2i and
    2i + 1 the box around both and the larger NCP.
    """

    first: Ints
    next: Ints
    rows: Ints
    ncp: Floats
    free: Ints
    n_free: Ints
    changed: Bools
    fillings: Ints
    lo: Ints
    hi: Ints
    term: Floats


@compiled
def groups_of(task: Task, qi_group: Ints, n_seats: int) -> Groups:
    """The groups that qi_group (m,) numbers, below n_seats."""
    bundles = task.bundles
    m, d = bundles.cells.shape
    w = 1
    while w < n_seats:
        w *= 2
    groups = Groups(
        np.full(n_seats, -1, np.int64),
        np.full(m, -1, np.int64),
        np.zeros(n_seats, np.int64),
        np.zeros(n_seats),
        np.zeros(n_seats, np.int64),
        np.zeros(1, np.int64),
        np.ones(n_seats, np.bool_),
        np.zeros(n_seats, np.int64),
        np.full((2 * w, d), EMPTY_LO),
        np.full((2 * w, d), EMPTY_HI),
        np.zeros((2 * w, d)),
    )
    for bundle in range(m - 1, -1, -1):
        seat = qi_group[bundle]
        groups.next[bundle] = groups.first[seat]
        groups.first[seat] = bundle
        groups.rows[seat] += bundles.end[bundle] - bundles.begin[bundle]
        widen(task.shape, bundles.cells[bundle], groups.lo[w + seat], groups.hi[w + seat], groups.term[w + seat])
    for seat in range(n_seats - 1, -1, -1):
        groups.ncp[seat] = total(groups.term[w + seat])
        if groups.rows[seat] == 0:
            groups.free[groups.n_free[0]] = seat
            groups.n_free[0] += 1
    for node in range(w - 1, 0, -1):
        _join(groups, node)
    return groups


@compiled
def _join(groups: Groups, node: int) -> bool:
    """Makes an inner node say what its children say; False if it did."""
    changed = False
    for j in range(groups.lo.shape[1]):
        lo = min(groups.lo[2 * node, j], groups.lo[2 * node + 1, j])
        hi = max(groups.hi[2 * node, j], groups.hi[2 * node + 1, j])
        term = max(groups.term[2 * node, j], groups.term[2 * node + 1, j])
        if lo != groups.lo[node, j] or hi != groups.hi[node, j] or term != groups.term[node, j]:
            groups.lo[node, j], groups.hi[node, j], groups.term[node, j] = lo, hi, term
            changed = True
    return changed


@compiled
def put(task: Task, groups: Groups, seat: int, members: Ints) -> None:
    """Makes `members`, bundles in their order, the group in a seat; none: the seat is empty."""
    bundles = task.bundles
    leaf = groups.lo.shape[0] // 2 + seat
    groups.lo[leaf], groups.hi[leaf], groups.term[leaf] = EMPTY_LO, EMPTY_HI, 0.0
    groups.rows[seat], groups.first[seat], groups.changed[seat] = 0, -1, True
    groups.fillings[seat] += 1
    for bundle in members[::-1]:
        groups.next[bundle] = groups.first[seat]
        groups.first[seat] = bundle
        groups.rows[seat] += bundles.end[bundle] - bundles.begin[bundle]
        widen(task.shape, bundles.cells[bundle], groups.lo[leaf], groups.hi[leaf], groups.term[leaf])
    groups.ncp[seat] = total(groups.term[leaf])
    node = leaf // 2
    while node > 0 and _join(groups, node):
        node //= 2


@compiled
def unite(task: Task, groups: Groups, gone: int, stays: int) -> None:
    """Moves all bundles of a seat into another, before those there; the first is empty then and stays so."""
    w = groups.lo.shape[0] // 2
    last = groups.first[gone]
    while groups.next[last] >= 0:
        last = groups.next[last]
    groups.next[last] = groups.first[stays]
    groups.first[stays], groups.first[gone], groups.changed[stays] = groups.first[gone], -1, True
    groups.rows[stays] += groups.rows[gone]
    for j in range(groups.lo.shape[1]):
        lo, hi = groups.lo[w + stays, j], groups.hi[w + stays, j]
        groups.lo[w + stays, j] = min(lo, groups.lo[w + gone, j])
        groups.hi[w + stays, j] = max(hi, groups.hi[w + gone, j])
        if groups.lo[w + stays, j] < lo or groups.hi[w + stays, j] > hi:
            groups.term[w + stays, j] = ncp_term(task.shape, j, groups.lo[w + stays, j], groups.hi[w + stays, j])
    groups.ncp[stays] = total(groups.term[w + stays])
    groups.rows[gone], groups.ncp[gone] = 0, 0.0
    groups.lo[w + gone], groups.hi[w + gone], groups.term[w + gone] = EMPTY_LO, EMPTY_HI, 0.0
    for leaf in (w + gone, w + stays):
        node = leaf // 2
        while node > 0 and _join(groups, node):
            node //= 2


@compiled
def join(task: Task, groups: Groups, seat: int, bundle: int) -> None:
    """Puts a bundle before the others of a seat; whoever had it must `put` what is left."""
    leaf = groups.lo.shape[0] // 2 + seat
    groups.next[bundle] = groups.first[seat]
    groups.first[seat], groups.changed[seat] = bundle, True
    groups.rows[seat] += task.bundles.end[bundle] - task.bundles.begin[bundle]
    if widen(task.shape, task.bundles.cells[bundle], groups.lo[leaf], groups.hi[leaf], groups.term[leaf]):
        groups.ncp[seat] = total(groups.term[leaf])
        node = leaf // 2
        while node > 0 and _join(groups, node):
            node //= 2


@compiled
def members_of(groups: Groups, seat: int) -> Ints:
    """The bundles of a seat, in the order of its chain."""
    n, bundle = 0, groups.first[seat]
    while bundle >= 0:
        n, bundle = n + 1, groups.next[bundle]
    members = np.empty(n, np.int64)
    bundle = groups.first[seat]
    for i in range(n):
        members[i], bundle = bundle, groups.next[bundle]
    return members


@inlined
def _joined(shape: Shape, lo: Ints, hi: Ints, term: Floats, leaf: int, cells: Ints) -> float:
    """NCP of the box at a leaf once it contains `cells` too."""
    each = 0.0
    for j in range(cells.shape[0]):
        cell, first, last = cells[j], lo[leaf, j], hi[leaf, j]
        if first <= cell <= last:
            each += term[leaf, j]
        else:
            each += ncp_term(shape, j, min(first, cell), max(last, cell))
    return each


@compiled
def growth(task: Task, groups: Groups, seat: int, cells: Ints, rows: int) -> float:
    """How much the total loss grows when `rows` rows at `cells` join a group."""
    leaf = groups.lo.shape[0] // 2 + seat
    each = _joined(task.shape, groups.lo, groups.hi, groups.term, leaf, cells)
    return float((groups.rows[seat] + rows) * each - groups.rows[seat] * groups.ncp[seat])


@inlined
def _bound(
    shape: Shape, lo: Ints, hi: Ints, term: Floats, node: int, cells: Ints, rows: int, rows_min: int, limit: float
) -> float:
    """What `growth` is at least, for every group below a node; at least `limit`: infinite."""
    least = 0.0
    for j in range(cells.shape[0]):
        cell, first, last = cells[j], lo[node, j], hi[node, j]
        if first > last or least >= limit:
            return np.inf
        if first <= cell <= last:
            continue
        edge = first if cell < first else last
        there = ncp_term(shape, j, min(cell, edge), max(cell, edge))
        former = ncp_term(shape, j, edge, edge) if shape.first_leaf[j] < 0 else term[node, j]
        least += rows * there + rows_min * max(there - former, 0.0)
    return least


@inlined
def bound_of(task: Task, groups: Groups, node: int, cells: Ints, rows: int, limit: float) -> float:
    """What `growth` is at least, for every group below a node; at least `limit`: infinite."""
    return _bound(task.shape, groups.lo, groups.hi, groups.term, node, cells, rows, task.rows_min, limit)


@compiled
def nearest(task: Task, groups: Groups, own: int, cells: Ints, rows: int, limit: float) -> tuple[int, float]:
    """The group, other than `own`, that takes `rows` rows at `cells` at the least growth below `limit`, and that.

    (-1, limit) if there is none.
    """
    shape, rows_min, lo, hi, term = task.shape, task.rows_min, groups.lo, groups.hi, groups.term
    sizes, ncp = groups.rows, groups.ncp
    stack, bounds = np.empty(128, np.int64), np.empty(128)
    w, best, depth, visits = lo.shape[0] // 2, -1, 0, 0
    bits = 0
    while 1 << bits < w:
        bits += 1
    while depth < bits:
        node = (w + own) >> (bits - depth - 1) ^ 1
        stack[depth], bounds[depth] = node, _bound(shape, lo, hi, term, node, cells, rows, rows_min, limit)
        depth += 1
    while depth > 0 and visits < BOX_VISITS_MAX:
        depth -= 1
        node = stack[depth]
        if bounds[depth] >= limit:
            continue
        visits += 1
        if node >= w:
            seat = node - w
            each = _joined(shape, lo, hi, term, node, cells)
            grown = (sizes[seat] + rows) * each - sizes[seat] * ncp[seat]
            if grown < limit:
                best, limit = seat, grown
            continue
        left = _bound(shape, lo, hi, term, 2 * node, cells, rows, rows_min, limit)
        right = _bound(shape, lo, hi, term, 2 * node + 1, cells, rows, rows_min, limit)
        nearer = 0 if left <= right else 1
        stack[depth], bounds[depth] = 2 * node + 1 - nearer, max(left, right)
        stack[depth + 1], bounds[depth + 1] = 2 * node + nearer, min(left, right)
        depth += 2
    return best, limit
