"""The generalization levels of one attribute: how full-domain recoding coarsens all its values alike.

Level 0 publishes the cell itself, the last level the whole domain; what one level publishes as one value, every higher
level does too. A value is its interval, first and last cell, and never its first cell alone: in a ragged hierarchy one
value of a level may lie inside another. Any two are apart, or one contains the other.

Categories have the columns of the hierarchy's file as levels (`Hierarchy.levels`), numbers without a hierarchy runs of
2, 4, 8 ... cells, counted from the domain's start. Numbers with a hierarchy of their own have its columns. Of these
only the leaves count: they must name every value of the domain, and every node must be a run of values and end where
cells end. A leaf stands for the cell that it is in, at whatever level, and a cell has the widest of its values' nodes.
A label that does not contain its leaf (`20` under `15-19`) names the same interval of leaves and is a warning, because
the interval that is published is made from the leaves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np

from streamer.errors import ConfigError
from streamer.table.arrays import Ints
from streamer.table.hierarchy import Hierarchy, widest_by_class
from streamer.table.vectors import row_numbers

VALUES_MAX = 1_000_000
"""Values of a numeric domain that may have a hierarchy: its file has a line for each."""

_RANGE = re.compile(r"\s*\[?\(?\s*(-?\d+(?:\.\d+)?)\s*(?:-|–|,|;|\.\.|to)\s*(-?\d+(?:\.\d+)?)\s*\]?\)?\s*")


class Levels(Protocol):
    """How many levels there are, and what each makes of cells."""

    n_levels: int

    def recode(self, level: int, cells: Ints) -> tuple[Ints, Ints]:
        """First and last cell of the value that `level` publishes for each of `cells`; int64, their shape."""

    def reach(self, level: int, cells: Ints) -> Ints:
        """Last cell of the widest value of `level` that each of `cells` lies in; int64, their shape."""


class TableLevels:
    """Levels looked up by cell; lo and hi: int64 (levels, cells)."""

    def __init__(self, lo: Ints, hi: Ints) -> None:
        self.lo, self.hi = lo, hi
        self.n_levels = len(lo)

    def recode(self, level: int, cells: Ints) -> tuple[Ints, Ints]:
        return self.lo[level][cells], self.hi[level][cells]

    def reach(self, level: int, cells: Ints) -> Ints:
        return np.asarray(self._reaches[level][cells])

    @cached_property
    def _reaches(self) -> Ints:
        """Last cell of the widest value around every cell: values do not overlap, so it begins first and ends last."""
        ends = np.zeros_like(self.hi)
        for level, (lo, hi) in enumerate(zip(self.lo, self.hi, strict=True)):
            np.maximum.at(ends[level], lo, hi)
        return np.maximum.accumulate(ends, axis=1)


class DoublingLevels:
    """Runs of 2 ** level cells.

    >>> levels = DoublingLevels(5)
    >>> levels.n_levels, levels.recode(1, np.array([0, 3, 4]))
    (4, (array([0, 2, 4]), array([1, 3, 4])))
    """

    def __init__(self, n_cells: int) -> None:
        self._n_cells = n_cells
        self.n_levels = (n_cells - 1).bit_length() + 1

    def recode(self, level: int, cells: Ints) -> tuple[Ints, Ints]:
        lo = cells >> level << level
        return lo, np.minimum(lo + (1 << level) - 1, self._n_cells - 1)

    def reach(self, level: int, cells: Ints) -> Ints:
        return self.recode(level, cells)[1]


def value_numbers(levels: Levels, level: int, cells: Ints) -> Ints:
    """Numbers from 0 without gaps of what `level` publishes for `cells`: equal for equal values alone; int64 (m,)."""
    return np.unique(row_numbers(np.stack(levels.recode(level, cells), axis=1)), return_inverse=True)[1].astype(
        np.int64
    )


def levels_of_tree(tree: Hierarchy) -> TableLevels:
    """The levels of a categorical attribute."""
    return TableLevels(tree.node_lo[tree.levels], tree.node_hi[tree.levels])


def levels_of_numbers(
    tree: Hierarchy, domain: tuple[Decimal, Decimal], step: Decimal, codes_per_cell: int
) -> TableLevels:
    """The levels that a hierarchy file gives a numeric attribute with a step.

    Raises ConfigError: a leaf that is no number, a value of the domain that is no leaf, a node that is no run of values
    or that ends within a cell.
    """
    n_values = int((domain[1] - domain[0]) / step) + 1
    if n_values > VALUES_MAX:
        raise ConfigError(f"a domain of {n_values} values is too large for a hierarchy; {VALUES_MAX} are allowed")
    leaf_of = _leaves_by_number(tree)
    values = [domain[0] + i * step for i in range(n_values)]
    for value in values:
        if value not in leaf_of:
            raise ConfigError(f"the domain's value {value:f} is no leaf")
    leaves = np.array([leaf_of[value] for value in values], dtype=np.int64)
    nodes = _nodes_of_cells(tree, tree.levels[:, leaves], codes_per_cell)
    lo = np.tile(np.arange(nodes.shape[1]), (len(nodes), 1))
    hi, inner = lo.copy(), nodes < tree.n_nodes
    used, at = np.unique(nodes[inner], return_inverse=True)
    first, last = _runs_of_values(tree, used, leaves)
    last[last == n_values - 1] = lo.shape[1] * codes_per_cell - 1  # the last cell may be a short one
    inside = (first % codes_per_cell != 0) | ((last + 1) % codes_per_cell != 0)
    if inside.any():
        raise ConfigError(
            f"the node {tree.labels[used[inside][0]]!r} ends within a cell of the grid;"
            " let the domain begin, and the grid be, so that nodes end where cells end"
        )
    lo[inner], hi[inner] = first[at] // codes_per_cell, last[at] // codes_per_cell
    return TableLevels(lo, hi)


def _nodes_of_cells(tree: Hierarchy, nodes: Ints, codes_per_cell: int) -> Ints:
    """The widest node of every cell at every level; nodes int64 (levels, values) -> (levels, cells).

    A cell of which no value has more than its leaf has a number of its own, from n_nodes on.
    """
    cell = np.arange(nodes.shape[1]) // codes_per_cell
    nodes = np.where(tree.node_lo[nodes] == tree.node_hi[nodes], tree.n_nodes + cell, nodes)
    nodes[0] = tree.n_nodes + cell
    widest = np.minimum.reduceat(nodes, np.arange(0, nodes.shape[1], codes_per_cell), axis=1)
    for below, here in pairwise(widest):
        here[:] = widest_by_class(below, here)
    return widest


def _runs_of_values(tree: Hierarchy, nodes: Ints, leaves: Ints) -> tuple[Ints, Ints]:
    """First and last value below every one of the nodes (m,), which has some; leaves int64 (values,): each one's leaf.

    Raises ConfigError for a node whose values are not next to each other.
    """
    n_values = len(leaves)
    smallest, largest = np.full(tree.n_leaves + 1, n_values), np.full(tree.n_leaves + 1, -1)
    smallest[leaves] = largest[leaves] = np.arange(n_values)
    ends = np.stack([tree.node_lo[nodes], tree.node_hi[nodes] + 1], axis=1).ravel()
    first = np.minimum.reduceat(smallest, ends)[::2] if len(nodes) else ends
    last = np.maximum.reduceat(largest, ends)[::2] if len(nodes) else ends
    n_below = np.concatenate([[0], np.cumsum(largest >= 0)])
    if (last - first + 1 != n_below[ends[1::2]] - n_below[ends[::2]]).any():
        raise ConfigError("a node holds values that are not next to each other")
    return first, last


def _leaves_by_number(tree: Hierarchy) -> dict[Decimal, int]:
    found: dict[Decimal, int] = {}
    for code, leaf in enumerate(tree.leaves):
        try:
            found[Decimal(leaf)] = code
        except ArithmeticError:
            raise ConfigError(f"the leaf {leaf!r} is no number, as the column's type wants") from None
    return found


def labels_beside_their_leaves(tree: Hierarchy) -> Iterator[tuple[str, str]]:
    """Leaves of a numeric hierarchy that the range in a label above them does not contain: (leaf, label).

    >>> list(labels_beside_their_leaves(Hierarchy.from_rows([["19", "15-19"], ["20", "15-19"], ["21", "20-24"]])))
    [('20', '15-19')]
    """
    for leaf, code in tree.code_of.items():
        for node in dict.fromkeys(tree.levels[1:, code].tolist()):
            ends = _RANGE.fullmatch(tree.labels[node])
            if ends and not Decimal(ends[1]) <= Decimal(leaf) <= Decimal(ends[2]):
                yield leaf, tree.labels[node]
