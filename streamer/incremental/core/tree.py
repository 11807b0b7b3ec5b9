"""The tree over the boxes of the QI groups.

Tight nodes make searches short. The *extent* of a node along an attribute is the range of its groups' centers; for a
category, of their boxes, because there a wide box loosens every bound. A new group goes to the child that grows least.
A full node is cut in its middle third, where the halves' extents are least, sorted by the centers or by the widths
along any attribute. Extents count by their logarithm, as scores fall with distance. A node with few children left gives
them to the nearest sibling that has space. The shape of the tree depends on its history; no answer does.

A node knows exactly what is below it: per attribute a hull, the largest half-width and the hull of the centers; the
group that wins ties. After a change, the nodes above are computed again from their children, upwards until one stays
the same: no bound is stale, nothing is rebuilt.
"""

from __future__ import annotations

from math import inf, log

import numpy as np

from streamer.incremental.core.layout import (
    CENTER,
    CENTER_HI,
    CENTER_LO,
    FAN,
    HALF,
    HALF_WIDTH,
    HI,
    HULL_HI,
    HULL_LO,
    LO,
    NONE,
    CoreGroups,
    CoreTree,
    Shard,
)
from streamer.kernels.boxes import Geometry
from streamer.native import inlined


@inlined
def precedes(groups: CoreGroups, g: int, h: int) -> bool:
    """True if g wins a tie against h: least NCP, then fewest members, then lowest number."""
    one, other = groups.group[g], groups.group[h]
    if one.ncp != other.ncp:
        return one.ncp < other.ncp
    if one.members != other.members:
        return one.members < other.members
    return one.number < other.number


@inlined
def is_withheld(groups: CoreGroups, g: int, d: int) -> bool:
    """True if one of d attributes is wider than `coarsest` allows: see `lost_once`."""
    return bool(groups.group[g].ncp > d + 0.5)


@inlined
def withheld_at(tree: CoreTree, groups: CoreGroups, node: int, i: int) -> int:
    """Of the withheld groups at or below the child in a lane the one that wins ties, or NONE."""
    one = int(tree.child[node, i])
    if not tree.node[node].leaf:
        return int(tree.node[one].withheld)
    return one if is_withheld(groups, one, tree.hull.shape[2]) else NONE


def withheld_beside(s: Shard, g: int) -> int:
    """Of the withheld groups other than g the one that wins ties, or NONE."""
    best, below, node = NONE, g, int(s.groups.group[g].node)
    while node != NONE:
        for i in range(s.tree.node[node].n):
            held = withheld_at(s.tree, s.groups, node, i)
            beside = held != NONE and s.tree.child[node, i] != below
            if beside and (best == NONE or precedes(s.groups, held, best)):
                best = held
        below, node = node, int(s.tree.node[node].parent)
    return best


@inlined
def names(tree: CoreTree, node: int, g: int) -> bool:
    """True if a node names a group, whose size may have changed."""
    return bool(tree.node[node].first == g or tree.node[node].withheld == g)


@inlined
def set_figure(tree: CoreTree, node: int, figure: int, j: int, value: float) -> bool:
    """Sets one figure of a node's hull; returns whether it changed."""
    changed = bool(tree.hull[node, figure, j] != value)
    tree.hull[node, figure, j] = value
    return changed


@inlined
def lane_of(tree: CoreTree, node: int, child: int) -> int:
    i = 0
    while tree.child[node, i] != child:
        i += 1
    return i


