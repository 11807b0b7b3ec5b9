"""The moves that change QI groups: a row joins or leaves one; a group is formed, gets a box, is removed.

The rules of this file
----------------------
* A *slot* is the number of a published row within its group in the changelog, 0..n-1. A slot says nothing about whose
  row it is. When a group is formed or cut, slots follow the sorted values; an insertion takes the next slot; a
  removal of the values v frees the highest slot that holds v, and the last slot's record moves into it; a change of
  v to w rewrites the highest slot that holds v. So an insertion into an unchanged box publishes one record, a deletion
  at most two.
* Only `assign` changes `row.group`; it counts what k and the privacy model count, in groups and pending rows.
* Only `set_box` changes a box; it updates the tree and the journal.
* Nothing here checks capacity: the caller has asked `is_short`.
"""

from __future__ import annotations

from typing import Any

from streamer.incremental.core import journal, layout
from streamer.incremental.core.layout import FREE, HI, LO, LOSS_UNITS, NO_GROUP_YET, NONE, CoreGroups, CoreValues, Shard
from streamer.incremental.core.model import individual_in, individual_out, values_in, values_out
from streamer.incremental.core.scores import box_contains, set_shape
from streamer.incremental.core.tree import is_withheld, nodes_needed, put, resized, take_out
from streamer.kernels.boxes import cover

# Sorting slots by the texts of their values. Equal values have equal numbers, so most comparisons need no text.

SLOTS = 1
"""Row of `pool`."""

SPARE_MEMBERS = 3
"""Row of `work.ints`; not the first one, which has the halves of a cut while groups are formed of them."""

FEW_MEMBERS = 16
"""Up to here slots are sorted by insertion; longer runs are merged from such runs."""

PREFIX = 8
"""Bytes of a text in `value.prefix`."""


def sort_values(s: Shard, block: int, n: int) -> None:
    """Sorts the slots pool[1, block : block + n] by the texts of their values; needs n columns of `work.ints`."""
    slots, spare = s.groups.pool[SLOTS, block : block + n], s.work.ints[SPARE_MEMBERS]
    for begin in range(0, n, FEW_MEMBERS):
        _insert(s.values, slots, begin, min(begin + FEW_MEMBERS, n))
    length = FEW_MEMBERS
    while length < n:
        for begin in range(0, n - length, 2 * length):
            _merge(s.values, slots, spare, begin, begin + length, min(begin + 2 * length, n))
        length *= 2


def highest_slot(s: Shard, g: int, number: int) -> int:
    """The highest slot of group g that holds the values `number`; -1 if none does."""
    block = s.groups.group[g].block
    slot = int(s.groups.group[g].members) - 1
    while slot >= 0 and s.groups.pool[SLOTS, block + slot] != number:
        slot -= 1
    return slot


def _insert(values: CoreValues, slots: Any, begin: int, end: int) -> None:
    for at in range(begin + 1, end):
        number, to = slots[at], at
        while to > begin and text_precedes(values, number, slots[to - 1]):
            slots[to] = slots[to - 1]
            to -= 1
        slots[to] = number


def _merge(values: CoreValues, slots: Any, spare: Any, begin: int, middle: int, end: int) -> None:
    """Merges two sorted runs of slots, side by side."""
    for at in range(begin, middle):
        spare[at] = slots[at]
    left, right, to = begin, middle, begin
    while left < middle:
        if right < end and text_precedes(values, slots[right], spare[left]):
            slots[to] = slots[right]
            right += 1
        else:
            slots[to] = spare[left]
            left += 1
        to += 1


def text_precedes(values: CoreValues, one: int, other: int) -> bool:
    """True if the text of the values `one` comes before that of `other`: by bytes, the shorter first."""
    if one == other:
        return False
    first, second = values.value[one], values.value[other]
    if first.prefix != second.prefix:
        return bool(first.prefix < second.prefix)
    for i in range(PREFIX, min(first.length, second.length)):
        a, b = values.text[first.at + i], values.text[second.at + i]
        if a != b:
            return bool(a < b)
    return bool(first.length < second.length)


