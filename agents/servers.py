"""Kafka and Redis as a worker's shards use them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from streamer.errors import StreamerError
from streamer.incremental.shard.input import InputState
from streamer.incremental.store.base import Store
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_lookups import RedisLookups
from streamer.incremental.store.redis_server import RedisClient, address_of, connect, connect_now, require_durable
from streamer.incremental.topics import published_kinds
from streamer.kafka.clients import require_answer
from streamer.kafka.control import ControlReader
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput, kafka_topics
from streamer.worker.settings import WorkerSettings

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


class WorkerServers:
    """Makes what a shard needs of Kafka and Redis; shards are given by their numbers."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings, self._name = settings, settings.table.name
        self._redis = connect(settings.redis)
        self._topics = kafka_topics(settings.kafka, self._name)
        self._outputs = published_kinds(settings.table)
        self._trims = Trims()
        self.news = ControlReader(settings.kafka, self._name)
        """The control topic, for all shards."""

    @property
    def redis_address(self) -> str:
        """Without a password."""
        return address_of(self._redis)

    def check(self) -> InputState:
        """Raises at once what no shard could work with: a Redis that may lose data, missing topics, no server."""
        connect_now(self._settings.redis)
        require_answer(self._settings.kafka)
        require_durable(self._redis, stated=self._settings.table.durability_stated or self._settings.embedded)
        return self.input(0).state()

    def store(self, shard: int) -> Store:
        return WorkerStore(self._redis, self._name, shard, self._trims)

    def store_to_read(self, shard: int) -> Store:
        """Of a shard that may be another worker's."""
        return RedisStore(self._redis, self._name, shard)

    def lookups(self, shard: int) -> RedisLookups:
        return RedisLookups(self._redis, self._name, shard)

    def input(self, shard: int) -> KafkaInput:
        return KafkaInput(self._settings.kafka, self._name, shard, self._topics, self._outputs)

    def outlet(self, shard: int) -> KafkaOutlet:
        return KafkaOutlet(self._settings.kafka, self._name, shard, self._outputs, self._settings.live_format)

    @property
    def busy(self) -> bool:
        """Whether a thread is still running, which would keep the process from ending."""
        return any(one.busy for one in (self._topics, self.news, self._trims))

    def close(self) -> None:
        """Takes no more."""
        self.news.close()
        self._trims.close()
