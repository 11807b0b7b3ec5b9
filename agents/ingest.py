"""Reads the input topic, and serves the shards that Kafka assigns to this worker.

The rules of this file
----------------------
* The offset in the store is the only truth. The consumer group's offsets are written for tools that show the lag, and
  never read. If the store's offset does not exist in the input (`auto_offset_reset="none"`), the shard is taken over
  again, which finds whether the input expired or was recreated: nothing is skipped silently.
* The callbacks of an assignment return at once, as heartbeats wait for them. Take-overs run in the shards' threads.
* In every rebalance Kafka takes all partitions from all workers, and gives most of them back. So a shard rests, with
  its table, until the new assignment says whose it is. If it is ours again, and nobody has taken it over meanwhile, it
  goes on and loads nothing.
* After any error there is one way back: a new take-over of the shard, after a pause.
* A shard that another worker has taken (`Fenced`) is dropped. If Kafka still assigns it to us after a while, the
  process ends: only after a new start does Kafka assign it again.
* A shard with an error that no retry repairs (table, topics and state do not fit together, a law is violated) is taken
  over once more, as the reason may be past. If that fails, too, it is refused: its table is dropped, its partition is
  paused, and the other shards are served on. It is tried again when its topics, its state in Redis or its requests
  have changed, and now and then. If all shards of the worker are refused, the process ends.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from time import monotonic, time
from typing import Any, NamedTuple

import faust
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import AbstractTokenProvider, ConsumerRebalanceListener
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError
from mode import Service

from agents.anonymizer import Anonymizer
from agents.log import log_start
from agents.shard_agent import HeldShard, WorkerParts
from agents.shard_metrics import ShardMetrics
from agents.shard_thread import EXIT_LOST, end_process, unexpected
from streamer.errors import Conflict, Fenced, RegistryUnreachable, ServerUnreachable, StreamerError
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_lookups import Measured, RedisLookups
from streamer.incremental.store.redis_server import RedisClient, address_of, connect, connect_now, require_durable
from streamer.incremental.topics import CHANGES, published_kinds, topic_name
from streamer.kafka.access import fetch_token, for_python_clients, kafka_settings
from streamer.kafka.clients import require_answer
from streamer.kafka.control import ControlReader
from streamer.kafka.errors import READ_RIGHT, Right, refused_to_shard
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.settings import TokenEndpoint
from streamer.kafka.shard_input import KafkaInput, kafka_topics
from streamer.table.schema import Limits
from streamer.worker.settings import WorkerSettings

log = logging.getLogger(__name__)

POLL_MS = 200
LEAVE_SECONDS_MAX = 2.0
"""How long leaving the consumer group may take; without an answer, the session ends by itself."""

METADATA_MS_MAX = 5_000
"""How long the client may use an old number of partitions."""

POLL_INTERVAL_MS_MAX = 3_600_000
"""Kafka's limit between two reads. Ours (per step, per take-over) are shorter; loading a large shard is not a fault."""


