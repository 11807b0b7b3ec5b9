"""Repairs after an event: boxes shrink, groups that break the model merge, large ones are cut, rows change groups.

The rules of this file
----------------------
* Groups that lost rows, or whose rows changed cells, get their box again from their members (after a deletion: unless
  `shrink` is off), whatever that publishes again; empty groups are removed. So at the end of every event a box is the
  smallest one around its members: no edge is left of a row that is gone.
* Then the lowest-numbered group that does not hold the model merges with that of highest QGSSD (Song et al. 2009,
  algorithm DEL), until all hold. The group with more rows keeps its number (equal: the lower).
* If there is no group to merge with, rows are *pending*. As soon as pending rows hold the model together, they form
  one.
* Then groups that an insertion or a merge brought to 2k are cut, lowest number first. A half that needs a number takes
  the lowest one that a merge for the same change has freed, else a new one. Nothing was published in between, so
  readers see that group's rows rewritten instead of all removed and as many added.
* Every step checks capacity before it begins. After `repair_event` ran out of capacity it can be called again, and goes
  on with the heaps as they are.
* Local repair (`engine: {repair: ...}`, docs/explanation/core.md) moves rows if the loss that this saves is worth the
  rows published again for it. Every group that a move touches holds the model after it. Every move lowers the loss.
* All of it is part of the event, and depends on boxes, cells, counts, numbers and tie hashes, never on batches. Each
  choice has its tie-break in the docstring of its function or on that page.
"""

from __future__ import annotations

from math import inf
from typing import Any

from streamer.incremental.core import layout, model, moves, worklist
from streamer.incremental.core.cut import ROUNDING, cut, cut_gathered, gather, loss_of_parts, shuffled
from streamer.incremental.core.journal import mark_touched, note_origin
from streamer.incremental.core.layout import HI, LO, NONE, ROW_LIST, TARGETS, Shard
from streamer.incremental.core.scores import box_contains, cover_with_children, hull_ncp, lost_once, set_query_tuple
from streamer.incremental.core.search import nearest, neighbours, push_candidate
from streamer.incremental.core.tree import is_withheld, precedes, withheld_beside
from streamer.kernels.boxes import cover, ncp_term
from streamer.native import inlined

# -- what a move costs -------------------------------------------------------------------------------------------------

OUTER, SECOND = 0, 1
"""In `work.hull`: the outermost cells of a group's members; the outermost of all but one of these."""

BELOW = 1.0 - 1e-9
"""Lowers a bound by more than its rounding."""

RECORDS_OF_A_REMOVAL = 2
"""Inside an unchanged box, a removed row takes its slot's record along, and the last record moves."""


def withheld(s: Shard, g: int) -> bool:
    """True if a group's box is wider than `coarsest` allows."""
    return is_withheld(s.groups, g, s.space.axes.shape[0])


def republished(s: Shard, g: int, rows: int) -> int:
    """The rows that a change of `rows` rows of a group publishes again: none if all are anyway, or it is withheld."""
    return 0 if s.groups.group[g].box_event == s.state[0].event or withheld(s, g) else rows


def move_cost(s: Shard, cells: Any, h: int) -> float:
    """The cost for group h, rows published again included, if a row of cells (d,) joins it."""
    members, grown = int(s.groups.group[h].members), 0.0
    if box_contains(s.groups, h, cells):
        return s.groups.group[h].ncp + s.state[0].price * republished(s, h, 1)
    for j in range(cells.shape[0]):
        lo, hi = min(s.groups.box[h, LO, j], cells[j]), max(s.groups.box[h, HI, j], cells[j])
        grown += ncp_term(s.space, j, lo, hi)
    loss = (members + 1) * lost_once(s.space, grown) - members * s.groups.group[h].ncp
    return loss + s.state[0].price * republished(s, h, members + 1)


