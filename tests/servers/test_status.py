"""`streamer status`, `groups` and `dead-letters` over shards that a real publisher has worked on.

The publisher is the worker's, over real Redis and real Kafka transactions, without the loop around it.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time
from typing import Any

import pytest
from confluent_kafka import Producer

from servers.broker.servers import Servers
from streamer.errors import ServerUnreachable
from streamer.incremental.release.records import Outgoing
from streamer.incremental.shard.outlet import Position
from streamer.incremental.topics import CHANGES
from streamer.kafka.outlet import KafkaOutlet
from streamer.table.yaml.loading import load_table
from worlds.kafka_and_redis import grow, write
from worlds.twin import Scan
from worlds.workers import ENDS_SECONDS_MAX, WorkedTable, wait_until

SHARDS = 2
STATUS = ("status", "--dead-letters-max", "1")
"""A third of the few messages may be refused here."""

BAD = '{"op": "insert", "row": {"id": "canary-2"}}\ncanary-1\n{"op": "delete", "key": "canary-3"}\n'


@pytest.fixture
def fresh(servers: Servers, tmp_path: Path) -> Iterator[WorkedTable]:
    """A table that no one has used."""
    fresh = WorkedTable(servers, tmp_path / "table", SHARDS)
    yield fresh
    fresh.kill()


@pytest.fixture
def worked(fresh: WorkedTable) -> WorkedTable:
    """The same after rows, events, statements and a few messages that are refused."""
    (fresh.folder / "bad.jsonl").write_text(BAD)
    for file in ("rows.csv", "events.jsonl", "bad.jsonl"):
        fresh.must("produce", fresh.folder / file)
    fresh.work()
    return fresh


def seen(table: WorkedTable) -> dict[str, Any]:
    """What `status` says as JSON, which agrees with its exit code."""
    found = table.call(*STATUS, "--json")
    report: dict[str, Any] = json.loads(found.stdout)
    assert found.exit_code == (0 if report["ok"] else 1), found.output
    return report


class LostBeforePublishing(KafkaOutlet):
    """Loses Kafka between the commit and its transaction."""

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        raise ServerUnreachable("the broker is gone")


# -- status -----------------------------------------------------------------------------------------------------------


def test_before_the_first_worker_everything_is_still_to_be_read(fresh: WorkedTable) -> None:
    fresh.must("produce", fresh.folder / "rows.csv")
    report = seen(fresh)
    assert not report["ok"]
    assert report["total"]["lag"] == 40
    assert report["total"]["rows"] == report["total"]["messages"] == 0
    assert all(shard["stored"] is None and shard["published"] is None for shard in report["shards"])
    assert len(report["problems"]) == SHARDS
    assert all("no worker holds it: start `streamer worker`" in problem for problem in report["problems"])


def test_a_shard_at_rest_agrees_with_the_engine_in_every_figure(worked: WorkedTable) -> None:
    publishers = worked.work()
    report = seen(worked)
    assert [shard["shard"] for shard in report["shards"]] == list(range(SHARDS))
    for shard, publisher in zip(report["shards"], publishers, strict=True):
        meta, engine = publisher.meta, publisher.engine
        standing = {"commit": meta.commit, "next": meta.next, "release": meta.release}
        assert shard["stored"] == shard["published"] == standing
        assert shard["rows"] == engine.n_rows
        assert shard["pending"] == engine.n_pending == 0
        assert shard["qi_groups"] == engine.n_qi_groups > 0
        assert shard["lag"] == 0 <= shard["input_end"] - meta.next  # markers of transactions are no one's lag
        assert shard["outbox"] == 0
    assert report["problems"] == []


def test_fewer_rows_than_k_are_shown_as_pending(fresh: WorkedTable) -> None:
    lines = (fresh.folder / "events.jsonl").read_text().splitlines()[:1]
    (fresh.folder / "one.jsonl").write_text("\n".join(lines))
    fresh.must("produce", fresh.folder / "one.jsonl")
    publishers = fresh.work()
    total = seen(fresh)["total"]
    assert total["pending"] == total["rows"] == sum(publisher.engine.n_pending for publisher in publishers) == 1
    assert total["qi_groups"] == 0


def test_a_commit_that_is_not_published_yet_is_named_with_its_remedy(fresh: WorkedTable) -> None:
    fresh.must("produce", fresh.folder / "rows.csv")
    with pytest.raises(ServerUnreachable):
        fresh.work(LostBeforePublishing)
    report = seen(fresh)
    assert any(
        warning.startswith("shard 0: the store holds one commit that is not published yet; the next worker")
        for warning in report["warnings"]
    )
    assert report["shards"][0]["outbox"] > 0
    assert report["shards"][0]["published"] is None
    fresh.work()
    assert seen(fresh)["problems"] == []


def test_what_was_refused_is_red_until_it_is_acknowledged_and_red_again_if_more_comes(worked: WorkedTable) -> None:
    def refused() -> list[str]:
        found = worked.call("status", "--json")
        problems: list[str] = json.loads(found.stdout)["problems"]
        assert found.exit_code == bool(problems)
        return [one for one in problems if " were refused, " in one]

    before = refused()
    assert before and worked.report("dead-letters acknowledge", "--shard", "0")["shards"] in ([], [0])
    assert worked.report("dead-letters acknowledge")["acknowledged"] > 0
    assert refused() == []
    assert worked.report("dead-letters acknowledge")["acknowledged"] == 0
    assert worked.report("dead-letters retry", "--dry-run")["messages"] == []
    for _ in range(3):
        worked.must("produce", worked.folder / "bad.jsonl")
    worked.work()
    assert refused()


def lose_redis(table: WorkedTable) -> None:
    table.lose_redis("1")


def set_redis_back(table: WorkedTable) -> None:
    copy = table.copy_redis("0")
    table.must("produce", table.folder / "events.jsonl")
    table.work()
    copy.restore()


def recreate_live(table: WorkedTable) -> None:
    table.recreate_topics("live")


def recreate_input(table: WorkedTable) -> None:
    """Filled as far as the old one was."""
    table.recreate_topics(CHANGES)
    for file in ("rows.csv", "events.jsonl", "bad.jsonl"):
        table.must("produce", table.folder / file)


@pytest.mark.parametrize(
    ("lose", "says", "times"),
    [
        (lose_redis, "but Redis holds nothing; the next worker reads the input again from its start", 1),
        (set_redis_back, "shard 0: the store has lost commits that are published", 1),
        (recreate_live, ".live was recreated", SHARDS),
        (recreate_input, "the input topic was recreated", SHARDS),
    ],
)
def test_what_was_lost_or_recreated_is_said(
    worked: WorkedTable, lose: Callable[[WorkedTable], None], says: str, times: int
) -> None:
    published = seen(worked)["shards"][1]["published"]
    lose(worked)
    report = seen(worked)
    assert sum(says in problem for problem in report["problems"]) == times
    assert report["shards"][1]["published"]["next"] >= published["next"]


def test_other_topics_are_looked_at_too(fresh: WorkedTable) -> None:
    fresh.delete_topics("control")
    grow(fresh.bootstrap, f"{fresh.name}.dead-letters", 3)
    problems = seen(fresh)["problems"]
    assert f"topic {fresh.name}.control does not exist: `streamer topics create --shards 2` makes it" in problems
    assert any(f"topic {fresh.name}.dead-letters has 3 partitions and the input 2" in problem for problem in problems)


@contextmanager
def refusing(client: Any, how: str) -> Iterator[None]:
    """A Redis that answers every question and takes no writes."""
    if how == "replica":
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
    else:
        client.config_set("min-replicas-to-write", 1)
    try:
        yield
    finally:
        client.execute_command("REPLICAOF", "NO", "ONE")
        client.config_set("min-replicas-to-write", 0)


@pytest.mark.gate("a Redis that takes no writes")
@pytest.mark.parametrize(
    ("how", "said"), [("replica", "is a replica and takes no writes (READONLY)"), ("lonely", "(NOREPLICAS)")]
)
def test_a_redis_that_takes_no_writes_is_red_and_a_fault_for_doctor(worked: WorkedTable, how: str, said: str) -> None:
    """Before: `everything fits together`, and `All is there`."""
    with refusing(worked.redis, how):
        (problem,) = seen(worked)["problems"]
        doctor = worked.call("doctor")
    assert said in problem and "so that no worker can commit" in problem
    assert doctor.exit_code == 1 and "FAULT writes to Redis: Redis 127.0.0.1" in doctor.output
    assert said in doctor.output and "no worker could commit" in doctor.output
    assert not list(worked.redis.scan_iter("*probe*"))
    assert seen(worked)["ok"]


def test_a_redis_with_room_for_no_commit_is_full(worked: WorkedTable) -> None:
    """A commit's own bytes count while it is sent: it was refused with 118 to 261 KB left."""
    client = worked.redis
    client.config_set("maxmemory", client.info("memory")["used_memory"] + 500_000)
    try:
        assert seen(worked)["problems"] == ["Redis is full, so that no worker can commit: raise its maxmemory"]
    finally:
        client.config_set("maxmemory", 0)


