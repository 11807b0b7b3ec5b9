"""One shard that this worker holds: a Faust agent, whose channel is the shard's mailbox.

The rules of this file
----------------------
* All events reach the shard by its mailbox, one after the other: the assignment, batches, ticks, requests, finished
  jobs. The agent hands each to the shard's machine (`streamer.incremental.shard`) in the shard's own thread. So batches
  stay in order, the worker's heartbeats go on, and several shards overlap.
* The sender of a batch waits until it is stored and published before it reads the next one. An error leaves the machine
  idle, and an idle machine takes no batch: so none is applied across a gap.
* No exception leaves the agent: Faust would go on with the next event as if this one were done.
* A lost shard is dropped with its table, and not taken over until Kafka assigns it again. Just before it would fence
  another worker, it looks once more whether it is lost, or rests.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, time
from typing import NamedTuple

import faust
from faust.types import AgentT, ChannelT, StreamT

from agents.anonymizer import FIRST, Anonymizer, Job, NotAnonymized
from agents.log import log_minute
from agents.shard_metrics import ShardMetrics
from agents.shard_thread import ComputeLock, ShardThread, unexpected
from streamer.errors import Conflict, Fenced, ServerUnreachable, StreamerError
from streamer.grouping import cohort_formation
from streamer.incremental.engine.tie_break import SECRET_BYTES, seed
from streamer.incremental.events.registered_schemas import NoSchemas, Schemas
from streamer.incremental.shard import ready as events
from streamer.incremental.shard.bootstrap import RECORDS_MAX
from streamer.incremental.shard.driver import Servers, drive
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.machine import Machine
from streamer.incremental.shard.preflight import Consistency
from streamer.incremental.shard.states import Holding, Phase
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import Meta, Store
from streamer.incremental.topics import CHANGES
from streamer.kafka.control import ControlReader, News
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput
from streamer.kafka.topics import of_shard
from streamer.table.schema import Table
from streamer.worker.tenure import Event as TenureEvent
from streamer.worker.tenure import Tenure, TenureState, after

log = logging.getLogger(__name__)

STEP_SECONDS_MAX = 300.0
"""Limit of one batch: more than the limits of its calls together, and than the largest statement takes."""

LOAD_SECONDS_MAX = 900.0
"""Limit of a step that may load the whole shard, or read its input again."""

INPUT_LOOK_SECONDS = 3.0
"""How often topics and the fence are compared while no messages come."""

TICK_SECONDS = 0.2
"""How often the machine is told the time while batch follows batch, and nothing hurries."""

HEAR_SECONDS = 2.0
"""How often the control topic is read."""


@dataclass(frozen=True, slots=True)
class Mail:
    """An event in the mailbox; result: what came of it, if the sender waits for that."""

    event: events.Event = field(repr=False)
    result: asyncio.Future[events.Ready] | None = field(default=None, repr=False)


class WorkerParts(NamedTuple):
    """What the shards of a worker share."""

    compute_lock: threading.Lock  # held by the shard that computes
    anonymizer: Anonymizer
    news: ControlReader
    schemas: Schemas = NoSchemas()  # of a registry
    other_stores: Callable[[int, int], Sequence[Store]] = lambda _shard, _shards: ()  # than one shard's, of so many
    clock: Callable[[], float] = time  # Redis' time, in seconds since 1970


class _AtWork(NamedTuple):
    """A job in the other process, and the task that posts its result."""

    job: Job
    posts: asyncio.Task[None]


class _Listening(NamedTuple):
    """The control topic: where to read on, when it was last read, and a read that is running."""

    offset: int = 0
    at: float = 0.0
    answer: Future[News] | None = None


class HeldShard:
    """One shard from its assignment to its loss. store, shard_input and outlet are used in its thread only.

    metrics: of the shard in this process, from earlier assignments on.
    """

    def __init__(
        self,
        table: Table,
        number: int,
        store: Store,
        shard_input: KafkaInput,
        outlet: KafkaOutlet,
        shared: WorkerParts,
        metrics: ShardMetrics | None = None,
    ) -> None:
        self.table, self.number = table, number
        self.name = f"shard {number} of {table.name}"
        self.tenure = Tenure()
        """Its state at this worker; `tell` changes it."""
        self._changed = asyncio.Event()  # set by every new state
        self.rests = asyncio.Event()  # set while nothing is done with it until the next assignment
        self.metrics = metrics or ShardMetrics()
        self._input = shard_input
        self._shared = shared
        compute_lock = ComputeLock(shared.compute_lock)
        secret = secrets.token_bytes(SECRET_BYTES)
        form = cohort_formation(table) if table.sealed is not None else None
        self._machine = Machine(table, number, secret, Holding.SNAPSHOT, shared.schemas.known, compute_lock, form)
        others = partial(shared.other_stores, number)
        self._servers, self._outlet = Servers(store, outlet, shard_input, shared.schemas, others), outlet
        self.thread = ShardThread(number, self.name, compute_lock)
        self.facts = events.Facts(Phase.IDLE.value, Meta())  # after its last step
        self._failure: StreamerError | None = None  # of an event whose sender did not wait: take the shard over again
        self._job: _AtWork | None = None
        self._listening = _Listening()
        self._ticked_at = 0.0  # when the machine got its last tick, by the monotonic clock
        self._mailbox: tuple[ChannelT[Mail], AgentT[Mail]] | None = None

    # -- its tenure -----------------------------------------------------------------------------------------------

    def tell(self, event: TenureEvent) -> Tenure:
        """Says what has happened to the shard; returns its tenure after that."""
        before, self.tenure = self.tenure, after(self.tenure, event)
        if self.tenure.state is not before.state:
            self._changed.set()
        if self.tenure.state is TenureState.LOST:
            self._input.bar(Fenced(f"{self.name}: {self.tenure.lost}"))
            self.rests.set()
        elif self.tenure.state is TenureState.RESTING:
            self._input.bar(Conflict(f"{self.name}: a rebalance began before it was taken over"))
        else:
            self._input.bar(None)
        return self.tenure

    def is_in(self, *states: TenureState) -> bool:
        return self.tenure.state in states

    async def until_changed(self, seconds_max: float | None = None) -> None:
        """Waits until the tenure is in another state, for `seconds_max` at most."""
        self._changed.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds_max)

    async def rest(self) -> None:
        """Waits for the next assignment."""
        self.rests.set()
        await self.until_changed()
        self.rests.clear()

    # -- its agent ------------------------------------------------------------------------------------------------

    async def start(self, app: faust.App) -> None:
        """Starts the agent that takes events out of the mailbox."""
        channel: ChannelT[Mail] = app.channel()
        agent = app.agent(channel, name=f"{self.name} ({id(self):x})")(self._take_mail)
        self._mailbox = channel, agent
        await agent.maybe_start()

    async def _take_mail(self, mailbox: StreamT[Mail]) -> None:
        async for mail in mailbox:
            if mail.result is None and self._machine.phase in (Phase.IDLE, Phase.REFUSED):
                continue  # it belongs to a table that was dropped
            try:
                ready = await self._handled(mail.event)
            except asyncio.CancelledError:
                if mail.result is not None:
                    mail.result.cancel()
                raise
            except Exception as error:
                failure = error if isinstance(error, StreamerError) else unexpected(self.name, error)
                if mail.result is None:
                    self._failure = self._failure or failure
                elif not mail.result.done():
                    mail.result.set_exception(failure)
            else:
                if mail.result is not None and not mail.result.done():
                    mail.result.set_result(ready)

    async def post(self, event: events.Event) -> None:
        """Puts an event into the mailbox."""
        if self._mailbox is not None:
            await self._mailbox[0].send(value=Mail(event))

    async def handle(self, event: events.Event) -> events.Ready:
        """Posts an event and waits until it is handled. Raises StreamerError; Fenced if the shard is lost."""
        if self.tenure.lost or self._mailbox is None:
            raise Fenced(f"{self.name}: {self.tenure.lost or 'not started'}")
        self._raise_failure()
        result: asyncio.Future[events.Ready] = asyncio.get_running_loop().create_future()
        await self._mailbox[0].send(value=Mail(event, result))
        try:
            return await result
        except StreamerError:
            self._raise_failure()  # an earlier event's, which left the machine idle
            raise
        finally:
            result.cancel()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    async def _handled(self, event: events.Event) -> events.Ready:
        """Has the machine handle an event in the shard's thread, and notes the outcome."""
        if self.tenure.lost:
            raise Fenced(f"{self.name}: {self.tenure.lost}")
        is_batch = isinstance(event, events.Messages)
        before = self._machine.meta
        try:
            work = partial(self._take_over if isinstance(event, events.Assigned) else self._work, event)
            ready = await self.thread.run(work, STEP_SECONDS_MAX if is_batch else LOAD_SECONDS_MAX)
        except BaseException:
            self._abandon_job()
            raise
        finally:
            self._log_machine()
        if isinstance(event, events.JobDone | events.JobFailed):
            self._shared.anonymizer.throttle.ends(self)
        self.facts = self._machine.facts
        if ready.report is not None:
            self._count(ready.report, before)
        if ready.job is not None:
            self._submit(ready.job)
        elif self._job is not None and self._machine.activities.at is None and self._machine.phase is Phase.SERVING:
            self._abandon_job()
        return ready

    # -- in its thread --------------------------------------------------------------------------------------------

    def _take_over(self, event: events.Event) -> events.Ready:
        began = monotonic()
        skips = self._input.skips(self._input.state().topic_ids.get(CHANGES, ""))
        ready = drive(self._machine, events.Assigned(skips, clock=monotonic()), self._servers)
        machine = self._machine
        offset, commit, holds = machine.meta.next, machine.meta.commit, "a release that is under way"
        if machine.phase is not Phase.RELEASING:
            holds = f"{machine.engine.n_rows} rows, {machine.engine.n_qi_groups} QI groups"
        seconds = monotonic() - began
        log.info("%s taken over: next offset %d, commit %d, %s, %.2f s", self.name, offset, commit, holds, seconds)
        if machine.standing is Consistency.INCOMPLETE:
            said = (
                "%s: the output was recreated or had lost records; the whole table was published into it as release %d"
            )
            log.warning(said, self.name, machine.meta.release)
        if machine.replays_to is not None:
            said = "%s: the store has lost commits; the input is read again from %d to %d, and nothing is published"
            log.warning(said, self.name, offset, machine.replays_to)
        if late := sorted(skip for skip in skips if skip < offset and skip not in machine.meta.skipped):
            log.warning("%s: an operator skips offsets that had been read: %s", self.name, late)
        if still_to_come := sorted(skip for skip in skips if skip >= offset):
            log.warning("%s: an operator skips these offsets: %s", self.name, still_to_come)
        return ready

    def _work(self, event: events.Event) -> events.Ready:
        if isinstance(event, events.Messages):
            self._input.ask()  # after the messages were read; the answer comes while they are applied
        else:
            self._input.forget_answer()
        if isinstance(event, events.Tick) and event.idle and event.clock - self._input.looked_at > INPUT_LOOK_SECONDS:
            self._look_around()
        return drive(self._machine, event, self._servers)

    def _look_around(self, certain: bool = False) -> None:
        """Finds without a commit what a commit would find.

        Raises Conflict if a topic was recreated, or has lost its end; Fenced if Redis has lost the shard, or somebody
        else has it. certain: also raises ServerUnreachable if Redis does not answer; a commit would find that later.
        """
        try:
            self._input.look(self._machine.meta, self._outlet.ends)
            with nullcontext() if certain else suppress(ServerUnreachable):
                self._servers.store.check_fence(self._machine.fence)
        except StreamerError:
            self._machine.handle(events.Failed())
            raise

    # -- jobs, metrics and the log --------------------------------------------------------------------------------

    def _submit(self, job: events.GroupSnapshot | events.GroupRegion) -> None:
        """Has the other process put rows into QI groups; the result comes into the mailbox."""
        anonymizer = self._shared.anonymizer
        if isinstance(job, events.GroupSnapshot):
            log.info("%s: %d rows are put into QI groups", self.name, len(job.rows.source_keys))
            submitted = anonymizer.submit(job.rows, FIRST, seed(job.secret))
        else:
            submitted = anonymizer.submit(job.rows, job.algorithm, job.seed, job.standing)
        posts = self._post_result(submitted, of_snapshot=isinstance(job, events.GroupSnapshot))
        self._job = _AtWork(submitted, asyncio.ensure_future(posts))

    async def _post_result(self, job: Job, of_snapshot: bool) -> None:
        event: events.Event
        try:
            done = await asyncio.wrap_future(job.result)
        except Exception as error:
            if of_snapshot or not isinstance(error, NotAnonymized):
                failure = error if isinstance(error, StreamerError) else unexpected(self.name, error)
                self._failure = self._failure or failure
                return
            event = events.JobFailed(str(error))
        else:
            event = events.SnapshotGrouped(done.groups, RECORDS_MAX) if of_snapshot else done
        await self.post(event)

    @property
    def _has_job(self) -> bool:
        """True until the result of its job is posted."""
        return self._job is not None and not self._job.posts.done()

    def _abandon_job(self) -> None:
        if self._job is not None:
            self._job.posts.cancel()
            self._shared.anonymizer.abandon(self._job.job)
        self._job = None
        self._shared.anonymizer.throttle.ends(self)

    def _count(self, report: StepReport, before: Meta) -> None:
        """Counts what a step did, and logs its faults and rare events."""
        meta = self.meta
        for fault in report.faults:
            log.error("%s: %s", self.name, fault)
        late = len(meta.retried) > len(before.retried) and not report.counts.messages
        if (report.commits or report.faults) and not late:  # late messages were counted when they were refused
            self.metrics.step(report)
        for ended in meta.rebuilds:
            if ended not in before.rebuilds:
                self.metrics.rebuilt(ended)
        if late:
            log.info("%s: %d messages were tried again and are applied", self.name, -report.counts.dead_letters)
        done = meta.release, meta.next, report.counts.messages, report.published
        log.debug("%s: release %d, next %d, %d events, %d records published", self.name, *done)

    def _log_machine(self) -> None:
        lines, self._machine.activities.said = self._machine.activities.said, []
        for level, words in lines:
            log.log(logging.getLevelNamesMapping()[level.upper()], "%s: %s", self.name, words)

    # -- between two batches --------------------------------------------------------------------------------------

    async def take_over(self) -> None:
        """Makes this worker the only writer of the shard."""
        self._failure = None
        await self.handle(events.Assigned())
        self._listening = _Listening(self.meta.control_next)
        self.metrics.took_over(first=not self.tenure.is_owner)

    async def go_on_after_rest(self) -> None:
        """Goes on with the table as it is, if nobody else has had the shard. Raises StreamerError; Fenced if so."""
        self._raise_failure()
        if self._machine.phase in (Phase.IDLE, Phase.REFUSED):
            raise Conflict(f"{self.name}: its table was dropped while it rested")
        self._input.forget_answer()
        await self.thread.run(partial(self._look_around, certain=True), STEP_SECONDS_MAX)
        where = (self.name, self.meta.next, self.meta.commit)
        log.info("%s is assigned here again: next offset %d, commit %d, nothing loaded", *where)

    async def step(self, messages: Sequence[Message], through: int = 0) -> None:
        """Applies and publishes a batch. through: the offset below which the input holds no other messages."""
        await self.handle(events.Messages(messages, through))

    async def between(self, idle: bool) -> None:
        """Does what is due between two batches. idle: the input had no message just now."""
        await self._read_requests()
        due = idle or monotonic() - self._ticked_at > TICK_SECONDS
        while due or self._machine.hurries:
            due, self._ticked_at = False, monotonic()
            await self.handle(
                events.Tick(self._shared.clock(), self._ticked_at, idle, self.tenure.since, secrets.randbits(64))
            )
        if self._has_job or not self._machine.wants_region:
            return
        anonymizer = self._shared.anonymizer
        if anonymizer.is_ready() and anonymizer.throttle.begins(self):
            await self.handle(events.Free())
            if not self._has_job:
                anonymizer.throttle.ends(self)

    async def _read_requests(self) -> None:
        """Posts new records of the control topic; if it cannot be read, it is read again later."""
        if not self.meta.commit or self._machine.phase not in (Phase.SERVING, Phase.BUFFERING):
            return
        offset, at, answer = self._listening
        if answer is None:
            if monotonic() - at > HEAR_SECONDS:
                self._listening = _Listening(offset, monotonic(), self._shared.news.since(self.number, offset))
            return
        if not answer.done():
            return
        self._listening = _Listening(offset, at)
        try:
            news = answer.result()
        except StreamerError as error:
            log.warning("%s: %s; asked again", self.name, error)
            return
        self._listening = _Listening(news.next, at)
        for one in news.asked:
            await self.post(one)

    @property
    def reads_nothing(self) -> bool:
        """True if no batch may be read now: a first snapshot is put into QI groups."""
        return self._machine.phase is Phase.RELEASING

    @property
    def meta(self) -> Meta:
        """The shard after its last commit."""
        return self._machine.meta

    def log_minute(self, end: int) -> None:
        """Logs what was done since the last call. end: of the input, as far as it is known."""
        if sizes := self.facts.sizes:
            log_minute(self.name, self.metrics.done_unlogged(), {**sizes, "lag": max(0, end - self.meta.next)})

    # -- a refused shard ------------------------------------------------------------------------------------------

    async def refuse(self) -> None:
        """Drops the table: the shard cannot be served until it is taken over again."""
        self._abandon_job()
        if self._machine.phase not in (Phase.IDLE, Phase.REFUSED):
            await self.thread.run(partial(self._machine.handle, events.Failed()), STEP_SECONDS_MAX)
        self.facts = events.Facts(Phase.REFUSED.value, self.meta)

    async def surroundings(self, stored: Callable[[], object]) -> object:
        """Reads what a refusal may depend on: the topics, the requests, and what `stored` returns; to be compared."""

        def look() -> object:
            news = self._shared.news.since(self.number, self._listening.offset).result()
            self._listening = _Listening(news.next)
            return of_shard(self._input.topics(), self.number), news.next, stored()

        try:
            return await self.thread.run(look, STEP_SECONDS_MAX)
        except StreamerError as error:
            return str(error)

    # -- the end --------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Takes no more events. After the call that is running, the table is dropped."""
        self._abandon_job()
        self.thread.close(partial(self._machine.handle, events.Revoked()))

    async def stop(self, app: faust.App) -> None:
        """Ends the agent. Faust keeps it in three trees, and with it the shard, its clients and their threads."""
        if self._mailbox is not None:
            _, agent = self._mailbox
            app.agents.pop(agent.name, None)
            await agent.stop()
            app.topics.beacon.discard(agent)
            for tree in (app.beacon, app.agents.beacon):
                tree.discard(agent.beacon)
