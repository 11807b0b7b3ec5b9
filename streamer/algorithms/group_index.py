"""QI groups while they change, and which of them takes one more bundle at the least loss.

The rules of this file
----------------------
* A group's number is its *slot*; an empty slot has no rows and takes no part. Its bundles hang in a chain.
* The slots are the leaves of a binary tree whose nodes keep the box around all groups below, and of each attribute the
  largest NCP of any of them. From these follows a bound that no group below can beat:
  a group that does not reach the bundle's cell grows at least to the cell from the near edge of the box around all.
* `nearest` goes down to the child of the lower bound first (equal: the left one) and passes over what cannot beat the
  best found so far. It ends after VISITS_MAX nodes, so a search costs no more in a table of a million rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.algorithms.box_loss import EMPTY_HI, EMPTY_LO, share, total, widen
from streamer.algorithms.bundles import Task
from streamer.jit import compiled, inlined

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

VISITS_MAX = 512


class Groups(NamedTuple):
    """g slots over m bundles.

    first (g,), next (m,): the chains of bundles, -1 at their ends. rows (g,), ncp (g,). free (g,), n_free (1,):
    the empty slots, the one to fill next last.
    lo, hi (2w, d), term (2w, d): box and NCP by attribute of slot i at w + i; of inner node i over its children 2i and
    2i + 1 the box around both and the larger NCP.
    """

    first: Ints
    next: Ints
    rows: Ints
    ncp: Floats
    free: Ints
    n_free: Ints
    lo: Ints
    hi: Ints
    term: Floats


@compiled
def groups_of(task: Task, qi_group: Ints, n_slots: int) -> Groups:
    """The groups that qi_group (m,) numbers, below n_slots."""
    bundles = task.bundles
    m, d = bundles.cells.shape
    w = 1
    while w < n_slots:
        w *= 2
    groups = Groups(
        np.full(n_slots, -1, np.int64),
        np.full(m, -1, np.int64),
        np.zeros(n_slots, np.int64),
        np.zeros(n_slots),
        np.zeros(n_slots, np.int64),
        np.zeros(1, np.int64),
        np.full((2 * w, d), EMPTY_LO),
        np.full((2 * w, d), EMPTY_HI),
        np.zeros((2 * w, d)),
    )
    for bundle in range(m - 1, -1, -1):
        slot = qi_group[bundle]
        groups.next[bundle] = groups.first[slot]
        groups.first[slot] = bundle
        groups.rows[slot] += bundles.end[bundle] - bundles.begin[bundle]
        widen(task.shape, bundles.cells[bundle], groups.lo[w + slot], groups.hi[w + slot], groups.term[w + slot])
    for slot in range(n_slots - 1, -1, -1):
        groups.ncp[slot] = total(groups.term[w + slot])
        if groups.rows[slot] == 0:
            groups.free[groups.n_free[0]] = slot
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
def put(task: Task, groups: Groups, slot: int, members: Ints) -> None:
    """Makes `members`, bundles in their order, the group in a slot; none of them: an empty slot."""
    bundles = task.bundles
    leaf = groups.lo.shape[0] // 2 + slot
    groups.lo[leaf], groups.hi[leaf], groups.term[leaf] = EMPTY_LO, EMPTY_HI, 0.0
    groups.rows[slot], groups.first[slot] = 0, -1
    for bundle in members[::-1]:
        groups.next[bundle] = groups.first[slot]
        groups.first[slot] = bundle
        groups.rows[slot] += bundles.end[bundle] - bundles.begin[bundle]
        widen(task.shape, bundles.cells[bundle], groups.lo[leaf], groups.hi[leaf], groups.term[leaf])
    groups.ncp[slot] = total(groups.term[leaf])
    node = leaf // 2
    while node > 0 and _join(groups, node):
        node //= 2


@compiled
def members_of(groups: Groups, slot: int) -> Ints:
    """The bundles of a slot, in the order of its chain."""
    n, bundle = 0, groups.first[slot]
    while bundle >= 0:
        n, bundle = n + 1, groups.next[bundle]
    members = np.empty(n, np.int64)
    bundle = groups.first[slot]
    for i in range(n):
        members[i], bundle = bundle, groups.next[bundle]
    return members


@inlined
def growth(task: Task, groups: Groups, slot: int, cells: Ints, rows: int) -> float:
    """How much the total loss grows when `rows` rows at `cells` join a group."""
    leaf, each = groups.lo.shape[0] // 2 + slot, 0.0
    for j in range(cells.shape[0]):
        lo, hi = groups.lo[leaf, j], groups.hi[leaf, j]
        if lo <= cells[j] <= hi:
            each += groups.term[leaf, j]
        else:
            each += share(task.shape, j, min(lo, cells[j]), max(hi, cells[j]))
    return (groups.rows[slot] + rows) * each - groups.rows[slot] * groups.ncp[slot]


@inlined
def _bound(task: Task, groups: Groups, node: int, cells: Ints, rows: int, limit: float) -> float:
    """What `growth` is at least, for every group below a node; no more is known of it from `limit` on."""
    least = 0.0
    for j in range(cells.shape[0]):
        cell, lo, hi = cells[j], groups.lo[node, j], groups.hi[node, j]
        if lo > hi or least >= limit:
            return np.inf
        if lo <= cell <= hi:
            continue
        edge = lo if cell < lo else hi
        term = share(task.shape, j, min(cell, edge), max(cell, edge))
        former = share(task.shape, j, edge, edge) if task.shape.first_leaf[j] < 0 else groups.term[node, j]
        least += rows * term + task.rows_min * max(term - former, 0.0)
    return least


@compiled
def nearest(task: Task, groups: Groups, own: int, cells: Ints, rows: int, limit: float) -> tuple[int, float]:
    """The group, other than `own`, that takes `rows` rows at `cells` at the least growth below `limit`, and that.

    (-1, limit) where there is none.
    """
    w, best = groups.lo.shape[0] // 2, -1
    stack, bounds = np.empty(64, np.int64), np.empty(64)
    stack[0], bounds[0], depth, visits = 1, 0.0, 1, 0
    while depth > 0 and visits < VISITS_MAX:
        depth -= 1
        node = stack[depth]
        if bounds[depth] >= limit:
            continue
        visits += 1
        if node >= w:
            if node - w != own:
                grown = growth(task, groups, node - w, cells, rows)
                if grown < limit:
                    best, limit = node - w, grown
            continue
        left = _bound(task, groups, 2 * node, cells, rows, limit)
        right = _bound(task, groups, 2 * node + 1, cells, rows, limit)
        nearer = 0 if left <= right else 1
        stack[depth], bounds[depth] = 2 * node + 1 - nearer, max(left, right)
        stack[depth + 1], bounds[depth + 1] = 2 * node + nearer, min(left, right)
        depth += 2
    return best, limit
