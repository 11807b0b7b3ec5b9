"""What `ordered` puts in order and never separates: single rows, or the rows of one individual in one cell.

If the table declares individuals, the rows of one individual with the same cells are one *bundle*: they go into one QI
group. Every other row is a bundle of its own. Bundles with the same cells stand side by side. If the model counts
sensitive values, the first column that it counts is spread evenly among them: the i-th of m bundles with one value
stands at (i + 1/2) / m; of those at one place the lower value is first, then the earlier row. So any few neighbours
have about the shares that all of them have.

`ncp_term` answers exactly as `Space.ncp_terms` on the smallest publishable box around a run of cells: the same float64
operations in the same order. The smallest node over a run of leaves is the largest of the nodes over its pairs of
neighbouring leaves. So the maxima over runs of 2^i pairs are kept, and two of them answer for a run of any length, in a
tree of any size and depth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streamer.native import inlined
from streamer.privacy.compiled import Rules, Scratch, add, holds, remove, rules_of, scratch_for
from streamer.privacy.models import Model
from streamer.recoding.algorithms.contract import ROWS_PER_CALL
from streamer.table.arrays import Bools, Floats, Ints
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import INDIVIDUAL, Microdata
from streamer.table.space import Space

EMPTY_LO, EMPTY_HI = np.iinfo(np.int64).max, -1
"""The box of no rows, in every attribute: `widen` starts from it."""


class Shape(NamedTuple):
    """A space of d attributes, for compiled loops; the last four as in `Space`."""

    first_leaf: Ints  # (d,) where a category's leaves begin in node_ncp; -1 for numbers
    node_ncp: Floats  # (levels, all leaves); level i has at leaf a the NCP of the smallest node over leaves a..a + 2^i
    power: Ints  # (most leaves + 1,) the largest i with 2^i <= n
    codes_per_cell: Ints  # (d,)
    overlap: Ints
    end: Floats
    width: Floats


def _pair_ncp(tree: Hierarchy, leaves: Ints) -> Floats:
    """NCP of the smallest node over each of the leaves and the next."""
    node = tree.cover_many(leaves, leaves + 1)
    return (tree.node_hi[node] - tree.node_lo[node] + 1) / tree.n_leaves


def shape_of(space: Space, pair_loss: Callable[[Hierarchy, Ints], Floats] = _pair_ncp) -> Shape:
    """The space with the loss of the smallest node over each leaf and the next; a node's is no less than its parts'."""
    leaves = [0 if axis.hierarchy is None else axis.hierarchy.n_leaves for axis in space.axes]
    power = np.array([max(n, 1).bit_length() - 1 for n in range(max(leaves) + 1)], dtype=np.int64)
    node_ncp = np.zeros((int(power[-1]) + 1, sum(leaves)))
    first_leaf = np.full(space.d, -1, dtype=np.int64)
    for j, tree in space.trees:
        first_leaf[j] = start = sum(leaves[:j])
        here = node_ncp[:, start : start + tree.n_leaves]
        here[0, :-1] = pair_loss(tree, np.arange(tree.n_leaves - 1))
        for i in range(1, len(node_ncp)):
            reach = 1 << (i - 1)
            here[i, :-reach] = np.maximum(here[i - 1, :-reach], here[i - 1, reach:])
    return Shape(first_leaf, node_ncp, power, space.codes_per_cell, space.overlap, space.end, space.width)


@inlined
def ncp_term(shape: Shape, j: int, lo: int, hi: int) -> float:
    """NCP of attribute j over the cells lo..hi, both inclusive."""
    start = shape.first_leaf[j]
    if start < 0:
        first = float(lo * shape.codes_per_cell[j])
        last = min(float((hi + 1) * shape.codes_per_cell[j] - shape.overlap[j]), shape.end[j])
        return float((last - first) / shape.width[j])
    if lo == hi:
        return 0.0
    i = shape.power[hi - lo]
    return float(max(shape.node_ncp[i, start + lo], shape.node_ncp[i, start + hi - (1 << i)]))


@inlined
def widen(shape: Shape, first: Ints, last: Ints, lo: Ints, hi: Ints, term: Floats) -> bool:
    """Makes the box lo..hi contain first..last and keeps its attributes' NCP in `term`, (d,) each; whether it grew."""
    changed = False
    for j in range(lo.shape[0]):
        if first[j] < lo[j] or last[j] > hi[j]:
            lo[j], hi[j] = min(first[j], lo[j]), max(last[j], hi[j])
            term[j] = ncp_term(shape, j, lo[j], hi[j])
            changed = True
    return changed


@inlined
def total(term: Floats) -> float:
    """Sum of the attributes' NCP (d,), in their order."""
    per_row = 0.0
    for j in range(term.shape[0]):
        per_row += term[j]
    return per_row


class Bundles(NamedTuple):
    """m bundles; bundle i is the rows begin[i]..end[i] - 1 of a table sorted by bundles."""

    cells: Ints  # (m, d)
    begin: Ints  # (m,)
    end: Ints


