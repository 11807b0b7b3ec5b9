"""When the rows of a shard were changed or deleted last: a snapshot may bring one of them as it was before.

The rules of this file
----------------------
* Only of the last REMEMBERED_MAX rows that were changed, by the positions of their messages in the source's log. What
  has none, such as a plain deletion, comes just after the last message that had one.
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

FORGOTTEN, LAST = 1 << 63, (1 << 63) + 1
"""Stand for all rows that are forgotten, and for the last message that had a position. No tie hash is so large."""

Remembered = tuple[int, SourcePosition]
"""A number that orders them, oldest first, and the position of the row's last change."""


class LastChanges:
    """The positions of the last changes of rows, by tie hash."""

    remembered_max = REMEMBERED_MAX

    def __init__(self) -> None:
        self._of = OrderedDict[int, SourcePosition]()  # the row that was changed last comes last
        self._forgotten: SourcePosition | None = None
        self.last: SourcePosition | None = None
        """The position of the last message that had one."""
        self._serial = 0
        self._new: dict[int, Remembered | None] = {}

    def load(self, kept: Iterable[tuple[int, Remembered]]) -> None:
        """Begins with what a store holds."""
        for row, (serial, position) in sorted(kept, key=lambda one: one[1][0]):
            self._serial = serial
            if row == FORGOTTEN:
                self._forgotten = position
            elif row != LAST:
                self._of[row] = position
            self.last = position.of_a_message()

    def take_new(self) -> dict[int, Remembered | None]:
        """What has changed since the last call; None: it is forgotten."""
        new, self._new = self._new, {}
        return new

    def is_older(self, row: int, position: SourcePosition, *, is_there: bool) -> bool:
        """True if a row that a snapshot has read was changed, or may have been deleted, after that."""
        known = self._of.get(row, None if is_there else self._forgotten)
        return known is not None and position.is_before(known)

    def is_repeated(self, row: int, position: SourcePosition | None) -> bool:
        """True if a change of a row that is not there came before, or one that is later."""
        known = self._of.get(row, self._forgotten)
        return known is not None and position is not None and (position == known or position.is_before(known))

    def seen(self, position: SourcePosition) -> None:
        """A row that a snapshot has read is taken."""
        if self.last is None or self.last.is_before(position):
            self._serial += 1
            self.last = position
            self._new[LAST] = self._serial, position

    def add(self, row: int, position: SourcePosition | None) -> None:
        """A row is changed or deleted; None: the message has no position, and came after the last one that had."""
        if (position := self._dated(position)) is None:
            return
        known = self._of.pop(row, None)
        position = known if known is not None and position.is_before(known) else position
        self.last = position.of_a_message()
        self._of[row] = position
        self._serial += 1
        self._new[row] = self._serial, position
        if len(self._of) > self.remembered_max:
            oldest, forgotten = self._of.popitem(last=False)
            self._new[oldest] = None
            self._forget(0, forgotten)

    def truncate(self, position: SourcePosition | None) -> None:
        """All rows are deleted, those, too, that were changed before."""
        if (position := self._dated(position)) is None:
            return
        self._serial += 1
        self._new.update(dict.fromkeys(self._of))
        for known in self._of.values():
            position = known if position.is_before(known) else position
        self._of.clear()
        self.last = position.of_a_message()
        self._forget(self._serial, position)

    def _dated(self, position: SourcePosition | None) -> SourcePosition | None:
        """The position of a change; None if it has none, and no message before it had one."""
        return position or (self.last and self.last.just_after())

    def _forget(self, serial: int, position: SourcePosition) -> None:
        known = self._forgotten
        self._forgotten = known if known is not None and position.is_before(known) else position
        self._new[FORGOTTEN] = serial, self._forgotten
