"""Which QI group takes a row at least expense, and what it saves where a row is not in its group.

The rules of this file
----------------------
* Losses are NCP, of a group times its rows. `state.price` is what a row that is published again has to save. Rows of a
  group whose box has changed in this event (`group.paid`) are published anyway: they cost nothing any more.
* What a group loses by a row that comes: (n + 1) NCP(with it) - n NCP, and the price of the rows published for it: the
  new row alone inside its box, all of them where its box grows.
* `cheapest` finds the true minimum among the groups that hold the model with the row, by the same tree as all other
  searches: a bound is never above the expense of any group below, and what equals the best is visited too; equal ones
  by `precedes`. All groups hold the model at that time.
* A row is missed only by its group's edges: `take_edges` notes the two lowest and the two highest cells along every
  attribute, so that NCP without any one row needs no second look at the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamer.incremental.core.changed_by_one import can_take
from streamer.incremental.core.geometry import box_contains, cover, ncp_term
from streamer.incremental.core.layout import Shard
from streamer.incremental.core.nodes import precedes
from streamer.incremental.core.record_types import FAN, HALF, HI, HULL_HI, HULL_LO, LO, NCP, NONE
from streamer.incremental.core.scores import ask_about_tuple, cover_with_children
from streamer.incremental.core.search import stacked
from streamer.jit import inner, part

OUTER, SECOND = 0, 1
"""In `work.hull`: the outermost cells of a group's members, and the outermost of all but one of these."""

BELOW = 1.0 - 1e-9
"""Takes a bound below what it bounds, whatever was rounded."""

ROUNDING = 1e-9
"""What is found by a search with a limit is compared again: the limit may not cut off what is equal."""

RECORDS_OF_A_REMOVAL = 2
"""Inside an unchanged box a removed row takes its slot's record along, and the last one moves."""


@part
def rows_again(s: Shard, g: int, rows: int) -> int:
    """How many of a group's rows are published again for a change of so many of them: none where all of them are."""
    if s.groups.group[g].paid == s.state[0].event:
        return 0
    return rows


@part
def expense(s: Shard, cells: Any, h: int) -> float:
    """What it costs that a row of cells (d,) joins group h."""
    members, grown = int(s.groups.group[h].members), 0.0
    if box_contains(s.groups, h, cells):
        return s.groups.group[h].ncp + s.state[0].price * rows_again(s, h, 1)
    for j in range(cells.shape[0]):
        lo, hi = min(s.groups.box[h, LO, j], cells[j]), max(s.groups.box[h, HI, j], cells[j])
        grown += ncp_term(s.space, j, lo, hi)
    loss = (members + 1) * grown - members * s.groups.group[h].ncp
    return loss + s.state[0].price * rows_again(s, h, members + 1)


@part
def expense_behind(s: Shard, i: int) -> float:
    """What the row at place i of `work.ints[0]` costs the group that `work.ints[1]` names for it, behind those before.

    state.expense is what it would cost as the first one there.
    """
    rows, targets, hull, state = s.work.ints[0], s.work.ints[1], s.work.hull[OUTER], s.state[0]
    h, cells = int(targets[i]), s.rows.cells
    members, grew, own = int(s.groups.group[h].members), False, cells[rows[i]]
    first = members
    for at in range(i):
        if targets[at] == h:
            if members == first:
                start_at_box(s, h)
            members += 1
            grew = widen_to_cover(s, hull, cells[rows[at]]) or grew
    if members == first:
        return float(state.expense)
    before = ncp_of_hull(s, hull)
    if not widen_to_cover(s, hull, own):
        return before + state.price * rows_again(s, h, 1)
    loss = (members + 1) * ncp_of_hull(s, hull) - members * before
    return loss + state.price * rows_again(s, h, 1 if grew else members + 1)


@part
def start_at_box(s: Shard, h: int) -> None:
    """The box of a group into the hull that the next ones widen."""
    hull = s.work.hull[OUTER]
    for j in range(hull.shape[1]):
        hull[LO, j], hull[HI, j] = s.groups.box[h, LO, j], s.groups.box[h, HI, j]


