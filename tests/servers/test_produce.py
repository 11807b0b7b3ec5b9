"""`streamer produce`: every message reaches the shard of its row, every statement reaches all shards, once."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from servers.broker.servers import Servers
from streamer.cli.main import main
from streamer.cli.stream import key_form_probe
from streamer.cli.stream import produce as sender_module
from streamer.cli.support.signals import StopSign
from streamer.incremental.events.key_form import shard_of
from streamer.incremental.message_files import read_messages
from worlds.checkout import PATIENTS
from worlds.kafka_and_redis import fresh_name, make_topics, read, write

SHARDS = 3

ROW = {"id": 7, "age": 30, "zip": 12000, "bmi": 20.5, "sex": "Male", "problem": "flu"}

Topic = tuple[str, str]
"""Name of a table, and the folder of its table.yaml."""


@pytest.fixture
def topic(servers: Servers, tmp_path: Path) -> Iterator[Topic]:
    """Name and folder of a table of patients of its own, with its topics."""
    name, folder = fresh_name(), tmp_path / "table"
    shutil.copytree(PATIENTS, folder)
    text = (folder / "table.yaml").read_text()
    (folder / "table.yaml").write_text(text.replace("table: patients", f"table: {name}"))
    make_topics(servers.kafka_bootstrap, name, SHARDS)
    yield name, str(folder)


def produce(servers: Servers, topic: Topic, *arguments: str, stdin: str | None = None) -> Result:
    options = ["--table", topic[1], "--kafka", servers.kafka_bootstrap]
    return CliRunner().invoke(main, ["produce", *arguments, *options], input=stdin)


def arrived(servers: Servers, topic: Topic) -> list[list[Message]]:
    """What every shard of the input holds, committed."""
    return [read(servers.kafka_bootstrap, topic[0], "changes", shard) for shard in range(SHARDS)]


def insertion(source_key: int, **columns: object) -> str:
    return json.dumps({"op": "insert", "row": {**ROW, "id": source_key, **columns}})


def test_rows_reach_the_shards_of_their_keys_and_are_counted(servers: Servers, topic: Topic) -> None:
    result = produce(servers, topic, f"{topic[1]}/rows.csv", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["messages"], report["rows"], report["unrouted"], report["statements"]) == (40, 40, 0, 0)
    shards = arrived(servers, topic)
    assert sum(map(len, shards)) == 40
    for shard, messages in enumerate(shards):
        assert all(shard_of(message.key(), SHARDS) == shard for message in messages)


@dataclass(frozen=True)
class Producers:
    """A producer that is not ours, with keys of one form, into the input of a table."""

    bootstrap: str
    table_name: str
    key_of: Callable[[int], bytes]

    def send(self, values: Iterable[tuple[int, dict[str, object] | None]]) -> None:
        keyed = [(self.key_of(number), value) for number, value in values]
        records = [(shard_of(key, SHARDS), key, json.dumps(value).encode()) for key, value in keyed]
        write(self.bootstrap, f"{self.table_name}.changes", records)


def connect(number: int) -> bytes:
    return b'{"id":%d}' % number


def connect_with_schema(number: int) -> bytes:
    schema = b'{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"name":"shop.people.Key"}'
    return b'{"schema":%b,"payload":{"id":%d}}' % (schema, number)


def created(number: int) -> tuple[int, dict[str, object]]:
    return number, {"op": "c", "before": None, "after": {**ROW, "id": number}}


@pytest.mark.parametrize(
    ("key_of", "form"),
    [(connect, 'json:{"id":number}'), (connect_with_schema, "json-schema:"), (b"%d".__mod__, "bare")],
)
def test_rows_are_sent_under_keys_as_the_topic_has_them(
    servers: Servers, topic: Topic, key_of: Callable[[int], bytes], form: str
) -> None:
    other = Producers(servers.kafka_bootstrap, topic[0], key_of)
    write(other.bootstrap, f"{topic[0]}.changes", [(shard, None, b'{"op": "truncate"}') for shard in range(SHARDS)])
    other.send(created(number) for number in range(1000, 1030))
    deletions = '{"op": "delete", "key": 1001}\n{"key": 1002, "value": null}'
    result = produce(servers, topic, "-", "--json", stdin=f"{insertion(7)}\n{insertion(8)}\n{deletions}")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["key_form"].startswith(form) and report["key_form_seen"] and report["unrouted"] == 0
    shards = arrived(servers, topic)
    sent = {m.key(): shard for shard, messages in enumerate(shards) for m in messages if m.key()}
    for number in (7, 8, 1001, 1002):
        assert sent[key_of(number)] == shard_of(key_of(number), SHARDS)
    text = produce(servers, topic, "-", stdin=insertion(9)).stdout
    assert f"message keys: {report['key_form']}\n" in text


def test_a_topic_that_tells_no_form_gets_bare_keys_and_that_is_said(servers: Servers, topic: Topic) -> None:
    result = produce(servers, topic, f"{topic[1]}/rows.csv")
    assert "message keys: bare, as no message of the topic tells another form" in result.stdout
    assert "message keys: bare\n" in produce(servers, topic, f"{topic[1]}/events.jsonl").stdout


def test_into_a_topic_whose_shards_have_learned_different_forms_nothing_is_sent(servers: Servers, topic: Topic) -> None:
    bare = Producers(servers.kafka_bootstrap, topic[0], b"%d".__mod__)
    json_keys = Producers(servers.kafka_bootstrap, topic[0], connect)
    bare.send(created(number) for number in range(100) if shard_of(b"%d" % number, SHARDS) == 0)
    json_keys.send(created(number) for number in range(100) if shard_of(connect(number), SHARDS) == 1)
    before = [len(messages) for messages in arrived(servers, topic)]
    result = produce(servers, topic, f"{topic[1]}/rows.csv", "--truncate")
    assert result.exit_code == 2
    assert "several forms (shard 0: bare; shard 1: json:" in result.stderr
    assert [len(messages) for messages in arrived(servers, topic)] == before
    assert produce(servers, topic, "--truncate").exit_code == 0
    result = produce(servers, topic, f"{topic[1]}/rows.csv", "--json")
    assert (result.exit_code, json.loads(result.stdout)["key_form_seen"]) == (0, False)


def test_what_a_shard_refuses_does_not_tell_its_form(servers: Servers, topic: Topic) -> None:
    bare = Producers(servers.kafka_bootstrap, topic[0], b"%d".__mod__)
    json_keys = Producers(servers.kafka_bootstrap, topic[0], connect)
    bare.send(created(number) for number in range(30))
    json_keys.send(created(number) for number in range(30))
    result = produce(servers, topic, "-", "--json", stdin=insertion(77))
    assert json.loads(result.stdout)["key_form"] == "bare"


def test_what_may_have_been_truncated_between_the_records_that_are_read_is_in_doubt(
    servers: Servers, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_form_probe, "OFFSETS_LOOKED_AT", 4)
    bare = Producers(servers.kafka_bootstrap, topic[0], b"%d".__mod__)
    bare.send(created(number) for number in range(60))
    assert json.loads(produce(servers, topic, "-", "--json", stdin=insertion(77)).stdout)["key_form"] == "bare"
    Producers(servers.kafka_bootstrap, topic[0], connect).send(created(number) for number in range(60))
    assert produce(servers, topic, "-", stdin=insertion(78)).exit_code == 2
    assert produce(servers, topic, "--truncate").exit_code == 0
    Producers(servers.kafka_bootstrap, topic[0], connect).send(created(number) for number in range(3))
    result = produce(servers, topic, "-", "--json", stdin=insertion(79))
    assert json.loads(result.stdout)["key_form"] == 'json:{"id":number}'


def test_where_the_beginning_has_expired_what_is_left_must_agree(servers: Servers, topic: Topic) -> None:
    bare = Producers(servers.kafka_bootstrap, topic[0], b"%d".__mod__)
    json_keys = Producers(servers.kafka_bootstrap, topic[0], connect)
    bare.send(created(number) for number in range(30))
    admin = AdminClient({"bootstrap.servers": servers.kafka_bootstrap})
    places = [TopicPartition(f"{topic[0]}.changes", shard, 2) for shard in range(SHARDS)]
    for answer in admin.delete_records(places).values():
        answer.result(20)
    assert json.loads(produce(servers, topic, "-", "--json", stdin=insertion(77)).stdout)["key_form_seen"]
    json_keys.send(created(number) for number in range(30))
    result = produce(servers, topic, "-", stdin=insertion(78))
    assert result.exit_code == 2
    assert "several forms" in result.stderr


def test_rows_do_not_go_where_murmur2_puts_them_when_their_own_producer_is_said_to_place_them(
    servers: Servers, topic: Topic
) -> None:
    with open(f"{topic[1]}/table.yaml", "a") as file:
        file.write("input: {partitioner: stated}\n")
    for arguments in ([f"{topic[1]}/rows.csv", "--truncate"], [f"{topic[1]}/events.jsonl"]):
        result = produce(servers, topic, *arguments)
        assert result.exit_code == 2
        assert "partitioner: stated" in result.stderr
    assert arrived(servers, topic) == [[]] * SHARDS
    assert produce(servers, topic, "--truncate").exit_code == 0


# -- which files ------------------------------------------------------------------------------------------------------


def test_packed_files_are_unpacked_and_sent_row_by_row(servers: Servers, topic: Topic) -> None:
    for name in ("rows.csv", "events.jsonl"):
        path = Path(topic[1], f"{name}.gz")
        path.write_bytes(gzip.compress(Path(topic[1], name).read_bytes()))
        result = produce(servers, topic, str(path), "--json", "--limit", "5")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["rows"] == 5


def test_a_format_is_said_where_the_name_does_not_tell(servers: Servers, topic: Topic) -> None:
    rows = Path(topic[1], "rows.csv").read_text()
    path = Path(topic[1], "rows.txt")
    path.write_text(rows)
    refused = produce(servers, topic, str(path))
    assert refused.exit_code == 2
    assert "--format" in refused.stderr
    for file, stdin in ((str(path), None), ("-", rows)):
        result = produce(servers, topic, file, "--format", "csv", "--json", stdin=stdin)
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["rows"] == 40


@pytest.mark.parametrize("name", ["rows.csv.zip", "rows", "rows.xlsx", "rows.json"])
def test_a_file_of_an_unknown_kind_is_not_sent_line_by_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("id,age\n1,2\n")
    result = CliRunner().invoke(main, ["produce", str(path), "--table", str(PATIENTS), "--kafka", "127.0.0.1:1"])
    assert result.exit_code == 2
    assert "--format csv or jsonl" in result.stderr


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_a_file_that_is_not_what_its_name_says_is_not_sent(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("id,age,zip\n1,2,3\n" if name.endswith("jsonl") else '{"op": "delete", "key": 7}\n')
    result = CliRunner().invoke(main, ["produce", str(path), "--table", str(PATIENTS), "--kafka", "127.0.0.1:1"])
    assert result.exit_code == 2


def test_a_truncation_does_not_go_out_before_rows_that_lack_a_column(servers: Servers, topic: Topic) -> None:
    path = Path(topic[1], "lacking.csv")
    path.write_text("id,age\n1,2\n")
    result = produce(servers, topic, str(path), "--truncate")
    assert result.exit_code == 2
    assert "has no column 'zip'" in result.stderr
    assert arrived(servers, topic) == [[]] * SHARDS


def test_librdkafkas_murmur2_puts_the_same_keys_into_the_same_shards(servers: Servers, topic: Topic) -> None:
    where: dict[bytes, int] = {}
    producer = Producer({"bootstrap.servers": servers.kafka_bootstrap, "partitioner": "murmur2_random"})
    for number in range(300):
        message_key = f"key-{number * 7919}"[: 4 + number % 9].encode() + bytes([number % 256])
        producer.produce(
            f"{topic[0]}.changes",
            b"x",
            message_key,
            on_delivery=lambda _, message: where.update({message.key(): message.partition()}),
        )
    assert producer.flush(20) == 0
    assert len(where) > 200
    assert where == {message_key: shard_of(message_key, SHARDS) for message_key in where}


def test_messages_of_one_row_keep_their_order_around_statements(servers: Servers, topic: Topic) -> None:
    lines = [
        insertion(1),
        '{"op": "modify", "key": 1, "row": {"age": 31}}',
        '{"op": "modify", "where": "age = 31", "set": {"age": "32"}}',
        '{"op": "modify", "key": 1, "row": {"age": 33}}',
        '{"key": 1, "value": null}',
    ]
    result = produce(servers, topic, "-", stdin="\n".join(lines))
    assert result.exit_code == 0, result.output
    home = arrived(servers, topic)[shard_of(b"1", SHARDS)]
    said = [None if message.value() is None else json.loads(message.value()) for message in home]
    for statement in said:
        (statement or {}).pop("statement_id", None)
    assert said == [*map(json.loads, lines[:4]), None]


def test_a_statement_reaches_every_shard_once_under_one_id_and_in_a_transaction(servers: Servers, topic: Topic) -> None:
    result = produce(servers, topic, "-", "--json", stdin='{"op": "delete", "where": "age > 100"}')
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["statements"], report["messages"]) == (1, SHARDS)
    (statement_id,) = report["statement_ids"]
    for messages in arrived(servers, topic):
        (message,) = messages
        body = {"op": "delete", "where": "age > 100", "statement_id": statement_id}
        assert json.loads(message.value()) == body
        assert message.key() is None


def test_a_statement_is_repeated_under_the_id_that_is_given(servers: Servers, topic: Topic) -> None:
    for _ in range(2):
        result = produce(servers, topic, "--truncate", "--statement-id", "again-1")
        assert result.exit_code == 0, result.output
        assert "again-1" in result.stdout
    for messages in arrived(servers, topic):
        assert [json.loads(m.value()) for m in messages] == 2 * [{"op": "truncate", "statement_id": "again-1"}]


def test_one_id_is_not_given_to_two_statements(servers: Servers, topic: Topic) -> None:
    statements = '{"op": "delete", "where": "age > 100"}\n{"op": "delete", "where": "age > 90"}'
    result = produce(servers, topic, "-", "--statement-id", "one", stdin=statements)
    assert result.exit_code == 2
    assert "--statement-id" in result.stderr
    assert [len(messages) for messages in arrived(servers, topic)] == [1] * SHARDS


def test_a_truncation_goes_before_the_rows_that_come_with_it(servers: Servers, topic: Topic) -> None:
    result = produce(servers, topic, f"{topic[1]}/rows.csv", "--truncate", "--limit", "30")
    assert result.exit_code == 0, result.output
    shards = arrived(servers, topic)
    assert all(json.loads(messages[0].value())["op"] == "truncate" for messages in shards)
    assert sum(map(len, shards)) == 30 + SHARDS


def test_a_statement_whose_transaction_hangs_names_the_id_to_repeat_it_with(
    servers: Servers, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hanging(Producer):
        def commit_transaction(self, *limits: float) -> None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr("streamer.kafka.clients.Producer", Hanging)
    result = produce(servers, topic, "--truncate", "--statement-id", "lost-7")
    assert result.exit_code == 3
    assert "--statement-id lost-7" in result.stderr


def test_rows_that_kafka_does_not_confirm_are_counted_apart_from_those_it_did(
    servers: Servers, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unanswered(Producer):
        def flush(self, *limits: float) -> int:
            return 9

    monkeypatch.setattr("streamer.kafka.clients.Producer", Unanswered)
    result = produce(servers, topic, "-", stdin="\n".join(insertion(number) for number in range(9)))
    assert result.exit_code == 3
    assert "0 messages were sent; whether the next 9 were is not known" in result.stderr


def test_malformed_lines_are_sent_as_they_are_and_always_to_the_same_shard(servers: Servers, topic: Topic) -> None:
    for _ in range(2):
        result = produce(servers, topic, "-", "--json", stdin=f'{insertion(1)}\n{{"op": \nnonsense\n')
        assert result.exit_code == 0, result.output
        assert (json.loads(result.stdout)["rows"], json.loads(result.stdout)["unrouted"]) == (1, 2)
    shards = [[m.value() for m in messages if m.key() is None] for messages in arrived(servers, topic)]
    assert sorted(value for values in shards for value in values) == [b"nonsense"] * 2 + [b'{"op":'] * 2
    assert all(values.count(value) == 2 for values in shards for value in values)


def test_a_rate_is_kept(servers: Servers, topic: Topic) -> None:
    lines = "\n".join(insertion(number) for number in range(300))
    started = monotonic()
    result = produce(servers, topic, "-", "--rate", "200", "--limit", "200", stdin=lines)
    seconds = monotonic() - started
    assert result.exit_code == 0, result.output
    assert 0.9 < seconds < 30, "a second at this rate; neither all at once nor one by one"
    assert sum(map(len, arrived(servers, topic))) == 200


def test_a_message_that_no_topic_takes_is_named_by_its_size_and_not_shown(servers: Servers, topic: Topic) -> None:
    result = produce(servers, topic, "-", stdin=f"{insertion(1)}\n{insertion(2, problem='canary' * 200_000)}")
    assert result.exit_code == 2
    assert "larger than 1,000,000 bytes; the 1 before it were sent" in result.stderr
    assert "canary" not in result.output


def test_nothing_of_a_row_is_printed(servers: Servers, topic: Topic, caplog: pytest.LogCaptureFixture) -> None:
    result = produce(servers, topic, "-", stdin=insertion(424242, problem="canary-flu"))
    assert result.exit_code == 0
    for secret in ("424242", "canary"):
        assert secret not in result.output
        assert secret not in caplog.text


def test_the_example_events_are_sent_whole(servers: Servers, topic: Topic) -> None:
    result = produce(servers, topic, f"{topic[1]}/events.jsonl", "--json")
    assert result.exit_code == 0, result.output
    lines = list(read_messages(f"{topic[1]}/events.jsonl"))
    report = json.loads(result.stdout)
    assert report["rows"] + report["unrouted"] + report["statements"] == len(lines)
    assert report["unrouted"] == 0


def test_a_missing_topic_is_a_usage_error_that_names_the_command(servers: Servers, tmp_path: Path) -> None:
    folder = tmp_path / "none"
    shutil.copytree(PATIENTS, folder)
    text = (folder / "table.yaml").read_text().replace("table: patients", f"table: {fresh_name()}")
    (folder / "table.yaml").write_text(text)
    result = produce(servers, ("", str(folder)), "--truncate")
    assert result.exit_code == 2
    assert "streamer topics create" in result.stderr


def test_nothing_to_send_is_a_usage_error() -> None:
    assert CliRunner().invoke(main, ["produce", "--table", str(PATIENTS)]).exit_code == 2


def test_a_kafka_that_does_not_answer_ends_with_3() -> None:
    arguments = ["produce", "--table", str(PATIENTS), "--kafka", "127.0.0.1:1", "--truncate"]
    assert CliRunner().invoke(main, arguments).exit_code == 3


# -- messy files ----------------------------------------------------------------------------------------------------

HEADER = "id,age,zip,bmi,sex,problem"


def rows_file(topic: Topic, *rows: str) -> str:
    path = Path(topic[1]) / "messy.csv"
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return str(path)


def ops(servers: Servers, topic: Topic) -> dict[bytes, str]:
    """What was said last of every key."""
    values = [(message.key(), message.value()) for shard in arrived(servers, topic) for message in shard]
    return {key or b"": json.loads(value)["op"] for key, value in values if value is not None}


def test_refused_rows_are_not_sent_and_are_listed_and_rows_may_be_upserts(servers: Servers, topic: Topic) -> None:
    path = rows_file(topic, "1,30,12000,20,Male,flu", "2,777,12000,20,Male,flu", "3,31,12000,20,Male,flu")
    left_out = Path(topic[1]) / "left-out.csv"
    result = produce(servers, topic, path, "--upsert", "--skip-refused", str(left_out))
    assert result.exit_code == 0, result.output
    assert ops(servers, topic) == {b"1": "upsert", b"3": "upsert"}
    assert left_out.read_text().splitlines() == ["data_row,reason,column", "2,out-of-domain,age"]
    assert f"left out: 1 of 3 rows, listed in {left_out}: 1 out-of-domain (age)" in result.stdout


def test_upserts_and_a_list_of_rows_are_of_csv_files_alone(servers: Servers, topic: Topic) -> None:
    for option in (["--upsert"], ["--skip-refused", f"{topic[1]}/list.csv"]):
        result = produce(servers, topic, f"{topic[1]}/events.jsonl", *option)
        assert (result.exit_code, "for rows of a CSV file" in result.stderr) == (2, True)


def test_keys_that_look_alike_are_warned_of_and_sent(servers: Servers, topic: Topic) -> None:
    path = rows_file(topic, "7,30,12000,20,Male,flu", "7.0,30,12000,20,Male,flu", "8,31,12000,20,Male,flu")
    result = produce(servers, topic, path)
    assert "warning: key column id: 2 keys look like another one" in result.stdout
    assert len(ops(servers, topic)) == 3


def test_rows_whose_category_is_not_listed_are_counted_and_sent(servers: Servers, topic: Topic) -> None:
    table = Path(topic[1]) / "table.yaml"
    sex = "hierarchy: hierarchies/sex.csv"
    assert sex in table.read_text()
    table.write_text(table.read_text().replace(sex, f"{sex}, other: '*'"))
    path = rows_file(topic, "7,30,12000,20,Mlae,flu", "8,31,12000,20,Male,flu")
    result = produce(servers, topic, path)
    assert "warning: 1 of 2 rows have a sex that its hierarchy does not list" in result.stdout
    assert "Mlae" not in result.stdout and len(ops(servers, topic)) == 2


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_what_ctrl_c_interrupted_goes_on_behind_what_was_sent(
    servers: Servers, topic: Topic, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rows_file(topic, *(f"{number},30,12000,20,Male,flu" for number in range(1, 31)))
    if form == "jsonl":
        path = f"{topic[1]}/messy.jsonl"
        Path(path).write_text("\n".join(insertion(number) for number in range(1, 31)))
    send = sender_module.Sender.send

    def pressed_at_the_twelfth(self: sender_module.Sender, message: object) -> None:
        if self.sent.messages == 11:
            os.kill(os.getpid(), signal.SIGINT)
        send(self, message)  # type: ignore[arg-type]

    monkeypatch.setattr(sender_module.Sender, "send", pressed_at_the_twelfth)
    result = produce(servers, topic, path)
    assert result.exit_code == 130, result.output
    assert "12 messages to" in result.stdout
    assert "interrupted behind row or line 12: to go on, say the same with --from 13" in result.stdout
    assert len(ops(servers, topic)) == 12
    monkeypatch.setattr(sender_module.Sender, "send", send)
    assert produce(servers, topic, path, "--from", "13").exit_code == 0
    shards = arrived(servers, topic)
    assert sorted(int(message.key()) for shard in shards for message in shard) == list(range(1, 31))


@pytest.mark.parametrize(("limit", "then"), [((), "--from 9"), (("--limit", "20"), "--from 9 --limit 16")])
def test_what_was_begun_in_the_middle_goes_on_where_it_is_and_sends_no_more_than_was_asked_for(
    servers: Servers, topic: Topic, limit: tuple[str, ...], then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rows_file(topic, *(f"{number},30,12000,20,Male,flu" for number in range(1, 31)))
    send = sender_module.Sender.send

    def pressed_at_the_fourth(self: sender_module.Sender, message: object) -> None:
        if self.sent.messages == 3:
            os.kill(os.getpid(), signal.SIGINT)
        send(self, message)  # type: ignore[arg-type]

    monkeypatch.setattr(sender_module.Sender, "send", pressed_at_the_fourth)
    result = produce(servers, topic, path, "--from", "5", *limit, "--json")
    assert result.exit_code == 130, result.output
    assert json.loads(result.stdout)["to_go_on"] == then


def test_what_was_interrupted_before_its_first_row_begins_with_that_row_again(
    servers: Servers, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rows_file(topic, *(f"{number},30,12000,20,Male,flu" for number in range(1, 31)))

    def nothing(self: StopSign, _pieces: object) -> Iterator[object]:
        self.press()
        return iter(())

    monkeypatch.setattr(StopSign, "until_up", nothing)
    result = produce(servers, topic, path, "--from", "5")
    assert result.exit_code == 130, result.output
    assert "behind row or line 4: to go on, say the same with --from 5" in result.stdout


def test_of_upserts_with_one_key_none_is_refused_and_the_last_one_counts(servers: Servers, topic: Topic) -> None:
    path = rows_file(topic, "1,30,12000,20,Male,flu", "2,30,1,20,Male,flu", "1,31,12000,20,Male,flu")
    result = produce(servers, topic, path, "--upsert", "--skip-refused", f"{topic[1]}/left-out.csv", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["left_out"]["refused"] == [{"reason": "out-of-domain", "column": "zip", "rows": 1}]
    ages = [json.loads(message.value() or b"")["row"]["age"] for shard in arrived(servers, topic) for message in shard]
    assert ages == [30, 31]


def test_going_on_and_removing_all_exclude_each_other(servers: Servers, topic: Topic) -> None:
    result = produce(servers, topic, f"{topic[1]}/rows.csv", "--truncate", "--from", "2")
    assert (result.exit_code, "--truncate would remove it" in result.stderr) == (2, True)
