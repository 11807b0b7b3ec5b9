"""Boxes in blocks of neighbours, so that most of them never have to be looked at.

A block is up to `BLOCK_MAX` boxes that lie close together, one column each, and bounds (`groups.bounds`) on what any
of them can score: a question computes the bounds of all blocks and the scores of a few. A new box goes to the block
whose mean center is nearest. A full block is cut at the median of the attribute in which its boxes are spread widest,
one that fell below `BLOCK_MIN` is given away box by box, and a box whose center leaves the hull of its block's centers
is added anew. Which block a box is in depends on the history; no answer does. Inside, the numeric attributes stand
first, then the categories; sums still run in table.yaml order.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from streamer.incremental.groups.bounds import Bounds, sum_terms
from streamer.incremental.groups.similarity import Similarity, closeness, ssd
from streamer.table.arrays import Floats, Ints

BLOCK_MAX = 64
BLOCK_MIN = 12
STALE_MAX = 64
"""Changes of a block after which its bounds are made tight again."""

NOTHING: Floats = np.empty(0)


class Probe(NamedTuple):
    """What boxes are compared with: numbers (n, 1), nodes (c,), and the term each node of each tree gives, in a row."""

    value: Floats
    nodes: list[int]
    row: Floats


class Profile(NamedTuple):
    """One box as the blocks keep it: center of every attribute (d,), half-width (n,), node (c,), numbers first."""

    center: list[float]
    half: list[float]
    node: list[int]


class Blocks:
    """The boxes of one shard, in blocks. A box is named by its number in the index (`GroupIndex`)."""

    def __init__(self, similarity: Similarity) -> None:
        space = similarity.space
        numbers = [j for j in range(space.d) if not space.is_category[j]]
        self.attribute_of = [*numbers, *(j for j, _ in similarity.trees)]  # inner attribute -> attribute
        self._n = len(numbers)
        self._trees = [similar for _, similar in similarity.trees]
        starts = np.cumsum([0, *(similar.tree.n_nodes for similar in self._trees)])[:-1]
        self._node_start: Ints = starts.astype(np.int64)  # nodes are kept as positions in a probe's row
        self._order = [self.attribute_of.index(j) for j in range(space.d)]
        self._unit: Floats = space.unit_codes[numbers][:, None]
        self._reach: Floats = (space.n_cells * space.codes_per_cell)[self.attribute_of].astype(np.float64)
        self.bounds = Bounds(self._unit, self._trees, self._order)
        self.box: Ints = np.empty((0, BLOCK_MAX), dtype=np.int64)
        self._center: Floats = np.empty((0, space.d, BLOCK_MAX))
        self._half: Floats = np.empty((0, self._n, BLOCK_MAX))
        self._node: Ints = np.empty((0, space.d - self._n, BLOCK_MAX), dtype=np.int64)
        self._ncp: Floats = np.empty((0, BLOCK_MAX))
        self.absent: Floats = np.empty((0, BLOCK_MAX))  # 0 for a box, -inf where there is none
        self._mean: Floats = np.empty((space.d, 0))  # mean center, 0..1 of the domain; inf for an empty block
        self._count: list[int] = []
        self._stale: list[int] = []
        self._empty: list[int] = []
        self._where: dict[int, tuple[int, int]] = {}  # box -> block, column

    # -- questions ------------------------------------------------------------------------------------------------

    def tuple_probe(self, value: Floats, leaf_nodes: list[int]) -> Probe:
        """A tuple, numbers (n, 1) and nodes (c,), as it is compared with boxes by T-QGSSD."""
        rows = [tree.ssd_row(node) for tree, node in zip(self._trees, leaf_nodes, strict=True)]
        return Probe(value, leaf_nodes, np.concatenate([NOTHING, *rows]))

    def box_probe(self, box: int) -> Probe:
        """A box as it is compared with boxes by QGSSD."""
        block, column = self._where[box]
        nodes = (self._node[block, :, column] - self._node_start).tolist()
        rows = [tree.closeness_row(node) for tree, node in zip(self._trees, nodes, strict=True)]
        return Probe(self._center[block, : self._n, column][:, None], nodes, np.concatenate([NOTHING, *rows]))

    def t_qgssd(self, probe: Probe, block: Ints) -> Floats:
        """T-QGSSD of a tuple to the boxes of blocks; (blocks, BLOCK_MAX), -inf where there is none."""
        terms = ssd(probe.value, self._center[block, : self._n], self._half[block])
        return self._sum(terms, probe.row.take(self._node[block])) + self.absent[block]

    def qgssd(self, probe: Probe, block: Ints) -> Floats:
        """QGSSD of a box to the boxes of blocks; (blocks, BLOCK_MAX), -inf where there is none."""
        terms = closeness(probe.value, self._center[block, : self._n], self._unit)
        return self._sum(terms, probe.row.take(self._node[block])) + self.absent[block]

    def columns_of(self, boxes: Ints) -> tuple[Ints, Floats, Ints]:
        """Of some boxes: blocks (m,), centers (n, m), nodes (c, m) as positions in a probe's row; for `qgssd_to`."""
        at = [self._where[box] for box in boxes.tolist()]
        block, column = np.array(at, dtype=np.int64).reshape(-1, 2).T
        return block, self._center[block, : self._n, column].T.copy(), self._node[block, :, column].T.copy()

    def qgssd_to(self, probe: Probe, center: Floats, node: Ints) -> Floats:
        """QGSSD of a box to boxes given by `columns_of`; (m,)."""
        return self._sum(closeness(probe.value, center, self._unit), probe.row.take(node))

    def _sum(self, numbers: Floats, categories: Floats) -> Floats:
        terms = [numbers[..., i, :] for i in range(self._n)]
        terms += [categories[..., i, :] for i in range(len(self._trees))]
        return sum_terms(terms, self._order)

    def where(self, box: int) -> tuple[int, int]:
        """Block and column of a box."""
        return self._where[box]

    # -- boxes come, change and go --------------------------------------------------------------------------------

    def add(self, box: int, profile: Profile, ncp: float) -> None:
        """A new box."""
        center = np.array(profile.center) / self._reach
        block = self._fitting(center)
        if self._count[block] == BLOCK_MAX:
            halves = [block, self._cut(block)]
            block = halves[int(np.abs(self._mean[:, halves] - center[:, None]).sum(axis=0).argmin())]
        column = self._count[block]
        self._count[block] += 1
        self._where[box] = block, column
        self.box[block, column] = box
        self._center[block, :, column] = profile.center
        self._half[block, :, column] = profile.half
        self._node[block, :, column] = self._node_start + profile.node
        self._ncp[block, column] = ncp
        self.absent[block, column] = 0.0
        for i in range(self._n):
            self.bounds.raise_number(block, i, profile.center[i], profile.half[i])
        for i, node in enumerate(profile.node):
            self.bounds.raise_node(block, i, node)
        self._touched(block, ncp)

    def change(self, box: int, profile: Profile, attributes: list[int], ncp: float) -> None:
        """A box that differs in some inner attributes from what it was."""
        block, column = self._where[box]
        numbers = [i for i in attributes if i < self._n]
        if not all(self.bounds.spans(block, i, profile.center[i]) for i in numbers):
            self.remove(box)
            self.add(box, profile, ncp)
            return
        for i in attributes:
            self._center[block, i, column] = profile.center[i]
        for i in numbers:
            self._half[block, i, column] = profile.half[i]
            self.bounds.raise_number(block, i, profile.center[i], profile.half[i])
        for i in attributes:
            if i >= self._n:
                node = profile.node[i - self._n]
                self._node[block, i - self._n, column] = self._node_start[i - self._n] + node
                self.bounds.raise_node(block, i - self._n, node)
        self._ncp[block, column] = ncp
        self._touched(block, ncp)

    def remove(self, box: int) -> None:
        """The box is gone."""
        block, column = self._where.pop(box)
        last = self._count[block] - 1
        if column != last:
            self._move(block, last, column)
        self._count[block] = last
        self.absent[block, last] = -inf
        self._touched(block, inf)
        if last == 0 or (last < BLOCK_MIN and len(self._count) - len(self._empty) > 1):
            self._give_away(block)

    def _move(self, block: int, source: int, target: int) -> None:
        for part in (self._center, self._half, self._node):
            part[block, :, target] = part[block, :, source]
        self._ncp[block, target] = self._ncp[block, source]
        box = int(self.box[block, source])
        self.box[block, target] = box
        self._where[box] = block, target

    def _touched(self, block: int, ncp: float) -> None:
        self.bounds.raise_ncp(block, ncp)
        self._stale[block] += 1
        if self._stale[block] >= STALE_MAX:
            self._rebuild(block)

    # -- blocks come and go ---------------------------------------------------------------------------------------

    def _fitting(self, center: Floats) -> int:
        """The block whose mean center is nearest to a center (d,), both in 0..1 of the domain."""
        if len(self._empty) == len(self._count):
            return self._new_block()
        return int(np.abs(self._mean - center[:, None]).sum(axis=0).argmin())

    def _rebuild(self, block: int) -> None:
        n = self._count[block]
        center = self._center[block, :, :n]
        self._stale[block] = 0
        self._mean[:, block] = center.mean(axis=1) / self._reach if n else inf
        half, ncp = self._half[block, :, :n], self._ncp[block, :n]
        node = self._node[block, :, :n] - self._node_start[:, None]
        self.bounds.rebuild(block, center[: self._n], half, node, ncp)

    def _new_block(self) -> int:
        if not self._empty:
            self._grow()
        block = self._empty.pop()
        self._mean[:, block] = 0.5
        return block

    def _cut(self, block: int) -> int:
        """Moves the upper half in the widest attribute to a new block."""
        other = self._new_block()
        center = self._center[block] / self._reach[:, None]
        rank = center[center.std(axis=1).argmax()].argsort(kind="stable")
        half = BLOCK_MAX // 2
        for part in (self._center, self._half, self._node):
            part[other, :, :half] = part[block][:, rank[half:]]
            part[block, :, :half] = part[block][:, rank[:half]]
        for flat in (self._ncp, self.box):
            flat[other, :half] = flat[block, rank[half:]]
            flat[block, :half] = flat[block, rank[:half]]
        for each in (block, other):
            self._count[each] = half
            self.absent[each, :half], self.absent[each, half:] = 0.0, -inf
            self._where.update((box, (each, column)) for column, box in enumerate(self.box[each, :half].tolist()))
            self._rebuild(each)
        return other

    def _give_away(self, block: int) -> None:
        """Empties a block into those around it."""
        n = self._count[block]
        boxes = self.box[block, :n].tolist()
        profiles = [
            Profile(
                self._center[block, :, column].tolist(),
                self._half[block, :, column].tolist(),
                (self._node[block, :, column] - self._node_start).tolist(),
            )
            for column in range(n)
        ]
        ncps = self._ncp[block, :n].tolist()
        self._count[block] = 0
        self.absent[block] = -inf
        self._rebuild(block)
        self._empty.append(block)
        for box, profile, ncp in zip(boxes, profiles, ncps, strict=True):
            self.add(box, profile, ncp)

    def _grow(self) -> None:
        before = len(self._count)
        more = max(4, before // 2)
        self._empty.extend(range(before + more - 1, before - 1, -1))
        self._count += [0] * more
        self._stale += [0] * more
        self.box = np.concatenate([self.box, np.zeros((more, BLOCK_MAX), dtype=np.int64)])
        self._ncp = np.concatenate([self._ncp, np.zeros((more, BLOCK_MAX))])
        self.absent = np.concatenate([self.absent, np.full((more, BLOCK_MAX), -inf)])
        self._center = np.concatenate([self._center, np.zeros((more, *self._center.shape[1:]))])
        self._half = np.concatenate([self._half, np.ones((more, *self._half.shape[1:]))])
        self._node = np.concatenate([self._node, np.zeros((more, *self._node.shape[1:]), dtype=np.int64)])
        self._mean = np.hstack([self._mean, np.full((len(self._mean), more), inf)])
        self.bounds.grow(before + more)
