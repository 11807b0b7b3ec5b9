"""Cutting the box of all rows in two, again and again: at medians (`mondrian`), or by entropy (`emp`).

Cuts are *strict*: rows of one cell stay on one side. A cut is allowed if both halves hold the model. If no cut of the
best attribute is allowed, the next best is cut; of equal attributes the earlier one. A part that cannot be cut is a QI
group, and so is a part of fewer than twice the fewest rows that can hold the model.

`mondrian` (LeFevre et al. 2006) cuts the attribute of widest NCP first. The median row's cell goes to the lower half if
that is allowed, else to the upper half. It is the baseline for the other algorithms and for the incremental table.

`emp` (Yan and Liu 2008, section 2.2) cuts the attribute whose cells have the highest Shannon entropy first. Rows up to
the split value go to the lower half. The split value starts at the median of the m distinct cells, in ascending order
the one of index floor(m / 2) (of two cells the lower one, or the upper half would be empty). From there it walks down,
then from there again up, as long as the sum of the two halves' entropies along this attribute does not fall. The paper
does not say what a half below k means. Here, of the split values on the walk, the one of largest sum whose halves both
hold is taken; of equal sums the start, then the first on the way down, then up. Entropies come from c * log2(c) of the
counts c in whole multiples of 2 ** -20. So sums are exact, and no rounding or order of adding decides a tie.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.kernels.boxes import Geometry, exceeds_weight, geometry, ncp_term
from streamer.kernels.distributions import weights_up_to
from streamer.kernels.sorting import sort_stably
from streamer.native import compiled
from streamer.privacy.compiled import Rules, Scratch, add, clear, holds, rules_of, scratch_for
from streamer.privacy.models import Model
from streamer.recoding.algorithms.contract import Algorithm, Options, Recoding, local_recoding
from streamer.table.arrays import Floats, Ints
from streamer.table.microdata import Microdata
from streamer.table.space import Space

Cells = npt.NDArray[np.signedinteger[Any]]

SPARSE = 4
"""With at most this number of cells per row, a part's values are found by counting its range, else by sorting."""

ONE = 1 << 20
"""The whole number that stands for 1 in sums of c * log2(c)."""

TOO_WIDE = 2.0**60
"""Above all scores by entropy."""


class Layout(NamedTuple):
    """The rows in the order of the tree's leaves, attribute by attribute.

    A part of the table is the positions begin..end of every column. A cut sorts these positions alone, lower half
    first; within a half the rows keep their order.
    """

    columns: Cells  # (d, n)
    rows: Ints  # (n,) numbers of the rows
    scratch_cells: Cells  # (n,)
    scratch_rows: Ints  # (n,)


class Leaves(NamedTuple):
    """The leaves so far, and the upper halves that are still to be cut."""

    begins: Ints  # (n,) where the leaves begin
    waiting: Ints  # (n,) where the upper halves end
    n: Ints  # (2,) how many of both


class Counting(NamedTuple):
    """The model that both halves of a cut must hold."""

    rows_min: int  # no half with fewer rows can hold
    rules: Rules
    scratch: Scratch


class Values(NamedTuple):
    """Scratch: the distinct cells of a part along one attribute, ascending, and how many rows have each."""

    cells: Ints  # (n,)
    counts: Ints


class Tree(NamedTuple):
    """A table's rows while they are cut."""

    layout: Layout
    leaves: Leaves
    counting: Counting
    values: Values


def tree_of(cells: Ints, model: Model, subjects: Ints) -> Tree:
    """The rows cells (n, d), uncut; subjects: int64 (n, s), columns as in `model.subjects`."""
    n, rules = len(cells), rules_of(model, subjects)
    kind = np.int32 if cells.max(initial=0) < np.iinfo(np.int32).max else np.int64
    columns: Cells = np.ascontiguousarray(cells.T, dtype=kind)
    rows = np.arange(n, dtype=np.int64)
    layout = Layout(columns, rows, np.empty_like(columns[0]), np.empty_like(rows))
    leaves = Leaves(np.empty_like(rows), np.empty_like(rows), np.zeros(2, dtype=np.int64))
    values = Values(np.empty_like(rows), np.empty(max(SPARSE * n, 1), dtype=np.int64))
    return Tree(layout, leaves, Counting(model.rows_min, rules, scratch_for(rules)), values)


def leaf_numbers(tree: Tree) -> Ints:
    """The number of every row's leaf, counted from left to right; int64 (n,)."""
    n_leaves, n = tree.leaves.n[0], len(tree.layout.rows)
    number = np.empty(n, dtype=np.int64)
    number[tree.layout.rows] = np.repeat(np.arange(n_leaves), np.diff(tree.leaves.begins[:n_leaves], append=n))
    return number