# -- blocks of the pool ------------------------------------------------------------------------------------------------
#
# A free block is used again for groups of its size. Blocks are never joined: sizes of QI groups hardly vary.

LEAST_BLOCK_BITS = 3
"""The smallest block has 1 << LEAST_BLOCK_BITS entries."""


def block_bits_for(n: int) -> int:
    """The binary logarithm of the size of the block for n rows."""
    room = LEAST_BLOCK_BITS
    while (1 << room) < n:
        room += 1
    return room


def take_block(s: Shard, room: int) -> int:
    """A block of 1 << room entries; the caller has checked that there is one."""
    groups, state = s.groups, s.state[0]
    at = int(groups.block_free[room])
    if at >= 0:
        groups.block_free[room] = groups.pool[0, at]
        return at
    at = state.pool_used
    state.pool_used += 1 << room
    return at


def free_block(groups: CoreGroups, at: int, room: int) -> None:
    groups.pool[0, at] = groups.block_free[room]
    groups.block_free[room] = at


def reserve_block(s: Shard, g: int, n: int) -> None:
    """Makes a group's block large enough for n rows, and copies its contents."""
    group = s.groups.group[g]
    if n <= (1 << group.block_bits):
        return
    pool, room, old = s.groups.pool, block_bits_for(n), group.block
    new = take_block(s, room)
    for i in range(group.members):
        pool[0, new + i], pool[1, new + i] = pool[0, old + i], pool[1, old + i]
    free_block(s.groups, old, group.block_bits)
    group.block, group.block_bits = new, room


def replace_block(s: Shard, g: int, n: int) -> None:
    """Gives a group a block for n rows; the contents of its former block are lost."""
    group = s.groups.group[g]
    room = block_bits_for(n)
    if group.block >= 0:
        if group.block_bits == room:
            return
        free_block(s.groups, group.block, group.block_bits)
    group.block, group.block_bits = take_block(s, room), room


def assign(s: Shard, index: int, to: int) -> None:
    """Puts a row into a QI group, PENDING or FREE."""
    row, state, group = s.rows.row[index], s.state[0], s.groups.group
    was, who = row.group, row.who
    row.group = to
    by_who = state.individuals != 0 and who != NONE
    if was != FREE:
        fewer = individual_out(s, was, who) if by_who else 1
        values_out(s, was, row.values)
        if was == NO_GROUP_YET:
            state.n_pending -= 1
            state.pending_count -= fewer
        else:
            state.n_grouped -= 1
            group[was].count -= fewer
    if to != FREE:
        more = individual_in(s, to, who) if by_who else 1
        values_in(s, to, row.values)
        if to == NO_GROUP_YET:
            state.n_pending += 1
            state.pending_count += more
        else:
            state.n_grouped += 1
            group[to].count += more


def join(s: Shard, index: int, g: int) -> None:
    """Puts a pending row into a group; outside its box, the box grows to hold it (Song et al. 2009, algorithm INS)."""
    group, row, cells = s.groups.group[g], s.rows.row[index], s.rows.cells[index]
    journal.remember(s, g, 1)
    reserve_block(s, g, group.members + 1)
    s.groups.pool[0, group.block + group.members] = index
    s.groups.pool[1, group.block + group.members] = row.values
    row.at = group.members
    group.members += 1
    assign(s, index, g)
    if box_contains(s.groups, g, cells):
        sum_loss(s, g)
        resized(s, g)
    else:
        box = s.groups.box
        for j in range(cells.shape[0]):
            box[g, LO, j], box[g, HI, j] = min(box[g, LO, j], cells[j]), max(box[g, HI, j], cells[j])
        set_box(s, g)


