"""Looking for drift in one shard: now and then a few neighbourhoods are anonymized afresh, beside the batches.

`streamer.incremental.shard.schedule` says when, `streamer.incremental.shard.drift` what is compared. Between two
batches at most one region is looked at; nothing waits, nothing is replaced, and a region that changes meanwhile is as
good a sample as any. It waits while a rebuild has a region in work, and for machine code: where that is missing, a
machine has better to do than to compile an algorithm as well.
"""

from __future__ import annotations

import logging
from time import monotonic

from agents.anonymizer import Anonymizer, Job, NotAnonymized
from agents.shard import HeldShard
from streamer.compiling import is_warm
from streamer.incremental.groups.replacing import Region
from streamer.incremental.shard.drift import SAMPLE_ROWS, drawn, loss, ratio
from streamer.incremental.shard.schedule import Looked, look_is_due
from streamer.table.schema import Table

log = logging.getLogger(__name__)

FRESH = "ordered"
"""The algorithm that a fresh table is made by."""


class DriftLook:
    """What is known of one shard's drift; drift: the last estimate, None where there is none yet."""

    def __init__(self, table: Table, shard: HeldShard, anonymizer: Anonymizer) -> None:
        self.drift: float | None = None
        self._table = table
        self._shard = shard
        self._anonymizer = anonymizer
        self._last = Looked(monotonic(), 0.0, 0)
        self._turn = 0
        self._left: list[tuple[int, ...]] = []
        self._region: Region | None = None
        self._job: Job | None = None
        self._now = self._fresh = self._seconds = 0.0

    def forget(self) -> None:
        """Nobody waits for what is under way any more; what is known is of a table that may be another."""
        if self._job is not None:
            self._job.abandon()
        self._anonymizer.pace.ends(self)
        self._left, self._region, self._job, self.drift = [], None, None, None

    def rebuilt(self) -> None:
        """The table is another one now; it is looked at again in its time."""
        self.forget()
        self._last = Looked(monotonic(), self._last.seconds, self._shard.meta.counts.messages)

    async def go_on(self) -> None:
        """Does what is next, if anything is."""
        if self._job is not None:
            self._compare(self._job)
        elif self._left:
            await self._sample()
        elif self._is_due():
            await self._begin()

    def _is_due(self) -> bool:
        messages, rows = self._shard.meta.counts.messages, self._shard.n_rows
        return look_is_due(self._table.rebuilding, monotonic(), self._last, messages, rows) and is_warm(self._table)

    async def _begin(self) -> None:
        self._turn += 1
        regions = await self._shard.regions(self._turn, SAMPLE_ROWS)
        self._left = drawn(regions, self._turn)
        self._now = self._fresh = self._seconds = 0.0
        if not self._left:
            self._end()

    async def _sample(self) -> None:
        if not self._anonymizer.is_ready() or not self._anonymizer.pace.begins(self):
            return
        self._region = await self._shard.region(self._left.pop())
        self._job = self._anonymizer.submit(self._region.rows, FRESH, self._turn)

    def _compare(self, job: Job) -> None:
        if not job.result.done() or self._region is None:
            return
        region, self._region, self._job = self._region, None, None
        self._anonymizer.pace.ends(self)
        try:
            regrouped = job.result.result()
        except NotAnonymized as error:
            log.warning("%s: drift could not be looked for: %s", self._shard.name, error)
            self._left = []
        else:
            self._now += region.ncp
            self._fresh += loss(self._table.space, region.rows.codes, regrouped.groups)
            self._seconds += regrouped.seconds
            if self._left:
                return
            self.drift = ratio(self._now, self._fresh)
            self._shard.drifted(self.drift)
            log.info("%s: loses %.2f times what a fresh table would, by a sample", self._shard.name, self.drift)
        self._end()

    def _end(self) -> None:
        self._last = Looked(monotonic(), self._seconds, self._shard.meta.counts.messages)
