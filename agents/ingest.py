"""Reads the input topic, and serves the shards that Kafka assigns to this worker.

The rules of this file
----------------------
* The offset in the store is the only truth. The consumer group's offsets are written for tools that show the lag, and
  never read. If the store's offset does not exist in the input (`auto_offset_reset="none"`), the shard is taken over
  again, which finds whether the input expired or was recreated: nothing is skipped silently.
* The callbacks of an assignment return at once, as heartbeats wait for them. Take-overs run in the shards' threads.
* In every rebalance Kafka takes all partitions from all workers, and gives most of them back. So a shard rests, with
  its table, until the new assignment says whose it is; a take-over that has shut the others out goes on meanwhile. If
  it is ours again, and nobody has taken it over meanwhile, it goes on and loads nothing again.
* A shard that another worker has taken (`Fenced`) is dropped. If Kafka still assigns it to us after a while, the
  process ends: only after a new start does Kafka assign it again.
* A worker that is short of memory or threads ends: what it drops would not come back to it, and it would fail again.
* A shard with an error that no retry repairs (table, topics and state do not fit together, a law is violated) is taken
  over once more, as the reason may be past. If that fails, too, it is refused: its table is dropped, its partition is
  paused, and the other shards are served on. It is tried again when its topics, its state in Redis or its requests
  have changed, and now and then. If all shards of the worker are refused, the process ends.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic, time
from typing import NamedTuple

import faust
from aiokafka import TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from mode import Service

from agents.anonymizer import Anonymizer
from agents.input_reader import InputReader
from agents.log import log_start
from agents.servers import WorkerServers
from agents.shard_agent import HeldShard, WorkerParts
from agents.shard_metrics import ShardMetrics
from agents.shard_thread import EXIT_LOST, end_process, unexpected
from streamer.errors import ConfigError, OutOfMemory, RegistryUnreachable, ServerUnreachable, StreamerError
from streamer.incremental.shard.input import InputState
from streamer.incremental.store.redis_lookups import Measured
from streamer.kafka.background import Background
from streamer.worker.settings import WorkerSettings
from streamer.worker.tenure import (
    WAITING,
    Due,
    Failure,
    GivenAway,
    Served,
    ShardAssigned,
    ShardFailed,
    TakenOver,
    TenureState,
    Withdrawn,
    meaning_of,
)

log = logging.getLogger(__name__)


class Patience(NamedTuple):
    """Seconds that a worker waits."""

    end_of_step: float = 2.0  # for a revoked shard to end its step; the next owner publishes the rest
    look: float = 3.0  # between two looks whether a refused shard has changed


PAUSE_SECONDS = 0.05
"""Between two looks whether a shard may read again."""

GROUP_OFFSETS_SECONDS = 5.0
MINUTE_SECONDS = 60.0
WATCH_SECONDS = 1.0
JOINS_MAX = 10
"""So many failures in a row, one a second, and the client does not try to join any more."""

MEASURED_SECONDS = 5.0


class Ingest(faust.Service, ConsumerRebalanceListener):
    """The service that feeds the shards' agents: one consumer, and one task for every assigned shard."""

    logger = logging.getLogger("mode")  # of the library's own lines on start, end and crash

    def __init__(
        self,
        settings: WorkerSettings,
        app: faust.App,
        reader: InputReader | None = None,
        servers: WorkerServers | None = None,
        patience: Patience | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self._settings, self._table = settings, settings.table
        self._app = app
        self._servers = servers or WorkerServers(settings)
        self._patience = patience or Patience()
        self.reader = reader or InputReader(settings)
        shared = self._servers.news, settings.schemas, self._servers.other_stores, self._servers.clock.now
        self._shared = WorkerParts(threading.Lock(), Anonymizer(self._table), *shared)
        self._held: dict[TopicPartition, HeldShard] = {}
        self._tasks: dict[HeldShard, asyncio.Future[None]] = {}
        self.metrics: defaultdict[int, ShardMetrics] = defaultdict(ShardMetrics)  # of every shard it ever had
        self.joined = False
        """True while the last assignment is complete (it may be empty), and no rebalance has begun since."""
        self._revoked: list[HeldShard] = []
        self._first_check = Background("check")

    # -- start and end --------------------------------------------------------------------------------------------

    async def on_start(self) -> None:
        try:
            state = await asyncio.wrap_future(self._first_check.submit(self._check_servers))
            await self.reader.start(self, is_embedded=not state.topic_ids)
        except StreamerError as error:
            await self.crash(error)

    def _check_servers(self) -> InputState:
        """Raises at once what no shard could work with: a Redis that may lose data, missing topics, no server."""
        state = self._servers.check()
        log_start(self._settings, self._servers.redis_address, state.shards)
        return state

    async def on_stop(self) -> None:
        await self._ended(self._give_up(list(self._held)))
        await self.reader.stop()
        self._shared.anonymizer.close()
        self._servers.close()

    @property
    def now(self) -> float:
        """Redis' time, in seconds since 1970."""
        return self._shared.clock()

    @property
    def held(self) -> list[HeldShard]:
        """The shards that are assigned to this worker, by number."""
        return sorted(self._held.values(), key=lambda shard: shard.number)

    @property
    def busy(self) -> bool:
        """True if a thread is still running, which would keep the process from ending."""
        shards = (*self._revoked, *self._held.values())
        others = self._first_check.busy or self._servers.busy or self._shared.anonymizer.busy
        return others or any(shard.thread.busy for shard in shards)

    @property
    def failure(self) -> StreamerError | None:
        """The error that ended the service, if one did."""
        reason = self.crash_reason
        return reason if isinstance(reason, StreamerError) else None

    # -- assignments ----------------------------------------------------------------------------------------------

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        if self.should_stop:  # another worker gets them
            return
        self.joined = True
        ours = set(assigned)
        if not ours:
            log.warning("no shard is assigned to this worker: expected if there are more workers than shards")
        gone = self._give_up([place for place, shard in self._held.items() if place not in ours or shard.tenure.lost])
        if gone:
            self.add_future(self._ended(gone))
        for topic_partition in sorted(ours):
            self.reader.hold(topic_partition)
            if topic_partition in self._held:
                self._held[topic_partition].tell(ShardAssigned())
            else:
                try:
                    self._begin(topic_partition)
                except Exception as error:  # Kafka's client would log it, and the shard would have nobody
                    failure = unexpected("the worker", error)
                    end_process(failure.exit_code, str(failure))

    def _begin(self, topic_partition: TopicPartition) -> None:
        servers, number = self._servers, topic_partition.partition
        parts = servers.store(number), servers.input(number), servers.outlet(number)
        shard = HeldShard(self._table, number, *parts, self._shared, self.metrics[number])
        self._held[topic_partition] = shard
        self._tasks[shard] = self.add_future(self._run_tenure(topic_partition, shard))

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Has shards rest until the next assignment.

        A step gets a moment to end: else the next owner resolves it. A take-over goes on, and nobody waits for it.
        """
        self.joined = False
        held = {place: self._held[place] for place in revoked if place in self._held}
        steps = [shard for shard in held.values() if shard.is_in(TenureState.SERVING)]
        for shard in held.values():
            shard.tell(Withdrawn(monotonic()))
        resting = [place for place, shard in held.items() if shard.is_in(TenureState.RESTING)]
        for topic_partition in resting:
            self.reader.leave(topic_partition)
        await self._ended(self._give_up([place for place in held if place not in resting]))
        waits = [asyncio.ensure_future(shard.rests.wait()) for shard in steps]
        if waits:
            _, late = await asyncio.wait(waits, timeout=self._patience.end_of_step)
            for wait in late:
                wait.cancel()

    def _give_up(self, places: Sequence[TopicPartition]) -> list[HeldShard]:
        """Drops shards with their tables; returns them, to be waited for."""
        shards = [self._held.pop(topic_partition) for topic_partition in places]
        for topic_partition, shard in zip(places, shards, strict=True):
            self.reader.leave(topic_partition)
            shard.tell(GivenAway("given back", monotonic()))
            if not shard.thread.busy:
                self._tasks[shard].cancel()
            shard.close()
        self._revoked = [shard for shard in self._revoked if shard.thread.busy] + shards
        return shards

    async def _ended(self, shards: Sequence[HeldShard]) -> None:
        """Waits a moment for steps of given-up shards to end."""
        tasks = [self._tasks.pop(shard) for shard in shards]
        if tasks:
            await asyncio.wait(tasks, timeout=self._patience.end_of_step)
        for task, shard in zip(tasks, shards, strict=True):
            task.cancel()  # its event may wait in the mailbox, which nobody empties any more
            await shard.stop(self._app)

    # -- one shard ------------------------------------------------------------------------------------------------

    async def _run_tenure(self, topic_partition: TopicPartition, shard: HeldShard) -> None:
        await shard.start(self._app)
        while not shard.is_in(TenureState.LOST):
            began, failure = monotonic(), None
            try:
                await self._carry_out(topic_partition, shard)
            except StreamerError as error:
                failure = error
            except Exception as error:
                failure = unexpected(shard.name, error)
            if failure is not None:  # outside the handlers: else a crash is logged with this error and its text
                await self._failed(topic_partition, shard, failure, monotonic() - began)

    async def _carry_out(self, topic_partition: TopicPartition, shard: HeldShard) -> None:
        tenure = shard.tenure
        match tenure.state:
            case TenureState.TAKING_OVER:
                await self._take_over(topic_partition, shard)
            case TenureState.SERVING:
                await self._read_on(topic_partition, shard)
            case TenureState.RESTING:
                await shard.rest()
            case TenureState.REFUSED:
                await self._until_changed(shard, tenure.wait)
            case TenureState.ASSIGNED | TenureState.DOUBTED if tenure.wait:
                await shard.until_changed(tenure.wait)
        if shard.tenure is tenure and tenure.state in WAITING:
            shard.tell(Due())

    async def _failed(
        self, topic_partition: TopicPartition, shard: HeldShard, failure: StreamerError, seconds: float
    ) -> None:
        """Says what an error means for the shard, and does what follows at once."""
        if isinstance(failure, OutOfMemory):
            end_process(failure.exit_code, str(failure))
        before, kind = shard.tenure, meaning_of(failure)
        is_said = isinstance(failure, RegistryUnreachable)  # `status` does not ask the registry by itself
        now = shard.tell(ShardFailed(kind, str(failure), shard.meta.next, monotonic(), seconds, is_said))
        if before.lost:  # it was given back, and no one has fenced us
            return
        if kind is Failure.FENCED and before.kept and before.state is TenureState.TAKING_OVER:
            log.info("another worker had %s meanwhile: it is loaded again", shard.name)
            self._begin_again(topic_partition)
        elif kind is Failure.FENCED:
            log.warning("Fenced: %s", failure)
            shard.metrics.was_fenced()
        elif now.lost:
            log.warning("%s while %s rested: %s", type(failure).__name__, shard.name, failure)
        elif now.state is TenureState.REFUSED:
            await self._refuse(topic_partition, shard, failure, is_news=before.refused != now.refused)
        else:
            if now.state is TenureState.DOUBTED:
                log.warning("%s; taken over again in %.1f s, to see whether that lasts", failure, now.wait)
            else:
                log.warning("%s: %s; taken over again in %.1f s", type(failure).__name__, failure, now.wait)
            if is_said:
                await asyncio.to_thread(self._report_refusal, shard.number, failure)
        if kind is Failure.FENCED and not self.should_stop:
            await self._settle_with_a_namesake(topic_partition, shard)

    def _begin_again(self, topic_partition: TopicPartition) -> None:
        """Gives a shard up, and begins a new tenure at once."""
        gone = self._give_up([topic_partition])
        self._begin(topic_partition)
        self.add_future(self._ended(gone))

    async def _settle_with_a_namesake(self, topic_partition: TopicPartition, shard: HeldShard) -> None:
        """If a process has taken a shard under the name that this one has from `--instance`, the older of both ends."""
        ours, found = self._settings, None
        with suppress(StreamerError):
            found = await asyncio.to_thread(self._servers.lookups(shard.number).custody)
        if found is None or found.owner != ours.instance or found.process in ("", ours.process):
            return
        if found.process < ours.process and self._held.get(topic_partition) is shard:
            self._begin_again(topic_partition)
        elif found.process > ours.process:
            await self.crash(
                ConfigError(
                    f"another worker with --instance {ours.instance} has taken {shard.name}, and they would take it "
                    "from each other for ever: give each worker a name of its own"
                )
            )

    # -- a refused shard ------------------------------------------------------------------------------------------

    async def _refuse(
        self, topic_partition: TopicPartition, shard: HeldShard, failure: StreamerError, is_news: bool
    ) -> None:
        """Drops the table of a shard that cannot be served; the worker ends if it has no others."""
        self.reader.hold(topic_partition)
        await shard.refuse()
        await asyncio.to_thread(self._report_refusal, shard.number, failure)
        if shard.tenure.lost:
            return
        if all(one.tenure.refused for one in self._held.values()):
            await self.crash(failure)
        elif is_news:
            log.error("%s is refused, and tried again when something has changed: %s", shard.name, failure)

    async def _until_changed(self, shard: HeldShard, seconds_max: float) -> None:
        """Waits until something has changed on which a refusal may depend, for `seconds_max` at most."""
        until, before = monotonic() + seconds_max, await self._surroundings(shard)
        while shard.is_in(TenureState.REFUSED) and monotonic() < until:
            await shard.until_changed(self._patience.look)
            if shard.is_in(TenureState.REFUSED) and await self._surroundings(shard) != before:
                log.info("%s: something has changed: it is tried again", shard.name)
                return

    async def _surroundings(self, shard: HeldShard) -> object:
        lookups = self._servers.lookups(shard.number)
        return await shard.surroundings(
            lambda: (lookups.meta(), lookups.sizes(), replace(lookups.custody(), refusal=None, measured=Measured()))
        )

    # For `status`, in Redis. If Redis does not take it, only the log has it, and nothing is lost.

    def _report_owner(self, number: int) -> float:
        """Reports that we hold the shard; returns when it was held first, in seconds since 1970."""
        with suppress(StreamerError):
            return self._servers.lookups(number).report_owner(self._settings.name, self._settings.process)
        return time()

    def _report_refusal(self, number: int, failure: StreamerError | None) -> None:
        """Reports why we cannot go on with the shard; None: we can."""
        lookups = self._servers.lookups(number)
        with suppress(StreamerError):
            lookups.report_refusal(self._settings.name, str(failure)) if failure else lookups.refusal_is_over()

    def report_measured(self) -> None:
        """Reports what is measured of the shards that are served."""
        with suppress(StreamerError):  # a silent Redis is not waited for once per shard
            for shard in self.held:
                if shard.tenure.is_owner and not shard.is_in(*AWAY):
                    done, facts = shard.metrics.done, shard.facts
                    measured = Measured(
                        facts.ncp, facts.ncp_fresh, done.counts.messages, done.published, withheld=facts.withheld
                    )
                    self._servers.lookups(shard.number).report_measured(measured)

    async def _take_over(self, topic_partition: TopicPartition, shard: HeldShard) -> None:
        """Loads the shard, or goes on with the table that it has kept."""
        tenure = shard.tenure
        if tenure.kept:
            await shard.go_on_after_rest()
        else:
            lookups = self._servers.lookups(shard.number)
            await asyncio.to_thread(lookups.check_begun, shard.name)
            await shard.take_over()
        since = tenure.since
        if not tenure.is_owner and shard.tenure is tenure:  # once per assignment, not after every error
            since = await asyncio.to_thread(self._report_owner, shard.number)
        if shard.tenure is tenure:
            shard.tell(TakenOver(monotonic(), since))
            self.reader.read_from(topic_partition, shard.meta.next)

    async def _read_on(self, topic_partition: TopicPartition, shard: HeldShard) -> None:
        """Reads one batch, waits until it is published, and does what is due before the next one.

        The reader's position is beyond transaction markers and aborted records: offsets without messages.
        """
        tenure, is_idle = shard.tenure, False
        if shard.reads_nothing:
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            batch = await self.reader.next_batch(topic_partition)
            if shard.tenure is not tenure:
                return
            if batch.messages or batch.through > shard.meta.next:
                await shard.step(batch.messages, batch.through)
            is_idle = not batch.messages
        if shard.tenure is not tenure:
            return
        now = shard.tell(Served(monotonic(), is_idle))
        if tenure.is_said and not now.is_said:
            await asyncio.to_thread(self._report_refusal, shard.number, None)
        if shard.is_in(TenureState.SERVING):
            await shard.between(is_idle)

    # -- timers ---------------------------------------------------------------------------------------------------

    @Service.task
    async def _keep_joined(self) -> None:
        """Ends the worker if Kafka's group does not let it in."""
        failures = 0
        while not self.should_stop:
            try:
                await self.reader.keep_joined()
                failures = 0
            except StreamerError as error:
                failures += 1
                if not isinstance(error, ServerUnreachable) or failures == JOINS_MAX:
                    await self.crash(error)
            await self.sleep(WATCH_SECONDS)

    @Service.timer(GROUP_OFFSETS_SECONDS)
    async def _commit_group_offsets(self) -> None:
        held = self._held.items()
        await self.reader.commit_group_offsets(
            {place: shard.meta.next for place, shard in held if shard.meta.next and not shard.is_in(*AWAY)}
        )

    @Service.timer(MINUTE_SECONDS)
    async def _log_minute(self) -> None:
        for topic_partition, shard in self._held.items():
            if not shard.is_in(*AWAY):
                shard.log_minute(self.reader.end(topic_partition))

    @Service.timer(MEASURED_SECONDS)
    async def _report_measured(self) -> None:
        await asyncio.to_thread(self.report_measured)

    @Service.timer(WATCH_SECONDS)
    async def _watch(self) -> None:
        self.end_if_lost()

    def end_if_lost(self) -> None:
        """Ends the process if a shard stays lost although Kafka assigns it to us; a rebalance may take it yet."""
        patience = self._settings.session_seconds / 4 + 2
        for topic_partition, shard in self._held.items() if self.joined else ():
            lost, at = shard.tenure.lost, shard.tenure.at
            if lost and monotonic() - at > patience and self.reader.is_assigned(topic_partition):
                end_process(EXIT_LOST, f"{shard.name} was lost and is still assigned to this worker ({lost})")


AWAY = (TenureState.RESTING, TenureState.LOST)
"""The states in which a shard is not served here, or may be another worker's."""
