"""The geometry of the quasi-identifiers: codes, cells, boxes and their loss.

The rules of this file
----------------------
* A person's row is a vector of d int64 *codes*; `cells` coarsens it to the grid. A *box* is a pair (lo, hi) of d int64
  vectors of cells, both inclusive. For a categorical attribute cell, code and leaf are the same number, and the box
  is the leaf interval of a node of the hierarchy, never just a run of leaves.
* Attributes are in table.yaml order. Sums over them are added in that order, in float64 and without tolerance, so two
  computations of one figure agree to the last bit, whatever the shape of the arrays. (`in_order` guarantees the order;
  `ndarray.sum` does not.)
* Containment is decided by cells and leaves, never by a similarity.
* Weights have the mean 1, so a table loses between 0 and 1. A box that `coarsest` forbids is *too wide*: in each such
  attribute it loses more than everything else can, on top of its width. So algorithms make one only if they must, a
  loss still grows with every attribute of the box, and what widens a box costs at least the width that it adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import fsum

import numpy as np

from streamer.table.arrays import Bools, Floats, Ints
from streamer.table.hierarchy import Hierarchy

FINENESS = 1 << 20
"""Codes within one cell of a decimal attribute that has no step."""

CODES_MAX = 1 << 62
"""The most codes of one column: one more cell still fits an int64."""

CELLS_MAX = (1 << 31) - 1
"""The most cells of one column: a shard's table has them as int32, and counts one beyond the last."""

NO_BOUND = CODES_MAX
"""More cells than any column has."""

UNIT_SHARE = Decimal("0.2")
"""The length that counts as 1 in QGSSD by default: this share of the domain, or of the leaves."""


@dataclass(frozen=True)
class Axis:
    """One attribute as geometry; lengths in codes (numeric) or leaves (categorical)."""

    codes_per_cell: int
    n_cells: int
    closed: bool  # whether the interval of a cell ends at its last code, not at the next cell's edge
    width_codes: float  # of the whole domain; all leaves
    unit_codes: float  # the length that counts as 1 in QGSSD
    hierarchy: Hierarchy | None
    weight: float = 1.0  # of its loss and similarity beside those of other attributes
    cells_max: int = NO_BOUND  # the most cells of a published interval
    level_max: int | None = None  # the highest level of a published node, from the leaf


def in_order(terms: Floats) -> Floats:
    """Sum over the last axis, from the first attribute to the last; (..., d) float64 -> (...)."""
    return np.add.accumulate(terms, axis=-1)[..., -1]