def cost_after_others(s: Shard, i: int) -> float:
    """The cost of the i-th row of `work.ints[0]` for its group in `work.ints[1]`, after the rows before it.

    state.cost is its cost as the first one there.
    """
    rows, targets, hull, state = s.work.ints[0], s.work.ints[1], s.work.hull[OUTER], s.state[0]
    h, cells = int(targets[i]), s.rows.cells
    members, grew, own = int(s.groups.group[h].members), False, cells[rows[i]]
    first = members
    for at in range(i):
        if targets[at] == h:
            if members == first:
                for j in range(hull.shape[1]):
                    hull[LO, j], hull[HI, j] = s.groups.box[h, LO, j], s.groups.box[h, HI, j]
            members += 1
            grew = widen_to_cover(s, hull, cells[rows[at]]) or grew
    if members == first:
        return float(state.cost)
    before = hull_ncp(s.space, hull)
    if not widen_to_cover(s, hull, own):
        return before + state.price * republished(s, h, 1)
    loss = (members + 1) * hull_ncp(s.space, hull) - members * before
    return loss + state.price * republished(s, h, 1 if grew else members + 1)


def widen_to_cover(s: Shard, hull: Any, cells: Any) -> bool:
    """Widens a box (2, d) to contain cells (d,), categories to the node that covers them; returns whether it had to."""
    wider = False
    for j in range(cells.shape[0]):
        if cells[j] < hull[LO, j] or cells[j] > hull[HI, j]:
            lo, hi = min(hull[LO, j], cells[j]), max(hull[HI, j], cells[j])
            if s.space.axes[j].first_leaf >= 0:
                lo, hi = cover(s.space, j, lo, hi)
            hull[LO, j], hull[HI, j], wider = lo, hi, True
    return wider


def set_edges(s: Shard, g: int) -> None:
    """Notes the two lowest and two highest cells of a group's members, at least two; see `ncp_without`."""
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


def ncp_without(s: Shard, cells: Any) -> float:
    """NCP of the smallest box around the members whose edges were noted, without one with these cells (d,)."""
    outer, second, loss = s.work.hull[OUTER], s.work.hull[SECOND], 0.0
    for j in range(cells.shape[0]):
        lo = second[LO, j] if cells[j] == outer[LO, j] else outer[LO, j]
        hi = second[HI, j] if cells[j] == outer[HI, j] else outer[HI, j]
        loss += ncp_term(s.space, j, lo, hi)
    return lost_once(s.space, loss)


def cheapest_group(s: Shard, index: int, most: float) -> int:
    """The group that takes a row of another one at least cost, in state.cost; NONE if all cost more than `most`.

    None that is withheld. There is a root.
    """
    tree, state, stack, bounds, best, least = s.tree, s.state[0], s.work.candidates, s.work.bounds, NONE, most
    cells, g = s.rows.cells[index], s.rows.row[index].group
    set_query_tuple(s, cells)
    stack[0].node, stack[0].bound = state.root, 0.0
    depth = 1
    while depth > 0:
        depth -= 1
        node = int(stack[depth].node)
        if -stack[depth].bound > least:
            continue
        leaf, begin = tree.node[node].leaf, depth
        if not costs_of_children(s, node, least):
            continue
        for i in range(tree.node[node].n):
            if bounds[i] > least:
                continue
            one = int(tree.child[node, i])
            if not leaf:
                depth = push_candidate(s, begin, depth, one, -bounds[i])
            elif one != g and not withheld(s, one):
                exact = move_cost(s, cells, one)
                wins = exact < least or (exact == least and (best == NONE or precedes(s.groups, one, best)))
                if wins and model.can_take(s, index, one):
                    best, least = one, exact
    state.cost = least
    return best


COLUMNS_TOGETHER = 8
"""In a wide table it may be known after so many columns that no child will do."""


