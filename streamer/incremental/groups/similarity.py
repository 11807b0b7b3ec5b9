"""The two similarities of Song et al. 2009: of a tuple to a QI group, and of two QI groups.

The rules of this file
----------------------
* T-QGSSD(t, G) (definition 6) is the sum over the attributes of SSD: 1 where the value lies inside the box, else the
  box's half-width over the distance between the value and the box's center. It is d for a tuple inside.
* QGSSD(G, H) (definition 7) is the sum over the attributes of the *closeness* 1 / distance of the centers, in units.
* The paper is silent on boxes without width, equal centers and categories. Here: a half-width is at least half a code,
  a distance at least half a unit. For a category, SSD = leaves(node of G) / leaves(node covering the value and G), and
  the distance = (leaves(node covering G and H) - mean of the two nodes' leaves) / unit.
* Sums run from the first attribute to the last in float64, without tolerance: a pair has one figure, to the last bit,
  whatever the shape of the arrays it comes from. The half-width is measured from the center as rounded, so that a value
  inside is never further off than that.
* Lengths are in codes; the edges of a box are those of its published interval.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from streamer.table.arrays import Floats, Ints
from streamer.table.hierarchy import Hierarchy
from streamer.table.space import Space, in_order

HALF_CODE = 0.5
HALF_UNIT = 0.5

TABLE_MAX = 4_000_000
"""Pairs of nodes of a hierarchy whose terms are all kept once computed; of a larger one the last `ROWS_KEPT` rows."""

ROWS_KEPT = 256


class Shapes(NamedTuple):
    """What the similarities look at in boxes, (..., d) each: center and half-width in codes, node of the hierarchy.

    For a category center and half-width mean nothing, for a number the node is 0.
    """

    center: Floats
    half: Floats
    node: Ints


def ssd(value: Ints | Floats, center: Floats, half: Floats) -> Floats:
    """SSD of numbers to intervals (definition 6); broadcast."""
    return half / np.maximum(np.abs(value - center), half)


def closeness(center: Floats, other: Floats, unit: Floats | float) -> Floats:
    """Term of QGSSD of two intervals' centers (definition 7); broadcast."""
    return 1.0 / np.maximum(np.abs(center - other) / unit, HALF_UNIT)


class TreeSimilarity:
    """The terms of both similarities for the nodes of one hierarchy, by rows: one node against all."""

    def __init__(self, tree: Hierarchy, unit: float) -> None:
        self.tree = tree
        self.unit = unit
        self.node_of_leaf: Ints = np.array([tree.node_of[leaf, leaf] for leaf in range(tree.n_leaves)], dtype=np.int64)
        self.leaves: Floats = (tree.node_hi - tree.node_lo + 1).astype(np.float64)
        every = np.arange(tree.n_nodes, dtype=np.int64)
        rows = tree.n_nodes if tree.n_nodes**2 <= TABLE_MAX else ROWS_KEPT
        self.ssd_row = lru_cache(rows)(lambda node: self.ssd(np.full_like(every, node), every))
        self.closeness_row = lru_cache(rows)(lambda node: self.closeness(np.full_like(every, node), every))

    def common(self, one: Ints, other: Ints) -> Ints:
        """Smallest nodes that cover both; broadcast."""
        lo = np.minimum(self.tree.node_lo[one], self.tree.node_lo[other])
        hi = np.maximum(self.tree.node_hi[one], self.tree.node_hi[other])
        return self.tree.cover_many(lo, hi)

    def ssd(self, value: Ints, node: Ints) -> Floats:
        """SSD of values, given as nodes, to nodes; broadcast."""
        return self.leaves[node] / self.leaves[self.common(value, node)]

    def closeness(self, one: Ints, other: Ints) -> Floats:
        """Term of QGSSD of nodes; broadcast."""
        distance = self.leaves[self.common(one, other)] - (self.leaves[one] + self.leaves[other]) / 2
        return 1.0 / np.maximum(distance / self.unit, HALF_UNIT)


class Similarity:
    """T-QGSSD and QGSSD over one space; all methods broadcast over the axes before the last.

    >>> from streamer.table.space import Axis, Space
    >>> years = Axis(codes_per_cell=5, n_cells=24, closed=True, width_codes=119.0, unit_codes=1.0, hierarchy=None)
    >>> similarity = Similarity(Space([years]))
    >>> boxes = similarity.shapes(np.array([[4], [8]]), np.array([[4], [9]]))   # [21, 25] and [41, 50]
    >>> similarity.t_qgssd(np.array([20]), boxes).round(6).tolist()             # 21 years
    [1.0, 0.183673]
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.trees: tuple[tuple[int, TreeSimilarity], ...] = tuple(
            (j, TreeSimilarity(tree, float(space.unit_codes[j]))) for j, tree in space.trees
        )

    def shapes(self, lo: Ints, hi: Ints) -> Shapes:
        """Centers, half-widths and nodes of boxes."""
        first, last = self.space.edges(lo, hi)
        center = (first + last) / 2
        half = np.maximum(np.maximum(last - center, center - first), HALF_CODE)
        node = np.zeros_like(lo)
        for j, similar in self.trees:
            node[..., j] = similar.tree.cover_many(lo[..., j], hi[..., j])
        return Shapes(center, half, node)

    def t_qgssd(self, codes: Ints, boxes: Shapes) -> Floats:
        """T-QGSSD of tuples (..., d) to boxes."""
        terms = ssd(codes, boxes.center, boxes.half)
        for j, similar in self.trees:
            terms[..., j] = similar.ssd(similar.node_of_leaf[codes[..., j]], boxes.node[..., j])
        return in_order(terms)

    def qgssd(self, boxes: Shapes, others: Shapes) -> Floats:
        """QGSSD of boxes to boxes."""
        terms = closeness(boxes.center, others.center, self.space.unit_codes)
        for j, similar in self.trees:
            terms[..., j] = similar.closeness(boxes.node[..., j], others.node[..., j])
        return in_order(terms)
