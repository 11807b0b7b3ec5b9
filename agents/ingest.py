"""Reads the input topic and keeps the shards that Kafka gives to this worker.

The rules of this file
----------------------
* The offset in the store is the only truth. Kafka's group offsets are written as a figure of lag, and never read: a
  shard is read from where its take-over says. Where that offset does not exist (`auto_offset_reset="none"`) the shard
  is taken over again, which tells whether the input expired or was recreated; nothing is skipped in silence.
* The callbacks of an assignment only mark: heartbeats wait for them. A shard is taken over in its own thread.
* After any error there is one way back: take the shard over again, from its beginning, after a pause.
* A shard that another worker has taken (`Fenced`) is dropped. Where Kafka still calls it ours after a while, only a new
  start of the process gets it assigned anew.
* What no repetition mends (table, topics and state do not fit together, a law is violated) ends the process.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from time import monotonic, time
from typing import Any

import faust
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import AbstractTokenProvider, ConsumerRebalanceListener
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError
from mode import Service

from agents.anonymizer import Anonymizer
from agents.log import MINUTE_SECONDS, tell_start
from agents.shard_agent import HeldShard
from agents.shard_metrics import ShardMetrics
from agents.shard_thread import EXIT_LOST, end_process, unexpected
from streamer.errors import Conflict, Fenced, RegistryUnreachable, ServerUnreachable, StreamerError
from streamer.incremental.shard.input import Message
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_lookups import RedisLookups
from streamer.incremental.store.redis_server import address_of, connect, require_durable
from streamer.incremental.topics import CHANGES, outputs_of, topic_name
from streamer.kafka.access import fetch_token, for_python_clients, kafka_settings
from streamer.kafka.control import ControlNews
from streamer.kafka.diagnose import require_access
from streamer.kafka.errors import READ_RIGHT, Right, refused_to_shard
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.settings import TokenEndpoint, servers_of
from streamer.kafka.shard_input import KafkaInput, kafka_topics
from streamer.worker.settings import WorkerSettings

# The client that reads the input topic, for all shards of this worker, and what its answers and errors mean.
#
# It reads from where a shard's take-over says and nowhere else: no offset is looked for in Kafka's group, and none is
# reset. A batch is what comes within the table's limits of time and size after its first message.

log = logging.getLogger(__name__)

POLL_MS = 200
BATCH_BYTES_MAX = 4_000_000
LEAVE_SECONDS_MAX = 2.0
"""How long Kafka may take to hear that we leave; if it does not answer, our silence will tell it."""

METADATA_MS_MAX = 5_000
"""How long the client may go on with an old number of partitions."""

POLL_INTERVAL_MS_MAX = 3_600_000
"""Kafka's limit between two reads. Ours (per step, per take-over) are shorter; loading a large shard is not a fault."""


