"""The ends of a QI group's box: which bundles hold it open, and what it is without one of them.

Of each attribute, `ends` (8, d) has the lowest cell, how many bundles have it, the next one above, and how many have
that; then the same from the highest cell down. So a bundle leaves a group of any size in a few steps: an attribute is
looked through again only if nobody is left at one of its ends, or next to it.
"""

from __future__ import annotations

import numpy as np

from streamer.kernels.boxes import Geometry, ncp_term
from streamer.native import inlined
from streamer.recoding.algorithms.bundles import EMPTY_HI, EMPTY_LO, Task
from streamer.recoding.algorithms.group_index import Groups, leave_out, narrow, unlink
from streamer.table.arrays import Ints

LO, NEXT_LO, HI, NEXT_HI = range(0, 8, 2)
"""The rows of `ends` with cells; each is followed by how many bundles are there."""


@inlined
def ends_for(task: Task) -> Ints:
    """Memory for the ends of a group."""
    return np.empty((8, task.bundles.cells.shape[1]), np.int64)


def ends_of(task: Task, members: Ints, ends: Ints) -> None:
    """Fills in the ends of some bundles."""
    for j in range(ends.shape[1]):
        _look_through(task, members, ends, j)


def _look_through(task: Task, members: Ints, ends: Ints, j: int) -> None:
    lo, n_lo, next_lo, n_next_lo = EMPTY_LO, 0, EMPTY_LO, 0
    hi, n_hi, next_hi, n_next_hi = EMPTY_HI, 0, EMPTY_HI, 0
    for bundle in members:
        cell = task.bundles.cells[bundle, j]
        if cell <= next_lo:
            if cell < lo:
                lo, n_lo, next_lo, n_next_lo = cell, 1, lo, n_lo
            elif cell == lo:
                n_lo += 1
            elif cell < next_lo:
                next_lo, n_next_lo = cell, 1
            else:
                n_next_lo += 1
        if cell >= next_hi:
            if cell > hi:
                hi, n_hi, next_hi, n_next_hi = cell, 1, hi, n_hi
            elif cell == hi:
                n_hi += 1
            elif cell > next_hi:
                next_hi, n_next_hi = cell, 1
            else:
                n_next_hi += 1
    ends[0, j], ends[1, j], ends[2, j], ends[3, j] = lo, n_lo, next_lo, n_next_lo
    ends[4, j], ends[5, j], ends[6, j], ends[7, j] = hi, n_hi, next_hi, n_next_hi


def take_out(task: Task, groups: Groups, slot: int, members: Ints, at: int, ends: Ints) -> Ints:
    """Takes a bundle out of a slot, of its `members` and of their `ends`; the members that are left, in their order."""
    bundle, narrower = members[at], False
    unlink(task, groups, slot, members[at - 1] if at > 0 else -1, bundle)
    leave_out(members, at)
    members = members[: members.shape[0] - 1]
    for j in range(ends.shape[1]):
        cell = task.bundles.cells[bundle, j]
        low = LO if cell == ends[LO, j] else NEXT_LO if cell == ends[NEXT_LO, j] else -1
        high = HI if cell == ends[HI, j] else NEXT_HI if cell == ends[NEXT_HI, j] else -1
        if low >= 0:
            ends[low + 1, j] -= 1
        if high >= 0:
            ends[high + 1, j] -= 1
        if (low >= 0 and ends[low + 1, j] == 0) or (high >= 0 and ends[high + 1, j] == 0):
            narrower = narrower or ends[LO + 1, j] == 0 or ends[HI + 1, j] == 0
            _look_through(task, members, ends, j)
    if narrower:
        narrow(task, groups, slot, ends[LO], ends[HI])
    return members


@inlined
def ncp_without(shape: Geometry, ends: Ints, cells: Ints) -> float:
    """NCP of a group of two or more bundles without one."""
    per_row = 0.0
    for j in range(cells.shape[0]):
        lo = ends[NEXT_LO, j] if cells[j] == ends[LO, j] and ends[LO + 1, j] == 1 else ends[LO, j]
        hi = ends[NEXT_HI, j] if cells[j] == ends[HI, j] and ends[HI + 1, j] == 1 else ends[HI, j]
        per_row += ncp_term(shape, j, lo, hi)
    return per_row


@inlined
def ncp_instead(shape: Geometry, ends: Ints, cells: Ints, new: Ints, alone: bool) -> float:
    """NCP of a group with another bundle in place of one; alone: that one is the whole group."""
    per_row = 0.0
    for j in range(cells.shape[0]):
        lo = ends[NEXT_LO, j] if cells[j] == ends[LO, j] and ends[LO + 1, j] == 1 else ends[LO, j]
        hi = ends[NEXT_HI, j] if cells[j] == ends[HI, j] and ends[HI + 1, j] == 1 else ends[HI, j]
        if alone:
            lo = hi = new[j]
        per_row += ncp_term(shape, j, min(lo, new[j]), max(hi, new[j]))
    return per_row
