"""Bundles change their groups where every group still holds and the total loss falls.

A sweep goes through the groups by their seats, those alone that have changed since it was their turn. A bundle that its
group can spare goes to the group that takes it (`placement`) at the least growth, if that is less than what its own
group gains. One that makes its group's box larger and cannot go is exchanged for a bundle of the group where it would
grow the loss least, of that group's the one with which most is gained and both groups hold. So a rare value, which no
group can spare, still finds its way. Groups of more than SWAPPED_MAX rows exchange nothing.
"""

from __future__ import annotations

import numpy as np

from streamer.jit import compiled, inlined
from streamer.privacy.compiled import Scratch, holds
from streamer.progress import OnProgress, part_of, pieces, unheard
from streamer.recoding.algorithms.box_loss import Shape, ncp_term
from streamer.recoding.algorithms.bundles import Task, count_in, count_out
from streamer.recoding.algorithms.group_index import Groups, groups_of, join, members_of, nearest, put
from streamer.recoding.algorithms.placement import taker
from streamer.recoding.algorithms.subject_counts import SubjectCounts, count_row, counts_for, discount_row
from streamer.table.arrays import Ints

GAIN_MIN = 1e-9
VISITS = 48
SWAPPED_MAX = 256
SOME_SEATS = 256
"""Seats that one call of a compiled loop looks at."""


@compiled
def ends_of(task: Task, members: Ints, ends: Ints) -> None:
    """ends (6, d): the lowest cells, how many bundles have them, the next ones; and the highest likewise."""
    d = ends.shape[1]
    for j in range(d):
        lo, n_lo, next_lo = np.iinfo(np.int64).max, 0, np.iinfo(np.int64).max
        hi, n_hi, next_hi = -1, 0, -1
        for bundle in members:
            cell = task.bundles.cells[bundle, j]
            if cell < lo:
                lo, n_lo, next_lo = cell, 1, lo
            elif cell == lo:
                n_lo += 1
            elif cell < next_lo:
                next_lo = cell
            if cell > hi:
                hi, n_hi, next_hi = cell, 1, hi
            elif cell == hi:
                n_hi += 1
            elif cell > next_hi:
                next_hi = cell
        ends[0, j], ends[1, j], ends[2, j], ends[3, j], ends[4, j], ends[5, j] = lo, n_lo, next_lo, hi, n_hi, next_hi


@inlined
def _ncp_without(shape: Shape, ends: Ints, cells: Ints) -> float:
    """NCP of a group of two bundles and more without one."""
    each = 0.0
    for j in range(cells.shape[0]):
        lo = ends[2, j] if cells[j] == ends[0, j] and ends[1, j] == 1 else ends[0, j]
        hi = ends[5, j] if cells[j] == ends[3, j] and ends[4, j] == 1 else ends[3, j]
        each += ncp_term(shape, j, lo, hi)
    return each


@inlined
def _ncp_instead(shape: Shape, ends: Ints, cells: Ints, new: Ints, alone: bool) -> float:
    """NCP of a group without one bundle and with another instead."""
    each = 0.0
    for j in range(cells.shape[0]):
        lo = ends[2, j] if cells[j] == ends[0, j] and ends[1, j] == 1 else ends[0, j]
        hi = ends[5, j] if cells[j] == ends[3, j] and ends[4, j] == 1 else ends[3, j]
        if alone:
            lo = hi = new[j]
        each += ncp_term(shape, j, min(lo, new[j]), max(hi, new[j]))
    return each


@inlined
def _touches(ends: Ints, cells: Ints) -> bool:
    """Whether a bundle lies at an end of its group."""
    at = False
    for j in range(cells.shape[0]):
        at = at or cells[j] == ends[0, j] or cells[j] == ends[3, j]
    return at


@compiled
def _recount(task: Task, counts: SubjectCounts, bundle: int, source: int, target: int) -> None:
    for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
        discount_row(task.rules, counts, source, row)
        count_row(task.rules, counts, target, row)


