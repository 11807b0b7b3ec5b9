"""Entry points of the compiled core: operations go in, a net effect comes out.

The rules of this file
----------------------
* `advance` applies operations one after the other. `ends` marks the last one of a change; the repairs follow it. So the
  state after n changes depends on their sequence alone, never on how they were cut into calls.
* INSERT adds a row, which joins the QI group of highest T-QGSSD. TAKE removes a row. REWRITE gives a row new cells and
  values: inside its group's box it stays, else it leaves and joins the best group by the boxes and sizes as they then
  are (its old group included; until the change ends, boxes only grow and no group dissolves). DISSOLVE makes all rows
  pending. LOAD adds a pending row, GATHER names a member, FORM makes a QI group of the named members.
* A region is replaced by GATHER and FORM, or by GATHER and REFORM, which keeps the number of an existing QI group; then
  by RETIRE of the groups whose rows have all gone elsewhere. REFORM and RETIRE name the group by its index. In between,
  a row may still be in the block of a group that it has left; every such group is formed or retired before the change
  ends. The slots of a formed group follow the order of their values, or, if `values` of the REFORM is not 0, the values
  that its GATHERs name, one slot each.
* RENEW gives a QI group, named by its index, the box that this version of the core gives it.
* A call that runs out of capacity stops before the operation, or within it (`half_done`, `event_open`), and names what
  is short in `state.short`. Called again, it goes on as if it had never stopped. A broken law, `state.fault`, stops it
  for good.
* A drain checks every touched QI group (model and box, from its members) and exports the net effect. The next
  operation begins a new batch.
"""

from __future__ import annotations

from typing import Any

from streamer.incremental.core import layout, moves
from streamer.incremental.core.journal import mark_touched, note_origin, remember
from streamer.incremental.core.layout import HI, LENGTH, LO, NONE, Shard
from streamer.incremental.core.model import (
    asks_more_than_k,
    can_spare_one,
    counts_are_right,
    forget_counted,
    holds,
    values_in,
    values_out,
)
from streamer.incremental.core.repair import repair_event, set_price
from streamer.incremental.core.scores import box_contains, qgssd_from, set_shape
from streamer.incremental.core.search import locate
from streamer.incremental.core.tree import put
from streamer.incremental.core.worklist import (
    CHECK_AFTER_DELETE,
    CHECK_AFTER_MOVE,
    CHECK_COUNTS,
    queue_check,
    queue_cut,
)
from streamer.native import compiled
from streamer.table.arrays import Records

# -- the net effect ----------------------------------------------------------------------------------------------------
#
# `Export.numbers`, in this order:
#
# * the number of changed rows; of each its index, number of values, number of individual, number of QI group (0:
#   pending);
# * the number of touched QI groups; of each its number, whether readers see a difference, its rows before and now (0:
#   there is no such group), how it was formed (0: it was not); if readers see one and it was there before, its box (LO,
#   then HI) and slots then; if it is there now, its box, slots and members;
# * the number of similarity lists that were found in the batch for groups whose next loss would merge them; of each the
#   number of its QI group, its entries and the numbers of the groups that it names. `Export.scores` has their QGSSD.


def export(s: Shard) -> bool:
    """Writes the net effect; False if capacity ran out."""
    needed, scores = numbers_needed(s), LENGTH * s.state[0].n_journal
    if needed > s.export.numbers.shape[0] or scores > s.export.scores.shape[0]:
        s.state[0].short, s.state[0].short_by = layout.EXPORT, max(needed, scores)
        return False
    at = export_rows(s, 0)
    at = export_groups(s, at)
    s.state[0].n_numbers = export_lists(s, at)
    return True


def numbers_needed(s: Shard) -> int:
    """The most numbers that the export takes."""
    state, d = s.state[0], s.groups.box.shape[2]
    needed = 3 + 4 * state.n_touched + (5 + 4 * d + 2 + LENGTH) * state.n_journal
    for e in range(state.n_journal):
        entry = s.journal.entry[e]
        needed += entry.members
        if entry.group != NONE:
            needed += 2 * s.groups.group[entry.group].members
    return needed


def export_rows(s: Shard, at: int) -> int:
    """Writes the rows; returns the end of the numbers."""
    numbers, begin = s.export.numbers, at
    at += 1
    for i in range(s.state[0].n_touched):
        index = s.journal.touched[i]
        row = s.rows.row[index]
        if row.group != layout.FREE:
            numbers[at], numbers[at + 1], numbers[at + 2] = index, row.values, row.who
            numbers[at + 3] = 0 if row.group == layout.NO_GROUP_YET else s.groups.group[row.group].number
            at += 4
    numbers[begin] = (at - begin - 1) // 4
    return at


