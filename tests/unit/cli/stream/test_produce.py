"""Where a message belongs: every form of one row under one message key, every statement in all shards."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.cli.stream.produce import (
    MESSAGE_BYTES_MAX,
    TRUNCATE,
    UNFLUSHED_MESSAGES_MAX,
    Router,
    RowMessage,
    Sender,
    Sent,
    Statement,
    transactional_id,
)
from streamer.errors import ConfigError, EventRefused, ServerUnreachable, UsageError
from streamer.incremental.events.changes import Insert, Remove
from streamer.incremental.events.decoder import Decoder
from streamer.incremental.events.key_form import shard_of
from streamer.kafka.clients import TopicWriter, Unconfirmed
from streamer.table.encode import Encoder
from streamer.table.schema import Table
from streamer.table.sources import read_rows
from streamer.table.yaml.loading import load_table
from worlds.calls import streamer
from worlds.checkout import PATIENTS


@pytest.fixture(scope="module")
def patients() -> Table:
    return load_table(PATIENTS)


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A table with a composite primary key."""
    path = tmp_path_factory.mktemp("visits") / "table.yaml"
    path.write_text(
        "table: visits\nkey: [ward, number]\n"
        "columns:\n  age: {role: quasi-identifier, type: integer, domain: [0, 119], grid: 5}\n"
        "privacy: {k: 2}\npublish: {live: {form: rows}}\n"
    )
    return load_table(path)


def routed(table: Table, value: object, message_key: object = ...) -> list[RowMessage | Statement]:
    said = None if message_key is ... else msgspec.json.encode(message_key)
    return list(Router(table).route(said, None if value is None else msgspec.json.encode(value)))


def one_of_a_row(table: Table, value: object, message_key: object = ...) -> RowMessage:
    (message,) = routed(table, value, message_key)
    assert isinstance(message, RowMessage)
    return message


ROW = {"id": 7, "age": 30, "zip": 12000, "bmi": 20.5, "sex": "Male", "problem": "flu"}
FORMS = {
    "plain insert": ({"op": "insert", "row": ROW}, ...),
    "its key as text": ({"op": "insert", "row": {**ROW, "id": "7"}}, ...),
    "its key as decimal": ({"op": "insert", "row": {**ROW, "id": 7.0}}, ...),
    "plain delete": ({"op": "delete", "key": 7}, ...),
    "plain delete, key as object": ({"op": "delete", "key": {"id": 7}}, ...),
    "plain modify": ({"op": "modify", "key": "7", "row": {"age": 31}}, ...),
    "Debezium create": ({"op": "c", "before": None, "after": ROW}, ...),
    "Debezium delete": ({"op": "d", "before": {"id": 7}, "after": None}, ...),
    "Debezium delete, key beside it": ({"op": "d", "before": None, "after": None}, {"id": 7}),
    "Debezium in its schema": ({"schema": {}, "payload": {"op": "u", "before": ROW, "after": ROW}}, ...),
    "flattened": ({**ROW, "__deleted": "false"}, ...),
    "insert under a message key of its own": ({"op": "insert", "row": ROW}, {"id": 7}),
    "tombstone, scalar": (None, 7),
    "tombstone, text": (None, "7"),
    "tombstone, object": (None, {"id": 7}),
    "tombstone, object in its schema": (None, {"schema": {}, "payload": {"id": 7}}),
}


@pytest.mark.parametrize("form", FORMS)
def test_whatever_form_a_message_has_its_row_is_sent_under_one_message_key(patients: Table, form: str) -> None:
    value, message_key = FORMS[form]
    message = one_of_a_row(patients, value, message_key)
    assert message.message_key == b"7"
    assert message.value == (None if value is None else msgspec.json.encode(value)), "the message goes as it is"


def test_a_composite_key_is_the_object_of_its_texts_in_the_order_of_the_table(visits: Table) -> None:
    forms = [
        {"op": "insert", "row": {"number": 3, "ward": "B", "age": 30}},
        {"op": "delete", "key": {"number": "3", "ward": "B"}},
        {"op": "d", "before": {"ward": "B", "number": 3, "age": 30}, "after": None},
    ]
    keys = {one_of_a_row(visits, form).message_key for form in forms}
    keys.add(one_of_a_row(visits, None, {"number": 3, "ward": "B"}).message_key)
    assert keys == {b'{"ward":"B","number":"3"}'}


