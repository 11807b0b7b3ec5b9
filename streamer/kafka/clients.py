"""confluent-kafka's consumers, producers and admin clients for workers, commands and tools.

The rules of this file
----------------------
* Every call has a time limit. KafkaException becomes an error of ours here, by the map in `streamer.kafka.errors`.
* Consumers join no consumer group, commit no offsets, and read committed records only.
* Producers neither duplicate nor lose records: idempotent, acks=all.
* While a broker is down, each client repeats its log lines: a worker's log keeps a few per period, a command's none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from time import monotonic

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamer.errors import ServerUnreachable, StreamerError, UsageError
from streamer.incremental.topics import topic_name
from streamer.kafka import errors, reading
from streamer.kafka.access import for_librdkafka, kafka_settings
from streamer.kafka.diagnose import require_access
from streamer.kafka.errors import ADMINISTRATION, DESCRIBE, READ_RIGHT, WRITE, Right
from streamer.kafka.reading import CALL_SECONDS_MAX
from streamer.kafka.settings import servers_of

log = logging.getLogger(__name__)

WORD_SECONDS, CONNECT_SECONDS_MAX = 2.0, 5.0
"""A command waits as long for a Kafka that is still starting or is silent: without a word, and in all."""

ABORT_SECONDS_MAX = 2.0
FLUSH_SECONDS_MAX = 30.0
UUID_CHARACTERS = 36

_GIVEN_UP = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""The client gave the record up because its transaction had failed; the transaction's own error says why."""


def client_settings(bootstrap: str) -> dict[str, object]:
    """The settings of every librdkafka client. Raises ConfigError."""
    return {"bootstrap.servers": bootstrap, "logger": limited("librdkafka"), **for_librdkafka(kafka_settings())}


def reader_settings(group: str, fetch_wait_ms: int = 10, committed: bool = True) -> dict[str, object]:
    """The further settings of a consumer. fetch_wait_ms: short, as most callers read to the end."""
    return {
        "group.id": group,  # the client needs one, and does not join it
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": fetch_wait_ms,
        "auto.offset.reset": "earliest",
    }


# -- for commands -------------------------------------------------------------------------------------------------


@contextmanager
def reaching(bootstrap: str, *operations: str, transactions: str = "TABLE") -> Iterator[None]:
    """Turns Kafka's errors into ConfigError, UsageError or ServerUnreachable.

    operations: what the block does with topics, for the message about a missing right; reading by default.
    transactions: the prefix of its transactional ids.
    """
    try:
        yield
    except KafkaException as error:
        raise _of_command(bootstrap, error, Right(operations or [READ_RIGHT], ["NAME"]), transactions) from None


def _of_command(bootstrap: str, error: KafkaException, right: Right, transactions: str) -> StreamerError:
    answer, *rights = error.args
    name = answer.name()
    if name == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED":
        right = errors.transactions_begun_with(transactions)
    elif rights:  # the code that raised the error knew the topic
        (right,) = rights
    elif topics := errors.topics_named(str(answer)):
        right = Right(right.operations, topics)
    return errors.command_error(bootstrap, name, right, unanswered=name)


def _command_settings(bootstrap: str) -> dict[str, object]:
    """Raises the reason if the broker refuses our login; to the client, the broker would seem to be down."""
    require_access(servers_of(bootstrap))
    return {**client_settings(bootstrap), "log_level": 0}


def require_answer(bootstrap: str) -> None:
    """Raises ServerUnreachable if Kafka does not answer within a few seconds, and what else `open_consumer` raises."""
    with open_consumer(bootstrap):
        pass


def _await_answer(bootstrap: str, client: AdminClient | Consumer | Producer, began: float) -> None:
    """Waits for Kafka's first answer, and says so if that takes a while. Raises KafkaException.

    began: when the command first asked, by the monotonic clock.
    """
    until = began + CONNECT_SECONDS_MAX
    try:
        client.list_topics(timeout=max(0.1, min(WORD_SECONDS, until - monotonic())))
    except KafkaException as error:
        left = until - monotonic()
        if error.args[0].name() not in errors.NO_ANSWER or left <= 0:
            raise
        log.warning("waiting for Kafka at %s, which does not answer yet", bootstrap)
        client.list_topics(timeout=left)


@contextmanager
def open_admin(bootstrap: str) -> Iterator[AdminClient]:
    """An admin client for a `with` block."""
    began, settings = monotonic(), _command_settings(bootstrap)
    with reaching(bootstrap, *ADMINISTRATION):
        admin = AdminClient(settings)
        _await_answer(bootstrap, admin, began)
        yield admin


