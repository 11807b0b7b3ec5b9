"""Boxes as figures: edges, smallest nodes, loss, center and half-width; what every other loop of the core asks.

The same float64 operations in the same order as `streamer.table.space.Space`, which says what they mean; a test
compares them to the last bit.
"""

from __future__ import annotations

from typing import Any

from streamer.incremental.core.layout import Geometry, Groups
from streamer.incremental.core.record_types import CENTER, HALF_WIDTH, HI, LO
from streamer.jit import part

HALF_CODE = 0.5


@part
def first_edge(space: Geometry, j: int, lo: int) -> float:
    """The first point of a published interval that begins with the cell `lo`, in codes."""
    return float(lo * space.axes[j].codes_per_cell)


@part
def last_edge(space: Geometry, j: int, hi: int) -> float:
    """The last point of a published interval that ends with the cell `hi`, in codes."""
    axis = space.axes[j]
    return min(float((hi + 1) * axis.codes_per_cell - axis.overlap), axis.end)


@part
def middle(space: Geometry, j: int, cell: int) -> float:
    """Where a row stands for T-QGSSD: the middle of what its cell publishes; of a category the leaf."""
    if space.axes[j].first_leaf >= 0:
        return float(cell)
    return (first_edge(space, j, cell) + last_edge(space, j, cell)) / 2


@part
def leaves_of_cover(space: Geometry, j: int, lo: int, hi: int) -> int:
    """Leaves of the smallest node over the leaves lo..hi of attribute j."""
    if lo == hi:
        return 1
    i = space.power[hi - lo]
    at = space.axes[j].first_leaf
    return max(space.leaves_over[i, at + lo], space.leaves_over[i, at + hi - (1 << i)])


@part
def cover(space: Geometry, j: int, lo: int, hi: int) -> tuple[int, int]:
    """First and last leaf of the smallest node over the leaves lo..hi of attribute j."""
    if lo == hi:
        return lo, hi
    i = space.power[hi - lo]
    at = space.axes[j].first_leaf
    node = min(space.node_over[i, at + lo], space.node_over[i, at + hi - (1 << i)])
    return space.node_ends[node, LO], space.node_ends[node, HI]


@part
def ncp_term(space: Geometry, j: int, lo: int, hi: int) -> float:
    """NCP of attribute j over the smallest publishable run around the cells lo..hi."""
    axis = space.axes[j]
    if axis.first_leaf >= 0:
        if lo == hi:
            return 0.0
        return leaves_of_cover(space, j, lo, hi) / axis.width
    return (last_edge(space, j, hi) - first_edge(space, j, lo)) / axis.width


@part
def take_shape(space: Geometry, groups: Groups, g: int) -> None:
    """Center, half-width and NCP of a group's box, after the box has changed."""
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
    groups.group[g].ncp = loss


@part
def box_contains(groups: Groups, g: int, cells: Any) -> bool:
    """Whether a group's box contains cells (d,)."""
    for j in range(cells.shape[0]):
        if cells[j] < groups.box[g, LO, j] or cells[j] > groups.box[g, HI, j]:
            return False
    return True
