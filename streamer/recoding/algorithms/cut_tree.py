"""The order in which `ordered` looks for QI groups: the leaves of a tree of best cuts, from left to right.

A node is a set of bundles (`algorithms.bundles`); the root is the whole table. Along every attribute a node's bundles
stand in the order of that attribute's cells, equal ones as they came. A cut may fall between any two of them, even
between equal values; the lower part goes to the left. A node whose bundles all have the same cells is a leaf.

The cut of least *weight* wins: rows times the sum over attributes of NCP^p, of both parts; of equal cuts the earlier
attribute, then the lower position. If no cut weighs less than the node, the widest attribute is cut in the middle,
between two of its cells if possible: else half of a category would go one way and half the other. If the model counts
more than rows, a node that holds it is cut so that both parts hold it, if there is such a cut. In a node of EVEN_FROM
bundles or more, each part keeps at least one of every EVEN_PART bundles. So the tree is at most about EVEN_PART ln n
deep, and building it takes in the order of n log n steps.

Why p is what it is, and what a block is: docs/explanation/algorithms.md.

*Tiles* are the nodes, from the root down, that hold the model and do not have two children that both hold it. They
stand side by side and make up the whole order: the root holds, and a node that is no tile passes that on to its two
children.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.kernels.boxes import ncp_term
from streamer.kernels.sorting import sort_stably
from streamer.native import compiled, inlined
from streamer.privacy.compiled import holds_so_far
from streamer.recoding.algorithms.bundles import (
    EMPTY_HI,
    EMPTY_LO,
    Bundles,
    Task,
    add_bundle,
    bundles_hold,
    clear_bundles,
    rows_in,
)
from streamer.table.arrays import Bools, Floats, Ints

EVEN_FROM, EVEN_PART, SMALL = 256, 32, 4
KEPT_MAX = 128
"""Most bundles of a node whose weights are kept, in case that the cut of least weight has parts that do not hold."""

FINE = 16
"""A block has at most this part of the fewest rows of a group, but at least one bundle."""

INSERTED_MAX, CELLS_PER_BUNDLE = 32, 2
"""Up to INSERTED_MAX bundles are inserted one by one; more are counted by cell if there are fewer than
CELLS_PER_BUNDLE cells for each."""


class Scan(NamedTuple):
    """Memory for the cuts of one node after the other."""

    favour: Floats  # (d,) by how much an attribute counts
    weights: Floats  # (2, m) of the parts along one attribute, lower ones first
    kept: Floats  # (d, 2, KEPT_MAX) the same along every attribute, in nodes of few bundles
    holding: Bools  # (2, m) as weights
    length: Ints  # (d, 2) how many of the weights count
    lo: Ints  # (d,) the box of a part as it grows
    hi: Ints
    term: Floats
    wide: Ints  # (d,) the attributes in which the node has more than one cell
    n_wide: Ints  # (1,) how many these are
    growing: Ints  # (d,) those in which a part that grows has not reached the node's box


def scan_for(m: int, d: int) -> Scan:
    """Memory for nodes of up to m bundles."""
    box = np.empty((2, d), np.int64)
    return Scan(np.ones(d), np.empty((2, m)), np.empty((d, 2, KEPT_MAX)), np.empty((2, m), np.bool_),
        np.empty((d, 2), np.int64), box[0], box[1], np.zeros(d), np.empty(d, np.int64), np.zeros(1, np.int64),
        np.empty(d, np.int64))  # fmt: skip


@inlined
def sharpened(term: float, sharpness: int) -> float:
    """term ^ (2 ^ sharpness)."""
    for _ in range(sharpness):
        term *= term
    return term


@inlined
def _scan(task: Task, along: Ints, lo: Ints, hi: Ints, sharpness: int, backwards: int, scan: Scan, out: Floats) -> int:
    """Fills in out[i]: the weight of the first i + 1 bundles of `along`, or of the last ones.

    Returns the i from which on they have the box lo..hi of all bundles: from there nothing is filled in.
    """
    shape, (cells, first, last), term = task.shape, task.bundles, scan.term
    growing, box_lo, box_hi = scan.growing, scan.lo, scan.hi
    m, d, n_wide = along.shape[0], lo.shape[0], scan.n_wide[0]
    rows, per_row = 0, 0.0
    for at in range(n_wide):
        j = scan.wide[at]
        growing[at] = j
        box_lo[j], box_hi[j] = EMPTY_LO, EMPTY_HI
    for i in range(m):
        bundle = along[m - 1 - i] if backwards else along[i]
        changed, at = False, 0
        while at < n_wide:
            j = growing[at]
            cell = cells[bundle, j]
            at += 1
            if box_lo[j] <= cell <= box_hi[j]:
                continue
            box_lo[j], box_hi[j] = min(cell, box_lo[j]), max(cell, box_hi[j])
            term[j] = scan.favour[j] * sharpened(ncp_term(shape, j, box_lo[j], box_hi[j]), sharpness)
            changed = True
            if box_lo[j] == lo[j] and box_hi[j] == hi[j]:  # it grows no more
                at -= 1
                n_wide -= 1
                growing[at] = growing[n_wide]
        if changed:
            if n_wide == 0:
                return i
            per_row = 0.0
            for j in range(d):
                per_row += term[j]
        rows += last[bundle] - first[bundle]
        out[i] = rows * per_row
    return int(m)


def _hold_so_far(task: Task, along: Ints, rows: int, backwards: bool, out: Bools) -> bool:
    """Fills in out[i]: whether the first i + 1 bundles of `along`, or the last ones, hold the model; whether any do.

    rows: of all bundles. If the other part has too few rows to hold the model, out[i] is False without a test.
    """
    m, some, i, known = along.shape[0], False, 0, np.array([1, -1])
    out[:m] = False
    while i < m:
        bundle = along[m - 1 - i] if backwards else along[i]
        rows -= task.bundles.end[bundle] - task.bundles.begin[bundle]
        if rows < task.rows_min:
            break
        add_bundle(task, bundle)
        out[i] = holds_so_far(task.rules, task.scratch, known)
        some = some or out[i]
        i += 1
    clear_bundles(task, along[m - i :] if backwards else along[:i])
    return some


def _middle(bundles: Bundles, along: Ints, j: int, edge: int) -> int:
    """The position between two cells of attribute j that is nearest the middle, of two the lower; else the middle."""
    m = along.shape[0]
    for away in range(m // 2 - edge + 1):
        for at in (m // 2 - away, m // 2 + away):
            if at <= m - edge and bundles.cells[along[at - 1], j] != bundles.cells[along[at], j]:
                return int(at)
    return int(m // 2)


def best_cut(
    task: Task, along: Ints, lo: Ints, hi: Ints, sharpness: int, strict: bool, scan: Scan
) -> tuple[int, int, bool]:
    """Attribute and position of a node's best cut, and whether both parts are known to hold the model.

    along (d, m): the node's bundles along every attribute; lo..hi: its box. strict: a cut whose parts both hold the
    model goes before all others; otherwise this is not tested.
    """
    if strict:
        # most often the cut of least weight is such a cut: two tests instead of two at every position
        best_j, best_at, _ = _least_cut(task, along, lo, hi, sharpness, False, False, scan)
        if bundles_hold(task, along[best_j, :best_at]) and bundles_hold(task, along[best_j, best_at:]):
            return best_j, best_at, True
    return _least_cut(task, along, lo, hi, sharpness, strict, strict, scan)


def _least_cut(
    task: Task, along: Ints, lo: Ints, hi: Ints, sharpness: int, strict: bool, again: bool, scan: Scan
) -> tuple[int, int, bool]:
    """The same, testing every position at which a cut could be the best; again: this node's weights may be kept."""
    shape, first, last = task.shape, task.bundles.begin, task.bundles.end
    holding, length = scan.holding, scan.length
    d, m = along.shape
    rows = rows_in(task.bundles, along[0])
    per_row, widest, best_j, n_wide = 0.0, -1.0, 0, 0
    for j in range(d):
        term = ncp_term(shape, j, lo[j], hi[j])
        scan.term[j] = scan.favour[j] * sharpened(term, sharpness)
        per_row += scan.term[j]
        if lo[j] < hi[j]:
            scan.wide[n_wide] = j
            n_wide += 1
            if term > widest:
                widest, best_j = term, j
    scan.n_wide[0] = n_wide
    edge = m // EVEN_PART if m >= EVEN_FROM else 1
    best, best_at, best_holds = rows * per_row, _middle(task.bundles, along[best_j], best_j, edge), False
    for j in scan.wide[:n_wide]:
        weights = scan.kept[j] if m <= KEPT_MAX else scan.weights
        if not again or m > KEPT_MAX:
            for backwards in range(2):
                length[j, backwards] = _scan(task, along[j], lo, hi, sharpness, backwards, scan, weights[backwards])
        lower_whole, upper_whole = length[j]
        some = False
        if strict and (not best_holds or _least_total(along[j], weights, length[j], edge) < best):
            some = _hold_so_far(task, along[j], rows, False, holding[0])
            some = some and _hold_so_far(task, along[j], rows, True, holding[1])
        below = 0
        for at in range(1, m - edge + 1):
            bundle = along[j, at - 1]
            below += last[bundle] - first[bundle]
            if at < edge:
                continue
            both = some and holding[0, at - 1] and holding[1, m - at - 1]
            total = weights[0, at - 1] if at <= lower_whole else below * per_row
            total += weights[1, m - at - 1] if m - at <= upper_whole else (rows - below) * per_row
            if (both and not best_holds) or (both == best_holds and total < best):
                best, best_j, best_at, best_holds = total, j, at, both
    return int(best_j), int(best_at), bool(best_holds)


