"""Kafka's C client: consumers, producers and admin clients for workers, commands and tools.

The rules of this file
----------------------
* Every call has a time limit. What Kafka answers becomes an error of ours here, by the one map in `errors`.
* If a secured Kafka gives no connection, the client does not know why: `diagnose` finds out.
* Readers belong to no consumer group that anybody joins, commit nothing, and see committed records only.
* Producers double and lose nothing: idempotent, acks=all.
* While a broker is away each client repeats itself: the log keeps a few lines per period. Commands log nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamer.errors import ServerUnreachable, StreamerError
from streamer.incremental.topics import topic_name
from streamer.kafka import reading
from streamer.kafka.access import for_librdkafka, kafka_settings
from streamer.kafka.diagnose import require_access, shut_out
from streamer.kafka.errors import (
    ADMINISTRATION,
    DESCRIBE,
    NO_CONNECTION,
    NOT_AUTHORIZED,
    READ_RIGHT,
    WRITE,
    Right,
    does_not_answer,
    refused_to_command,
    refused_to_shard,
    topics_named,
    transactions_begun_with,
)
from streamer.kafka.reading import CALL_SECONDS_MAX
from streamer.kafka.settings import servers_of

CONNECT_SECONDS_MAX = 5.0
ABORT_SECONDS_MAX = 2.0
FLUSH_SECONDS_MAX = 30.0
UUID_CHARACTERS = 36

_GIVEN_UP = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Of a record that the client gave up because its transaction had failed: the transaction tells the reason."""


def client_settings(bootstrap: str) -> dict[str, object]:
    """What every C client of this process is made with. Raises ConfigError."""
    return {"bootstrap.servers": bootstrap, "logger": limited("librdkafka"), **for_librdkafka(kafka_settings())}


def reader_settings(group: str, fetch_wait_ms: int = 10) -> dict[str, object]:
    """What else a reader is made with. fetch_wait_ms: short, since as a rule the end is looked for."""
    return {
        "group.id": group,  # the client wants one; nobody joins it
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": fetch_wait_ms,
        "auto.offset.reset": "earliest",
    }


# -- for commands -------------------------------------------------------------------------------------------------


@contextmanager
def reaching(bootstrap: str, *operations: str, transactions: str = "TABLE") -> Iterator[None]:
    """Turns what goes wrong on the way to the broker into ConfigError, UsageError or ServerUnreachable.

    operations: what is done with topics, for a user who is not authorised; reading by default. transactions: how names
    of transactions begin.
    """
    try:
        yield
    except KafkaException as error:
        raise _of_command(bootstrap, error, Right(operations or [READ_RIGHT], ["NAME"]), transactions) from None


def _of_command(bootstrap: str, error: KafkaException, right: Right, transactions: str) -> StreamerError:
    answer, *rights = error.args
    name = answer.name()
    if name == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED":
        right = transactions_begun_with(transactions)
    elif rights:  # whoever raised it knew the topic
        (right,) = rights
    elif topics := topics_named(str(answer)):
        right = Right(right.operations, topics)
    refused = refused_to_command(bootstrap, name, right)
    return refused or shut_out(servers_of(bootstrap)) or does_not_answer(bootstrap, name)


def _command_settings(bootstrap: str) -> dict[str, object]:
    """Who is shut out hears it here: to the client, the broker would seem to be away."""
    require_access(servers_of(bootstrap))
    return {**client_settings(bootstrap), "log_level": 0}


@contextmanager
def open_admin(bootstrap: str) -> Iterator[AdminClient]:
    """An admin client for the time of a `with`."""
    settings = _command_settings(bootstrap)
    with reaching(bootstrap, *ADMINISTRATION):
        admin = AdminClient(settings)
        admin.list_topics(timeout=CONNECT_SECONDS_MAX)
        yield admin


@contextmanager
def open_consumer(bootstrap: str, fetch_wait_ms: int = 10) -> Iterator[Consumer]:
    """A reader of committed records for the time of a `with`; the partitions are assigned by hand."""
    settings = _command_settings(bootstrap)
    with reaching(bootstrap):
        consumer = Consumer({**settings, **reader_settings("streamer", fetch_wait_ms)})
        try:
            consumer.list_topics(timeout=CONNECT_SECONDS_MAX)
            yield consumer
        finally:
            consumer.close()


