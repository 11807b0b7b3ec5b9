"""The first snapshot of one shard, as its worker ends it: whether it is over, and its release.

The rules of this file
----------------------
* Whoever serves the shard calls `go_on` after every batch. While rows are held back the shard reads on; whether it is
  over, `streamer.incremental.shard.holding_back` decides from what is known here: how long no row of it has come, what
  the other shards have stored, what an operator said.
* For the release nothing is read until it is done: the rows are read from the store, the process that anonymizes makes
  QI groups of them, and the shard's thread publishes these. What comes meanwhile waits in the input, and follows.
* What the other shards know is read from the store, and nothing is sent: so nothing can be lost on the way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic

from agents.anonymizer import FIRST, Anonymizer, Job
from agents.rebuilds import ShardRebuilds
from agents.shard import HeldShard
from streamer.incremental.groups.lots import seed
from streamer.incremental.shard.holding_back import SETTLED_SECONDS, ended_by, holds_back
from streamer.incremental.store.snapshot import Snapshot

log = logging.getLogger(__name__)

ASK_SECONDS = 1.0
"""How often the other shards are asked."""


class FirstSnapshot:
    """What is held back by one shard, from its assignment to its loss.

    requests: who hears operators. seen_elsewhere: whether another shard knows that the snapshot is over.
    """

    def __init__(
        self,
        shard: HeldShard,
        requests: ShardRebuilds,
        seen_elsewhere: Callable[[HeldShard], bool],
        anonymizer: Anonymizer,
    ) -> None:
        self._shard = shard
        self._requests = requests
        self._seen_elsewhere = seen_elsewhere
        self._anonymizer = anonymizer
        self._last_read = self._asked_at = 0.0
        self._reads = -1
        self._job: Job | None = None

    def taken_over(self) -> None:
        """Begins anew after a take-over."""
        self._last_read, self._reads = monotonic(), -1

    def close(self) -> None:
        """Nobody waits for what is under way any more."""
        if self._job is not None:
            self._job.abandon()
        self._job = None

    async def go_on(self, idle: bool) -> None:
        """Releases what is held back, if that is over. idle: the input had no message just now."""
        snapshot = self._shard.meta.snapshot
        if snapshot is None or not holds_back(self._shard.meta) or self._shard.catches_up:
            return
        if snapshot.reads != self._reads:
            if self._reads < 0:
                log.info("%s: holds back a snapshot that began at offset %d", self._shard.name, snapshot.since)
            self._reads, self._last_read = snapshot.reads, monotonic()
        ended = await self._ended(snapshot, idle)
        if ended and not self._shard.lost:
            await self._release(snapshot, ended)

    async def _ended(self, snapshot: Snapshot, idle: bool) -> str:
        quiet = monotonic() - self._last_read
        elsewhere = False
        if idle and quiet >= SETTLED_SECONDS and not snapshot.seen and monotonic() - self._asked_at > ASK_SECONDS:
            self._asked_at = monotonic()
            elsewhere = await asyncio.to_thread(self._seen_elsewhere, self._shard)
        return ended_by(snapshot, quiet, idle, elsewhere, self._requests.snapshot_to_end)

    async def _release(self, snapshot: Snapshot, ended: str) -> None:
        began, name = monotonic(), self._shard.name
        rows = await self._shard.held_rows(ended)
        log.info("%s: the snapshot is over (%s); %d rows are put into QI groups", name, ended, len(rows.source_keys))
        self._job = self._anonymizer.submit(rows, FIRST, seed(self._shard.meta.secret))
        found = await asyncio.wrap_future(self._job.result)
        self._job = None
        if self._shard.lost:
            return
        report = await self._shard.release(found.groups)
        log.info(
            "%s: %d rows in %d QI groups published as its first table, in %d releases, %.1f s",
            name,
            len(rows.source_keys),
            len(found.groups),
            report.commits,
            monotonic() - began,
        )
