"""The rebuilds of one shard, as its worker does them between batches: who asks for one, and region after region.

The rules of this file
----------------------
* Whoever serves the shard calls `go_on` between two batches; it does one small thing at most, and never waits for Kafka
  or for an algorithm, but for one case: see below. So there is no second writer of the shard, an error of a rebuild is
  one of the shard, and with the shard all of it is lost at once.
* One region of a worker is in work at a time, and then all its shards have as long without one (`agents.pace`). It is
  read when the process that anonymizes has started and has nothing else to do.
* A region is looked at in the shard's thread, anonymized anew in another process, and replaced in the shard's thread
  by a commit of its own. What changed meanwhile is fitted in (`streamer.incremental.shard.adapting`); only where too
  much has changed for that, the region is done again. A change waits for one region to be replaced, and not for an
  algorithm.
* A region that would lose more than it does is left as it is, unless the algorithm recodes the whole shard alike.
* A rebuild that fails never takes the shard with it: the table is loaded again, as after any error, and the rebuild is
  remembered as failed, with the reason.
* Whoever takes over a shard in the middle of a rebuild closes it as stopped, and begins it anew where an operator had
  asked for it, RESTARTS_MAX times.
"""

from __future__ import annotations

import logging
import secrets
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from time import monotonic, time

from msgspec.structs import replace

from agents.anonymizer import Anonymizer, Job, NotAnonymized
from agents.control import Asked, ControlNews, News
from agents.drift_look import DriftLook
from agents.retries import ShardRetries
from agents.shard import HeldShard
from agents.shard_thread import Unexpected
from streamer.errors import Conflict, LawViolated, StreamerError, UsageError
from streamer.incremental.groups.replacing import Region
from streamer.incremental.shard.answers import Refused, answer
from streamer.incremental.shard.holding_back import holds_back
from streamer.incremental.shard.rebuild_regions import region_rows
from streamer.incremental.shard.rebuild_reports import RESTARTS_MAX, attempts, last_rebuild, reached, told
from streamer.incremental.shard.rebuilding import Rebuilding, Task, next_rebuild, stopped
from streamer.incremental.shard.requests import CancelRebuild, EndSnapshot, Rebuild, Retry, Truncation
from streamer.incremental.shard.schedule import OPERATOR, Known, due
from streamer.incremental.store.rebuild import (
    ANSWERED,
    FAILED,
    REFUSED,
    STOPPED,
    Progress,
)
from streamer.table.arrays import Ints
from streamer.table.schema import Table

log = logging.getLogger(__name__)

HEAR_SECONDS = 2.0
"""How often the control topic is looked at."""

TELL_SECONDS = 60
"""How often at least it is committed how far a rebuild is, that leaves region after region as it was."""

CHECK_SECONDS = 5.0
"""How often the clock and the drift are compared with what table.yaml says."""


