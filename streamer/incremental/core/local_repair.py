"""Local repair: rows change QI groups where the loss that this saves is worth the rows that are published again for it.

The rules of this file
----------------------
* One price decides: `engine: {repair: ...}`, the NCP that every row must save that is published again for a move, as
  `streamer.incremental.core.expense` counts them. Without a price nothing here is done.
* A box that a row has left *shrinks* where that saves more than the price, else it stays (`moves.shrink`).
* Every group that a move touches holds the model behind it (`core.changed_by_one`): nobody leaves a group that needs
  him, nor one where he has other records, and no row joins a group where its value or its individual has its share.
* A group that does not hold the model, and does with one row more, *adopts* one before it would merge: from the NEAREST
  groups of highest QGSSD (equal: the lower number), if one of them holds without it. The row that costs least in both
  groups wins; equal: the first of these groups, then the lower cells in table.yaml order, then the smaller lot,
  shuffled as for a cut.
* Then the groups that the event has touched (rows came, went or got other cells; or other values, where the model asks
  for more than k) are looked at, lowest number first. A group *evicts* the row that gains
  most by joining the group where it costs least; equal: lower cells, then the smaller shuffled lot. One that
  needs every row to hold the model *dissolves* if that gains: its rows, by cells and shuffled lots, join the groups
  where each costs least, of those that can take it, as the boxes are before the first one leaves. What they cost
  together is counted exactly, and a row that costs more than is left to gain ends it, as does a share that is too large
  when all have come. A group of more than ROWS_AT_MOST rows does not dissolve. Where neither gains, it is cut afresh
  together with a neighbour (`core.neighbours`). Groups that have received rows are touched as well, and cut if they
  have 2k.
* Every move lowers the loss. What the moves of one event publish again is bounded: once it has come to SPENT_PER_K
  times k rows, the groups that still wait are left as they are.
* It is part of the event, and depends on boxes, cells, counts, numbers and lots: batches do not matter.
"""

from __future__ import annotations

from math import inf

from streamer.incremental.core.changed_by_one import can_lose, can_spare_one, can_take, counted, one_may_do, tallied
from streamer.incremental.core.cut import shuffled
from streamer.incremental.core.expense import (
    RECORDS_OF_A_REMOVAL,
    ROUNDING,
    cheapest,
    expense,
    expense_behind,
    ncp_without,
    rows_again,
    take_edges,
)
from streamer.incremental.core.heap import pop, push
from streamer.incremental.core.journal import touch
from streamer.incremental.core.layout import Shard
from streamer.incremental.core.model import asks_share, reaches
from streamer.incremental.core.moves import forget, is_short, join, leave, shrink
from streamer.incremental.core.neighbours import cut_with_neighbour
from streamer.incremental.core.record_types import DONE, FREED, MOVED, NONE, STOPPED, TO_LOOK
from streamer.incremental.core.search import top
from streamer.incremental.core.waiting import cut_later, look_later
from streamer.jit import part

NEAREST = 8
"""Groups that are asked for a row by one that does not hold the model."""

ROWS_AT_MOST = 64
"""Of a group that is dissolved: every row is a search."""

SPENT_PER_K = 16

ROWS, TARGETS = 0, 1
"""Rows of `work.ints`: the rows of a group to be dissolved, and where they go."""


@part
def stands_before(s: Shard, place: int, other: int) -> bool:
    """Whether of two rows of one group the first comes first: by cells in table order, then by shuffled lots."""
    cells, state = s.rows.cells, s.state[0]
    for j in range(cells.shape[1]):
        if cells[place, j] != cells[other, j]:
            return bool(cells[place, j] < cells[other, j])
    number = s.groups.group[s.rows.row[place].group].number
    one = shuffled(s.rows.row[place].lot, number, state.qi_group_next)
    return bool(one < shuffled(s.rows.row[other].lot, number, state.qi_group_next))


@part
def move(s: Shard, place: int, to: int) -> None:
    """A row leaves its group for another."""
    leave(s, place)
    join(s, place, to)
    touch(s, place)


# -- a group takes the row that it is short of ------------------------------------------------------------------------


@part
def adopted(s: Shard, g: int) -> int:
    """MOVED where a group that did not hold the model has taken a row and holds it, DONE where it has to merge."""
    state, group = s.state[0], s.groups.group
    if state.price == 0.0 or not one_may_do(s, g):
        return DONE
    state.n_found = 0
    top(s, g, NEAREST)
    best, least, stays = NONE, inf, False
    for at in range(state.n_found):
        h = int(s.work.found[at].group)
        if group[h].count <= state.k:
            continue
        take_edges(s, h)
        for i in range(group[h].members):
            place = int(s.groups.pool[0, group[h].block + i])
            if not can_lose(s, place) or not can_take(s, place, g):
                continue
            cells = s.rows.cells[place]
            cost, box_stays = expense_of_losing(s, h, ncp_without(s, cells))
            cost += expense(s, cells, g)
            if cost < least or (cost == least and s.rows.row[best].group == h and stands_before(s, place, best)):
                best, least, stays = place, cost, box_stays
    if best == NONE:
        return DONE
    h = s.rows.row[best].group
    if is_short(s, group[h].members + group[g].members, 1):
        return STOPPED
    move(s, best, g)
    if not stays:
        shrink(s, h, True)
    group[g].broken = group[h].broken = 0
    cut_later(s, g)
    look_later(s, g)
    look_later(s, h)
    return MOVED