class _LoopTokens(AbstractTokenProvider):
    """aiokafka's token provider: a new token for every connection."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint

    async def token(self) -> str:
        return (await asyncio.to_thread(fetch_token, self._endpoint)).text


def reader_access() -> dict[str, Any]:
    """Keyword arguments of an AIOKafkaConsumer. Raises ConfigError."""
    return for_python_clients(kafka_settings(), _LoopTokens)


# What has come of a partition and is not taken yet: the next batch, which gathers while the last one is committed.
#
# * The client fetches nothing for the other partitions of a broker as long as messages of one wait inside it. So they
#   are taken out at once, and wait here.
# * A batch begins when its shard is free and a message is there: how large it is follows from what came meanwhile. A
#   table may have a message wait for others (`limits.batch_ms_max`).
# * Two full batches wait at most: then the partition is paused until one of them is taken.

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


class InputReader:
    """The consumer of the input topic, for all shards of this worker.

    An assigned partition is paused until its shard is taken over, and read from where the take-over says. What comes
    while the shard is busy is its next batch (`Arrivals`).
    """

    def __init__(self, settings: WorkerSettings, leave_seconds_max: float = LEAVE_SECONDS_MAX) -> None:
        self._settings, self._leave_seconds_max = settings, leave_seconds_max
        self._limits = settings.table.limits
        self._topic = topic_name(settings.table.name, CHANGES)
        self._arrivals: dict[TopicPartition, Arrivals] = {}
        self.consumer: Any = None
        """The AIOKafkaConsumer; None before `start`."""

    async def start(self, listener: ConsumerRebalanceListener, check_crcs: bool) -> None:
        """Joins the consumer group. listener: gets the assignments. Raises ServerUnreachable, ShardRefused."""
        session_ms = int(self._settings.session_seconds * 1000)
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=self._settings.kafka,
            **reader_access(),
            group_id=self._settings.app_id,
            client_id=self._settings.name,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
            group_instance_id=self._settings.instance,
            check_crcs=check_crcs,
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // 4,
            metadata_max_age_ms=METADATA_MS_MAX,
            max_poll_interval_ms=POLL_INTERVAL_MS_MAX,
            fetch_max_wait_ms=POLL_MS // 4,  # a shard with new messages may wait this long for a fetch of others
        )
        try:
            await self.consumer.start()
        except KafkaError as error:
            raise failure_of(f"Kafka at {self._settings.kafka}", error, self._topic) from None
        self.consumer.subscribe([self._topic], listener=listener)

    async def stop(self) -> None:
        """Leaves the consumer group."""
        if self.consumer is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.consumer.stop(), self._leave_seconds_max)

    def hold(self, topic_partition: TopicPartition) -> None:
        """Pauses a partition that was just assigned, at a position of our own: else the client would look for one."""
        self.leave(topic_partition)
        self.consumer.seek(topic_partition, 0)
        self.consumer.pause(topic_partition)

    def read_from(self, topic_partition: TopicPartition, offset: int) -> None:
        """Has the next batch begin at an offset."""
        self.leave(topic_partition)
        self.consumer.seek(topic_partition, offset)
        self.consumer.resume(topic_partition)
        arrivals = self._arrivals[topic_partition] = Arrivals(self._limits)
        arrivals.reading = asyncio.ensure_future(self._read(topic_partition, arrivals))

    def leave(self, topic_partition: TopicPartition) -> None:
        """Reads a partition no further, and drops what was not taken of it."""
        left = self._arrivals.pop(topic_partition, None)
        if left is not None and left.reading is not None:
            left.reading.cancel()

    def is_assigned(self, topic_partition: TopicPartition) -> bool:
        """Whether Kafka assigns a partition to this worker."""
        return topic_partition in self.consumer.assignment()

    def end(self, topic_partition: TopicPartition) -> int:
        """The end of the input, as far as the client knows it."""
        return self.consumer.highwater(topic_partition) or 0

    async def next_batch(self, topic_partition: TopicPartition) -> Batch:
        """What has come and was not taken yet; nothing if nothing comes for a moment, or the partition was left.

        Raises ServerUnreachable, ShardRefused.
        """
        try:
            arrivals = self._arrivals.get(topic_partition)
            if arrivals is not None:
                return await arrivals.take(POLL_MS / 1000)
            await asyncio.sleep(POLL_MS / 1000)
            return Batch([], 0)
        except KafkaError as error:
            raise failure_of(f"reading {self._topic}", error, self._topic) from None

    async def _read(self, topic_partition: TopicPartition, arrivals: Arrivals) -> None:
        """Reads a partition for as long as it is not left."""
        messages_max = self._limits.batch_events_max
        try:
            while True:
                found = await self.consumer.getmany(topic_partition, timeout_ms=POLL_MS, max_records=messages_max)
                records = found.get(topic_partition, ())
                came = [Message(one.offset, one.key, one.value, max(0, one.timestamp or 0)) for one in records]
                arrivals.add(came, await self.consumer.position(topic_partition))
                if arrivals.is_full:
                    self.consumer.pause(topic_partition)
                    await arrivals.until_room()
                    self.consumer.resume(topic_partition)
        except Exception as error:
            arrivals.fail(error)

    async def commit_group_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits offsets of the consumer group, from which tools compute the lag; they are never read back."""
        if offsets and self.consumer is not None:
            try:
                await self.consumer.commit(dict(offsets))
            except KafkaError as error:
                log.debug("group offsets could not be committed: %s", type(error).__name__)


def failure_of(doing: str, error: KafkaError, topic: str) -> StreamerError:
    """The consumer's error as ours: refused for good, or worth another try. topic: the input."""
    refused = None
    if not isinstance(error, UnknownTopicOrPartitionError):  # else the next take-over finds what became of the topic
        name, table_name = getattr(error, "message", ""), topic.removesuffix(f".{CHANGES}")
        refused = refused_to_shard(doing, name, Right([READ_RIGHT], [topic]), table_name)
    return refused or ServerUnreachable(f"{doing}: Kafka answers {type(error).__name__}")


