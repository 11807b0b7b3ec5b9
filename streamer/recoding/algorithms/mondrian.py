"""Cutting the box of all rows in two, again and again: Mondrian, and the least entropy.

The attribute of widest NCP is cut first (for categories: the part of all leaves that its node has); where a half would
not hold the model, the next widest is cut; of equal widths the earlier attribute. Cuts are *strict*: rows of one cell
stay on one side. The median row's cell goes to the lower half where both halves then hold the model, else to the upper
half. This is the baseline (LeFevre et al. 2006) with which the other algorithms and the incremental table are compared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.numba_support.jit import compiled
from streamer.privacy.compiled import Rules, Scratch, add, clear, holds, rules_of, scratch_for
from streamer.privacy.models import Model
from streamer.recoding.algorithms.bundles import Shape, ncp_term, shape_of
from streamer.recoding.algorithms.contract import Algorithm, Options, Recoding, local_recoding, no_objections
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata
from streamer.table.space import Space

# A k-d tree over a table's rows, for compiled loops: the parts of the table, their distinct cells, and cuts of a part.
#
# A `Layout` keeps the rows in the order of the tree's leaves, attribute by attribute. A part of the table is the
# positions begin..end of every column; a cut sorts these positions alone, lower half first, and within a half the rows
# keep their order. A cut (j, at) sends the rows whose cell of attribute j is at most `at` to the lower half, so rows of
# one cell stay on one side (*strict* cuts). It is allowed where both halves hold the model: numbers of rows are
# compared first, and subjects are counted only where the numbers allow the cut.

Cells = npt.NDArray[np.signedinteger[Any]]

SPARSE = 4
"""Cells per row of a part up to which its values are found by counting every cell between them, else by sorting."""


class Layout(NamedTuple):
    """columns: cells (d, n); rows: int64 (n,), whose they are; scratch_cells, scratch_rows: (n,), for one cut."""

    columns: Cells
    rows: Ints
    scratch_cells: Cells
    scratch_rows: Ints


class Leaves(NamedTuple):
    """begins (n,): where the leaves begin; waiting (n,): where the upper halves end that are still to do; n (2,): how
    many of both.
    """

    begins: Ints
    waiting: Ints
    n: Ints


class Demand(NamedTuple):
    """A model for the halves of a cut; rows_min: no half with fewer rows can hold."""

    rows_min: int
    rules: Rules
    scratch: Scratch


class Values(NamedTuple):
    """Scratch for the distinct cells of a part along one attribute, ascending, and how many rows have each; (n,)."""

    cells: Ints
    counts: Ints


class Tree(NamedTuple):
    """A table's rows while they are cut."""

    layout: Layout
    leaves: Leaves
    demand: Demand
    values: Values


def tree_of(cells: Ints, model: Model, subjects: Ints) -> Tree:
    """The rows cells (n, d), uncut; subjects: int64 (n, s), columns as in `model.subjects`."""
    n, rules = len(cells), rules_of(model, subjects)
    leaves = Leaves(np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.zeros(2, dtype=np.int64))
    values = Values(np.empty(n, dtype=np.int64), np.empty(max(SPARSE * n, 1), dtype=np.int64))
    return Tree(_layout_of(cells), leaves, Demand(model.rows_min, rules, scratch_for(rules)), values)


def _layout_of(cells: Ints) -> Layout:
    """In four bytes a cell if they fit."""
    n = len(cells)
    short = cells.max(initial=0) < np.iinfo(np.int32).max
    columns: Cells = np.ascontiguousarray(cells.T, dtype=np.int32 if short else np.int64)
    rows = np.arange(n, dtype=np.int64)
    return Layout(columns, rows, np.empty_like(columns[0]), np.empty_like(rows))


def leaf_numbers(tree: Tree) -> Ints:
    """The number of every row's leaf, counted from left to right; int64 (n,)."""
    n_leaves, n = tree.leaves.n[0], len(tree.layout.rows)
    number = np.empty(n, dtype=np.int64)
    number[tree.layout.rows] = np.repeat(np.arange(n_leaves), np.diff(tree.leaves.begins[:n_leaves], append=n))
    return number