def leave(s: Shard, index: int) -> None:
    """Takes a row out of its group: it is pending, and the box stays as it is for now."""
    row = s.rows.row[index]
    g = row.group
    group, pool = s.groups.group[g], s.groups.pool
    journal.remember(s, g, 1)
    last = group.members - 1
    slot = highest_slot(s, g, row.values)
    pool[1, group.block + slot] = pool[1, group.block + last]
    mover = pool[0, group.block + last]
    pool[0, group.block + row.at] = mover
    s.rows.row[mover].at = row.at
    group.members = last
    assign(s, index, NO_GROUP_YET)
    sum_loss(s, g)
    resized(s, g)


def set_box(s: Shard, g: int) -> None:
    """Completes a changed box: categories grow to the node that covers them; tree and journal are updated."""
    box, space = s.groups.box, s.space
    for j in range(space.axes.shape[0]):
        if space.axes[j].first_leaf >= 0:
            box[g, LO, j], box[g, HI, j] = cover(space, j, box[g, LO, j], box[g, HI, j])
    set_shape(space, s.groups, g)
    sum_loss(s, g)
    s.groups.group[g].box_event = s.state[0].event
    put(s, g)


def sum_loss(s: Shard, g: int) -> None:
    """Brings a group's loss, and the sum of all, up to its rows and its box.

    A group that is withheld has none: what it adds to a search would raise the price that the others pay.
    """
    group = s.groups.group[g]
    loss = int(group.members) * int(group.ncp * LOSS_UNITS + 0.5)  # uncompiled, four bytes would overflow
    if is_withheld(s.groups, g, s.space.axes.shape[0]):
        loss = 0
    s.state[0].loss += loss - group.loss
    group.loss = loss


def box_of_members(s: Shard, g: int, box: Any) -> None:
    """Writes the smallest publishable box of a group's members into box (2, d)."""
    group, cells = s.groups.group[g], s.rows.cells
    for j in range(cells.shape[1]):
        lo = hi = cells[s.groups.pool[0, group.block], j]
        for i in range(1, group.members):
            cell = cells[s.groups.pool[0, group.block + i], j]
            lo, hi = min(lo, cell), max(hi, cell)
        if s.space.axes[j].first_leaf >= 0:
            lo, hi = cover(s.space, j, lo, hi)
        box[LO, j], box[HI, j] = lo, hi


def is_tight(s: Shard, g: int) -> bool:
    """True if a group's box is the smallest one around its members, which `work.hull[0]` then has."""
    box, now, same = s.groups.box, s.work.hull[0], True
    box_of_members(s, g, now)
    for j in range(now.shape[1]):
        same = same and box[g, LO, j] == now[LO, j] and box[g, HI, j] == now[HI, j]
    return same


def shrink(s: Shard, g: int) -> None:
    """Computes the box from the members again."""
    box, now = s.groups.box, s.work.hull[0]
    if is_tight(s, g):
        return
    journal.remember(s, g, 0)
    for j in range(now.shape[1]):
        box[g, LO, j], box[g, HI, j] = now[LO, j], now[HI, j]
    set_box(s, g)


def larger_first(s: Shard, g: int, h: int) -> tuple[int, int]:
    """Two groups, the one with more rows first; equal: the lower number."""
    one, other = s.groups.group[g], s.groups.group[h]
    if other.members > one.members or (other.members == one.members and other.number < one.number):
        return h, g
    return g, h


def new_group(s: Shard, number: int) -> int:
    """The index of a new QI group without members."""
    state = s.state[0]
    g = state.group_free
    if g >= 0:
        state.group_free = s.groups.group[g].next_free
    else:
        g = state.groups_used
        state.groups_used += 1
    group = s.groups.group[g]
    group.number, group.members, group.count, group.alive = number, 0, 0, 1
    group.block = group.block_bits = group.node = group.entry = NONE
    group.searched = group.to_check = group.to_merge = group.to_cut = group.raw = group.to_improve = 0
    group.box_event = group.loss = 0
    for i in range(layout.LENGTH):
        s.groups.near[g, i] = NONE
    state.n_groups += 1
    return g