@part
def expense_of_losing(s: Shard, h: int, ncp: float) -> tuple[float, bool]:
    """What it costs that group h loses a row, with this NCP or in its old box: the lesser; whether the box stays."""
    group, price = s.groups.group[h], s.state[0].price
    members = int(group.members)
    keeping = price * rows_again(s, h, RECORDS_OF_A_REMOVAL) - group.ncp
    shrinking = price * rows_again(s, h, members) + ((members - 1) * ncp - members * group.ncp)
    if shrinking < keeping:
        return shrinking, False
    return keeping, True


# -- what the event has touched ---------------------------------------------------------------------------------------


@part
def improved(s: Shard) -> int:
    """Improves one of the groups that the event has touched."""
    state, work = s.state[0], s.work
    while work.heap_size[TO_LOOK] > 0:
        g = int(work.heap[TO_LOOK, 0].named)
        group = s.groups.group[g]
        if group.to_look != 0 and state.spent < SPENT_PER_K * state.k and state.n_groups > 1:
            outcome = evicted(s, g)
            if outcome == DONE:
                outcome = dissolved(s, g)
            if outcome == DONE:
                outcome = cut_with_neighbour(s, g)
            if outcome != DONE:
                return outcome
        group.to_look = 0
        pop(work, TO_LOOK)
    return DONE


@part
def evicted(s: Shard, g: int) -> int:
    """The row that gains most leaves a group, if one gains."""
    state, group = s.state[0], s.groups.group
    members = int(group[g].members)
    if group[g].count <= state.k:
        return DONE
    best, target, most, rows, price = NONE, NONE, 0.0, rows_again(s, g, members), state.price
    take_edges(s, g)
    for i in range(members):
        place = int(s.groups.pool[0, group[g].block + i])
        cells = s.rows.cells[place]
        ncp = ncp_without(s, cells)
        saved = members * group[g].ncp - (members - 1) * ncp - price * rows
        if ncp >= group[g].ncp or saved <= 0.0 or saved < most or not can_lose(s, place):
            continue
        h = cheapest(s, place, saved - most + ROUNDING)
        if h == NONE:
            continue
        gain = saved - state.expense
        if gain > most or (gain == most and best != NONE and stands_before(s, place, best)):
            best, target, most = place, h, gain
    if best == NONE:
        return DONE
    if is_short(s, members + group[target].members + 1, 2):
        return STOPPED
    state.spent += 1 + rows + rows_again(s, target, group[target].members)
    move(s, best, target)
    shrink(s, g, True)
    cut_later(s, target)
    return MOVED


@part
def dissolved(s: Shard, g: int) -> int:
    """All rows of a group go elsewhere, if that gains."""
    state, group, rows, targets = s.state[0], s.groups.group, s.work.ints[ROWS], s.work.ints[TARGETS]
    members = int(group[g].members)
    gain = members * group[g].ncp - state.price * rows_again(s, g, members)
    if members > ROWS_AT_MOST or gain <= 0.0 or can_spare_one(s, g):
        return DONE
    set_in_order(s, g)
    room, again = members, rows_again(s, g, members)
    for i in range(members):
        place = int(rows[i])
        h = cheapest(s, place, gain)
        if h == NONE:
            return DONE
        targets[i] = h
        gain -= expense_behind(s, i)
        if gain <= 0.0:
            return DONE
        room += group[h].members + 1
        again += rows_again(s, h, group[h].members)
    if not all_can_take(s, members):
        return DONE
    if is_short(s, room, members + 1):
        return STOPPED
    state.spent += 1 + again
    for i in range(members):
        place = int(rows[i])
        move(s, place, targets[i])
        cut_later(s, targets[i])
    number = group[g].number
    forget(s, g)
    push(s.work, FREED, number, group[g].entry)
    return MOVED


@part
def all_can_take(s: Shard, n: int) -> bool:
    """Whether every group that is in TARGETS holds the model when all n rows have come, as it does with each alone."""
    for c in range(s.demands.demand.shape[0]):
        if asks_share(s.demands.demand[c]):
            for i in range(n):
                if not share_holds(s, c, i, n):
                    return False
    return True


@part
def share_holds(s: Shard, c: int, i: int, n: int) -> bool:
    """Whether the subject of the row at place i of ROWS has no more than its share there when all n rows have come."""
    rows, targets = s.work.ints[ROWS], s.work.ints[TARGETS]
    h, what, demand = int(targets[i]), counted(s, c, int(rows[i])), s.demands.demand[c]
    if what == NONE:
        return True
    has, members = tallied(s, h, what), int(s.groups.group[h].members)
    for at in range(n):
        if targets[at] == h:
            members += 1
            if counted(s, c, int(rows[at])) == what:
                has += 1
    return reaches(demand, demand.least, has, members)


@part
def set_in_order(s: Shard, g: int) -> None:
    """The members of a group as they go, into ROWS."""
    rows, group = s.work.ints[ROWS], s.groups.group[g]
    for i in range(group.members):
        place, to = int(s.groups.pool[0, group.block + i]), i
        while to > 0 and stands_before(s, place, int(rows[to - 1])):
            rows[to] = rows[to - 1]
            to -= 1
        rows[to] = place
