"""`streamer produce`: every message reaches the shard of its row, every statement reaches all shards, once."""

from __future__ import annotations

import gzip
import json
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import monotonic

import pytest
from click.testing import CliRunner
from confluent_kafka import Message, Producer

from servers.broker.servers import Servers
from streamer.cli.main import main
from streamer.cli.support.signals import StopSign
from streamer.incremental.events.key_form import shard_of
from streamer.incremental.topics import CHANGES
from worlds.checkout import PATIENTS
from worlds.workers import WorkedTable, wait_until

SHARDS = 3

ROW = {"id": 7, "age": 30, "zip": 12000, "bmi": 20.5, "sex": "Male", "problem": "flu"}
HEADER = "id,age,zip,bmi,sex,problem"


@pytest.fixture
def table(servers: Servers, tmp_path: Path) -> WorkedTable:
    return WorkedTable(servers, tmp_path / "table", SHARDS)


def arrived(table: WorkedTable) -> list[list[Message]]:
    """What every shard of the input holds, committed."""
    return [table.read(CHANGES, shard) for shard in range(SHARDS)]


def insertion(source_key: int, **columns: object) -> str:
    return json.dumps({"op": "insert", "row": {**ROW, "id": source_key, **columns}})


# -- message keys -----------------------------------------------------------------------------------------------------

KeyOf = Callable[[int], bytes]


def bare(number: int) -> bytes:
    return b"%d" % number


def connect(number: int) -> bytes:
    return b'{"id":%d}' % number


def connect_with_schema(number: int) -> bytes:
    schema = b'{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"name":"shop.people.Key"}'
    return b'{"schema":%b,"payload":{"id":%d}}' % (schema, number)


def create(table: WorkedTable, key_of: KeyOf, numbers: Iterable[int]) -> None:
    """Another producer, with keys of a form, says that these rows were created."""
    values = ((key_of(n), {"op": "c", "before": None, "after": {**ROW, "id": n}}) for n in numbers)
    table.send((shard_of(key, SHARDS), key, json.dumps(value).encode()) for key, value in values)


@pytest.mark.parametrize(
    ("key_of", "form"), [(connect, 'json:{"id":number}'), (connect_with_schema, "json-schema:"), (bare, "bare")]
)
def test_rows_are_sent_under_keys_as_the_topic_has_them(table: WorkedTable, key_of: KeyOf, form: str) -> None:
    table.send((shard, None, b'{"op": "truncate"}') for shard in range(SHARDS))
    create(table, key_of, range(1000, 1030))
    deletions = '{"op": "delete", "key": 1001}\n{"key": 1002, "value": null}'
    report = table.report("produce", "-", stdin=f"{insertion(7)}\n{insertion(8)}\n{deletions}")
    assert report["key_form"].startswith(form) and report["key_form_seen"] and report["unrouted"] == 0
    sent = {m.key(): shard for shard, messages in enumerate(arrived(table)) for m in messages if m.key()}
    for number in (7, 8, 1001, 1002):
        assert sent[key_of(number)] == shard_of(key_of(number), SHARDS)
    assert f"message keys: {report['key_form']}\n" in table.must("produce", "-", stdin=insertion(9)).stdout


def test_a_topic_that_shows_no_form_gets_bare_keys_and_that_is_said(table: WorkedTable) -> None:
    said = table.must("produce", table.folder / "rows.csv").stdout
    assert "message keys: bare, as no message of the topic shows another form" in said
    assert "message keys: bare\n" in table.must("produce", table.folder / "events.jsonl").stdout


def test_nothing_is_sent_into_a_topic_whose_shards_have_learned_different_forms(table: WorkedTable) -> None:
    create(table, bare, (n for n in range(100) if shard_of(bare(n), SHARDS) == 0))
    create(table, connect, (n for n in range(100) if shard_of(connect(n), SHARDS) == 1))
    before = table.ends()
    said = table.refused("produce", table.folder / "rows.csv", "--truncate")
    assert "several forms (shard 0: bare; shard 1: json:" in said
    assert table.ends() == before
    table.must("produce", "--truncate")
    assert not table.report("produce", table.folder / "rows.csv")["key_form_seen"]


def test_rows_do_not_go_where_murmur2_puts_them_if_their_own_producer_is_said_to_place_them(table: WorkedTable) -> None:
    with table.table.open("a") as file:
        file.write("input: {partitioner: stated}\n")
    for arguments in (["rows.csv", "--truncate"], ["events.jsonl"]):
        assert "partitioner: stated" in table.refused("produce", table.folder / arguments[0], *arguments[1:])
    assert table.ends() == [0] * SHARDS
    table.must("produce", "--truncate")