@given(
    text=st.text(max_size=12) | st.integers().map(str) | st.sampled_from(["null", "{", '"', "[1]", " 7", "7 ", "\x007"])
)
def test_a_removal_sent_under_any_key_is_decoded_as_the_removal_of_that_very_key(patients: Table, text: str) -> None:
    message = one_of_a_row(patients, None, text)
    change = Decoder(patients).decode(message.message_key, None)
    assert isinstance(change, Remove)
    assert change.source_key == text


@given(ward=st.text(max_size=8), number=st.integers())
def test_a_removal_with_a_composite_key_is_decoded_as_the_removal_of_that_key(
    visits: Table, ward: str, number: int
) -> None:
    message = one_of_a_row(visits, None, {"ward": ward, "number": number})
    expected = Encoder(visits).source_key({"ward": ward, "number": number})
    assert Decoder(visits).decode(message.message_key, None) == Remove(expected)


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"",
        b"\xff",
        b"[1, 2]",
        b"7",
        b'{"op": "insert"}',
        b'{"op": "delete", "key": [1]}',
        b'{"op":"t"}',
        b"[" * 99_999,
    ],
)
def test_what_cannot_be_read_goes_as_it_is_without_a_key(patients: Table, line: bytes) -> None:
    assert list(Router(patients).route(None, line)) == [RowMessage(None, line)]


def test_a_removal_of_nothing_is_sent_as_something_that_the_worker_refuses(patients: Table) -> None:
    assert routed(patients, None) == [RowMessage(None, b"null")]


def test_a_changed_primary_key_removes_the_row_from_the_shard_of_its_former_key(patients: Table) -> None:
    envelope = {"op": "u", "before": ROW, "after": {**ROW, "id": 8}}
    former, message = routed(patients, envelope)
    assert former == RowMessage(b"7", None)
    assert message == RowMessage(b"8", msgspec.json.encode(envelope))


@pytest.mark.parametrize(
    "body",
    [
        {"op": "truncate"},
        {"op": "delete", "where": "age > 30"},
        {"op": "modify", "where": "age > 30", "set": {"age": "age + 1"}},
    ],
)
def test_statements_are_for_every_shard_and_keep_an_id_of_their_own(patients: Table, body: dict[str, object]) -> None:
    (statement,) = routed(patients, body)
    assert isinstance(statement, Statement)
    assert json.loads(statement.value("x")) == {**body, "statement_id": "x"}
    (named,) = routed(patients, {**body, "statement_id": "mine"})
    assert isinstance(named, Statement)
    assert named.statement_id == "mine"


def test_rows_of_a_csv_file_become_the_insertions_that_the_file_means(patients: Table) -> None:
    frame = read_rows(PATIENTS / "rows.csv")
    messages = list(Router(patients).rows(frame))
    decoder = Decoder(patients)
    encoded = Encoder(patients).frame(frame)
    inserts = [decoder.decode(message.message_key, message.value) for message in messages]
    assert inserts == [Insert(k, row) for k, row in zip(encoded.source_keys, encoded.rows(), strict=True)]
    assert [(message.message_key or b"").decode() for message in messages] == encoded.source_keys


def test_of_a_csv_file_only_the_columns_of_the_table_are_sent_typed_and_empty_cells_are_null(
    patients: Table, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,name,age,zip,bmi,sex,problem\n7,Canary,30,12000,20.50,Male,\n")
    (message,) = Router(patients).rows(read_rows(path))
    row = msgspec.json.decode(message.value or b"")["row"]
    assert row == {"id": "7", "age": 30, "zip": 12000, "bmi": 20.5, "sex": "Male", "problem": None}
    assert Decimal(str(row["bmi"])) == Decimal("20.5")


TYPED = """table: stays
key: id
columns:
  age: {role: quasi-identifier, type: integer, domain: [0, 119], grid: 5}
  born: {role: quasi-identifier, type: date, domain: ["1950-01-01", "2009-12-31"], grid: 1 year}
  weight: {role: quasi-identifier, type: decimal, domain: [0, 200], grid: 10}
  well: {role: sensitive, type: boolean}
  since: {role: sensitive, type: timestamp}
privacy: {k: 2}
publish: {live: {form: rows}}
"""


def test_rows_of_a_parquet_file_are_sent_as_what_its_types_mean(tmp_path: Path) -> None:
    (tmp_path / "table.yaml").write_text(TYPED)
    table = load_table(tmp_path / "table.yaml")
    rows: dict[str, list[object]] = {
        "id": [1, 2, 3],
        "age": [30, 29, 31],
        "born": [date(1990, 2, 3), date(1950, 1, 1), date(2009, 12, 31)],
        "weight": [Decimal("20.50"), Decimal(7), Decimal("0.25")],
        "well": [True, None, False],
        "since": [datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC), None, datetime(1999, 1, 1, tzinfo=UTC)],
        "name": ["Canary", None, ""],
    }
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    frame = read_rows(tmp_path / "rows.parquet")
    messages = list(Router(table).rows(frame))
    encoded = Encoder(table).frame(frame)
    inserts = [Decoder(table).decode(message.message_key, message.value) for message in messages]
    assert inserts == [Insert(k, row) for k, row in zip(encoded.source_keys, encoded.rows(), strict=True)]
    assert not any(b"Canary" in (message.value or b"") for message in messages)