def export_groups(s: Shard, at: int) -> int:
    """Writes the QI groups; returns the end of the numbers."""
    numbers, journal, pool = s.export.numbers, s.journal, s.groups.pool
    numbers[at] = s.state[0].n_journal
    at += 1
    for e in range(s.state[0].n_journal):
        entry = journal.entry[e]
        g, before = entry.group, entry.members
        now = 0 if g == NONE else s.groups.group[g].members
        seen = readers_see(s, e)
        numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3] = entry.number, seen, before, now
        numbers[at + 4] = entry.origin
        at += 5
        if seen != 0 and before > 0:
            at = export_box(numbers, at, journal.box, e)
            at = export_run(numbers, at, journal.slots_before, entry.slots, before)
        if now > 0:
            at = export_box(numbers, at, s.groups.box, g)
            at = export_run(numbers, at, pool[1], s.groups.group[g].block, now)
            at = export_run(numbers, at, pool[0], s.groups.group[g].block, now)
    return at


def export_box(numbers: Any, at: int, box: Any, which: int) -> int:
    """Writes one box; returns the end of the numbers."""
    for side in (LO, HI):
        for j in range(box.shape[2]):
            numbers[at] = box[which, side, j]
            at += 1
    return at


def export_run(numbers: Any, at: int, entries: Any, first: int, n: int) -> int:
    """Writes n entries; returns the end of the numbers."""
    for i in range(n):
        numbers[at + i] = entries[first + i]
    return at + n


def readers_see(s: Shard, e: int) -> int:
    """1 if readers see a QI group differently from before the batch."""
    entry, journal = s.journal.entry[e], s.journal
    g = entry.group
    if g == NONE:
        return 1 if entry.members > 0 else 0
    group = s.groups.group[g]
    if group.members != entry.members:
        return 1
    for i in range(group.members):
        if journal.slots_before[entry.slots + i] != s.groups.pool[1, group.block + i]:
            return 1
    for j in range(journal.box.shape[2]):
        if journal.box[e, LO, j] != s.groups.box[g, LO, j] or journal.box[e, HI, j] != s.groups.box[g, HI, j]:
            return 1
    return 0


def export_lists(s: Shard, at: int) -> int:
    """Writes the similarity lists with their degrees, best first, equal ones by number; returns the end of the numbers.

    A list names groups that are there, and its degrees are those of their boxes as they are now.
    """
    numbers, scores, group, begin, score = s.export.numbers, s.export.scores, s.groups.group, at, 0
    numbers[begin] = 0
    at += 1
    for e in range(s.state[0].n_journal):
        g = s.journal.entry[e].group
        if g == NONE or group[g].searched == 0 or can_spare_one(s, g):
            continue
        first, end = at + 2, at + 2
        for i in range(LENGTH):
            h = s.groups.near[g, i]
            if h == NONE or group[h].alive == 0:
                continue
            number, degree, to = group[h].number, qgssd_from(s.space, s.groups, g, h), end
            while to > first and (
                scores[score + to - first - 1] < degree
                or (scores[score + to - first - 1] == degree and numbers[to - 1] > number)
            ):
                numbers[to], scores[score + to - first] = numbers[to - 1], scores[score + to - first - 1]
                to -= 1
            numbers[to], scores[score + to - first] = number, degree
            end += 1
        numbers[begin] += 1
        numbers[at], numbers[at + 1] = group[g].number, end - first
        at, score = end, score + end - first
    s.state[0].n_scores = score
    return at


MEMBER, TREE_SLOT = 0, 4
"""Rows of `work.ints` for a group to be formed: its members, and its slots; sorting uses another row."""


@compiled
def advance(s: Shard, operations: Records, cells: Any, first: int, drains: bool) -> int:
    """Applies operations (n,) OPERATION with cells (n, d) int32 from `first` on, then drains if asked to.

    Returns the index of the first operation that is not done: n, unless `state.short` or `state.fault` is set.
    """
    state = s.state[0]
    state.short = 0
    forget_counted(s.demands)  # between batches, codes of values that are gone are given to others
    if state.drained != 0:
        clear_batch(s)
    i = first
    while True:
        if state.event_open != 0:
            if not repair_event(s):
                return i
            state.event_open = 0
        if i == operations.shape[0]:
            break
        if not run_operation(s, operations[i], cells[i]):
            return i
        state.event_open = operations[i].ends
        i += 1
    if drains and check(s) and export(s):
        state.drained = 1
    return i


