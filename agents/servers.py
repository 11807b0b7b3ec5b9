"""Kafka and Redis as a worker's shards use them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Event
from time import monotonic, time

from streamer.errors import StreamerError
from streamer.incremental.shard.input import InputState
from streamer.incremental.store.base import Store
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_lookups import RedisLookups, server_now
from streamer.incremental.store.redis_server import RedisClient, address_of, connect, connect_now, require_durable
from streamer.incremental.topics import published_kinds
from streamer.kafka.background import Background
from streamer.kafka.clients import require_answer
from streamer.kafka.control import ControlReader
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput, kafka_topics
from streamer.worker.settings import WorkerSettings

# A trim says how far its commit is published, so it may arrive late, or never: a later commit's entries stay, and
# whoever takes the shard over trims first. To wait for it would cost every batch one more wait for Redis' disk, and to
# send one for every batch would have the commits of all shards wait for the disk behind it.

TRIM_SECONDS = 0.1
"""The shortest time between two trims of one outbox."""


class WorkerStore(RedisStore):
    """One shard's store in Redis, trimmed in the background. ends: set when the worker ends, and no trim waits."""

    def __init__(self, client: RedisClient, table_name: str, shard: int, background: Background, ends: Event) -> None:
        super().__init__(client, table_name, shard)
        self._background, self._ends = background, ends
        self._newest = "", 0  # fence and commit of the last trim that was asked for
        self._waits, self._trimmed_at = False, -TRIM_SECONDS

    def trim(self, fence: str, commit: int) -> None:
        """As in `Store`, but not at once, and no error is raised: the next commit of the shard shows why."""
        self._newest = fence, commit
        if not self._waits:
            self._waits = True
            with suppress(RuntimeError):  # the worker ends
                self._background.submit(self._trim_now)

    def _trim_now(self) -> None:
        self._ends.wait(self._trimmed_at + TRIM_SECONDS - monotonic())
        self._waits, self._trimmed_at = False, monotonic()  # first: what is asked for from here on may come too late
        with suppress(StreamerError):
            super().trim(*self._newest)


CLOCK_ASKED_SECONDS = 5.0


class RedisClock:
    """The time of Redis, by which epochs of sealed changelogs end: a worker's own clock may be wrong, or be set.

    It is asked in the background now and then; in between, this machine's monotonic clock goes on.
    """

    def __init__(self, client: RedisClient) -> None:
        self._client, self._background = client, Background("clock")
        self._ahead, self._asked_at = time() - monotonic(), -CLOCK_ASKED_SECONDS

    def ask(self) -> None:
        """Asks Redis. Raises ServerUnreachable."""
        began = monotonic()
        self._ahead = server_now(self._client).time - began

    def now(self) -> float:
        """Seconds since 1970."""
        if monotonic() - self._asked_at > CLOCK_ASKED_SECONDS and not self._background.busy:
            self._asked_at = monotonic()
            with suppress(RuntimeError):  # the worker ends
                self._background.submit(self.ask)  # if Redis does not answer, the last answer holds
        return self._ahead + monotonic()

    @property
    def busy(self) -> bool:
        """True if an answer is waited for."""
        return self._background.busy

    def close(self) -> None:
        """Asks no more."""
        self._background.close()


class WorkerServers:
    """Makes what a shard needs of Kafka and Redis; shards are given by their numbers."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings, self._name = settings, settings.table.name
        self._redis = connect(settings.redis)
        self._outputs = published_kinds(settings.table)
        self._topics = kafka_topics(settings.kafka, self._name, self._outputs)
        self._trims, self._ends, self.clock = Background("trims"), Event(), RedisClock(self._redis)
        self.news = ControlReader(settings.kafka, self._name)
        """The control topic, for all shards."""

    @property
    def redis_address(self) -> str:
        """Without a password."""
        return address_of(self._redis)

    def check(self) -> InputState:
        """Raises at once what no shard could work with: a Redis that may lose data, missing topics, no server."""
        connect_now(self._settings.redis)
        self.clock.ask()
        require_answer(self._settings.kafka)
        require_durable(self._redis, stated=self._settings.table.durability_stated or self._settings.embedded)
        return self.input(0).state()

    def store(self, shard: int) -> Store:
        return WorkerStore(self._redis, self._name, shard, self._trims, self._ends)

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
        return any(one.busy for one in (self._topics, self.news, self._trims, self.clock))

    def close(self) -> None:
        """Takes no more."""
        self.news.close()
        self._ends.set()
        self._trims.close()
        self.clock.close()