def set_members(s: Shard, g: int, first: int, n: int) -> None:
    """Makes the n rows in `work.ints[0]` from `first` on a group's members; `finish_group` makes box and slots."""
    journal.remember(s, g, n)
    replace_block(s, g, n)
    group, pool = s.groups.group[g], s.groups.pool
    group.members, group.raw = n, 1
    for i in range(n):
        index = s.work.ints[0, first + i]
        pool[0, group.block + i] = index
        row = s.rows.row[index]
        row.at = i
        if row.group != g:
            assign(s, index, g)
            journal.mark_touched(s, index)


def absorb(s: Shard, stays: int, goes: int) -> None:
    """Moves all members of a group to another; `finish_group` makes box and slots.

    Only these rows move: a group that absorbs many, one after the other, costs no more than they do.
    """
    group, pool = s.groups.group, s.groups.pool
    n = group[stays].members + group[goes].members
    journal.remember(s, stays, n)
    reserve_block(s, stays, n)
    block, first = group[stays].block, group[stays].members
    for i in range(group[goes].members):
        index = pool[0, group[goes].block + i]
        pool[0, block + first + i] = index
        s.rows.row[index].at = first + i
        assign(s, index, stays)
        journal.mark_touched(s, index)
    group[stays].members, group[stays].raw = n, 1
    remove_group(s, goes)


def finish_group(s: Shard, g: int) -> None:
    """Gives a group with new members its slots, by sorted values, and the smallest box around them."""
    group, pool = s.groups.group[g], s.groups.pool
    for i in range(group.members):
        pool[1, group.block + i] = s.rows.row[pool[0, group.block + i]].values
    sort_values(s, group.block, group.members)
    group.raw = 0
    box_of_members(s, g, s.groups.box[g])
    set_box(s, g)


def remove_group(s: Shard, g: int) -> None:
    """Removes a group whose members are gone or elsewhere."""
    group = s.groups.group[g]
    journal.remember(s, g, 1)
    journal.mark_gone(s, g)
    take_out(s, g)
    free_block(s.groups, group.block, group.block_bits)
    group.alive, group.members, group.count = 0, 0, 0
    sum_loss(s, g)
    group.to_check = group.to_merge = group.to_cut = group.to_improve = 0
    s.state[0].n_groups -= 1


def dissolve(s: Shard, g: int) -> None:
    """Removes a group; its rows, if any, become pending."""
    group = s.groups.group[g]
    journal.remember(s, g, 1)
    for i in range(group.members):
        index = s.groups.pool[0, group.block + i]
        assign(s, index, NO_GROUP_YET)
        journal.mark_touched(s, index)
    remove_group(s, g)


def is_short(s: Shard, rows: int, groups: int) -> bool:
    """True if capacity lacks for a move of `rows` and `groups`, which may put groups + 1 boxes elsewhere in the tree.

    The state then says what has to grow.
    """
    state = s.state[0]
    if state.groups_used + groups > s.groups.group.shape[0]:
        state.short, state.short_by = layout.GROUPS, state.groups_used + groups
    elif state.pool_used + 4 * rows + 64 > s.groups.pool.shape[1]:
        state.short, state.short_by = layout.POOL, state.pool_used + 4 * rows + 64
    elif state.nodes_used + (groups + 1) * nodes_needed(s) > s.tree.node.shape[0]:
        state.short, state.short_by = layout.NODES, state.nodes_used + (groups + 1) * nodes_needed(s)
    elif rows > s.work.ints.shape[1]:
        state.short, state.short_by = layout.MEMBERS, rows
    elif state.tallied and 2 * (state.tally_used + state.tallied * (rows + 1)) > s.work.tally.n.shape[0]:
        state.short, state.short_by = layout.TALLIES, 2 * (state.tally_used + state.tallied * (rows + 1))
    else:
        return journal.journal_is_short(s, rows + 1, groups + 1)
    return True
