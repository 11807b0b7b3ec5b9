"""The order in which `ordered` looks for QI groups: the leaves of a tree of best cuts, from left to right.

A node is a set of bundles (`algorithms.bundles`), the whole table first. Along every attribute its bundles stand in
the order of that attribute's cells, equal ones as they came. A cut may fall between any two of
them, between equal values too; the lower part stands to the left. A node whose bundles all have the same cells is a
leaf. Where the model counts more than rows, a node that holds it is cut so that both parts hold it, if there is such a
cut. In a node of fewer than SMALL times the fewest rows of a group p = 1: it becomes a few groups at most, so its own
loss is what counts.

*Tiles* are the nodes, from the root down, that hold the model and have not two children that both hold. They stand
side by side and make up the whole order: the root holds, and a node that is no tile hands over to its two children.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.numba_support.jit import compiled, inlined
from streamer.privacy.compiled import holds
from streamer.recoding.algorithms.bundles import Bundles, Task, count_in, forget, hold, ncp_term, weight
from streamer.table.arrays import Bools, Floats, Ints

# The best cut of one node of the tree by which `ordered` orders rows.
#
# Along every attribute a node's bundles stand in the order of that attribute's cells. The cut of least *weight* wins:
# rows times the sum over attributes of NCP^p, of both parts; of equals the earlier attribute, then the lower position.
# Where no cut weighs less than the node, the widest attribute is cut in the middle, between two of its cells if it can
# be: else half of a category would go one way and half the other. In a node of EVEN_FROM bundles and more, each part
# keeps at least one of every EVEN_PART bundles: so the tree is at most about EVEN_PART ln n deep, and building it takes
# in the order of n log n steps.
#
# The exponent is p = 2^sharpness. With p = 1 the weight is the loss itself: best where attributes are numbers, whose
# loss shrinks with every further cut. A large p cuts down the widest attribute first: best where attributes are
# categories, whose loss stays at a whole node's until the last stranger has left.

EVEN_FROM = 256
EVEN_PART = 32


class Scan(NamedTuple):
    """Memory for the cuts of one node after the other. weights, holding (2, m): of the parts, lower ones first;
    length (2,): how many of the weights count; lo, hi, term (d,): the box of a part as it grows. wide (d,): the
    attributes in which the node has more than one cell, so many as n_wide (1,) says; the others never change.
    """

    weights: Floats
    holding: Bools
    length: Ints
    lo: Ints
    hi: Ints
    term: Floats
    wide: Ints
    n_wide: Ints


@compiled
def scan_for(m: int, d: int) -> Scan:
    """Memory for nodes of up to m bundles."""
    box = np.empty((2, d), np.int64)
    return Scan(np.empty((2, m)), np.empty((2, m), np.bool_), np.empty(2, np.int64), box[0], box[1], np.zeros(d),
        np.empty(d, np.int64), np.zeros(1, np.int64))  # fmt: skip


@inlined
def sharpened(term: float, sharpness: int | np.int64) -> float:
    """term ^ (2 ^ sharpness)."""
    for _ in range(sharpness):
        term *= term
    return term


@inlined
def _scan(task: Task, along: Ints, lo: Ints, hi: Ints, sharpness: int | np.int64, backwards: int, here: Scan) -> int:
    """here.weights[backwards, i]: the weight of the first i + 1 bundles of `along` (the last ones, backwards), for all
    i below the answer.

    From the answer on they have the box lo..hi of all of them.
    """
    cells, first, last = task.bundles.cells, task.bundles.begin, task.bundles.end
    m, d = along.shape[0], lo.shape[0]
    rows, each, out = 0, 0.0, here.weights[backwards]
    for i in range(m):
        bundle = along[m - 1 - i] if backwards else along[i]
        changed = False
        for at in range(here.n_wide[0]):
            j = here.wide[at]
            cell = cells[bundle, j]
            if i == 0:
                here.lo[j] = here.hi[j] = cell
            elif cell < here.lo[j]:
                here.lo[j] = cell
            elif cell > here.hi[j]:
                here.hi[j] = cell
            else:
                continue
            changed = True
            here.term[j] = sharpened(ncp_term(task.shape, j, here.lo[j], here.hi[j]), sharpness)
        if changed:
            each, whole = 0.0, True
            for j in range(d):
                each += here.term[j]
            for at in range(here.n_wide[0]):
                j = here.wide[at]
                whole = whole and here.lo[j] == lo[j] and here.hi[j] == hi[j]
            if whole:
                return i
        rows += last[bundle] - first[bundle]
        out[i] = rows * each
    return int(m)


@compiled
def _hold_so_far(task: Task, along: Ints, rows: int, backwards: bool, out: Bools) -> bool:
    """out[i]: whether the first i + 1 bundles of `along` (the last ones, backwards) hold the model; whether any do.

    rows: of all bundles. If the other part has too few rows to hold, False stands without a test.
    """
    m, some, i = along.shape[0], False, 0
    out[:m] = False
    while i < m:
        bundle = along[m - 1 - i] if backwards else along[i]
        rows -= task.bundles.end[bundle] - task.bundles.begin[bundle]
        if rows < task.rows_min:
            break
        count_in(task, bundle)
        out[i] = holds(task.rules, task.scratch)
        some = some or out[i]
        i += 1
    forget(task, along[m - i :] if backwards else along[:i])
    return some


@compiled
def _middle(bundles: Bundles, along: Ints, j: int, edge: int) -> int:
    """The position nearest the middle between two cells of attribute j, of equals the lower; else the middle."""
    m = along.shape[0]
    for away in range(m // 2 - edge + 1):
        for at in (m // 2 - away, m // 2 + away):
            if at <= m - edge and bundles.cells[along[at - 1], j] != bundles.cells[along[at], j]:
                return int(at)
    return int(m // 2)


@compiled
def best_cut(
    task: Task,
    along: Ints,
    lo: Ints,
    hi: Ints,
    sharpness: int | np.int64,
    strict: bool,
    here: Scan,
) -> tuple[int, int, bool]:
    """Attribute and position of a node's best cut, and whether its parts are known to hold the model both.

    along (d, m): the node's bundles along every attribute, lo..hi its box. strict: a cut whose parts both hold the
    model goes before all others; otherwise this is not tested.
    """
    if strict:
        # most often the cut of least weight is one of these: two questions instead of two at every position
        # a bare False would be a type of its own, and compiled again
        best_j, best_at, _ = _least_cut(task, along, lo, hi, sharpness, np.bool_(False), here)
        if hold(task, along[best_j, :best_at]) and hold(task, along[best_j, best_at:]):
            return best_j, best_at, True
    return _least_cut(task, along, lo, hi, sharpness, strict, here)


@compiled
def _least_cut(
    task: Task,
    along: Ints,
    lo: Ints,
    hi: Ints,
    sharpness: int | np.int64,
    strict: bool | np.bool_,
    here: Scan,
) -> tuple[int, int, bool]:
    """As `best_cut`, with a look at every position."""
    shape, first, last = task.shape, task.bundles.begin, task.bundles.end
    weights, holding = here.weights, here.holding
    d, m = along.shape
    rows = weight(task.bundles, along[0])
    each, widest, best_j, n_wide = 0.0, -1.0, 0, 0
    for j in range(d):
        term = ncp_term(shape, j, lo[j], hi[j])
        here.term[j] = sharpened(term, sharpness)
        each += here.term[j]
        if lo[j] < hi[j]:
            here.wide[n_wide] = j
            n_wide += 1
            if term > widest:
                widest, best_j = term, j
    here.n_wide[0] = n_wide
    edge = m // EVEN_PART if m >= EVEN_FROM else 1
    best, best_at, best_holds = rows * each, _middle(task.bundles, along[best_j], best_j, edge), False
    for j in here.wide[:n_wide]:
        for backwards in range(2):
            here.length[backwards] = _scan(task, along[j], lo, hi, sharpness, backwards, here)
        lower_whole, upper_whole = here.length
        some = False
        if strict:
            some = _hold_so_far(task, along[j], rows, False, holding[0])
            some = some and _hold_so_far(task, along[j], rows, True, holding[1])
        below = 0
        for at in range(1, m - edge + 1):
            bundle = along[j, at - 1]
            below += last[bundle] - first[bundle]
            if at < edge:
                continue
            both = some and holding[0, at - 1] and holding[1, m - at - 1]
            total = weights[0, at - 1] if at <= lower_whole else below * each
            total += weights[1, m - at - 1] if m - at <= upper_whole else (rows - below) * each
            if (both and not best_holds) or (both == best_holds and total < best):
                best, best_j, best_at, best_holds = total, j, at, both
    return int(best_j), int(best_at), bool(best_holds)


SMALL = 4


@compiled
def _part(along: Ints, best_j: int, best_at: int, is_lower: Bools, aside: Ints) -> None:
    """Moves the lower part of a node to the left along every attribute; along (d, m). is_lower, aside: scratch."""
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
        along[j, left:] = aside[:right]


class Growth(NamedTuple):
    """A tree of m bundles while it grows. along (d, m): the bundles along every attribute; tile (m,): as `order_of`
    answers; todo (m + 1, 3): the parts that are still to be cut, next one last: begin, end, whether they hold; n_todo
    (1,): how many. The rest is scratch.
    """

    along: Ints
    tile: Ints
    todo: Ints
    n_todo: Ints
    scan: Scan
    is_lower: Bools
    aside: Ints
    box: Ints


@compiled
def _growth_of(task: Task) -> Growth:
    """A tree that is its root. All bundles together hold the model."""
    m, d = task.bundles.cells.shape
    along = np.empty((d, m), np.int64)
    for j in range(d):
        along[j] = np.argsort(task.bundles.cells[:, j], kind="mergesort")
    todo = np.empty((m + 1, 3), np.int64)
    todo[0] = np.array([0, m, 1])
    return Growth(along, np.zeros(m, np.int64), todo, np.ones(1, np.int64), scan_for(m, d), np.zeros(m, np.bool_),
        np.empty(m, np.int64), np.empty((2, d), np.int64))  # fmt: skip


@compiled
def _wait(growth: Growth, begin: int, end: int, holding: bool) -> None:
    """Puts a part before all others that are still to be cut."""
    at = growth.n_todo[0]
    growth.todo[at, 0], growth.todo[at, 1], growth.todo[at, 2] = begin, end, holding
    growth.n_todo[0] = at + 1


@compiled
def _grow(task: Task, growth: Growth, sharpness: int | np.int64) -> None:
    """Cuts part after part, from left to right."""
    bundles, along, tile = task.bundles, growth.along, growth.tile
    d = bundles.cells.shape[1]
    counted = task.rules.distinct.shape[0] > 0
    rows_least = 2 * task.rows_min
    lo, hi = growth.box
    while growth.n_todo[0] > 0:
        growth.n_todo[0] -= 1
        begin, end, holding = growth.todo[growth.n_todo[0]]
        holds_so_far = holding == 1
        if end - begin == 1:
            if holds_so_far:
                tile[begin] = end
            continue
        for j in range(d):
            lo[j], hi[j] = bundles.cells[along[j, begin], j], bundles.cells[along[j, end - 1], j]
        if (lo == hi).all():
            if holds_so_far:
                tile[begin] = end
            continue
        here = along[:, begin:end]
        rows = weight(bundles, here[0])
        if end - begin == 2 and not (holds_so_far and rows >= rows_least):
            # every cut leaves the one here and the other there, and that of the first attribute wins
            along[0, begin:end] = along[np.argmax(lo < hi), begin:end]
            if holds_so_far:
                tile[begin] = end
            continue
        p = 0 if rows < SMALL * task.rows_min else sharpness
        strict = counted and holds_so_far and rows >= rows_least
        best_j, best_at, both = best_cut(task, here, lo, hi, p, strict, growth.scan)
        _part(here, best_j, best_at, growth.is_lower, growth.aside)
        middle = begin + best_at
        if holds_so_far and not counted:
            both = hold(task, along[0, begin:middle]) and hold(task, along[0, middle:end])
        if holds_so_far and not both:
            tile[begin] = end
        _wait(growth, middle, end, both)
        _wait(growth, begin, middle, both)


@compiled
def order_of(task: Task, sharpness: int | np.int64) -> tuple[Ints, Ints]:
    """The bundles in order, int64 (m,), and by position where the tile that begins there ends, else 0; int64 (m,).

    All bundles together hold the model.
    """
    growth = _growth_of(task)
    _grow(task, growth, sharpness)
    return growth.along[0].copy(), growth.tile