# A trim says how far its commit is published, so it may arrive late, or never: a later commit's entries stay, and
# whoever takes the shard over trims first. To wait for it would cost every batch one more wait for Redis' disk.


class Trims:
    """The thread that trims, for all shards of a worker; may be used from any thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "trims")
        self._last: Future[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether an outbox is being trimmed, or waits for it."""
        return self._last is not None and not self._last.done()

    def submit(self, trim: Callable[[], None]) -> None:
        """Has an outbox trimmed; if that fails, the next commit of the shard shows why."""
        with suppress(RuntimeError):  # the worker ends
            self._last = self._thread.submit(_tried, trim)

    def close(self) -> None:
        """Takes no more."""
        self._thread.shutdown(wait=False)


def _tried(trim: Callable[[], None]) -> None:
    with suppress(StreamerError):
        trim()


class WorkerStore(RedisStore):
    """One shard's store in Redis, trimmed by another thread."""

    def __init__(self, client: RedisClient, table_name: str, shard: int, trims: Trims) -> None:
        super().__init__(client, table_name, shard)
        self._trims = trims

    def trim(self, fence: str, commit: int) -> None:
        """As in `Store`, but not at once, and no error is raised."""
        trim = super().trim
        self._trims.submit(lambda: trim(fence, commit))


BACKOFF_FIRST_SECONDS, BACKOFF_LAST_SECONDS = 0.1, 3.0
END_OF_STEP_SECONDS_MAX = 2.0
"""How long a revoked shard may take to end its step; the next owner publishes the rest."""

ASKED_AGAIN_SECONDS = 1.0
"""Before a shard is taken over once more that would be refused."""

BELIEVED_SECONDS = 60.0
"""How long a shard is served until an error that would refuse it counts as the first one again."""

REFUSED_LOOK_SECONDS, REFUSED_RETRY_SECONDS, REFUSED_RETRY_SHARE = 3.0, 60.0, 10
"""How often a refused shard is looked at for changes. Without one it is tried again after a while: after so many times
as long as the last try took, at least, as the other shards have to share the processor with it."""

PAUSE_SECONDS = 0.05
"""Between two looks whether a shard may read again."""

GROUP_OFFSETS_SECONDS = 5.0
MINUTE_SECONDS = 60.0
WATCH_SECONDS = 1.0
NO_SHARD_SECONDS = 30.0
MEASURED_SECONDS = 5.0


