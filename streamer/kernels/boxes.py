"""Boxes of the quasi-identifiers, for compiled functions: edges, covers, NCP, and how a box grows around cells.

The rules of this file
----------------------
* A box is a run of cells along each attribute, lo..hi, both inclusive; of a category, leaves of a hierarchy.
* All are the same float64 operations in the same order as in `streamer.table.space.Space`, on the smallest publishable
  box around the cells; tests compare them to the last bit. Sums are made in the order of the table.
* The smallest node over a run of leaves is the largest of the nodes over its pairs of neighbouring leaves. So the
  maxima over runs of 2^i pairs are kept, and two of them answer for a run of any length, in any tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streamer.native import inlined
from streamer.table.arrays import Floats, Ints, Records, records
from streamer.table.hierarchy import Hierarchy
from streamer.table.space import Space

NO_LEAVES = -1
"""Of an axis without leaves: its `first_leaf`."""

AXIS = np.dtype(
    [
        ("codes_per_cell", "i8"),
        ("overlap", "i8"),
        ("end", "f8"),
        ("width", "f8"),  # what loses 1: of the domain, over the weight
        ("weight", "f8"),
        ("cells_max", "i8"),
        ("unit", "f8"),
        ("first_leaf", "i8"),  # where its leaves begin in `leaves_over` and `node_over`; NONE for a number
        ("n_leaves", "i8"),
        ("first_node", "i8"),
    ]
)


class Geometry(NamedTuple):
    """The quasi-identifiers; never changes. Each shard has its own, so that threads share no reference counts.

    The smallest node over a run of leaves is over two neighbours in it. A node above others has the lower number and
    more leaves, so two look-ups over 2^i leaves each answer for a run of any length.
    """

    axes: Records  # (d,) AXIS
    loss_over: Any  # (levels, all leaves) float64: at i, a the most NCP of nodes over two neighbours in a..a + 2^i
    leaves_over: Any  # the same shape, int32: the most leaves of these nodes
    node_over: Any  # the same shape: the least number of these nodes
    power: Any  # (most leaves + 1,) int32: the largest i with 2^i <= n
    node_ends: Any  # (nodes, 2) int32: first and last leaf


def geometry(space: Space, pair_loss: Callable[[Hierarchy, Ints], Floats] | None = None) -> Geometry:
    """The quasi-identifiers as arrays.

    pair_loss: of the smallest node over each leaf and the next, 0 to 1; a node's is no less than its parts'. None: NCP.
    """
    axes = records(space.d, AXIS)
    leaves = [0 if axis.hierarchy is None else axis.hierarchy.n_leaves for axis in space.axes]
    nodes = [0 if axis.hierarchy is None else axis.hierarchy.n_nodes for axis in space.axes]
    power = np.array([max(n, 1).bit_length() - 1 for n in range(max(leaves, default=0) + 1)], dtype=np.int32)
    loss_over = np.zeros((int(power[-1]) + 1, max(1, sum(leaves))))
    leaves_over = np.zeros_like(loss_over, dtype=np.int32)
    node_over = np.zeros_like(leaves_over)
    node_ends = np.zeros((max(1, sum(nodes)), 2), dtype=np.int32)
    axes.codes_per_cell, axes.overlap, axes.end = space.codes_per_cell, space.overlap, space.end
    axes.width, axes.weight, axes.cells_max = space.width, space.weight, space.cells_max
    axes.unit, axes.first_leaf = space.unit_codes, NO_LEAVES
    for j, tree in space.trees:
        first, first_node = sum(leaves[:j]), sum(nodes[:j])
        axes.first_leaf[j], axes.n_leaves[j], axes.first_node[j] = first, tree.n_leaves, first_node
        node_ends[first_node : first_node + tree.n_nodes] = np.column_stack([tree.node_lo, tree.node_hi])
        pairs = np.arange(tree.n_leaves - 1)
        node = tree.cover_many(pairs, pairs + 1)
        own = slice(first, first + tree.n_leaves)
        loss, over, numbers = loss_over[:, own], leaves_over[:, own], node_over[:, own]
        over[0, :-1], numbers[0, :-1] = tree.node_hi[node] - tree.node_lo[node] + 1, node + first_node
        loss[0, :-1] = over[0, :-1] / space.width[j] if pair_loss is None else pair_loss(tree, pairs) * space.weight[j]
        for _, largest in (one for one in space.nodes_max if one[0] == j):
            loss[0, :-1] += space.too_wide_ncp * (largest[:-1] != largest[1:])
        for i in range(1, len(leaves_over)):
            reach = 1 << (i - 1)
            loss[i], over[i], numbers[i] = loss[i - 1], over[i - 1], numbers[i - 1]
            if reach < tree.n_leaves:
                loss[i, :-reach] = np.maximum(loss[i - 1, :-reach], loss[i - 1, reach:])
                over[i, :-reach] = np.maximum(over[i - 1, :-reach], over[i - 1, reach:])
                numbers[i, :-reach] = np.minimum(numbers[i - 1, :-reach], numbers[i - 1, reach:])
    return Geometry(axes, loss_over, leaves_over, node_over, power, node_ends)


@inlined
def first_edge(space: Geometry, j: int, lo: int) -> float:
    """First point of a published interval that begins with the cell `lo`, in codes."""
    return float(lo * space.axes[j].codes_per_cell)


@inlined
def last_edge(space: Geometry, j: int, hi: int) -> float:
    """Last point of a published interval that ends with the cell `hi`, in codes."""
    axis = space.axes[j]
    return min(float((hi + 1) * axis.codes_per_cell - axis.overlap), axis.end)


def leaves_of_cover(space: Geometry, j: int, lo: int, hi: int) -> int:
    """Leaves of the smallest node over the leaves lo..hi of attribute j."""
    if lo == hi:
        return 1
    i = space.power[hi - lo]
    at = space.axes[j].first_leaf
    return max(space.leaves_over[i, at + lo], space.leaves_over[i, at + hi - (1 << i)])


def cover(space: Geometry, j: int, lo: int, hi: int) -> tuple[int, int]:
    """First and last leaf of the smallest node over the leaves lo..hi of attribute j."""
    if lo == hi:
        return lo, hi
    i = space.power[hi - lo]
    at = space.axes[j].first_leaf
    node = min(space.node_over[i, at + lo], space.node_over[i, at + hi - (1 << i)])
    return space.node_ends[node, 0], space.node_ends[node, 1]


@inlined
def ncp_term(space: Geometry, j: int, lo: int, hi: int) -> float:
    """NCP of attribute j over the smallest publishable run around the cells lo..hi."""
    at = space.axes[j].first_leaf
    if at < 0:
        too_wide = float(space.axes.shape[0] + 1) if hi - lo >= space.axes[j].cells_max else 0.0
        return (last_edge(space, j, hi) - first_edge(space, j, lo)) / space.axes[j].width + too_wide
    if lo == hi:
        return 0.0
    i = space.power[hi - lo]
    return max(space.loss_over[i, at + lo], space.loss_over[i, at + hi - (1 << i)])


ROUNDED = 1.0 + 1e-9
"""Above the rounding of the loss of a whole domain."""


@inlined
def exceeds_weight(space: Geometry, j: int, term: float) -> bool:
    """True for the NCP of a run of attribute j that `coarsest` forbids."""
    return bool(term > ROUNDED * space.axes[j].weight)


@inlined
def widen(space: Geometry, first: Ints, last: Ints, lo: Ints, hi: Ints, term: Floats) -> bool:
    """Makes the box lo..hi contain first..last and keeps its attributes' NCP in `term`, (d,) each; True if it grew."""
    changed = False
    for j in range(lo.shape[0]):
        if first[j] < lo[j] or last[j] > hi[j]:
            lo[j], hi[j] = min(first[j], lo[j]), max(last[j], hi[j])
            term[j] = ncp_term(space, j, lo[j], hi[j])
            changed = True
    return changed


@inlined
def total(term: Floats) -> float:
    """Sum of the attributes' NCP (d,), in their order."""
    per_row = 0.0
    for j in range(term.shape[0]):
        per_row += term[j]
    return per_row
