"""The tree of the QI groups' boxes: they come, change and go.

What a search visits is decided by how tight the nodes are. The *extent* of a node at an attribute is how far the
centers of its groups reach, of a category how far their boxes do: there a wide box loosens every bound. A new group
goes to the child that grows least by it, down to a leaf. A node that is full is cut in two where the halves have the
least extents, by the centers or by the widths at any attribute, in the middle third. There an extent counts by its
logarithm, as scores fall with the distance: what is narrow at one attribute and wide at another is better than both at
half the width. A node with few children left gives them to the nearest of its siblings that has room. The tree's shape
depends on its history, no answer does.
"""

from __future__ import annotations

from math import inf

import numpy as np

from streamer.incremental.core.layout import Geometry, Groups, Shard, Tree
from streamer.incremental.core.nodes import gather, lane_of, show_group, tighten
from streamer.incremental.core.record_types import (
    CENTER,
    CENTER_HI,
    CENTER_LO,
    FAN,
    HI,
    LO,
    NONE,
)
from streamer.incremental.core.tree_cuts import FEW, append, cut_upwards, drop_lane, new_node, reach
from streamer.jit import inner, part

TIGHT = 0.01
"""What the extent of a child counts beside its growth: of those that need not grow the tightest is chosen."""


@part
def nodes_needed(s: Shard) -> int:
    """New nodes that one `put` takes at most."""
    needed, node = 1, s.state[0].root
    while node != NONE:
        needed += 1
        node = NONE if s.tree.node[node].leaf else s.tree.child[node, 0]
    return needed


@part
def put(s: Shard, g: int) -> None:
    """A group that is new, or whose box is another: box, shape, size and number are set."""
    leaf = s.groups.group[g].node
    if leaf != NONE and not spans(s.space, s.tree, s.groups, leaf, g):
        take_out(s, g)
        leaf = NONE
    if leaf == NONE:
        leaf = enter(s, g)
    else:
        show_group(s, leaf, lane_of(s.tree, leaf, g))
    tighten(s, leaf, g)


@part
def take_out(s: Shard, g: int) -> None:
    """A group is gone."""
    tighten(s, leave(s, g), g)


@inner
def spans(space: Geometry, tree: Tree, groups: Groups, leaf: int, g: int) -> bool:
    """Whether a leaf, as it was, reaches around one of its groups: then it may stay there."""
    for j in range(space.axes.shape[0]):
        first, last = reach(space, j)
        lo, hi = ends(space, groups, g, j)
        if lo < tree.hull[leaf, first, j] or hi > tree.hull[leaf, last, j]:
            return False
    return True


@inner
def ends(space: Geometry, groups: Groups, g: int, j: int) -> tuple[float, float]:
    """What a group extends a node's extent to."""
    if space.axes[j].first_leaf < 0:
        return np.float64(groups.shape[g, CENTER, j]), np.float64(groups.shape[g, CENTER, j])
    return np.float64(groups.box[g, LO, j]), np.float64(groups.box[g, HI, j])


# -- a group comes ------------------------------------------------------------------------------------------------


@part
def enter(s: Shard, g: int) -> int:
    """Puts a group below the leaf that grows least by it, which is cut before if it is full; the leaf."""
    tree, state = s.tree, s.state[0]
    if state.root == NONE:
        state.root = new_node(s, 1)
    leaf = state.root
    while not tree.node[leaf].leaf:
        leaf = nearest_child(s, leaf, g)
    if tree.node[leaf].n == FAN:
        sibling = cut_upwards(s, leaf)
        if growth(s, sibling, g) < growth(s, leaf, g):
            leaf = sibling
    append(s, leaf, g)
    return leaf


@inner
def nearest_child(s: Shard, node: int, g: int) -> int:
    """The child that grows least by a group, in widths of the domains."""
    grows, best = s.work.bounds, 0
    for i in range(FAN):
        grows[i] = 0.0
    for j in range(s.space.axes.shape[0]):
        first, last = reach(s.space, j)
        begin, end = ends(s.space, s.groups, g, j)
        lo, hi, width = s.tree.lane[node, j, first], s.tree.lane[node, j, last], s.space.axes[j].width
        for i in range(FAN):
            more = max(np.float64(lo[i]) - begin, 0.0) + max(end - np.float64(hi[i]), 0.0)
            grows[i] += (more + TIGHT * (np.float64(hi[i]) - np.float64(lo[i]))) / width
    for i in range(1, s.tree.node[node].n):
        if grows[i] < grows[best]:
            best = i
    return int(s.tree.child[node, best])


@inner
def growth(s: Shard, node: int, g: int) -> float:
    """How much a node grows by a group, in widths of the domains."""
    total = 0.0
    for j in range(s.space.axes.shape[0]):
        first, last = reach(s.space, j)
        begin, end = ends(s.space, s.groups, g, j)
        more = max(s.tree.hull[node, first, j] - begin, 0.0) + max(end - s.tree.hull[node, last, j], 0.0)
        total += more / s.space.axes[j].width
    return total


@inner
def free_node(s: Shard, node: int) -> None:
    """A node is used no more."""
    s.tree.node[node].parent = s.state[0].node_free
    s.state[0].node_free = node


# -- a group goes -------------------------------------------------------------------------------------------------


@part
def leave(s: Shard, g: int) -> int:
    """Takes a group out of its leaf, and dissolves nodes with few children; the node to be tightened from, or NONE."""
    tree, child = s.tree, g
    node = int(s.groups.group[g].node)
    s.groups.group[g].node = NONE
    while True:
        drop_lane(tree, node, lane_of(tree, node, child))
        record = tree.node[node]
        if record.parent == NONE:
            return drop_root(s, node)
        if record.n >= FEW:
            return node
        into = roomy_sibling(s.space, tree, node) if record.n else NONE
        if record.n and into == NONE:
            return node
        for i in range(record.n):
            append(s, into, tree.child[node, i])
        if into != NONE:
            gather(s, into)
        node, child = int(record.parent), node
        free_node(s, child)


@part
def drop_root(s: Shard, root: int) -> int:
    """The root has one child less: it goes if it has none, or only one node; else it is to be tightened from."""
    record = s.tree.node[root]
    if record.n == 0:
        s.state[0].root = NONE
    elif record.n == 1 and not record.leaf:
        s.state[0].root = s.tree.child[root, 0]
        s.tree.node[s.state[0].root].parent = NONE
    else:
        return root
    free_node(s, root)
    return NONE


@inner
def roomy_sibling(space: Geometry, tree: Tree, node: int) -> int:
    """The sibling of nearest centers that has room for a node's children; NONE if there is none."""
    parent, best, least = tree.node[node].parent, NONE, inf
    for i in range(tree.node[parent].n):
        one = tree.child[parent, i]
        if one != node and tree.node[one].n + tree.node[node].n <= FAN - 2:
            away = 0.0
            for j in range(space.axes.shape[0]):
                before = np.float64(tree.hull[one, CENTER_LO, j]) - tree.hull[node, CENTER_HI, j]
                after = np.float64(tree.hull[node, CENTER_LO, j]) - tree.hull[one, CENTER_HI, j]
                away += max(max(before, after), 0.0) / space.axes[j].width
            if best == NONE or away < least:
                best, least = one, away
    return best