def fill_lane(s: Shard, leaf: int, i: int) -> None:
    """Copies a group's shape and NCP to its lane of a leaf."""
    tree, groups, g = s.tree, s.groups, s.tree.child[leaf, i]
    for j in range(s.space.axes.shape[0]):
        lane = tree.lane[leaf, j]
        center, half = groups.shape[g, CENTER, j], groups.shape[g, HALF_WIDTH, j]
        lo, hi = center - half, center + half
        if s.space.axes[j].first_leaf >= 0:
            lo, hi = float(groups.box[g, LO, j]), float(groups.box[g, HI, j])
        elif not s.state[0].exact:
            lo, hi = np.nextafter(lo, -inf), np.nextafter(hi, inf)  # the sums may have been rounded inwards
        lane[HULL_LO, i], lane[HULL_HI, i], lane[HALF, i] = lo, hi, half
        lane[CENTER_LO, i], lane[CENTER_HI, i] = center, center
    tree.rank[leaf, i] = groups.group[g].ncp


@inlined
def fill_lane_above(tree: CoreTree, node: int) -> None:
    """Copies a node's figures to its lane of the node above, if there is one."""
    parent = tree.node[node].parent
    if parent == NONE:
        return
    i = lane_of(tree, parent, node)
    for j in range(tree.hull.shape[2]):
        lane = tree.lane[parent, j]
        for figure in range(5):
            lane[figure, i] = tree.hull[node, figure, j]
    tree.rank[parent, i] = tree.node[node].ncp


@inlined
def refresh_hull(tree: CoreTree, node: int) -> bool:
    """Computes a node's hull from its children's; returns whether anything changed."""
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


@inlined
def refresh_first(tree: CoreTree, groups: CoreGroups, node: int) -> bool:
    """Finds the groups that a node names among its children; returns whether one of them or the NCP changed."""
    record, rank = tree.node[node], tree.rank[node]
    best, least, withheld = NONE, inf, NONE
    for i in range(record.n):
        held = withheld_at(tree, groups, node, i)
        if held != NONE and (withheld == NONE or precedes(groups, held, withheld)):
            withheld = held
        if best == NONE or rank[i] <= least:
            one = tree.child[node, i]
            if not record.leaf:
                one = tree.node[one].first
            if best == NONE or rank[i] < least or precedes(groups, one, best):
                best, least = one, rank[i]
    changed = bool(record.first != best or record.ncp != least or record.withheld != withheld)
    record.first, record.ncp, record.withheld = best, least, withheld
    return changed


def refresh_node(s: Shard, node: int) -> bool:
    """Computes everything that a node knows from its children, at least one; returns whether anything changed."""
    changed = refresh_hull(s.tree, node)
    changed |= refresh_first(s.tree, s.groups, node)
    if changed:
        fill_lane_above(s.tree, node)
    return changed


def refresh_upwards(s: Shard, node: int, g: int) -> None:
    """Refreshes a node below which group g has changed, come or gone, and those above, until one stays the same."""
    while node != NONE:
        if not refresh_node(s, node) and not names(s.tree, node, g):
            return
        node = s.tree.node[node].parent


def resized(s: Shard, g: int) -> None:
    """Refreshes the nodes above a group of which only the size has changed: no NCP does."""
    node = s.groups.group[g].node
    while node != NONE:
        if not refresh_first(s.tree, s.groups, node) and not names(s.tree, node, g):
            return
        node = s.tree.node[node].parent


FEW = FAN // 3
"""A node with fewer children is dissolved; a cut leaves this number on each side, at least."""


@inlined
def extent_figures(space: Geometry, j: int) -> tuple[int, int]:
    """The figures of a node's hull that bound its extent: of a number the centers, of a category the boxes."""
    if space.axes[j].first_leaf < 0:
        return CENTER_LO, CENTER_HI
    return HULL_LO, HULL_HI


@inlined
def new_node(s: Shard, leaf: int) -> int:
    """A node without children; the caller has checked the capacity."""
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
            s.tree.lane[node, j, HALF, i] = 1.0  # after the last child nothing is divided by zero
    return node


def append(s: Shard, node: int, child: int) -> None:
    """Adds a child to a node that has space for it; refreshes nothing."""
    record = s.tree.node[node]
    s.tree.child[node, record.n] = child
    record.n += 1
    if record.leaf:
        s.groups.group[child].node = node
        fill_lane(s, node, record.n - 1)
    else:
        s.tree.node[child].parent = node
        fill_lane_above(s.tree, child)