@compiled
def after(leaves: Leaves, begin: int, middle: int, end: int) -> tuple[int, int]:
    """The part to do next, now that the positions begin..end (exclusive) were cut at middle: the lower half.

    middle = begin: they cannot be cut. They are a leaf, and the half beside it comes next; after the last leaf, a part
    without rows.
    """
    if middle > begin:
        leaves.waiting[leaves.n[1]] = end
        leaves.n[1] += 1
        return begin, middle
    leaves.begins[leaves.n[0]] = begin
    leaves.n[0] += 1
    if leaves.n[1] == 0:
        return end, end
    leaves.n[1] -= 1
    return end, leaves.waiting[leaves.n[1]]


@compiled
def ends(along: Cells) -> tuple[int, int]:
    """Lowest and highest cell along an attribute."""
    lo = hi = along[0]
    for cell in along:
        lo = min(lo, cell)
        hi = max(hi, cell)
    return lo, hi


@compiled
def distinct(along: Cells, values: Values) -> int:
    """Fills in the distinct cells of `along` and their counts; returns how many there are."""
    lo, hi = ends(along)
    if hi - lo < SPARSE * len(along):
        return _counted(along, lo, hi, values)
    return _sorted(along, values)


@compiled
def _counted(along: Cells, lo: int, hi: int, values: Values) -> int:
    values.counts[: hi - lo + 1] = 0
    for cell in along:
        values.counts[cell - lo] += 1
    n_values = 0
    for offset in range(hi - lo + 1):
        count = values.counts[offset]
        if count > 0:
            values.cells[n_values] = lo + offset
            values.counts[n_values] = count
            n_values += 1
    return n_values


@compiled
def _sorted(along: Cells, values: Values) -> int:
    n_values = 0
    for cell in np.sort(along):
        if n_values == 0 or values.cells[n_values - 1] != cell:
            values.cells[n_values] = cell
            values.counts[n_values] = 0
            n_values += 1
        values.counts[n_values - 1] += 1
    return n_values


@compiled
def allowed(demand: Demand, rows: Ints, along: Cells, at: int, n_below: int) -> bool:
    """Whether both halves of the rows hold when they are cut at `at`, which n_below of them do not exceed."""
    if n_below < demand.rows_min or len(rows) - n_below < demand.rows_min:
        return False
    if demand.rules.distinct.shape[0] == 0:
        return True
    return _half_holds(demand, rows, along, at, True) and _half_holds(demand, rows, along, at, False)


@compiled
def _half_holds(demand: Demand, rows: Ints, along: Cells, at: int, lower: bool) -> bool:
    for i in range(len(rows)):
        if (along[i] <= at) == lower:
            add(demand.rules, demand.scratch, rows[i])
    answer = holds(demand.rules, demand.scratch)
    clear(demand.rules, demand.scratch, rows)
    return answer


@compiled
def cut(layout: Layout, begin: int, end: int, j: int, at: int) -> int:
    """Cuts the positions begin..end (exclusive) along attribute j; returns where the upper half begins."""
    along = layout.columns[j, begin:end].copy()
    middle = begin + _sift(layout.rows[begin:end], layout.scratch_rows, along, at)
    for column in range(layout.columns.shape[0]):
        _sift(layout.columns[column, begin:end], layout.scratch_cells, along, at)
    return middle


@compiled
def _sift(what: Cells, scratch: Cells, along: Cells, at: int) -> int:
    """Moves to the front what belongs to cells up to `at`; without branches, as they would be guessed wrong half the
    time.
    """
    n_below, n_above = 0, 0
    for i in range(len(what)):
        is_below = along[i] <= at
        scratch[n_above] = what[i]
        what[n_below] = what[i]
        n_below += is_below
        n_above += not is_below
    what[n_below:] = scratch[:n_above]
    return n_below