@contextmanager
def open_writer(bootstrap: str, topic: str, transactional_id: str | None = None) -> Iterator[TopicWriter]:
    """What writes into one topic for the time of a `with`. Raises UsageError if the topic does not exist.

    transactional_id: ends with a UUID, so that no two producers shut each other out.
    """
    settings = {
        **_command_settings(bootstrap),
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 5,
        "batch.size": 256 * 1024,
        "message.max.bytes": 2 << 20,
        "max.in.flight.requests.per.connection": 1,
        "allow.auto.create.topics": False,
    }
    if transactional_id is not None:
        settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": 10_000, "retry.backoff.ms": 5}
    with reaching(bootstrap, WRITE, transactions=(transactional_id or "")[:-UUID_CHARACTERS]):
        producer = Producer(settings)
        reading.shards_in(producer, topic, WRITE)
        if transactional_id is not None:
            producer.init_transactions(CALL_SECONDS_MAX)
    try:
        yield TopicWriter(bootstrap, topic, producer)
    finally:
        producer.purge()  # what was not delivered has been reported already


class Unconfirmed(ServerUnreachable):
    """It is not known whether records were written. name: what the client calls the error."""

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(str(does_not_answer(bootstrap, name)))
        self.name = name


class TopicWriter:
    """Writes a command's records into one topic; raises ConfigError if Kafka does not allow it, and Unconfirmed."""

    def __init__(self, bootstrap: str, topic: str, producer: Producer) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._producer = producer
        self._taken = Confirmations()

    def send(self, value: bytes | None, record_key: bytes | None, partition: int) -> None:
        """Puts a record on its way."""
        with self._confirmed():
            produce(self._producer, self._topic, partition, value, record_key, [], self._taken)

    def flush(self) -> None:
        """Waits until Kafka has confirmed what was sent."""
        with self._confirmed():
            flush(self._producer, FLUSH_SECONDS_MAX)
            self._taken.check()

    def send_to_all(self, value: bytes, partitions: Iterable[int]) -> None:
        """Writes a record to all these partitions, or to none."""
        with self._confirmed(), transaction(self._producer, taken := Confirmations()):
            for partition in partitions:
                produce(self._producer, self._topic, partition, value, None, [], taken)
            flush(self._producer, CALL_SECONDS_MAX)

    @contextmanager
    def _confirmed(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            name, right = error.args[0].name(), Right([WRITE], [self._topic])
            refused = refused_to_command(self._bootstrap, name, right) if name in NOT_AUTHORIZED else None
            raise refused or Unconfirmed(self._bootstrap, name) from None


# -- for workers --------------------------------------------------------------------------------------------------


class KafkaCalls:
    """What the calls about one shard have in common; to be used from one thread."""

    def __init__(self, bootstrap: str, table_name: str, shard: int) -> None:
        self.bootstrap = bootstrap
        self.table_name = table_name
        self.shard = shard
        self.name = f"shard {shard} of {table_name}"

    @contextmanager
    def consumer(self) -> Iterator[Consumer]:
        """A reader of committed records for the time of a `with`."""
        consumer = self.new_consumer()
        try:
            yield consumer
        finally:
            consumer.close()

    def new_consumer(self) -> Consumer:
        """A reader of committed records."""
        return Consumer({**client_settings(self.bootstrap), **reader_settings(f"{self.table_name}-outlet")})

    def watermarks(self, consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
        """First and end offset."""
        return reading.watermarks(consumer, place)

    def values(self, consumer: Consumer, place: TopicPartition, start: int, deadline: float) -> Iterator[bytes]:
        """The values of `records`; no tombstones."""
        values = (record.value() for record in self.records(consumer, place, start, deadline))
        return (value for value in values if value is not None)

    def records(self, consumer: Consumer, place: TopicPartition, start: int, deadline: float) -> Iterator[Message]:
        """The committed records from an offset on, up to the end that the partition has now."""
        at = TopicPartition(place.topic, place.partition, start)
        try:
            yield from chain.from_iterable(reading.batches(consumer, [at], deadline=deadline))
        except ServerUnreachable as error:
            raise ServerUnreachable(f"{self.name}: {error}") from None

    @contextmanager
    def failures(self, doing: str, operation: str = DESCRIBE, *kinds: str) -> Iterator[None]:
        """Turns Kafka's errors into ours. operation, kinds: what is done with which topics of the table."""
        try:
            yield
        except KafkaException as error:
            names = [topic_name(self.table_name, kind) for kind in kinds] or [f"{self.table_name}."]
            raise self._failure(doing, error.args[0], Right([operation], names, prefixed=not kinds)) from None
        except TimeoutError:
            raise ServerUnreachable(f"{self.name}: {doing}: Kafka does not answer") from None

    def _failure(self, doing: str, error: KafkaError, right: Right) -> StreamerError:
        name = error.name()
        refused = refused_to_shard(f"{self.name}: {doing}", name, right, self.table_name)
        if refused is None and name in NO_CONNECTION:
            refused = shut_out(servers_of(self.bootstrap))
        return refused or ServerUnreachable(f"{self.name}: {doing}: Kafka at {self.bootstrap} answers {name}")


# -- producing ----------------------------------------------------------------------------------------------------

OnDelivery = Callable[[KafkaError | None, Message], None]


class Confirmations:
    """What Kafka answers about records that were sent: the first failure."""

    def __init__(self) -> None:
        self._error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() not in _GIVEN_UP:
            self._error = self._error or error

    def check(self) -> None:
        """Raises KafkaException if a record was not taken."""
        if self._error is not None:
            raise KafkaException(self._error)


def produce(
    producer: Producer,
    topic: str,
    partition: int,
    value: bytes | None,
    record_key: bytes | None,
    headers: list[tuple[str, bytes]],
    on_delivery: OnDelivery | None,
) -> None:
    """Queues one record; waits if the client's queue is full. Raises KafkaException."""
    deadline = monotonic() + CALL_SECONDS_MAX
    while True:
        try:
            producer.produce(topic, value, record_key, partition=partition, headers=headers, on_delivery=on_delivery)
        except BufferError:
            if monotonic() > deadline:
                raise ServerUnreachable("Kafka takes no records from the full queue") from None
            producer.poll(0.1)
        else:
            return  # answers are served by `flush`: asking for them here costs a thread switch


def flush(producer: Producer, seconds_max: float) -> None:
    """Waits until Kafka has taken all records; the client raises SystemError if reports follow a fatal error."""
    try:
        left = producer.flush(seconds_max)
    except SystemError as error:
        raise error.__cause__ or error from None
    if left:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


@contextmanager
def transaction(producer: Producer, taken: Confirmations) -> Iterator[None]:
    """What is produced within it becomes visible as a whole, or not at all. Raises KafkaException.

    On an error the transaction is aborted, so that its readers need not wait for its end. That is only an attempt:
    the next producer of the same name resolves the transaction.
    """
    try:
        producer.begin_transaction()
        try:
            yield
            producer.commit_transaction(CALL_SECONDS_MAX)
        finally:
            taken.check()  # why a record was not taken says more than that the transaction cannot be committed
    except Exception:
        with suppress(KafkaException):
            producer.purge()
            producer.abort_transaction(ABORT_SECONDS_MAX)
        raise


# -- what clients write to the log --------------------------------------------------------------------------------

LINES_MAX, PERIOD_SECONDS = 2, 10.0


class AtMost(logging.Filter):
    """Lets `LINES_MAX` lines pass in any `PERIOD_SECONDS`, and says how many it held back."""

    def __init__(self) -> None:
        super().__init__()
        self._began = float("-inf")
        self._passed = self._held_back = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = monotonic()
        if now - self._began >= PERIOD_SECONDS:
            if self._held_back:
                record.msg, record.args = f"{record.getMessage()} ({self._held_back} lines were left out)", ()
            self._began, self._passed, self._held_back = now, 0, 0
        self._passed += 1
        self._held_back += self._passed > LINES_MAX
        return self._passed <= LINES_MAX


def limited(name: str) -> logging.Logger:
    """A logger of which a few lines per period are kept."""
    logger = logging.getLogger(name)
    if not any(isinstance(filter_, AtMost) for filter_ in logger.filters):
        logger.addFilter(AtMost())
    return logger