@pytest.mark.gate("an open transaction of a producer")
def test_an_open_transaction_of_a_producer_is_named_and_nothing_waits_for_the_worker(worked: WorkedTable) -> None:
    producer = Producer({"bootstrap.servers": worked.bootstrap, "transactional.id": f"{worked.name} source"})
    producer.init_transactions()
    producer.begin_transaction()
    long_ago = int((time() - 60) * 1000)
    producer.produce(f"{worked.name}.changes", b"{}", key=b"9", partition=0, timestamp=long_ago)
    producer.flush()
    try:
        report = seen(worked)
    finally:
        producer.abort_transaction()
    assert report["ok"]
    assert any("shard 0: an open transaction of a producer holds back the input" in said for said in report["warnings"])
    assert not any("an open transaction" in said for said in seen(worked)["warnings"])


def test_a_full_redis_is_read_and_said_to_be_full(worked: WorkedTable) -> None:
    client = worked.redis
    client.config_set("maxmemory", 1)
    try:
        report = seen(worked)
    finally:
        client.config_set("maxmemory", 0)
    assert report["problems"] == ["Redis is full, so that no worker can commit: raise its maxmemory"]
    assert report["total"]["rows"] > 0
    assert seen(worked)["ok"]


# -- workers ----------------------------------------------------------------------------------------------------------