@inlined
def drop_lane(tree: CoreTree, node: int, i: int) -> None:
    """Removes the child at lane i from a node; the last child takes its lane."""
    record = tree.node[node]
    record.n -= 1
    tree.child[node, i] = tree.child[node, record.n]
    for j in range(tree.hull.shape[2]):
        for figure in range(5):
            tree.lane[node, j, figure, i] = tree.lane[node, j, figure, record.n]
    tree.rank[node, i] = tree.rank[node, record.n]


def cut_upwards(s: Shard, node: int) -> int:
    """Cuts a full node in two, and those above it that are full; returns the new sibling of `node`."""
    tree, new = s.tree, NONE
    lower, lower_new = NONE, NONE
    while True:
        full = tree.node[node].n == FAN
        sibling = cut(s, node) if full else NONE
        if lower_new == NONE:
            new = sibling
        else:
            append(s, tree.node[lower].parent, lower_new)
            refresh_node(s, tree.node[lower].parent)
        if not full:
            return new
        lower, lower_new = node, sibling
        if tree.node[node].parent == NONE:
            root = new_node(s, 0)
            s.state[0].root = root
            append(s, root, node)
        node = tree.node[node].parent


def cut(s: Shard, node: int) -> int:
    """Cuts a full node where the halves' extents, once per child, are least; returns the new, upper node."""
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
    refresh_node(s, node)
    refresh_node(s, sibling)
    return sibling


@inlined
def sort_children(s: Shard, node: int, j: int, figure: int) -> None:
    """Sorts the lanes of a node's children by a figure of attribute j, into `order`."""
    order, by = s.work.order, s.tree.lane[node, j, figure]
    for i in range(s.tree.node[node].n):
        at = i
        while at > 0 and by[i] < by[order[at - 1]]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = i


@inlined
def add_extents(s: Shard, node: int) -> None:
    """Into `bounds` at i: extents of the first i children in `order` and of the rest, each times their number."""
    order, extents, n = s.work.order, s.work.bounds, int(s.tree.node[node].n)
    for i in range(FAN):
        extents[i] = 0.0
    for j in range(s.space.axes.shape[0]):
        first, last = extent_figures(s.space, j)
        lane, unit = s.tree.lane[node, j], s.space.axes[j].unit
        lo, hi = inf, -inf
        for i in range(1, n):
            lo, hi = min(lo, lane[first, order[i - 1]]), max(hi, lane[last, order[i - 1]])
            extents[i] += i * log(1.0 + (hi - lo) / unit)
        lo, hi = inf, -inf
        for i in range(n - 1, 0, -1):
            lo, hi = min(lo, lane[first, order[i]]), max(hi, lane[last, order[i]])
            extents[i] += (n - i) * log(1.0 + (hi - lo) / unit)


TIGHT = 0.01
"""Weight of a child's extent beside its growth: of those that need not grow, the tightest is chosen."""


def nodes_needed(s: Shard) -> int:
    """The most new nodes that one `put` takes."""
    needed, node = 1, s.state[0].root
    while node != NONE:
        needed += 1
        node = NONE if s.tree.node[node].leaf else s.tree.child[node, 0]
    return needed


def put(s: Shard, g: int) -> None:
    """Puts a group into the tree that is new or whose box has changed; box, shape, size and number are set."""
    leaf = s.groups.group[g].node
    if leaf != NONE and not spans(s.space, s.tree, s.groups, leaf, g):
        take_out(s, g)
        leaf = NONE
    if leaf == NONE:
        leaf = insert_group(s, g)
    else:
        fill_lane(s, leaf, lane_of(s.tree, leaf, g))
    refresh_upwards(s, leaf, g)


