"""One shard as this worker holds it: a Faust agent, whose channel is the shard's mailbox.

The rules of this file
----------------------
* Everything reaches the shard by its mailbox, one event after the other: that it was assigned, batches, time, requests,
  what a job came to. The agent hands each to the shard's machine (`streamer.incremental.shard`), in the shard's own
  thread: so batches stay in order, the worker's heartbeats go on, and several shards overlap.
* Whoever sends a batch waits until it is stored and published before the next one is read. An error leaves the machine
  idle, and an idle machine takes no batch: so none is applied across a gap.
* No exception leaves the agent: Faust would go on with the next event as if this one were done.
* A shard that was lost is dropped, and its table with it. It is never taken over again in place: Kafka has to assign it
  anew. Whether it is lost is asked once more just before another worker would be shut out.
* One region of a worker is anonymized at a time, and then all its shards have as long without one (`anonymizer.Pace`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, time

import faust
from faust.types import AgentT, ChannelT, StreamT

from agents.anonymizer import FIRST, Anonymizer, Job, NotAnonymized
from agents.log import tell_minute
from agents.shard_metrics import ShardMetrics
from agents.shard_thread import ComputeLock, ShardThread, unexpected
from streamer.compiling import is_warm
from streamer.errors import Fenced, StreamerError
from streamer.incremental.engine.tie_break import SECRET_BYTES, seed
from streamer.incremental.events.registered_schemas import NoSchemas, Schemas
from streamer.incremental.shard.activities import SAMPLE
from streamer.incremental.shard.bootstrap import RECORDS_MAX
from streamer.incremental.shard.driver import Servers, drive
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.machine import Machine
from streamer.incremental.shard.preflight import Consistency
from streamer.incremental.shard.ready import (
    Assigned,
    Event,
    Facts,
    Failed,
    Free,
    GroupSnapshot,
    JobDone,
    JobFailed,
    Messages,
    Ready,
    Request,
    Revoked,
    SnapshotGrouped,
    Tick,
)
from streamer.incremental.shard.states import Holding, Phase
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import Meta, Store
from streamer.incremental.topics import CHANGES, POSITIONS
from streamer.kafka.control import ControlNews, News
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput
from streamer.table.schema import Table

log = logging.getLogger(__name__)

STEP_SECONDS_MAX = 300.0
"""Limit of one batch: longer than the limits of the calls in it together, and than the largest statement. It counts the
shard's own work only."""

LOAD_SECONDS_MAX = 900.0
"""Limit of what may load the whole shard, or read its input again."""

INPUT_LOOK_SECONDS = 3.0
"""How long topics may change unnoticed while no messages come."""

HEAR_SECONDS = 2.0
"""How often the control topic is looked at."""


@dataclass(frozen=True, slots=True)
class Mail:
    """An event in the mailbox; done: what became of it, if anybody waits for that."""

    event: Event = field(repr=False)
    done: asyncio.Future[Ready] | None = field(default=None, repr=False)


