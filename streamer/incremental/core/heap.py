"""Heaps of QI groups by number, for work that is done lowest number first.

An entry names a group, or of a freed number its entry in the journal. Whoever takes one out looks whether it is still
meant: an entry is never searched for, a flag at the group is taken back instead.
"""

from __future__ import annotations

from streamer.incremental.core.layout import Work
from streamer.jit import part


@part
def push(work: Work, which: int, number: int, named: int) -> None:
    """Adds an entry to the heap `which`."""
    heap, at = work.heap, work.heap_size[which]
    work.heap_size[which] += 1
    while at > 0:
        above = (at - 1) >> 1
        if heap[which, above].number <= number:
            break
        heap[which, at].number, heap[which, at].named = heap[which, above].number, heap[which, above].named
        at = above
    heap[which, at].number, heap[which, at].named = number, named


@part
def pop(work: Work, which: int) -> tuple[int, int]:
    """Takes out the lowest number, with what it names; the heap is not empty."""
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
