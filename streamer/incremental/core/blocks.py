"""Blocks of the pool: where a QI group's members and slots stand, in runs of a power of two entries.

A block that is given back is used again for groups of its size. Blocks are never joined: sizes of QI groups hardly
vary, and a heap of a statement's rows is there for one event.
"""

from __future__ import annotations

from streamer.incremental.core.layout import Groups, Shard
from streamer.jit import part

LEAST_ROOM = 3
"""The smallest block has 1 << LEAST_ROOM entries."""


@part
def room_for(n: int) -> int:
    """The size of the block for n rows: the power of two."""
    room = LEAST_ROOM
    while (1 << room) < n:
        room += 1
    return room


@part
def take_block(s: Shard, room: int) -> int:
    """A block of 1 << room entries; the caller has seen that there is one."""
    groups = s.groups
    at = int(groups.block_free[room])
    if at >= 0:
        groups.block_free[room] = groups.pool[0, at]
        return at
    state = s.state[0]
    at = state.pool_used
    state.pool_used += 1 << room
    return at


@part
def give_block(groups: Groups, at: int, room: int) -> None:
    """A block that nobody needs any more."""
    groups.pool[0, at] = groups.block_free[room]
    groups.block_free[room] = at


@part
def make_room(s: Shard, g: int, n: int) -> None:
    """Sees to it that a group's block holds n rows; what stands in it moves along."""
    group = s.groups.group[g]
    if n <= (1 << group.room):
        return
    pool, room, old = s.groups.pool, room_for(n), group.block
    new = take_block(s, room)
    for i in range(group.members):
        pool[0, new + i], pool[1, new + i] = pool[0, old + i], pool[1, old + i]
    give_block(s.groups, old, group.room)
    group.block, group.room = new, room


@part
def fresh_block(s: Shard, g: int, n: int) -> None:
    """Gives a group a block for n rows instead of its own; what stood in it is lost."""
    group = s.groups.group[g]
    room = room_for(n)
    if group.block >= 0:
        if group.room == room:
            return
        give_block(s.groups, group.block, group.room)
    group.block, group.room = take_block(s, room), room