@inlined
def costs_of_children(s: Shard, node: int, most: float) -> bool:
    """Into `bounds`: the least that the query tuple costs any group at or below a child of a node.

    False if that is more than `most` for each child; then no bound is complete.
    """
    total, over, ncp, rows = s.work.bounds, s.work.over, s.tree.rank[node], float(s.state[0].k + 1) * BELOW
    for i in range(min(total.shape[0], layout.FAN)):
        total[i] = ncp[i] * BELOW
    for i in range(int(s.tree.node[node].n), layout.FAN):
        total[i] = inf
    for j in range(s.space.axes.shape[0]):
        lane, value, per = s.tree.lane[node, j], s.work.query_center[j], rows / s.space.axes[j].width
        lo, hi, half = lane[layout.HULL_LO], lane[layout.HULL_HI], lane[layout.HALF]
        if s.space.axes[j].first_leaf >= 0:
            cover_with_children(s.work, j, lo, hi)
            for i in range(min(total.shape[0], layout.FAN)):
                total[i] += max(over[i] - half[i], 0.0) * per
        else:
            for i in range(min(total.shape[0], layout.FAN)):
                total[i] += max(max(lo[i] - value, value - hi[i]), 0.0) * per
        if j % COLUMNS_TOGETHER == COLUMNS_TOGETHER - 1 and least_of(total) > most:
            return False
    return True


@inlined
def least_of(total: Any) -> float:
    """The least of FAN numbers."""
    least = inf
    for i in range(min(total.shape[0], layout.FAN)):
        least = min(least, total[i])
    return least


# -- a group and a neighbour are cut afresh ----------------------------------------------------------------------------

NEIGHBOURS = 3

LEAST_LOSS = 0.75
"""A group that loses less than this share of what a group loses in the mean is not cut afresh with others."""

MOST_TOGETHER = 2.0
"""Two groups are not cut afresh if one box around both would lose more than so many times what they lose now."""

ROWS_TOGETHER = 256


def recut_with_neighbours(s: Shard, g: int) -> int:
    """Cuts a group afresh with the neighbours with which that gains most, if it gains."""
    state, found = s.state[0], s.work.found
    if float(s.groups.group[g].loss) * state.n_groups < LEAST_LOSS * float(state.loss) and not withheld(s, g):
        return layout.ALL_DONE
    neighbours(s, g, NEIGHBOURS)
    state.recut_gain, state.recut_one, state.recut_other = 0.0, NONE, NONE
    for a in range(state.n_found):
        for b in range(-1, a):
            other = NONE if b < 0 else int(found[b].group)
            if not try_recut(s, g, int(found[a].group), other):
                return layout.STOPPED_SHORT
    if state.recut_one == NONE:
        return layout.ALL_DONE
    h, i = int(state.recut_one), int(state.recut_other)
    lower, upper = int(state.recut_lower), int(state.recut_upper)
    state.spent += 1 + republished_of(s, g, h, i)
    bound = most_saved_by(s, g, h, i) + ROUNDING if lower == upper == 1 else inf
    position, lower_is_larger, _ = cut_gathered(s, rows_of(s, g, h, i), gather(s, g, h, i), bound, lower, upper)
    form_halves(s, g, h, i, position, lower_is_larger)
    return layout.MOVED


def try_recut(s: Shard, g: int, h: int, i: int) -> bool:
    """Notes in the state if a cut of these groups gains more than those tried before; False if capacity ran out.

    Two groups are cut in two, or, from 3k rows on, in three; three groups in four, from 4k rows on.
    """
    state, two = s.state[0], 2 * int(s.state[0].k)
    rows, most_saved = rows_of(s, g, h, i), most_saved_by(s, g, h, i)
    if rows > ROWS_TOGETHER or most_saved <= state.recut_gain or (i != NONE and rows < 2 * two):
        return True
    if i == NONE and rows * ncp_together(s, g, h) > MOST_TOGETHER * loss_of(s, g, h):
        return True
    if moves.is_short(s, rows, 2):
        return False
    first = gather(s, g, h, i)
    if i != NONE:
        try_parts(s, g, h, i, first, two, two)
        return True
    position, _, loss = cut_gathered(s, rows, first, most_saved - state.recut_gain + ROUNDING, 1, 1)
    if position > 0:
        note_recut(s, h, i, most_saved - loss, 1, 1)
    if 2 * rows >= 3 * two:
        try_parts(s, g, h, i, first, 1, two)
        try_parts(s, g, h, i, first, two, 1)
    return True


