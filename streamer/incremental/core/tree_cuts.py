"""A full node of the tree is cut in two, and what every change of the tree's shape is made of.

What is best is said in `streamer.incremental.core.tree`: the halves' extents, once for every child, are least.
"""

from __future__ import annotations

from math import inf, log

import numpy as np

from streamer.incremental.core.layout import Geometry, Shard, Tree
from streamer.incremental.core.nodes import gather, show_group, show_node
from streamer.incremental.core.record_types import CENTER_HI, CENTER_LO, FAN, HALF, HULL_HI, HULL_LO, NONE
from streamer.jit import inner, part

FEW = FAN // 3
"""Children below which a node is dissolved; as many as a cut leaves on one side at least."""


@inner
def reach(space: Geometry, j: int) -> tuple[int, int]:
    """The figures of a node's hull between which its extent lies: of a number the centers, of a category the boxes."""
    if space.axes[j].first_leaf < 0:
        return CENTER_LO, CENTER_HI
    return HULL_LO, HULL_HI


@inner
def new_node(s: Shard, leaf: int) -> int:
    """A node without children; there is room for it."""
    state = s.state[0]
    node = int(state.node_free)
    if node == NONE:
        node = int(state.nodes_used)
        state.nodes_used += 1
    else:
        state.node_free = s.tree.node[node].parent
    record = s.tree.node[node]
    record.n, record.parent, record.leaf = 0, NONE, leaf
    for j in range(s.space.axes.shape[0]):
        for i in range(FAN):
            s.tree.lane[node, j, HALF, i] = 1.0  # nothing is divided by zero behind the last child
    return node


@part
def append(s: Shard, node: int, child: int) -> None:
    """A node gets one more child, for which there is room; nothing is gathered."""
    record = s.tree.node[node]
    s.tree.child[node, record.n] = child
    record.n += 1
    if record.leaf:
        s.groups.group[child].node = node
        show_group(s, node, record.n - 1)
    else:
        s.tree.node[child].parent = node
        show_node(s.tree, child)


@inner
def drop_lane(tree: Tree, node: int, i: int) -> None:
    """A node has one child less, that at lane i: the last one takes its lane."""
    record = tree.node[node]
    record.n -= 1
    tree.child[node, i] = tree.child[node, record.n]
    for j in range(tree.hull.shape[2]):
        for figure in range(5):
            tree.lane[node, j, figure, i] = tree.lane[node, j, figure, record.n]
    for what in range(2):
        tree.rank[node, what, i] = tree.rank[node, what, record.n]


@part
def cut_upwards(s: Shard, node: int) -> int:
    """Cuts a full node in two, and those above it that have no room for one more; the new sibling of `node`."""
    tree, new = s.tree, NONE
    lower, lower_new = NONE, NONE
    while True:
        full = tree.node[node].n == FAN
        sibling = cut(s, node) if full else NONE
        if lower_new == NONE:
            new = sibling
        else:
            append(s, tree.node[lower].parent, lower_new)
            gather(s, tree.node[lower].parent)
        if not full:
            return new
        lower, lower_new = node, sibling
        if tree.node[node].parent == NONE:
            root = new_node(s, 0)
            s.state[0].root = root
            append(s, root, node)
        node = tree.node[node].parent


@part
def cut(s: Shard, node: int) -> int:
    """Cuts a full node where the halves' extents, once for every child, are least; a new node with those above it."""
    tree, order, n = s.tree, s.work.order, int(s.tree.node[node].n)
    best_j, best_at, least, by = 0, n // 2, inf, CENTER_LO
    for trial in range(2 * s.space.axes.shape[0]):
        j, figure = trial // 2, HALF if trial % 2 else CENTER_LO
        sort_children(s, node, j, figure)
        add_extents(s, node)
        for at in range(FEW, n - FEW + 1):
            extents = s.work.bounds[at]
            if extents < least or (extents == least and abs(2 * at - n) < abs(2 * best_at - n)):
                best_j, best_at, least, by = j, at, extents, figure
    sort_children(s, node, best_j, by)
    sibling = new_node(s, tree.node[node].leaf)
    for at in range(best_at, n):
        append(s, sibling, tree.child[node, order[at]])
    for i in range(n - 1, -1, -1):
        for at in range(best_at, n):
            if order[at] == i:
                drop_lane(tree, node, i)
    gather(s, node)
    gather(s, sibling)
    return sibling


@inner
def sort_children(s: Shard, node: int, j: int, figure: int) -> None:
    """The lanes of a node's children by a figure of attribute j, into `order`."""
    order, by = s.work.order, s.tree.lane[node, j, figure]
    for i in range(s.tree.node[node].n):
        at = i
        while at > 0 and by[i] < by[order[at - 1]]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i


@inner
def add_extents(s: Shard, node: int) -> None:
    """Into `bounds` at i: the extents of the first i children by `order` and of the rest, each times their number."""
    order, extents, n = s.work.order, s.work.bounds, int(s.tree.node[node].n)
    for i in range(FAN):
        extents[i] = 0.0
    for j in range(s.space.axes.shape[0]):
        first, last = reach(s.space, j)
        lane, unit = s.tree.lane[node, j], s.space.axes[j].unit
        lo, hi = inf, -inf
        for i in range(1, n):
            lo, hi = min(lo, np.float64(lane[first, order[i - 1]])), max(hi, np.float64(lane[last, order[i - 1]]))
            extents[i] += i * log(1.0 + (hi - lo) / unit)
        lo, hi = inf, -inf
        for i in range(n - 1, 0, -1):
            lo, hi = min(lo, np.float64(lane[first, order[i]])), max(hi, np.float64(lane[last, order[i]]))
            extents[i] += (n - i) * log(1.0 + (hi - lo) / unit)
