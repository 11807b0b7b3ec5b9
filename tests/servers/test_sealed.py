"""The sealed changelog on a real Kafka and Redis: what is published, through deaths and losses."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any

import duckdb
import pandas as pd
import pytest
from confluent_kafka import Producer

from servers.broker.servers import Servers
from streamer.audit.sealed_log import SealedLaws, SealedLine
from streamer.incremental.sealed.records import Add, EpochEnd, Retire, SealedRecord, decode
from streamer.incremental.topics import CONTROL, LIVE, SEALED
from streamer.reader import SealedSubscription
from streamer.status.facts import InRedis, ShardFacts, Workers
from streamer.status.verdict import judge_shard
from streamer.table.yaml.loading import load_table
from worlds.kafka_and_redis import wait_until_deleted
from worlds.served_patients import as_csv, inserted, rows, send, wait_until_read
from worlds.workers import WorkedTable, wait_until

BOTH = "publish:\n  live: {form: rows}\n  sealed: {epoch: 2 s, alpha: 0.67}"


class SealedTable(WorkedTable):
    """A table of two shards that publishes both."""

    def __init__(self, servers: Servers, folder: Path, publish: str = BOTH) -> None:
        super().__init__(servers, folder, 0)
        self.edit_yaml("publish:\n  live: {form: rows}", publish)
        self.must("topics create", "--shards", 2)
        self.shards = 2

    def sealed(self, shard: int) -> list[SealedRecord]:
        return [decode(one.key() or b"", one.value()) for one in self.read(SEALED, shard)]

    def epoch(self, shard: int) -> int:
        return max((one.epoch for one in self.sealed(shard) if isinstance(one, EpochEnd)), default=0)

    def wait_for_epochs(self, more: int = 1) -> None:
        before = [self.epoch(shard) for shard in range(self.shards)]
        wait_until(
            lambda: all(self.epoch(shard) >= epoch + more for shard, epoch in enumerate(before)), 40.0, self.logs
        )

    def laws(self) -> SealedLaws:  # type: ignore[override]
        """Held by all records; what is published now."""
        lines = [
            SealedLine(shard, (one.key() or b"").decode(), one.value(), one.timestamp()[1])
            for shard in range(self.shards)
            for one in self.read(SEALED, shard)
        ]
        laws = SealedLaws(load_table(self.table))
        for _ in laws.follow(lines):
            pass
        return laws

    def published(self) -> int:
        """How many people have ever been published."""
        return sum(one.n for shard in range(self.shards) for one in self.sealed(shard) if isinstance(one, Add))


@pytest.fixture
def world(servers: Servers, tmp_path: Path) -> Iterator[SealedTable]:
    world = SealedTable(servers, tmp_path)
    yield world
    world.kill()


@pytest.mark.gate("audit")
def test_a_loaded_table_is_published_in_cohorts_and_newcomers_follow_in_later_epochs(
    world: SealedTable, tmp_path: Path
) -> None:
    done = world.must("load", as_csv(tmp_path / "rows.csv", rows(300)))
    assert "sealed cohorts published" in done.output
    assert world.published() >= 290  # a shard's last few may wait
    first = sum(cohort.n for cohort in world.laws().cohorts.values())
    worker = world.start()
    send(world, *inserted(rows(40, 1000)))
    for key in range(10):
        send(world, (str(key), {"op": "delete", "key": str(key)}))
    wait_until_read(world)
    world.wait_for_epochs(2)
    laws = world.laws()
    assert world.published() > first
    (sealed, *_) = [shard["sealed"] for shard in world.status()["shards"]]
    assert sealed["epoch"] >= 3
    assert "sealed changelog of shard 0: epoch" in world.call("status").output
    assert world.report("audit", "topic")["sealed"]["cohorts"] == len(world.laws().cohorts)
    assert sum(cohort.n - cohort.left for cohort in laws.cohorts.values()) > 0
    assert all(not (one.headers() or ()) for shard in range(2) for one in world.read(SEALED, shard))
    assert worker.terminate()[0] == 0


def test_an_audit_of_the_topic_finds_a_header_and_epochs_that_are_missing_at_the_end(
    world: SealedTable, tmp_path: Path
) -> None:
    world.must("load", as_csv(tmp_path / "rows.csv", rows(60)))
    worker = world.start()
    send(world, *inserted(rows(40, 1000)))
    wait_until_read(world)
    world.wait_for_epochs(2)
    assert worker.terminate()[0] == 0
    assert "not known" not in world.report("audit", "topic")["verdict"]
    written = {shard: [*world.read(SEALED, shard)] for shard in range(2)}
    begins = max(at for at, one in enumerate(written[1]) if b'"EPOCH"' in (one.value() or b"")[:30])
    before = next(at for at in range(begins - 1, -1, -1) if b'"EPOCH"' in (written[1][at].value() or b"")[:30])
    world.delete_topics(SEALED)
    wait_until_deleted(world.bootstrap, world.name, SEALED)
    world.must("topics create", "--shards", 2)
    write_again(world, {**written, 1: written[1][: before + 1]})
    assert re.search("'epochs'.*partition 1: the log ends with epoch .*cut off", broken(world))
    write_again(world, {1: written[1][before + 1 :]}, headers=[("release", b"1")])
    assert re.search(r"'records'.*partition 1: it has headers", broken(world))


def broken(world: SealedTable) -> str:
    """The law that an audit of the topic finds broken."""
    return str(world.report("audit", "topic", code=1)["error"])


def write_again(
    world: SealedTable, records: dict[int, list[Any]], headers: list[tuple[str, bytes]] | None = None
) -> None:
    producer = Producer({"bootstrap.servers": world.bootstrap})
    for shard, of in records.items():
        for one in of:
            said = {"partition": shard, "timestamp": one.timestamp()[1], "headers": headers or []}
            producer.produce(f"{world.name}.{SEALED}", one.value(), one.key(), **said)
    assert producer.flush(20) == 0


def test_a_reader_sees_cohorts_and_keeps_them_in_files_a_database_and_a_log(world: SealedTable, tmp_path: Path) -> None:
    world.must("load", as_csv(tmp_path / "rows.csv", rows(120)))
    csv, database, log = (tmp_path / name for name in ("cohorts.csv", "people.duckdb", "sealed.jsonl"))
    said = world.report("subscribe", "--sealed", "--csv", csv, "--duckdb", database, "--log", log)
    frame = pd.read_csv(csv)
    assert said["rows"] == len(frame) == world.published()
    assert said["cohorts"] == frame["_cohort"].nunique() == len(world.laws().cohorts)
    assert set(frame.columns) >= {"age_lo", "age_hi", "problem", "_rows", "_left", "_withheld"}
    with duckdb.connect(str(database)) as connection:
        assert connection.sql(f"SELECT count(*) FROM {world.name}_sealed").fetchone() == (len(frame),)
    assert world.report("audit", log, "--table", world.table)["verdict"].startswith(
        "Every record of the sealed log holds every law"
    )
    with SealedSubscription(load_table(world.table), world.bootstrap) as people:
        people.catch_up()
        before = len(people.frame())
        world.start()
        send(world, *inserted(rows(40, 1000)))
        for epoch in people.follow():
            if epoch.end.adds:
                break
        assert len(people.frame()) > before
    asked = f"SELECT count(*) AS n FROM {world.name} WHERE _withheld"
    assert world.report("subscribe", "--sealed", "--sql", asked)["rows"][0]["n"] >= 0
    world.must("subscribe", "--sealed", "--csv", csv)  # what an earlier run left is replaced


@pytest.mark.parametrize("words", ["--sealed --query age=30", "--sealed --live x.jsonl", "--log x.jsonl"])
def test_options_that_do_not_go_with_cohorts_are_refused(world: SealedTable, words: str) -> None:
    assert world.refused("subscribe", *words.split()).startswith("streamer: --")


def test_a_table_without_cohorts_and_a_topic_that_is_not_there_are_refused(
    world: SealedTable, servers: Servers, tmp_path: Path
) -> None:
    world.delete_topics(SEALED)
    assert "does not exist" in world.refused("subscribe", "--sealed")
    (tmp_path / "live").mkdir()
    live = WorkedTable(servers, tmp_path / "live", 1)
    assert "has no sealed changelog" in live.refused("subscribe", "--sealed")


def test_a_killed_worker_is_followed_by_one_that_publishes_nobody_twice(world: SealedTable, tmp_path: Path) -> None:
    world.must("load", as_csv(tmp_path / "rows.csv", rows(200)))
    for first in (1000, 1100, 1200):
        worker = world.start()
        send(world, *inserted(rows(60, first)))
        wait_until_read(world)
        worker.kill()
    world.start()
    world.wait_for_epochs(2)
    world.laws()
    assert 350 <= world.published() <= 380


def test_an_emptied_redis_is_filled_again_with_the_same_cohorts(world: SealedTable) -> None:
    worker = world.start()
    send(world, *inserted(rows(80)))
    wait_until_read(world)
    world.wait_for_epochs(2)
    assert worker.terminate()[0] == 0
    before = [world.sealed(shard) for shard in range(2)]
    kept = [world.meta(shard).sealed for shard in range(2)]
    world.lose_redis()
    worker = world.start()
    wait_until(lambda: [meta.commit for meta in world.metas()] >= [1, 1], 40.0, world.logs)
    send(world, *inserted(rows(30, 500)))
    wait_until_read(world)
    world.wait_for_epochs()
    for shard in range(2):
        assert world.sealed(shard)[: len(before[shard])] == before[shard]
        assert kept[shard] is not None
    world.laws()


def test_a_reload_goes_on_with_the_cohorts_and_one_without_redis_retires_them(
    world: SealedTable, tmp_path: Path
) -> None:
    world.must("load", as_csv(tmp_path / "rows.csv", rows(200)))
    published = world.published()
    world.must("reload", "--from-source", as_csv(tmp_path / "rows.csv", rows(200)))
    assert published <= world.published() <= 200
    cohorts = len(world.laws().cohorts)
    world.lose_redis()
    done = world.must("reload", "--from-source", as_csv(tmp_path / "rows.csv", rows(200)))
    assert "they are retired" in done.output
    assert not world.laws().cohorts
    retired = sum(isinstance(one, Retire) for shard in range(2) for one in world.sealed(shard))
    assert retired == cohorts
    world.start()
    world.wait_for_epochs()
    assert not world.laws().cohorts


@pytest.mark.parametrize("source", ["topic", "file"])
def test_a_reload_whose_rows_a_worker_has_overtaken_writes_nothing(
    world: SealedTable, tmp_path: Path, source: str
) -> None:
    """Before: `next` went back, and whoever had come meanwhile was published twice."""
    events, people = tmp_path / "events.jsonl", inserted(rows(2_000))
    send(world, *people)
    worker = world.start()
    wait_until_read(world)
    assert worker.terminate()[0] == 0
    again = "topic" if source == "topic" else as_csv(tmp_path / "rows.csv", rows(2_000))
    with world.begun("reload", "--from-source", again, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()  # the rows are read
        process.send_signal(signal.SIGSTOP)
        world.start()
        people += inserted(rows(500, 5_000))
        send(world, *people[-500:])
        wait_until_read(world)
        before = world.metas()
        process.send_signal(signal.SIGCONT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, "a worker has read on: shard" in said) == (2, True), said
    assert [meta.next for meta in world.metas()] >= [meta.next for meta in before]
    assert [world.store(shard).custody().beginning for shard in range(2)] == [False, False]
    world.wait_for_epochs(2)
    events.write_text("".join(json.dumps(message) + "\n" for _, message in people))
    assert world.report("audit", "topic", "--source", events)["ok"]
    events.write_text("".join(json.dumps(message) + "\n" for _, message in people[500:]))
    assert "500 of 2,500 rows were published twice" in world.call("audit", "topic", "--source", events).output


def test_a_sealed_table_is_not_read_on_before_the_offset_that_it_has_reached(
    world: SealedTable, tmp_path: Path
) -> None:
    send(world, *inserted(rows(100)))
    worker = world.start()
    wait_until_read(world)
    assert worker.terminate()[0] == 0
    file = as_csv(tmp_path / "rows.csv", rows(100))
    said = world.refused("reload", "--from-source", file, "--from-offset", "earliest")
    assert "who came since offset 0 would be published twice in sealed cohorts" in said
    send(world, *inserted(rows(40, 1_000)))
    file = as_csv(tmp_path / "rows.csv", rows(100) | rows(20, 1_000))
    ends = [meta.next for meta in world.metas()]
    shards = world.report("reload", "--from-source", file, "--from-offset", "stored")["shards"]
    assert [shard["next"] for shard in shards] == ends
    world.start()
    wait_until_read(world)
    world.wait_for_epochs(2)
    world.laws()
    assert world.published() <= 140


def test_a_recreated_topic_of_cohorts_is_not_filled_a_second_time(world: SealedTable, tmp_path: Path) -> None:
    world.must("load", as_csv(tmp_path / "rows.csv", rows(100)))
    world.delete_topics(SEALED)
    world.must("topics create")
    assert "was recreated or has lost cohorts" in world.refusal()


def test_a_table_may_publish_cohorts_alone(servers: Servers, tmp_path: Path) -> None:
    world = SealedTable(servers, tmp_path, "publish:\n  sealed: {epoch: 50 events, alpha: 0.67}")
    try:
        world.start()
        send(world, *inserted(rows(200)))
        wait_until_read(world)
        world.laws()
        assert world.published() > 90
        assert LIVE not in {topic.removeprefix(f"{world.name}.") for topic in world.report("topics check")}
    finally:
        world.kill()


def test_a_reload_by_another_table_yaml_is_refused_before_anything_is_touched(
    world: SealedTable, tmp_path: Path
) -> None:
    file = as_csv(tmp_path / "rows.csv", rows(100))
    world.must("load", file)
    world.edit_yaml("{k: 3}", "{k: 4}")
    assert "publish under another name" in world.refused("reload", "--from-source", file)
    world.edit_yaml("{k: 4}", "{k: 3}")
    world.start()
    world.wait_for_epochs()


def test_a_worker_that_is_gone_leaves_an_overdue_epoch_and_a_red_light(world: SealedTable, tmp_path: Path) -> None:
    world.must("load", as_csv(tmp_path / "rows.csv", rows(100)))
    assert world.status()["problems"] == []
    mark = world.meta(0).sealed
    assert mark is not None
    facts = ShardFacts(0, InRedis(meta=world.meta(0)))
    verdict = judge_shard(load_table(world.table), facts, Workers({}, told=False), mark.seconds + 70.0)
    assert any("an epoch of its sealed changelog should have ended 1 min ago" in said for said in verdict.problems)
    verdict = judge_shard(load_table(world.table), facts, Workers({}, told=False), mark.seconds - 600.0)
    assert any("ended 10 min ahead of Redis' clock" in said for said in verdict.problems)


@pytest.mark.gate("a clock that is ahead")
def test_a_worker_whose_clock_is_ahead_ends_epochs_by_the_clock_of_redis(world: SealedTable, tmp_path: Path) -> None:
    """Before: its epochs ended in the future, and newcomers waited until then."""
    world.must("load", as_csv(tmp_path / "rows.csv", rows(100)))
    (tmp_path / "sitecustomize.py").write_text("import time\nreal = time.time\ntime.time = lambda: real() + 7_200\n")
    world.environment["PYTHONPATH"] = f"{tmp_path}:{world.environment.get('PYTHONPATH', '')}"
    world.start()
    send(world, *inserted(rows(60, 1_000)))
    wait_until_read(world)
    world.wait_for_epochs(2)
    marks = [world.meta(shard).sealed for shard in range(2)]
    assert all(mark is not None and mark.seconds <= time() for mark in marks)
    assert world.status()["problems"] == []


@pytest.mark.gate("control recreated")
def test_a_recreated_control_topic_and_an_emptied_redis_are_a_refusal_that_names_the_remedy(world: SealedTable) -> None:
    worker = world.start()
    send(world, *inserted(rows(80)))
    wait_until_read(world)
    world.wait_for_epochs(2)
    assert worker.terminate()[0] == 0
    world.delete_topics(CONTROL)
    world.must("topics create")
    world.lose_redis()
    assert "Redis has lost epoch 1 of the sealed changelog, and so has the control topic" in world.refusal()


def test_alpha_below_the_share_of_a_value_is_refused_before_anything_is_written(
    servers: Servers, tmp_path: Path
) -> None:
    world = SealedTable(servers, tmp_path, "publish:\n  sealed: {epoch: 2 s, alpha: 0.2}")
    said = world.refused("load", as_csv(tmp_path / "rows.csv", rows(100)))
    assert "publish.sealed.alpha: 0.2 is below the share" in said
    assert world.ends(SEALED) == [0, 0]