def test_librdkafkas_murmur2_puts_the_same_keys_into_the_same_shards(table: WorkedTable) -> None:
    where: dict[bytes, int] = {}

    def delivered(_: object, message: Message) -> None:
        where[message.key()] = message.partition()

    producer = Producer({"bootstrap.servers": table.bootstrap, "partitioner": "murmur2_random"})
    for number in range(300):
        message_key = f"key-{number * 7919}"[: 4 + number % 9].encode() + bytes([number % 256])
        producer.produce(table.input, b"x", message_key, on_delivery=delivered)
    assert producer.flush(20) == 0
    assert len(where) > 200
    assert where == {message_key: shard_of(message_key, SHARDS) for message_key in where}


# -- which files ------------------------------------------------------------------------------------------------------


def test_packed_files_are_unpacked_and_sent_row_by_row(table: WorkedTable) -> None:
    for name in ("rows.csv", "events.jsonl"):
        path = table.folder / f"{name}.gz"
        path.write_bytes(gzip.compress((table.folder / name).read_bytes()))
        assert table.report("produce", path, "--limit", "5")["rows"] == 5


def test_a_format_is_said_if_the_name_does_not_say_it(table: WorkedTable) -> None:
    path, rows = table.folder / "rows.txt", (table.folder / "rows.csv").read_text()
    path.write_text(rows)
    assert "--format" in table.refused("produce", path)
    for file, stdin in ((path, None), ("-", rows)):
        assert table.report("produce", file, "--format", "csv", stdin=stdin)["rows"] == 40


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        *((name, "id,age\n1,2\n", "--format csv or jsonl") for name in ("rows.csv.zip", "rows", "rows.json")),
        ("rows.jsonl", "id,age,zip\n1,2,3\n", ""),
        ("rows.csv", '{"op": "delete", "key": 7}\n', ""),
    ],
)  # fmt: skip
def test_a_file_of_another_kind_than_its_name_says_is_not_sent(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    words = ["produce", str(tmp_path / name), "--table", str(PATIENTS), "--kafka", "127.0.0.1:1"]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, says in result.stderr) == (2, True)


def test_a_truncation_does_not_go_out_before_rows_that_lack_a_column(table: WorkedTable) -> None:
    (table.folder / "lacking.csv").write_text("id,age\n1,2\n")
    assert "has no column 'zip'" in table.refused("produce", table.folder / "lacking.csv", "--truncate")
    assert table.ends() == [0] * SHARDS


def test_nothing_to_send_is_a_usage_error() -> None:
    assert CliRunner().invoke(main, ["produce", "--table", str(PATIENTS)]).exit_code == 2


# -- statements -------------------------------------------------------------------------------------------------------


def test_messages_of_one_row_keep_their_order_around_statements(table: WorkedTable) -> None:
    lines = [
        insertion(1),
        '{"op": "modify", "key": 1, "row": {"age": 31}}',
        '{"op": "modify", "where": "age = 31", "set": {"age": "32"}}',
        '{"op": "modify", "key": 1, "row": {"age": 33}}',
        '{"key": 1, "value": null}',
    ]
    table.must("produce", "-", stdin="\n".join(lines))
    home = arrived(table)[shard_of(b"1", SHARDS)]
    said = [None if message.value() is None else json.loads(message.value()) for message in home]
    for statement in said:
        (statement or {}).pop("statement_id", None)
    assert said == [*map(json.loads, lines[:4]), None]


def test_a_statement_is_repeated_under_the_id_that_is_given(table: WorkedTable) -> None:
    for _ in range(2):
        assert "again-1" in table.must("produce", "--truncate", "--statement-id", "again-1").stdout
    for messages in arrived(table):
        assert [json.loads(m.value()) for m in messages] == 2 * [{"op": "truncate", "statement_id": "again-1"}]


def test_a_truncation_goes_before_the_rows_that_come_with_it(table: WorkedTable) -> None:
    table.must("produce", table.folder / "rows.csv", "--truncate", "--limit", "30")
    shards = arrived(table)
    assert all(json.loads(messages[0].value())["op"] == "truncate" for messages in shards)
    assert sum(map(len, shards)) == 30 + SHARDS


def test_a_rate_is_kept(table: WorkedTable) -> None:
    lines = "\n".join(insertion(number) for number in range(300))
    started = monotonic()
    table.must("produce", "-", "--rate", "200", "--limit", "200", stdin=lines)
    assert 0.9 < monotonic() - started < 30, "a second at this rate; neither all at once nor one by one"
    assert sum(table.ends()) == 200


def test_nothing_of_a_row_is_printed(table: WorkedTable, caplog: pytest.LogCaptureFixture) -> None:
    result = table.must("produce", "-", stdin=insertion(424242, problem="canary-flu"))
    assert not [secret for secret in ("424242", "canary") if secret in result.output + caplog.text]


# -- messy files ------------------------------------------------------------------------------------------------------


def rows_file(table: WorkedTable, *rows: str) -> Path:
    path = table.folder / "messy.csv"
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