def ncp_together(s: Shard, g: int, h: int) -> float:
    """NCP of the smallest box around two groups."""
    box, loss = s.groups.box, 0.0
    for j in range(box.shape[2]):
        loss += ncp_term(s.space, j, min(box[g, LO, j], box[h, LO, j]), max(box[g, HI, j], box[h, HI, j]))
    return lost_once(s.space, loss)


def loss_of(s: Shard, g: int, h: int) -> float:
    one, other = s.groups.group[g], s.groups.group[h]
    return float(one.members * one.ncp + other.members * other.ncp)


def note_recut(s: Shard, h: int, i: int, gain: float, lower: int, upper: int) -> None:
    state = s.state[0]
    if gain > state.recut_gain:
        state.recut_gain, state.recut_one, state.recut_other = gain, h, i
        state.recut_lower, state.recut_upper = lower, upper


def try_parts(s: Shard, g: int, h: int, i: int, first: int, lower: int, upper: int) -> None:
    """Notes the gain of the gathered rows of these groups if a half of at least 2k rows is cut again."""
    n, most_saved = rows_of(s, g, h, i), most_saved_by(s, g, h, i)
    position, lower_is_larger, _ = cut_gathered(s, n, first, inf, lower, upper)
    if position == 0:
        return
    larger, smaller, _ = by_rows(s, g, h, i)
    one, other = int(s.groups.group[larger].number), int(s.groups.group[smaller].number)
    if not lower_is_larger:
        one, other = other, one
    loss = loss_of_parts(s, position, n, one, other, most_saved - s.state[0].recut_gain + ROUNDING)
    note_recut(s, h, i, most_saved - loss, lower, upper)


def by_rows(s: Shard, g: int, h: int, i: int) -> tuple[int, int, int]:
    """The groups, those with more rows first; equal: the lower number. i: NONE if there is no third."""
    one, other = moves.larger_first(s, g, h)
    if i == NONE:
        return one, other, NONE
    other, last = moves.larger_first(s, other, i)
    one, other = moves.larger_first(s, one, other)
    return one, other, last


def rows_of(s: Shard, g: int, h: int, i: int) -> int:
    rows = int(s.groups.group[g].members + s.groups.group[h].members)
    return rows if i == NONE else rows + int(s.groups.group[i].members)


def republished_of(s: Shard, g: int, h: int, i: int) -> int:
    """The rows that are published again if all these boxes change."""
    rows = republished(s, g, int(s.groups.group[g].members)) + republished(s, h, int(s.groups.group[h].members))
    return rows if i == NONE else rows + republished(s, i, int(s.groups.group[i].members))


def most_saved_by(s: Shard, g: int, h: int, i: int) -> float:
    """The loss that a cut of all would save if its parts lost nothing."""
    loss = loss_of(s, g, h)
    if i != NONE:
        loss += s.groups.group[i].members * s.groups.group[i].ncp
    return loss - s.state[0].price * republished_of(s, g, h, i)


def form_halves(s: Shard, g: int, h: int, i: int, position: int, lower_is_larger: bool) -> None:
    """Makes the halves of a cut of all, as `cut_gathered` left them, the groups with most rows; a third one is gone."""
    n = rows_of(s, g, h, i)
    larger, smaller, last = by_rows(s, g, h, i)
    if lower_is_larger:
        moves.set_members(s, larger, 0, position)
        moves.set_members(s, smaller, position, n - position)
    else:
        moves.set_members(s, larger, position, n - position)
        moves.set_members(s, smaller, 0, position)
    note_origin(s, larger, layout.CUT_AFRESH)
    note_origin(s, smaller, layout.CUT_AFRESH)
    worklist.queue_cut(s, larger)
    worklist.queue_cut(s, smaller)
    if last != NONE:
        number = s.groups.group[last].number
        moves.remove_group(s, last)
        worklist.push(s.work, layout.FREED, number, s.groups.group[last].entry)


