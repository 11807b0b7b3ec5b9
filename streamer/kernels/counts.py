"""Counts by number, in a hash table with open addressing: entries stand at their home, or after those that are there.

An entry whose count falls to 0 is removed, and later ones move up. No answer depends on where entries stand.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from streamer.native import inlined
from streamer.table.arrays import Ints

SPREAD, LOW = 0x1E3779B1, 0x7FFFFFFF  # their product fits into 63 bits: compiled and uncompiled agree


class CountTable(NamedTuple):
    """A table of `length` entries, one of them always free."""

    key: Ints  # (length,)
    n: Any  # (length,) int32 or int64: 0 if the entry is free


@inlined
def home(key: int, length: int) -> int:
    """Where an entry stands unless another one is there; length < 2^31."""
    mixed = ((key >> 31) & LOW) * SPREAD & LOW
    mixed = ((mixed >> 13) ^ mixed ^ (key & LOW)) * SPREAD & LOW
    return ((mixed >> 15) ^ mixed) * length >> 31


@inlined
def entry_of(counts: CountTable, key: int) -> int:
    """The entry of a key, or the free one for it."""
    at = home(key, counts.n.shape[0])
    while counts.n[at] > 0 and counts.key[at] != key:
        at += 1
        if at == counts.n.shape[0]:
            at = 0
    return at


@inlined
def count_of(counts: CountTable, key: int) -> int:
    """The count of a key."""
    return int(counts.n[entry_of(counts, key)])


@inlined
def count_in(counts: CountTable, key: int) -> int:
    """Counts a key once more; returns its new count."""
    at = entry_of(counts, key)
    counts.key[at] = key
    counts.n[at] += 1
    return int(counts.n[at])


def count_out(counts: CountTable, key: int) -> int:
    """Counts a key once less; returns its new count."""
    at = entry_of(counts, key)
    counts.n[at] -= 1
    if counts.n[at] > 0:
        return int(counts.n[at])
    hole, at, length = at, at + 1, counts.n.shape[0]
    while True:
        if at == length:
            at = 0
        if counts.n[at] == 0:
            return 0
        wanted = home(counts.key[at], length)
        if (at > hole and (wanted <= hole or wanted > at)) or (at < hole and at < wanted <= hole):
            counts.key[hole], counts.n[hole], counts.n[at] = counts.key[at], counts.n[at], 0
            hole = at
        at += 1
