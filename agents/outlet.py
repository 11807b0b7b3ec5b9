"""The way out of one shard by Kafka transactions, and nothing else.

The rules of this file
----------------------
* One transactional producer per shard, under a name that stays (`<table>-shard-<n>`): whoever initializes it shuts out
  the one before and has its open transaction aborted. `fence` always makes a new producer.
* A commit's records and the shard's position, a record of `<table>.positions`, go out in one transaction. Offsets are
  not sent in it (`send_offsets_to_transaction` hangs after a restart of the broker): the position says all.
* Every record goes to the partition that has the shard's number, whatever its key.
* One request at a time: where the first of several is refused because a topic has no leader yet, the broker takes the
  second as the beginning, calls the repeated first one a duplicate, and commits a transaction without its records.
* Whatever fails, the producer is done with: `fence` begins anew, and `position` tells what became of the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from agents.kafka_calls import CALL_SECONDS_MAX, KafkaCalls
from streamer.errors import ServerUnreachable
from streamer.incremental.last_record import last_value
from streamer.incremental.release.records import Outgoing
from streamer.incremental.shard.outlet import Position
from streamer.incremental.topics import BATCH_BYTES_MAX, POSITIONS, topic_name

ABORT_SECONDS_MAX = 2.0
TRANSACTION_MS_MAX = 30_000


_GIVEN_UP = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Of a record that the client gave up because its transaction had failed: the reason is told by the transaction."""


class KafkaOutlet:
    """The outlet of one shard; to be used from one thread. Implements `streamer.incremental.shard.outlet.Outlet`."""

    def __init__(self, bootstrap: str, table_name: str, shard: int) -> None:
        self._kafka = KafkaCalls(bootstrap, table_name, shard)
        self._producer: Producer | None = None
        self.check_output: Callable[[], None] = lambda: None
        """Called before a transaction ends; raises Conflict where the output is not what was taken over."""

    # -- shutting the former writer out ---------------------------------------------------------------------------

    def fence(self) -> None:
        self._producer = None
        with self._kafka.failures("shutting out the former writer"):
            producer = Producer(self._producer_settings())
            producer.init_transactions(CALL_SECONDS_MAX)
        self._producer = producer

    def _producer_settings(self) -> dict[str, object]:
        return {
            **self._kafka.settings(),
            "transactional.id": f"{self._kafka.table_name}-shard-{self._kafka.shard}",
            "transaction.timeout.ms": TRANSACTION_MS_MAX,
            "acks": "all",
            "message.max.bytes": BATCH_BYTES_MAX,
            "max.in.flight.requests.per.connection": 1,
            "linger.ms": 1,
            "retry.backoff.ms": 2,  # a transaction that follows another waits for its end in steps of this
            "retry.backoff.max.ms": 20,
        }

    # -- publishing -----------------------------------------------------------------------------------------------

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        producer, self._producer = self._producer, None  # an error below leaves the outlet to be fenced anew
        if producer is None:
            raise ServerUnreachable(f"{self._kafka.name}: the outlet has no producer: call fence first")
        with self._kafka.failures("publishing"), _aborted_on_error(producer):
            failed = _FailedDeliveries()
            producer.begin_transaction()
            for record in records:
                topic = topic_name(self._kafka.table_name, record.topic)
                self._produce(producer, topic, record.key, record.value, list(record.headers), failed)
            positions = topic_name(self._kafka.table_name, POSITIONS)
            self._produce(producer, positions, b"%d" % self._kafka.shard, position.to_json(), [], failed)
            try:
                _flush(producer)
                self.check_output()  # all records are taken: if by another topic of that name, nobody shall see them
                producer.commit_transaction(CALL_SECONDS_MAX)
            finally:
                failed.check()  # why a record was not taken says more than that the transaction cannot be committed
        self._producer = producer

    def _produce(
        self,
        producer: Producer,
        topic: str,
        record_key: bytes,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
        on_delivery: Callable[[KafkaError | None, Message], None],
    ) -> None:
        """Queues one record; waits where the client's queue is full."""
        deadline = monotonic() + CALL_SECONDS_MAX
        while True:
            try:
                producer.produce(
                    topic, value, record_key, partition=self._kafka.shard, headers=headers, on_delivery=on_delivery
                )
            except BufferError:
                if monotonic() > deadline:
                    raise ServerUnreachable(f"{self._kafka.name}: Kafka takes no records from the full queue") from None
                producer.poll(0.1)
            else:
                return  # answers are served while the transaction commits: asking for them here costs a thread switch

    # -- reading back ---------------------------------------------------------------------------------------------

    def position(self) -> Position | None:
        positions = TopicPartition(topic_name(self._kafka.table_name, POSITIONS), self._kafka.shard)
        with self._kafka.failures("reading the position"), self._kafka.consumer() as consumer:
            deadline = monotonic() + CALL_SECONDS_MAX
            first, end = self._kafka.watermarks(consumer, positions)
            value = last_value(first, end, lambda start: self._kafka.values(consumer, positions, start, deadline))
        return None if value is None else Position.from_json(value)


def _flush(producer: Producer) -> None:
    """Waits until Kafka has taken all records; the client raises SystemError where reports follow a fatal error."""
    try:
        left = producer.flush(CALL_SECONDS_MAX)
    except SystemError as error:
        raise error.__cause__ or error from None
    if left:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


class _FailedDeliveries:
    """Remembers the first record that could not be delivered."""

    def __init__(self) -> None:
        self._error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() not in _GIVEN_UP:
            self._error = self._error or error

    def check(self) -> None:
        if self._error is not None:
            raise KafkaException(self._error)


@contextmanager
def _aborted_on_error(producer: Producer) -> Iterator[None]:
    """Aborts the transaction on the way out of an error, so that its readers need not wait for its end.

    Only an attempt: whatever becomes of it, the next `fence` resolves the transaction.
    """
    try:
        yield
    except Exception:
        with suppress(KafkaException):
            producer.purge()
            producer.abort_transaction(ABORT_SECONDS_MAX)
        raise
