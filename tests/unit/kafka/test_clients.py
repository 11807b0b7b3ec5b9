"""Reaching Kafka: addresses without passwords, the C client's errors in our words, transactions, and a short log."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from time import sleep

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from streamer.errors import ConfigError, Fenced, ServerUnreachable, ShardRefused, StreamerError, UsageError
from streamer.incremental.topics import LIVE
from streamer.kafka.clients import (
    LINES_MAX,
    AtMost,
    Confirmations,
    KafkaCalls,
    TopicWriter,
    Unconfirmed,
    client_settings,
    limited,
    reaching,
    transaction,
)
from streamer.kafka.errors import WRITE, Right
from streamer.kafka.settings import servers_of

CALLS = KafkaCalls("broker:9092", "patients", 2)


def failed(name: str, about: str = "") -> KafkaException:
    """An error as the client raises it, with a canary in its text."""
    return KafkaException(KafkaError(getattr(KafkaError, name), f"{about} canary"))


def denied(operation: str, topic: str) -> KafkaException:
    """As it is raised where the topic is known."""
    return KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), Right([operation], [topic]))


@pytest.mark.parametrize("wrong", ["", "broker", "broker:", ":9092", "a:1 b:2", "a:1,,b:2", "sasl://a:1", "a:99999"])
def test_what_is_no_address_is_refused_and_not_repeated(wrong: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT") as refused:
        servers_of(wrong)
    assert len(wrong) < 2 or wrong not in str(refused.value)


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (failed("UNKNOWN_TOPIC_OR_PART"), UsageError, "`streamer topics create` makes them all"),
        (failed("TOPIC_AUTHORIZATION_FAILED", "a.live"), ConfigError, r"--operation Read --topic a\.live`"),
        (denied(WRITE, "a.changes"), ConfigError, r"--operation Write --topic a\.changes`"),
        (failed("TRANSACTIONAL_ID_AUTHORIZATION_FAILED"), ConfigError, "--transactional-id"),
        (failed("CLUSTER_AUTHORIZATION_FAILED"), ConfigError, "not authorised"),
        (failed("NOT_LEADER_FOR_PARTITION"), ServerUnreachable, "refuses the request: NOT_LEADER_FOR_PARTITION"),
        (failed("_TRANSPORT"), ServerUnreachable, "does it want TLS"),
        (failed("_TIMED_OUT"), ServerUnreachable, "does not answer"),
        (failed("_UNKNOWN_PARTITION"), ServerUnreachable, "does not answer"),
    ],
)
def test_the_clients_errors_come_out_in_our_words_and_without_theirs(
    error: Exception, kind: type[StreamerError], says: str
) -> None:
    with pytest.raises(kind, match=says) as told, reaching("broker:9092"):
        raise error
    assert "broker:9092" in str(told.value)
    assert "canary" not in str(told.value)


# -- of a shard ----------------------------------------------------------------------------------------------------


def meant(error: KafkaError) -> StreamerError:
    with pytest.raises(StreamerError) as caught, CALLS.failures("publishing", WRITE, LIVE):
        raise KafkaException(error)
    return caught.value


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("TOPIC_AUTHORIZATION_FAILED", ConfigError, "--operation Write --topic patients.live`"),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", ConfigError, "--transactional-id patients-shard- --resource"),
        ("GROUP_AUTHORIZATION_FAILED", ConfigError, "--group streamer-patients`"),
        ("MSG_SIZE_TOO_LARGE", ShardRefused, "max.message.bytes"),
        ("INVALID_TRANSACTION_TIMEOUT", ShardRefused, "transaction.max.timeout.ms"),
        ("UNKNOWN_TOPIC_OR_PART", ShardRefused, "streamer topics check"),
        ("_FENCED", Fenced, "Kafka has shut this producer out"),
        ("INVALID_PRODUCER_EPOCH", Fenced, "Kafka has shut this producer out"),
        ("_TIMED_OUT", ServerUnreachable, "does not answer (_TIMED_OUT)"),
        ("_UNKNOWN_PARTITION", ServerUnreachable, "if that lasts, a topic or one of its partitions is missing"),
        ("NOT_ENOUGH_REPLICAS", ServerUnreachable, "answers NOT_ENOUGH_REPLICAS"),
        ("COORDINATOR_NOT_AVAILABLE", ServerUnreachable, "answers COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_what_no_repetition_changes_is_told_from_an_outage(name: str, kind: type[StreamerError], says: str) -> None:
    error = meant(KafkaError(getattr(KafkaError, name)))
    assert type(error) is kind
    assert says in str(error)
    assert "shard 2 of patients: publishing" in str(error)


OUT_OF_MEMORY = ("_CRIT_SYS_RESOURCE",)
"""It ends the process, and refuses no shard."""


def test_no_error_of_the_client_itself_refuses_a_shard_for_good() -> None:
    """Before: after an outage the client knew no partition, and the shard was refused as if Kafka had said so."""
    own = [name for name in dir(KafkaError) if re.fullmatch("_[A-Z][A-Z_]*", name)]
    kinds = {name: type(meant(KafkaError(getattr(KafkaError, name)))) for name in own}
    assert len(own) > 40
    assert {name for name, kind in kinds.items() if kind is not ServerUnreachable} == {"_FENCED", *OUT_OF_MEMORY}


def test_a_producer_that_is_not_allowed_is_not_called_shut_out_though_its_error_is_fatal() -> None:
    """Before: "Kafka has shut this producer out", and the shard was dropped again and again."""
    error = meant(KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "", True))
    assert type(error) is ConfigError
    assert type(meant(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "", True))) is ServerUnreachable


# -- writing ------------------------------------------------------------------------------------------------------

FLUSHED, BEGUN, COMMITTED, ABORTED = "flushed", "begun", "committed", "aborted"


class Producer:
    """A producer that writes down what it is asked for; error: what becomes of every record."""

    def __init__(self, error: KafkaError | None = None, left: int = 0) -> None:
        self.log: list[object] = []
        self._error, self._left = error, left
        self._answers: list[object] = []

    def produce(self, topic: str, value: bytes, record_key: bytes, partition: int, **more: object) -> None:
        self.log.append((topic, value, record_key, partition))
        self._answers.append(more["on_delivery"])

    def flush(self, seconds: float) -> int:
        self.log.append(FLUSHED)
        for answer in self._answers:
            answer(self._error, Message())  # type: ignore[operator]
        return self._left

    def purge(self) -> None: ...

    def begin_transaction(self) -> None:
        self.log.append(BEGUN)

    def commit_transaction(self, seconds: float) -> None:
        self.log.append(COMMITTED)

    def abort_transaction(self, seconds: float) -> None:
        self.log.append(ABORTED)


def test_what_is_sent_to_all_goes_out_in_one_transaction() -> None:
    producer = Producer()
    TopicWriter("broker:9092", "t.changes", producer).send_to_all(b"v", range(2))
    assert producer.log == [BEGUN, ("t.changes", b"v", None, 0), ("t.changes", b"v", None, 1), FLUSHED, COMMITTED]


def test_a_record_that_is_not_taken_ends_its_transaction_before_anybody_sees_it() -> None:
    producer, taken = Producer(KafkaError(KafkaError.NOT_ENOUGH_REPLICAS)), Confirmations()
    with pytest.raises(KafkaException, match="replicas"), transaction(producer, taken):
        producer.produce("t", b"v", b"k", 0, on_delivery=taken)
        producer.flush(1)
        taken.check()
    assert (producer.log[-1], COMMITTED in producer.log) == (ABORTED, False)


class Failed(Producer):
    """A producer whose transaction has failed: it takes no more records, and says why when it is to commit."""

    def commit_transaction(self, seconds: float) -> None:
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))


def test_if_the_client_takes_no_more_records_the_reason_is_asked_for() -> None:
    producer = Failed()
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"), transaction(producer, Confirmations()):
        raise KafkaException(KafkaError(KafkaError._STATE))
    assert producer.log[-1] == ABORTED


@pytest.mark.parametrize(
    ("producer", "kind", "says"),
    [
        (Producer(left=1), Unconfirmed, r"does not answer \(_TIMED_OUT\)"),
        (Producer(KafkaError(KafkaError._MSG_TIMED_OUT)), Unconfirmed, "_MSG_TIMED_OUT"),
        (Producer(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), ConfigError, "--operation Write --topic t.live`"),
    ],
)
def test_what_is_not_confirmed_is_told(producer: Producer, kind: type[StreamerError], says: str) -> None:
    writer = TopicWriter("broker:9092", "t.live", producer)
    writer.send(b"v", b"k", 0)
    with pytest.raises(kind, match=says) as told:
        writer.flush()
    assert type(told.value) is kind


# -- the log ------------------------------------------------------------------------------------------------------


@pytest.fixture
def logger_as_before() -> Iterator[logging.Logger]:
    logger = logging.getLogger("librdkafka")
    before = list(logger.filters)
    yield logger
    logger.filters[:] = before


def test_the_clients_log_is_kept_short_and_counts_what_it_leaves_out() -> None:
    at_most = AtMost(period_seconds=1.0)

    def line() -> logging.LogRecord:
        return logging.LogRecord("x", logging.ERROR, "x.py", 1, "broker %s is down", ("b",), None)

    assert sum(at_most.filter(line()) for _ in range(50)) == LINES_MAX
    sleep(1.0)
    next_line = line()
    assert at_most.filter(next_line)
    assert f"{50 - LINES_MAX} lines" in next_line.getMessage()


def test_every_client_is_limited_once_however_often_one_is_made(logger_as_before: logging.Logger) -> None:
    for _ in range(3):
        client_settings("broker:9092")
        limited("librdkafka")
    assert [type(one) for one in logger_as_before.filters].count(AtMost) == 1