# -- rows change groups ------------------------------------------------------------------------------------------------

NEAREST = 16
"""Groups that a group short of a row asks for one."""

ROWS_AT_MOST = 64
"""Of a group that scatters: every row is a search."""

SPENT_PER_K = 16


def comes_first(s: Shard, index: int, other: int) -> bool:
    """True if of two rows of one group the first comes first: by cells in table order, then by shuffled tie hashes."""
    cells, state = s.rows.cells, s.state[0]
    for j in range(cells.shape[1]):
        if cells[index, j] != cells[other, j]:
            return bool(cells[index, j] < cells[other, j])
    number = s.groups.group[s.rows.row[index].group].number
    one = shuffled(s.rows.row[index].tie_hash, number, state.qi_group_next)
    return bool(one < shuffled(s.rows.row[other].tie_hash, number, state.qi_group_next))


def move_row(s: Shard, index: int, to: int) -> None:
    moves.leave(s, index)
    moves.join(s, index, to)
    mark_touched(s, index)


def adopt(s: Shard, g: int) -> int:
    """MOVED if a group that broke the model has taken a row and holds it; ALL_DONE if it has to merge."""
    state, group = s.state[0], s.groups.group
    if state.repairs == 0 or not model.one_row_may_suffice(s, g):
        return layout.ALL_DONE
    neighbours(s, g, NEAREST)
    best, least = NONE, inf
    for at in range(state.n_found):
        h = int(s.work.found[at].group)
        if group[h].count <= state.k:
            continue
        set_edges(s, h)
        n = rows_to_take(s, h, g)
        for i in range(n):
            index = int(s.work.ints[ROW_LIST, i])
            if not model.can_lose(s, index):
                continue
            cells = s.rows.cells[index]
            cost = cost_of_losing(s, h, ncp_without(s, cells)) + move_cost(s, cells, g)
            if cost < least or (cost == least and s.rows.row[best].group == h and comes_first(s, index, best)):
                best, least = index, cost
    if best == NONE:
        return layout.ALL_DONE
    h = s.rows.row[best].group
    if moves.is_short(s, group[h].members + group[g].members, 1):
        return layout.STOPPED_SHORT
    move_row(s, best, g)
    moves.shrink(s, h)
    group[g].to_merge = group[h].to_merge = 0
    worklist.queue_cut(s, g)
    worklist.queue_improve(s, g)
    worklist.queue_improve(s, h)
    return layout.MOVED


def rows_to_take(s: Shard, h: int, g: int) -> int:
    """Writes those members of group h that g can take to ROW_LIST; returns how many there are."""
    n = 0
    for i in range(s.groups.group[h].members):
        index = int(s.groups.pool[0, s.groups.group[h].block + i])
        if model.can_take(s, index, g):
            s.work.ints[ROW_LIST, n] = index
            n += 1
    return n


def cost_of_losing(s: Shard, h: int, ncp: float) -> float:
    """The cost for group h, rows published again included, to lose a row; ncp: of the smallest box without it."""
    group, members = s.groups.group[h], int(s.groups.group[h].members)
    rows = RECORDS_OF_A_REMOVAL if ncp == group.ncp else members
    return (members - 1) * ncp - members * group.ncp + s.state[0].price * republished(s, h, rows)


def improve_next(s: Shard) -> int:
    """Improves the next of the groups that the event has touched."""
    state, work = s.state[0], s.work
    while work.heap_size[layout.TO_IMPROVE] > 0:
        g = int(work.heap[layout.TO_IMPROVE, 0].named)
        group = s.groups.group[g]
        if group.to_improve != 0 and state.spent < SPENT_PER_K * state.k and state.n_groups > 1:
            outcome = evict(s, g)
            if outcome == layout.ALL_DONE:
                outcome = scatter(s, g)
            if outcome == layout.ALL_DONE:
                outcome = recut_with_neighbours(s, g)
            if outcome != layout.ALL_DONE:
                return outcome
        group.to_improve = 0
        worklist.pop(work, layout.TO_IMPROVE)
    return layout.ALL_DONE


