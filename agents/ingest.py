"""Reads the input topic and keeps the shards that Kafka gives to this worker.

The rules of this file
----------------------
* The offset in the store is the only truth. Kafka's group offsets are written as a figure of lag, and never read: a
  shard is read from where its take-over says. Where that offset does not exist (`auto_offset_reset="none"`) the shard
  is taken over again, which tells whether the input expired or was made anew; nothing is skipped in silence.
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
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic, time

import faust
from aiokafka import TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from mode import Service

from agents.anonymizer import Anonymizer
from agents.control import ControlNews
from agents.diary import Diary
from agents.input_reader import InputReader
from agents.outlet import KafkaOutlet
from agents.shard import HeldShard
from agents.shard_input import KafkaInput
from agents.shard_thread import EXIT_LOST, end_process, unexpected
from agents.topic_questions import kafka_topics
from agents.worker_log import MINUTE_SECONDS, tell_start
from agents.worker_settings import WorkerSettings
from streamer.errors import Conflict, Fenced, RegistryUnreachable, ServerUnreachable, StreamerError
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_lookups import RedisLookups
from streamer.incremental.store.redis_server import address_of, connect, require_durable
from streamer.incremental.topics import outputs_of
from streamer.kafka.diagnose import require_access
from streamer.kafka.settings import servers_of

log = logging.getLogger(__name__)

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
        self.diaries: defaultdict[int, Diary] = defaultdict(Diary)
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
