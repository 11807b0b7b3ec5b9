"""What operators asked of one shard, read from the control topic as a whole; it is kept for ever and stays small."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

from confluent_kafka import Consumer, TopicPartition

from agents.kafka_calls import CALL_SECONDS_MAX, KafkaCalls
from streamer.incremental.shard.requests import skips_of
from streamer.incremental.topics import CONTROL, topic_name


class KafkaControl:
    """The control topic's partition of one shard; to be used from one thread."""

    def __init__(self, bootstrap: str, table_name: str, shard: int) -> None:
        self._kafka = KafkaCalls(bootstrap, table_name, shard)
        self._place = TopicPartition(topic_name(table_name, CONTROL), shard)

    def skips(self, topic_id: str) -> frozenset[int]:
        """The offsets of the input of that id that are to be passed over. Raises ServerUnreachable, ShardRefused."""
        with self._kafka.failures("reading the control topic"), self._kafka.consumer() as consumer:
            return skips_of(self._values(consumer), self._kafka.shard, topic_id)

    def _values(self, consumer: Consumer) -> Iterator[bytes]:
        deadline = monotonic() + CALL_SECONDS_MAX
        first, end = self._kafka.watermarks(consumer, self._place)
        return self._kafka.values(consumer, self._place, first, deadline) if first < end else iter(())
