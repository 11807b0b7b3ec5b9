"""The client that reads the input topic, for all shards of this worker, and what its answers and errors mean.

It reads from where a shard's take-over says and nowhere else: no offset is looked for in Kafka's group, and none is
reset. A batch is what comes within the table's limits of time and size after its first message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import AbstractTokenProvider, ConsumerRebalanceListener
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from agents.worker_settings import WorkerSettings
from streamer.errors import ServerUnreachable, StreamerError
from streamer.incremental.shard.input import Message
from streamer.incremental.topics import CHANGES, topic_name
from streamer.kafka.access import fetch_token, for_python_clients, kafka_settings
from streamer.kafka.errors import READ, Right, refused_to_shard
from streamer.kafka.settings import TokenEndpoint

log = logging.getLogger(__name__)

POLL_MS = 200
BATCH_BYTES_MAX = 4_000_000
LEAVE_SECONDS_MAX = 2.0
"""How long Kafka may take to hear that we leave; where it does not answer, our silence will tell it."""

METADATA_MS_MAX = 5_000
"""How long the client may go on with an old number of partitions."""

POLL_INTERVAL_MS_MAX = 3_600_000
"""Kafka's limit between two reads. Ours (per step, per take-over) are shorter; loading a large shard is not a fault."""


class _Tokens(AbstractTokenProvider):
    """A token for every connection, asked for within the event loop."""

    def __init__(self, endpoint: TokenEndpoint) -> None:
        self._endpoint = endpoint

    async def token(self) -> str:
        return (await asyncio.to_thread(fetch_token, self._endpoint)).text


def reader_access() -> dict[str, Any]:
    """Keywords of an AIOKafkaConsumer. Raises ConfigError."""
    return for_python_clients(kafka_settings(), _Tokens)


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
        refused = refused_to_shard(doing, name, Right([READ], [topic]), table_name)
    return refused or ServerUnreachable(f"{doing}: Kafka answers {type(error).__name__}")


def _size(messages: Iterable[Message]) -> int:
    return sum(len(message.value or b"") for message in messages)