HEADER = "id,age,zip,bmi,sex,problem"
GOOD = "1,30,12000,21.5,Female,flu"
NASTY = {
    "a mark of the byte order": f"\ufeff{HEADER}\n{GOOD}\n",
    "spaces in the header": f"id, age,zip,bmi,sex,problem\n{GOOD}\n",
    "a column twice": f"{HEADER},age\n{GOOD},3\n",
    "a column missing": "id,age\n1,2\n",
    "another column": f"name,{HEADER}\nx,{GOOD}\n",
    "semicolons": f"{HEADER}\n{GOOD}\n".replace(",", ";"),
    "lines that end with CRLF": f"{HEADER}\r\n{GOOD}\r\n\r\n",
    "a short row": f"{HEADER}\n{GOOD}\n2,30\n",
    "a quote that stays open": f'{HEADER}\n"{GOOD}\n',
    "nothing": "",
    "values that are refused": f"{HEADER}\n{GOOD}\n,30,12000,21.5,Female,flu\n3,x,12000,21.5,Female,flu\n"
    "4,NaN,12000,21.5,Female,flu\n5,1e999,12000,21.5,Female,flu\n6,1e99999999999999999999,12000,21.5,Female,flu\n"
    "7,30,,21.5,Female,flu\n8,30,12000,21.5,Other,\n9, 30,12000,2.15e1,Female,\n10,30,12000,21.5,Female,\x00\n",
}


@pytest.mark.parametrize("what", NASTY)
@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_check_and_produce_read_a_file_to_the_same_verdict(
    patients: Table, tmp_path: Path, what: str, ending: str
) -> None:
    path = tmp_path / f"rows{ending}"
    content = NASTY[what].encode()
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    checked = streamer("check", "--table", PATIENTS, "--data", path, "--json")
    try:
        messages = list(Router(patients).rows(read_rows(path)))
    except ConfigError as refused:
        assert (checked.exit_code, str(refused) in checked.output) == (2, True)
        return
    assert checked.exit_code == 0, checked.output
    refused_rows: Counter[tuple[str, str | None]] = Counter()
    for message in messages:
        try:
            Decoder(patients).decode(message.message_key, message.value)
        except EventRefused as refused:
            refused_rows[refused.reason, refused.column] += 1
    report = json.loads(checked.stdout)["data"]
    assert report["rows"] == len(messages)
    assert {(line["reason"], line["column"]): line["rows"] for line in report["refused"]} == refused_rows


# -- sending ----------------------------------------------------------------------------------------------------------

SHARDS = 3
FLUSHED = "flushed"

Log = list[Any]
"""What writers were asked for: (value, key, shard) of rows, (value, shards) of statements, and flushes."""


class Writer(TopicWriter):
    """A writer that keeps a log; error: raised when it waits for Kafka."""

    def __init__(self, log: Log, error: Exception | None) -> None:
        self.log = log
        self.error = error

    def send(self, value: bytes | None, record_key: bytes | None, partition: int) -> None:
        self.log.append((value, record_key, partition))

    def flush(self) -> None:
        self.log.append(FLUSHED)
        if self.error:
            raise self.error

    def send_to_all(self, value: bytes, partitions: Iterable[int]) -> None:
        self.log.append((value, list(partitions)))
        if self.error:
            raise self.error


def sender_to(
    log: Log, statement_id: str | None = None, *, rows: Exception | None = None, statements: Exception | None = None
) -> Sender:
    """A sender to three shards; rows, statements: errors of its writers."""
    sent = Sent("people.changes", SHARDS)
    return Sender("broker:9092", sent, Writer(log, rows), lambda: Writer(log, statements), statement_id)


def ids_in(log: Log) -> list[str]:
    statements = [line[0] for line in log if isinstance(line, tuple) and len(line) == 2]
    return [json.loads(value)["statement_id"] for value in statements]


