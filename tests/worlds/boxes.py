"""Boxes of QI groups: in plain dicts that are scanned, and in the compiled core with its tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from streamer.incremental.core import search, tree
from streamer.incremental.core.layout import (
    CENTER,
    CENTER_HI,
    CENTER_LO,
    FIRST_CAPACITY,
    FLOOR,
    HALF,
    HALF_WIDTH,
    HI,
    HULL_HI,
    HULL_LO,
    LO,
    NCP,
    NONE,
    CoreTree,
    Shard,
    empty_shard,
)
from streamer.incremental.core.scores import set_shape
from streamer.incremental.core.tree import floor_changed, resized
from streamer.table.arrays import Floats, Ints
from streamer.table.hierarchy import Hierarchy
from streamer.table.space import FINENESS, Axis, Space
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


LOCATE, NEAREST, TOP, PUT, TAKE_OUT, RESIZED, FLOOR_CHANGED, BEGIN_AFFECTED, NEXT_AFFECTED = range(9)


def ask(s: Shard, question: int, g: int, count: int, cells: Ints) -> int:
    """Everything that the tree does, so that tests compile it once."""
    if question == LOCATE:
        return search.locate(s, cells)
    if question == NEAREST:
        return search.nearest(s, g)
    if question == TOP:
        search.top(s, g, count)
    elif question == PUT:
        set_shape(s.space, s.groups, g)
        tree.put(s, g)
    elif question == TAKE_OUT:
        tree.take_out(s, g)
    elif question == RESIZED:
        resized(s, g)
    elif question == FLOOR_CHANGED:
        floor_changed(s, g)
    elif question == BEGIN_AFFECTED:
        search.begin_affected(s, g)
    elif question == NEXT_AFFECTED:
        return search.next_affected(s, g)
    return NONE


ask_compiled = compiled_now(ask)


def roomy(array: Any, n: int) -> Any:
    """An array of zeros like another, for n things."""
    return np.zeros((n, *array.shape[1:]), array.dtype).view(type(array))


def roomy_shard(space: Space, n_groups: int) -> Shard:
    """A shard with room for n groups and as many lists, and for their tree."""
    s = empty_shard(space, k=2, recut=True, shrink=True, individuals=False)
    n = max(n_groups, FIRST_CAPACITY)
    group, box, shape, one, *parts = (roomy(a, n) for a in (*s.groups[:3], s.lists.one, *s.tree))
    return s._replace(
        groups=s.groups._replace(group=group, box=box, shape=shape),
        lists=s.lists._replace(one=one),
        tree=CoreTree(*parts),
    )


class ShardBoxes:
    """A shard's tree, and a scan of the same groups; a group's index is its number's in `indexes`."""

    def __init__(self, space: Space, n_groups: int = FIRST_CAPACITY, compiled: bool = False) -> None:
        self.space, self.s = space, roomy_shard(space, n_groups)
        self.twin = Scan(space)
        self.floors: dict[int, float] = {}
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
            group.node, group.list, group.number, group.alive = NONE, NONE, number, 1
        g = self.indexes[number]
        self.s.groups.box[g, LO], self.s.groups.box[g, HI] = lo, hi
        self.s.groups.group[g].members = size
        self.ask(PUT, number)
        self.twin.groups[number] = (lo, hi, size)

    def take_out(self, number: int) -> None:
        self.ask(TAKE_OUT, number)
        self._free.append(self.indexes.pop(number))
        del self.twin.groups[number]
        self.floors.pop(number, None)

    def resize(self, number: int, size: int) -> None:
        self.s.groups.group[self.indexes[number]].members = size
        self.ask(RESIZED, number)
        self.twin.groups[number] = (*self.twin.groups[number][:2], size)

    def set_floor(self, number: int, floor: float | None) -> None:
        """The group has a similarity list of this floor, or none."""
        g = self.indexes[number]
        self.s.groups.group[g].list = NONE if floor is None else g
        if floor is None:
            self.floors.pop(number, None)
        else:
            self.s.lists.one[g].floor = self.floors[number] = floor
        self.ask(FLOOR_CHANGED, number)

    # -- questions ------------------------------------------------------------------------------------------------

    def _leave_in_found(self, numbers: Sequence[int]) -> None:
        for i, number in enumerate(numbers):
            self.s.work.found[i].group = self.indexes[number]
        self.s.state[0].n_found = len(numbers)

    def found(self) -> list[tuple[int, float]]:
        records = self.s.work.found[: self.s.state[0].n_found]
        return [(int(self.s.groups.group[one.group].number), float(one.score)) for one in records]

    def locate(self, cells: list[int]) -> int | None:
        return self.number(self.ask(LOCATE, cells=cells))

    def nearest(self, number: int, seeds: Sequence[int] = ()) -> tuple[int, float] | None:
        self._leave_in_found(seeds)
        found = self.number(self.ask(NEAREST, number))
        return None if found is None else (found, self.found()[0][1])

    def top(self, number: int, count: int, seeds: Sequence[int] = ()) -> list[tuple[int, float]]:
        self._leave_in_found(seeds)
        self.ask(TOP, number, count)
        return self.found()

    def entered(self, number: int) -> dict[int, float]:
        found: dict[int, float] = {}
        self.ask(BEGIN_AFFECTED, number)
        while (other := self.number(self.ask(NEXT_AFFECTED, number))) is not None:
            found[other] = float(self.s.state[0].affected_score)
        return found

    # -- the same by scanning -------------------------------------------------------------------------------------

    def ranked(self, number: int) -> list[tuple[int, float]]:
        """All others, best first and equal ones by number."""
        scores = [(other, self.twin.qgssd(number, other)) for other in self.twin.groups if other != number]
        return sorted(scores, key=lambda one: (-one[1], one[0]))

    def entered_by_scan(self, number: int) -> dict[int, float]:
        scores = dict(self.ranked(number))
        return {
            other: scores[other] for other, floor in self.floors.items() if other != number and scores[other] > floor
        }

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
                floor = self.floors.get(int(self.s.groups.group[child].number), np.inf)
            else:
                hull, record = self.s.tree.hull[child], self.s.tree.node[child]
                ncp, floor = record.ncp, record.floor
            assert lanes[:, :, i].T.tolist() == hull.tolist()
            assert (ranks[NCP, i], ranks[FLOOR, i]) == (ncp, floor)

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
        assert known.group[record.lowest].number == min(numbers)
        assert record.floor == min(self.floors.get(number, np.inf) for number in numbers)


def some_box(world: ShardBoxes, random: np.random.Generator) -> Box:
    lo, hi = random_box(random, world.space)
    return lo.tolist(), hi.tolist()


def grown(name: str, n_groups: int, seed: int) -> tuple[ShardBoxes, np.random.Generator]:
    """Groups of two members with random boxes, numbered from 1; and the chance that made them."""
    world, random = ShardBoxes(SPACES[name]), np.random.default_rng(seed)
    for number in range(1, n_groups + 1):
        world.put(number, *some_box(world, random), 2)
    return world, random
