"""How messages go out: rows to the shard of their key, statements to all shards or none, and what is said in doubt."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import sleep
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from streamer.cli import sender as module
from streamer.cli.routing import TRUNCATE, RowMessage, Statement
from streamer.cli.sender import MESSAGE_BYTES_MAX, Sender
from streamer.errors import ServerUnreachable, UsageError
from streamer.incremental.events.murmur2 import shard_of
from worlds.topics_in_memory import TopicsInMemory

TOPIC, SHARDS = "people.changes", 3
FLUSHED, BEGUN, COMMITTED, ABORTED = "flushed", "begun", "committed", "aborted"

Log = list[Any]
"""What the broker was asked for: (value, key, shard) of messages, and words for the rest."""


class Future:
    """What became of one message."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def add_errback(self, tell: Callable[[Exception], None]) -> None:
        if self._error:
            tell(self._error)

    def get(self, timeout: float) -> None:
        if self._error:
            raise self._error


class Producer:
    """A producer that writes down what it is asked for; error: what becomes of every message."""

    def __init__(self, log: Log, error: Exception | None) -> None:
        self._log = log
        self._error = error

    def send(self, topic: str, value: bytes | None, key: bytes | None = None, *, partition: int) -> Future:
        assert topic == TOPIC
        self._log.append((value, key, partition))
        return Future(self._error)

    def flush(self, timeout: float) -> None:
        self._log.append(FLUSHED)

    def init_transactions(self) -> None: ...

    def begin_transaction(self) -> None:
        self._log.append(BEGUN)

    def commit_transaction(self) -> None:
        self._log.append(COMMITTED)

    def abort_transaction(self) -> None:
        self._log.append(ABORTED)


class Kafka:
    """A broker with an empty input topic, as the sender reaches it."""

    def __init__(self) -> None:
        self.log: Log = []
        self.transactional_names: list[str] = []
        self.rows_error: Exception | None = None
        self.statements_error: Exception | None = None

    @contextmanager
    def open_consumer(self, bootstrap: str) -> Iterator[TopicsInMemory]:
        yield TopicsInMemory({TOPIC: SHARDS})

    @contextmanager
    def open_producer(self, bootstrap: str, transactional_id: str | None = None) -> Iterator[Producer]:
        if transactional_id:
            self.transactional_names.append(transactional_id)
        yield Producer(self.log, self.statements_error if transactional_id else self.rows_error)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    broker = Kafka()
    monkeypatch.setattr(module, "open_consumer", broker.open_consumer)
    monkeypatch.setattr(module, "open_producer", broker.open_producer)
    return broker


@contextmanager
def sending(statement_id: str | None = None) -> Iterator[Sender]:
    with ExitStack() as connections:
        yield Sender("broker:9092", TOPIC, statement_id, connections)


def ids_in(log: Log) -> list[str]:
    return [json.loads(value)["statement_id"] for value, key, _ in log if key is None]


def test_a_row_goes_to_the_shard_that_murmur2_of_its_key_gives(kafka: Kafka) -> None:
    with sending() as sender:
        for number in range(20):
            sender.send(RowMessage(b"%d" % number, b"{}"))
    assert kafka.log == [(b"{}", b"%d" % n, shard_of(b"%d" % n, SHARDS)) for n in range(20)]
    assert (sender.sent.messages, sender.sent.rows, sender.sent.unrouted) == (20, 20, 0)


def test_a_message_whose_row_is_not_known_goes_to_the_shard_of_its_own_bytes_each_time(kafka: Kafka) -> None:
    with sending() as sender:
        for _ in range(2):
            sender.send(RowMessage(None, b"not JSON"))
    assert kafka.log == [(b"not JSON", None, shard_of(b"not JSON", SHARDS))] * 2
    assert (sender.sent.messages, sender.sent.rows, sender.sent.unrouted) == (2, 0, 2)


def test_a_statement_reaches_every_shard_in_one_transaction_after_the_rows_before_it(kafka: Kafka) -> None:
    with sending("mine") as sender:
        sender.send(RowMessage(b"7", None))
        sender.send(TRUNCATE)
    row, *rest = kafka.log
    value = b'{"op":"truncate","statement_id":"mine"}'
    assert row[:2] == (None, b"7")
    assert rest == [FLUSHED, BEGUN, *[(value, None, shard) for shard in range(SHARDS)], COMMITTED]
    assert (sender.sent.messages, sender.sent.statements, sender.sent.statement_ids) == (1 + SHARDS, 1, ["mine"])


def test_statements_without_an_id_get_one_each_and_their_own_counts_before_the_one_given(kafka: Kafka) -> None:
    with sending() as sender:
        for statement in (TRUNCATE, TRUNCATE, Statement({"op": "truncate", "statement_id": "own"})):
            sender.send(statement)
    first, second, own = sender.sent.statement_ids
    assert first != second
    assert own == "own"
    with sending("given") as sender:
        sender.send(Statement({"op": "truncate", "statement_id": "own"}))
    assert sender.sent.statement_ids == ["own"]


def test_one_given_id_is_not_given_to_two_statements(kafka: Kafka) -> None:
    with sending("mine") as sender:
        sender.send(TRUNCATE)
        with pytest.raises(UsageError, match="--statement-id"):
            sender.send(TRUNCATE)
    assert kafka.log.count(COMMITTED) == 1


def test_two_operators_do_not_shut_each_other_out(kafka: Kafka) -> None:
    for _ in range(2):
        with sending() as sender:
            sender.send(TRUNCATE)
            sender.send(TRUNCATE)
    first, second = kafka.transactional_names
    assert first != second


def test_a_message_that_no_topic_takes_is_refused_by_its_size_and_not_shown(kafka: Kafka) -> None:
    with sending() as sender:
        sender.send(RowMessage(b"1", b"{}"))
        with pytest.raises(UsageError, match="the 1 before it were sent") as refused:
            sender.send(RowMessage(b"2", b"canary" * MESSAGE_BYTES_MAX))
    assert "canary" not in str(refused.value)
    assert sender.sent.messages == 1


def test_rows_that_kafka_does_not_confirm_are_counted_apart_from_those_it_did(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "UNFLUSHED_MESSAGES_MAX", 2)
    kafka.rows_error = KafkaTimeoutError("canary")
    with sending() as sender:
        sender.send(RowMessage(b"1", b"{}"))
        with pytest.raises(ServerUnreachable) as unsure:
            sender.send(RowMessage(b"2", b"{}"))
    assert "KafkaTimeoutError" in str(unsure.value)
    assert "0 messages were sent; whether the next 2 were is not known" in str(unsure.value)
    assert "canary" not in str(unsure.value)


def test_a_statement_in_doubt_is_taken_back_and_names_the_id_to_repeat_it_with(kafka: Kafka) -> None:
    kafka.statements_error = KafkaTimeoutError()
    with sending() as sender, pytest.raises(ServerUnreachable) as unsure:
        sender.send(TRUNCATE)
    (statement_id, *_) = ids_in([line for line in kafka.log if isinstance(line, tuple)])
    assert f"--statement-id {statement_id}, it will be applied once only" in str(unsure.value)
    assert kafka.log[-1] == ABORTED
    assert sender.sent.statements == 0


def test_a_transaction_that_hangs_is_not_waited_for_without_end(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLUSH_SECONDS_MAX", 0.0)
    monkeypatch.setattr(Sender, "_transact", lambda sender, value: sleep(1))
    with sending("mine") as sender, pytest.raises(ServerUnreachable, match="--statement-id mine"):
        sender.send(TRUNCATE)
