"""How many rows an individual has in a QI group, and among the pending ones: where k counts individuals.

What a privacy model counts beside them (`streamer.incremental.core.model`) stands here too, under numbers that no
individual and no group has.

A hash with open addressing by (group, individual); an entry that falls to 0 is taken out, and those behind it move up,
so that the way to an entry stays short.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamer.incremental.core.layout import Shard
from streamer.incremental.core.record_types import TALLY, Records, records
from streamer.jit import part
from streamer.table.arrays import Ints

SPREAD, BITS = 0x1E3779B1, 0x7FFFFFFF  # their product fits into 63 bits: compiled and uncompiled agree


@part
def _home(group: Any, who: Any, length: int) -> Any:
    """Where an entry stands in a tally of this length if nothing is in its way; int64, or arrays of them."""
    mixed = (group + 2) * SPREAD & BITS
    mixed = ((mixed >> 13) ^ mixed ^ who) * SPREAD & BITS
    return ((mixed >> 15) ^ mixed) % length


@part
def find(tally: Any, group: int, who: int) -> int:
    """Where the entry stands, or the free place for it."""
    at = _home(int(group), int(who), tally.shape[0])
    while tally[at].n > 0 and (tally[at].group != group or tally[at].who != who):
        at += 1
        if at == tally.shape[0]:
            at = 0
    return at


@part
def count_in(s: Shard, group: int, who: int) -> int:
    """One row more of an individual in a group (or PENDING); returns how many there are now."""
    tally = s.work.tally
    at = find(tally, group, who)
    if tally[at].n > 0:
        tally[at].n += 1
        return int(tally[at].n)
    tally[at].group, tally[at].who, tally[at].n = group, who, 1
    s.state[0].tally_used += 1
    return 1


@part
def count_out(s: Shard, group: int, who: int) -> int:
    """One row less; returns how many are left."""
    tally = s.work.tally
    at = find(tally, group, who)
    tally[at].n -= 1
    if tally[at].n > 0:
        return int(tally[at].n)
    s.state[0].tally_used -= 1
    hole, at = at, at + 1
    while True:
        if at == tally.shape[0]:
            at = 0
        entry = tally[at]
        if entry.n == 0:
            return 0
        home = _home(int(entry.group), int(entry.who), tally.shape[0])
        if (at > hole and (home <= hole or home > at)) or (at < hole and at < home <= hole):
            tally[hole].group, tally[hole].who, tally[hole].n = entry.group, entry.who, entry.n
            entry.n = 0
            hole = at
        at += 1


def tally_of(group: Ints, who: Ints, n: Ints, length: int) -> Records:
    """A tally of this length with these entries: int64, no two of one individual in one group, fewer than `length`."""
    tally = records(length, TALLY)
    home = _home(group, who, length)
    order = np.argsort(home, kind="stable")
    at = standing(home[order], length)
    tally.group[at], tally.who[at], tally.n[at] = group[order], who[order], n[order]
    return tally


def standing(homes: Ints, length: int) -> Ints:
    """Where the entries of a hash with open addressing stand: homes (n,) int64, ascending, n < length.

    Each stands at its home, or behind the one before it. Those that come out beyond the end take the first places that
    are free: all behind their homes are taken.
    """
    order = np.arange(len(homes))
    at = order + np.maximum.accumulate(homes - order)
    beyond = at >= length
    if beyond.any():
        free = np.ones(length, bool)
        free[at[~beyond]] = False
        at[beyond] = np.flatnonzero(free)[: beyond.sum()]
    return at