@compiled
def _swap(
    task: Task, aside: Task, groups: Groups, counts: SubjectCounts, seat: int, members: Ints, at: int, ends: Ints,
    limit: float,
) -> bool:  # fmt: skip
    """Exchanges a bundle of a group, whose rows are counted, for one of another; whether that gained."""
    shape, bundles = task.shape, task.bundles
    bundle = members[at]
    cells, rows = bundles.cells[bundle], bundles.end[bundle] - bundles.begin[bundle]
    other, _ = nearest(task, groups, seat, cells, rows, limit)
    if other < 0 or groups.rows[other] > SWAPPED_MAX:
        return False
    theirs = members_of(groups, other)
    their_ends = np.empty_like(ends)
    ends_of(task, theirs, their_ends)
    n_here = groups.rows[seat] - rows
    before = groups.rows[seat] * groups.ncp[seat] + groups.rows[other] * groups.ncp[other]
    best, least = -1, before - GAIN_MIN
    loaded = False
    for i in range(theirs.shape[0]):
        their = theirs[i]
        their_rows = bundles.end[their] - bundles.begin[their]
        after = (n_here + their_rows) * _ncp_instead(shape, ends, cells, bundles.cells[their], members.shape[0] == 1)
        if after >= least:
            continue
        after += (groups.rows[other] + rows - their_rows) * _ncp_instead(
            shape, their_ends, bundles.cells[their], cells, theirs.shape[0] == 1
        )
        if after >= least:
            continue
        if not loaded:
            loaded = True
            for one in theirs:
                count_in(aside, one)
        count_out(task, bundle)
        count_in(task, their)
        count_out(aside, their)
        count_in(aside, bundle)
        if holds(task.rules, task.scratch) and holds(task.rules, aside.scratch):
            best, least = i, after
        count_out(task, their)
        count_in(task, bundle)
        count_out(aside, bundle)
        count_in(aside, their)
    if loaded:
        for one in theirs:
            count_out(aside, one)
    if best < 0:
        return False
    their = theirs[best]
    count_out(task, bundle)
    count_in(task, their)
    _recount(task, counts, bundle, seat, other)
    _recount(task, counts, their, other, seat)
    members[at], theirs[best] = their, bundle
    put(task, groups, other, theirs)
    put(task, groups, seat, members)
    ends_of(task, members, ends)
    return True


@compiled
def _relieve(task: Task, aside: Task, groups: Groups, counts: SubjectCounts, seat: int) -> int:
    """Sends bundles of a group elsewhere; how many went."""
    bundles = task.bundles
    members = members_of(groups, seat)
    ends = np.empty((6, bundles.cells.shape[1]), np.int64)
    for bundle in members:
        count_in(task, bundle)
    ends_of(task, members, ends)
    moved, at = 0, 0
    while at < members.shape[0]:
        bundle = members[at]
        cells, rows = bundles.cells[bundle], bundles.end[bundle] - bundles.begin[bundle]
        left = groups.rows[seat] - rows
        gain = groups.rows[seat] * groups.ncp[seat]
        if left > 0:
            gain -= left * _ncp_without(task.shape, ends, cells)
        at += 1
        if gain < GAIN_MIN:
            continue
        count_out(task, bundle)
        if left == 0 or holds(task.rules, task.scratch):
            other, _ = taker(task, groups, counts, seat, bundle, gain - GAIN_MIN, np.int64(VISITS))
            if other >= 0:
                _recount(task, counts, bundle, seat, other)
                members = np.append(members[: at - 1], members[at:])
                at -= 1
                touched = _touches(ends, cells)
                put(task, groups, seat, members)
                join(task, groups, other, bundle)
                if touched:
                    ends_of(task, members, ends)
                moved += 1
                continue
        count_in(task, bundle)
        if groups.rows[seat] <= SWAPPED_MAX and left > 0 and gain > rows * groups.ncp[seat] + GAIN_MIN:
            moved += _swap(task, aside, groups, counts, seat, members, at - 1, ends, gain)
    for bundle in members:
        count_out(task, bundle)
    return moved


def exchanged(
    task: Task, qi_group: Ints, n_seats: int, sweeps: int, on_progress: OnProgress = unheard
) -> tuple[float, Ints]:
    """The loss and the groups of qi_group (m,), all below n_seats, after some sweeps of moves."""
    aside = task._replace(scratch=Scratch(*(counts.copy() for counts in task.scratch)))
    groups, counts = groups_of(task, qi_group, n_seats), counts_for(task.rules, n_seats)
    _count_all(task, counts, qi_group)
    for done in range(sweeps):
        seats, moved = np.flatnonzero(groups.changed), 0
        for piece in pieces(len(seats), SOME_SEATS, part_of(on_progress, done / sweeps, (done + 1) / sweeps)):
            moved += _exchange_some(task, aside, groups, counts, seats[piece])
        if moved == 0:
            break
    return _found(groups, len(qi_group))


@compiled
def _count_all(task: Task, counts: SubjectCounts, qi_group: Ints) -> None:
    for bundle in range(qi_group.shape[0]):
        for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
            count_row(task.rules, counts, qi_group[bundle], row)


@compiled
def _exchange_some(task: Task, aside: Task, groups: Groups, counts: SubjectCounts, seats: Ints) -> int:
    """Sends bundles of the groups in some seats elsewhere; how many went."""
    moved = 0
    for at in seats:
        seat = int(at)
        groups.changed[seat] = False
        if groups.rows[seat] * groups.ncp[seat] > GAIN_MIN:
            moved += _relieve(task, aside, groups, counts, seat)
    return moved


@compiled
def _found(groups: Groups, m: int) -> tuple[float, Ints]:
    """The loss of all groups, and every bundle's group; (m,)."""
    found, loss = np.empty(m, np.int64), 0.0
    for seat in range(groups.rows.shape[0]):
        loss += groups.rows[seat] * groups.ncp[seat]
        bundle = groups.first[seat]
        while bundle >= 0:
            found[bundle] = seat
            bundle = groups.next[bundle]
    return loss, found