class Ingest(faust.Service, ConsumerRebalanceListener):
    """The service that feeds the shards' agents: one consumer, and one task for every assigned shard."""

    logger = logging.getLogger("mode")  # of the library's own lines on start, end and crash

    def __init__(
        self, settings: WorkerSettings, app: faust.App, reader: InputReader | None = None, **kwargs: object
    ) -> None:
        super().__init__(**kwargs)
        self.failure: StreamerError | None = None
        """The error that ended the service, if one did."""
        self._settings = settings
        self._table = settings.table
        self._format = settings.live_format
        self._app = app
        self._redis = connect(settings.redis)
        self._topics = kafka_topics(settings.kafka, self._table.name)
        self._trims = Trims()
        self.reader = reader or InputReader(settings)
        news = ControlReader(settings.kafka, self._table.name)
        self._shared = WorkerParts(threading.Lock(), Anonymizer(self._table), news, settings.schemas)
        self._held: dict[TopicPartition, HeldShard] = {}
        self.metrics: defaultdict[int, ShardMetrics] = defaultdict(ShardMetrics)
        """Of every shard that this process was ever assigned, by number."""
        self.joined = False
        """Whether the last assignment is complete (it may be empty), and no rebalance has begun since."""
        self._revoked: list[HeldShard] = []
        self._checking = False
        self._warned_of_no_shard = False

    # -- start and end --------------------------------------------------------------------------------------------

    async def on_start(self) -> None:
        try:
            state = await asyncio.to_thread(self._check_servers)
            check_crcs = bool(state.topic_ids)  # the embedded broker's transaction markers have no checksum
            await self.reader.start(self, check_crcs)
        except StreamerError as error:
            await self._fail(error)

    def _check_servers(self) -> InputState:
        """Raises at once what no shard could work with: a Redis that may lose data, missing topics, no server."""
        self._checking = True
        try:
            connect_now(self._settings.redis)
            require_answer(self._settings.kafka)
            require_durable(self._redis, stated=self._table.durability_stated or self._settings.embedded)
            state = self._input_of(0).state()
            log_start(self._settings, address_of(self._redis), state.shards)
            return state
        finally:
            self._checking = False

    def _input_of(self, shard: int) -> KafkaInput:
        outputs = published_kinds(self._table)
        return KafkaInput(self._settings.kafka, self._table.name, shard, self._topics, outputs)

    async def on_stop(self) -> None:
        await self._ended(self._give_up(list(self._held)))
        await self.reader.stop()
        self._shared.anonymizer.close()
        self._shared.news.close()
        self._trims.close()

    @property
    def held(self) -> list[HeldShard]:
        """The shards that are assigned to this worker, by number."""
        return sorted(self._held.values(), key=lambda shard: shard.number)

    @property
    def busy(self) -> bool:
        """Whether a thread is still running, which would keep the process from ending."""
        others = (self._topics, self._shared.news, self._shared.anonymizer, self._trims)
        threads = (shard.thread for shard in (*self._revoked, *self._held.values()))
        return self._checking or any(one.busy for one in others) or any(one.busy for one in threads)

    async def _fail(self, error: StreamerError) -> None:
        """Ends the service, and with it the worker."""
        self.failure = self.failure or error
        await self.crash(error)

    # -- assignments ----------------------------------------------------------------------------------------------

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        if self.should_stop:  # another worker gets them
            return
        self.joined = True
        ours = set(assigned)
        gone = self._give_up([place for place, shard in self._held.items() if place not in ours or shard.loss])
        if gone:
            self.add_future(self._ended(gone))
        for topic_partition in sorted(ours):
            self.reader.hold(topic_partition)
            if topic_partition in self._held:
                self._held[topic_partition].assigned.set()
            else:
                self._begin(topic_partition)

    def _begin(self, topic_partition: TopicPartition) -> None:
        """Begins to serve a shard that is assigned to us."""
        shard = self._held[topic_partition] = self._new_shard(topic_partition.partition)
        shard.assigned.set()
        shard.task = self.add_future(self._serve(topic_partition, shard))

    def _new_shard(self, number: int) -> HeldShard:
        store = WorkerStore(self._redis, self._table.name, number, self._trims)
        outputs = published_kinds(self._table)
        outlet = KafkaOutlet(self._settings.kafka, self._table.name, number, outputs, self._format)
        return HeldShard(self._table, number, store, self._input_of(number), outlet, self._shared, self.metrics[number])

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Has shards rest until the next assignment. A step gets a moment to end, so that a next owner has no more to
        resolve."""
        self.joined = False
        places = [place for place in revoked if place in self._held]
        resting = [place for place in places if self._held[place].may_rest]
        for topic_partition in resting:
            self.reader.leave(topic_partition)
            self._held[topic_partition].interrupt()
        await self._ended(self._give_up([place for place in places if place not in resting]))
        waits = [asyncio.ensure_future(self._held[place].rests.wait()) for place in resting]
        if waits:
            _, late = await asyncio.wait(waits, timeout=END_OF_STEP_SECONDS_MAX)
            for wait in late:
                wait.cancel()

    def _give_up(self, places: Sequence[TopicPartition]) -> list[HeldShard]:
        """Drops shards with their tables; returns them, to be waited for."""
        shards = [self._held.pop(topic_partition) for topic_partition in places]
        for topic_partition, shard in zip(places, shards, strict=True):
            self.reader.leave(topic_partition)
            shard.lose("given back")
            shard.close()
        self._revoked = [shard for shard in self._revoked if shard.thread.busy] + shards
        return shards

    async def _ended(self, shards: Sequence[HeldShard]) -> None:
        """Waits a moment for steps of given-up shards to end."""
        tasks = [shard.task for shard in shards if shard.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=END_OF_STEP_SECONDS_MAX)
        for shard in shards:
            await shard.stop(self._app)

    # -- one shard ------------------------------------------------------------------------------------------------

    async def _serve(self, topic_partition: TopicPartition, shard: HeldShard) -> None:
        """Takes the shard over and reads until it is lost; after an error, takes it over again."""
        pause, doubted = BACKOFF_FIRST_SECONDS, -1  # doubted: the offset at which an error would refuse the shard
        await shard.start(self._app)
        while not shard.loss:
            began, failure = monotonic(), None
            try:
                await shard.assigned.wait()
                await self._take_over(topic_partition, shard)
                taken = monotonic()
                while not shard.loss:
                    idle = await self._read_on(topic_partition, shard)
                    if shard.interrupted:
                        await self._rest(topic_partition, shard)
                        continue
                    pause = BACKOFF_FIRST_SECONDS
                    doubted = -1 if monotonic() - taken > BELIEVED_SECONDS else doubted
                    await self._go_on(shard, idle)
            except Fenced as error:
                if not shard.loss:  # else it was revoked, and no one has fenced us
                    log.warning("Fenced: %s", error)
                    shard.metrics.fenced += 1
                shard.lose(str(error))
            except (ServerUnreachable, Conflict) as error:
                log.warning("%s: %s; taken over again in %.1f s", type(error).__name__, error, pause)
                await self._report_outage(shard, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, BACKOFF_LAST_SECONDS)
            except StreamerError as error:
                failure = error
            except Exception as error:
                failure = unexpected(shard.name, error)
            if failure is None:
                continue
            # outside the handlers: a crash is logged with the error being handled, and its text
            if not shard.refused and doubted != shard.meta.next:
                doubted = shard.meta.next
                log.warning("%s; taken over again in %.1f s, to see whether it stays", failure, ASKED_AGAIN_SECONDS)
                shard.metrics.failed(str(failure))
                await asyncio.sleep(ASKED_AGAIN_SECONDS)
            elif shard.loss or not await self._refuse(topic_partition, shard, failure):
                return
            else:
                patience = max(REFUSED_RETRY_SECONDS, REFUSED_RETRY_SHARE * (monotonic() - began))
                await self._until_changed(shard, patience)

    async def _rest(self, topic_partition: TopicPartition, shard: HeldShard) -> None:
        """Waits until the shard is assigned again, or lost. If another worker had it meanwhile, it begins anew."""
        shard.rests.set()
        await shard.assigned.wait()
        shard.rests.clear()
        shard.interrupted = False
        if shard.loss:
            return
        try:
            await shard.go_on_after_rest()
        except Fenced:
            log.info("another worker had %s meanwhile: it is loaded again", shard.name)
            gone = self._give_up([topic_partition])
            self._begin(topic_partition)
            self.add_future(self._ended(gone))
        else:
            self.reader.read_from(topic_partition, shard.meta.next)

    async def _go_on(self, shard: HeldShard, idle: bool) -> None:
        """Does what is due between two batches of a shard that is served. idle: there was no message."""
        shard.metrics.goes_on()
        shard.refused = ""
        if shard.refusal_reported and not idle:
            shard.refusal_reported = False
            await asyncio.to_thread(self._report_refusal, shard.number, None)
        if not shard.loss:
            await shard.between(idle)

    async def _report_outage(self, shard: HeldShard, error: StreamerError) -> None:
        shard.metrics.failed(str(error))
        if isinstance(error, RegistryUnreachable):  # `status` does not ask the registry by itself
            shard.refusal_reported = True
            await asyncio.to_thread(self._report_refusal, shard.number, error)

    # -- a refused shard ------------------------------------------------------------------------------------------

    async def _refuse(self, topic_partition: TopicPartition, shard: HeldShard, failure: StreamerError) -> bool:
        """Drops a shard that cannot be served; whether the worker goes on, as it has others."""
        is_news = shard.refused != str(failure)
        self.reader.hold(topic_partition)
        await shard.refuse(str(failure))
        await asyncio.to_thread(self._report_refusal, shard.number, failure)
        if shard.loss:
            return False
        if all(one.refused for one in self._held.values()):
            await self._fail(failure)
            return False
        if is_news:
            log.error("%s is refused, and tried again when something has changed: %s", shard.name, failure)
        return True

    async def _until_changed(self, shard: HeldShard, seconds_max: float) -> None:
        """Waits until something has changed on which a refusal may depend, but not longer than so many seconds."""
        until, before = monotonic() + seconds_max, await self._surroundings(shard)
        while not shard.loss and monotonic() < until:
            await asyncio.sleep(REFUSED_LOOK_SECONDS)
            if not shard.loss and await self._surroundings(shard) != before:
                log.info("%s: something has changed: it is tried again", shard.name)
                return

    async def _surroundings(self, shard: HeldShard) -> object:
        lookups = RedisLookups(self._redis, self._table.name, shard.number)
        return await shard.surroundings(
            lambda: (lookups.meta(), lookups.sizes(), replace(lookups.custody(), refusal=None, measured=Measured()))
        )

    # For `status`, in Redis. If Redis does not take it, only the log has it, and nothing is lost.

    def _report_owner(self, number: int) -> float:
        """Reports that we hold the shard; returns when it was held first, in seconds since 1970."""
        with suppress(StreamerError):
            return RedisLookups(self._redis, self._table.name, number).report_owner(self._settings.name)
        return time()

    def _report_refusal(self, number: int, failure: StreamerError | None) -> None:
        """Reports why we cannot go on with the shard; None: we can."""
        lookups = RedisLookups(self._redis, self._table.name, number)
        with suppress(StreamerError):
            lookups.report_refusal(self._settings.name, str(failure)) if failure else lookups.refusal_is_over()

    def report_measured(self) -> None:
        """Reports what is measured of the shards that are served."""
        with suppress(StreamerError):  # a silent Redis is not waited for once per shard
            for shard in self.held:
                if shard.taken_over and not shard.loss:
                    done, facts = shard.metrics.done, shard.facts
                    measured = Measured(facts.ncp, facts.ncp_fresh, done.counts.messages, done.published)
                    RedisLookups(self._redis, self._table.name, shard.number).report_measured(measured)

    async def _take_over(self, topic_partition: TopicPartition, shard: HeldShard) -> None:
        lookups = RedisLookups(self._redis, self._table.name, shard.number)
        await asyncio.to_thread(lookups.check_begun, shard.name)
        offset = await shard.take_over()
        if shard.loss:
            return
        if not shard.taken_over:  # once per assignment, not after every error
            shard.taken_over = True
            shard.held_since = await asyncio.to_thread(self._report_owner, shard.number)
        others = (number for number in range(shard.meta.shards) if number != shard.number)
        shard.knows_others([RedisStore(self._redis, self._table.name, number) for number in others])
        self.reader.read_from(topic_partition, offset)

    async def _read_on(self, topic_partition: TopicPartition, shard: HeldShard) -> bool:
        """Reads one batch and waits until it is published; returns whether there was no message.

        The reader's position is beyond transaction markers and aborted records: offsets without messages.
        """
        if shard.reads_nothing:
            await asyncio.sleep(PAUSE_SECONDS)
            return False
        batch = await self.reader.next_batch(topic_partition)
        if shard.loss or shard.interrupted:
            return False
        if batch.messages or batch.through > shard.meta.next:
            await shard.step(batch.messages, batch.through)
        return not batch.messages

    # -- timers ---------------------------------------------------------------------------------------------------

    @Service.timer(GROUP_OFFSETS_SECONDS)
    async def _commit_group_offsets(self) -> None:
        held = self._held.items()
        await self.reader.commit_group_offsets(
            {place: shard.meta.next for place, shard in held if shard.meta.next and shard.is_served}
        )

    @Service.timer(MINUTE_SECONDS)
    async def _log_minute(self) -> None:
        for topic_partition, shard in self._held.items():
            if shard.is_served:
                shard.log_minute(self.reader.end(topic_partition))

    @Service.timer(MEASURED_SECONDS)
    async def _report_measured(self) -> None:
        await asyncio.to_thread(self.report_measured)

    @Service.timer(NO_SHARD_SECONDS)
    async def _look_at_shards(self) -> None:
        self.warn_of_no_shard()

    def warn_of_no_shard(self) -> None:
        """Warns once that no shard is assigned to this worker."""
        if not self._held and not self._warned_of_no_shard:
            log.warning("no shard is assigned to this worker: expected if there are more workers than shards")
        self._warned_of_no_shard = not self._held

    @Service.timer(WATCH_SECONDS)
    async def _watch(self) -> None:
        """Ends the process if a shard stays lost although Kafka assigns it to us."""
        patience = self._settings.session_seconds / 4 + 2
        for topic_partition, shard in self._held.items():
            loss = shard.loss
            if loss and monotonic() - loss.at > patience and self.reader.is_assigned(topic_partition):
                end_process(EXIT_LOST, f"{shard.name} was lost and is still assigned to this worker ({loss.why})")