def _next_part(leaves: Leaves, begin: int, middle: int, end: int) -> tuple[int, int]:
    """The part to cut next, now that the positions begin..end (exclusive) were cut at middle: the lower half.

    middle = begin: they cannot be cut and are a leaf. Then the upper half beside it is next; after the last leaf, an
    empty part.
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


def _ends(along: Cells) -> tuple[int, int]:
    lo, hi = along[0], along[0]
    for cell in along:
        lo = min(lo, cell)
        hi = max(hi, cell)
    return lo, hi


def distinct(along: Cells, values: Values) -> int:
    """Fills in the distinct cells of `along` and their counts; returns how many there are."""
    lo, hi = _ends(along)
    if hi - lo < SPARSE * len(along):
        return _distinct_by_counting(along, lo, hi, values)
    return _distinct_by_sorting(along, values)


def _distinct_by_counting(along: Cells, lo: int, hi: int, values: Values) -> int:
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


def _distinct_by_sorting(along: Cells, values: Values) -> int:
    n_values, m = 0, len(along)
    order = np.empty(m, np.int64)
    sort_stably(along, order, np.empty(m, np.int64))
    for i in order:
        cell = along[i]
        if n_values == 0 or values.cells[n_values - 1] != cell:
            values.cells[n_values] = cell
            values.counts[n_values] = 0
            n_values += 1
        values.counts[n_values - 1] += 1
    return n_values


def _allowed(counting: Counting, rows: Ints, along: Cells, at: int, n_below: int) -> bool:
    """True if both halves hold after a cut above cell `at`; n_below: rows up to `at`."""
    if n_below < counting.rows_min or len(rows) - n_below < counting.rows_min:
        return False
    if counting.rules.distinct.shape[0] == 0:
        return True
    return _half_holds(counting, rows, along, at, True) and _half_holds(counting, rows, along, at, False)


def _half_holds(counting: Counting, rows: Ints, along: Cells, at: int, lower: bool) -> bool:
    for i in range(len(rows)):
        if (along[i] <= at) == lower:
            add(counting.rules, counting.scratch, rows[i])
    answer = holds(counting.rules, counting.scratch)
    clear(counting.rules, counting.scratch, rows)
    return answer


def _cut_at(layout: Layout, begin: int, end: int, j: int, at: int) -> int:
    """Cuts the positions begin..end (exclusive) above cell `at` of attribute j; returns where the upper half begins."""
    along = layout.columns[j, begin:end].copy()
    middle = begin + _move_lower_first(layout.rows[begin:end], layout.scratch_rows, along, at)
    for column in range(layout.columns.shape[0]):
        _move_lower_first(layout.columns[column, begin:end], layout.scratch_cells, along, at)
    return middle


def _move_lower_first(what: Cells, scratch: Cells, along: Cells, at: int) -> int:
    """Moves what belongs to cells up to `at` to the front; returns how many.

    Without branches: the processor would guess them wrong half the time.
    """
    n_below, n_above = 0, 0
    for i in range(len(what)):
        is_below = int(along[i] <= at)
        scratch[n_above] = what[i]
        what[n_below] = what[i]
        n_below += is_below
        n_above += 1 - is_below
    what[n_below:] = scratch[:n_above]
    return n_below


@compiled
def _cut_all(shape: Geometry, weights: Ints, tree: Tree) -> None:
    """Cuts every part that can be cut; weights: those of `weights_up_to` to cut by entropy, none to cut at medians."""
    begin, end = 0, len(tree.layout.rows)
    while begin < end:
        begin, end = _next_part(tree.leaves, begin, _cut_once(shape, weights, tree, begin, end), end)


def _cut_once(shape: Geometry, weights: Ints, tree: Tree, begin: int, end: int) -> int:
    """Cuts the positions begin..end in two; returns where the upper half begins, `begin` if no cut is allowed."""
    layout, _, counting, values = tree
    if end - begin < 2 * counting.rows_min:
        return begin
    d, by_entropy = layout.columns.shape[0], len(weights) > 0
    score = np.full(d, -np.inf)  # the best attribute has the highest; -inf: it cannot be cut, or was tried
    most = weights[end - begin] if by_entropy else 0
    for j in range(d):
        along = layout.columns[j, begin:end]
        if by_entropy:
            n_values = distinct(along, values)
            if n_values > 1:
                score[j] = _entropy(shape, j, along, most - _weight_of(weights, values, n_values))
        else:
            lo, hi = _ends(along)
            if lo < hi:
                score[j] = ncp_term(shape, j, lo, hi)
    rows = layout.rows[begin:end]
    for _ in range(d):
        j = _highest(score)
        if score[j] == -np.inf:
            break
        score[j] = -np.inf
        along = layout.columns[j, begin:end]
        n_values = distinct(along, values)
        if by_entropy:
            at = split_value(weights, counting, rows, along, values, n_values)
        else:
            at = _median(counting, rows, along, values)
        if at >= 0:
            return _cut_at(layout, begin, end, j, at)
    return begin


def _entropy(shape: Geometry, j: int, along: Cells, entropy: int) -> float:
    """The score of an attribute whose cells have this entropy: one that is too wide goes before all that are not."""
    lo, hi = _ends(along)
    return float(
        shape.axes[j].weight * entropy + (TOO_WIDE if exceeds_weight(shape, j, ncp_term(shape, j, lo, hi)) else 0.0)
    )


def _highest(score: Floats) -> int:
    best = 0
    for j in range(len(score)):
        if score[j] > score[best]:
            best = j
    return best


def _median(counting: Counting, rows: Ints, along: Cells, values: Values) -> int:
    """The last cell of the lower half, on one side of the median row's cell or the other; -1 if neither is allowed."""
    n_below, i = 0, 0
    while n_below + values.counts[i] <= (len(rows) - 1) // 2:
        n_below += values.counts[i]
        i += 1
    median = values.cells[i]
    if _allowed(counting, rows, along, median, n_below + values.counts[i]):
        return int(median)
    if _allowed(counting, rows, along, median - 1, n_below):
        return int(median - 1)
    return -1


