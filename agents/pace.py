"""Whose region is in work among the shards of one worker, and how soon the next one may be begun.

The rules of this file
----------------------
* One region of a worker at a time, from when it is read until it is replaced: so no two shards are kept from their
  changes at once, and little changes between the two, because nobody waits in a line for the one process that
  anonymizes.
* After a region none is begun for as long as it was in work. So whatever it takes of the machine, changes keep half of
  their usual speed over a rebuild, be the regions ever so many.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class Pace:
    """Of all regions of one worker; used in its event loop only. now: seconds, of a clock that never goes back."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._holder: object = None
        self._began = self._rests_until = 0.0

    def begins(self, holder: object) -> bool:
        """Whether `holder` may begin a region now; from then on nobody else may, until it `ends`."""
        now = self._now()
        if self._holder is not None or now < self._rests_until:
            return False
        self._holder, self._began = holder, now
        return True

    def ends(self, holder: object) -> None:
        """The region is replaced, or given up; nothing where another one is in work."""
        if self._holder is holder:
            now = self._now()
            self._holder, self._rests_until = None, now + (now - self._began)
