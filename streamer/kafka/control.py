"""What operators, and other shards, asked of shards, read from the control topic; it is kept for ever and stays small.

The rules of this file
----------------------
* At a take-over a shard's partition is read as a whole. While the shard is served, its end is asked for now and then,
  and what came since is read: in a thread of its own, so that no batch waits for an answer of this topic, and over one
  connection for all shards of the worker.
* What a record asks for is judged elsewhere; here nothing is forgotten and nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from streamer.incremental.shard.requests import Placed, placed_in, skips_of
from streamer.incremental.topics import CONTROL, topic_name
from streamer.kafka.clients import KafkaCalls
from streamer.kafka.errors import READ_RIGHT
from streamer.kafka.reading import CALL_SECONDS_MAX


class KafkaControl:
    """The control topic's partition of one shard; to be used from one thread."""

    def __init__(self, bootstrap: str, table_name: str, shard: int) -> None:
        self._kafka = KafkaCalls(bootstrap, table_name, shard)
        self._place = TopicPartition(topic_name(table_name, CONTROL), shard)

    def skips(self, topic_id: str) -> frozenset[int]:
        """The offsets of the input of that id that are to be skipped. Raises ServerUnreachable, ShardRefused."""
        with self._kafka.failures("reading the control topic", READ_RIGHT, CONTROL), self._kafka.consumer() as consumer:
            return skips_of(self._values(consumer), self._kafka.shard, topic_id)

    def placed(self) -> list[Placed]:
        """The truncations of which the shard said that it has placed them. Raises ServerUnreachable, ShardRefused."""
        with self._kafka.failures("reading the control topic", READ_RIGHT, CONTROL), self._kafka.consumer() as consumer:
            return placed_in(self._values(consumer), self._kafka.shard)

    def _values(self, consumer: Consumer) -> Iterator[bytes]:
        deadline = monotonic() + CALL_SECONDS_MAX
        first, end = self._kafka.watermarks(consumer, self._place)
        return self._kafka.values(consumer, self._place, first, deadline) if first < end else iter(())


@dataclass(frozen=True, slots=True)
class Asked:
    """A record of the control topic; at: when it was written, in seconds since 1970."""

    offset: int
    at: float
    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class News:
    """What came to a shard's partition, and the offset to go on from."""

    asked: tuple[Asked, ...]
    next: int


class ControlNews:
    """News of the control topic for all shards of a worker; to be asked from any thread."""

    def __init__(self, bootstrap: str, table_name: str) -> None:
        self._bootstrap, self._table_name = bootstrap, table_name
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="control")
        self._consumer: Consumer | None = None
        self._last: Future[Any] | None = None

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come."""
        return self._last is not None and not self._last.done()

    def since(self, shard: int, offset: int) -> Future[News]:
        """What was asked of a shard from an offset on; the result raises ServerUnreachable, ShardRefused."""
        self._last = answer = self._thread.submit(self._since, shard, offset)
        return answer

    def close(self) -> None:
        """Lets go of the connection; a call that is under way is let end."""
        self._last = self._thread.submit(self._let_go)
        self._thread.shutdown(wait=False)

    def _since(self, shard: int, offset: int) -> News:
        kafka = KafkaCalls(self._bootstrap, self._table_name, shard)
        place = TopicPartition(topic_name(self._table_name, CONTROL), shard)
        try:
            with kafka.failures("reading the control topic", READ_RIGHT, CONTROL):
                if self._consumer is None:
                    self._consumer = kafka.new_consumer()
                return _news(kafka, self._consumer, place, offset)
        except Exception:
            self._let_go()  # the next one begins anew
            raise

    def _let_go(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def _news(kafka: KafkaCalls, consumer: Consumer, place: TopicPartition, offset: int) -> News:
    first, end = kafka.watermarks(consumer, place)
    start = max(first, offset) if offset <= end else first  # the topic was made anew
    if start >= end:
        return News((), start)
    records = list(kafka.records(consumer, place, start, monotonic() + CALL_SECONDS_MAX))
    consumer.unassign()  # or it would go on fetching
    asked = (Asked(one.offset(), one.timestamp()[1] / 1000, one.value()) for one in records if one.value() is not None)
    return News(tuple(asked), max(end, *(one.offset() + 1 for one in records)) if records else end)