def _weight_of(weights: Ints, values: Values, n_values: int) -> int:
    """Sum of the weights of the first n_values counts."""
    weight = 0
    for i in range(n_values):
        weight += weights[values.counts[i]]
    return weight


def _both_entropies(weights: Ints, n: int, weight: int, n_below: int, weight_below: int) -> float:
    """Sum of the entropies of two halves, in multiples of 2 ** -20; a half's weight is the sum of its counts' weights.

    H = log2(n) - (1 / n) * sum of c * log2(c) over the counts c of n rows (Yan and Liu 2008, definition 6).
    """
    n_above, weight_above = n - n_below, weight - weight_below
    return float((weights[n_below] - weight_below) / n_below + (weights[n_above] - weight_above) / n_above)


def split_value(weights: Ints, counting: Counting, rows: Ints, along: Cells, values: Values, n_values: int) -> int:
    """The last cell of the lower half, of the n_values >= 2 distinct ones; -1 if no cut on the walk is allowed."""
    start, weight = min(n_values // 2, n_values - 2), _weight_of(weights, values, n_values)
    best, largest = -1, -1.0
    for step in (-1, 1):
        n_below, weight_below = 0, _weight_of(weights, values, start + 1)
        for i in range(start + 1):
            n_below += values.counts[i]
        here, before = start, -1.0
        while 0 <= here < n_values - 1:
            entropies = _both_entropies(weights, len(rows), weight, n_below, weight_below)
            if entropies < before:
                break
            before = entropies
            if entropies > largest and _allowed(counting, rows, along, values.cells[here], n_below):
                best, largest = values.cells[here], entropies
            moved = here + (step + 1) // 2  # the value that changes sides
            n_below += step * values.counts[moved]
            weight_below += step * weights[values.counts[moved]]
            here += step
    return best


def median_tree(space: Space, cells: Ints, model: Model, subjects: Ints) -> Tree:
    """The rows cells (n, d), n >= 1, cut at medians; one leaf if no cut is allowed. subjects: as in `tree_of`."""
    tree = tree_of(cells, model, subjects)
    _cut_all(geometry(space), np.empty(0, dtype=np.int64), tree)
    return tree


def run(microdata: Microdata, model: Model, options: Options) -> Recoding:
    """Median Mondrian under any model."""
    tree = median_tree(microdata.space, microdata.cells, model, microdata.subjects(model.subjects))
    return local_recoding(microdata, leaf_numbers(tree))


def run_by_entropy(microdata: Microdata, model: Model, options: Options) -> Recoding:
    """Cuts by entropy (EMP) under any model."""
    tree = tree_of(microdata.cells, model, microdata.subjects(model.subjects))
    _cut_all(geometry(microdata.space), weights_up_to(len(microdata), ONE), tree)
    return local_recoding(microdata, leaf_numbers(tree))


MONDRIAN = Algorithm("mondrian", "cuts at medians of the widest attribute", "LeFevre et al. 2006", run)
EMP = Algorithm(
    "emp",
    "cuts the attribute of highest entropy where both halves stay most diverse",
    "Yan and Liu 2008",
    run_by_entropy,
)