def ops(table: WorkedTable) -> dict[bytes, str]:
    """What was said last of every key."""
    values = [(message.key(), message.value()) for shard in arrived(table) for message in shard]
    return {key or b"": json.loads(value)["op"] for key, value in values if value is not None}


def test_refused_rows_are_not_sent_and_are_listed_and_rows_may_be_upserts(table: WorkedTable) -> None:
    path = rows_file(table, "1,30,12000,20,Male,flu", "2,777,12000,20,Male,flu", "3,31,12000,20,Male,flu")
    left_out = table.folder / "left-out.csv"
    said = table.must("produce", path, "--upsert", "--skip-refused", left_out).stdout
    assert ops(table) == {b"1": "upsert", b"3": "upsert"}
    assert left_out.read_text().splitlines() == ["data_row,reason,column", "2,out-of-domain,age"]
    assert f"left out: 1 of 3 rows, listed in {left_out}: 1 out-of-domain (age)" in said


def test_of_upserts_with_one_key_none_is_refused_and_the_last_one_counts(table: WorkedTable) -> None:
    path = rows_file(table, "1,30,12000,20,Male,flu", "2,30,1,20,Male,flu", "1,31,12000,20,Male,flu")
    report = table.report("produce", path, "--upsert", "--skip-refused", table.folder / "left-out.csv")
    assert report["left_out"]["refused"] == [{"reason": "out-of-domain", "column": "zip", "rows": 1}]
    ages = [json.loads(message.value() or b"")["row"]["age"] for shard in arrived(table) for message in shard]
    assert ages == [30, 31]


@pytest.mark.parametrize(
    ("file", "options", "says"),
    [
        ("events.jsonl", ["--upsert"], "for files of rows"),
        ("events.jsonl", ["--skip-refused", "list.csv"], "for files of rows"),
        ("rows.csv", ["--truncate", "--from", "2"], "--truncate would remove it"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    table: WorkedTable, file: str, options: list[str], says: str
) -> None:
    assert says in table.refused("produce", table.folder / file, *options)


def test_keys_that_look_alike_are_warned_of_and_sent(table: WorkedTable) -> None:
    path = rows_file(table, "7,30,12000,20,Male,flu", "7.0,30,12000,20,Male,flu", "8,31,12000,20,Male,flu")
    assert "warning: key column id: 2 keys look like another one" in table.must("produce", path).stdout
    assert len(ops(table)) == 3


def test_rows_whose_category_is_not_listed_are_counted_and_sent(table: WorkedTable) -> None:
    table.edit_yaml("hierarchy: hierarchies/sex.csv", "hierarchy: hierarchies/sex.csv, other: '*'")
    said = table.must("produce", rows_file(table, "7,30,12000,20,Mlae,flu", "8,31,12000,20,Male,flu")).stdout
    assert "warning: 1 of 2 rows have a sex that its hierarchy does not list" in said
    assert "Mlae" not in said and len(ops(table)) == 2


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------


def many_rows(table: WorkedTable) -> Path:
    return rows_file(table, *(f"{number},30,12000,20,Male,flu" for number in range(1, 31)))


@pytest.mark.parametrize(
    ("form", "words", "first", "last"),
    [("csv", [], 1, 30), ("jsonl", [], 1, 30), ("csv", ["--from", "5", "--limit", "20"], 5, 24)],
)
def test_what_ctrl_c_interrupted_goes_on_after_what_was_sent(
    table: WorkedTable, form: str, words: list[str], first: int, last: int
) -> None:
    path = many_rows(table)
    if form == "jsonl":
        path = table.folder / "messy.jsonl"
        path.write_text("\n".join(insertion(number) for number in range(1, 31)))
    with table.begun("produce", path, *words, "--rate", "5", text=True) as sending:
        wait_until(lambda: sum(table.ends()) > 2, 40, lambda: "nothing is sent")
        sending.send_signal(signal.SIGINT)
        said = sending.communicate(timeout=60)[0]
    assert sending.returncode == 130, said
    sent = sum(table.ends())
    assert f"{sent} messages to" in said
    to_go_on = f"--from {first + sent}" + (f" --limit {last - first - sent + 1}" if words else "")
    assert f"interrupted after row or line {first + sent - 1}: to go on, repeat the command with {to_go_on}" in re.sub(
        r"\s+", " ", said
    )
    table.must("produce", path, *to_go_on.split())
    keys = sorted(int(message.key()) for shard in arrived(table) for message in shard)
    assert keys == list(range(first, last + 1))


def test_what_was_interrupted_before_its_first_row_begins_with_that_row_again(
    table: WorkedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(self: StopSign, _pieces: object) -> Iterator[object]:
        self.press()
        return iter(())

    monkeypatch.setattr(StopSign, "until_up", nothing)
    result = table.call("produce", many_rows(table), "--from", "5")
    assert result.exit_code == 130, result.output
    assert "after row or line 4: to go on, repeat the command with --from 5" in result.stdout
