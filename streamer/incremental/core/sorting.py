"""Sorting the places of a QI group's rows: by their lots, and stably by their cells along one attribute.

Few rows, the common case, are inserted one after the other. Many are counted into buckets, never more of them than
rows, so that one scratch array of n serves; a domain of more cells than that takes several rounds.
"""

from __future__ import annotations

from typing import Any

from streamer.jit import part

FEW = 32
"""Up to here insertion is quicker than counting."""

BITS = 64


@part
def sort_by_lots(places: Any, lots: Any, spare: Any, counts: Any, n: int) -> None:
    """Sorts places (n,) int32 by their lots; lots (2, n) uint64, the first row those of `places`, sorted with them.

    Lots are chance: by their highest bits they fall into about as many buckets as there are, and insertion, which ends
    the work, moves each past few others. spare and counts (n,) int32, lots[1] and `places` are overwritten.
    """
    if n > FEW:
        bits = power_below(n)
        shift = BITS - bits
        _clear(counts, 1 << bits)
        for at in range(n):
            counts[lots[0, at] >> shift] += 1
        _begin(counts, 1 << bits)
        for at in range(n):
            bucket = lots[0, at] >> shift
            to = counts[bucket]
            spare[to], lots[1, to] = places[at], lots[0, at]
            counts[bucket] = to + 1
        for at in range(n):
            places[at], lots[0, at] = spare[at], lots[1, at]
    for at in range(1, n):
        place, lot, to = places[at], lots[0, at], at
        while to > 0 and lots[0, to - 1] > lot:
            places[to], lots[0, to] = places[to - 1], lots[0, to - 1]
            to -= 1
        places[to], lots[0, to] = place, lot


@part
def sort_by_cells(column: Any, low: int, high: int, places: Any, spare: Any, counts: Any, n: int) -> None:
    """Sorts places (n,) int32 stably by column[place], which lies in low..high.

    spare and counts (n,) int32 are overwritten.
    """
    if n <= FEW:
        for at in range(1, n):
            place, to = places[at], at
            while to > 0 and column[places[to - 1]] > column[place]:
                places[to] = places[to - 1]
                to -= 1
            places[to] = place
        return
    bits = power_below(n)
    last, shift = (1 << bits) - 1, 0
    while (high - low) >> shift:
        buckets = min((high - low) >> shift, last) + 1
        _clear(counts, buckets)
        for at in range(n):
            counts[((column[places[at]] - low) >> shift) & last] += 1
        _begin(counts, buckets)
        for at in range(n):
            bucket = ((column[places[at]] - low) >> shift) & last
            spare[counts[bucket]] = places[at]
            counts[bucket] += 1
        for at in range(n):
            places[at] = spare[at]
        shift += bits


@part
def power_below(n: int) -> int:
    """The largest i with 2^i <= n."""
    i = 0
    while n >> (i + 1):
        i += 1
    return i


@part
def _clear(counts: Any, n: int) -> None:
    for bucket in range(n):
        counts[bucket] = 0


@part
def _begin(counts: Any, n: int) -> None:
    """Where each bucket begins, in the place of how many it holds."""
    begin = 0
    for bucket in range(n):
        size = counts[bucket]
        counts[bucket] = begin
        begin += size