@contextmanager
def open_consumer(bootstrap: str, fetch_wait_ms: int = 10, committed: bool = True) -> Iterator[Consumer]:
    """A consumer for a `with` block, of committed records or of all; the caller assigns its partitions."""
    began, settings = monotonic(), _command_settings(bootstrap)
    with reaching(bootstrap):
        consumer = Consumer({**settings, **reader_settings("streamer", fetch_wait_ms, committed)})
        try:
            _await_answer(bootstrap, consumer, began)
            yield consumer
        finally:
            consumer.close()


@contextmanager
def open_writer(bootstrap: str, topic: str, transactional_id: str | None = None) -> Iterator[TopicWriter]:
    """A writer of one topic for a `with` block. Raises UsageError if the topic does not exist.

    transactional_id: ends with a UUID, so that no two producers fence each other.
    """
    began = monotonic()
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
        _await_answer(bootstrap, producer, began)
        reading.shards_in(producer, topic, WRITE)
        if transactional_id is not None:
            producer.init_transactions(CALL_SECONDS_MAX)
    try:
        yield TopicWriter(bootstrap, topic, producer)
    finally:
        producer.purge()  # records that were not delivered have been reported


_NEEDS_KEYS = (
    "{} is compacted, so it takes no message without a message key: statements, truncations and rows of unknown key "
    "cannot be sent to it"
)


class Unconfirmed(ServerUnreachable):
    """It is not known whether records were written. name: what the client calls the error."""

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(str(errors.does_not_answer(bootstrap, name)))
        self.name = name


class TopicWriter:
    """Writes a command's records into one topic.

    Raises ConfigError if Kafka does not allow it, UsageError for a record that the topic never takes, else Unconfirmed.
    """

    def __init__(self, bootstrap: str, topic: str, producer: Producer) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._producer = producer
        self._taken = Confirmations()

    def send(self, value: bytes | None, record_key: bytes | None, partition: int) -> None:
        """Queues one record."""
        with self._confirmed():
            produce(self._producer, self._topic, partition, value, record_key, [], self._taken)

    def write(self, value: bytes | None, record_key: bytes, partition: int) -> int:
        """Writes one record, and waits until Kafka has confirmed it; returns its offset."""
        with self._confirmed():
            produce(self._producer, self._topic, partition, value, record_key, [], taken := Confirmations())
            flush(self._producer, FLUSH_SECONDS_MAX)
            taken.check()
        return taken.offset

    def flush(self) -> None:
        """Waits until Kafka has confirmed all records."""
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
            if name == "INVALID_RECORD":
                raise UsageError(_NEEDS_KEYS.format(self._topic)) from None
            denied = errors.refused_to_command(self._bootstrap, name, right) if name in errors.NOT_AUTHORIZED else None
            raise denied or Unconfirmed(self._bootstrap, name) from None


# -- for workers --------------------------------------------------------------------------------------------------


class KafkaCalls:
    """One shard's partitions of a table's topics, and how to read them; to be used from one thread."""

    def __init__(self, bootstrap: str, table_name: str, shard: int) -> None:
        self.bootstrap = bootstrap
        self.table_name = table_name
        self.shard = shard
        self.name = f"shard {shard} of {table_name}"

    def topic(self, kind: str) -> str:
        return topic_name(self.table_name, kind)

    def partition(self, kind: str) -> TopicPartition:
        """The shard's partition of the topic of a kind."""
        return TopicPartition(self.topic(kind), self.shard)

    @contextmanager
    def consumer(self, committed: bool = True) -> Iterator[Consumer]:
        """A consumer of committed records, or of all, for a `with` block."""
        consumer = self.new_consumer(committed)
        try:
            yield consumer
        finally:
            consumer.close()

    def new_consumer(self, committed: bool = True) -> Consumer:
        """A consumer of committed records, or of all."""
        settings = reader_settings(f"{self.table_name}-outlet", committed=committed)
        return Consumer({**client_settings(self.bootstrap), **settings})

    def watermarks(self, consumer: Consumer, kind: str) -> tuple[int, int]:
        """First and end offset of the shard's partition."""
        return reading.watermarks(consumer, self.partition(kind))

    def records(self, consumer: Consumer, kind: str, start: int) -> Iterator[Message]:
        """The shard's committed records from an offset to the end of now. Raises ServerUnreachable after a while."""
        at, deadline = TopicPartition(self.topic(kind), self.shard, start), monotonic() + CALL_SECONDS_MAX
        try:
            yield from chain.from_iterable(reading.batches(consumer, [at], deadline=deadline))
        except ServerUnreachable as error:
            raise ServerUnreachable(f"{self.name}: {error}") from None

    @contextmanager
    def failures(self, doing: str, operation: str = DESCRIBE, *kinds: str) -> Iterator[None]:
        """Turns Kafka's errors into ours. operation, kinds: what the block does with which topics of the table."""
        what = f"{self.name}: {doing}"
        try:
            yield
        except KafkaException as error:
            right = Right([operation], [*map(self.topic, kinds)] or [f"{self.table_name}."], prefixed=not kinds)
            raise errors.worker_error(self.bootstrap, what, error.args[0].name(), right, self.table_name) from None
        except TimeoutError:
            raise ServerUnreachable(f"{what}: Kafka does not answer") from None