def run_operation(s: Shard, operation: Records, cells: Any) -> bool:
    """Runs one operation; False if capacity ran out."""
    kind, index, state = operation.kind, operation.index, s.state[0]
    if kind == layout.TAKE:
        return take(s, index)
    if kind in (layout.INSERT, layout.REWRITE):
        if state.half_done == 0 and not (
            insert(s, operation, cells) if kind == layout.INSERT else rewrite(s, operation, cells)
        ):
            return False
        return state.half_done == 0 or join_best(s, index)
    if kind == layout.LOAD:
        if moves.is_short(s, 1, 0):
            return False
        add_row(s, operation, cells)
        return True
    if kind == layout.GATHER:
        if state.n_gathered >= s.work.ints.shape[1]:
            state.short, state.short_by = layout.MEMBERS, state.n_gathered + 1
            return False
        s.work.ints[MEMBER, state.n_gathered], s.work.ints[TREE_SLOT, state.n_gathered] = index, operation.values
        state.n_gathered += 1
        return True
    if kind in (layout.FORM, layout.REFORM):
        return form_group(s, index if kind == layout.REFORM else NONE, kind == layout.REFORM and operation.values != 0)
    if kind == layout.RETIRE:
        return retire(s, index)
    if kind == layout.RENEW:
        return renew(s, index)
    return dissolve_all(s)


def add_row(s: Shard, operation: Records, cells: Any) -> None:
    index, state = operation.index, s.state[0]
    row = s.rows.row[index]
    row.tie_hash, row.who, row.group = operation.tie_hash, operation.who, layout.FREE
    state.rows_used = max(state.rows_used, index + 1)
    write_row(s, operation, cells)
    moves.assign(s, index, layout.NO_GROUP_YET)


def write_row(s: Shard, operation: Records, cells: Any) -> None:
    index = operation.index
    row = s.rows.row[index]
    mark_touched(s, index)
    if row.group != layout.FREE and row.values != operation.values:
        values_out(s, row.group, row.values)
        values_in(s, row.group, operation.values)
    row.values = operation.values
    for j in range(cells.shape[0]):
        s.rows.cells[index, j] = cells[j]


def insert(s: Shard, operation: Records, cells: Any) -> bool:
    """The first half of INSERT."""
    if moves.is_short(s, 1, 1):
        return False
    add_row(s, operation, cells)
    s.state[0].half_done = 1 if s.state[0].n_groups > 0 else 0
    return True


def join_best(s: Shard, index: int) -> bool:
    """The second half of INSERT, and of a REWRITE that moves: a pending row joins the best group."""
    g = locate(s, s.rows.cells[index])
    if moves.is_short(s, s.groups.group[g].members + 1, 1):
        return False
    moves.join(s, index, g)
    queue_cut(s, g)
    if asks_more_than_k(s.demands):
        queue_check(s, g, CHECK_COUNTS)
    s.state[0].half_done = 0
    return True


def take(s: Shard, index: int) -> bool:
    """TAKE: a row leaves the table."""
    g = s.rows.row[index].group
    if g != layout.NO_GROUP_YET:
        if moves.is_short(s, s.groups.group[g].members, 1):
            return False
        moves.leave(s, index)
        queue_check(s, g, CHECK_AFTER_DELETE)
    moves.assign(s, index, layout.FREE)
    return True


def rewrite(s: Shard, operation: Records, cells: Any) -> bool:
    """REWRITE: sets `half_done` if the row has left its group and must join one."""
    index = operation.index
    row, own = s.rows.row[index], s.rows.cells[index]
    g, values, is_moved = row.group, row.values, False
    for j in range(cells.shape[0]):
        is_moved = is_moved or cells[j] != own[j]
    if moves.is_short(s, 1 if g == layout.NO_GROUP_YET else s.groups.group[g].members, 1):
        return False
    if g == layout.NO_GROUP_YET or not (is_moved or values != operation.values):
        write_row(s, operation, cells)
        return True
    group = s.groups.group[g]
    if not is_moved or box_contains(s.groups, g, cells):
        remember(s, g, 1)
        if values != operation.values:
            s.groups.pool[1, group.block + moves.highest_slot(s, g, values)] = operation.values
            if asks_more_than_k(s.demands):
                queue_check(s, g, CHECK_COUNTS)
        write_row(s, operation, cells)
        if is_moved:
            queue_check(s, g, CHECK_AFTER_MOVE)
        return True
    moves.leave(s, index)
    queue_check(s, g, CHECK_AFTER_MOVE)
    write_row(s, operation, cells)
    s.state[0].half_done = 1
    return True


