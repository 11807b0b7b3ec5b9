"""Spaces of every kind of attribute, boxes in them, and a twin of the index that scans every QI group."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from streamer.table.arrays import Ints
from streamer.table.hierarchy import Hierarchy
from streamer.table.space import FINENESS, Axis, Space

Cells = list[int]
Box = tuple[Cells, Cells]

FLAT = Hierarchy.from_rows([(leaf, "*") for leaf in "abc"])
SINGLE = Hierarchy.from_rows([("only", "*")])
DEEP = Hierarchy.from_rows(
    [("a", "ab", "abc", "*"), ("b", "ab", "abc", "*"), ("c", "abc", "*"), ("d", "de", "*"), ("e", "de", "*")]
)


def number_axis(codes_per_cell: int, n_cells: int, cut: int = 0, unit: float = 1.0) -> Axis:
    """A stepped attribute whose last cell is `cut` codes short."""
    return Axis(codes_per_cell, n_cells, True, float(codes_per_cell * n_cells - 1 - cut), unit, None)


def decimal_axis(cells: float, unit: float = FINENESS / 2) -> Axis:
    return Axis(FINENESS, int(np.ceil(cells)), False, cells * FINENESS, unit, None)


def tree_axis(tree: Hierarchy, unit: float = 1.0) -> Axis:
    return Axis(1, tree.n_leaves, True, float(tree.n_leaves), unit, tree)


SPACES = {
    "one number": Space([number_axis(2, 6)]),
    "one category": Space([tree_axis(DEEP, 0.4)]),
    "one decimal": Space([decimal_axis(10 / 3)]),
    "one value only": Space([number_axis(1, 1), tree_axis(SINGLE)]),
    "numbers": Space([number_axis(1, 5), number_axis(3, 4, cut=2, unit=2.5)]),
    "categories": Space([tree_axis(FLAT), tree_axis(DEEP, 2.0), tree_axis(SINGLE)]),
    "mixed": Space([tree_axis(DEEP), number_axis(2, 3), tree_axis(FLAT, 0.6), decimal_axis(2.5), number_axis(1, 2)]),
}


class Twin:
    """Definitions 6 and 7 of Song et al. 2009 and the tie rule, number by number over all QI groups."""

    def __init__(self, space: Space) -> None:
        self.axes = space.axes
        self.groups: dict[int, tuple[Cells, Cells, int]] = {}

    def locate(self, cells: Cells) -> int:
        inside = [
            number
            for number, (lo, hi, _) in self.groups.items()
            if all(a <= cell <= b for a, cell, b in zip(lo, cells, hi, strict=True))
        ]
        if inside:
            return min(inside, key=self.worth)
        scores = {number: self.t_qgssd(cells, number) for number in self.groups}
        return min(self.groups, key=lambda number: (-scores[number], self.worth(number)))

    def nearest(self, number: int) -> tuple[int, float] | None:
        scores = {other: self.qgssd(number, other) for other in self.groups if other != number}
        if not scores:
            return None
        first = min(scores, key=lambda other: (-scores[other], self.worth(other)))
        return first, scores[first]

    def worth(self, number: int) -> tuple[float, int, int]:
        lo, hi, members = self.groups[number]
        return self.ncp(lo, hi), members, number

    def ncp(self, lo: Cells, hi: Cells) -> float:
        total = 0.0
        for a, b, axis in zip(lo, hi, self.axes, strict=True):
            first, last = self.edges(axis, a, b)
            span = last - first + (axis.hierarchy is not None and b > a)
            total += span / axis.width_codes if axis.width_codes else 0.0
        return total

    def t_qgssd(self, cells: Cells, number: int) -> float:
        total = 0.0
        for cell, axis, lo, hi in zip(cells, self.axes, *self.groups[number][:2], strict=True):
            total += self.ssd(axis, cell, lo, hi)
        return total

    def ssd(self, axis: Axis, cell: int, lo: int, hi: int) -> float:
        if lo <= cell <= hi:
            return 1.0
        if axis.hierarchy is not None:
            return (hi - lo + 1) / self.leaves(axis.hierarchy, min(lo, cell), max(hi, cell))
        first, last = self.edges(axis, lo, hi)
        center = (first + last) / 2
        return max(last - center, center - first, 0.5) / abs(sum(self.edges(axis, cell, cell)) / 2 - center)

    def qgssd(self, one: int, other: int) -> float:
        total = 0.0
        for axis, *ends in zip(self.axes, *self.groups[one][:2], *self.groups[other][:2], strict=True):
            total += 1 / max(self.distance(axis, *ends), 0.5)
        return total

    def distance(self, axis: Axis, lo1: int, hi1: int, lo2: int, hi2: int) -> float:
        if axis.hierarchy is not None:
            both = self.leaves(axis.hierarchy, min(lo1, lo2), max(hi1, hi2))
            return (both - ((hi1 - lo1 + 1) + (hi2 - lo2 + 1)) / 2) / axis.unit_codes
        return abs(sum(self.edges(axis, lo1, hi1)) / 2 - sum(self.edges(axis, lo2, hi2)) / 2) / axis.unit_codes

    @staticmethod
    def edges(axis: Axis, lo: int, hi: int) -> tuple[float, float]:
        last = (hi + 1) * axis.codes_per_cell - (1 if axis.closed else 0)
        return float(lo * axis.codes_per_cell), min(float(last), axis.width_codes)

    @staticmethod
    def leaves(tree: Hierarchy, lo: int, hi: int) -> int:
        first, last = tree.cover(lo, hi)
        return last - first + 1


@st.composite
def tuples(draw: st.DrawFn, space: Space) -> Cells:
    """Cells of a tuple."""
    return [draw(st.integers(0, axis.n_cells - 1)) for axis in space.axes]


@st.composite
def boxes(draw: st.DrawFn, space: Space) -> Box:
    """A publishable box as two lists of cells."""
    los, his = [], []
    for axis in space.axes:
        lo, hi = sorted(draw(st.tuples(*[st.integers(0, axis.n_cells - 1)] * 2)))
        if axis.hierarchy is not None:
            lo, hi = axis.hierarchy.cover(lo, hi)
        los.append(lo)
        his.append(hi)
    return los, his


def random_box(random: np.random.Generator, space: Space) -> tuple[Ints, Ints]:
    lo = random.integers(0, space.n_cells)
    hi = np.minimum(lo + random.geometric(0.5, space.d) - 1, space.n_cells - 1)
    return space.generalize(lo, hi)


def random_cells(random: np.random.Generator, space: Space) -> Ints:
    return random.integers(0, space.n_cells)
