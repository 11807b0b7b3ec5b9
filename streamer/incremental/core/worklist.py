"""Heaps of QI groups by number, for work that is done lowest number first.

An entry names a group, or, in FREED, the journal's entry of a freed number. Entries are never searched for: a flag of
the group says whether its entry still counts, and is read when the entry is popped.
"""

from __future__ import annotations

from streamer.incremental.core.layout import TO_CHECK, TO_CUT, TO_IMPROVE, TO_MERGE, Shard, Work


def push(work: Work, which: int, number: int, named: int) -> None:
    heap, at = work.heap, work.heap_size[which]
    work.heap_size[which] += 1
    while at > 0:
        above = (at - 1) >> 1
        if heap[which, above].number <= number:
            break
        heap[which, at].number, heap[which, at].named = heap[which, above].number, heap[which, above].named
        at = above
    heap[which, at].number, heap[which, at].named = number, named


def pop(work: Work, which: int) -> tuple[int, int]:
    """Removes the lowest number and returns it with what it names; the heap is not empty."""
    heap = work.heap
    number, named = heap[which, 0].number, heap[which, 0].named
    work.heap_size[which] -= 1
    n = work.heap_size[which]
    last_number, last_named = heap[which, n].number, heap[which, n].named
    at = 0
    while 2 * at + 1 < n:
        below = 2 * at + 1
        if below + 1 < n and heap[which, below + 1].number < heap[which, below].number:
            below += 1
        if last_number <= heap[which, below].number:
            break
        heap[which, at].number, heap[which, at].named = heap[which, below].number, heap[which, below].named
        at = below
    heap[which, at].number, heap[which, at].named = last_number, last_named
    return number, named


NO_CHECK, CHECK_COUNTS, CHECK_AFTER_DELETE, CHECK_AFTER_MOVE = 0, 1, 2, 3
"""Values of `group.to_check`: none; rows came or have other values; rows were deleted; rows moved or changed cells."""


def queue_check(s: Shard, g: int, why: int) -> None:
    """Queues a group that has lost rows, or may not hold the model any more, for a check after the operations."""
    group = s.groups.group[g]
    if group.to_check == NO_CHECK:
        push(s.work, TO_CHECK, group.number, g)
    group.to_check = max(group.to_check, why)


def queue_cut(s: Shard, g: int) -> None:
    """Queues a group that has gained rows, or was merged or cut."""
    group = s.groups.group[g]
    if group.to_cut == 0:
        group.to_cut = 1
        push(s.work, TO_CUT, group.number, g)


def queue_merge(s: Shard, g: int) -> None:
    """Queues a group that does not hold the model."""
    group = s.groups.group[g]
    if group.to_merge == 0:
        group.to_merge = 1
        push(s.work, TO_MERGE, group.number, g)


def queue_improve(s: Shard, g: int) -> None:
    """Queues a group that the event has touched for local repair."""
    group = s.groups.group[g]
    if s.state[0].repairs != 0 and group.to_improve == 0:
        group.to_improve = 1
        push(s.work, TO_IMPROVE, group.number, g)
