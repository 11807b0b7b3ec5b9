"""`streamer status`, `groups` and `dead-letters` over shards that a real publisher has worked on.

The publisher is the worker's, over real Redis and real Kafka transactions; only the loop around it is this file's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient

from servers.broker.servers import Servers
from streamer.cli.main import main
from streamer.errors import ServerUnreachable
from streamer.incremental.release.records import Outgoing
from streamer.incremental.shard.input import Message
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.base import Meta, State
from streamer.incremental.store.redis_lookups import RedisLookups
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import CHANGES, topic_name
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput
from streamer.table.yaml.loading import load_table
from worlds.boxes import Twin
from worlds.checkout import PATIENTS, ROOT
from worlds.kafka_and_redis import fresh_name, make_topics, read, write
from worlds.shards import Driven
from worlds.workers import ENDS_SECONDS_MAX, wait_until

SHARDS = 2
OTHERS = ("changes", "positions", "dead-letters", "control")
"""The kinds of topics beside `live`."""

NOWHERE = "127.0.0.1:1"


@dataclass
class OperatedTable:
    """A table of patients of its own on real servers, and what its operator does with it."""

    servers: Servers
    name: str
    folder: Path

    def run(self, command: str, *arguments: str) -> Result:
        options = ["--table", str(self.folder)]
        if command != "groups":
            options += ["--kafka", self.servers.kafka_bootstrap]
        if command in ("groups", "status"):
            options += ["--redis", self.servers.redis_url]
        if command == "status" and "--dead-letters-max" not in arguments:
            options += ["--dead-letters-max", "1"]  # a third of some of the few messages here is refused by intention
        return CliRunner().invoke(main, [command, *arguments, *options])

    def report(self, command: str, *arguments: str) -> dict[str, Any]:
        """What the command says as JSON; that of `status` agrees with its exit code."""
        result = self.run(command, *arguments, "--json")
        report: dict[str, Any] = json.loads(result.stdout)
        assert result.exit_code == (0 if report.get("ok", True) else 1), result.output
        return report

    def state(self, shard: int) -> State:
        """All that Redis holds of a shard that has committed."""
        state = self.store(shard).load()
        assert state is not None
        return state

    def store(self, shard: int) -> RedisLookups:
        return RedisLookups(connect(self.servers.redis_url), self.name, shard)

    def work(self, make_outlet: Callable[..., KafkaOutlet] = KafkaOutlet) -> list[Driven]:
        """Lets a worker take every shard over and read its input to the end."""
        publishers = []
        for shard in range(SHARDS):
            outlet = make_outlet(self.servers.kafka_bootstrap, self.name, shard)
            publisher = Driven(load_table(self.folder), shard, self.store(shard), outlet)
            start = publisher.take_over(KafkaInput(self.servers.kafka_bootstrap, self.name, shard).state())
            records = read(self.servers.kafka_bootstrap, self.name, CHANGES, shard)
            messages = [Message(record.offset(), record.key(), record.value()) for record in records]
            publisher.step([message for message in messages if message.offset >= start])
            publishers.append(publisher)
        return publishers


@pytest.fixture
def fresh(servers: Servers, tmp_path: Path) -> OperatedTable:
    return table_on(servers, tmp_path)


def table_on(servers: Servers, directory: Path, but: dict[str, int] | None = None) -> OperatedTable:
    """A table nobody has used; `but` names kinds of topics with another number of partitions."""
    name, folder = fresh_name(), directory / "table"
    shutil.copytree(PATIENTS, folder)
    text = (folder / "table.yaml").read_text()
    (folder / "table.yaml").write_text(text.replace("table: patients", f"table: {name}"))
    make_topics(servers.kafka_bootstrap, name, SHARDS, but)
    return OperatedTable(servers, name, folder)


@pytest.fixture
def worked(fresh: OperatedTable) -> OperatedTable:
    """The same after rows, events, statements and a few messages that are refused."""
    assert fresh.run("produce", str(fresh.folder / "rows.csv")).exit_code == 0
    assert fresh.run("produce", str(fresh.folder / "events.jsonl")).exit_code == 0
    bad = fresh.folder / "bad.jsonl"
    bad.write_text('{"op": "insert", "row": {"id": "canary-2"}}\ncanary-1\n{"op": "delete", "key": "canary-3"}\n')
    assert fresh.run("produce", str(bad)).exit_code == 0
    fresh.work()
    return fresh


class LostBeforePublishing(KafkaOutlet):
    """Loses Kafka between the commit and its transaction."""

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        raise ServerUnreachable("the broker is gone")


# -- status -----------------------------------------------------------------------------------------------------------


def test_before_the_first_worker_everything_is_still_to_be_read(fresh: OperatedTable) -> None:
    assert fresh.run("produce", str(fresh.folder / "rows.csv")).exit_code == 0
    report = fresh.report("status")
    assert not report["ok"]
    assert report["total"]["lag"] == 40
    assert report["total"]["rows"] == report["total"]["messages"] == 0
    assert all(shard["stored"] is None and shard["published"] is None for shard in report["shards"])
    assert len(report["problems"]) == SHARDS
    assert all("no worker holds it: start `streamer worker`" in problem for problem in report["problems"])


def test_a_shard_at_rest_agrees_with_the_engine_in_every_figure(worked: OperatedTable) -> None:
    publishers = worked.work()
    report = worked.report("status")
    assert [shard["shard"] for shard in report["shards"]] == list(range(SHARDS))
    for shard, publisher in zip(report["shards"], publishers, strict=True):
        meta, engine = publisher.meta, publisher.engine
        standing = {"commit": meta.commit, "next": meta.next, "release": meta.release}
        assert shard["stored"] == shard["published"] == standing
        assert shard["rows"] == engine.n_rows
        assert shard["pending"] == engine.n_pending == 0
        assert shard["qi_groups"] == engine.n_qi_groups > 0
        assert shard["lag"] == 0 <= shard["input_end"] - meta.next  # markers of transactions are nobody's lag
        assert shard["outbox"] == 0
    assert report["problems"] == []


def test_messages_in_are_applied_ignored_and_dead_letters_and_markers_are_told_apart(worked: OperatedTable) -> None:
    total = worked.report("status")["total"]
    inputs = [read(worked.servers.kafka_bootstrap, worked.name, CHANGES, shard) for shard in range(SHARDS)]
    assert total["messages"] == sum(map(len, inputs))
    assert total["messages"] == total["applied"] + total["ignored"] + total["dead_letters"]
    assert total["dead_letters"] >= 3
    text = worked.run("status").stdout
    assert f"messages in: {total['messages']:,} = applied {total['applied']:,} + ignored {total['ignored']:,}" in text
    assert "DOES NOT ADD UP" not in text
    assert f"{total['offsets_read'] - total['messages']:,} more offsets hold no message that was read" in text
    assert "no worker holds shards 0, 1" in text
    assert "everything else fits together" in text


def test_fewer_rows_than_k_are_shown_as_pending(fresh: OperatedTable) -> None:
    lines = (fresh.folder / "events.jsonl").read_text().splitlines()[:1]
    (fresh.folder / "one.jsonl").write_text("\n".join(lines))
    assert fresh.run("produce", str(fresh.folder / "one.jsonl")).exit_code == 0
    publishers = fresh.work()
    total = fresh.report("status")["total"]
    assert total["pending"] == total["rows"] == sum(publisher.engine.n_pending for publisher in publishers) == 1
    assert total["qi_groups"] == 0


def test_a_commit_that_is_not_published_yet_is_named_with_what_mends_it(fresh: OperatedTable) -> None:
    assert fresh.run("produce", str(fresh.folder / "rows.csv")).exit_code == 0
    with pytest.raises(ServerUnreachable):
        fresh.work(LostBeforePublishing)
    report = fresh.report("status")
    assert any(
        warning.startswith("shard 0: the store holds one commit that is not published yet; the next worker")
        for warning in report["warnings"]
    )
    assert report["shards"][0]["outbox"] > 0
    assert report["shards"][0]["published"] is None
    fresh.work()
    assert fresh.report("status")["problems"] == []


def test_a_redis_that_lost_everything_is_behind_the_published_position(worked: OperatedTable) -> None:
    client = connect(worked.servers.redis_url)
    published = worked.report("status")["shards"][1]["published"]
    for redis_key in client.scan_iter(match=f"{{{worked.name}:1}}:*"):
        client.delete(redis_key)
    report = worked.report("status")
    lost, waits = report["problems"]
    assert lost.startswith(f"shard 1: published up to {published['next']}, but Redis holds nothing; restore it")
    assert "shard 1: messages have waited" in waits
    assert report["shards"][1]["published"] == published


def test_a_redis_that_lost_commits_is_said_to_be_behind(worked: OperatedTable) -> None:
    client = connect(worked.servers.redis_url)
    names = [name.decode() for name in client.scan_iter(match=f"{{{worked.name}:0}}:*")]
    dumps = {name: client.dump(name) for name in names}
    assert worked.run("produce", str(worked.folder / "events.jsonl")).exit_code == 0
    worked.work()
    for name in client.scan_iter(match=f"{{{worked.name}:0}}:*"):
        client.delete(name)
    for name, dumped in dumps.items():
        assert dumped is not None
        client.restore(name, 0, dumped)
    problem = worked.report("status")["problems"][0]
    assert "shard 0: the store has lost commits that are published" in problem


def test_a_changed_table_yaml_does_not_fit_the_state(worked: OperatedTable) -> None:
    path = worked.folder / "table.yaml"
    path.write_text(path.read_text().replace("{k: 3}", "{k: 4}"))
    problems = worked.report("status")["problems"]
    assert len(problems) == SHARDS
    assert all("table.yaml has changed" in problem for problem in problems)


def test_the_last_position_is_found_behind_many_aborted_and_other_offsets(worked: OperatedTable) -> None:
    before = worked.report("status")["shards"][0]["published"]
    outlet = KafkaOutlet(worked.servers.kafka_bootstrap, worked.name, 0)
    for _ in range(3):
        outlet.fence()
        producer = outlet._producer
        assert producer is not None
        producer.begin_transaction()
        for _ in range(30):
            producer.produce(topic_name(worked.name, "positions"), b"not a position", b"0", partition=0)
        producer.flush(20)
        producer.abort_transaction(20)
    assert worked.report("status")["shards"][0]["published"] == before


@pytest.mark.parametrize("command", ["status", "groups", "dead-letters"])
def test_a_server_that_does_not_answer_ends_with_3(servers: Servers, command: str) -> None:
    arguments = [command, "--table", str(PATIENTS)]
    if command != "dead-letters":
        arguments += ["--redis", f"redis://{NOWHERE}/0"]
    if command != "groups":
        arguments += ["--kafka", NOWHERE]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 3, result.output
    assert NOWHERE in result.stderr


def test_missing_topics_are_a_usage_error(servers: Servers, tmp_path: Path) -> None:
    folder = tmp_path / "none"
    shutil.copytree(PATIENTS, folder)
    text = (folder / "table.yaml").read_text().replace("table: patients", f"table: {fresh_name()}")
    (folder / "table.yaml").write_text(text)
    result = CliRunner().invoke(main, ["status", "--table", str(folder), "--kafka", servers.kafka_bootstrap])
    assert result.exit_code == 2
    assert "streamer topics create" in result.stderr


def known(meta: Meta | None) -> Meta:
    assert meta is not None, "a shard that has worked has stored where it stands"
    return meta


def test_a_shard_that_moves_while_it_is_looked_at_is_at_work_and_no_problem(
    worked: OperatedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits, meta_of = count(1_000), RedisLookups.meta
    monkeypatch.setattr(RedisLookups, "meta", lambda store: replace(known(meta_of(store)), commit=next(commits)))
    assert worked.report("status")["problems"] == []


def test_a_shard_at_rest_whose_commits_do_not_fit_is_a_problem(
    worked: OperatedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta_of = RedisLookups.meta
    monkeypatch.setattr(RedisLookups, "meta", lambda store: replace(known(meta_of(store)), commit=1_000))
    assert len(worked.report("status")["problems"]) == SHARDS


def test_a_shard_all_of_whose_messages_are_dead_letters_ends_with_1(fresh: OperatedTable) -> None:
    bad = fresh.folder / "bad.jsonl"
    bad.write_text('{"op": "delete", "key": "canary"}\n' * 30)
    assert fresh.run("produce", str(bad)).exit_code == 0
    fresh.work()
    result = fresh.run("status", "--dead-letters-max", "0.05")
    assert result.exit_code == 1
    assert "messages are dead letters, more than 5%: `streamer dead-letters` says why" in result.stdout
    assert fresh.report("status")["ok"]


def test_other_topics_are_looked_at_too(servers: Servers, tmp_path: Path) -> None:
    table = table_on(servers, tmp_path, but={"control": 0, "dead-letters": 3})
    problems = table.report("status")["problems"]
    assert f"topic {table.name}.control does not exist: `streamer topics create --shards 2` makes it" in problems
    assert any(f"topic {table.name}.dead-letters has 3 partitions and the input 2" in problem for problem in problems)


def test_a_live_topic_that_was_made_anew_is_told_by_its_emptiness(worked: OperatedTable) -> None:
    admin, live = AdminClient({"bootstrap.servers": worked.servers.kafka_bootstrap}), f"{worked.name}.live"
    admin.delete_topics([live])[live].result(20)
    until(lambda: live not in admin.list_topics(timeout=10).topics)
    make_topics(worked.servers.kafka_bootstrap, worked.name, SHARDS, but=dict.fromkeys(OTHERS, 0))
    problems = worked.report("status")["problems"]
    assert len(problems) == SHARDS
    assert all(f"{live} was made anew" in problem for problem in problems)


def test_an_input_that_was_made_anew_and_filled_as_far_is_not_taken_for_the_old_one(worked: OperatedTable) -> None:
    admin, changes = AdminClient({"bootstrap.servers": worked.servers.kafka_bootstrap}), f"{worked.name}.changes"
    admin.delete_topics([changes])[changes].result(20)
    until(lambda: changes not in admin.list_topics(timeout=10).topics)
    others = ("live", "positions", "dead-letters", "control")
    make_topics(worked.servers.kafka_bootstrap, worked.name, SHARDS, but=dict.fromkeys(others, 0))
    for file in ("rows.csv", "events.jsonl", "bad.jsonl"):
        assert worked.run("produce", str(worked.folder / file)).exit_code == 0
    told = [problem for problem in worked.report("status")["problems"] if "the input topic was made anew" in problem]
    assert len(told) == SHARDS


def test_a_full_redis_is_read_and_said_to_be_full(worked: OperatedTable) -> None:
    client = connect(worked.servers.redis_url)
    client.config_set("maxmemory", 1)
    try:
        report = worked.report("status")
    finally:
        client.config_set("maxmemory", 0)
    assert report["problems"] == ["Redis is full, so that no worker can commit: raise its maxmemory"]
    assert report["total"]["rows"] > 0
    assert worked.report("status")["ok"]


# -- workers ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def worker(fresh: OperatedTable) -> Iterator[subprocess.Popen[bytes]]:
    yield (process := started_worker(fresh))
    ended(process)


def started_worker(table: OperatedTable) -> subprocess.Popen[bytes]:
    servers = ["--kafka", table.servers.kafka_bootstrap, "--redis", table.servers.redis_url]
    return subprocess.Popen(
        [sys.executable, "-m", "streamer.cli.main", "worker", "--table", str(table.folder), *servers],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )


def ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(ENDS_SECONDS_MAX)


def until(reached: Callable[[], bool]) -> None:
    wait_until(reached, 40, lambda: "what `status` tells stays as it is")


def test_who_holds_a_shard_since_when_who_refused_it_and_that_nobody_does(
    fresh: OperatedTable, worker: subprocess.Popen[bytes]
) -> None:
    assert fresh.run("produce", str(fresh.folder / "rows.csv")).exit_code == 0
    until(lambda: fresh.report("status")["total"]["messages"] == 40)
    report = fresh.report("status")
    name = f"{socket.gethostname()}:{worker.pid}"
    assert (report["ok"], report["warnings"]) == (True, [])
    for shard in report["shards"]:
        assert shard["worker"] == shard["owner"] == name
        assert datetime.now(UTC) - datetime.fromisoformat(shard["taken_over"]) < timedelta(minutes=2)
        assert shard["taken_over"] <= shard["last_commit"]
    assert re.search(rf"0 {name} +\d+ s +0 ", fresh.run("status").stdout)
    assert "everything fits together" in fresh.run("status").stdout

    ended(worker)
    assert fresh.run("produce", str(fresh.folder / "events.jsonl")).exit_code == 0
    result = fresh.run("status")
    assert result.exit_code == 1
    assert "shard 0: messages have waited for" in result.stdout
    assert "no worker holds it: start `streamer worker`" in result.stdout
    assert "nobody" in result.stdout

    path = fresh.folder / "table.yaml"
    path.write_text(path.read_text().replace("{k: 3}", "{k: 4}"))
    refusing = started_worker(fresh)
    assert refusing.wait(ENDS_SECONDS_MAX) == 2
    path.write_text(path.read_text().replace("{k: 4}", "{k: 3}"))
    problems = fresh.report("status")["problems"]
    said = f"refused by {socket.gethostname()}:{refusing.pid}"
    assert any(said in problem and "table.yaml has changed" in problem for problem in problems)

    mended = started_worker(fresh)
    try:
        until(lambda: fresh.report("status")["ok"])
    finally:
        ended(mended)


# -- groups -----------------------------------------------------------------------------------------------------------


def test_groups_are_shown_with_published_boxes_sizes_and_losses(worked: OperatedTable) -> None:
    report = worked.report("groups", "--limit", "1000")
    table = load_table(worked.folder)
    states = {f"{shard}-{n}": s for shard in range(SHARDS) for n, s in worked.state(shard).kept.qi_groups}
    assert report["qi_groups"] == len(states)
    assert {described["qi_group"] for described in report["shown"]} == set(states)
    for described in report["shown"]:
        state = states[described["qi_group"]]
        assert described["size"] == len(state.members) >= table.k
        assert described["box"]["age_hi"] - described["box"]["age_lo"] == 5 * (state.hi[0] - state.lo[0] + 1) - 1
        assert 0 <= described["ncp"] <= table.space.d
        assert "values" not in described


def test_boxes_read_as_the_rows_of_the_changelog_do(worked: OperatedTable) -> None:
    rows: dict[str, dict[str, object]] = {}
    for shard in range(SHARDS):
        for message in read(worked.servers.kafka_bootstrap, worked.name, "live", shard):
            rows[message.key()] = message.value() and json.loads(message.value())
    boxes = {d["qi_group"]: d["box"] for d in worked.report("groups", "--limit", "1000")["shown"]}
    published = [row for row in rows.values() if row]
    assert published
    for row in published:
        assert {name: row[name] for name in boxes[row["qi_group"]]} == boxes[row["qi_group"]]


def test_neither_source_keys_nor_sensitive_values_are_shown_unless_raw_is_said(worked: OperatedTable) -> None:
    plain = worked.run("groups", "--limit", "1000").stdout + worked.run("groups", "--json", "--limit", "1000").stdout
    problems = {line.split(";")[0] for line in (worked.folder / "hierarchies" / "problem.csv").read_text().split()}
    assert not [problem for problem in problems if problem in plain]
    raw = worked.report("groups", "--raw", "--limit", "1000")
    assert {slot["problem"] for described in raw["shown"] for slot in described["values"]} <= problems
    assert all(len(described["values"]) == described["size"] for described in raw["shown"])


def test_one_shard_and_a_limit(worked: OperatedTable) -> None:
    report = worked.report("groups", "--shard", "1", "--limit", "2")
    assert [described["qi_group"].partition("-")[0] for described in report["shown"]] == ["1", "1"]
    assert report["qi_groups"] == len(list(worked.state(1).kept.qi_groups))


def test_the_nearest_come_from_redis_where_there_is_a_list_and_else_from_the_boxes(worked: OperatedTable) -> None:
    kept = worked.state(0).kept
    qi_groups, similarity = dict(kept.qi_groups), dict(kept.similarity)
    twin = Twin(load_table(worked.folder).space)
    for number, group in qi_groups.items():
        twin.groups[number] = (list(group.lo), list(group.hi), len(group.members))
    seen = set()
    for number in qi_groups:
        report = worked.report("groups", "--nearest", f"0-{number}")
        seen.add(report["source"])
        assert report["source"] == ("Redis" if number in similarity else "computed")
        degree, nearest = max((twin.qgssd(number, other), -other) for other in twin.groups if other != number)
        assert report["nearest"][0] == {"qi_group": f"0-{-nearest}", "qgssd": degree}
        assert all(neighbour["qgssd"] >= report["floor"] for neighbour in report["nearest"])
    assert seen == {"Redis", "computed"}


def test_a_shortened_list_of_neighbours_still_bounds_all_that_it_leaves_out(worked: OperatedTable) -> None:
    for number, similar in worked.state(0).kept.similarity:
        report = worked.report("groups", "--nearest", f"0-{number}", "--limit", "1")
        assert report["floor"] == (similar.neighbours[1][1] if len(similar.neighbours) > 1 else similar.floor)


def test_ranges_are_printed_whole_into_a_pipe(worked: OperatedTable) -> None:
    text = worked.run("groups", "--raw", "--limit", "1000").stdout
    for described in worked.report("groups", "--limit", "1000")["shown"]:
        assert f"{described['box']['zip_lo']}-{described['box']['zip_hi']}" in text


def test_a_qi_group_that_is_not_there_or_not_named_right_is_a_usage_error(worked: OperatedTable) -> None:
    for wrong in ("0-99999", "17", "x-1"):
        result = worked.run("groups", "--nearest", wrong)
        assert result.exit_code == 2, wrong


# -- dead letters -----------------------------------------------------------------------------------------------------


def test_dead_letters_are_counted_by_reason_and_shown_with_their_coordinates(worked: OperatedTable) -> None:
    report = worked.report("dead-letters")
    assert report["total"] == sum(reason["letters"] for reason in report["reasons"])
    reasons = {reason["reason"] for reason in report["reasons"]}
    assert {"malformed-json", "missing-column", "key-unknown"} <= reasons
    for letter in report["latest"]:
        (message,) = [
            record
            for record in read(worked.servers.kafka_bootstrap, worked.name, CHANGES, letter["partition"])
            if record.offset() == letter["offset"]
        ]
        if letter["reason"] == "malformed-json":
            assert message.value() == b"canary-1"
    assert worked.report("status")["total"]["dead_letters"] == sum(
        reason["letters"] for reason in report["reasons"] if reason["kind"] == "refused"
    )


def test_the_latest_letters_are_limited_and_the_counts_are_not(worked: OperatedTable) -> None:
    everything, some = worked.report("dead-letters"), worked.report("dead-letters", "--limit", "1")
    assert some["reasons"] == everything["reasons"]
    assert some["latest"] == everything["latest"][-1:]


def test_no_letter_shows_what_the_message_said(worked: OperatedTable) -> None:
    for arguments in ([], ["--json"]):
        assert "canary" not in worked.run("dead-letters", *arguments).output


def test_a_foreign_record_in_the_topic_is_counted_and_not_shown(fresh: OperatedTable) -> None:
    write(
        fresh.servers.kafka_bootstrap, topic_name(fresh.name, "dead-letters"), [(0, None, b"canary"), (1, b"x", None)]
    )
    report = fresh.report("dead-letters")
    (seen,) = report["reasons"]
    assert (seen["kind"], seen["reason"], seen["column"]) == ("foreign", "not-a-dead-letter", None)
    assert (seen["letters"], seen["shards"]) == (2, [0, 1])
    assert "canary" not in fresh.run("dead-letters").output


def test_following_goes_on_with_letters_that_come_later(worked: OperatedTable) -> None:
    arguments = ["dead-letters", "--follow", "--json", "--table", str(worked.folder)]
    arguments += ["--kafka", worked.servers.kafka_bootstrap]
    following = subprocess.Popen(
        [sys.executable, "-m", "streamer.cli.main", *arguments],
        stdout=subprocess.PIPE,
        cwd=PATIENTS.parents[1],
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert following.stdout is not None
    try:
        total = json.loads(following.stdout.readline())["total"]
        (worked.folder / "more.jsonl").write_text('{"op": "delete", "key": "nobody"}')
        assert worked.run("produce", str(worked.folder / "more.jsonl")).exit_code == 0
        worked.work()
        letter = json.loads(following.stdout.readline())
        assert letter["reason"] == "key-unknown"
        assert worked.report("dead-letters")["total"] == total + 1
    finally:
        following.terminate()
        following.wait(ENDS_SECONDS_MAX)
        following.stdout.close()


def test_no_command_shows_the_secret_of_a_shard(worked: OperatedTable) -> None:
    secrets = [worked.state(shard).meta.secret for shard in range(SHARDS)]
    assert len({*secrets}) == SHARDS
    said = "".join(
        worked.run(command, *arguments).output
        for command in ("status", "groups", "dead-letters")
        for arguments in ([], ["--json"])
    )
    assert not any(text in said for secret in secrets for text in (secret.hex(), repr(secret)[2:-1]))
