"""The rows that a table does better without: left out, one group after the other, while the limit allows it.

A turn leaves out one bundle of a group that still holds without it, or dissolves a group: those of its bundles that fit
elsewhere go there, and the others, or all, are left out. That turn comes first that lowers the loss of the rows that
stay most for each row that it leaves out; of equals that of the group with fewer rows. None is taken that saves less
for each than a row loses on average: that would raise the average of the others. A heap has one entry for each
group. A group is looked at again before its turn, because others have changed; if it saves less than it did, it waits.

Groups that are wider than `coarsest` allows have their turns before, until they are narrow enough, whatever they save.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.kernels.boxes import exceeds_weight
from streamer.kernels.sorting import Heap, heap_for, pop, push, sort_stably
from streamer.native import compiled
from streamer.privacy.compiled import holds
from streamer.progress import OnProgress, part_of, pieces, unheard
from streamer.recoding.algorithms.bundles import Task, add_bundle, bundles_hold, clear_bundles, remove_bundle
from streamer.recoding.algorithms.ends import ends_for, ends_of, ncp_without
from streamer.recoding.algorithms.group_index import (
    FAIR,
    GAIN_MIN,
    ROWS_PER_SLOT,
    VISITS,
    Groups,
    count_group,
    groups_of,
    has,
    joined,
    loss_of,
    members_of,
    nearest_of_all,
    put,
)
from streamer.table.arrays import Bools, Floats, Ints


class Turn(NamedTuple):
    """The best turn of a group: what each row left out saves, how many rows these are, and where each member goes."""

    saved: float
    rows: int  # 0: there is none
    goes: Ints  # (m,) to another slot, its own, or OUT


OUT = -1
"""In the place of a slot: it is left out."""


class _Leaving(NamedTuple):
    """g slots of m bundles while rows leave them."""

    groups: Groups
    waiting: Heap
    known: Floats  # (g,) what each row left out saved when the group was looked at last
    found: Ints  # (m,) the slot of each bundle that stays
    gone: Bools  # (m,)
    rows: Ints  # (3,) how many stay, how many may still leave, and 1 if they leave only groups that are too wide
    lost: Floats  # (1,) by those that stay


def left_out(
    task: Task, qi_group: Ints, n_slots: int, rows_max: int, on_progress: OnProgress = unheard, too_wide: bool = False
) -> tuple[Bools, Ints]:
    """True for each bundle that is left out, (m,), at most rows_max rows and not all; and the slots of all, (m,).

    qi_group (m,): below n_slots. too_wide: only groups that `coarsest` forbids have turns; then all may be left out.
    """
    leaving = _leaving(task, qi_group, n_slots, rows_max, too_wide)
    for piece in pieces(n_slots, max(1, task.rows_per_call // ROWS_PER_SLOT), part_of(on_progress, 0.0, 0.5)):
        _look(task, leaving, np.arange(n_slots)[piece])
    while _take_turns(task, leaving, max(1, task.rows_per_call // ROWS_PER_SLOT)):
        on_progress(0.5 + 0.5 * (1 - int(leaving.rows[1]) / rows_max))
    return leaving.gone, leaving.found


@compiled
def _leaving(task: Task, qi_group: Ints, n_slots: int, rows_max: int, too_wide: bool) -> _Leaving:
    """Nobody has left, and no group was looked at."""
    groups, rows, lost = groups_of(task, qi_group, n_slots), 0, 0.0
    for slot in range(n_slots):
        rows += groups.rows[slot]
        lost += groups.rows[slot] * groups.ncp[slot]
    gone = np.zeros(qi_group.shape[0], np.bool_)
    return _Leaving(groups, heap_for(n_slots), np.zeros(n_slots), qi_group.copy(), gone,
        np.array([rows, rows_max, int(too_wide)]),
        np.full(1, lost))  # fmt: skip


def _is_too_wide(task: Task, groups: Groups, slot: int) -> bool:
    """True if a group is wider than `coarsest` allows."""
    leaf = groups.term.shape[0] // 2 + slot
    for j in range(groups.term.shape[1]):  # noqa: SIM110 - compiled
        if exceeds_weight(task.shape, j, groups.term[leaf, j]):
            return True
    return False


@compiled
def _look(task: Task, leaving: _Leaving, slots: Ints) -> None:
    """Puts the best turns of some groups into the heap."""
    for slot in slots:
        _wait(task, leaving, slot)


def _wait(task: Task, leaving: _Leaving, slot: int) -> None:
    """Puts a group's best turn into the heap, if it has one."""
    groups = leaving.groups
    if groups.rows[slot] > 0 and (leaving.rows[2] == 0 or _is_too_wide(task, groups, slot)):
        turn = _best(task, groups, slot, members_of(groups, slot), leaving.rows[1])
        leaving.known[slot] = turn.saved
        if turn.rows > 0:
            push(leaving.waiting, -turn.saved, groups.rows[slot], slot)