def test_who_holds_a_shard_since_when_who_refused_it_and_that_no_one_does(fresh: WorkedTable) -> None:
    worker = fresh.start()
    fresh.must("produce", fresh.folder / "rows.csv")
    until(lambda: seen(fresh)["total"]["messages"] == 40)
    report = seen(fresh)
    name = f"{socket.gethostname()}:{worker.process.pid}"
    assert (report["ok"], report["warnings"]) == (True, [])
    for shard in report["shards"]:
        assert shard["worker"] == shard["owner"] == name
        assert datetime.now(UTC) - datetime.fromisoformat(shard["taken_over"]) < timedelta(minutes=2)
        assert shard["taken_over"] <= shard["last_commit"]
    shown = fresh.call(*STATUS).stdout
    assert re.search(rf"0 {name} +\d+ s +0 ", shown)
    assert "everything fits together" in shown

    fresh.stop()
    fresh.must("produce", fresh.folder / "events.jsonl")
    result = fresh.call(*STATUS)
    assert result.exit_code == 1
    for says in ("shard 0: messages have waited for", "no worker holds it: start `streamer worker`", "no worker"):
        assert says in result.stdout

    fresh.edit_yaml("{k: 3}", "{k: 4}")
    fresh.refusal()
    fresh.edit_yaml("{k: 4}", "{k: 3}")
    said = f"refused by {socket.gethostname()}:{fresh.workers[-1].process.pid}"
    assert any(said in problem and "table.yaml has changed" in problem for problem in seen(fresh)["problems"])

    fresh.start()
    until(lambda: seen(fresh)["ok"])


def until(reached: Callable[[], bool]) -> None:
    wait_until(reached, 40, lambda: "what `status` says stays as it is")


# -- groups -----------------------------------------------------------------------------------------------------------


def test_groups_are_shown_with_published_boxes_sizes_and_losses(worked: WorkedTable) -> None:
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