# -- producing ----------------------------------------------------------------------------------------------------

OnDelivery = Callable[[KafkaError | None, Message], None]


class Confirmations:
    """Takes Kafka's answers about records, and keeps the first failure; offset: of the record written last."""

    def __init__(self) -> None:
        self._error: KafkaError | None = None
        self.offset = -1

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.offset = message.offset() or 0
        elif error.code() not in _GIVEN_UP:
            self._error = self._error or error

    def check(self) -> None:
        """Raises KafkaException if a record was not written."""
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
    at: int = 0,
) -> None:
    """Queues one record; waits if the client's queue is full. at: its timestamp; 0: now. Raises KafkaException."""
    deadline = monotonic() + CALL_SECONDS_MAX
    while True:
        try:
            where = {"partition": partition, "headers": headers, "on_delivery": on_delivery, "timestamp": at}
            producer.produce(topic, value, record_key, **where)
        except BufferError:
            if monotonic() > deadline:
                raise ServerUnreachable("Kafka takes no records from the full queue") from None
            producer.poll(0.1)
        else:
            return  # `flush` takes the answers: polling for them here would cost a thread switch


def flush(producer: Producer, seconds_max: float) -> None:
    """Waits until Kafka has taken all records. Raises KafkaException."""
    try:
        left = producer.flush(seconds_max)
    except SystemError as error:  # of the client, if answers come after a fatal error
        raise error.__cause__ or error from None
    if left:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


@contextmanager
def transaction(producer: Producer, taken: Confirmations) -> Iterator[None]:
    """Records produced in the block become visible together, or not at all. Raises KafkaException.

    On an error the transaction is aborted, so that readers need not wait for its timeout. If that fails, the next
    producer with the same transactional id resolves it.
    """
    try:
        producer.begin_transaction()
        try:
            yield
            producer.commit_transaction(CALL_SECONDS_MAX)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._STATE:  # it takes no record for a transaction that has failed
                producer.commit_transaction(CALL_SECONDS_MAX)  # this says why, and cannot succeed any more
            raise
        except SystemError:  # of the client, which lost its fatal error on the way
            producer.abort_transaction(ABORT_SECONDS_MAX)  # this says which it was
            raise
        finally:
            taken.check()  # a record's error says more than that the transaction cannot be committed
    except Exception:
        with suppress(KafkaException, SystemError):
            producer.purge()
            producer.abort_transaction(ABORT_SECONDS_MAX)
        raise


# -- the log of clients -------------------------------------------------------------------------------------------

LINES_MAX, PERIOD_SECONDS = 2, 10.0


class AtMost(logging.Filter):
    """Passes `LINES_MAX` lines per period, and reports how many it left out."""

    def __init__(self, period_seconds: float = PERIOD_SECONDS) -> None:
        super().__init__()
        self._period_seconds = period_seconds
        self._began = float("-inf")
        self._passed = self._held_back = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = monotonic()
        if now - self._began >= self._period_seconds:
            if self._held_back:
                record.msg, record.args = f"{record.getMessage()} ({self._held_back} lines were left out)", ()
            self._began, self._passed, self._held_back = now, 0, 0
        self._passed += 1
        self._held_back += self._passed > LINES_MAX
        return self._passed <= LINES_MAX


def limited(name: str) -> logging.Logger:
    """A logger that keeps a few lines per period."""
    logger = logging.getLogger(name)
    if not any(isinstance(filter_, AtMost) for filter_ in logger.filters):
        logger.addFilter(AtMost())
    return logger