@inlined
def _least_total(along: Ints, weights: Floats, length: Ints, edge: int) -> float:
    """The weight of a node's best cut along one attribute, or less."""
    m, least = along.shape[0], np.inf
    for at in range(edge, m - edge + 1):
        lower = weights[0, at - 1] if at <= length[0] else 0.0
        least = min(least, lower + (weights[1, m - at - 1] if m - at <= length[1] else 0.0))
    return least


def separate(along: Ints, best_j: int, best_at: int, is_lower: Bools, aside: Ints) -> None:
    """Moves the lower part of a node to the left along every attribute; along (d, m); is_lower, aside: scratch."""
    d, m = along.shape
    for i in range(m):
        is_lower[along[best_j, i]] = i < best_at
    for j in range(d):
        if j == best_j:
            continue
        left, right = 0, 0
        for i in range(m):
            bundle = along[j, i]
            if is_lower[bundle]:
                along[j, left] = bundle
                left += 1
            else:
                aside[right] = bundle
                right += 1
        for i in range(right):
            along[j, left + i] = aside[i]


class Growth(NamedTuple):
    """A tree of up to m bundles while it grows; the last six are scratch."""

    along: Ints  # (d, m) the bundles along every attribute
    tile: Ints  # (m,) as `Order` has them
    blocks: Ints  # (m,)
    todo: Ints  # (deepest + 1, 3) the parts still to be cut, the next one last: begin, end, whether it holds
    n: Ints  # (2,) how many of these, and how many blocks so far
    scan: Scan
    is_lower: Bools
    aside: Ints
    box: Ints
    counts: Ints