class _LoopTokens(AbstractTokenProvider):
    """A token for every connection, asked for within the event loop."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint

    async def token(self) -> str:
        return (await asyncio.to_thread(fetch_token, self._endpoint)).text


def reader_access() -> dict[str, Any]:
    """Keywords of an AIOKafkaConsumer. Raises ConfigError."""
    return for_python_clients(kafka_settings(), _LoopTokens)


class InputReader:
    """One consumer of the input topic; what Kafka assigns to it stands still until a shard is taken over."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._limits = settings.table.limits
        self._topic = topic_name(settings.table.name, CHANGES)
        self.consumer: Any = None
        """The client itself, an AIOKafkaConsumer; None before `start`."""

    async def start(self, listener: ConsumerRebalanceListener, check_crcs: bool) -> None:
        """Joins the readers of the table; listener: hears what is assigned. Raises ServerUnreachable, ShardRefused."""
        self.consumer = self._new_consumer(check_crcs)
        try:
            await self.consumer.start()
        except KafkaError as error:
            raise failure_of(f"Kafka at {self._settings.kafka}", error, self._topic) from None
        self.consumer.subscribe([self._topic], listener=listener)

    def _new_consumer(self, check_crcs: bool) -> AIOKafkaConsumer:
        session_ms = int(self._settings.session_seconds * 1000)
        return AIOKafkaConsumer(
            bootstrap_servers=self._settings.kafka,
            **reader_access(),
            group_id=self._settings.app_id,
            client_id=self._settings.name,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
            check_crcs=check_crcs,
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // 4,
            metadata_max_age_ms=METADATA_MS_MAX,
            max_poll_interval_ms=POLL_INTERVAL_MS_MAX,
            fetch_max_wait_ms=POLL_MS // 4,  # a shard with news waits as long for a fetch that only asked for others
        )

    async def stop(self) -> None:
        """Leaves the other readers."""
        if self.consumer is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.consumer.stop(), LEAVE_SECONDS_MAX)

    def hold(self, topic_partition: TopicPartition) -> None:
        """Reads nothing of what was just assigned; with a position of our own, before the client looks for one."""
        self.consumer.seek(topic_partition, 0)
        self.consumer.pause(topic_partition)

    def read_from(self, topic_partition: TopicPartition, offset: int) -> None:
        """Has the next batch begin at an offset."""
        self.consumer.seek(topic_partition, offset)
        self.consumer.resume(topic_partition)

    def calls_ours(self, topic_partition: TopicPartition) -> bool:
        """Whether Kafka assigns it to this worker."""
        return topic_partition in self.consumer.assignment()

    def end(self, topic_partition: TopicPartition) -> int:
        """Where the input ends, as far as the client has heard."""
        return self.consumer.highwater(topic_partition) or 0

    async def position(self, topic_partition: TopicPartition) -> int:
        """The offset that is read next. Raises ServerUnreachable, ShardRefused."""
        try:
            return int(await self.consumer.position(topic_partition))
        except KafkaError as error:
            raise failure_of(f"reading {self._topic}", error, self._topic) from None

    async def read_batch(self, topic_partition: TopicPartition) -> list[Message]:
        """What comes within `batch_ms_max` after the first message, up to `batch_events_max`.

        Raises ServerUnreachable, ShardRefused.
        """
        events_max = self._limits.batch_events_max
        messages = await self._read(topic_partition, POLL_MS, events_max)
        n_bytes, deadline = _size(messages), monotonic() + self._limits.batch_ms_max / 1000
        while messages and len(messages) < events_max and n_bytes < BATCH_BYTES_MAX:
            ms_left = int(1000 * (deadline - monotonic()))
            if ms_left <= 0:
                break
            more = await self._read(topic_partition, ms_left, events_max - len(messages))
            messages += more
            n_bytes += _size(more)
        return messages

    async def _read(self, topic_partition: TopicPartition, timeout_ms: int, messages_max: int) -> list[Message]:
        try:
            found = await self.consumer.getmany(topic_partition, timeout_ms=timeout_ms, max_records=messages_max)
        except KafkaError as error:
            raise failure_of(f"reading {self._topic}", error, self._topic) from None
        return [Message(record.offset, record.key, record.value) for record in found.get(topic_partition, ())]

    async def tell_lag(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Writes offsets to Kafka's group, where tools look for the lag; nobody reads them back."""
        if offsets and self.consumer is not None:
            try:
                await self.consumer.commit(dict(offsets))
            except KafkaError as error:
                log.debug("the lag could not be told: %s", type(error).__name__)


def failure_of(doing: str, error: KafkaError, topic: str) -> StreamerError:
    """An error of the reading client as ours: refused for good, or worth another try. topic: the one it reads."""
    refused = None
    if not isinstance(error, UnknownTopicOrPartitionError):  # then the take-over that follows tells what became of it
        name, table_name = getattr(error, "message", ""), topic.removesuffix(f".{CHANGES}")
        refused = refused_to_shard(doing, name, Right([READ_RIGHT], [topic]), table_name)
    return refused or ServerUnreachable(f"{doing}: Kafka answers {type(error).__name__}")


def _size(messages: Iterable[Message]) -> int:
    return sum(len(message.value or b"") for message in messages)


BACKOFF_FIRST_SECONDS, BACKOFF_LAST_SECONDS = 0.1, 3.0
END_OF_STEP_SECONDS_MAX = 2.0
"""How long a shard that is given back may take to end its step; what remains is published by the next owner."""

RELEASE_SECONDS = 0.05
"""Between two looks whether a first snapshot is released."""

LAG_SECONDS = 5.0
WATCH_SECONDS = 1.0
NO_SHARD_SECONDS = 30.0


class Ingest(faust.Service, ConsumerRebalanceListener):
    """The service that feeds the shards' agents: one consumer, and one task for every shard that it was assigned."""

    logger = logging.getLogger("mode")  # of the library's own lines on start, end and crash

    def __init__(self, settings: WorkerSettings, app: faust.App, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.failure: StreamerError | None = None
        """What ended the service, if an error did."""
        self._settings = settings
        self._table = settings.table
        self._format = settings.live_format
        self._app = app
        self._redis = connect(settings.redis)
        self._topics = kafka_topics(settings.kafka, self._table.name)
        self._turn = threading.Lock()
        self.reader = InputReader(settings)
        self._news = ControlNews(settings.kafka, self._table.name)
        self._anonymizer = Anonymizer(self._table)
        self._held: dict[TopicPartition, HeldShard] = {}
        self.diaries: defaultdict[int, ShardMetrics] = defaultdict(ShardMetrics)
        """What became of each shard that this process was ever given, by number."""
        self.joined = False
        """Whether Kafka has given this worker its shards, be it none, and has not begun to give them out anew."""
        self._given_back: list[HeldShard] = []
        self._checking = False
        self._check_crcs = True
        self._told_no_shard = False

    # -- start and end --------------------------------------------------------------------------------------------

    async def on_start(self) -> None:
        try:
            await asyncio.to_thread(self._check_servers)
            await self.reader.start(self, self._check_crcs)
        except StreamerError as error:
            await self._fail(error)

    def _check_servers(self) -> None:
        """Says at once what no shard could work with: a Redis that forgets, missing topics, no server at all."""
        self._checking = True
        try:
            require_access(servers_of(self._settings.kafka))
            stated = self._table.durability_stated or self._settings.embedded
            require_durable(self._redis, stated)
            where = self._settings.kafka, self._table.name, 0
            state = KafkaInput(*where, self._topics, outputs_of(self._table.form)).state()
            self._check_crcs = bool(state.topic_ids)  # the embedded broker's transaction markers have no checksum
            tell_start(self._settings, address_of(self._redis), state.shards)
        finally:
            self._checking = False

    async def on_stop(self) -> None:
        await self._give_back(list(self._held))
        await self.reader.stop()
        self._anonymizer.close()
        self._news.close()

    @property
    def held(self) -> list[HeldShard]:
        """The shards that Kafka has given to this worker, by number."""
        return sorted(self._held.values(), key=lambda shard: shard.number)

    @property
    def busy(self) -> bool:
        """Whether a thread is still at work, which would keep the process from ending."""
        held = (*self._given_back, *self._held.values())
        beside = self._topics.busy or self._news.busy or self._anonymizer.busy
        return self._checking or beside or any(shard.busy for shard in held)

    async def _fail(self, error: StreamerError) -> None:
        """Ends the service, and with it the worker."""
        self.failure = self.failure or error
        await self.crash(error)

    # -- what Kafka gives and takes -------------------------------------------------------------------------------

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        if self.should_stop:  # assigned on the way out: the next one to ask gets them
            return
        self.joined = True
        for topic_partition in assigned:
            self.reader.hold(topic_partition)
            where = self._settings.kafka, self._table.name, topic_partition.partition
            store = RedisStore(self._redis, self._table.name, topic_partition.partition)
            outlet = KafkaOutlet(*where, outputs := outputs_of(self._table.form), self._format)
            kafka = KafkaInput(*where, self._topics, outputs), outlet
            diary, schemas = self.diaries[topic_partition.partition], self._settings.schemas
            number, beside = topic_partition.partition, (self._anonymizer, self._news)
            shard = HeldShard(self._table, number, store, *kafka, self._turn, *beside, schemas, diary)
            self._held[topic_partition] = shard
            shard.task = self.add_future(self._serve(topic_partition, shard))

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.joined = False
        await self._give_back(revoked)

    async def _give_back(self, taken: Iterable[TopicPartition]) -> None:
        """Drops shards; a step that has begun gets a moment to end, so that the next owner has nothing to resolve."""
        shards = [self._held.pop(topic_partition) for topic_partition in taken if topic_partition in self._held]
        for shard in shards:
            shard.lose("given back")
            shard.close()
        self._given_back = [shard for shard in self._given_back if shard.busy] + shards
        tasks = [shard.task for shard in shards if shard.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=END_OF_STEP_SECONDS_MAX)
        for shard in shards:
            await shard.stop(self._app)

    # -- one shard ------------------------------------------------------------------------------------------------

    async def _serve(self, topic_partition: TopicPartition, shard: HeldShard) -> None:
        """Takes the shard over and reads on until it is lost; begins anew after an error."""
        pause, failure = BACKOFF_FIRST_SECONDS, None
        await shard.start(self._app)
        while not shard.lost and failure is None:
            try:
                await self._take_over(topic_partition, shard)
                while not shard.lost:
                    idle = await self._read_on(topic_partition, shard)
                    pause = BACKOFF_FIRST_SECONDS
                    shard.diary.goes_on()
                    if shard.stalled and not idle:
                        shard.stalled = False
                        await asyncio.to_thread(self._tell_goes_on, shard.number)
                    if not shard.lost:
                        await shard.between(idle)
            except Fenced as error:
                if not shard.lost:  # else it was given back meanwhile: nobody has shut us out
                    log.warning("Fenced: %s", error)
                    shard.diary.fenced += 1
                shard.lose(str(error))
            except (ServerUnreachable, Conflict) as error:
                log.warning("%s: %s; taken over again in %.1f s", type(error).__name__, error, pause)
                shard.diary.failed(str(error))
                if isinstance(error, RegistryUnreachable):  # which `status` does not ask: it looks at the servers alone
                    shard.stalled = True
                    await asyncio.to_thread(self._tell_refusal, shard.number, error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, BACKOFF_LAST_SECONDS)
            except StreamerError as error:
                failure = error
            except Exception as error:
                failure = unexpected(shard.name, error)
        if failure is not None:  # out of the handlers: what logs a crash logs the error being handled, text and all
            await asyncio.to_thread(self._tell_refusal, shard.number, failure)
            await self._fail(failure)

    # What `status` reads in Redis. Where Redis does not take it, the log alone has it, and nothing else is lost.

    def _tell_owner(self, number: int) -> float:
        """Says who holds the shard; returns when somebody held it first, in seconds since 1970."""
        with suppress(StreamerError):
            return RedisLookups(self._redis, self._table.name, number).tell_owner(self._settings.name)
        return time()

    def _tell_goes_on(self, number: int) -> None:
        with suppress(StreamerError):
            RedisLookups(self._redis, self._table.name, number).refusal_is_over()

    def _tell_refusal(self, number: int, failure: StreamerError) -> None:
        with suppress(StreamerError):
            RedisLookups(self._redis, self._table.name, number).tell_refusal(self._settings.name, str(failure))

    async def _take_over(self, topic_partition: TopicPartition, shard: HeldShard) -> None:
        lookups = RedisLookups(self._redis, self._table.name, shard.number)
        await asyncio.to_thread(lookups.check_begun, shard.name)
        offset = await shard.take_over()
        if shard.lost:
            return
        if not shard.told:  # once per assignment: who takes it over again and again has not just begun
            shard.told = True
            shard.since = await asyncio.to_thread(self._tell_owner, shard.number)
        others = (number for number in range(shard.meta.shards) if number != shard.number)
        shard.knows_others([RedisStore(self._redis, self._table.name, number) for number in others])
        self.reader.read_from(topic_partition, offset)

    async def _read_on(self, topic_partition: TopicPartition, shard: HeldShard) -> bool:
        """Reads one batch and waits until it is published; returns whether there was no message.

        The reader's own position stands after transactions' markers and what was aborted: offsets without messages.
        """
        if shard.awaits_groups or shard.is_due:
            await asyncio.sleep(RELEASE_SECONDS)
            return False
        messages = await self.reader.read_batch(topic_partition)
        if shard.lost:
            return False
        through = await self.reader.position(topic_partition)
        if messages or through > shard.next:
            await shard.step(messages, through)
        return not messages

    # -- beside the shards ----------------------------------------------------------------------------------------

    @Service.timer(LAG_SECONDS)
    async def _tell_lag(self) -> None:
        """Writes the offsets to Kafka's group, where tools look for the lag; nobody reads them back."""
        offsets = {
            topic_partition: shard.next
            for topic_partition, shard in self._held.items()
            if shard.next and not shard.lost
        }
        await self.reader.tell_lag(offsets)

    @Service.timer(MINUTE_SECONDS)
    async def _tell_minute(self) -> None:
        """Logs what every shard did, and how far it is behind."""
        for topic_partition, shard in self._held.items():
            if not shard.lost:
                shard.tell_minute(self.reader.end(topic_partition))

    @Service.timer(NO_SHARD_SECONDS)
    async def _look_at_shards(self) -> None:
        self._tell_no_shard()

    def _tell_no_shard(self) -> None:
        """Says once that this worker has nothing to do, be it on purpose or because nobody gets a shard."""
        if not self._held and not self._told_no_shard:
            log.warning("no shard is assigned to this worker: right where there are more workers than shards")
        self._told_no_shard = not self._held

    @Service.timer(WATCH_SECONDS)
    async def _watch(self) -> None:
        """Ends the process where a shard stays lost although Kafka calls it ours."""
        patience = self._settings.session_seconds / 4 + 2
        for topic_partition, shard in self._held.items():
            if shard.lost and monotonic() - shard.lost_at > patience and self.reader.calls_ours(topic_partition):
                end_process(EXIT_LOST, f"{shard.name} was lost and is still assigned to this worker ({shard.lost})")
