"""The slots of a QI group: its published values, sorted by their texts when it is formed, and found again by number.

Two rows with the same values have the same number, so most comparisons never look at a text.
"""

from __future__ import annotations

from typing import Any

from streamer.incremental.core.layout import Shard, Values
from streamer.jit import part

SLOTS = 1
"""Row of `pool`."""

SPARE = 3
"""Row of `work.ints`; not the first one, in which the halves of a cut stand while groups are formed of them."""

FEW = 16
"""As many slots are sorted by insertion; longer runs are merged from such ones."""

PREFIX = 8
"""Bytes of a text that `value.prefix` holds."""


@part
def sort_values(s: Shard, block: int, n: int) -> None:
    """Sorts the slots pool[1, block : block + n] by the texts of their values; needs n columns of `work.ints`."""
    slots, spare = s.groups.pool[SLOTS, block : block + n], s.work.ints[SPARE]
    for begin in range(0, n, FEW):
        _insert(s.values, slots, begin, min(begin + FEW, n))
    length = FEW
    while length < n:
        for begin in range(0, n - length, 2 * length):
            _merge(s.values, slots, spare, begin, begin + length, min(begin + 2 * length, n))
        length *= 2


@part
def highest_slot(s: Shard, g: int, number: int) -> int:
    """The highest slot of group g that holds the values `number`; -1 where none does."""
    block = s.groups.group[g].block
    slot = int(s.groups.group[g].members) - 1
    while slot >= 0 and s.groups.pool[SLOTS, block + slot] != number:
        slot -= 1
    return slot


@part
def _insert(values: Values, slots: Any, begin: int, end: int) -> None:
    for at in range(begin + 1, end):
        number, to = slots[at], at
        while to > begin and before(values, number, slots[to - 1]):
            slots[to] = slots[to - 1]
            to -= 1
        slots[to] = number


@part
def _merge(values: Values, slots: Any, spare: Any, begin: int, middle: int, end: int) -> None:
    """Merges two sorted runs of slots that stand side by side."""
    for at in range(begin, middle):
        spare[at] = slots[at]
    left, right, to = begin, middle, begin
    while left < middle:
        if right < end and before(values, slots[right], spare[left]):
            slots[to] = slots[right]
            right += 1
        else:
            slots[to] = spare[left]
            left += 1
        to += 1


@part
def before(values: Values, one: int, other: int) -> bool:
    """Whether the text of the values `one` comes before that of `other`: by bytes, the shorter first."""
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