class Order(NamedTuple):
    """m bundles in order."""

    bundles: Ints  # (m,)
    tile: Ints  # (m,) where the tile that begins at each position ends, or 0
    blocks: Ints  # (b,) where the blocks begin


def growth_for(m: int, d: int) -> Growth:
    """Memory for trees of up to m bundles with d attributes."""
    deepest, left = EVEN_FROM, m
    while left > 0:
        deepest, left = deepest + EVEN_PART, left // 2
    deepest = min(m, deepest)
    return Growth(np.empty((d, m), np.int64), np.empty(m, np.int64), np.empty(m, np.int64),
        np.empty((deepest + 1, 3), np.int64), np.empty(2, np.int64), scan_for(m, d), np.zeros(m, np.bool_),
        np.empty(m, np.int64), np.empty((2, d), np.int64), np.empty(CELLS_PER_BUNDLE * m + 1, np.int64))  # fmt: skip


def put_along(cells: Ints, j: int, out: Ints, counts: Ints) -> None:
    """Fills in the bundles in the order of their cells (m, d) of attribute j, equal ones as they come."""
    m = out.shape[0]
    if m <= INSERTED_MAX:
        for i in range(m):
            to = i
            while to > 0 and cells[out[to - 1], j] > cells[i, j]:
                out[to] = out[to - 1]
                to -= 1
            out[to] = i
        return
    lo, hi = cells[0, j], cells[0, j]
    for i in range(m):
        lo, hi = min(lo, cells[i, j]), max(hi, cells[i, j])
    if hi - lo >= CELLS_PER_BUNDLE * m:
        sort_stably(cells[:, j], out, counts)
        return
    counts[: hi - lo + 2] = 0
    for i in range(m):
        counts[cells[i, j] - lo + 1] += 1
    for cell in range(hi - lo):
        counts[cell + 1] += counts[cell]
    for i in range(m):
        cell = cells[i, j] - lo
        out[counts[cell]] = i
        counts[cell] += 1


