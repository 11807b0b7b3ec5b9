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
* A `live` made anew is told by the offsets that its records get, before the transaction ends (`shard.live_end`).
* Whatever fails, the producer is done with: `fence` begins anew, and `position` tells what became of the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from agents.kafka_calls import CALL_SECONDS_MAX, KafkaCalls
from streamer.errors import Conflict, ServerUnreachable
from streamer.incremental.last_record import last_value
from streamer.incremental.release.records import Outgoing
from streamer.incremental.shard.live_end import LiveEnd
from streamer.incremental.shard.outlet import Position
from streamer.incremental.topics import BATCH_BYTES_MAX, LIVE, POSITIONS, topic_name

ABORT_SECONDS_MAX = 2.0
TRANSACTION_MS_MAX = 30_000
_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
_GIVEN_UP = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Of a record that the client gave up because its transaction had failed: the reason is told by the transaction."""


class KafkaOutlet:
    """The outlet of one shard; to be used from one thread. Implements `streamer.incremental.shard.outlet.Outlet`."""

    def __init__(self, bootstrap: str, table_name: str, shard: int) -> None:
        self._kafka = KafkaCalls(bootstrap, table_name, shard)
        self._producer: Producer | None = None
        self._live_end = LiveEnd(0)

    # -- shutting the former writer out ---------------------------------------------------------------------------

    def fence(self) -> None:
        self._producer = None
        with self._kafka.failures("shutting out the former writer"):
            producer = Producer(self._producer_settings())
            producer.init_transactions(CALL_SECONDS_MAX)
            with self._kafka.consumer() as consumer:
                _, end = self._kafka.watermarks(consumer, self._place(LIVE))
        self._live_end = LiveEnd(end)
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
        taken = _Taken(topic_name(self._kafka.table_name, LIVE), self._live_end)
        with self._kafka.failures("publishing"), self._conflict_where_missing(), _aborted_on_error(producer):
            producer.begin_transaction()
            for record in records:
                topic = topic_name(self._kafka.table_name, record.topic)
                self._produce(producer, topic, record.key, record.value, list(record.headers), taken)
            positions = topic_name(self._kafka.table_name, POSITIONS)
            self._produce(producer, positions, b"%d" % self._kafka.shard, position.to_json(), [], taken)
            try:
                _flush(producer)
                self._check_same_live()  # before the transaction ends: nobody shall see what another topic took
                producer.commit_transaction(CALL_SECONDS_MAX)
            finally:
                taken.check()  # why a record was not taken says more than that the transaction cannot be committed
        self._producer = producer

    @contextmanager
    def _conflict_where_missing(self) -> Iterator[None]:
        """A topic that is missing may be on its way: whether it is, the take-over that follows waits to see."""
        try:
            yield
        except KafkaException as error:
            if error.args[0].code() not in _MISSING:
                raise
            raise Conflict(f"{self._kafka.name}: a topic is gone since the shard was taken over") from None

    def _check_same_live(self) -> None:
        if self._live_end.fell:
            name = topic_name(self._kafka.table_name, LIVE)
            raise Conflict(f"{self._kafka.name}: made anew since the shard was taken over: {name}")

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
        positions = self._place(POSITIONS)
        with self._kafka.failures("reading the position"), self._kafka.consumer() as consumer:
            deadline = monotonic() + CALL_SECONDS_MAX
            first, end = self._kafka.watermarks(consumer, positions)
            value = last_value(first, end, lambda start: self._kafka.values(consumer, positions, start, deadline))
        return None if value is None else Position.from_json(value)

    def _place(self, kind: str) -> TopicPartition:
        return TopicPartition(topic_name(self._kafka.table_name, kind), self._kafka.shard)


def _flush(producer: Producer) -> None:
    """Waits until Kafka has taken all records; the client raises SystemError where reports follow a fatal error."""
    try:
        left = producer.flush(CALL_SECONDS_MAX)
    except SystemError as error:
        raise error.__cause__ or error from None
    if left:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


class _Taken:
    """What Kafka answers about the records of a transaction: the first failure, and where `live` took them."""

    def __init__(self, live: str, live_end: LiveEnd) -> None:
        self._live = live
        self._live_end = live_end
        self._error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            if message.topic() == self._live:
                self._live_end.took(message.offset())
        elif error.code() not in _GIVEN_UP:
            self._error = self._error or error

    def check(self) -> None:
        """Raises KafkaException where a record was not taken."""
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