def evict(s: Shard, g: int) -> int:
    """Moves the row that gains most out of a group, if one gains."""
    state, group = s.state[0], s.groups.group
    members = int(group[g].members)
    if group[g].count <= state.k:
        return layout.ALL_DONE
    best, target, most, rows, price = NONE, NONE, 0.0, republished(s, g, members), state.price
    set_edges(s, g)
    for i in range(members):
        index = int(s.groups.pool[0, group[g].block + i])
        cells = s.rows.cells[index]
        ncp = ncp_without(s, cells)
        saved = members * group[g].ncp - (members - 1) * ncp - price * rows
        narrower = ncp < group[g].ncp or withheld(s, g)
        if not narrower or saved <= 0.0 or saved < most or not model.can_lose(s, index):
            continue
        h = cheapest_group(s, index, saved - most + ROUNDING)
        if h == NONE:
            continue
        gain = saved - state.cost
        if gain > most or (gain == most and best != NONE and comes_first(s, index, best)):
            best, target, most = index, h, gain
    if best == NONE:
        return layout.ALL_DONE
    if moves.is_short(s, members + group[target].members + 1, 2):
        return layout.STOPPED_SHORT
    state.spent += 1 + rows + republished(s, target, group[target].members)
    move_row(s, best, target)
    moves.shrink(s, g)
    worklist.queue_cut(s, target)
    return layout.MOVED


def scatter(s: Shard, g: int) -> int:
    """Moves all rows of a group to others, if that gains."""
    state, group, rows, targets = s.state[0], s.groups.group, s.work.ints[ROW_LIST], s.work.ints[TARGETS]
    members = int(group[g].members)
    gain = members * group[g].ncp - state.price * republished(s, g, members)
    if members > ROWS_AT_MOST or gain <= 0.0 or model.can_spare_one(s, g):
        return layout.ALL_DONE
    order_members(s, g)
    room, again = members, republished(s, g, members)
    for i in range(members):
        index = int(rows[i])
        h = target_of(s, index, gain)
        if h == NONE:
            return layout.ALL_DONE
        targets[i] = h
        gain -= cost_after_others(s, i)
        if gain <= 0.0:
            return layout.ALL_DONE
        room += group[h].members + 1
        again += republished(s, h, group[h].members)
    if not all_can_take(s, members):
        return layout.ALL_DONE
    if moves.is_short(s, room, members + 1):
        return layout.STOPPED_SHORT
    state.spent += 1 + again
    for i in range(members):
        index = int(rows[i])
        move_row(s, index, targets[i])
        worklist.queue_cut(s, targets[i])
    number = group[g].number
    moves.remove_group(s, g)
    worklist.push(s.work, layout.FREED, number, group[g].entry)
    return layout.MOVED


def target_of(s: Shard, index: int, most: float) -> int:
    """Where a row of a group that scatters goes, as `cheapest_group`; from a withheld one also to the smallest other.

    The row loses everything as it is, and the others may be published without it.
    """
    g = int(s.rows.row[index].group)
    aside = withheld_beside(s, g) if withheld(s, g) else NONE
    if aside == NONE or not model.can_take(s, index, aside):
        return cheapest_group(s, index, most)
    h = cheapest_group(s, index, min(most, s.groups.group[aside].ncp))
    if h == NONE:
        h, s.state[0].cost = aside, s.groups.group[aside].ncp
    return h


def all_can_take(s: Shard, n: int) -> bool:
    """True if every group in TARGETS, which can take each of the n rows alone, holds the model with all of them."""
    for c in range(s.demands.demand.shape[0]):
        if model.asks_share(s.demands.demand[c]):
            for i in range(n):
                if not share_allows(s, c, i, n):
                    return False
    if s.demands.laws.kind.shape[0] > 0:
        for i in range(n):
            if not model.laws_hold(s, int(s.work.ints[TARGETS, i]), NONE, NONE, n):
                return False
    return True


