"""What has come of one partition and is not taken yet: the next batch, which gathers while the last one is committed.

The rules of this file
----------------------
* The client fetches nothing for the other partitions of a broker as long as messages of one wait inside it. So they are
  taken out at once, and wait here.
* A batch begins when its shard is free and a message is there: how large it is follows from what came meanwhile. A
  table may have a message wait for others (`limits.batch_ms_max`).
* Two full batches wait at most: then the partition is paused until one of them is taken.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from streamer.incremental.shard.input import Message
from streamer.table.schema import Limits

BATCH_BYTES_MAX = 4_000_000
BATCHES_WAITING = 2


class Batch(NamedTuple):
    """Messages in offset order. through: below this offset the input holds no others than those read."""

    messages: list[Message]
    through: int


class Arrivals:
    """Messages of one partition, in order, from one place that reads to one that takes; both in one event loop."""

    def __init__(self, limits: Limits) -> None:
        self._events_max, self._wait_seconds = limits.batch_events_max, limits.batch_ms_max / 1000
        self._messages: deque[Message] = deque()
        self._n_bytes = 0
        self._through = 0
        self._first_at = 0.0
        """When the first of these messages came, or was left behind, by the monotonic clock."""
        self._failure: Exception | None = None
        self._came, self._room = asyncio.Event(), asyncio.Event()
        self.reading: asyncio.Future[None] | None = None
        """The task that adds what comes."""

    def add(self, messages: Iterable[Message], through: int) -> None:
        """Adds what was read. through: as in `Batch`, and so far as it is known."""
        before = len(self._messages)
        self._messages.extend(messages)
        self._n_bytes += sum(len(self._messages[i].value or b"") for i in range(before, len(self._messages)))
        self._through = through
        if len(self._messages) > before:
            self._first_at = monotonic() if before == 0 else self._first_at
            self._came.set()

    def fail(self, error: Exception) -> None:
        """Has the next `take` raise the error: nothing more comes."""
        self._failure = error
        self._came.set()

    @property
    def is_full(self) -> bool:
        """Whether as much waits as may."""
        return self._has(BATCHES_WAITING)

    def _has(self, batches: int) -> bool:
        return len(self._messages) >= batches * self._events_max or self._n_bytes >= batches * BATCH_BYTES_MAX

    async def until_room(self) -> None:
        """Waits until less waits than may."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    async def take(self, seconds_max: float) -> Batch:
        """The next batch; an empty one if no message comes within so many seconds. Raises what `fail` was told."""
        await self._until(lambda: bool(self._messages), monotonic() + seconds_max)
        if self._messages and self._wait_seconds:
            await self._until(lambda: self._has(1), self._first_at + self._wait_seconds)
        if self._failure is not None:
            raise self._failure
        taken: list[Message] = []
        n_bytes = 0
        while self._messages and len(taken) < self._events_max and n_bytes < BATCH_BYTES_MAX:
            taken.append(self._messages.popleft())
            n_bytes += len(taken[-1].value or b"")
        self._n_bytes -= n_bytes
        self._first_at = monotonic()
        self._room.set()
        return Batch(taken, taken[-1].offset + 1 if self._messages else self._through)

    async def _until(self, enough: Callable[[], bool], at: float) -> None:
        """Waits for `enough` messages, but not beyond a time of the monotonic clock."""
        while not enough() and self._failure is None and (left := at - monotonic()) > 0:
            self._came.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._came.wait(), left)
