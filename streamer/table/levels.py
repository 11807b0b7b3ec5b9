"""The generalization levels of one attribute: how full-domain recoding coarsens all its values alike.

Level 0 publishes the cell itself, the last level the whole domain; what one level publishes as one value, every higher
level does too. Categories have the columns of the hierarchy's file as levels (`Hierarchy.levels`), numbers without a
hierarchy runs of 2, 4, 8 ... cells, counted from the domain's start. Numbers with a hierarchy of their own have its
columns. Of these only the leaves count: they must name every value of the domain, and every node must be a run of
values and end where cells end; a label that does not contain its leaf (`20` under `15-19`) names the same interval of
leaves and is a warning, because the interval that is published is made from the leaves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Protocol

import numpy as np

from streamer.errors import ConfigError
from streamer.table.arrays import Ints
from streamer.table.hierarchy import Hierarchy

VALUES_MAX = 1_000_000
"""Values of a numeric domain that may have a hierarchy: its file has a line for each."""

_RANGE = re.compile(r"\s*\[?\(?\s*(-?\d+(?:\.\d+)?)\s*(?:-|–|,|;|\.\.|to)\s*(-?\d+(?:\.\d+)?)\s*\]?\)?\s*")


class Levels(Protocol):
    """How many levels there are, and what each makes of cells."""

    n_levels: int

    def recode(self, level: int, cells: Ints) -> tuple[Ints, Ints]:
        """First and last cell of the value that `level` publishes for each of `cells`; int64, their shape."""


class TableLevels:
    """Levels looked up by cell; lo and hi: int64 (levels, cells)."""

    def __init__(self, lo: Ints, hi: Ints) -> None:
        self.lo, self.hi = lo, hi
        self.n_levels = len(lo)

    def recode(self, level: int, cells: Ints) -> tuple[Ints, Ints]:
        return self.lo[level][cells], self.hi[level][cells]


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
    nodes = tree.levels[:, [leaf_of[value] for value in values]]
    first = np.array([_run_starts(row) for row in nodes])
    last = n_values - 1 - np.array([_run_starts(row[::-1]) for row in nodes])[:, ::-1]
    cells = np.arange(0, n_values, codes_per_cell)
    lo, hi = first // codes_per_cell, last // codes_per_cell
    inside = (first % codes_per_cell != 0) | ((last + 1) % codes_per_cell != 0) & (last < n_values - 1)
    inside[0] = False  # the leaves themselves: a cell has several of them
    if inside.any():
        level, leaf = (int(i) for i in np.argwhere(inside)[0])
        raise ConfigError(
            f"the node {tree.labels[nodes[level, leaf]]!r} ends within a cell of the grid;"
            " let the domain begin, and the grid be, so that nodes end where cells end"
        )
    lo[0] = hi[0] = np.arange(n_values) // codes_per_cell
    return TableLevels(lo[:, cells], hi[:, cells])


def _leaves_by_number(tree: Hierarchy) -> dict[Decimal, int]:
    found: dict[Decimal, int] = {}
    for code, leaf in enumerate(tree.leaves):
        try:
            found[Decimal(leaf)] = code
        except ArithmeticError:
            raise ConfigError(f"the leaf {leaf!r} is no number, as the column's type wants") from None
    return found


def _run_starts(nodes: Ints) -> Ints:
    """Where the run of each value's node begins. Raises ConfigError where a node comes in two runs."""
    begins = np.flatnonzero(np.diff(nodes, prepend=-1))
    if len(np.unique(nodes[begins])) < len(begins):
        raise ConfigError("a node holds values that are not next to each other")
    return begins[np.searchsorted(begins, np.arange(len(nodes)), side="right") - 1]


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
