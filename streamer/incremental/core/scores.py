"""Loss of boxes, and the two similarities of Song et al. 2009 with their bounds below the nodes of the tree.

The rules of this file
----------------------
* Terms are computed in float64, one division each, times the attribute's weight, and summed in the order of the table,
  without tolerance. A pair of groups, or a tuple and a group, always has the same score. Boxes are computed by the same
  operations in the same order as in `streamer.table.space.Space`; a test compares them to the last bit.
* Half the width of a number's box is at least half a code, the distance of two QI groups at least half a unit. A tuple
  inside a box scores its weight along every attribute, up to a clipped edge.
* A bound is never below the score of any group below the child, to the last bit: every term rises exactly with what it
  bounds, and all are summed in one order. T-QGSSD of a number has another formula as its bound, half / (gap + half)
  over the hull. If sums of coordinates never round, that is exact, too; else it gets a margin far above its rounding.
* All children of a node are scored at once. Loops over lanes contain no call, table or branch, so that one instruction
  can work on several lanes. The number of lanes must be unknown at compile time, else the compiler would unroll the
  loops before it vectorizes them. Lanes without a child hold meaningless numbers.
* A category's box is a node of the hierarchy, or a leaf. The smallest node over the query and another box is the other
  box itself, or the smallest node on the query's `path` to the root that reaches into it. The bound for boxes in [L, H]
  takes the smallest node of the path that reaches into [L, H].
"""

from __future__ import annotations

from typing import Any

from streamer.incremental.core.layout import (
    CENTER,
    CENTER_HI,
    CENTER_LO,
    FAN,
    FIRST_LEAF,
    HALF,
    HALF_WIDTH,
    HI,
    HULL_HI,
    HULL_LO,
    LAST_LEAF,
    LEAVES,
    LO,
    NONE,
    CoreGroups,
    Shard,
    Work,
)
from streamer.kernels.boxes import Geometry, cover, first_edge, last_edge, leaves_of_cover, ncp_term
from streamer.native import inlined

HALF_CODE = 0.5


def middle(space: Geometry, j: int, cell: int) -> float:
    """The place of a row for T-QGSSD: the middle of its cell's interval; of a category the leaf."""
    if space.axes[j].first_leaf >= 0:
        return float(cell)
    return (first_edge(space, j, cell) + last_edge(space, j, cell)) / 2


@inlined
def lost_once(space: Geometry, ncp: float) -> float:
    """The NCP of a box; of each one that `coarsest` forbids the same, as whoever is in it has lost everything."""
    return min(ncp, float(space.axes.shape[0] + 1))


def hull_ncp(space: Geometry, hull: Any) -> float:
    """NCP of the smallest publishable box around a hull (2, d) of cells."""
    loss = 0.0
    for j in range(hull.shape[1]):
        loss += ncp_term(space, j, hull[LO, j], hull[HI, j])
    return lost_once(space, loss)


def set_shape(space: Geometry, groups: CoreGroups, g: int) -> None:
    """Sets center, half-width and NCP of a group after its box has changed."""
    box, shape, loss = groups.box, groups.shape, 0.0
    for j in range(space.axes.shape[0]):
        lo, hi = box[g, LO, j], box[g, HI, j]
        loss += ncp_term(space, j, lo, hi)
        if space.axes[j].first_leaf >= 0:
            shape[g, CENTER, j], shape[g, HALF_WIDTH, j] = (lo + hi) / 2, hi - lo + 1
        else:
            first, last = first_edge(space, j, lo), last_edge(space, j, hi)
            center = (first + last) / 2
            shape[g, CENTER, j] = center
            shape[g, HALF_WIDTH, j] = max(max(last - center, center - first), HALF_CODE)
    groups.group[g].ncp = lost_once(space, loss)


def box_contains(groups: CoreGroups, g: int, cells: Any) -> bool:
    for j in range(cells.shape[0]):
        if cells[j] < groups.box[g, LO, j] or cells[j] > groups.box[g, HI, j]:
            return False
    return True


HALF_UNIT = 0.5
MARGIN = 1.0 + 1e-12
"""Far above the rounding of a sum of SSDs."""


def set_query_group(s: Shard, g: int) -> None:
    s.state[0].query = g
    for j in range(s.space.axes.shape[0]):
        if s.space.axes[j].first_leaf < 0:
            s.work.query_center[j] = s.groups.shape[g, CENTER, j]
        else:
            s.work.query_center[j] = float(s.groups.box[g, LO, j])
            set_path(s, j, s.groups.box[g, LO, j], s.groups.box[g, HI, j])


def set_path(s: Shard, j: int, lo: int, hi: int) -> None:
    """Sets the query's path of a category: the node lo..hi and those above it, up to the root."""
    path, n, last = s.work.path[j], 0, s.space.axes[j].n_leaves - 1
    while True:
        path[n, FIRST_LEAF], path[n, LAST_LEAF], path[n, LEAVES] = float(lo), float(hi), float(hi - lo + 1)
        n += 1
        if lo <= 0 and hi >= last:
            break
        if lo > 0:
            first, final = cover(s.space, j, lo - 1, hi)
        if hi < last:
            other_first, other_final = cover(s.space, j, lo, hi + 1)
            if lo <= 0 or other_final - other_first < final - first:
                first, final = other_first, other_final
        lo, hi = first, final
    s.work.n_path[j] = n