DONE_CUTTING = -1.0
"""Stands for the width of an attribute that cannot be cut, or was tried."""


def median_tree(space: Space, cells: Ints, model: Model, subjects: Ints) -> Tree:
    """The rows cells (n, d), n >= 1, cut; subjects: int64 (n, s), columns as in `model.subjects`.

    One leaf is the whole table if no cut is allowed.
    """
    tree = tree_of(cells, model, subjects)
    _cut_all(shape_of(space), tree)
    return tree


@compiled
def _cut_all(shape: Shape, tree: Tree) -> None:
    begin, end = 0, len(tree.layout.rows)
    while begin < end:
        begin, end = after(tree.leaves, begin, _cut_once(shape, tree, begin, end), end)


@compiled
def _cut_once(shape: Shape, tree: Tree, begin: int, end: int) -> int:
    """Cuts the positions begin..end in two; returns where the upper half begins, `begin` if no cut is allowed."""
    layout, _, demand, values = tree
    if end - begin < 2 * demand.rows_min:
        return begin
    d = layout.columns.shape[0]
    width = np.full(d, DONE_CUTTING)
    for j in range(d):
        lo, hi = ends(layout.columns[j, begin:end])
        if lo < hi:
            width[j] = ncp_term(shape, j, lo, hi)
    rows = layout.rows[begin:end]
    for _ in range(d):
        j = int(np.argmax(width))
        if width[j] == DONE_CUTTING:
            break
        width[j] = DONE_CUTTING
        along = layout.columns[j, begin:end]
        n_below, i = 0, 0
        distinct(along, values)
        while n_below + values.counts[i] <= (len(rows) - 1) // 2:
            n_below += values.counts[i]
            i += 1
        median = values.cells[i]
        if allowed(demand, rows, along, median, n_below + values.counts[i]):
            return cut(layout, begin, end, j, median)
        if allowed(demand, rows, along, median - 1, n_below):
            return cut(layout, begin, end, j, median - 1)
    return begin


def run(microdata: Microdata, model: Model, options: Options) -> Recoding:
    """Median Mondrian under any model."""
    tree = median_tree(microdata.space, microdata.cells, model, microdata.subjects(model.subjects))
    return local_recoding(microdata, leaf_numbers(tree))


MONDRIAN = Algorithm(
    "mondrian",
    "cuts at medians of the widest attribute",
    "LeFevre et al. 2006",
    run,
    no_objections,
)


# EMP: the table cut in two where the halves' values stay most diverse, as long as both halves hold the model.
#
# The attribute whose cells have the highest Shannon entropy among the part's rows is cut first; of equal entropies the
# earlier one. A part of fewer than 2k rows (any model: twice the fewest rows that can hold it) is not cut. Rows up to
# the split value go to the lower half. The split value starts at the median of the m distinct cells, in ascending order
# the one of index floor(m / 2) (of two cells the lower one, or the upper half would be empty). From there it walks
# down, then from there again up, as long as the sum of the two halves' entropies along this attribute does not fall.
#
# Source: Yan and Liu 2008, "Multidimensional K-anonymity Partition Method Using Entropy", section 2.2. The paper does
# not say what a half below k means. Here: of the split values walked over, the one of largest sum whose halves both
# hold is taken; of equal sums the start, then the first met on the way down, then up. Where none is allowed the
# attribute of next highest entropy is cut; if none can be, the part is a QI group. Entropies come from c * log2(c)
# of the counts c in whole multiples of 2 ** -20, so that sums are exact, and neither the order of adding nor rounding
# decides a tie.

ONE = 1 << 20
"""How many of the whole numbers that stand for c * log2(c) make 1."""

DONE_BY_ENTROPY = np.iinfo(np.int64).max
"""Stands for the weight of an attribute that cannot be cut, or was tried."""


def weights_up_to(n: int) -> Ints:
    """c * log2(c) in multiples of 2 ** -20 for the counts c = 0..n; int64 (n + 1,).

    >>> (weights_up_to(4) / ONE).tolist()[2:]
    [2.0, 4.754887580871582, 8.0]
    """
    count = np.arange(n + 1, dtype=np.float64)
    return np.rint(count * np.log2(np.maximum(count, 1)) * ONE).astype(np.int64)