def share_allows(s: Shard, c: int, i: int, n: int) -> bool:
    """True if the subject of the i-th row in ROW_LIST keeps to its share in its target when all n rows have come."""
    rows, targets = s.work.ints[ROW_LIST], s.work.ints[TARGETS]
    h, what, demand = int(targets[i]), model.subject_number(s, c, int(rows[i])), s.demands.demand[c]
    if what == NONE:
        return True
    has, members = model.tally_count(s, h, what), int(s.groups.group[h].members)
    for at in range(n):
        if targets[at] == h:
            members += 1
            if model.subject_number(s, c, int(rows[at])) == what:
                has += 1
    return model.reaches(demand, demand.least, has, members)


def order_members(s: Shard, g: int) -> None:
    """Writes the members of a group to ROW_LIST, in the order in which they go."""
    rows, group = s.work.ints[ROW_LIST], s.groups.group[g]
    for i in range(group.members):
        index, to = int(s.groups.pool[0, group.block + i]), i
        while to > 0 and comes_first(s, index, int(rows[to - 1])):
            rows[to] = rows[to - 1]
            to -= 1
        rows[to] = index


def repair_event(s: Shard) -> bool:
    """Makes all repairs of an event; False if capacity ran out."""
    state, going_on = s.state[0], True
    while going_on:
        if not (check_groups(s) and merge_broken(s) and form_pending(s) and cut_groups(s)):
            return False
        outcome = improve_next(s)
        if outcome == layout.STOPPED_SHORT:
            return False
        going_on = outcome == layout.MOVED
    s.work.heap_size[layout.FREED] = 0
    state.event += 1
    state.spent = 0
    set_price(s)
    return True


def set_price(s: Shard) -> None:
    """Sets the price of the next event from the table as it now is; an absolute price stays as it is."""
    state = s.state[0]
    if state.share > 0.0:
        state.price = state.share * float(state.loss) / (float(layout.LOSS_UNITS) * max(1, state.n_grouped))


# -- merges and cuts ---------------------------------------------------------------------------------------------------


def check_groups(s: Shard) -> bool:
    """Shrinks boxes, removes empty groups and finds those that break the model."""
    state = s.state[0]
    while s.work.heap_size[layout.TO_CHECK] > 0:
        g = s.work.heap[layout.TO_CHECK, 0].named
        group = s.groups.group[g]
        if moves.is_short(s, group.members, 1):
            return False
        worklist.pop(s.work, layout.TO_CHECK)
        why, group.to_check = group.to_check, worklist.NO_CHECK
        if group.members == 0:
            moves.remove_group(s, g)
            continue
        if why == worklist.CHECK_AFTER_MOVE or (why == worklist.CHECK_AFTER_DELETE and state.shrink != 0):
            moves.shrink(s, g)
        if not model.holds(s, g):
            worklist.queue_merge(s, g)
        worklist.queue_improve(s, g)
    return True


def merge_broken(s: Shard) -> bool:
    """Merges groups until every one holds the model, or none is left."""
    state = s.state[0]
    while s.work.heap_size[layout.TO_MERGE] > 0:
        g = int(s.work.heap[layout.TO_MERGE, 0].named)
        group = s.groups.group[g]
        if group.to_merge == 0:
            worklist.pop(s.work, layout.TO_MERGE)
        elif state.n_groups == 1:
            if moves.is_short(s, group.members, 1):
                return False
            worklist.pop(s.work, layout.TO_MERGE)
            moves.dissolve(s, g)
        else:
            outcome = adopt(s, g)
            if outcome == layout.STOPPED_SHORT:
                return False
            if outcome == layout.MOVED:
                worklist.pop(s.work, layout.TO_MERGE)
                continue
            other = nearest(s, g)
            if other < 0:
                state.fault, state.fault_at = layout.NOTHING_TO_MERGE_WITH, group.number
                return False
            if moves.is_short(s, group.members + s.groups.group[other].members, 2):
                return False
            worklist.pop(s.work, layout.TO_MERGE)
            merge_pair(s, g, other)
    return True