def test_a_row_goes_to_the_shard_that_murmur2_of_its_key_gives() -> None:
    log: Log = []
    sender = sender_to(log)
    for number in range(20):
        sender.send(RowMessage(b"%d" % number, b"{}"))
    assert log == [(b"{}", b"%d" % n, shard_of(b"%d" % n, SHARDS)) for n in range(20)]
    assert (sender.sent.messages, sender.sent.rows, sender.sent.unrouted) == (20, 20, 0)


def test_a_message_whose_row_is_not_known_goes_to_the_shard_of_its_own_bytes_each_time() -> None:
    log: Log = []
    sender = sender_to(log)
    for _ in range(2):
        sender.send(RowMessage(None, b"not JSON"))
    assert log == [(b"not JSON", None, shard_of(b"not JSON", SHARDS))] * 2
    assert (sender.sent.messages, sender.sent.rows, sender.sent.unrouted) == (2, 0, 2)


def test_a_statement_reaches_every_shard_in_one_transaction_after_the_rows_before_it() -> None:
    log: Log = []
    sender = sender_to(log, "mine")
    sender.send(RowMessage(b"7", None))
    sender.send(TRUNCATE)
    row, *rest = log
    value = b'{"op":"truncate","statement_id":"mine"}'
    assert row[:2] == (None, b"7")
    assert rest == [FLUSHED, (value, list(range(SHARDS)))]
    assert (sender.sent.messages, sender.sent.statements, sender.sent.statement_ids) == (1 + SHARDS, 1, ["mine"])


def test_statements_without_an_id_get_one_each_and_their_own_counts_before_the_one_given() -> None:
    sender = sender_to([])
    for statement in (TRUNCATE, TRUNCATE, Statement({"op": "truncate", "statement_id": "own"})):
        sender.send(statement)
    first, second, own = sender.sent.statement_ids
    assert first != second
    assert own == "own"
    sender = sender_to([], "given")
    sender.send(Statement({"op": "truncate", "statement_id": "own"}))
    assert sender.sent.statement_ids == ["own"]


def test_one_given_id_is_not_given_to_two_statements() -> None:
    log: Log = []
    sender = sender_to(log, "mine")
    sender.send(TRUNCATE)
    with pytest.raises(UsageError, match="--statement-id"):
        sender.send(TRUNCATE)
    assert len(ids_in(log)) == 1


def test_statements_share_one_writer_which_is_opened_when_it_is_needed() -> None:
    opened: list[Writer] = []

    def statements() -> Writer:
        opened.append(Writer([], None))
        return opened[-1]

    sender = Sender("broker:9092", Sent("people.changes", SHARDS), Writer([], None), statements)
    sender.send(RowMessage(b"7", None))
    assert opened == []
    sender.send(TRUNCATE)
    sender.send(TRUNCATE)
    (writer,) = opened
    assert len(writer.log) == 2


def test_two_operators_do_not_fence_each_other() -> None:
    assert transactional_id("people.changes") != transactional_id("people.changes")


def test_a_message_that_no_topic_takes_is_refused_by_its_size_and_not_shown() -> None:
    sender = sender_to([])
    sender.send(RowMessage(b"1", b"{}"))
    with pytest.raises(UsageError, match="the 1 before it were sent") as refused:
        sender.send(RowMessage(b"2", b"canary" * MESSAGE_BYTES_MAX))
    assert "canary" not in str(refused.value)
    assert sender.sent.messages == 1


def test_rows_that_kafka_does_not_confirm_are_counted_apart_from_those_it_did() -> None:
    sender = sender_to([], rows=Unconfirmed("broker:9092", "_TIMED_OUT"))
    for _ in range(UNFLUSHED_MESSAGES_MAX - 1):
        sender.send(RowMessage(b"1", b"{}"))
    with pytest.raises(ServerUnreachable) as unsure:
        sender.send(RowMessage(b"2", b"{}"))
    assert "(_TIMED_OUT)" in str(unsure.value)
    assert "0 messages were sent; whether the next 10,000 were is not known" in str(unsure.value)


def test_a_statement_in_doubt_names_the_id_to_repeat_it_with() -> None:
    log: Log = []
    sender = sender_to(log, statements=Unconfirmed("broker:9092", "_TIMED_OUT"))
    with pytest.raises(ServerUnreachable) as unsure:
        sender.send(TRUNCATE)
    (statement_id,) = ids_in(log)
    assert f"--statement-id {statement_id}, it will be applied once only" in str(unsure.value)
    assert sender.sent.statements == 0