class Space:
    """d quasi-identifiers as one space; methods take any number of leading axes, (..., d)."""

    def __init__(self, axes: Sequence[Axis], weight: Floats | None = None, too_wide_ncp: float | None = None) -> None:
        self.axes = tuple(axes)
        self.d = len(self.axes)
        stated = np.array([axis.weight for axis in axes])
        self.weight: Floats = stated * (self.d / (fsum(stated) or 1.0)) if weight is None else weight
        self.too_wide_ncp = self.d + 1.0 if too_wide_ncp is None else too_wide_ncp
        self.cells_max: Ints = np.array([axis.cells_max for axis in axes], dtype=np.int64)
        self.nodes_max: tuple[tuple[int, Ints], ...] = tuple(  # by leaf the largest node that may be published
            (j, axis.hierarchy.levels[axis.level_max])
            for j, axis in enumerate(axes)
            if axis.hierarchy is not None and axis.level_max is not None
        )
        self._most = self.cells_max.tolist(), [(j, nodes.tolist()) for j, nodes in self.nodes_max]
        self.codes_per_cell: Ints = np.array([axis.codes_per_cell for axis in axes], dtype=np.int64)
        self.is_cell_by_cell = bool((self.codes_per_cell == 1).all())
        self.n_cells: Ints = np.array([axis.n_cells for axis in axes], dtype=np.int64)
        self.is_bounded = bool(self.nodes_max) or bool((self.cells_max < self.n_cells).any())
        self.unit_codes: Floats = np.array([axis.unit_codes for axis in axes])
        self.trees: tuple[tuple[int, Hierarchy], ...] = tuple(
            (j, axis.hierarchy) for j, axis in enumerate(axes) if axis.hierarchy is not None
        )
        self.is_category: Bools = np.array([axis.hierarchy is not None for axis in axes], dtype=bool)
        self.overlap: Ints = np.array([int(axis.closed) for axis in axes], dtype=np.int64)
        self.end: Floats = np.array([axis.width_codes for axis in axes])
        width = np.array([axis.width_codes for axis in axes])
        self.domain: Floats = np.where(width > 0, width, np.inf)  # its width; infinite for one value: no loss
        self.width: Floats = self.domain / self.weight  # what loses 1

    def cells(self, codes: Ints) -> Ints:
        """Codes -> cells of the grid; the same array if each code is a cell."""
        return codes if self.is_cell_by_cell else codes // self.codes_per_cell

    def generalize(self, lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
        """Smallest publishable boxes around runs of cells: categories grow to the covering node. Changes lo and hi."""
        for j, tree in self.trees:
            node = tree.cover_many(lo[..., j], hi[..., j])
            lo[..., j], hi[..., j] = tree.node_lo[node], tree.node_hi[node]
        return lo, hi

    def box_of_cells(self, cells: Ints) -> tuple[Ints, Ints]:
        """Smallest publishable box around rows of cells (n, d), n >= 1; two int64 (d,)."""
        lo, hi = cells.min(axis=0), cells.max(axis=0)
        for j, tree in self.trees:
            lo[j], hi[j] = tree.cover(lo[j], hi[j])
        return lo, hi

    def contains(self, lo: Ints, hi: Ints, cells: Ints) -> Bools:
        """True for boxes (..., d) that contain cells (..., d); broadcast."""
        return np.asarray(((lo <= cells) & (cells <= hi)).all(axis=-1))

    def edges(self, lo: Ints, hi: Ints) -> tuple[Floats, Floats]:
        """First and last point of the boxes' published intervals, in codes (categories: leaves); float64."""
        first = (lo * self.codes_per_cell).astype(np.float64)
        last = np.minimum(((hi + 1) * self.codes_per_cell - self.overlap).astype(np.float64), self.end)
        return first, last

    def middles(self, cells: Ints) -> Floats:
        """The middles of the cells' published intervals, in codes; float64."""
        first, last = self.edges(cells, cells)
        return (first + last) / 2

    def ncp(self, lo: Ints, hi: Ints) -> Floats:
        """Normalized certainty penalty of boxes, 0..d: sum over attributes of weight x width / domain width.

        For a category: the node's leaves / all leaves, 0 for a single leaf. More for a box that is too wide.
        """
        return in_order(self.ncp_terms(lo, hi))

    def boxes_around(self, cells: Ints, groups: Sequence[Ints]) -> tuple[Ints, Ints]:
        """The smallest publishable boxes around groups, arrays of row numbers, none empty; cells (n, d).

        Two int64 (groups, d).
        """
        ordered, begins = cells[np.concatenate(groups)], np.cumsum([0, *map(len, groups)])[:-1]
        return self.generalize(np.minimum.reduceat(ordered, begins), np.maximum.reduceat(ordered, begins))

    def loss_of(self, cells: Ints, groups: Sequence[Ints]) -> float:
        """Rows times NCP, summed over groups: as in `boxes_around`."""
        if not len(groups):
            return 0.0
        return float((self.ncp(*self.boxes_around(cells, groups)) * [*map(len, groups)]).sum())

    def published_loss_of(self, cells: Ints, groups: Sequence[Ints]) -> float:
        """`published_loss` of the smallest boxes around groups, as in `boxes_around`."""
        return self.published_loss(*self.boxes_around(cells, groups), np.array([*map(len, groups)]))

    def published_loss(self, lo: Ints, hi: Ints, rows: Ints) -> float:
        """Rows (g,) times NCP of boxes (g, d), summed; those in boxes that are too wide as the others on average."""
        shown = ~self.too_wide(lo, hi) if self.is_bounded else np.ones(len(rows), dtype=bool)
        lost, n = float((self.ncp(lo[shown], hi[shown]) * rows[shown]).sum()), int(rows[shown].sum())
        return lost if n == rows.sum() else lost * float(rows.sum()) / n if n else float(self.d * rows.sum())

    def mean_loss(self, ncp: float, rows: int = 1) -> float | None:
        """The one scale of a loss that people and programs see: the mean over quasi-identifiers and rows, 0 to 1.

        ncp: summed over the rows. None without rows.
        """
        return ncp / (self.d * rows) if rows else None

    def ncp_terms(self, lo: Ints, hi: Ints) -> Floats:
        """The attributes' terms of `ncp`, (..., d)."""
        terms = self._widths(lo, hi) / self.width
        return terms + self.too_wide_ncp * self._too_wide_terms(lo, hi) if self.is_bounded else terms

    def shares(self, lo: Ints, hi: Ints) -> Floats:
        """By attribute the share of the domain that boxes publish, (..., d), 0 to 1: `ncp_terms` without weights."""
        return self._widths(lo, hi) / self.domain

    def width_loss(self, lo: Ints, hi: Ints) -> Floats:
        """`ncp`, also of boxes that are too wide, as 0..d: what a reader of the box does not learn."""
        return in_order(self.weight * self.shares(lo, hi))

    def _widths(self, lo: Ints, hi: Ints) -> Floats:
        """The widths of boxes in codes; of a category its leaves, 0 for a single one."""
        first, last = self.edges(lo, hi)
        span = last - first
        return np.asarray(span + (self.is_category & (span > 0)))

    def too_wide(self, lo: Ints, hi: Ints) -> Bools:
        """True for boxes (..., d) that `coarsest` forbids; (...)."""
        return np.asarray(self._too_wide_terms(lo, hi).any(axis=-1))

    def forbids(self, lo: Sequence[int], hi: Sequence[int]) -> bool:
        """The same of one box; quicker."""
        cells_max, nodes_max = self._most
        if any(last - first >= most for first, last, most in zip(lo, hi, cells_max, strict=True)):
            return True
        return any(nodes[lo[j]] != nodes[hi[j]] for j, nodes in nodes_max)

    def _too_wide_terms(self, lo: Ints, hi: Ints) -> Bools:
        wide = np.asarray(hi - lo >= self.cells_max)
        for j, nodes in self.nodes_max:
            wide[..., j] = nodes[lo[..., j]] != nodes[hi[..., j]]
        return wide

    def of_one(self, j: int) -> Space:
        """The attribute j alone, with the loss that it has here."""
        return Space(self.axes[j : j + 1], self.weight[j : j + 1], self.too_wide_ncp)
