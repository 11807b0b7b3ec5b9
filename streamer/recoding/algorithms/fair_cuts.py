"""Groups for laws about distributions: a table cut so that both parts keep the shares of all sensitive values.

Who is alike in a quasi-identifier often has the same sensitive values, so a cut between low and high cells soon leaves
a part whose shares are too far from the table's, or too uneven, however many rows it has. A *fair* cut takes the lower
half of the bundles of each *stratum*: both parts have the shares that the whole had, but for one bundle of each. Its
boxes are larger, since the halves of different strata meet at different cells. A stratum is a value. If values count by
their order, neighbours of few bundles are one stratum: two of the same half differ by little then.

So every node, from the whole table down, is cut fairly, or after some NODE_PARTS of its bundles, along any attribute:
in the way of least loss that leaves two parts that hold. If two cells meet near by, it is cut between them. A node that
no such way improves is a group. The caller may ask more of the parts of cuts that are not fair: what these leave of the
law is what fair cuts live on.

Sources: taking a share of each stratum of sensitive values is how Soria-Comas et al. 2015 form clusters that are
t-close; cutting from the top is this project's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.kernels.boxes import total, widen
from streamer.native import compiled, inlined
from streamer.privacy.compiled import Rules
from streamer.progress import OnProgress, unheard
from streamer.recoding.algorithms.bundles import EMPTY_HI, EMPTY_LO, Task, bundles_hold, rows_in
from streamer.recoding.algorithms.cut_tree import CELLS_PER_BUNDLE, put_along, separate
from streamer.recoding.algorithms.group_index import GAIN_MIN, loss_of
from streamer.table.arrays import Bools, Floats, Ints

NODE_PARTS = 10
"""Between low and high cells a node is cut after 1, 2 and so on of so many parts of its bundles."""

ROWS_PER_STEP = 8
"""To cut a node takes about as long, by bundle, as this number of rows takes in other loops."""

FAIRLY = 0
"""The way to cut that takes half of each stratum; every other one is a number of NODE_PARTS."""


class _NodeCuts(NamedTuple):
    """Memory for the cuts of one node after the other."""

    along: Ints  # (d + 1, m) all bundles along every attribute, and by their values, node by node
    loss: Floats  # (d, NODE_PARTS) of a node's cuts, by attribute and way
    at: Ints  # (d, NODE_PARTS) how many bundles are lower then; not of fair cuts
    cut: Ints  # (m,) a node's bundles: the lower part, then the upper one
    is_lower: Bools  # (m,) scratch, as all that follow
    aside: Ints  # (m,)
    box: Ints  # (2, d)
    term: Floats  # (d,)
    stratum: Ints  # (m,) of each bundle of a node
    rows: Ints  # (m,) bundles of each stratum
    taken: Ints  # (m,) how many of them are in a part so far


class _Cutting(NamedTuple):
    """A table of m bundles while it is cut."""

    desk: _NodeCuts
    found: Ints  # (m,) the groups so far
    todo: Ints  # (m + 1, 2) the nodes still to be cut, the next one last: begin and end along every attribute
    n: Ints  # (2,) how many of these, and how many groups
    subject: int  # whose values fair cuts share out
    strata: int  # of a node, at most, if these count by their order; 0: each value is one


def fair_groups(task: Task, strict: Rules, law: int, strata: int, on_progress: OnProgress = unheard) -> Ints:
    """Each bundle's group, int64 (m,), from 0 without gaps; all bundles together hold the model, and so do groups.

    strict: what the parts of cuts that are not fair have to hold. law: the number of the one that fair cuts keep.
    strata: of a node, at most, if its values count by their order; 0: each value is one.
    """
    cutting, m, done = _begun(task, int(task.rules.laws.subject[law]), strata), len(task.bundles.begin), 0
    while cutting.n[0] > 0:
        done += _cut_some(task, task._replace(rules=strict), cutting, max(1, task.rows_per_call // ROWS_PER_STEP))
        on_progress(done / m)
    return cutting.found


@compiled
def _begun(task: Task, subject: int, strata: int) -> _Cutting:
    m, d = task.bundles.cells.shape
    desk = _NodeCuts(np.empty((d + 1, m), np.int64), np.empty((d, NODE_PARTS)), np.zeros((d, NODE_PARTS), np.int64),
        np.empty(m, np.int64), np.zeros(m, np.bool_), np.empty(m, np.int64), np.empty((2, d), np.int64), np.zeros(d),
        np.empty(m, np.int64), np.zeros(m, np.int64), np.zeros(m, np.int64))  # fmt: skip
    counts, values = np.empty(CELLS_PER_BUNDLE * m + 1, np.int64), np.empty((m, 1), np.int64)
    for bundle in range(m):
        values[bundle, 0] = task.rules.subjects[task.bundles.begin[bundle], subject]
    for j in range(d):
        put_along(task.bundles.cells, j, desk.along[j], counts)
    put_along(values, 0, desk.along[d], counts)
    cutting = _Cutting(
        desk, np.empty(m, np.int64), np.empty((m + 1, 2), np.int64), np.zeros(2, np.int64), subject, strata
    )
    cutting.todo[0, 0], cutting.todo[0, 1], cutting.n[0] = 0, m, 1
    return cutting


@compiled
def _cut_some(task: Task, stricter: Task, cutting: _Cutting, steps: int) -> int:
    """Cuts nodes until they had so many bundles; how many bundles have got their group."""
    desk, todo, n, done = cutting.desk, cutting.todo, cutting.n, 0
    while n[0] > 0 and steps > 0:
        n[0] -= 1
        begin, end = todo[n[0]]
        steps -= end - begin
        _stratify(task, cutting, desk.along[-1, begin:end])
        lower = _cut(task, stricter, desk, desk.along[:, begin:end])
        if lower == 0:
            for at in range(begin, end):
                cutting.found[desk.along[0, at]] = n[1]
            n[1] += 1
            done += end - begin
            continue
        todo[n[0], 0], todo[n[0], 1] = begin + lower, end
        todo[n[0] + 1, 0], todo[n[0] + 1, 1] = begin, begin + lower
        n[0] += 2
    return int(done)


def _stratify(task: Task, cutting: _Cutting, by_value: Ints) -> None:
    """Numbers the strata of a node: from value to value, once the last stratum has bundles enough; by_value (m,)."""
    rows, number, code, m = cutting.desk.rows, -1, -1, by_value.shape[0]
    fewest = 1 if cutting.strata == 0 else max(2, m // cutting.strata)
    for bundle in by_value:
        before, code = code, task.rules.subjects[task.bundles.begin[bundle], cutting.subject]
        if number < 0 or (code != before and rows[number] >= fewest):
            number += 1
            rows[number] = 0
        cutting.desk.stratum[bundle] = number
        rows[number] += 1


def _cut(task: Task, stricter: Task, desk: _NodeCuts, along: Ints) -> int:
    """Cuts a node, along (d + 1, m), in the best way whose parts hold; how many bundles are lower, 0: it is a group."""
    d, m = along.shape[0] - 1, along.shape[1]
    if rows_in(task.bundles, along[0]) < 2 * task.rows_min:
        return 0
    limit = loss_of(task, along[0]) - GAIN_MIN
    for j in range(d):
        _weigh(task, desk, along[j], j)
    while True:
        best_j, best_way, least = 0, 0, limit
        for j in range(d):
            for way in range(NODE_PARTS):
                if desk.loss[j, way] < least:
                    best_j, best_way, least = j, way, desk.loss[j, way]
        if least == limit:
            return 0
        lower = _take_apart(desk, along[best_j], desk.at[best_j, best_way] if best_way != FAIRLY else -1)
        if _both_hold(task if best_way == FAIRLY else stricter, desk.cut[:lower], desk.cut[lower:m]):
            break
        desk.loss[best_j, best_way] = np.inf
    along[best_j] = desk.cut[:m]
    separate(along, best_j, lower, desk.is_lower, desk.aside)
    return lower


@inlined
def _both_hold(task: Task, lower: Ints, upper: Ints) -> bool:
    return bundles_hold(task, lower) and bundles_hold(task, upper)


def _weigh(task: Task, desk: _NodeCuts, along: Ints, j: int) -> None:
    """Fills in where attribute j may be cut, and what the two parts lose; infinite if one of them has no bundle."""
    m, cells, loss = along.shape[0], task.bundles.cells, desk.loss[j]
    lower = _take_apart(desk, along, -1)
    loss[:] = np.inf
    if 0 < lower < m:
        loss[FAIRLY] = loss_of(task, desk.cut[:lower]) + loss_of(task, desk.cut[lower:m])
    for way in range(1, NODE_PARTS):
        desk.at[j, way] = _border(cells, along, j, m * way // NODE_PARTS, m // (2 * NODE_PARTS))
    for backwards in range(2):
        lo, hi, rows, way = desk.box[0], desk.box[1], 0, 1
        lo[:], hi[:], desk.term[:] = EMPTY_LO, EMPTY_HI, 0.0
        for i in range(m):
            while way < NODE_PARTS and i == (m - desk.at[j, NODE_PARTS - way] if backwards else desk.at[j, way]):
                if i > 0:
                    at, lost = NODE_PARTS - way if backwards else way, rows * total(desk.term)
                    loss[at] = loss[at] + lost if backwards else lost
                way += 1
            bundle = along[m - 1 - i] if backwards else along[i]
            rows += task.bundles.end[bundle] - task.bundles.begin[bundle]
            widen(task.shape, cells[bundle], cells[bundle], lo, hi, desk.term)


def _border(cells: Ints, along: Ints, j: int, at: int, far: int) -> int:
    """The position between two cells of attribute j that is nearest to `at`, of two the lower; `at` if none is near."""
    for away in range(min(far, at - 1, along.shape[0] - at - 1) + 1):
        if cells[along[at - away - 1], j] != cells[along[at - away], j]:
            return at - away
        if cells[along[at + away - 1], j] != cells[along[at + away], j]:
            return at + away
    return at


def _take_apart(desk: _NodeCuts, along: Ints, at: int) -> int:
    """Fills in desk.cut: the lower part of a node along one attribute, then the upper one; how many are lower.

    at: this number; -1: it is cut fairly.
    """
    if at >= 0:
        desk.cut[: along.shape[0]] = along
        return at
    lower, upper, turn = 0, 0, 0
    for bundle in along:
        desk.taken[desk.stratum[bundle]] = 0
    for bundle in along:
        stratum = desk.stratum[bundle]
        desk.taken[stratum] += 1
        twice = 2 * desk.taken[stratum] - desk.rows[stratum]
        if twice == 1:  # the middle one of an odd number: by turns
            turn = 1 - turn
        if twice <= 0 or (twice == 1 and turn == 1):
            desk.cut[lower] = bundle
            lower += 1
        else:
            desk.aside[upper] = bundle
            upper += 1
    for at in range(upper):
        desk.cut[lower + at] = desk.aside[at]
    return lower
