"""When the rows of a shard were changed or deleted last: a snapshot may bring one of them as it was before.

The rules of this file
----------------------
* Only of the last REMEMBERED_MAX rows that were changed, by the positions of their messages in the source's log. What
  has none, such as a plain deletion, counts as if it came with the last change that had one.
* What is forgotten leaves one position behind, the last one: a row that is not there, and was read before it, may be of
  somebody who was deleted. It is not taken. The rows of a truncation are forgotten in this way.
* A row is known by its tie hash, and not by its key: nothing of a deleted person is kept here.
* It depends on the sequence of changes alone, and is stored with each commit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from streamer.incremental.events.source_positions import SourcePosition

REMEMBERED_MAX = 20_000

FORGOTTEN = 1 << 63
"""Stands for all rows that are forgotten; no tie hash is so large."""

Remembered = tuple[int, SourcePosition]
"""A number that orders them, oldest first, and the position of the row's last change."""


class LastChanges:
    """The positions of the last changes of rows, by tie hash."""

    remembered_max = REMEMBERED_MAX

    def __init__(self) -> None:
        self._of = OrderedDict[int, SourcePosition]()  # the row that was changed last comes last
        self._forgotten: SourcePosition | None = None
        self.last: SourcePosition | None = None
        """The position of the last change that had one."""
        self._serial = 0
        self._new: dict[int, Remembered | None] = {}

    def load(self, kept: Iterable[tuple[int, Remembered]]) -> None:
        """Begins with what a store holds."""
        for row, (serial, position) in sorted(kept, key=lambda one: one[1][0]):
            self._serial = serial
            if row == FORGOTTEN:
                self._forgotten = position
            else:
                self._of[row] = position
            self.last = position

    def take_new(self) -> dict[int, Remembered | None]:
        """What has changed since the last call; None: it is forgotten."""
        new, self._new = self._new, {}
        return new

    def is_older(self, row: int, position: SourcePosition, *, is_there: bool) -> bool:
        """True if a row that a snapshot has read was changed, or may have been deleted, after that."""
        known = self._of.get(row, None if is_there else self._forgotten)
        return known is not None and position.is_before(known)

    def add(self, row: int, position: SourcePosition) -> None:
        """A row is changed or deleted."""
        known = self._of.pop(row, None)
        self.last = known if known is not None and position.is_before(known) else position
        self._of[row] = self.last
        self._serial += 1
        self._new[row] = self._serial, self.last
        if len(self._of) > self.remembered_max:
            oldest, forgotten = self._of.popitem(last=False)
            self._new[oldest] = None
            self._forget(0, forgotten)

    def truncate(self, position: SourcePosition) -> None:
        """All rows are deleted."""
        self._serial += 1
        self._forget(self._serial, position)
        self.last = self._forgotten

    def _forget(self, serial: int, position: SourcePosition) -> None:
        known = self._forgotten
        self._forgotten = known if known is not None and position.is_before(known) else position
        self._new[FORGOTTEN] = serial, self._forgotten
