"""One rebuild of a shard, region by region: what comes next, and how far it came.

The rules of this file
----------------------
* The regions are cut once, when the rebuild begins. QI groups that go meanwhile are missing in theirs, those that come
  are in none: the next rebuild has them.
* A region that changed while its new QI groups were sought is done again, at most REDONE_MAX times, then left as it was
  and counted.
* Every region has a seed of its own, drawn from the rebuild's by the shard's secret: so nobody who knows the rebuild's
  can tell who fell where, and the same state, seed and algorithm give the same QI groups to the last bit.
* Nothing here is committed: `Progress` is, with every region's commit and once at the end. A rebuild whose worker went
  has replaced whole regions only. It is not gone on with, because its regions were cut in a table that has changed
  since: whoever takes the shard over closes it as stopped, and the next rebuild begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from streamer.incremental.store.base import Meta
from streamer.incremental.store.rebuild import CANCELLED, DONE, FAILED, STOPPED, Progress, Rebuild

REDONE_MAX = 3

SEED_BYTES = 8


@dataclass(frozen=True, slots=True)
class Task:
    """A region that is to be anonymized anew: its QI groups, the seed to do it by, and how often that was in vain."""

    numbers: tuple[int, ...]
    seed: int
    tries: int


class Rebuilding:
    """A rebuild that is running.

    The caller asks for the `task`, seeks QI groups for its region, has them published with `progress`
    (`Publisher.replace_region`), and says what came of it: `replaced` or `changed`. Without a task it is over:
    `Publisher.end_rebuild(rebuilding.closed())`.
    """

    def __init__(self, rebuild: Rebuild, regions: Sequence[tuple[int, ...]], secret: bytes) -> None:
        self.progress = Progress(rebuild, total=len(regions))
        self._waiting = deque(regions)
        self._secret = secret
        self._tries = 0
        self._ended = DONE

    @property
    def task(self) -> Task | None:
        """What is to be done now; None where nothing is left, or the rebuild was ended."""
        if self._ended != DONE or not self._waiting:
            return None
        numbers = self._waiting[0]
        return Task(numbers, region_seed(self._secret, self.progress.rebuild.seed, numbers), self._tries)

    def replaced(self, progress: Progress) -> None:
        """The task's region was replaced; progress: as it was committed with it."""
        self.progress = progress
        self._next()

    def changed(self) -> None:
        """The task's region had changed: it comes again, or is left as it is."""
        if self._tries == REDONE_MAX:
            self.progress = replace(self.progress, left=self.progress.left + 1)
            self._next()
        else:
            self._tries += 1

    def _next(self) -> None:
        self._waiting.popleft()
        self._tries = 0

    def cancel(self) -> None:
        """No further region is begun."""
        self._end(CANCELLED)

    def fail(self) -> None:
        """The same, because a region could not be anonymized anew."""
        self._end(FAILED)

    def _end(self, state: str) -> None:
        if self._waiting:
            self._ended = state

    def closed(self) -> Progress:
        """What is remembered of it."""
        return replace(self.progress, state=self._ended)


def region_seed(secret: bytes, seed: int, numbers: Sequence[int]) -> int:
    """The seed for one region, below 2^64."""
    said = msgspec.msgpack.encode((str(seed), numbers))
    return int.from_bytes(blake2b(said, key=secret, digest_size=SEED_BYTES, person=b"region").digest(), "little")


def next_rebuild(meta: Meta, id_: str, algorithm: str, seed: int) -> Rebuild:
    """A rebuild after all those that the shard has had."""
    turns = [one.rebuild.turn for one in (*meta.rebuilds, meta.rebuild) if one is not None]
    return Rebuild(id_, algorithm, seed, turn=max(turns, default=-1) + 1)


def stopped(progress: Progress) -> Progress:
    """What is remembered of a rebuild whose worker went."""
    return replace(progress, state=STOPPED)