class HeldShard:
    """One shard between its assignment and its loss; store, input and outlet are used in its thread only.

    turn: a lock that the shards of a worker share, held by the one that computes. schemas: of a registry. diary: what
    became of the shard in this process before.
    """

    def __init__(
        self,
        table: Table,
        number: int,
        store: Store,
        shard_input: KafkaInput,
        outlet: KafkaOutlet,
        turn: threading.Lock,
        anonymizer: Anonymizer,
        news: ControlNews,
        schemas: Schemas | None = None,
        diary: ShardMetrics | None = None,
    ) -> None:
        self.table, self.number = table, number
        self.name = f"shard {number} of {table.name}"
        self.lost = ""
        """Why the shard is not ours any more; empty while it is."""
        self.lost_at = 0.0
        self.told = False
        """Whether Redis was told that we hold the shard."""
        self.stalled = False
        """Whether Redis was told that we cannot go on with it for now."""
        self.task: asyncio.Future[None] | None = None
        """What serves the shard: takes it over, reads on, and begins anew after an error."""
        self.since = time()
        """When this worker, or one before it, took the shard over first."""
        self.failure: StreamerError | None = None
        """What an event of the mailbox ended with that nobody waited for; the shard has to be taken over again."""
        self.diary = diary or ShardMetrics()
        self.done = StepReport()
        """What was done since it was last told."""
        self._input = shard_input
        self._anonymizer, self._news = anonymizer, news
        own_turn, known = ComputeLock(turn), schemas or NoSchemas()
        secret = secrets.token_bytes(SECRET_BYTES)
        self._machine = Machine(table, number, secret, Holding.SNAPSHOT, known.known, own_turn)
        self._servers = Servers(store, outlet, shard_input, known)
        self._thread = ShardThread(number, self.name, own_turn)
        self._facts = Facts(Phase.IDLE.value, Meta())
        self._job: Job | None = None
        self._posting: asyncio.Future[None] | None = None
        self._asked: Future[News] | None = None
        self._asked_at = 0.0
        self._heard_to = 0
        self._mailbox: ChannelT[Mail] | None = None
        self._agent: AgentT[Mail] | None = None

    # -- its agent ------------------------------------------------------------------------------------------------

    async def start(self, app: faust.App) -> None:
        """Begins to take events out of the mailbox."""
        self._mailbox = app.channel()
        self._agent = app.agent(self._mailbox, name=f"{self.name} ({id(self):x})")(self._take)
        await self._agent.maybe_start()

    async def _take(self, letters: StreamT[Mail]) -> None:
        """Hands one event after the other to the machine."""
        async for letter in letters:
            if letter.done is None and self._machine.phase in (Phase.IDLE, Phase.REFUSED):
                continue  # what was under way is of a table that has been let go of
            try:
                ready = await self._handle(letter.event)
            except asyncio.CancelledError:
                if letter.done is not None:
                    letter.done.cancel()
                raise
            except Exception as error:
                failure = error if isinstance(error, StreamerError) else unexpected(self.name, error)
                if letter.done is None:
                    self.failure = self.failure or failure
                elif not letter.done.done():
                    letter.done.set_exception(failure)
            else:
                if letter.done is not None and not letter.done.done():
                    letter.done.set_result(ready)

    async def post(self, event: Event) -> None:
        """Puts an event into the mailbox."""
        if self._mailbox is not None:
            await self._mailbox.send(value=Mail(event))

    async def tell(self, event: Event) -> Ready:
        """The same, and what became of it. Raises StreamerError; Fenced if the shard is lost."""
        if self.lost or self._mailbox is None:
            raise Fenced(f"{self.name}: {self.lost or 'not started'}")
        self._raise_failure()
        done: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        await self._mailbox.send(value=Mail(event, done))
        try:
            return await done
        except StreamerError:
            self._raise_failure()  # what was not waited for came first, and left the machine idle
            raise
        finally:
            done.cancel()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    async def _handle(self, event: Event) -> Ready:
        """Has the machine handle an event in the shard's thread, and takes note of what came of it."""
        if self.lost:
            raise Fenced(f"{self.name}: {self.lost}")
        is_batch = isinstance(event, Messages) and not self._machine.truncation_due
        began, before = monotonic(), self._machine.meta
        try:
            work = partial(self._take_over if isinstance(event, Assigned) else self._work, event)
            ready = await self._thread.run(work, STEP_SECONDS_MAX if is_batch else LOAD_SECONDS_MAX)
        except BaseException:
            self._abandon()
            raise
        finally:
            self._log_said()
        if isinstance(event, JobDone | JobFailed):
            self._anonymizer.pace.ends(self)
        self._facts = ready.facts or self._facts._replace(state=self._machine.phase.value, meta=self._machine.meta)
        if ready.report is not None:
            self._note(ready.report, before, monotonic() - began)
        if ready.job is not None:
            self._submit(ready.job)
        elif self._job is not None and self._machine.activities.at is None and self._machine.phase is Phase.SERVING:
            self._abandon()
        return ready

    # -- in its thread --------------------------------------------------------------------------------------------

    def _take_over(self, event: Event) -> Ready:
        """Makes this worker the only writer."""
        began = monotonic()
        skips = self._input.skips(self._input.state().topic_ids.get(CHANGES, ""))
        ready = drive(self._machine, Assigned(skips, clock=monotonic()), self._servers)
        machine = self._machine
        offset, commit, holds = machine.meta.next, machine.meta.commit, "a release that is under way"
        if machine.phase is not Phase.RELEASING:
            holds = f"{machine.engine.n_rows} rows, {machine.engine.n_qi_groups} QI groups"
        seconds = monotonic() - began
        log.info("%s taken over: next %d, commit %d, %s, %.2f s", self.name, offset, commit, holds, seconds)
        if machine.standing is Consistency.EMPTIED:
            log.warning("%s: the output was made anew; the whole table was published into it as release 1", self.name)
        if machine.replays_to is not None:
            log.warning(
                "%s: the store has lost commits; the input is read again from %d to %d, publishing nothing",
                self.name,
                offset,
                machine.replays_to,
            )
        self._tell_skips(skips, offset)
        return ready

    def _tell_skips(self, skips: frozenset[int], offset: int) -> None:
        late = sorted(skip for skip in skips if skip < offset and skip not in self._machine.meta.skipped)
        if late:
            log.warning("%s: had been read when an operator wanted them passed over: %s", self.name, late)
        still_to_come = sorted(skip for skip in skips if skip >= offset)
        if still_to_come:
            log.warning("%s: an operator has these offsets passed over: %s", self.name, still_to_come)

    def _work(self, event: Event) -> Ready:
        """Handles an event, and whatever it asks of the servers."""
        if isinstance(event, Messages):
            self._input.ask()  # now that the messages are here; the answer comes while they are applied
        else:
            self._input.forget_answer()
        if isinstance(event, Tick) and event.idle and event.clock - self._input.looked_at > INPUT_LOOK_SECONDS:
            self._look_around()
        return drive(self._machine, event, self._servers)

    def _look_around(self) -> None:
        """Asks whether the topics are what they were. Raises Conflict."""
        try:
            self._input.ask()
            self._input.check(POSITIONS)
        except StreamerError:
            self._machine.handle(Failed())
            raise

    # -- what the machine asks for, and says ----------------------------------------------------------------------

    def _submit(self, job: object) -> None:
        """Has rows put into QI groups in the other process; the answer comes into the mailbox."""
        loop = asyncio.get_running_loop()
        if isinstance(job, GroupSnapshot):
            log.info("%s: %d rows are put into QI groups", self.name, len(job.rows.source_keys))
            self._job = self._anonymizer.submit(job.rows, FIRST, seed(job.secret))
        else:
            self._job = self._anonymizer.submit(job.rows, job.algorithm, job.seed, job.standing)  # type: ignore[attr-defined]
        answer = partial(self._answered, self._job, isinstance(job, GroupSnapshot))
        self._job.result.add_done_callback(lambda _: loop.call_soon_threadsafe(answer))

    def _answered(self, job: Job, of_snapshot: bool) -> None:
        """A job is done, in the event loop."""
        if job is not self._job or job.result.cancelled():
            return
        self._job, error = None, job.result.exception()
        event: Event
        if error is not None and (of_snapshot or not isinstance(error, NotAnonymized)):
            self.failure = self.failure or (error if isinstance(error, StreamerError) else unexpected(self.name, error))
            return
        if error is not None:
            event = JobFailed(str(error))
        elif of_snapshot:
            event = SnapshotGrouped(job.result.result().groups, RECORDS_MAX)
        else:
            event = JobDone(job.result.result().groups, job.result.result().seconds)
        self._posting = asyncio.ensure_future(self.post(event))

    def _abandon(self) -> None:
        """Nobody waits for the job any more."""
        if self._job is not None:
            self._job.abandon()
        self._job = None
        self._anonymizer.pace.ends(self)

    def _note(self, report: StepReport, before: Meta, seconds: float) -> None:
        """Counts what was done, and logs what somebody should know."""
        meta = self.meta
        for fault in report.faults:
            log.error("%s: %s", self.name, fault)
        late = len(meta.retried) > len(before.retried) and not report.counts.messages
        if (report.commits or report.faults) and not late:  # what was applied late was counted when it was refused
            self.done.add(report)
            self.diary.step(report)
        for ended in meta.rebuilds:
            if ended not in before.rebuilds:
                self.diary.rebuilt(ended, self.sizes.get("rows", 0) - self.sizes.get("pending", 0))
        if meta.truncations > before.truncations:
            log.warning(
                "%s: the source has truncated the table: what came before is removed; %d rows came later, %d records "
                "published, %.2f s",
                self.name,
                self.sizes.get("rows", 0),
                report.published,
                seconds,
            )
        if late:
            log.info("%s: %d messages were tried again and are applied", self.name, -report.counts.dead_letters)
        log.debug(
            "%s: release %d, next %d, %d events, %d records published",
            self.name,
            meta.release,
            meta.next,
            report.counts.messages,
            report.published,
        )

    def _log_said(self) -> None:
        said, self._machine.activities.said = self._machine.activities.said, []
        for level, words in said:
            log.log(logging.getLevelNamesMapping()[level.upper()], "%s: %s", self.name, words)

    # -- between two batches --------------------------------------------------------------------------------------

    async def take_over(self) -> int:
        """Makes this worker the only writer of the shard; returns the offset to read from."""
        self.failure = None
        await self.tell(Assigned())
        self._asked, self._asked_at, self._heard_to = None, 0.0, self.meta.control_next
        self.diary.took_over(first=not self.told)
        return self.next

    async def step(self, messages: Sequence[Message], through: int = 0) -> None:
        """Has a batch applied and published; through: the offset below which the input holds no other messages."""
        await self.tell(Messages(messages, through))

    async def between(self, idle: bool) -> None:
        """Does what is due between two batches. idle: the input had no message just now."""
        await self._hear()
        wake: float | None = 0.0
        while wake == 0.0:
            wake = (await self.tell(Tick(time(), monotonic(), idle, self.since, secrets.randbits(64)))).wake
        why = self._machine.wants_region if self._job is None else ""
        if not why or (why == SAMPLE and not is_warm(self.table)):
            return
        if self._anonymizer.is_ready() and self._anonymizer.pace.begins(self):
            await self.tell(Free())
            if self._job is None:
                self._anonymizer.pace.ends(self)

    async def _hear(self) -> None:
        """Posts what came to the control topic; if it cannot be read, that is tried again."""
        if not self.meta.commit or self._machine.phase not in (Phase.SERVING, Phase.BUFFERING):
            return
        if self._asked is None:
            if monotonic() - self._asked_at > HEAR_SECONDS:
                self._asked, self._asked_at = self._news.since(self.number, self._heard_to), monotonic()
            return
        if not self._asked.done():
            return
        asked, self._asked = self._asked, None
        try:
            news = asked.result()
        except StreamerError as error:
            log.warning("%s: %s; asked again", self.name, error)
            return
        self._heard_to = news.next
        for one in news.asked:
            await self.post(Request(one.offset, one.at, one.value))

    @property
    def awaits_groups(self) -> bool:
        """Whether a first snapshot is being put into QI groups, before which no batch is read."""
        return self._machine.phase is Phase.RELEASING

    @property
    def is_due(self) -> bool:
        """Whether a truncation comes before the next message."""
        return self._machine.truncation_due

    # -- how it stands --------------------------------------------------------------------------------------------

    @property
    def meta(self) -> Meta:
        """Where the shard stands after its last commit."""
        return self._machine.meta

    @property
    def next(self) -> int:
        """The first source offset not applied, as of the last commit."""
        return self._machine.meta.next

    @property
    def sizes(self) -> dict[str, int]:
        """Rows, pending rows and QI groups after the last step; none before the shard is taken over."""
        return dict(self._facts.sizes)

    @property
    def ncp(self) -> float | None:
        """The mean NCP of the published rows, some seconds old at most; None if there are none."""
        return self._facts.ncp

    @property
    def ncp_fresh(self) -> float | None:
        """The mean NCP of a fresh table, as of the last look for drift; None before the first."""
        return self._facts.ncp_fresh

    @property
    def busy(self) -> bool:
        """Whether the shard's thread is at work, even if nobody waits for it any more."""
        return self._thread.busy

    @property
    def busy_seconds(self) -> float:
        """How long its thread has been in the call that it is in; waiting for its turn does not count."""
        return self._thread.busy_seconds

    @property
    def computing_seconds(self) -> float:
        """How long, in that call, it has computed or waited for its turn to."""
        return self._thread.computing_seconds

    def knows_others(self, others: Sequence[Store]) -> None:
        """The stores of the table's other shards, which know whether a snapshot is over."""
        self._servers = self._servers._replace(others=others)

    def tell_minute(self, end: int) -> None:
        """Logs what was done since it was last told; end: of the input, as far as it is known."""
        if self.sizes:
            tell_minute(self.name, self.done, {**self.sizes, "lag": max(0, end - self.next)})
            self.done = StepReport()

    # -- the end --------------------------------------------------------------------------------------------------

    def lose(self, why: str) -> None:
        """Marks the shard as lost; nothing new is begun on it."""
        if not self.lost:
            self.lost, self.lost_at, self._input.lost = why, monotonic(), why

    def close(self) -> None:
        """Takes no more events; a call that its thread is in is let end, then the table is dropped."""
        if self.task is not None and not self.busy:
            self.task.cancel()
        self._abandon()
        self._thread.close(partial(self._machine.handle, Revoked()))

    async def stop(self, app: faust.App) -> None:
        """Ends the agent."""
        if self._agent is not None:
            app.agents.pop(self._agent.name, None)
            await self._agent.stop()
