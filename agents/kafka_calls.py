"""How this process talks to Kafka about one shard, through its C client: settings, limits, and what errors mean.

The rules of this file
----------------------
* Every call has a time limit. Being shut out is `Fenced`; everything else that Kafka answers, or does not answer, is
  `ServerUnreachable`.
* A question that came too early, to a topic just made or a broker just restarted, is asked again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from agents.kafka_log import librdkafka_logger
from streamer.errors import Fenced, ServerUnreachable

CALL_SECONDS_MAX = 20.0
"""Limit of each wait for Kafka: longer than a broker needs to serve transactions again after a crash."""

_SHUT_OUT = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH})

_NO_LEADER_YET = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
LEADER_SECONDS = 0.1
"""Wait before a question that came too early is asked again."""


class KafkaCalls:
    """What the calls about one shard have in common; to be used from one thread."""

    def __init__(self, bootstrap: str, table_name: str, shard: int) -> None:
        self.bootstrap = bootstrap
        self.table_name = table_name
        self.shard = shard
        self.name = f"shard {shard} of {table_name}"

    def settings(self) -> dict[str, object]:
        """What every client is made with."""
        return {"bootstrap.servers": self.bootstrap, "logger": librdkafka_logger()}

    @contextmanager
    def consumer(self) -> Iterator[Consumer]:
        """A reader of committed records, in no group that anybody joins."""
        consumer = Consumer(
            {
                **self.settings(),
                "group.id": f"{self.table_name}-outlet",  # the client wants one; nobody joins it
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,  # the end is what is looked for, so there is nothing to wait for
                "auto.offset.reset": "earliest",
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    def watermarks(self, consumer: Consumer, topic_partition: TopicPartition) -> tuple[int, int]:
        """First and end offset; asked again while the cluster is still settling who leads."""
        deadline = monotonic() + CALL_SECONDS_MAX
        while True:
            try:
                first, end = consumer.get_watermark_offsets(topic_partition, timeout=CALL_SECONDS_MAX, cached=False)
            except KafkaException as error:
                if error.args[0].code() not in _NO_LEADER_YET or monotonic() > deadline:
                    raise
                sleep(LEADER_SECONDS)
            else:
                return first, end

    @contextmanager
    def failures(self, doing: str) -> Iterator[None]:
        """Turns Kafka's errors into ours."""
        try:
            yield
        except KafkaException as error:
            raise self._failure(doing, error.args[0]) from None
        except TimeoutError:
            raise ServerUnreachable(f"{self.name}: {doing}: Kafka does not answer") from None

    def _failure(self, doing: str, error: KafkaError) -> Fenced | ServerUnreachable:
        if error.code() in _SHUT_OUT or error.fatal():
            return Fenced(f"{self.name}: {doing}: Kafka has shut this producer out ({error.name()})")
        return ServerUnreachable(f"{self.name}: {doing}: Kafka at {self.bootstrap} answers {error.name()}")
