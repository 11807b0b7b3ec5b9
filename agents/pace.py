"""Whose region is in work among the shards of one worker, and how soon the next one may be begun.

The rules of this file
----------------------
* One region of a worker at a time, from when it is read until it is replaced: so no two shards are kept from their
  changes at once, and little changes between the two, because nobody waits in a line for the one process that
  anonymizes.
* After a region nothing is begun for as long as it has kept its shard busy. So the changes of all shards together have
  half of the worker's time at least, be the regions ever so many.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class Pace:
    """Of all regions of one worker; used in its event loop only. now: seconds, of a clock that never goes back."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._holder: object = None
        self._rests_until = 0.0
        self._spent = 0.0

    def begins(self, holder: object) -> bool:
        """Whether `holder` may begin a region now; from then on nobody else may, until it `ends`."""
        if self._holder is not None or self._now() < self._rests_until:
            return False
        self._holder, self._spent = holder, 0.0
        return True

    def kept_busy(self, seconds: float) -> None:
        """The region in work has kept its shard from its changes for so long."""
        self._spent += seconds

    def ends(self, holder: object) -> None:
        """The region is replaced, or given up; says nothing where it is not this one's."""
        if self._holder is holder:
            self._holder, self._rests_until = None, self._now() + self._spent
