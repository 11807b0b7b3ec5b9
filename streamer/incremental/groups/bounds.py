"""What the best QI group of a block could reach at most, in either similarity.

A bound is never below the score of any member of the block, to the last bit: the exactness of the index rests on it.
For numbers it comes from the hull of the boxes with the largest half-width, and from the hull of the centers; for
categories from the best term that any member gives each node of the hierarchy's outline. Bounds of QGSSD rise exactly
with the terms they bound and sum in the same order; bounds of T-QGSSD come by another formula than the scores, so they
get a margin far above its rounding. Bounds are raised when a member comes or changes and may then be too high, until
`rebuild` makes them tight again. An empty block is bounded by 0, below every score.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf, nextafter

import numpy as np

from streamer.incremental.groups.similarity import HALF_UNIT, ROWS_KEPT, TABLE_MAX, TreeSimilarity
from streamer.table.arrays import Bools, Floats, Ints

OUTLINE_MAX = 512
"""Nodes of a hierarchy that bounds distinguish."""

MARGIN = 1.0 + 1e-12
"""Far above the rounding of a sum of SSDs."""


class Outline:
    """The largest nodes of a hierarchy, at most `OUTLINE_MAX`: what bounds over blocks distinguish.

    `bin_of` gives for each node its lowest ancestor-or-self in the outline, as a row of the bounds. An outline node is
    *coarse* when it also stands for nodes below it.
    """

    def __init__(self, similar: TreeSimilarity) -> None:
        self._similar = similar
        n_nodes = similar.tree.n_nodes
        by_size = np.lexsort((np.arange(n_nodes), -similar.leaves))  # a parent is larger: closed upwards
        self._nodes: Ints = np.sort(by_size[:OUTLINE_MAX])
        self.bin_of: list[int] = self._bins()
        self._coarse: Bools = np.bincount(self.bin_of, minlength=len(self._nodes)) > 1
        self.terms = lru_cache(max(ROWS_KEPT, TABLE_MAX // (2 * len(self._nodes))))(self._terms)

    def __len__(self) -> int:
        return len(self._nodes)

    def _bins(self) -> list[int]:
        row_of = {node: row for row, node in enumerate(self._nodes.tolist())}
        node_hi = self._similar.tree.node_hi.tolist()
        bins: list[int] = []
        path: list[int] = []  # ancestors of the node, for nodes are numbered depth-first
        for node, hi in enumerate(node_hi):
            while path and node_hi[path[-1]] < hi:
                path.pop()
            bins.append(row_of[node] if node in row_of else bins[path[-1]])
            path.append(node)
        return bins

    def _terms(self, node: int) -> Floats:
        """Best SSD, then best closeness, that `node` gives to what each outline node stands for; (2 * outline,)."""
        similar, tree = self._similar, self._similar.tree
        other = np.full_like(self._nodes, node)
        below = self._coarse & (tree.node_lo[self._nodes] <= tree.node_lo[node])
        below &= tree.node_hi[node] <= tree.node_hi[self._nodes]
        ssd = np.where(below, 1.0, similar.ssd(self._nodes, other))
        return np.concatenate([ssd, np.where(below, 1.0 / HALF_UNIT, similar.closeness(self._nodes, other))])


class Bounds:
    """Bounds of B blocks over the numeric attributes (n) and the categories' trees (c).

    order: which of the n + c terms, numbers first, comes when in table.yaml order.
    """

    def __init__(self, unit: Floats, trees: Sequence[TreeSimilarity], order: Sequence[int]) -> None:
        self._unit = unit  # (n, 1)
        self._order = order
        self._outlines = [Outline(similar) for similar in trees]
        self._hulls: Floats = np.empty((5, len(unit), 0))
        self._best: list[Floats] = [np.empty((2 * len(outline), 0)) for outline in self._outlines]
        self.least_ncp: Floats = np.empty(0)
        self._name_parts()

    def _name_parts(self) -> None:
        self._first, self._last, self._half, self._center_lo, self._center_hi = self._hulls

    def grow(self, n_blocks: int) -> None:
        """Adds empty blocks until there are n_blocks."""
        more = n_blocks - len(self.least_ncp)
        nothing = np.array([inf, -inf, 0.0, inf, -inf])[:, None, None]
        hulls = np.broadcast_to(nothing, (*self._hulls.shape[:2], more))
        self._hulls = np.concatenate([self._hulls, hulls], axis=2)
        self._best = [np.hstack([best, np.zeros((len(best), more))]) for best in self._best]
        self.least_ncp = np.concatenate([self.least_ncp, np.full(more, inf)])
        self._name_parts()

    def rebuild(self, block: int, center: Floats, half: Floats, node: Ints, ncp: Floats) -> None:
        """Tight bounds from the members: center and half (n, m), node (c, m), ncp (m,)."""
        if not ncp.size:
            self._hulls[:, :, block] = np.array([inf, -inf, 0.0, inf, -inf])[:, None]
        else:
            self._first[:, block] = np.nextafter((center - half).min(axis=1), -inf)
            self._last[:, block] = np.nextafter((center + half).max(axis=1), inf)
            self._half[:, block] = half.max(axis=1)
            self._center_lo[:, block] = center.min(axis=1)
            self._center_hi[:, block] = center.max(axis=1)
        self.least_ncp[block] = ncp.min(initial=inf)
        for best, outline, nodes in zip(self._best, self._outlines, node, strict=True):
            best[:, block] = 0.0
            for one in set(nodes.tolist()):
                np.maximum(best[:, block], outline.terms(one), out=best[:, block])

    def spans(self, block: int, i: int, center: float) -> bool:
        """Whether a center lies in the hull of the block's centers in numeric attribute i."""
        return bool(self._center_lo[i, block] <= center <= self._center_hi[i, block])

    def raise_number(self, block: int, i: int, center: float, half: float) -> None:
        """A member of `block` now has this interval in numeric attribute i."""
        self._first[i, block] = min(self._first[i, block], nextafter(center - half, -inf))
        self._last[i, block] = max(self._last[i, block], nextafter(center + half, inf))
        self._half[i, block] = max(self._half[i, block], half)
        self._center_lo[i, block] = min(self._center_lo[i, block], center)
        self._center_hi[i, block] = max(self._center_hi[i, block], center)

    def raise_node(self, block: int, i: int, node: int) -> None:
        """A member of `block` now has this node in category i."""
        best = self._best[i][:, block]
        np.maximum(best, self._outlines[i].terms(node), out=best)

    def raise_ncp(self, block: int, ncp: float) -> None:
        """A member of `block` now has this NCP."""
        self.least_ncp[block] = min(self.least_ncp[block], ncp)

    def t_qgssd(self, value: Floats, leaf_nodes: Sequence[int]) -> Floats:
        """At least the T-QGSSD of a tuple, numbers (n, 1), to every member of each block; (B,)."""
        gap = np.maximum(self._first - value, value - self._last)
        np.maximum(gap, 0.0, out=gap)
        gap += self._half
        total: Floats = np.add.reduce(self._half / gap, axis=0)
        for best, outline, node in zip(self._best, self._outlines, leaf_nodes, strict=True):
            total += best[outline.bin_of[node]]
        total *= MARGIN
        return total

    def qgssd(self, center: Floats, nodes: Sequence[int]) -> Floats:
        """At least the QGSSD of a box, centers (n, 1), to every member of each block; (B,)."""
        gap = np.maximum(self._center_lo - center, center - self._center_hi)
        gap /= self._unit
        terms = [*(1.0 / np.maximum(gap, HALF_UNIT))]
        for best, outline, node in zip(self._best, self._outlines, nodes, strict=True):
            terms.append(best[len(outline) + outline.bin_of[node]])
        return sum_terms(terms, self._order)


def sum_terms(terms: Sequence[Floats], order: Sequence[int]) -> Floats:
    """Sums arrays one after the other in the given order."""
    total = terms[order[0]].copy()
    for i in order[1:]:
        total += terms[i]
    return total
