"""The lattice of level vectors, and what is known of its nodes.

A node is one level for every attribute, numbered in mixed radix: nodes in the order of their numbers are in
lexicographic order of their levels. The *ancestors* of a node are the nodes that are as high or higher in every
attribute, its *descendants* those as low or lower; *parents* and *children* are one level away in one attribute. Good
is monotone: the ancestors of a good node are good, the descendants of a bad one bad. So every test classifies a box of
nodes, and the top is good beforehand. The *minimal* nodes are good nodes without a good child; both papers that search
lattices keep a set from which ancestors are dropped, and this is the set that is left.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from math import prod
from operator import mul
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.jit import compiled
from streamer.table.arrays import Ints

Tags = npt.NDArray[np.int8]
Levels = npt.NDArray[np.int16]
Node = tuple[int, ...]
IsGood = Callable[[Node], bool]

UNKNOWN, GOOD, BAD = 0, 1, 2


class Shape(NamedTuple):
    """n_levels and strides of the numbers, int64 (d,); levels of every node, int16 (nodes, d)."""

    n_levels: Ints
    strides: Ints
    levels: Levels


class Marks(NamedTuple):
    """What is known of the nodes: tags int8 (nodes,); and what walks over them write down, int64 (nodes,).

    clear: the other corner of a box around the node in which nothing is unclassified any more; -1.
    """

    tags: Tags
    clear: Ints
    todo: Ints
    seen: Ints


class Lattice:
    """Which nodes are known to be good or bad; tested: how many were asked for.

    >>> lattice = Lattice((2, 3), lambda node: sum(node) >= 2)
    >>> lattice.is_good(lattice.number((0, 2))), lattice.n_unknown
    (True, 4)
    """

    def __init__(self, n_levels: Node, test: IsGood) -> None:
        strides = [*accumulate(reversed(n_levels[1:]), mul, initial=1)][::-1]
        self.n_nodes = self.n_unknown = prod(n_levels)
        self.shape = _shape(np.array(n_levels, dtype=np.int64), np.array(strides, dtype=np.int64), self.n_nodes)
        todo, seen = np.empty((2, self.n_nodes), dtype=np.int64)
        self.marks = Marks(np.zeros(self.n_nodes, dtype=np.int8), np.full(self.n_nodes, -1), todo, seen)
        self.tested = 0
        self._test = test
        self._tell(self.n_nodes - 1, True)

    @property
    def tags(self) -> Tags:
        """UNKNOWN, GOOD or BAD by number."""
        return self.marks.tags

    def number(self, node: Node) -> int:
        return int(np.dot(self.shape.strides, node))

    def node(self, number: int) -> Node:
        return tuple(self.shape.levels[number].tolist())

    def is_good(self, number: int) -> bool:
        """Whether the node is good: by what is known, else by a test."""
        if self.tags[number] == UNKNOWN:
            self.tested += 1
            self._tell(number, self._test(self.node(number)))
        return bool(self.tags[number] == GOOD)

    def _tell(self, number: int, good: bool) -> None:
        """Classifies a node, and its ancestors if it is good, its descendants if it is not."""
        self.n_unknown -= _classify(self.shape, self.marks, number, GOOD if good else BAD)

    def minimal(self) -> list[Node]:
        """The good nodes without a good child, in the order of their numbers."""
        numbers = np.flatnonzero(self.tags == GOOD)
        lowest = np.ones(len(numbers), dtype=np.bool_)
        for j, stride in enumerate(self.shape.strides):
            above = self.shape.levels[numbers, j] > 0
            lowest[above] &= self.tags[numbers[above] - stride] != GOOD
        return [self.node(number) for number in numbers[lowest].tolist()]


def _shape(n_levels: Ints, strides: Ints, n_nodes: int) -> Shape:
    levels, numbers = np.empty((n_nodes, len(strides)), dtype=np.int16), np.arange(n_nodes)
    for j, stride in enumerate(strides):
        levels[:, j] = numbers // stride % n_levels[j]
    return Shape(n_levels, strides, levels)


@compiled
def _classify(shape: Shape, marks: Marks, number: int, tag: int) -> int:
    """Tags an unclassified node, and what is unclassified above it (GOOD) or below it (BAD); returns how many.

    All of that can be reached over unclassified nodes: what lies between two of them is neither good nor bad.
    """
    tags, todo, step = marks.tags, marks.todo, 1 if tag == GOOD else -1
    tags[number], todo[0] = tag, number
    waiting, count = 1, 0
    while waiting > 0:
        waiting -= 1
        count += 1
        node = todo[waiting]
        for j in range(shape.strides.shape[0]):
            end = shape.n_levels[j] - 1 if tag == GOOD else 0
            if shape.levels[node, j] != end:
                other = node + step * shape.strides[j]
                if tags[other] == UNKNOWN:
                    tags[other], todo[waiting] = tag, other
                    waiting += 1
    return count