def _begin(task: Task, growth: Growth) -> None:
    """Makes it a tree that is only its root; all bundles together hold the model."""
    m, d = task.bundles.cells.shape
    for j in range(d):
        put_along(task.bundles.cells, j, growth.along[j, :m], growth.counts)
    growth.tile[:m] = 0
    growth.n[0], growth.n[1] = 0, 0
    _cut_next(growth, 0, m, 1)


@inlined
def _cut_next(growth: Growth, begin: int, end: int, holding: int) -> None:
    """Puts a part before all others that are still to be cut."""
    at = growth.n[0]
    growth.todo[at, 0], growth.todo[at, 1], growth.todo[at, 2] = begin, end, holding
    growth.n[0] = at + 1


@inlined
def _split(
    task: Task, growth: Growth, begin: int, end: int, rows: int, holding: bool, sharpness: int
) -> tuple[int, bool]:
    """Cuts the part begin..end, of two bundles or more, in two: where, and whether both parts are known to hold.

    (begin, False) if there is nothing more to cut.
    """
    bundles, along = task.bundles, growth.along
    lo, hi = growth.box
    alike = True
    for j in range(lo.shape[0]):
        lo[j], hi[j] = bundles.cells[along[j, begin], j], bundles.cells[along[j, end - 1], j]
        alike = alike and lo[j] == hi[j]
    if alike:
        return begin, False
    part = along[:, begin:end]
    cuttable = holding and rows >= 2 * task.rows_min
    if end - begin == 2 and not cuttable:
        # every cut separates the two, and that along the first attribute in which they differ wins
        j = 0
        while lo[j] == hi[j]:
            j += 1
        along[0, begin], along[0, begin + 1] = along[j, begin], along[j, begin + 1]
        return begin, False
    counted = task.rules.distinct.shape[0] > 0
    p = 0 if rows < SMALL * task.rows_min else sharpness
    best_j, best_at, both = best_cut(task, part, lo, hi, p, counted and cuttable, growth.scan)
    separate(part, best_j, best_at, growth.is_lower, growth.aside)
    middle = begin + best_at
    if holding and not counted:
        both = bundles_hold(task, along[0, begin:middle]) and bundles_hold(task, along[0, middle:end])
    return middle, both


@inlined
def _end_with(task: Task, growth: Growth, begin: int, end: int, finest: int) -> None:
    """Makes blocks of a part that is not cut."""
    rows = 0
    for at in range(begin, end):
        bundle = growth.along[0, at]
        size = task.bundles.end[bundle] - task.bundles.begin[bundle]
        if at == begin or rows + size > finest:
            growth.blocks[growth.n[1]] = at
            growth.n[1] += 1
            rows = 0
        rows += size


def grow(task: Task, growth: Growth, sharpness: int) -> Order:
    """Grows the tree of all bundles of the task, part after part from left to right; the order is a view of it."""
    _begin(task, growth)
    m = task.bundles.begin.shape[0]
    _grow(task, growth, sharpness)
    return Order(growth.along[0, :m], growth.tile[:m], growth.blocks[: growth.n[1]])


def _grow(task: Task, growth: Growth, sharpness: int) -> None:
    """Cuts the root and all that comes of it."""
    m, finest = task.bundles.begin.shape[0], task.rows_min // FINE
    n, before = rows_in(task.bundles, growth.along[0, :m]), 0
    while growth.n[0] > 0:
        growth.n[0] -= 1
        begin, end, holding = growth.todo[growth.n[0]]
        middle, both = begin, False
        rows = rows_in(task.bundles, growth.along[0, begin:end])
        outside = before + rows <= task.rows_min or n - before <= task.rows_min  # no group ends inside
        if end - begin > 1 and rows > finest and not outside:
            middle, both = _split(task, growth, begin, end, rows, holding == 1, sharpness)
        if holding == 1 and not both:
            growth.tile[begin] = end
        if middle > begin:
            _cut_next(growth, middle, end, both)
            _cut_next(growth, begin, middle, both)
        else:
            _end_with(task, growth, begin, end, rows if outside else finest)
            before += rows


@compiled
def order_of(task: Task, sharpness: int) -> Order:
    """The bundles in order; all of them together hold the model."""
    m, d = task.bundles.cells.shape
    order = grow(task, growth_for(m, d), sharpness)
    return Order(order.bundles.copy(), order.tile.copy(), order.blocks.copy())
