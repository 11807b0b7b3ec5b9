"""Refused messages that an operator has tried again, as the worker of their shard does it between batches.

The rules of this file
----------------------
* The input is read from the first of these messages up to the shard's `next`, in a thread beside the shard's own, piece
  by piece: batches go on meanwhile. Only what is left when few messages are is waited for.
* One request at a time; until it has its answer, no later record of the control topic is looked at. The answer, and
  what was applied, are one commit: whoever takes the shard over before that begins anew, after it has nothing to do.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future, ThreadPoolExecutor

from agents.shard import HeldShard
from streamer.incremental.shard.requests import Retry
from streamer.incremental.shard.retrying import Retrial
from streamer.table.schema import Table

log = logging.getLogger(__name__)

WAITED_FOR_MAX = 5_000
"""Offsets that are read while the shard's batches wait."""


class ShardRetries:
    """What is tried again of one held shard."""

    def __init__(self, table: Table, shard: HeldShard) -> None:
        self._table = table
        self._shard = shard
        self._retrial: Retrial | None = None
        self._heard = 0
        self._thread: ThreadPoolExecutor | None = None
        self._reading: Future[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return self._retrial is None

    def begin(self, request: Retry, heard: int) -> None:
        """Takes a request up; heard: the offset behind it in the control topic."""
        self._retrial = Retrial(self._table, request.offsets, self._shard.meta, self._shard.schemas)
        self._heard = heard
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="retries")

    def close(self) -> None:
        """Nobody waits for what is under way any more."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
        self._retrial = self._thread = self._reading = None

    async def go_on(self) -> bool:
        """Does what is next; returns whether a request has its answer now. Raises what a step raises."""
        retrial, thread = self._retrial, self._thread
        if retrial is None or thread is None or (self._reading is not None and not self._reading.done()):
            return False
        if self._reading is not None:
            self._reading.result()
            self._reading = None
        while (left := self._shard.meta.next - retrial.next) > 0:
            reading = thread.submit(self._read, retrial, self._shard.meta.next)
            if left > WAITED_FOR_MAX:
                self._reading = reading
                return False
            await asyncio.wrap_future(reading)
        judged = retrial.judged()
        report = await self._shard.retry(judged, self._heard)
        self.close()
        log.info(
            "%s: of %d messages tried again %d are applied", self._shard.name, len(judged), -report.counts.dead_letters
        )
        return True

    def _read(self, retrial: Retrial, end: int) -> None:
        retrial.see(*self._shard.read_once_more(retrial.next, end))