def merge_pair(s: Shard, g: int, other: int) -> None:
    """Merges two groups: with the box around both, and slots made later, once for a heap that merges often.

    Box and slots are made at once if boxes may be wider than their members, and if local repair may take a row next.
    """
    state, group = s.state[0], s.groups.group
    stays, goes = moves.larger_first(s, g, other)
    group[stays].to_merge = group[stays].to_cut = 0
    hull = s.work.hull[0]
    for j in range(hull.shape[1]):
        hull[LO, j] = min(s.groups.box[stays, LO, j], s.groups.box[goes, LO, j])
        hull[HI, j] = max(s.groups.box[stays, HI, j], s.groups.box[goes, HI, j])
    moves.absorb(s, stays, goes)
    note_origin(s, stays, layout.MERGED)
    if state.shrink != 0 and state.repairs == 0:
        for j in range(hull.shape[1]):
            s.groups.box[stays, LO, j], s.groups.box[stays, HI, j] = hull[LO, j], hull[HI, j]
        moves.set_box(s, stays)
    else:
        moves.finish_group(s, stays)
    worklist.push(s.work, layout.FREED, group[goes].number, group[goes].entry)
    state.merges += 1
    if not model.holds(s, stays):
        worklist.queue_merge(s, stays)
    elif state.recut != 0:
        worklist.queue_cut(s, stays)
    else:
        if group[stays].raw != 0:
            moves.finish_group(s, stays)
        worklist.queue_improve(s, stays)


def form_pending(s: Shard) -> bool:
    """Makes the pending rows a QI group as soon as they hold the model together."""
    state = s.state[0]
    if state.n_groups > 0 or not model.pending_hold(s):
        return True
    if moves.is_short(s, state.n_pending, 1):
        return False
    n = 0
    for index in range(state.rows_used):
        if s.rows.row[index].group == layout.NO_GROUP_YET:
            s.work.ints[0, n] = index
            n += 1
    g = moves.new_group(s, state.qi_group_next)
    state.qi_group_next += 1
    moves.set_members(s, g, 0, n)
    note_origin(s, g, layout.FORMED)
    worklist.queue_cut(s, g)
    return True


def cut_groups(s: Shard) -> bool:
    """Cuts the groups that gained rows until none can be cut."""
    state = s.state[0]
    while s.work.heap_size[layout.TO_CUT] > 0:
        g = int(s.work.heap[layout.TO_CUT, 0].named)
        group = s.groups.group[g]
        if moves.is_short(s, group.members, 2):
            return False
        worklist.pop(s.work, layout.TO_CUT)
        if group.to_cut == 0:
            continue
        group.to_cut = 0
        position, lower_stays = 0, True
        if group.count >= 2 * state.k:
            position, lower_stays = cut(s, g)
        if position > 0:
            split_group(s, g, position, lower_stays)
        else:
            if group.raw != 0:
                moves.finish_group(s, g)
            worklist.queue_improve(s, g)
    return True


def split_group(s: Shard, g: int, position: int, lower_stays: bool) -> None:
    """Makes the halves of a cut, as `cut` left them, two groups; both may be cut again."""
    state, n = s.state[0], s.groups.group[g].members
    if s.work.heap_size[layout.FREED] > 0:
        number, entry = worklist.pop(s.work, layout.FREED)
        fresh = moves.new_group(s, number)
        s.groups.group[fresh].entry = entry  # what was published under the number is the new group's
        s.journal.entry[entry].group = fresh
    else:
        fresh = moves.new_group(s, state.qi_group_next)
        state.qi_group_next += 1
    stays, goes = (0, position) if lower_stays else (position, 0)
    n_stays = position if lower_stays else n - position
    moves.set_members(s, g, stays, n_stays)
    moves.set_members(s, fresh, goes, n - n_stays)
    note_origin(s, g, layout.SPLIT)
    note_origin(s, fresh, layout.SPLIT)
    state.splits += 1
    worklist.queue_cut(s, g)
    worklist.queue_cut(s, fresh)