def test_boxes_read_as_the_rows_of_the_changelog_do(worked: WorkedTable) -> None:
    boxes = {d["qi_group"]: d["box"] for d in worked.report("groups", "--limit", "1000")["shown"]}
    published = [json.loads(row) for shard in range(SHARDS) for row in worked.rows(shard).values()]
    assert published
    for row in published:
        assert {name: row[name] for name in boxes[row["qi_group"]]} == boxes[row["qi_group"]]


def test_neither_source_keys_nor_sensitive_values_are_shown_unless_raw_is_said(worked: WorkedTable) -> None:
    plain = worked.call("groups", "--limit", "1000").stdout + worked.call("groups", "--json", "--limit", "1000").stdout
    problems = {line.split(";")[0] for line in (worked.folder / "hierarchies" / "problem.csv").read_text().split()}
    assert not [problem for problem in problems if problem in plain]
    raw = worked.report("groups", "--raw", "--limit", "1000")
    assert {slot["problem"] for described in raw["shown"] for slot in described["values"]} <= problems
    assert all(len(described["values"]) == described["size"] for described in raw["shown"])


def test_one_shard_and_a_limit(worked: WorkedTable) -> None:
    report = worked.report("groups", "--shard", "1", "--limit", "2")
    assert [described["qi_group"].partition("-")[0] for described in report["shown"]] == ["1", "1"]
    assert report["qi_groups"] == len(list(worked.state(1).kept.qi_groups))


def test_the_nearest_are_those_of_a_scan_by_the_boxes(worked: WorkedTable) -> None:
    twin = Scan(load_table(worked.folder).space)
    for number, group in worked.state(0).kept.qi_groups:
        twin.groups[number] = (list(group.lo), list(group.hi), len(group.members))
    for number in twin.groups:
        report = worked.report("groups", "--nearest", f"0-{number}")
        degree, nearest = max((twin.qgssd(number, other), -other) for other in twin.groups if other != number)
        assert report["nearest"][0] == {"qi_group": f"0-{-nearest}", "qgssd": degree}


def test_a_qi_group_that_is_not_there_or_not_named_right_is_a_usage_error(worked: WorkedTable) -> None:
    for wrong in ("0-99999", "17", "x-1"):
        worked.refused("groups", "--nearest", wrong)


# -- dead letters -----------------------------------------------------------------------------------------------------


def test_the_latest_letters_are_limited_and_the_counts_are_not(worked: WorkedTable) -> None:
    everything, some = worked.report("dead-letters"), worked.report("dead-letters", "--limit", "1")
    assert some["reasons"] == everything["reasons"]
    assert some["latest"] == everything["latest"][-1:]


def test_a_foreign_record_in_the_topic_is_counted_and_not_shown(fresh: WorkedTable) -> None:
    write(fresh.bootstrap, f"{fresh.name}.dead-letters", [(0, None, b"canary"), (1, b"x", None)])
    report = fresh.report("dead-letters")
    (seen,) = report["reasons"]
    assert (seen["kind"], seen["reason"], seen["column"]) == ("foreign", "not-a-dead-letter", None)
    assert (seen["letters"], seen["shards"]) == (2, [0, 1])
    assert "canary" not in fresh.call("dead-letters").output


def test_following_goes_on_with_letters_that_come_later(worked: WorkedTable) -> None:
    following = worked.begun("dead-letters", "--follow", "--json")
    assert following.stdout is not None
    try:
        total = json.loads(following.stdout.readline())["total"]
        (worked.folder / "more.jsonl").write_text('{"op": "delete", "key": "nobody"}')
        worked.must("produce", worked.folder / "more.jsonl")
        worked.work()
        letter = json.loads(following.stdout.readline())
        assert letter["reason"] == "key-unknown"
        assert worked.report("dead-letters")["total"] == total + 1
    finally:
        following.terminate()
        following.wait(ENDS_SECONDS_MAX)
        following.stdout.close()


def test_no_command_shows_the_secret_of_a_shard(worked: WorkedTable) -> None:
    secrets = [worked.state(shard).meta.secret for shard in range(SHARDS)]
    assert len({*secrets}) == SHARDS
    said = "".join(
        worked.call(command, *arguments).output
        for command in ("status", "groups", "dead-letters")
        for arguments in ([], ["--json"])
    )
    assert not any(text in said for secret in secrets for text in (secret.hex(), repr(secret)[2:-1]))
