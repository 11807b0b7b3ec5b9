"""What a node of the tree knows of the QI groups below it, kept exactly as they are.

Per attribute a hull, the largest half-width and the hull of the centers (`Tree.hull`); the group that wins ties, the
one of lowest number, the lowest floor of their similarity lists (`NODE`). After a change the nodes above are gathered
anew from their children, upwards until one stays as it was: so no bound is ever stale, and nothing is rebuilt.
"""

from __future__ import annotations

from math import inf

import numpy as np

from streamer.incremental.core.layout import Groups, Shard, Tree
from streamer.incremental.core.record_types import (
    CENTER,
    CENTER_HI,
    CENTER_LO,
    FLOOR,
    HALF,
    HALF_WIDTH,
    HI,
    HULL_HI,
    HULL_LO,
    LO,
    NCP,
    NONE,
)
from streamer.jit import inner, part


@inner
def precedes(groups: Groups, g: int, h: int) -> bool:
    """Whether g wins a tie against h: least NCP, then fewest members, then lowest number."""
    one, other = groups.group[g], groups.group[h]
    if one.ncp != other.ncp:
        return one.ncp < other.ncp
    if one.members != other.members:
        return one.members < other.members
    return one.number < other.number


@inner
def list_floor(s: Shard, g: int) -> float:
    """The floor of a group's similarity list; inf where it has none."""
    at = s.groups.group[g].list
    if at == NONE:
        return inf
    return s.lists.one[at].floor


@inner
def set_figure(tree: Tree, node: int, figure: int, j: int, value: float) -> bool:
    """Sets one figure of a node's hull; whether it was another."""
    changed = bool(tree.hull[node, figure, j] != value)
    tree.hull[node, figure, j] = value
    return changed


@inner
def lane_of(tree: Tree, node: int, child: int) -> int:
    """Where a child stands among those of a node."""
    i = 0
    while tree.child[node, i] != child:
        i += 1
    return i


@part
def show_group(s: Shard, leaf: int, i: int) -> None:
    """The figures of the group at lane i of a leaf, beside it."""
    tree, groups, g = s.tree, s.groups, s.tree.child[leaf, i]
    for j in range(s.space.axes.shape[0]):
        lane = tree.lane[leaf, j]
        center, half = np.float64(groups.shape[g, CENTER, j]), np.float64(groups.shape[g, HALF_WIDTH, j])
        lo, hi = center - half, center + half
        if s.space.axes[j].first_leaf >= 0:
            lo, hi = np.float64(groups.box[g, LO, j]), np.float64(groups.box[g, HI, j])
        elif not s.state[0].exact:
            lo, hi = np.nextafter(lo, -inf), np.nextafter(hi, inf)  # the sums may have been rounded inwards
        lane[HULL_LO, i], lane[HULL_HI, i], lane[HALF, i] = lo, hi, half
        lane[CENTER_LO, i], lane[CENTER_HI, i] = center, center
    tree.rank[leaf, NCP, i] = groups.group[g].ncp
    tree.rank[leaf, FLOOR, i] = list_floor(s, g)


@inner
def show_node(tree: Tree, node: int) -> None:
    """The figures of a node, beside it in the node above, if there is one."""
    parent = tree.node[node].parent
    if parent == NONE:
        return
    i = lane_of(tree, parent, node)
    for j in range(tree.hull.shape[2]):
        lane = tree.lane[parent, j]
        for figure in range(5):
            lane[figure, i] = tree.hull[node, figure, j]
    tree.rank[parent, NCP, i], tree.rank[parent, FLOOR, i] = tree.node[node].ncp, tree.node[node].floor


@inner
def gather_hull(tree: Tree, node: int) -> bool:
    """The hull of a node, from its children's; whether anything changed."""
    changed = False
    for j in range(tree.hull.shape[2]):
        lane = tree.lane[node, j]
        lo, hi, half = lane[HULL_LO, 0], lane[HULL_HI, 0], lane[HALF, 0]
        center_lo, center_hi = lane[CENTER_LO, 0], lane[CENTER_HI, 0]
        for i in range(1, tree.node[node].n):
            lo, hi, half = min(lo, lane[HULL_LO, i]), max(hi, lane[HULL_HI, i]), max(half, lane[HALF, i])
            center_lo, center_hi = min(center_lo, lane[CENTER_LO, i]), max(center_hi, lane[CENTER_HI, i])
        changed |= set_figure(tree, node, HULL_LO, j, lo)
        changed |= set_figure(tree, node, HULL_HI, j, hi)
        changed |= set_figure(tree, node, HALF, j, half)
        changed |= set_figure(tree, node, CENTER_LO, j, center_lo)
        changed |= set_figure(tree, node, CENTER_HI, j, center_hi)
    return changed


@inner
def gather_first(tree: Tree, groups: Groups, node: int) -> bool:
    """The group that wins ties, from a node's children; whether it is another one, or has another NCP."""
    record, rank = tree.node[node], tree.rank[node, NCP]
    best, least = NONE, inf
    for i in range(record.n):
        if best == NONE or rank[i] <= least:
            one = tree.child[node, i]
            if not record.leaf:
                one = tree.node[one].first
            if best == NONE or rank[i] < least or precedes(groups, one, best):
                best, least = one, rank[i]
    changed = bool(record.first != best or record.ncp != least)
    record.first, record.ncp = best, least
    return changed


@inner
def gather_lowest(tree: Tree, groups: Groups, node: int) -> bool:
    """The group of lowest number, from a node's children; whether it is another one."""
    record = tree.node[node]
    best = NONE
    for i in range(record.n):
        one = tree.child[node, i]
        if not record.leaf:
            one = tree.node[one].lowest
        if best == NONE or groups.group[one].number < groups.group[best].number:
            best = one
    changed = bool(record.lowest != best)
    record.lowest = best
    return changed


@inner
def gather_floor(tree: Tree, node: int) -> bool:
    """The lowest floor, from a node's children; whether it changed."""
    record, floor = tree.node[node], inf
    for i in range(record.n):
        floor = min(floor, tree.rank[node, FLOOR, i])
    changed = bool(record.floor != floor)
    record.floor = floor
    return changed


@part
def gather(s: Shard, node: int) -> bool:
    """All that a node knows, from its children, of which it has some; whether anything changed."""
    changed = gather_hull(s.tree, node)
    changed |= gather_first(s.tree, s.groups, node)
    changed |= gather_lowest(s.tree, s.groups, node)
    changed |= gather_floor(s.tree, node)
    if changed:
        show_node(s.tree, node)
    return changed


@part
def tighten(s: Shard, node: int, g: int) -> None:
    """Gathers a node, below which the group g has changed, come or gone, and those above until one stays as it was."""
    while node != NONE:
        if not gather(s, node) and s.tree.node[node].first != g:
            return
        node = s.tree.node[node].parent


@part
def resized(s: Shard, g: int) -> None:
    """Only the size of a group has changed: no NCP does."""
    node = s.groups.group[g].node
    while node != NONE:
        if not gather_first(s.tree, s.groups, node) and s.tree.node[node].first != g:
            return
        node = s.tree.node[node].parent


@part
def floor_changed(s: Shard, g: int) -> None:
    """The floor of a group's similarity list has changed; or it has a list now, or none any more."""
    tree, child, node, floor = s.tree, g, s.groups.group[g].node, list_floor(s, g)
    while node != NONE:
        tree.rank[node, FLOOR, lane_of(tree, node, child)] = floor
        if not gather_floor(tree, node):
            return
        child, node, floor = node, tree.node[node].parent, tree.node[node].floor