class Task(NamedTuple):
    """What every step needs to know: the space, the bundles and the model."""

    shape: Shape
    bundles: Bundles
    rules: Rules
    scratch: Scratch
    rows_min: int  # no group with fewer rows can hold
    rows_per_call: int  # about how many rows one call of a compiled loop looks at


def bundled(microdata: Microdata, model: Model) -> tuple[Ints, Bundles]:
    """The rows' numbers in the order of the bundles, int64 (n,), and the bundles."""
    n = len(microdata)
    columns = list(microdata.cells.T)
    if microdata.individuals is not None:
        columns.append(microdata.individuals)
    rows = np.lexsort(columns[::-1])
    inside = np.zeros(n - 1, dtype=bool)
    if microdata.individuals is not None:
        inside = _same_as_next([column[rows] for column in columns])
    begin = np.flatnonzero(np.concatenate([[True], ~inside]))
    end = np.append(begin[1:], n)
    counted = [subject for subject in model.subjects if subject != INDIVIDUAL]
    if counted:
        spread = _spread(microdata.cells[rows[begin]], microdata.subject(counted[0])[rows[begin]])
        begin, end = begin[spread], end[spread]
        size = end - begin
        last = np.cumsum(size)
        rows = rows[np.arange(n) + np.repeat(begin - (last - size), size)]
        begin, end = last - size, last
    return rows, Bundles(np.ascontiguousarray(microdata.cells[rows[begin]]), begin, end)


def _same_as_next(columns: list[Ints]) -> Bools:
    """Whether each row equals the next one; (n - 1,)."""
    return np.asarray(np.logical_and.reduce([column[1:] == column[:-1] for column in columns]), dtype=bool)


def _spread(cells: Ints, value: Ints) -> Ints:
    """An order (m,) of bundles, which are sorted by cells: it keeps that and spreads each value among equal cells."""
    m = len(value)
    vector = np.concatenate([[0], np.cumsum(~_same_as_next(list(cells.T)))])
    order = np.lexsort((value, vector))
    runs = np.flatnonzero(np.concatenate([[True], ~_same_as_next([vector[order], value[order]])]))
    size = np.diff(np.append(runs, m))
    at = np.empty(m)
    at[order] = (np.arange(m) - np.repeat(runs, size) + 0.5) / np.repeat(size, size)
    return np.lexsort((value, at, vector))


def task_of(microdata: Microdata, model: Model, rows_per_call: int = ROWS_PER_CALL) -> tuple[Ints, Task]:
    """The rows' numbers in the order of the bundles, int64 (n,), and the task."""
    rows, bundles = bundled(microdata, model)
    rules = rules_of(model, microdata.rows(rows).subjects(model.subjects))
    return rows, Task(shape_of(microdata.space), bundles, rules, scratch_for(rules), model.rows_min, rows_per_call)


@inlined
def add_bundle(task: Task, bundle: int) -> None:
    """Counts the rows of a bundle."""
    for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
        add(task.rules, task.scratch, row)


@inlined
def remove_bundle(task: Task, bundle: int) -> None:
    """Takes back the rows of a bundle."""
    for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
        remove(task.rules, task.scratch, row)


def clear_bundles(task: Task, counted: Ints) -> None:
    """Empties the counts of these bundles, which are all that was counted; cheaper than removing each."""
    rules, scratch = task.rules, task.scratch
    scratch.size[0] = 0
    for i in range(rules.distinct.shape[0]):
        for bundle in counted:
            for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
                scratch.counts[i, rules.subjects[row, i]] = 0
        scratch.at[i, : scratch.top[i] + 1] = 0
        scratch.top[i] = 0
        scratch.n_distinct[i] = 0


def rows_in(bundles: Bundles, chosen: Ints) -> int:
    """How many rows the chosen bundles have."""
    rows = 0
    for bundle in chosen:
        rows += bundles.end[bundle] - bundles.begin[bundle]
    return rows


def bundles_hold(task: Task, chosen: Ints) -> bool:
    """Whether the chosen bundles are together a QI group that holds; the counts are empty before and after."""
    if rows_in(task.bundles, chosen) < task.rules.rows:
        return False
    if task.rules.distinct.shape[0] == 0:
        return True
    for bundle in chosen:
        add_bundle(task, bundle)
    answer = holds(task.rules, task.scratch)
    clear_bundles(task, chosen)
    return answer


def rows_lacking(rules: Rules, size: int, top: Ints, n_distinct: Ints) -> int:
    """How many more rows a group needs at least to hold: the most that one of its constraints asks for.

    size, top, n_distinct: as in `Scratch`. 0: it holds.
    """
    most = rules.rows - size
    for i in range(rules.distinct.shape[0]):
        most = max(most, rules.distinct[i] - n_distinct[i])
        most = max(most, -(-top[i] * rules.denominator[i] // rules.numerator[i]) - size)
    return int(max(most, 0))
