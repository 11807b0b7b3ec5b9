"""The lattice of level vectors, what is known of its nodes, and the two orders in which nodes are tested.

A node is one level for every attribute, numbered in mixed radix: nodes in the order of their numbers are in
lexicographic order of their levels. The *ancestors* of a node are the nodes that are as high or higher in every
attribute, its *descendants* those as low or lower; *parents* and *children* are one level away in one attribute. Good
is monotone: the ancestors of a good node are good, the descendants of a bad one bad. So every test classifies a box of
nodes (`Lattice.tell`), no search tests a classified node, and the top is good beforehand. A search ends when all nodes
are classified. The *minimal* nodes are good nodes without a good child; both papers keep a set from which ancestors
are dropped, and this is the set that is left.

`ola_search` is Kmin of El Emam et al. 2009. The nodes at half the height (rounded down) of a sublattice are visited in
lexicographic order; below a good node the search goes on at once in what lies between it and the bottom, above a bad
one in what lies between it and the top. A sublattice with nothing left to classify is skipped.

`degree_first_search` is section 3 of Hu et al. 2011; a node's degree product is parents x children. The paper computes
it first and then deletes nodes; here it counts the parents and children that are not yet deleted. (Counted once in the
whole lattice, nearly all nodes have the same product, and the rule decides nothing.) Ties, of which the paper says
nothing: most ancestors x descendants in the whole lattice, then the lowest number.
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
Node = tuple[int, ...]
IsGood = Callable[[Node], bool]

UNKNOWN, GOOD, BAD = 0, 1, 2


class _Shape(NamedTuple):
    """n_levels and strides of the numbers; int64 (d,)."""

    n_levels: Ints
    strides: Ints


class Lattice:
    """Which nodes are known to be good or bad; tested: how many were asked for.

    >>> lattice = Lattice((2, 3), lambda node: sum(node) >= 2)
    >>> lattice.is_good(lattice.number((0, 2))), lattice.n_unknown
    (True, 4)
    """

    def __init__(self, n_levels: Node, test: IsGood) -> None:
        strides = [*accumulate(reversed(n_levels[1:]), mul, initial=1)][::-1]
        self.shape = _Shape(np.array(n_levels, dtype=np.int64), np.array(strides, dtype=np.int64))
        self.n_nodes = self.n_unknown = prod(n_levels)
        self.tags: Tags = np.zeros(self.n_nodes, dtype=np.int8)
        self.degrees = _degrees(self.shape, self.n_nodes)
        self.tested = 0
        self._test = test
        self.tell(self.n_nodes - 1, True)

    def number(self, node: Node) -> int:
        return int(np.dot(self.shape.strides, node))

    def node(self, number: int) -> Node:
        return tuple((number // self.shape.strides % self.shape.n_levels).tolist())

    def is_good(self, number: int) -> bool:
        """Whether the node is good: by what is known, else by a test."""
        if self.tags[number] == UNKNOWN:
            self.tested += 1
            self.tell(number, self._test(self.node(number)))
        return bool(self.tags[number] == GOOD)

    def tell(self, number: int, good: bool) -> None:
        """Classifies a node, and its ancestors if it is good, its descendants if it is not."""
        lo, hi = (number, self.n_nodes - 1) if good else (0, number)
        self.n_unknown -= _classify(self.shape, self.tags, self.degrees, lo, hi, GOOD if good else BAD)

    def minimal(self) -> list[Node]:
        """The good nodes without a good child, in the order of their numbers."""
        numbers = np.flatnonzero(self.tags == GOOD)
        lowest = np.ones(len(numbers), dtype=np.bool_)
        for stride, n_levels in zip(self.shape.strides, self.shape.n_levels, strict=True):
            above = numbers // stride % n_levels > 0
            lowest[above] &= self.tags[numbers[above] - stride] != GOOD
        return [self.node(number) for number in numbers[lowest].tolist()]


def ola_search(lattice: Lattice) -> None:
    """Classifies all nodes by binary search in sublattices (El Emam et al. 2009, figure 3)."""
    _kmin(lattice, 0, lattice.n_nodes - 1)


def _kmin(lattice: Lattice, bottom: int, top: int) -> None:
    if not _has_unknown(lattice.shape, lattice.tags, bottom, top):
        return
    middle = _middle(lattice.shape, bottom, top)
    if middle[0] == bottom:  # two nodes at most, and the upper one is good
        lattice.is_good(bottom)
        return
    for number in middle.tolist():
        if lattice.is_good(number):
            _kmin(lattice, bottom, number)
        else:
            _kmin(lattice, number, top)


def degree_first_search(lattice: Lattice) -> None:
    """Classifies all nodes, always the unclassified one of highest degree product next (Hu et al. 2011, section 3)."""
    reach = _reach(lattice.shape, lattice.n_nodes)
    while lattice.n_unknown:
        lattice.is_good(_highest(lattice.tags, lattice.degrees, reach))


def _degrees(shape: _Shape, n_nodes: int) -> Ints:
    """Parents and children of every node; int64 (2, nodes)."""
    degrees, numbers = np.zeros((2, n_nodes), dtype=np.int64), np.arange(n_nodes)
    for stride, n_levels in zip(shape.strides, shape.n_levels, strict=True):
        level = numbers // stride % n_levels
        degrees[0] += level < n_levels - 1
        degrees[1] += level > 0
    return degrees


def _reach(shape: _Shape, n_nodes: int) -> Ints:
    """Ancestors x descendants of every node in the whole lattice, itself among both; int64 (nodes,)."""
    reach, numbers = np.ones(n_nodes, dtype=np.int64), np.arange(n_nodes)
    for stride, n_levels in zip(shape.strides, shape.n_levels, strict=True):
        level = numbers // stride % n_levels
        reach *= (n_levels - level) * (level + 1)
    return reach


@compiled
def _highest(tags: Tags, degrees: Ints, reach: Ints) -> int:
    """The unclassified node of highest degree product, then reach, then lowest number; -1 where there is none."""
    best, product, its_reach = -1, -1, -1
    for number in range(tags.shape[0]):
        if tags[number] == UNKNOWN:
            here = degrees[0, number] * degrees[1, number]
            if here > product or (here == product and reach[number] > its_reach):
                best, product, its_reach = number, here, reach[number]
    return best


@compiled
def _next_in_box(shape: _Shape, lo: int, hi: int, number: int) -> int:
    """The number after this one in the box of nodes from lo to hi; -1 after the last."""
    for j in range(shape.strides.shape[0] - 1, -1, -1):
        stride, n_levels = shape.strides[j], shape.n_levels[j]
        level = number // stride % n_levels
        if level < hi // stride % n_levels:
            return int(number + stride)
        number -= (level - lo // stride % n_levels) * stride
    return -1


@compiled
def _classify(shape: _Shape, tags: Tags, degrees: Ints, lo: int, hi: int, tag: int) -> int:
    """Tags the unclassified nodes of a box and takes them out of their neighbours' degrees; returns how many."""
    count, number = 0, lo
    while number >= 0:
        if tags[number] == UNKNOWN:
            tags[number] = tag
            count += 1
            for j in range(shape.strides.shape[0]):
                stride, n_levels = shape.strides[j], shape.n_levels[j]
                level = number // stride % n_levels
                if level > 0:
                    degrees[0, number - stride] -= 1
                if level < n_levels - 1:
                    degrees[1, number + stride] -= 1
        number = _next_in_box(shape, lo, hi, number)
    return count


@compiled
def _has_unknown(shape: _Shape, tags: Tags, lo: int, hi: int) -> bool:
    """Whether the box has an unclassified node."""
    number = lo
    while number >= 0:
        if tags[number] == UNKNOWN:
            return True
        number = _next_in_box(shape, lo, hi, number)
    return False


@compiled
def _height(shape: _Shape, number: int) -> int:
    total = 0
    for j in range(shape.strides.shape[0]):
        total += number // shape.strides[j] % shape.n_levels[j]
    return total


@compiled
def _middle(shape: _Shape, lo: int, hi: int) -> Ints:
    """The nodes of the box at half its height, rounded down, in the order of their numbers."""
    wanted = (_height(shape, lo) + _height(shape, hi)) // 2
    size = 1
    for j in range(shape.strides.shape[0]):
        size *= (hi - lo) // shape.strides[j] % shape.n_levels[j] + 1
    out = np.empty(size, dtype=np.int64)
    count, number = 0, lo
    while number >= 0:
        if _height(shape, number) == wanted:
            out[count] = number
            count += 1
        number = _next_in_box(shape, lo, hi, number)
    return out[:count]
