"""The two orders in which nodes of a lattice are tested (`algorithms.lattice_nodes`).

No search tests a classified node, and one ends when all nodes are classified. Between two tests it runs compiled, over
arrays with an entry for every node.

`ola_search` is Kmin of El Emam et al. 2009. The nodes at half the height (rounded down) of a sublattice are visited in
lexicographic order; below a good node the search goes on at once in what lies between it and the bottom, above a bad
one in what lies between it and the top. A sublattice with nothing left to classify is skipped.

`degree_first_search` is section 3 of Hu et al. 2011; a node's degree product is parents x children. The paper computes
it first and then deletes nodes; here it counts the parents and children that are not yet deleted. (Counted once in the
whole lattice, nearly all nodes have the same product, and the rule decides nothing.) Ties, of which the paper says
nothing: most ancestors x descendants in the whole lattice, then the lowest number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.jit import compiled, inlined
from streamer.recoding.algorithms.lattice_nodes import GOOD, UNKNOWN, Lattice, Marks, Shape, Tags
from streamer.table.arrays import Ints

DEPTH_MAX = 64
"""Sublattices inside one another: each has half the height of the one around it."""


def ola_search(lattice: Lattice) -> None:
    """Classifies all nodes by binary search in sublattices (El Emam et al. 2009, figure 3)."""
    bottom, top, at = np.zeros((3, DEPTH_MAX), dtype=np.int64)
    stack = _Stack(bottom, top, at, np.zeros(1, dtype=np.int64))
    if lattice.n_unknown:
        _push(lattice.shape, stack, 0, lattice.n_nodes - 1)
    while (number := _next_of_ola(lattice.shape, lattice.marks, stack)) >= 0:
        lattice.is_good(number)


def degree_first_search(lattice: Lattice) -> None:
    """Classifies all nodes, always the unclassified one of highest degree product next (Hu et al. 2011, section 3)."""
    queue = _queue(lattice.shape)
    while (number := _highest(lattice.shape, lattice.tags, queue)) >= 0:
        lattice.is_good(number)


# -- OLA ------------------------------------------------------------------------------------------------------------


class _Stack(NamedTuple):
    """The sublattices that are being searched, the innermost last: from bottom to top, and the node that comes next."""

    bottom: Ints
    top: Ints
    at: Ints  # -1: the sublattice is done
    depth: Ints  # (1,)


@compiled
def _next_of_ola(shape: Shape, marks: Marks, stack: _Stack) -> int:
    """Goes on with the search as far as what is known allows; the node to test, -1 at the end."""
    while stack.depth[0] > 0:
        i = stack.depth[0] - 1
        bottom, top, number = stack.bottom[i], stack.top[i], stack.at[i]
        if number < 0:
            stack.depth[0] = i
            continue
        if marks.tags[number] == UNKNOWN:
            return int(number)
        stack.at[i] = _next_at_height(shape, bottom, top, number)
        if marks.tags[number] == GOOD:
            top, end = number, bottom
        else:
            bottom, end = number, top
        if _has_unknown(shape, marks, number, end):
            _push(shape, stack, bottom, top)
    return -1


@compiled
def _push(shape: Shape, stack: _Stack, bottom: int, top: int) -> None:
    """Begins with a sublattice, at the lexicographically first node of half its height, rounded down."""
    rise, i = 0, stack.depth[0]
    for j in range(shape.strides.shape[0]):
        rise += shape.levels[top, j] - shape.levels[bottom, j]
    stack.bottom[i], stack.top[i] = bottom, top
    stack.at[i] = _raised(shape, bottom, top, bottom, 0, rise // 2)
    stack.depth[0] = i + 1


@inlined
def _raised(shape: Shape, bottom: int, top: int, number: int, first: int, rise: int) -> int:
    """The lowest number `rise` steps above a node that is at the bottom in the attributes from `first` on."""
    for j in range(shape.strides.shape[0] - 1, first - 1, -1):
        steps = min(rise, shape.levels[top, j] - shape.levels[bottom, j])
        number += steps * shape.strides[j]
        rise -= steps
    return number


@inlined
def _next_at_height(shape: Shape, bottom: int, top: int, number: int) -> int:
    """The next node of the same height in the sublattice, in the order of their numbers; -1 after the last."""
    levels, rise, node = shape.levels, 0, number
    for j in range(shape.strides.shape[0] - 1, -1, -1):
        if rise > 0 and levels[node, j] < levels[top, j]:
            return int(_raised(shape, bottom, top, number + shape.strides[j], j + 1, rise - 1))
        steps = levels[node, j] - levels[bottom, j]
        number -= steps * shape.strides[j]
        rise += steps
    return -1


@inlined
def _has_unknown(shape: Shape, marks: Marks, start: int, end: int) -> bool:
    """Whether there is an unclassified node between one that is classified, and one above it (if bad) or below.

    Where there is one, a walk from `start` over nodes of its tag gets next to it. Else all that were seen are clear.
    """
    if marks.tags[end] == UNKNOWN:
        return True
    if marks.clear[start] == end:
        return False
    tag, step = marks.tags[start], 1 if end > start else -1
    marks.clear[start], marks.todo[0], marks.seen[0] = end, start, start
    waiting, n_seen = 1, 1
    while waiting > 0:
        waiting -= 1
        node = marks.todo[waiting]
        for j in range(shape.strides.shape[0]):
            if shape.levels[node, j] == shape.levels[end, j]:
                continue
            other = node + step * shape.strides[j]
            if marks.tags[other] == UNKNOWN:
                marks.clear[marks.seen[:n_seen]] = -1
                return True
            if marks.tags[other] == tag and marks.clear[other] != end:
                marks.clear[other], marks.todo[waiting], marks.seen[n_seen] = end, other, other
                waiting += 1
                n_seen += 1
    return False


# -- degree first ---------------------------------------------------------------------------------------------------


class _Queue(NamedTuple):
    """Nodes by priority, highest first: a heap of keys (nodes,), of which the first size (1,) count.

    A key is product x nodes + n, where the node is order[nodes - 1 - n]. Degrees only fall: a key may be too high, and
    is put right when it comes first.
    """

    keys: Ints
    size: Ints
    order: Ints  # most ancestors x descendants first, then the lowest number


def _queue(shape: Shape) -> _Queue:
    levels, tops = shape.levels.astype(np.int64), shape.n_levels - 1
    order = np.argsort(-((tops - levels + 1) * (levels + 1)).prod(axis=1), kind="stable")
    n_nodes = len(order)
    product = (levels < tops).sum(axis=1) * (levels > 0).sum(axis=1)
    keys = np.sort(product[order] * n_nodes + np.arange(n_nodes)[::-1])[::-1]
    return _Queue(np.ascontiguousarray(keys), np.array([n_nodes]), order)


@compiled
def _highest(shape: Shape, tags: Tags, queue: _Queue) -> int:
    """The unclassified node of highest degree product, then reach, then lowest number; -1 where there is none."""
    n_nodes = tags.shape[0]
    while queue.size[0] > 0:
        product, n = queue.keys[0] // n_nodes, queue.keys[0] % n_nodes
        number = queue.order[n_nodes - 1 - n]
        here = _degree_product(shape, tags, number) if tags[number] == UNKNOWN else -1
        if here == product:
            return int(number)
        if here < 0:
            queue.size[0] -= 1
            _sink(queue, queue.keys[queue.size[0]])
        else:
            _sink(queue, here * n_nodes + n)
    return -1


@compiled
def _degree_product(shape: Shape, tags: Tags, number: int) -> int:
    """Unclassified parents x unclassified children."""
    parents, children = 0, 0
    for j in range(shape.strides.shape[0]):
        level, stride = shape.levels[number, j], shape.strides[j]
        parents += level < shape.n_levels[j] - 1 and tags[number + stride] == UNKNOWN
        children += level > 0 and tags[number - stride] == UNKNOWN
    return parents * children


@compiled
def _sink(queue: _Queue, key: int) -> None:
    """Puts a key into the heap in place of the first one."""
    keys, size, at = queue.keys, queue.size[0], 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and keys[child + 1] > keys[child]:
            child += 1
        if keys[child] <= key:
            break
        keys[at] = keys[child]
        at = child
    keys[at] = key
