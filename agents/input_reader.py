"""The consumer of the input topic: reads assigned partitions, and gathers what has come into batches."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import AbstractTokenProvider, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaConnectionError, KafkaError, UnknownTopicOrPartitionError

from agents.shard_thread import unexpected
from streamer.errors import ServerUnreachable, StreamerError
from streamer.incremental.shard.input import Message
from streamer.incremental.topics import CHANGES, topic_name
from streamer.kafka.access import fetch_token, for_python_clients, kafka_settings
from streamer.kafka.errors import READ_RIGHT, Right, refused_to_shard
from streamer.kafka.settings import TokenEndpoint
from streamer.table.schema import Limits
from streamer.worker.settings import WorkerSettings

log = logging.getLogger(__name__)

POLL_MS = 200
LEAVE_SECONDS_MAX = 2.0
"""How long leaving the consumer group may take; without an answer, the session ends by itself."""

METADATA_MS_MAX = 5_000
"""How long the client may use an old number of partitions."""

REQUEST_MS_MIN = 40_000  # the default of the client

NOWHERE = 2**31 - 1
"""A partition that no topic has."""

POLL_INTERVAL_MS_MAX = 3_600_000
"""Kafka's limit between two reads. Ours (per step, per take-over) are shorter; loading a large shard is not a fault."""


class _LoopTokens(AbstractTokenProvider):
    """aiokafka's token provider: a new token for every connection."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint

    async def token(self) -> str:
        """Raises KafkaConnectionError: an error of another kind ends the client's tasks, and no one reads any more."""
        try:
            return (await asyncio.to_thread(fetch_token, self._endpoint)).text
        except StreamerError as error:
            raise KafkaConnectionError(str(error)) from None


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
        self._first_at = 0.0  # when the first of these messages came, or was left behind, by the monotonic clock
        self._failure: Exception | None = None
        self._came, self._room = asyncio.Event(), asyncio.Event()
        self.reading: asyncio.Future[None] | None = None  # the task that adds what comes

    def add(self, messages: Sequence[Message], through: int) -> None:
        """Adds what was read. through: as in `Batch`."""
        self._through = through
        if messages:
            self._first_at = self._first_at if self._messages else monotonic()
            self._messages.extend(messages)
            self._n_bytes += sum([len(message.value or b"") for message in messages])
            self._came.set()

    def fail(self, error: Exception) -> None:
        """Has the next `take` raise the error: nothing more comes."""
        self._failure = error
        self._came.set()

    @property
    def is_full(self) -> bool:
        return self._has(BATCHES_WAITING)

    def _has(self, batches: int) -> bool:
        return len(self._messages) >= batches * self._events_max or self._n_bytes >= batches * BATCH_BYTES_MAX

    async def until_room(self) -> None:
        """Waits until it is not full."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    async def take(self, seconds_max: float) -> Batch:
        """The next batch; an empty one if no message comes within `seconds_max`. Raises what `fail` was told."""
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


def assignor() -> type[AbstractPartitionAssignor]:
    """How Kafka's group gives out shards: evenly, and as few as possible move.

    The class is new each time, as it remembers what one consumer was given. The client takes several, but then joins
    the group once for each: workers that start together keep each other from ever getting a shard.
    """
    return type("Sticky", (StickyPartitionAssignor,), {})


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
        self.consumer: Any = None  # the AIOKafkaConsumer; None before `start`

    async def start(self, listener: ConsumerRebalanceListener, is_embedded: bool) -> None:
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
            partition_assignment_strategy=[assignor()],
            check_crcs=not is_embedded,  # its transaction markers have no checksum
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // 4,
            metadata_max_age_ms=METADATA_MS_MAX,
            request_timeout_ms=max(REQUEST_MS_MIN, session_ms + REQUEST_MS_MIN // 4),  # to join may take a session
            max_poll_interval_ms=POLL_INTERVAL_MS_MAX,
            fetch_max_wait_ms=POLL_MS // 4,  # a shard with new messages may wait this long for a fetch of others
        )
        try:
            await self.consumer.start()
        except KafkaError as error:
            raise failure_of(f"Kafka at {self._settings.kafka}", error, self._topic) from None
        self.consumer.subscribe([self._topic], listener=listener)

    async def keep_joined(self) -> None:
        """Raises what keeps this worker out of its group: the client tries again only after it has been asked.

        To be called every now and then, as it counts as reading: a worker that is given no shard reads nothing, and the
        client leaves the group for good after `POLL_INTERVAL_MS_MAX`. Raises ServerUnreachable, ShardRefused,
        ConfigError; Unexpected if the client can never read again.
        """
        for task in (self.consumer._client._sync_task, self.consumer._fetcher._fetch_task):
            if task is not None and task.done() and not task.cancelled():  # the client tells no one
                raise unexpected("the client that reads the input", task.exception() or RuntimeError())
        try:
            await self.consumer.getmany(TopicPartition(self._topic, NOWHERE), timeout_ms=0)
        except KafkaError as error:
            raise failure_of(f"joining the consumer group {self._settings.app_id}", error, self._topic) from None
        except Exception as error:  # what has just ended one of its tasks
            raise unexpected("the client that reads the input", error) from None

    async def stop(self) -> None:
        """Leaves the consumer group."""
        if self.consumer is not None:
            with suppress(Exception):  # also what once ended a task of the client
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
        """True if Kafka assigns a partition to this worker."""
        return topic_partition in self.consumer.assignment()

    def end(self, topic_partition: TopicPartition) -> int:
        """The end of the input, as far as the client knows it."""
        return self.consumer.highwater(topic_partition) or 0

    async def next_batch(self, topic_partition: TopicPartition) -> Batch:
        """The next batch; empty if nothing comes for a moment, or the partition was left.

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