@part
def widen_to_cover(s: Shard, hull: Any, cells: Any) -> bool:
    """Widens a box (2, d) to hold cells (d,), categories to the node that covers them; whether it had to."""
    wider = False
    for j in range(cells.shape[0]):
        if cells[j] < hull[LO, j] or cells[j] > hull[HI, j]:
            lo, hi = min(hull[LO, j], cells[j]), max(hull[HI, j], cells[j])
            if s.space.axes[j].first_leaf >= 0:
                lo, hi = cover(s.space, j, lo, hi)
            hull[LO, j], hull[HI, j], wider = lo, hi, True
    return wider


@part
def ncp_of_hull(s: Shard, hull: Any) -> float:
    """NCP of a box (2, d)."""
    loss = 0.0
    for j in range(hull.shape[1]):
        loss += ncp_term(s.space, j, hull[LO, j], hull[HI, j])
    return loss


@part
def take_edges(s: Shard, g: int) -> None:
    """The two lowest and the two highest cells of a group's members, of which it has two at least."""
    outer, second, pool = s.work.hull[OUTER], s.work.hull[SECOND], s.groups.pool
    group, cells = s.groups.group[g], s.rows.cells
    for j in range(cells.shape[1]):
        one, other = cells[pool[0, group.block], j], cells[pool[0, group.block + 1], j]
        lo, next_lo, hi, next_hi = min(one, other), max(one, other), max(one, other), min(one, other)
        for i in range(2, group.members):
            cell = cells[pool[0, group.block + i], j]
            next_lo, lo = min(next_lo, max(lo, cell)), min(lo, cell)
            next_hi, hi = max(next_hi, min(hi, cell)), max(hi, cell)
        outer[LO, j], outer[HI, j], second[LO, j], second[HI, j] = lo, hi, next_lo, next_hi


@part
def ncp_without(s: Shard, cells: Any) -> float:
    """NCP of the smallest box around the members whose edges were taken, without one of these cells (d,)."""
    outer, second, loss = s.work.hull[OUTER], s.work.hull[SECOND], 0.0
    for j in range(cells.shape[0]):
        lo = second[LO, j] if cells[j] == outer[LO, j] else outer[LO, j]
        hi = second[HI, j] if cells[j] == outer[HI, j] else outer[HI, j]
        loss += ncp_term(s.space, j, lo, hi)
    return loss


@part
def cheapest(s: Shard, place: int, most: float) -> int:
    """The group that takes a row of another one at least expense, in state.expense; NONE where all exceed `most`.

    There is a root.
    """
    tree, state, stack, bounds, best, least = s.tree, s.state[0], s.work.candidates, s.work.bounds, NONE, most
    cells, g = s.rows.cells[place], s.rows.row[place].group
    ask_about_tuple(s, cells)
    stack[0].node, stack[0].bound = state.root, 0.0
    depth = 1
    while depth > 0:
        depth -= 1
        node = int(stack[depth].node)
        if -stack[depth].bound > least:
            continue
        leaf, begin = tree.node[node].leaf, depth
        expenses_of_children(s, node)
        for i in range(tree.node[node].n):
            if bounds[i] > least:
                continue
            one = int(tree.child[node, i])
            if not leaf:
                depth = stacked(s, begin, depth, one, -bounds[i])
            elif one != g:
                exact = expense(s, cells, one)
                wins = exact < least or (exact == least and (best == NONE or precedes(s.groups, one, best)))
                if wins and can_take(s, place, one):
                    best, least = one, exact
    state.expense = least
    return best


@inner
def expenses_of_children(s: Shard, node: int) -> None:
    """Into `bounds`: what the tuple that is asked about costs any group at or below a child of a node, at least."""
    total, over, ncp = s.work.bounds, s.work.over, s.tree.rank[node, NCP]
    for i in range(min(total.shape[0], FAN)):
        total[i] = 0.0
    for j in range(s.space.axes.shape[0]):
        lane, value, width = s.tree.lane[node, j], s.work.middles[j], s.space.axes[j].width
        lo, hi, half = lane[HULL_LO], lane[HULL_HI], lane[HALF]
        if s.space.axes[j].first_leaf >= 0:
            cover_with_children(s.work, j, lo, hi)
            for i in range(min(total.shape[0], FAN)):
                total[i] += max(np.float64(over[i]) - np.float64(half[i]), 0.0) / width
        else:
            for i in range(min(total.shape[0], FAN)):
                total[i] += max(max(np.float64(lo[i]) - value, value - np.float64(hi[i])), 0.0) / width
    rows = float(s.state[0].k + 1)
    for i in range(min(total.shape[0], FAN)):
        total[i] = (ncp[i] + rows * total[i]) * BELOW
