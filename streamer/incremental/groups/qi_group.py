"""One QI group in memory: its members, its box and its published values.

The rules of this file
----------------------
* A *slot* is the number under which a published row of the group stands in the changelog, 0..n-1. Slots carry no row's
  identity: when a group is formed or cut again, they are given by the sorted values; an insertion takes the next slot;
  a removal of the values v frees the highest slot that holds v, and the last slot's record moves into it; a change of
  v to w rewrites the highest slot that holds v. So an insertion into an unchanged box publishes one record, a deletion
  at most two.
* The box is the pair (lo, hi) in cells that every member lies in.
"""

from __future__ import annotations

from streamer.incremental.release.changelog import PublishedGroup
from streamer.table.arrays import Ints
from streamer.table.row import Values


class QIGroup:
    """Members (places in the index table), box (d,) int64 each, and published values by slot."""

    __slots__ = ("hi", "lo", "members", "number", "slots")

    def __init__(self, number: int, lo: Ints, hi: Ints, members: list[int], slots: list[Values]) -> None:
        self.number = number
        self.lo = lo
        self.hi = hi
        self.members = members
        self.slots = slots

    def holds(self, cells: Ints) -> bool:
        """Whether cells (d,) lie in the box."""
        return bool(((self.lo <= cells) & (cells <= self.hi)).all())

    def add_values(self, values: Values) -> None:
        self.slots.append(values)

    def remove_values(self, values: Values) -> None:
        slot = self._highest_slot(values)
        last = self.slots.pop()
        if slot < len(self.slots):
            self.slots[slot] = last

    def change_values(self, before: Values, after: Values) -> None:
        if before != after:
            self.slots[self._highest_slot(before)] = after

    def published(self) -> PublishedGroup:
        """What readers see of the group now."""
        return PublishedGroup(tuple(self.lo.tolist()), tuple(self.hi.tolist()), tuple(self.slots))

    def _highest_slot(self, values: Values) -> int:
        slots = self.slots
        slot = len(slots) - 1
        while slots[slot] != values:
            slot -= 1
        return slot