def form_group(s: Shard, g: int, slots_named: bool) -> bool:
    """FORM, REFORM: the named rows become QI group g, or, if g is NONE, one with a new number."""
    state, rows = s.state[0], int(s.state[0].n_gathered)
    if g != NONE:
        rows = max(rows, int(s.groups.group[g].members))
    if moves.is_short(s, rows, 1):
        return False
    if g == NONE:
        g = moves.new_group(s, state.qi_group_next)
        state.qi_group_next += 1
    first = s.rows.row[s.work.ints[MEMBER, 0]].group  # of a region's rows none is pending
    moves.set_members(s, g, 0, state.n_gathered)
    note_origin(s, g, layout.WAS_LOADED if first == layout.NO_GROUP_YET else layout.REBUILT)
    moves.finish_group(s, g)
    if slots_named:
        for i in range(state.n_gathered):
            s.groups.pool[1, s.groups.group[g].block + i] = s.work.ints[TREE_SLOT, i]
    state.n_gathered = 0
    state.event += 1  # boxes of an initial table count as set by an earlier event
    set_price(s)
    return True


def retire(s: Shard, g: int) -> bool:
    """RETIRE: a QI group whose rows are all in others is removed."""
    if moves.is_short(s, s.groups.group[g].members, 1):
        return False
    moves.remove_group(s, g)
    return True


def renew(s: Shard, g: int) -> bool:
    """RENEW: the box that this version's rules give a QI group of another one's."""
    if moves.is_short(s, s.groups.group[g].members, 1):
        return False
    if s.state[0].shrink != 0:
        moves.shrink(s, g)
    return True


def dissolve_all(s: Shard) -> bool:
    """DISSOLVE: every row becomes pending."""
    for g in range(s.state[0].groups_used):
        group = s.groups.group[g]
        if group.alive != 0:
            if moves.is_short(s, group.members, 1):
                return False
            moves.dissolve(s, g)
    return True


def check(s: Shard) -> bool:
    """Checks touched groups, once; False if a law is broken."""
    state = s.state[0]
    if state.checked == 0 and check_touched(s):
        state.checked = 1
    return bool(state.checked != 0)


def check_touched(s: Shard) -> bool:
    """True if every touched group holds what it must; else `state.fault` says what it breaks."""
    state = s.state[0]
    forget_counted(s.demands)  # a law is checked on counts from the start
    for e in range(state.n_journal):
        g = s.journal.entry[e].group
        if g != NONE:
            group = s.groups.group[g]
            state.fault_at = group.number
            count = count_members(s, g)
            if count != group.count or not counts_are_right(s, g):
                state.fault = layout.MISCOUNTED
            elif count < state.k:
                state.fault = layout.BELOW_K
            elif not holds(s, g):
                state.fault = layout.BREAKS_MODEL
            elif state.shrink != 0 and not moves.is_tight(s, g):
                state.fault = layout.WIDER_THAN_ITS_ROWS
            for i in range(group.members):
                if not box_contains(s.groups, g, s.rows.cells[s.groups.pool[0, group.block + i]]):
                    state.fault = layout.OUTSIDE_ITS_BOX
            if state.fault != 0:
                return False
    return True


def count_members(s: Shard, g: int) -> int:
    """The rows or individuals that k counts of a group, counted from its members."""
    state, group = s.state[0], s.groups.group[g]
    if state.individuals == 0:
        return group.members
    state.stamp += 1
    count = 0
    for i in range(group.members):
        who = s.rows.row[s.groups.pool[0, group.block + i]].who
        if s.work.last_seen[who] != state.stamp:
            s.work.last_seen[who] = state.stamp
            count += 1
    return count


def clear_batch(s: Shard) -> None:
    """Forgets a drained batch; the indexes of groups that are gone become free."""
    state, journal, group = s.state[0], s.journal, s.groups.group
    for i in range(state.n_touched):
        s.rows.row[journal.touched[i]].touched = 0
    for e in range(state.n_journal):
        if journal.entry[e].group != NONE:
            group[journal.entry[e].group].entry = NONE
            group[journal.entry[e].group].searched = 0
    for i in range(state.n_gone):
        g = journal.gone[i]
        group[g].next_free = state.group_free
        state.group_free = g
    state.n_touched = state.n_journal = state.n_slots_before = state.n_gone = 0
    state.rows_published_max = state.merges = state.splits = state.checked = state.drained = 0


@compiled
def restore(s: Shard, first: int) -> int:
    """Puts groups that were written into the arrays into the tree.

    first: the first group not done yet. Returns the first group not done: their number, unless capacity ran out.
    """
    state = s.state[0]
    state.short = 0
    for g in range(first, state.groups_used):
        if moves.is_short(s, 0, 0):
            return g
        set_shape(s.space, s.groups, g)
        moves.sum_loss(s, g)
        put(s, g)
    set_price(s)
    return state.groups_used
