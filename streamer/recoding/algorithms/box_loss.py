"""The space as arrays, for compiled loops over rows: the NCP of one attribute's run of cells, and of a box.

`ncp_term` answers exactly as `Space.ncp_terms` on the smallest publishable box around a run of cells, and `loss` as
`Space.ncp`: the same float64 operations in the same order, and a test compares them. The smallest node over a run of
leaves is the largest of the nodes over its pairs of neighbouring leaves. So two looked-up maxima over runs of 2^i
pairs answer for a run of any length, in a tree of any size and depth.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.jit import compiled, inlined
from streamer.table.arrays import Floats, Ints
from streamer.table.space import Space

EMPTY_LO, EMPTY_HI = np.iinfo(np.int64).max, -1
"""The box of no rows, in every attribute; what `widen` starts from."""


class Shape(NamedTuple):
    """A space of d attributes. first_leaf (d,): where a category's leaves begin in `node_ncp`, -1 for numbers.

    node_ncp (levels, all leaves): level i has at leaf a the NCP of the smallest node over the leaves a..a + 2^i.
    power (most leaves + 1,): the largest i with 2^i <= n. codes_per_cell, overlap, end, width (d,): as in `Space`.
    """

    first_leaf: Ints
    node_ncp: Floats
    power: Ints
    codes_per_cell: Ints
    overlap: Ints
    end: Floats
    width: Floats


def shape_of(space: Space) -> Shape:
    """The space for compiled loops."""
    leaves = [0 if axis.hierarchy is None else axis.hierarchy.n_leaves for axis in space.axes]
    power = np.array([max(n, 1).bit_length() - 1 for n in range(max(leaves) + 1)], dtype=np.int64)
    node_ncp = np.zeros((int(power[-1]) + 1, sum(leaves)))
    first_leaf = np.full(space.d, -1, dtype=np.int64)
    for j, tree in space.trees:
        first_leaf[j] = start = sum(leaves[:j])
        pairs = np.arange(tree.n_leaves - 1)
        node = tree.cover_many(pairs, pairs + 1)
        here = node_ncp[:, start : start + tree.n_leaves]
        here[0, :-1] = (tree.node_hi[node] - tree.node_lo[node] + 1) / tree.n_leaves
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


@compiled
def loss(shape: Shape, lo: Ints, hi: Ints) -> float:
    """NCP of the smallest publishable box around the cells lo..hi, (d,) each."""
    total = 0.0
    for j in range(lo.shape[0]):
        total += ncp_term(shape, j, lo[j], hi[j])
    return total


@inlined
def widen(shape: Shape, cells: Ints, lo: Ints, hi: Ints, term: Floats) -> bool:
    """Makes the box lo..hi contain `cells`, all (d,), with its attributes' NCP in `term`; whether that changed it."""
    changed = False
    for j in range(lo.shape[0]):
        cell = cells[j]
        if cell < lo[j] or cell > hi[j]:
            lo[j], hi[j] = min(cell, lo[j]), max(cell, hi[j])
            term[j] = ncp_term(shape, j, lo[j], hi[j])
            changed = True
    return changed


@inlined
def total(term: Floats) -> float:
    """Sum of the attributes' NCP (d,), in their order."""
    each = 0.0
    for j in range(term.shape[0]):
        each += term[j]
    return each