class ShardRebuilds:
    """The rebuilds of one held shard, from its assignment to its loss; begun_at: when it was first taken over."""

    def __init__(self, table: Table, shard: HeldShard, news: ControlNews, anonymizer: Anonymizer) -> None:
        self.begun_at = time()
        self.snapshot_to_end: int | None = None
        """The snapshot whose end an operator wants, by the offset of its first row."""
        self._table = table
        self._shard = shard
        self._news = news
        self._anonymizer = anonymizer
        self._asked: Future[News] | None = None
        self._asked_at = 0.0
        self._next = self._answered = 0
        self._waiting: deque[Asked] = deque()
        self._retries = ShardRetries(table, shard)
        self._checked_at = 0.0
        self._look = DriftLook(table, shard, anonymizer)
        self._running: Rebuilding | None = None
        self._region: Region | None = None
        self._job: Job | None = None
        self._failed = ""

    def close(self) -> None:
        """Nobody waits for what is under way any more."""
        self._forget()
        self._look.forget()
        self._retries.close()
        self._waiting.clear()

    def _forget(self) -> None:
        if self._job is not None:
            self._job.abandon()
        self._anonymizer.pace.ends(self)
        self._running = self._region = self._job = None

    # -- between two batches ------------------------------------------------------------------------------------------

    def taken_over(self) -> None:
        """Begins anew after a take-over: the control topic is read from where the answers end."""
        self.close()
        self._asked, self._asked_at, self._checked_at = None, 0.0, monotonic()
        self._next = self._answered = self._shard.meta.control_next

    async def go_on(self) -> None:
        """Does what is next, if anything is. Raises what a step raises."""
        if not self._shard.meta.commit or self._shard.catches_up:
            return
        if self._running is None and self._shard.meta.rebuild is not None:
            await self._close_interrupted(self._shard.meta.rebuild)
        await self._hear()
        await self._go_on_retrying()
        if holds_back(self._shard.meta):
            return  # nothing is published that could be rebuilt
        if self._running is not None:
            await self._advance(self._running)
        else:
            await self._look.go_on()
            await self._check()

    # -- who asks -----------------------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        """Answers what came to the control topic; where it cannot be read, that is tried again."""
        if self._asked is None:
            if monotonic() - self._asked_at > HEAR_SECONDS:
                self._asked, self._asked_at = self._news.since(self._shard.number, self._next), monotonic()
            return
        if not self._asked.done():
            return
        asked, self._asked = self._asked, None
        try:
            news = asked.result()
        except StreamerError as error:
            log.warning("%s: %s; asked again", self._shard.name, error)
            return
        self._waiting += news.asked
        self._next = news.next
        await self._answer_all()

    async def _answer_all(self) -> None:
        """Answers what waits, up to what takes its time: nothing behind that may count as answered before it is."""
        while self._waiting and self._retries.idle:
            await self._answer(self._waiting.popleft())

    async def _go_on_retrying(self) -> None:
        if await self._retries.go_on():
            self._answered += 1
            await self._answer_all()

    async def _answer(self, asked: Asked) -> None:
        meta, self._answered = self._shard.meta, asked.offset + 1
        match answer(asked.value, asked.offset, asked.at, self._shard.number, meta, time()):
            case Rebuild() as request:
                algorithm = request.algorithm or self._table.rebuilding.algorithm
                await self._begin(request.id, algorithm, OPERATOR)
            case CancelRebuild() as request:
                await self._cancel(request)
            case Retry() as request:
                self._answered = asked.offset  # its answer is a commit that is still to come
                self._retries.begin(request, asked.offset + 1)
            case EndSnapshot() as request:
                self.snapshot_to_end = request.since
            case Truncation() as request:
                await self._shard.place_truncation(asked.offset, request.source)
            case Refused() as refused:
                log.warning("%s: request %s is refused: %s", self._shard.name, refused.id, refused.why)
                await self._remember(meta.rebuild, [self._word(refused.id, REFUSED, refused.why)])

    async def _check(self) -> None:
        """Begins a rebuild by itself where one is due."""
        if monotonic() - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = monotonic()
        last = last_rebuild(self._shard.meta.rebuilds)
        since, best = (last.at, reached(last)) if last else (self.begun_at, 1.0)
        why = due(self._table.rebuilding, self._shard.number, Known(time(), since, self._look.drift, best))
        if why is not None:
            await self._begin(secrets.token_hex(4), self._table.rebuilding.algorithm, why)

    # -- begin and end --------------------------------------------------------------------------------------------

    async def _begin(self, id_: str, algorithm: str, why: str) -> None:
        try:
            rows_max = region_rows(self._table, algorithm, self._shard.n_rows)
        except UsageError as error:
            await self._refuse(id_, algorithm, why, str(error))
            return
        rebuild = next_rebuild(self._shard.meta, id_, algorithm, secrets.randbits(32))
        regions = await self._shard.regions(rebuild.turn, rows_max)
        running = Rebuilding(rebuild, regions, self._shard.meta.secret)
        now = int(time())
        running.progress = replace(running.progress, why=why, began=now, at=now, drift=self._look.drift or 0.0)
        await self._remember(running.progress)
        self._forget()
        self._running = running
        log.info("%s: a rebuild by %s begins (%s): %d regions", self._shard.name, algorithm, why, len(regions))

    async def _refuse(self, id_: str, algorithm: str, why: str, said: str) -> None:
        """Of a rebuild that cannot begin; the clock and the drift ask again, and are not answered again and again."""
        log.warning("%s: the rebuild by %s cannot be done: %s", self._shard.name, algorithm, said)
        word = self._word(id_, FAILED, said, algorithm)
        await self._remember(None, [replace(word, why=why, began=word.at, drift=self._look.drift or 0.0)])

    async def _cancel(self, request: CancelRebuild) -> None:
        if self._running is None:
            return
        self._running.cancel()
        far = self._running.progress
        said = f"the rebuild was stopped with {far.done} of {far.total} regions done"
        await self._end(self._running, f"cancelled by request {request.id}", [self._word(request.id, ANSWERED, said)])

    async def _end(self, running: Rebuilding, said: str = "", more: Sequence[Progress] = ()) -> None:
        ended = replace(running.closed(), at=int(time()), said=said)
        await self._remember(None, [ended, *more])
        self._forget()
        self._look.rebuilt()
        log.info("%s: the rebuild is over: %s", self._shard.name, told(ended))

    async def _close_interrupted(self, left: Progress) -> None:
        """Closes a rebuild whose worker went, or that an error ended; goes on with an operator's."""
        state = FAILED if self._failed else STOPPED
        said = self._failed or "its worker ended, or the shard was taken over by another one"
        await self._remember(None, [replace(stopped(left), state=state, at=int(time()), said=said)])
        self._failed = ""
        log.warning("%s: a rebuild is %s: %s", self._shard.name, state, said)
        if state == STOPPED and left.why == OPERATOR and attempts(self._shard.meta, left.rebuild.id) <= RESTARTS_MAX:
            await self._begin(left.rebuild.id, left.rebuild.algorithm, OPERATOR)

    def _word(self, id_: str, state: str, said: str, algorithm: str = "") -> Progress:
        """An answer that is remembered among the rebuilds."""
        rebuild = next_rebuild(self._shard.meta, id_, algorithm, 0)
        return Progress(rebuild, 0, state=state, at=int(time()), said=said)

    async def _remember(self, running: Progress | None, ended: Iterable[Progress] = ()) -> None:
        await self._shard.remember(running, ended, self._answered)

    # -- region after region --------------------------------------------------------------------------------------

    async def _advance(self, running: Rebuilding) -> None:
        """The next step of a rebuild that is running."""
        task = running.task
        if task is None:
            await self._end(running)
            return
        if self._job is None:
            await self._begin_region(running, task)
        elif self._job.result.done() and self._region is not None:
            job, region, self._job = self._job, self._region, None
            try:
                await self._replace(running, region, job.result.result().groups)
            except NotAnonymized as error:
                running.fail()
                await self._end(running, str(error))
            except (LawViolated, Unexpected) as error:
                self._failed = str(error)
                raise Conflict(f"{self._shard.name}: a rebuild has failed: {error}") from None
            finally:
                self._anonymizer.pace.ends(self)

    async def _begin_region(self, running: Rebuilding, task: Task) -> None:
        """Reads a region and has it anonymized, unless another one of this worker is in work."""
        if not self._anonymizer.is_ready() or not self._anonymizer.pace.begins(self):
            return
        self._region = await self._shard.region(task.numbers)
        algorithm = running.progress.rebuild.algorithm
        self._job = self._anonymizer.submit(self._region.rows, algorithm, task.seed, self._region.standing)

    async def _replace(self, running: Rebuilding, region: Region, groups: Sequence[Ints]) -> None:
        progress = await self._shard.rebuild_region(region, groups, replace(running.progress, at=int(time())))
        if progress is None:
            running.changed()
        else:
            running.replaced(progress)
            log.debug("%s: %s", self._shard.name, told(progress))
            committed = self._shard.meta.rebuild
            if committed is not None and progress.at - committed.at >= TELL_SECONDS:
                await self._remember(progress)
