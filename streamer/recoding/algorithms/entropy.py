"""EMP: the table cut in two where the halves' values stay most diverse, as long as both halves hold the model.

The attribute whose cells have the highest Shannon entropy among the part's rows is cut first; of equal entropies the
earlier one. A part of fewer than 2k rows (any model: twice the fewest rows that can hold it) is not cut. Rows up to the
split value go to the lower half. The split value starts at the median of the m distinct cells, in ascending order the
one of index floor(m / 2) (of two cells the lower one, or the upper half would be empty). From there it walks down, then
from there again up, as long as the sum of the two halves' entropies along this attribute does not fall.

Source: Yan and Liu 2008, "Multidimensional K-anonymity Partition Method Using Entropy", section 2.2. The paper does not
say what a half below k means. Here: of the split values walked over, the one of largest sum whose halves both hold is
taken; of equal sums the start, then the first met on the way down, then up. Where none is allowed the attribute of next
highest entropy is cut; where none can be, the part is a QI group. Entropies come from c * log2(c) of the counts c in
whole multiples of 2 ** -20, so that sums are exact, and neither the order of adding nor rounding decides a tie.
"""

from __future__ import annotations

import numpy as np

from streamer.jit import compiled
from streamer.privacy.models import Model
from streamer.recoding.algorithms.contract import Algorithm, Options, no_objections
from streamer.recoding.algorithms.kd_tree import (
    Cells,
    Demand,
    Tree,
    Values,
    after,
    allowed,
    cut,
    distinct,
    leaf_numbers,
    tree_of,
)
from streamer.recoding.algorithms.recoding import Recoding, local_recoding
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata

ONE = 1 << 20
"""How many of the whole numbers that stand for c * log2(c) make 1."""

DONE = np.iinfo(np.int64).max
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
def _cut_all(weights: Ints, tree: Tree) -> None:
    begin, end = 0, len(tree.layout.rows)
    while begin < end:
        begin, end = after(tree.leaves, begin, _cut_once(weights, tree, begin, end), end)


@compiled
def _cut_once(weights: Ints, tree: Tree, begin: int, end: int) -> int:
    """Cuts the positions begin..end in two; returns where the upper half begins, `begin` if no cut is allowed."""
    layout, _, demand, values = tree
    if end - begin < 2 * demand.rows_min:
        return begin
    d = layout.columns.shape[0]
    weight = np.full(d, DONE)
    for j in range(d):
        n_values = distinct(layout.columns[j, begin:end], values)
        if n_values > 1:
            weight[j] = weight_of(weights, values, n_values)
    rows = layout.rows[begin:end]
    for _ in range(d):
        j = int(np.argmin(weight))  # the highest entropy, as all have the same rows
        if weight[j] == DONE:
            break
        along = layout.columns[j, begin:end]
        n_values = distinct(along, values)
        position = walk(weights, demand, rows, along, values, n_values, weight[j])
        if position >= 0:
            return cut(layout, begin, end, j, values.cells[position])
        weight[j] = DONE
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


def run(microdata: Microdata, model: Model, options: Options) -> Recoding:
    """Entropy-based multidimensional cuts (Yan and Liu 2008, EMP) under any model."""
    tree = tree_of(microdata.cells, model, microdata.subjects(model.subjects))
    _cut_all(weights_up_to(len(microdata)), tree)
    return local_recoding(microdata, leaf_numbers(tree))


EMP = Algorithm(
    "emp",
    "cuts the attribute of highest entropy where both halves stay most diverse",
    "Yan and Liu 2008",
    run,
    no_objections,
)