def set_query_tuple(s: Shard, cells: Any) -> None:
    s.state[0].query = NONE
    for j in range(s.space.axes.shape[0]):
        s.work.query_center[j] = middle(s.space, j, cells[j])
        if s.space.axes[j].first_leaf >= 0:
            set_path(s, j, cells[j], cells[j])


@inlined
def cover_with_children(work: Work, j: int, lo: Any, hi: Any) -> None:
    """Into `over`: leaves of the smallest node of the query's path that reaches into lo..hi, both (FAN,)."""
    over, path, level = work.over, work.path, int(work.n_path[j]) - 2
    larger = path[j, level + 1, LEAVES]
    if level < 0:
        for i in range(min(over.shape[0], FAN)):
            over[i] = larger
        return
    first, last, leaves = path[j, level, FIRST_LEAF], path[j, level, LAST_LEAF], path[j, level, LEAVES]
    for i in range(min(over.shape[0], FAN)):
        over[i] = leaves if (lo[i] <= last) & (first <= hi[i]) else larger
    while level > 0:
        level -= 1
        first, last, leaves = path[j, level, FIRST_LEAF], path[j, level, LAST_LEAF], path[j, level, LEAVES]
        for i in range(min(over.shape[0], FAN)):
            over[i] = leaves if (lo[i] <= last) & (first <= hi[i]) else over[i]


@inlined
def t_qgssd_of_children(s: Shard, node: int) -> None:
    """Into `bounds`: T-QGSSD (definition 6) of the query tuple to the groups of a leaf, or bounds of it for a node."""
    work, total, over, leaf = s.work, s.work.bounds, s.work.over, s.tree.node[node].leaf != 0
    for i in range(min(total.shape[0], FAN)):
        total[i] = 0.0
    for j in range(s.space.axes.shape[0]):
        lane, value, weight = s.tree.lane[node, j], work.query_center[j], s.space.axes[j].weight
        lo, hi, half, center = lane[HULL_LO], lane[HULL_HI], lane[HALF], lane[CENTER_LO]
        if s.space.axes[j].first_leaf >= 0:
            cover_with_children(work, j, lo, hi)
            for i in range(min(total.shape[0], FAN)):
                total[i] += weight * (half[i] / max(over[i], half[i]))
        elif leaf:
            for i in range(min(total.shape[0], FAN)):
                width = half[i]
                total[i] += weight * (width / max(abs(value - center[i]), width))
        else:
            for i in range(min(total.shape[0], FAN)):
                width = half[i]
                gap = max(max(lo[i] - value, value - hi[i]), 0.0)
                total[i] += weight * (width / (gap + width))
    if not leaf and s.state[0].exact == 0:
        for i in range(min(total.shape[0], FAN)):
            total[i] *= MARGIN


@inlined
def qgssd_of_children(s: Shard, node: int) -> None:
    """Into `bounds`: QGSSD (definition 7) of the query group to the groups of a leaf, or bounds of it for a node."""
    work, total, over = s.work, s.work.bounds, s.work.over
    of_groups = 1.0 if s.tree.node[node].leaf != 0 else 0.0
    for i in range(min(total.shape[0], FAN)):
        total[i] = 0.0
    for j in range(s.space.axes.shape[0]):
        lane, center, unit = s.tree.lane[node, j], work.query_center[j], s.space.axes[j].unit
        weight = s.space.axes[j].weight
        if s.space.axes[j].first_leaf < 0:
            center_lo, center_hi = lane[CENTER_LO], lane[CENTER_HI]
            for i in range(min(total.shape[0], FAN)):
                distance = max(center_lo[i] - center, center - center_hi[i])
                total[i] += weight * closeness(distance, unit)
        else:
            half, own = lane[HALF], work.path[j, 0, LEAVES]
            cover_with_children(work, j, lane[HULL_LO], lane[HULL_HI])
            for i in range(min(total.shape[0], FAN)):
                most = half[i]
                leaves = max(over[i], most * of_groups)
                total[i] += weight * closeness(leaves - (own + min(most, leaves)) / 2, unit)


@inlined
def closeness(distance: float, unit: float) -> float:
    """Term of QGSSD (definition 7) of a distance in codes."""
    return 1.0 / max(distance / unit, HALF_UNIT)


def qgssd_from(space: Geometry, groups: CoreGroups, g: int, h: int) -> float:
    """QGSSD (definition 7) of two groups."""
    distance: float
    total = 0.0
    for j in range(space.axes.shape[0]):
        if space.axes[j].first_leaf < 0:
            distance = abs(groups.shape[g, CENTER, j] - groups.shape[h, CENTER, j])
        else:
            lo, hi = int(groups.box[g, LO, j]), int(groups.box[g, HI, j])
            other_lo, other_hi = int(groups.box[h, LO, j]), int(groups.box[h, HI, j])
            leaves = leaves_of_cover(space, j, min(lo, other_lo), max(hi, other_hi))
            distance = leaves - (hi - lo + other_hi - other_lo + 2) / 2
        total += space.axes[j].weight * closeness(distance, space.axes[j].unit)
    return total
