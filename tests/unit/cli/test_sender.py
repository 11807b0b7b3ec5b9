"""How messages go out: rows to the shard of their key, statements to all shards or none, and what is said in doubt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from streamer.cli import sender as module
from streamer.cli.routing import TRUNCATE, RowMessage, Statement
from streamer.cli.sender import MESSAGE_BYTES_MAX, Sender
from streamer.errors import ServerUnreachable, UsageError
from streamer.incremental.events.murmur2 import shard_of
from streamer.kafka.clients import Unconfirmed
from worlds.topics_in_memory import TopicsInMemory

TOPIC, SHARDS = "people.changes", 3
FLUSHED = "flushed"

Log = list[Any]
"""What was asked for: (value, key, shard) of rows, (value, shards) of statements, and a word for the rest."""


class Writer:
    """Writes down what it is asked for; error: what becomes of it."""

    def __init__(self, log: Log, error: Exception | None) -> None:
        self._log = log
        self._error = error

    def send(self, value: bytes | None, message_key: bytes | None, shard: int) -> None:
        self._log.append((value, message_key, shard))

    def flush(self) -> None:
        self._log.append(FLUSHED)
        if self._error:
            raise self._error

    def send_to_all(self, value: bytes, shards: Iterable[int]) -> None:
        self._log.append((value, list(shards)))
        if self._error:
            raise self._error


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
    def open_writer(self, bootstrap: str, topic: str, transactional_id: str | None = None) -> Iterator[Writer]:
        assert topic == TOPIC
        if transactional_id:
            self.transactional_names.append(transactional_id)
        yield Writer(self.log, self.statements_error if transactional_id else self.rows_error)


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    broker = Kafka()
    monkeypatch.setattr(module, "open_consumer", broker.open_consumer)
    monkeypatch.setattr(module, "open_writer", broker.open_writer)
    return broker


@contextmanager
def sending(statement_id: str | None = None) -> Iterator[Sender]:
    with ExitStack() as connections:
        yield Sender("broker:9092", TOPIC, statement_id, connections)


def ids_in(log: Log) -> list[str]:
    statements = [line[0] for line in log if isinstance(line, tuple) and len(line) == 2]
    return [json.loads(value)["statement_id"] for value in statements]


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
    assert rest == [FLUSHED, (value, list(range(SHARDS)))]
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
    assert len(ids_in(kafka.log)) == 1


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
    kafka.rows_error = Unconfirmed("broker:9092", "_TIMED_OUT")
    with sending() as sender:
        sender.send(RowMessage(b"1", b"{}"))
        with pytest.raises(ServerUnreachable) as unsure:
            sender.send(RowMessage(b"2", b"{}"))
    assert "(_TIMED_OUT)" in str(unsure.value)
    assert "0 messages were sent; whether the next 2 were is not known" in str(unsure.value)


def test_a_statement_in_doubt_names_the_id_to_repeat_it_with(kafka: Kafka) -> None:
    kafka.statements_error = Unconfirmed("broker:9092", "_TIMED_OUT")
    with sending() as sender, pytest.raises(ServerUnreachable) as unsure:
        sender.send(TRUNCATE)
    (statement_id,) = ids_in(kafka.log)
    assert f"--statement-id {statement_id}, it will be applied once only" in str(unsure.value)
    assert sender.sent.statements == 0