@compiled
def both_entropies(weights: Ints, n: int, weight: int, n_below: int, weight_below: int) -> float:
    """Sum of the entropies of two halves, in multiples of 2 ** -20; a half's weight is the sum of its counts' weights.

    H = log2(n) - (1 / n) * sum of c * log2(c) over the counts c of n rows (Yan and Liu 2008, definition 6).
    """
    n_above, weight_above = n - n_below, weight - weight_below
    return float((weights[n_below] - weight_below) / n_below + (weights[n_above] - weight_above) / n_above)


@compiled
def _cut_all_by_entropy(weights: Ints, tree: Tree) -> None:
    begin, end = 0, len(tree.layout.rows)
    while begin < end:
        begin, end = after(tree.leaves, begin, _cut_once_by_entropy(weights, tree, begin, end), end)


@compiled
def _cut_once_by_entropy(weights: Ints, tree: Tree, begin: int, end: int) -> int:
    """Cuts the positions begin..end in two; returns where the upper half begins, `begin` if no cut is allowed."""
    layout, _, demand, values = tree
    if end - begin < 2 * demand.rows_min:
        return begin
    d = layout.columns.shape[0]
    weight = np.full(d, DONE_BY_ENTROPY)
    for j in range(d):
        n_values = distinct(layout.columns[j, begin:end], values)
        if n_values > 1:
            weight[j] = weight_of(weights, values, n_values)
    rows = layout.rows[begin:end]
    for _ in range(d):
        j = int(np.argmin(weight))  # the highest entropy, as all have the same rows
        if weight[j] == DONE_BY_ENTROPY:
            break
        along = layout.columns[j, begin:end]
        n_values = distinct(along, values)
        position = walk(weights, demand, rows, along, values, n_values, weight[j])
        if position >= 0:
            return cut(layout, begin, end, j, values.cells[position])
        weight[j] = DONE_BY_ENTROPY
    return begin


@compiled
def weight_of(weights: Ints, values: Values, n_values: int) -> int:
    """Sum of the weights of the first n_values counts."""
    weight = 0
    for i in range(n_values):
        weight += weights[values.counts[i]]
    return weight


@compiled
def walk(weights: Ints, demand: Demand, rows: Ints, along: Cells, values: Values, n_values: int, weight: int) -> int:
    """Where the split value stands among the n_values >= 2 distinct ones; -1 where no halves that were met hold.

    weight: the sum of the weights of all counts.
    """
    start = min(n_values // 2, n_values - 2)
    best, largest = -1, -1.0
    for step in (-1, 1):
        n_below, weight_below = 0, weight_of(weights, values, start + 1)
        for i in range(start + 1):
            n_below += values.counts[i]
        here, before = start, -1.0
        while 0 <= here < n_values - 1:
            entropies = both_entropies(weights, len(rows), weight, n_below, weight_below)
            if entropies < before:
                break
            before = entropies
            if entropies > largest and allowed(demand, rows, along, values.cells[here], n_below):
                best, largest = here, entropies
            moved = here + (step + 1) // 2  # the value that changes sides
            n_below += step * values.counts[moved]
            weight_below += step * weights[values.counts[moved]]
            here += step
    return best


def run_by_entropy(microdata: Microdata, model: Model, options: Options) -> Recoding:
    """Entropy-based multidimensional cuts (Yan and Liu 2008, EMP) under any model."""
    tree = tree_of(microdata.cells, model, microdata.subjects(model.subjects))
    _cut_all_by_entropy(weights_up_to(len(microdata)), tree)
    return local_recoding(microdata, leaf_numbers(tree))


EMP = Algorithm(
    "emp",
    "cuts the attribute of highest entropy where both halves stay most diverse",
    "Yan and Liu 2008",
    run_by_entropy,
    no_objections,
)
