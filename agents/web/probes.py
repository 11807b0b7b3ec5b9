"""Asks Kafka and Redis every few seconds whether they are there, beside the shards, and takes note of what they say.

The rules of this file
----------------------
* Kafka is asked where the input ends, by the client that reads it: that is the lag, too. Redis is asked for its clock
  and whether it is full, and until all shards are taken over, whether one was refused; over a connection of our own,
  in a thread of its own.
* Nothing here may end a worker, or keep one from ending: what fails is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from agents.ingest import Ingest
from agents.web.facts import ServerFacts
from agents.web.watch import Watch
from agents.worker_settings import WorkerSettings
from streamer.errors import StreamerError
from streamer.incremental.store.redis_lookups import RedisLookups, RedisNow, server_now
from streamer.incremental.store.redis_server import RedisClient, connect
from streamer.incremental.topics import CHANGES, topic_name

log = logging.getLogger(__name__)

PROBE_SECONDS, FIRST_PROBE_SECONDS = 2.0, 0.5
"""Between two questions; and before Kafka has given the worker its shards."""

KAFKA_SECONDS_MAX = 4.0
REDIS_SECONDS_MAX = 2.0


class Probes:
    """The servers of one worker. watch: gets to know where the input ends."""

    def __init__(self, settings: WorkerSettings, ingest: Ingest, watch: Watch) -> None:
        self._settings = settings
        self._ingest = ingest
        self._watch = watch
        self._topic = topic_name(settings.table.name, CHANGES)
        self._kafka_at = self._redis_at = monotonic()
        self._redis_full = False
        self.refused: Mapping[int, str] = {}
        """Why shards were refused that this worker has, or may get, and has not taken over."""
        self._client: RedisClient | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="redis-probe")
        self._asked: Future[tuple[RedisNow, Mapping[int, str]]] | None = None

    @property
    def busy(self) -> bool:
        """Whether an answer of Redis is still to come."""
        return self._asked is not None and not self._asked.done()

    def facts(self) -> tuple[ServerFacts, ...]:
        """How long ago each answered."""
        now = monotonic()
        return (
            ServerFacts("Kafka", now - self._kafka_at),
            ServerFacts("Redis", now - self._redis_at, self._redis_full),
        )

    async def run(self) -> None:
        """Asks both, again and again, until it is cancelled."""
        await asyncio.gather(self._repeat(self._ask_kafka), self._repeat(self._ask_redis))

    def close(self) -> None:
        """Asks no more; a question that is under way is let end."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _repeat(self, ask: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await ask()
            except (KafkaError, StreamerError, TimeoutError):
                pass  # the time of the last answer says it
            except Exception as error:
                log.warning("a server could not be asked: %s", type(error).__name__)
            await asyncio.sleep(PROBE_SECONDS if self._ingest.joined else FIRST_PROBE_SECONDS)

    async def _ask_kafka(self) -> None:
        consumer, numbers = self._ingest.reader.consumer, self._shards()
        if not numbers:
            return
        places = [TopicPartition(self._topic, number) for number in numbers]
        ends = await asyncio.wait_for(consumer.end_offsets(places), KAFKA_SECONDS_MAX)
        seen = {place: consumer.highwater(place) or 0 for place in consumer.assignment()}  # with open transactions
        self._watch.ends = {place.partition: max(end, seen.get(place, 0)) for place, end in ends.items()}
        self._kafka_at = monotonic()

    async def _ask_redis(self) -> None:
        self._asked = self._thread.submit(self._ask_in_thread, self._not_taken_over())
        now, self.refused = await asyncio.wrap_future(self._asked)
        self._redis_at, self._redis_full = monotonic(), now.full

    def _shards(self) -> list[int]:
        """All shards of the table, as far as the client knows them."""
        consumer = self._ingest.reader.consumer
        return sorted((consumer.partitions_for_topic(self._topic) if consumer is not None else None) or ())

    def _not_taken_over(self) -> list[int]:
        if not self._ingest.joined:
            return self._shards()
        return [shard.number for shard in self._ingest.held if not shard.told]

    def _ask_in_thread(self, numbers: Sequence[int]) -> tuple[RedisNow, Mapping[int, str]]:
        if self._client is None:
            self._client = connect(self._settings.redis, REDIS_SECONDS_MAX)
        now = server_now(self._client)
        lookups = {number: RedisLookups(self._client, self._settings.table.name, number) for number in numbers}
        custodies = {number: one.custody() for number, one in lookups.items()}
        return now, {number: one.refusal.reason for number, one in custodies.items() if one.refusal is not None}
