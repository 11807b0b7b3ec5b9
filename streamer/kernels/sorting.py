"""A stable sort and a heap, for compiled functions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.native import inlined
from streamer.table.arrays import Floats, Ints


def sort_stably(keys: Ints | Floats, out: Ints, spare: Ints) -> None:
    """Fills in the numbers of keys (m,) in ascending order of the keys, equal ones as they come; spare: (m,) or more.

    By merging: runs of 1, 2, 4, ... keys.
    """
    m, length = out.shape[0], 1
    for i in range(m):
        out[i] = i
    while length < m:
        for begin in range(0, m, 2 * length):
            middle, end = min(begin + length, m), min(begin + 2 * length, m)
            left, right = begin, middle
            for to in range(begin, end):
                if right == end or (left < middle and keys[out[left]] <= keys[out[right]]):
                    spare[to] = out[left]
                    left += 1
                else:
                    spare[to] = out[right]
                    right += 1
        out[:] = spare[:m]
        length *= 2


class Heap(NamedTuple):
    """Up to m waiting groups, by rank, then by rows, then by number."""

    rank: Floats  # (m,)
    rows: Ints
    group: Ints
    n: Ints  # (1,)


def heap_for(m: int) -> Heap:
    """An empty heap."""
    return Heap(np.empty(m), np.empty(m, np.int64), np.empty(m, np.int64), np.zeros(1, np.int64))


@inlined
def _precedes(heap: Heap, a: int, b: int) -> bool:
    if heap.rank[a] != heap.rank[b]:
        return bool(heap.rank[a] < heap.rank[b])
    if heap.rows[a] != heap.rows[b]:
        return bool(heap.rows[a] < heap.rows[b])
    return bool(heap.group[a] < heap.group[b])


@inlined
def _exchange(heap: Heap, a: int, b: int) -> None:
    heap.rank[a], heap.rank[b] = heap.rank[b], heap.rank[a]
    heap.rows[a], heap.rows[b] = heap.rows[b], heap.rows[a]
    heap.group[a], heap.group[b] = heap.group[b], heap.group[a]


def push(heap: Heap, rank: float, rows: int, group: int) -> None:
    """Puts a group in."""
    at = heap.n[0]
    heap.rank[at], heap.rows[at], heap.group[at] = rank, rows, group
    heap.n[0] += 1
    while at > 0 and _precedes(heap, at, (at - 1) // 2):
        _exchange(heap, at, (at - 1) // 2)
        at = (at - 1) // 2


def pop(heap: Heap) -> tuple[int, int]:
    """The rows and the number of the first group, which is taken out."""
    rows, group, at = heap.rows[0], heap.group[0], 0
    heap.n[0] -= 1
    n = heap.n[0]
    _exchange(heap, 0, n)
    while 2 * at + 1 < n:
        below = 2 * at + 1
        if below + 1 < n and _precedes(heap, below + 1, below):
            below += 1
        if not _precedes(heap, below, at):
            break
        _exchange(heap, at, below)
        at = below
    return rows, group
