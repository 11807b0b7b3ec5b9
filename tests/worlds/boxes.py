"""Boxes of QI groups: in plain dicts that are scanned, and in the compiled core with its tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from streamer.incremental.core import search, tree
from streamer.incremental.core.layout import (
    CENTER,
    CENTER_HI,
    CENTER_LO,
    FIRST_CAPACITY,
    HALF,
    HALF_WIDTH,
    HI,
    HULL_HI,
    HULL_LO,
    LENGTH,
    LO,
    NONE,
    CoreTree,
    Shard,
    empty_shard,
)
from streamer.incremental.core.scores import set_shape
from streamer.incremental.core.tree import resized
from streamer.table.arrays import Floats, Ints
from streamer.table.hierarchy import Hierarchy
from streamer.table.space import FINENESS, NO_BOUND, Axis, Space
from worlds.native import compiled_now
from worlds.twin import Scan

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


def ruled(axis: Axis, weight: float, cells_max: int = NO_BOUND, level_max: int | None = None) -> Axis:
    """The axis with a weight, and the widest that may be published."""
    return replace(axis, weight=weight, cells_max=cells_max, level_max=level_max)


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
    "weighted": Space([ruled(tree_axis(DEEP), 0.3), ruled(number_axis(2, 3), 7.0), decimal_axis(2.5)]),
    "bounded": Space(
        [
            ruled(tree_axis(DEEP), 0.7, level_max=1),
            ruled(number_axis(1, 5), 1.3, 3),
            ruled(decimal_axis(10 / 3), 1.0, 1),
        ]
    ),
}


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


LOCATE, NEAREST, NEIGHBOURS, PUT, TAKE_OUT, RESIZED = range(6)


def ask(s: Shard, question: int, g: int, count: int, cells: Ints) -> int:
    """Everything that the tree does, so that tests compile it once."""
    if question == LOCATE:
        return search.locate(s, cells)
    if question == NEAREST:
        return search.nearest(s, g)
    if question == NEIGHBOURS:
        search.neighbours(s, g, count)
    elif question == PUT:
        set_shape(s.space, s.groups, g)
        tree.put(s, g)
    elif question == TAKE_OUT:
        tree.take_out(s, g)
    elif question == RESIZED:
        resized(s, g)
    return NONE


ask_compiled = compiled_now(ask)


def roomy(array: Any, n: int) -> Any:
    """An array of zeros like another, for n things."""
    return np.zeros((n, *array.shape[1:]), array.dtype).view(type(array))


def roomy_shard(space: Space, n_groups: int) -> Shard:
    """A shard with room for n groups and their tree."""
    s = empty_shard(space, k=2, recut=True, shrink=True, individuals=False)
    n = max(n_groups, FIRST_CAPACITY)
    group, box, shape, *parts = (roomy(a, n) for a in (*s.groups[:3], *s.tree))
    near = np.full((n, LENGTH), NONE, np.int32)
    return s._replace(groups=s.groups._replace(group=group, box=box, shape=shape, near=near), tree=CoreTree(*parts))


class ShardBoxes:
    """A shard's tree, and a scan of the same groups; a group's index is its number's in `indexes`."""

    def __init__(self, space: Space, n_groups: int = FIRST_CAPACITY, compiled: bool = False) -> None:
        self.space, self.s = space, roomy_shard(space, n_groups)
        self.twin = Scan(space)
        self.indexes: dict[int, int] = {}
        self._free = list(range(n_groups - 1, -1, -1))
        self._ask = ask_compiled if compiled else ask

    def number(self, g: int) -> int | None:
        return None if g == NONE else int(self.s.groups.group[g].number)

    def ask(self, question: int, number: int = NONE, count: int = 0, cells: Any = ()) -> int:
        g = self.indexes.get(number, NONE)
        return int(self._ask(self.s, question, g, count, np.array(cells, dtype=np.int32)))

    # -- boxes come, change and go --------------------------------------------------------------------------------

    def put(self, number: int, lo: list[int], hi: list[int], size: int) -> None:
        if number not in self.indexes:
            g = self.indexes[number] = self._free.pop()
            group = self.s.groups.group[g]
            group.node, group.number, group.alive = NONE, number, 1
        g = self.indexes[number]
        self.s.groups.box[g, LO], self.s.groups.box[g, HI] = lo, hi
        self.s.groups.group[g].members = size
        self.ask(PUT, number)
        self.twin.groups[number] = (lo, hi, size)

    def take_out(self, number: int) -> None:
        self.ask(TAKE_OUT, number)
        self._free.append(self.indexes.pop(number))
        self.s.groups.group[self._free[-1]].alive = 0
        del self.twin.groups[number]

    def resize(self, number: int, size: int) -> None:
        self.s.groups.group[self.indexes[number]].members = size
        self.ask(RESIZED, number)
        self.twin.groups[number] = (*self.twin.groups[number][:2], size)

    # -- questions ------------------------------------------------------------------------------------------------

    def locate(self, cells: list[int]) -> int | None:
        return self.number(self.ask(LOCATE, cells=cells))

    def nearest(self, number: int) -> int | None:
        return self.number(self.ask(NEAREST, number))

    def neighbours(self, number: int, count: int) -> list[int]:
        self.ask(NEIGHBOURS, number, count)
        found = self.s.work.found[: self.s.state[0].n_found]
        return [int(self.s.groups.group[one.group].number) for one in found]

    def listed(self, number: int) -> list[int]:
        """The groups in the similarity list of one."""
        near = self.s.groups.near[self.indexes[number]]
        return [int(self.s.groups.group[g].number) for g in near if g != NONE]

    def list_any(self, number: int, random: np.random.Generator) -> None:
        """Writes any list: groups that are there, that are gone, twice, its own, or none."""
        indexes = [*self.indexes.values(), *self._free[-3:], NONE]
        self.s.groups.near[self.indexes[number]] = random.choice(indexes, LENGTH)

    # -- the tree -------------------------------------------------------------------------------------------------

    def check_tree(self) -> None:
        """Every node knows exactly what its groups are, and all name each other."""
        root, free = int(self.s.state[0].root), self._free_nodes()
        groups = self._check_node(root, NONE, free) if root != NONE else []
        assert sorted(groups) == sorted(self.indexes.values())
        assert len(free) + self._visited == self.s.state[0].nodes_used

    def _free_nodes(self) -> set[int]:
        self._visited = 0
        free, node = set(), int(self.s.state[0].node_free)
        while node != NONE:
            assert node not in free
            free.add(node)
            node = int(self.s.tree.node[node].parent)
        return free

    def _check_node(self, node: int, parent: int, free: set[int]) -> list[int]:
        self._visited += 1
        record = self.s.tree.node[node]
        children = [int(child) for child in self.s.tree.child[node, : record.n]]
        assert node not in free and record.parent == parent and children
        if record.leaf:
            assert all(self.s.groups.group[g].node == node for g in children)
            groups = children
        else:
            groups = [g for child in children for g in self._check_node(child, node, free)]
            assert len({int(self.s.tree.node[child].leaf) for child in children}) == 1
        self._check_figures(node, groups)
        self._check_lanes(node, children)
        return groups

    def _check_lanes(self, node: int, children: list[int]) -> None:
        lanes, ranks = self.s.tree.lane[node], self.s.tree.rank[node]
        for i, child in enumerate(children):
            if self.s.tree.node[node].leaf:
                hull, ncp = self._hull([child]), self.s.groups.group[child].ncp
            else:
                hull, ncp = self.s.tree.hull[child], self.s.tree.node[child].ncp
            assert lanes[:, :, i].T.tolist() == hull.tolist()
            assert ranks[i] == ncp

    def _hull(self, groups: list[int]) -> Floats:
        known = self.s.groups
        center = known.shape[groups, CENTER].astype(np.float64)
        half = known.shape[groups, HALF_WIDTH].astype(np.float64)
        lo, hi = center - half, center + half
        if not self.s.state[0].exact:
            lo, hi = np.nextafter(lo, -np.inf), np.nextafter(hi, np.inf)
        category = self.space.is_category
        hull = np.empty((5, self.space.d))
        hull[HULL_LO] = np.where(category, known.box[groups, LO], lo).min(axis=0)
        hull[HULL_HI] = np.where(category, known.box[groups, HI], hi).max(axis=0)
        hull[HALF] = half.max(axis=0)
        hull[CENTER_LO], hull[CENTER_HI] = center.min(axis=0), center.max(axis=0)
        return hull

    def _check_figures(self, node: int, groups: list[int]) -> None:
        record, known = self.s.tree.node[node], self.s.groups
        assert self.s.tree.hull[node].tolist() == self._hull(groups).tolist()
        numbers = [int(number) for number in known.group[groups].number]
        assert known.group[record.first].number == min(numbers, key=self.twin.tie)
        assert record.ncp == known.group[record.first].ncp
        assert record.withheld == self.smallest_withheld(groups)

    def smallest_withheld(self, groups: Iterable[int]) -> int:
        """Of these groups the withheld one that wins ties, or NONE."""
        box, group = self.s.groups.box, self.s.groups.group
        withheld = [g for g in groups if self.space.is_bounded and self.space.too_wide(box[g, LO], box[g, HI])]
        return min(withheld, key=lambda g: self.twin.tie(int(group[g].number)), default=NONE)


def some_box(world: ShardBoxes, random: np.random.Generator) -> Box:
    lo, hi = random_box(random, world.space)
    return lo.tolist(), hi.tolist()


def grown(name: str, n_groups: int, seed: int) -> tuple[ShardBoxes, np.random.Generator]:
    """Groups of two members with random boxes, numbered from 1; and the chance that made them."""
    world, random = ShardBoxes(SPACES[name]), np.random.default_rng(seed)
    for number in range(1, n_groups + 1):
        world.put(number, *some_box(world, random), 2)
    return world, random
