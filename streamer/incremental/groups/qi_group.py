"""One QI group in memory: its members, its box and its published values.

The rules of this file
----------------------
* A *slot* is the number under which a published row of the group stands in the changelog, 0..n-1. Slots carry no row's
  identity: when a group is formed or cut again, they are given by the sorted values; an insertion takes the next slot;
  a removal of the values v frees the highest slot that holds v, and the last slot's record moves into it; a change of
  v to w rewrites the highest slot that holds v. So an insertion into an unchanged box publishes one record, a deletion
  at most two.
* Where k counts individuals, a group knows how many rows each has: what k counts costs nothing to ask, however many
  rows few people have.
* The box is the pair (lo, hi) in cells that every member lies in.
"""

from __future__ import annotations

from collections.abc import Iterable

from streamer.incremental.release.changelog import PublishedGroup
from streamer.table.arrays import Ints
from streamer.table.row import Row, Values


class QIGroup:
    """Members (places in the index table), box (d,) int64 each, and published values by slot."""

    __slots__ = ("_rows_of", "hi", "lo", "members", "number", "slots")

    def __init__(self, number: int, lo: Ints, hi: Ints, members: list[int], slots: list[Values]) -> None:
        self.number = number
        self.lo = lo
        self.hi = hi
        self.members = members
        self.slots = slots
        self._rows_of: dict[str, int] = {}

    @property
    def count(self) -> int:
        """What k counts: individuals where rows belong to one, else rows."""
        return len(self._rows_of) or len(self.members)

    def contains(self, cells: Ints) -> bool:
        """Whether cells (d,) lie in the box."""
        return bool(((self.lo <= cells) & (cells <= self.hi)).all())

    def add(self, place: int, row: Row) -> None:
        self.members.append(place)
        self.slots.append(row.values)
        self.count_rows([row])

    def remove(self, place: int, row: Row) -> None:
        self.members.remove(place)
        slot = self._highest_slot(row.values)
        last = self.slots.pop()
        if slot < len(self.slots):
            self.slots[slot] = last
        if row.individual is not None:
            self._rows_of[row.individual] -= 1
            if not self._rows_of[row.individual]:
                del self._rows_of[row.individual]

    def replace(self, members: list[int], rows: Iterable[Row]) -> None:
        """Other members, with slots by their sorted values; `rows` are theirs."""
        rows = list(rows)
        self.members, self.slots, self._rows_of = members, sorted(row.values for row in rows), {}
        self.count_rows(rows)

    def count_rows(self, rows: Iterable[Row]) -> None:
        """Counts rows of members among those of their individuals."""
        for row in rows:
            if row.individual is not None:
                self._rows_of[row.individual] = self._rows_of.get(row.individual, 0) + 1

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
