"""QI groups while they change, and which of them takes one more bundle at the least loss.

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

from streamer.jit import compiled, inlined
from streamer.recoding.algorithms.box_loss import EMPTY_HI, EMPTY_LO, Shape, ncp_term, total, widen
from streamer.recoding.algorithms.bundles import Task
from streamer.table.arrays import Bools, Floats, Ints

VISITS_MAX = 128


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
    """Makes an inner node say what its children say; False where it did."""
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

    (-1, limit) where there is none.
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
    while depth > 0 and visits < VISITS_MAX:
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
