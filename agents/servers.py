"""Kafka and Redis as a worker's shards use them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from streamer.errors import StreamerError
from streamer.incremental.shard.input import InputState
from streamer.incremental.store.base import Store
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_lookups import RedisLookups
from streamer.incremental.store.redis_server import RedisClient, address_of, connect, connect_now, require_durable
from streamer.incremental.topics import published_kinds
from streamer.kafka.background import Background
from streamer.kafka.clients import require_answer
from streamer.kafka.control import ControlReader
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput, kafka_topics
from streamer.worker.settings import WorkerSettings

# A trim says how far its commit is published, so it may arrive late, or never: a later commit's entries stay, and
# whoever takes the shard over trims first. To wait for it would cost every batch one more wait for Redis' disk.


class WorkerStore(RedisStore):
    """One shard's store in Redis, trimmed in the background."""

    def __init__(self, client: RedisClient, table_name: str, shard: int, background: Background) -> None:
        super().__init__(client, table_name, shard)
        self._background = background

    def trim(self, fence: str, commit: int) -> None:
        """As in `Store`, but not at once, and no error is raised: the next commit of the shard shows why."""
        with suppress(RuntimeError):  # the worker ends
            self._background.submit(self._trim_now, fence, commit)

    def _trim_now(self, fence: str, commit: int) -> None:
        with suppress(StreamerError):
            super().trim(fence, commit)


class WorkerServers:
    """Makes what a shard needs of Kafka and Redis; shards are given by their numbers."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings, self._name = settings, settings.table.name
        self._redis = connect(settings.redis)
        self._topics = kafka_topics(settings.kafka, self._name)
        self._outputs = published_kinds(settings.table)
        self._trims = Background("trims")
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

    def other_stores(self, shard: int, shards: int) -> Sequence[Store]:
        """Those of the table's other shards, which may be other workers'; only to be read."""
        return [RedisStore(self._redis, self._name, number) for number in range(shards) if number != shard]

    def lookups(self, shard: int) -> RedisLookups:
        return RedisLookups(self._redis, self._name, shard)

    def input(self, shard: int) -> KafkaInput:
        return KafkaInput(self._settings.kafka, self._name, shard, self._topics, self._outputs)

    def outlet(self, shard: int) -> KafkaOutlet:
        return KafkaOutlet(self._settings.kafka, self._name, shard, self._outputs, self._settings.live_format)

    @property
    def busy(self) -> bool:
        """True if a thread is still running, which would keep the process from ending."""
        return any(one.busy for one in (self._topics, self.news, self._trims))

    def close(self) -> None:
        """Takes no more."""
        self.news.close()
        self._trims.close()
