"""The best cut of one node of the tree by which `ordered` orders rows (`algorithms.cut_tree`).

Along every attribute a node's bundles stand in the order of that attribute's cells. The cut of least *weight* wins:
rows times the sum over attributes of NCP^p, of both parts; of equals the earlier attribute, then the lower position.
Where no cut weighs less than the node, the widest attribute is cut in the middle, between two of its cells if it can
be: else half of a category would go one way and half the other.
In a node of EVEN_FROM bundles and more, each part keeps at least one of every EVEN_PART bundles: so the tree is at
most about EVEN_PART ln n deep, and building it takes in the order of n log n steps.

The exponent is p = 2^sharpness. With p = 1 the weight is the loss itself: best where attributes are numbers, whose
loss shrinks with every further cut. A large p cuts down the widest attribute first: best where attributes are
categories, whose loss stays at a whole node's until the last stranger has left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.jit import compiled, inlined
from streamer.privacy.compiled import holds
from streamer.recoding.algorithms.box_loss import ncp_term
from streamer.recoding.algorithms.bundles import Bundles, Task, count_in, forget, hold, weight
from streamer.table.arrays import Bools, Floats, Ints

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