@compiled
def _take_turns(task: Task, leaving: _Leaving, turns: int) -> bool:
    """Takes turns while rows may leave; True if some are left to take."""
    groups, waiting, known, found, gone, rows, lost = leaving
    while waiting.n[0] > 0 and rows[1] > 0 and turns > 0:
        turns -= 1
        _, slot = pop(waiting)
        members = members_of(groups, slot)
        turn = _best(task, groups, slot, members, rows[1])
        if turn.rows == 0 or (rows[2] == 0 and turn.saved * rows[0] < lost[0] + GAIN_MIN):
            continue
        if turn.saved < known[slot] - GAIN_MIN:
            known[slot] = turn.saved
            push(waiting, -turn.saved, groups.rows[slot], slot)
            continue
        _take(task, groups, slot, members, turn.goes)
        rows[0] -= turn.rows
        rows[1] -= turn.rows
        lost[0] -= turn.saved * turn.rows
        for i in range(members.shape[0]):
            gone[members[i]] = turn.goes[i] == OUT
            found[members[i]] = max(turn.goes[i], 0)
        _wait(task, leaving, slot)
    return bool(waiting.n[0] > 0 and rows[1] > 0)


def _best(task: Task, groups: Groups, slot: int, members: Ints, room: int) -> Turn:
    """The best turn of a group that leaves out at most `room` rows."""
    rows, lost, goes = groups.rows[slot], groups.rows[slot] * groups.ncp[slot], np.full(members.shape[0], slot)
    saved, out = GAIN_MIN, 0
    if lost < GAIN_MIN:
        return Turn(0.0, 0, goes)
    if rows <= room:
        saved, out = lost / rows, rows
        goes[:] = OUT
    at, alone = _one(task, groups, slot, members, room)
    if at >= 0 and alone > saved + GAIN_MIN:
        saved, out = alone, task.bundles.end[members[at]] - task.bundles.begin[members[at]]
        goes[:] = slot
        goes[at] = OUT
    elsewhere, left = _dissolved(task, groups, slot, members, room, saved)
    if left > 0:
        more = lost - _risen(task, groups, members, elsewhere)
        if more / left > saved + GAIN_MIN:
            return Turn(more / left, left, elsewhere)
    return Turn(saved, out, goes)


def _one(task: Task, groups: Groups, slot: int, members: Ints, room: int) -> tuple[int, float]:
    """The member without which the group holds and each row that leaves saves most, and how much; -1: there is none."""
    rows, ends, best, at = groups.rows[slot], ends_for(task), 0.0, -1
    if rows <= task.rows_min:
        return at, best
    ends_of(task, members, ends)
    plain = task.rules.distinct.shape[0] == 0
    if not plain:
        count_group(task, groups, slot)
    for i in range(members.shape[0]):
        cost = task.bundles.end[members[i]] - task.bundles.begin[members[i]]
        left = rows - cost
        if left < task.rows_min or cost > room:
            continue
        saved = (rows * groups.ncp[slot] - left * ncp_without(task.shape, ends, task.bundles.cells[members[i]])) / cost
        if saved > best + GAIN_MIN and (plain or _holds_without(task, members[i])):
            best, at = saved, i
    if not plain:
        clear_bundles(task, members)
    return at, best


def _holds_without(task: Task, bundle: int) -> bool:
    """True if the counted group holds without a bundle."""
    remove_bundle(task, bundle)
    answer = holds(task.rules, task.scratch)
    add_bundle(task, bundle)
    return answer


def _dissolved(task: Task, groups: Groups, slot: int, members: Ints, room: int, least: float) -> tuple[Ints, int]:
    """Where each member goes if the group is dissolved, (m,), and how many rows are left out; 0: none save as much.

    Members go one after the other, those first that add least. So every number of them is looked at.
    """
    m, lost, left, n = members.shape[0], groups.rows[slot] * groups.ncp[slot], groups.rows[slot], 0
    target, grown = nearest_of_all(task, groups, slot, members, FAIR, VISITS)
    goes, order, out = np.full(m, OUT), np.empty(m, np.int64), 0
    sort_stably(grown, order, np.empty(m, np.int64))
    for i in range(m - 1):
        one = order[i]
        if target[one] < 0:
            break
        lost -= grown[one]
        left -= task.bundles.end[members[one]] - task.bundles.begin[members[one]]
        if left <= room and lost / left > least:
            least, n, out = lost / left, i + 1, left
    for i in range(n):
        goes[order[i]] = target[order[i]]
    return goes, out


def _risen(task: Task, groups: Groups, members: Ints, goes: Ints) -> float:
    """By how much the loss of other groups rises if members go there; infinite if one would not hold."""
    risen = 0.0
    for i in range(members.shape[0]):
        if goes[i] == OUT or has(goes[:i], goes[i]):
            continue
        both = joined(groups, members, goes, goes[i])
        risen += loss_of(task, both) - groups.rows[goes[i]] * groups.ncp[goes[i]]
        if not bundles_hold(task, both):
            return np.inf
    return risen


def _take(task: Task, groups: Groups, slot: int, members: Ints, goes: Ints) -> None:
    """Carries out a turn."""
    for i in range(members.shape[0]):
        if goes[i] != OUT and goes[i] != slot and not has(goes[:i], goes[i]):
            put(task, groups, goes[i], joined(groups, members, goes, goes[i]))
    stay, n = np.empty(members.shape[0], np.int64), 0
    for i in range(members.shape[0]):
        if goes[i] == slot:
            stay[n] = members[i]
            n += 1
    put(task, groups, slot, stay[:n])