def take_out(s: Shard, g: int) -> None:
    """Takes a group out of the tree."""
    refresh_upwards(s, drop_group(s, g), g)


@inlined
def spans(space: Geometry, tree: CoreTree, groups: CoreGroups, leaf: int, g: int) -> bool:
    """True if a leaf's extents, as they were, enclose one of its groups: then it may stay there."""
    for j in range(space.axes.shape[0]):
        first, last = extent_figures(space, j)
        lo, hi = ends(space, groups, g, j)
        if lo < tree.hull[leaf, first, j] or hi > tree.hull[leaf, last, j]:
            return False
    return True


@inlined
def ends(space: Geometry, groups: CoreGroups, g: int, j: int) -> tuple[float, float]:
    """The range of a group along attribute j, as extents count it."""
    if space.axes[j].first_leaf < 0:
        return groups.shape[g, CENTER, j], groups.shape[g, CENTER, j]
    return float(groups.box[g, LO, j]), float(groups.box[g, HI, j])


# -- a group comes -----------------------------------------------------------------------------------------------------


def insert_group(s: Shard, g: int) -> int:
    """Puts a group below the leaf that grows least, which is cut first if it is full; returns the leaf."""
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


@inlined
def nearest_child(s: Shard, node: int, g: int) -> int:
    """The child that grows least by a group, in widths of the domains."""
    grows, best = s.work.bounds, 0
    for i in range(FAN):
        grows[i] = 0.0
    for j in range(s.space.axes.shape[0]):
        first, last = extent_figures(s.space, j)
        begin, end = ends(s.space, s.groups, g, j)
        lo, hi, width = s.tree.lane[node, j, first], s.tree.lane[node, j, last], s.space.axes[j].width
        for i in range(FAN):
            more = max(lo[i] - begin, 0.0) + max(end - hi[i], 0.0)
            grows[i] += (more + TIGHT * (hi[i] - lo[i])) / width
    for i in range(1, s.tree.node[node].n):
        if grows[i] < grows[best]:
            best = i
    return int(s.tree.child[node, best])


@inlined
def growth(s: Shard, node: int, g: int) -> float:
    """The growth of a node by a group, in widths of the domains."""
    total = 0.0
    for j in range(s.space.axes.shape[0]):
        first, last = extent_figures(s.space, j)
        begin, end = ends(s.space, s.groups, g, j)
        more = max(s.tree.hull[node, first, j] - begin, 0.0) + max(end - s.tree.hull[node, last, j], 0.0)
        total += more / s.space.axes[j].width
    return total


@inlined
def free_node(s: Shard, node: int) -> None:
    s.tree.node[node].parent = s.state[0].node_free
    s.state[0].node_free = node


# -- a group goes ------------------------------------------------------------------------------------------------------


def drop_group(s: Shard, g: int) -> int:
    """Takes a group out of its leaf, and dissolves nodes with few children; returns where to refresh from, or NONE."""
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
            refresh_node(s, into)
        node, child = int(record.parent), node
        free_node(s, child)


def drop_root(s: Shard, root: int) -> int:
    """Frees a root that has lost a child, if it has none left or only one node; else returns it for a refresh."""
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


@inlined
def roomy_sibling(space: Geometry, tree: CoreTree, node: int) -> int:
    """The sibling of nearest centers that has space for a node's children; NONE if there is none."""
    parent, best, least = tree.node[node].parent, NONE, inf
    for i in range(tree.node[parent].n):
        one = tree.child[parent, i]
        if one != node and tree.node[one].n + tree.node[node].n <= FAN - 2:
            away = 0.0
            for j in range(space.axes.shape[0]):
                before = tree.hull[one, CENTER_LO, j] - tree.hull[node, CENTER_HI, j]
                after = tree.hull[node, CENTER_LO, j] - tree.hull[one, CENTER_HI, j]
                away += max(max(before, after), 0.0) / space.axes[j].width
            if best == NONE or away < least:
                best, least = one, away
    return best
