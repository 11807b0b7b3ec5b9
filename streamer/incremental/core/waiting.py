"""QI groups that wait for something to be done to them, each once per heap, lowest number first.

A flag at the group says whether an entry is still meant: `streamer.incremental.core.heap`.
"""

from __future__ import annotations

from streamer.incremental.core.heap import push
from streamer.incremental.core.layout import Shard
from streamer.incremental.core.record_types import BROKEN, TO_CUT, TO_LOOK, TO_SETTLE
from streamer.jit import part

ALONE, RECOUNTED, SHRINKING, MOVING = 0, 1, 2, 3
"""`group.to_settle`: nothing to do; rows came or have other values; rows were deleted; rows moved or changed cells."""


@part
def settle_later(s: Shard, g: int, why: int) -> None:
    """A group has lost rows, or may no longer hold: looked at when the event's rows are done."""
    group = s.groups.group[g]
    if group.to_settle == ALONE:
        push(s.work, TO_SETTLE, group.number, g)
    group.to_settle = max(group.to_settle, why)


@part
def cut_later(s: Shard, g: int) -> None:
    """A group has gained rows, or was merged or cut."""
    group = s.groups.group[g]
    if group.to_cut == 0:
        group.to_cut = 1
        push(s.work, TO_CUT, group.number, g)


@part
def mend_later(s: Shard, g: int) -> None:
    """A group does not hold the model."""
    group = s.groups.group[g]
    if group.broken == 0:
        group.broken = 1
        push(s.work, BROKEN, group.number, g)


@part
def look_later(s: Shard, g: int) -> None:
    """The event has touched a group: local repair looks at it."""
    group = s.groups.group[g]
    if s.state[0].price > 0.0 and group.to_look == 0:
        group.to_look = 1
        push(s.work, TO_LOOK, group.number, g)
