"""Reads the control topic: requests of operators, ends of epochs, and secrets. It is kept for ever, and small.

The rules of this file
----------------------
* A take-over reads the whole partition of the shard. Afterwards new records are read now and then: in a thread of its
  own, so that no batch waits for this topic, and over one connection for all shards of the worker.
* Nothing here interprets a record or remembers one.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

from confluent_kafka import Consumer

from streamer.incremental.shard.input import KeptSecret
from streamer.incremental.shard.ready import Request
from streamer.incremental.shard.requests import EpochOver, epochs_in, secrets_in, skips_of
from streamer.incremental.topics import CONTROL
from streamer.kafka.background import Background
from streamer.kafka.clients import KafkaCalls
from streamer.kafka.errors import READ_RIGHT
from streamer.kafka.secret_records import kept_in, secret_keys


class KafkaControl:
    """The control topic's partition of one shard; to be used from one thread."""

    def __init__(self, bootstrap: str, table_name: str, shard: int) -> None:
        self._kafka = KafkaCalls(bootstrap, table_name, shard)

    def skips(self, topic_id: str) -> frozenset[int]:
        """The offsets to skip, of the input with that id. Raises ServerUnreachable, ShardRefused."""
        return skips_of(self._values(), self._kafka.shard, topic_id)

    def epochs_over(self) -> list[EpochOver]:
        """The ends of epochs, as the shard said. Raises ServerUnreachable, ShardRefused."""
        return epochs_in(self._values(), self._kafka.shard)

    def secret(self) -> KeptSecret:
        """The shard's secret, if it is kept. Raises ServerUnreachable, ShardRefused, ConfigError."""
        records = secrets_in(self._values(), self._kafka.shard)
        return kept_in(records, secret_keys(), self._kafka.table_name, self._kafka.shard)

    def _values(self) -> list[bytes]:
        with self._kafka.failures("reading the control topic", READ_RIGHT, CONTROL), self._kafka.consumer() as consumer:
            first, end = self._kafka.watermarks(consumer, CONTROL)
            records = self._kafka.records(consumer, CONTROL, first) if first < end else ()
            return [value for record in records if (value := record.value()) is not None]


@dataclass(frozen=True, slots=True)
class News:
    """New records of a shard's partition, and the offset to read from the next time."""

    asked: tuple[Request, ...] = field(repr=False)
    next: int


class ControlReader:
    """New records of the control topic, for all shards of a worker; may be called from any thread."""

    def __init__(self, bootstrap: str, table_name: str) -> None:
        self._bootstrap, self._table_name = bootstrap, table_name
        self._background = Background("control")
        self._consumer: Consumer | None = None

    @property
    def busy(self) -> bool:
        return self._background.busy

    def since(self, shard: int, offset: int) -> Future[News]:
        """A shard's records from an offset on. The result raises ServerUnreachable, ShardRefused."""
        return self._background.submit(self._since, shard, offset)

    def close(self) -> None:
        """Closes the connection after the call that is running, if any."""
        self._background.submit(self._disconnect)
        self._background.close()

    def _since(self, shard: int, offset: int) -> News:
        kafka = KafkaCalls(self._bootstrap, self._table_name, shard)
        try:
            with kafka.failures("reading the control topic", READ_RIGHT, CONTROL):
                if self._consumer is None:
                    self._consumer = kafka.new_consumer()
                return _news(kafka, self._consumer, offset)
        except Exception:
            self._disconnect()  # the next call connects again
            raise

    def _disconnect(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def _news(kafka: KafkaCalls, consumer: Consumer, offset: int) -> News:
    first, end = kafka.watermarks(consumer, CONTROL)
    start = max(first, offset) if offset <= end else first  # beyond the end: the topic was recreated
    if start >= end:
        return News((), start)
    records = list(kafka.records(consumer, CONTROL, start))
    consumer.unassign()  # or it would go on fetching
    asked = (
        Request(one.offset(), one.timestamp()[1] / 1000, one.value()) for one in records if one.value() is not None
    )
    return News(tuple(asked), max(end, *(one.offset() + 1 for one in records)) if records else end)
