"""`streamer rebuild` on workers, a real Kafka and Redis: under traffic, stopped, refused, and killed in the middle."""

from __future__ import annotations

import csv
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from servers.broker.servers import Servers
from streamer.cli.main import main
from streamer.incremental.events.key_form import shard_of
from streamer.incremental.shard.rebuild import how_it_ended
from streamer.incremental.shard.requests import FullRebuild
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import topic_name
from worlds.checkout import ROOT
from worlds.kafka_and_redis import read, write
from worlds.patients import PROBLEMS, random_values
from worlds.workers import SHARDS, WorkedTable, wait_until

COLUMNS = ("id", "age", "zip", "bmi", "sex", "problem")


class People:
    """People in the input topic, and the table that they are now."""

    def __init__(self, world: WorkedTable) -> None:
        self.rows: dict[str, dict[str, object]] = {}
        self._rng = random.Random(7)
        self._producer = Producer({"bootstrap.servers": world.bootstrap, "linger.ms": 5})
        self._topic = f"{world.name}.changes"
        self._born = 0

    def come(self, count: int, shard: int | None = None) -> None:
        for _ in range(count):
            id_ = self._new_id(shard)
            self.rows[id_] = {"id": id_, **random_values(self._rng)}
            self._send(id_, {"op": "insert", "row": self.rows[id_]})

    def sent(self) -> None:
        """Waits until the broker has all of it."""
        assert not self._producer.flush(20)

    def change(self) -> None:
        """One of them changes, goes, or is joined by another."""
        id_ = self._rng.choice(list(self.rows))
        draw = self._rng.random()
        if draw < 0.4:
            changed = {"age": self._rng.randrange(120), "problem": self._rng.choice(PROBLEMS)}
            self.rows[id_] |= changed
            self._send(id_, {"op": "modify", "key": id_, "row": changed})
        elif draw < 0.7:
            del self.rows[id_]
            self._send(id_, {"op": "delete", "key": id_})
        else:
            self.come(1)

    def written(self, path: Path) -> Path:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(self.rows.values())
        return path

    def _new_id(self, shard: int | None) -> str:
        while True:
            self._born += 1
            id_ = f"p{self._born}"
            if shard is None or shard_of(id_.encode(), SHARDS) == shard:
                return id_

    def _send(self, id_: str, value: dict[str, object]) -> None:
        shard = shard_of(id_.encode(), SHARDS)
        self._producer.produce(self._topic, json.dumps(value), id_.encode(), partition=shard)
        self._producer.poll(0)


class Traffic(threading.Thread):
    """Fifty changes a second, until it is stopped: an uncompiled worker is at it for a fifth of the time."""

    def __init__(self, people: People) -> None:
        super().__init__(daemon=True)
        self.people = people
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(0.02):
            self.people.change()

    def stop(self) -> None:
        self._stopped.set()
        self.join()


class Rebuilt:
    """A table in small regions, its worker, and what its operator does with it."""

    def __init__(self, world: WorkedTable, folder: Path) -> None:
        self.world, self.folder = world, folder
        text = world.table.read_text()
        settings = "limits: {transaction_rows_max: 100}\nrebuild: {drift: never}\nengine: {repair: off}\n"
        world.table.write_text(f"{text}\n{settings}")
        world.environment["NUMBA_DISABLE_JIT"] = "1"  # so few rows need no compiler, and nobody waits for one here
        self.people = People(world)
        self.worker = world.start()

    def run(self, command: str, *arguments: object) -> Result:
        kafka, redis = ["--kafka", self.world.bootstrap], ["--redis", self.world.environment["REDIS_URL"]]
        servers = {"index": redis, "verify": [], "subscribe": kafka}.get(command, [*kafka, *redis])
        return CliRunner().invoke(main, [command, "--table", str(self.world.table), *servers, *map(str, arguments)])

    def report(self, *arguments: object, exit_code: int = 0) -> dict[str, Any]:
        result = self.run("rebuild", *arguments, "--json")
        assert result.exit_code == exit_code, (result.output, self.world.logs())
        report: dict[str, Any] = json.loads(result.stdout)
        return report

    def trial(self) -> list[dict[str, Any]]:
        """What a rebuild would gain, shard by shard; by a process of its own, which compiles nothing."""
        command = [sys.executable, "-m", "streamer.cli.main", "rebuild", "--dry-run", "--json"]
        said = ["--table", str(self.world.table), "--kafka", self.world.bootstrap]
        tried = subprocess.run(
            [*command, *said, "--redis", self.world.environment["REDIS_URL"]],
            cwd=ROOT, env={**os.environ, **self.world.environment}, capture_output=True, check=True,
        )  # fmt: skip
        shards: list[dict[str, Any]] = json.loads(tried.stdout)["shards"]
        return shards

    def meta(self, shard: int = 0) -> Meta:
        store = RedisStore(connect(self.world.environment["REDIS_URL"]), self.world.name, shard)
        return store.meta() or Meta()

    def until_published(self) -> None:
        """Until all that was sent is read: as many rows as there are people."""

        self.people.sent()

        def published() -> bool:
            seen = json.loads(self.run("status", "--json").stdout)
            if "total" not in seen:  # a busy machine's servers do not always answer in time
                return False
            total = seen["total"]
            return bool(total["lag"] == total["outbox"] == 0 and total["rows"] == len(self.people.rows))

        wait_until(published, 60, self.world.logs)

    def until_regions_are_done(self, count: int, shard: int = 0) -> None:
        def enough() -> bool:
            running = self.meta(shard).rebuild
            return running is not None and running.done >= count

        wait_until(enough, 30, self.world.logs)

    def verify(self) -> None:
        """Holds every release, and the last one against its people, to the laws."""
        live, index = self.folder / "live.jsonl", self.folder / "index.csv"
        assert self.run("subscribe", "--live", live).exit_code == 0
        assert self.run("index", "--out", index).exit_code == 0
        source = self.people.written(self.folder / "people.csv")
        verified = self.run("verify", live, "--source", source, "--index", index)
        assert verified.exit_code == 0, verified.output


@pytest.fixture
def rebuilt(world: WorkedTable, tmp_path: Path) -> Iterator[Rebuilt]:
    yield Rebuilt(world, tmp_path)


@pytest.mark.slow
def test_a_rebuild_under_traffic_loses_nobody_and_breaks_no_law(rebuilt: Rebuilt) -> None:
    rebuilt.people.come(1_000)
    rebuilt.until_published()
    trial = rebuilt.trial()
    assert [one["shard"] for one in trial] == list(range(SHARDS))
    assert sum(one["rows"] for one in trial) == 1_000
    assert all(0 < one["ncp_now"] < one["ncp_before"] and one["rows_published_again"] for one in trial)
    assert rebuilt.meta().rebuilds == ()
    traffic = Traffic(rebuilt.people)
    traffic.start()
    try:
        report = rebuilt.report("--wait")
    finally:
        traffic.stop()
    assert report["ok"]
    for one in report["shards"]:
        assert (one["state"], one["why"], one["done"] + one["left"]) == ("done", "operator", one["regions"]), one
        assert one["regions"] > 2
        assert one["gain"] >= 0  # what changed meanwhile may have taken it: local repair goes on as well
    assert sum(one["done"] for one in report["shards"]) > 0
    rebuilt.until_published()
    rebuilt.verify()
    shown = rebuilt.run("status")
    assert (shown.exit_code, shown.output.count("last rebuild of shard")) == (0, SHARDS), shown.output


@pytest.mark.gate("a stopped rebuild")
def test_a_rebuild_can_be_stopped_and_everything_else_is_answered_meanwhile(rebuilt: Rebuilt) -> None:
    rebuilt.people.come(1_200, shard=0)  # so many regions take longer than all that is asked meanwhile
    rebuilt.until_published()
    id_ = rebuilt.report("--shard", 0)["id"]
    rebuilt.until_regions_are_done(1)
    again = FullRebuild(0, id_, int(time.time())).to_json()
    nonsense = [b"nonsense", b'{"command":"rebuild","shard":0}', FullRebuild(3, "astray", int(time.time())).to_json()]
    records = [(0, None, value) for value in (again, *nonsense, None)]
    write(rebuilt.world.bootstrap, topic_name(rebuilt.world.name, "control"), records)
    (second,) = rebuilt.report("--shard", 0, "--wait", exit_code=1)["shards"]
    assert (second["state"], second["said"].partition(",")[0]) == ("refused", "a rebuild is running")
    (stop,) = rebuilt.report("--shard", 0, "--cancel", "--wait")["shards"]
    assert (stop["state"], stop["said"].partition(" with")[0]) == ("answered", "the rebuild was stopped")
    meta = rebuilt.meta()
    ended = how_it_ended(meta, id_)
    assert meta.rebuild is None
    assert ended is not None
    assert (ended.state, 1 <= ended.done < ended.total) == ("cancelled", True)
    assert "astray" in {one.rebuild.id for one in meta.rebuilds if one.state == "refused"}
    assert sum(one.rebuild.id.startswith("offset ") for one in meta.rebuilds) == 2
    (too_late,) = rebuilt.report("--shard", 0, "--cancel", "--wait", exit_code=1)["shards"]
    assert too_late["said"] == "no rebuild is running that could be stopped"
    assert [rebuilt.meta(shard).rebuilds for shard in range(1, SHARDS)] == [()] * (SHARDS - 1)
    rebuilt.verify()


@pytest.mark.slow
def test_a_rebuild_whose_worker_was_killed_is_begun_anew_by_the_next_and_done_once(rebuilt: Rebuilt) -> None:
    rebuilt.people.come(600, shard=0)
    rebuilt.until_published()
    id_ = rebuilt.report("--shard", 0)["id"]
    rebuilt.until_regions_are_done(2)
    rebuilt.worker.kill()
    rebuilt.world.start()
    wait_until(lambda: how_it_ended(rebuilt.meta(), id_) is not None, 60, rebuilt.world.logs)
    first_try, done = rebuilt.meta().rebuilds
    assert (first_try.rebuild.id, first_try.state, first_try.done >= 2) == (id_, "stopped", True)
    assert (done.rebuild.id, done.state, done.done) == (id_, "done", done.total)
    rebuilt.verify()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--shard", "4"], "has the shards 0 to 3"),
        (["--dry-run", "--cancel"], "--dry-run goes with neither"),
        (["--cancel", "--algorithm", "emp"], "--cancel with no --algorithm"),
        (["--algorithm", "median"], "Invalid value for '--algorithm'"),
    ],
)
def test_what_cannot_be_right_is_refused_and_nothing_is_written(
    servers: Servers, world: WorkedTable, arguments: list[str], says: str
) -> None:
    options = ["--table", str(world.table), "--kafka", world.bootstrap, "--redis", world.environment["REDIS_URL"]]
    refused = CliRunner().invoke(main, ["rebuild", *options, *arguments])
    assert (refused.exit_code, says in refused.output) == (2, True), refused.output
    assert not any(read(world.bootstrap, world.name, "control", shard) for shard in range(SHARDS))


def test_a_request_that_no_worker_takes_up_is_told(world: WorkedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.cli.operate.rebuild.TAKEN_UP_SECONDS_MAX", 1.0)
    options = ["--table", str(world.table), "--kafka", world.bootstrap, "--redis", world.environment["REDIS_URL"]]
    waited = CliRunner().invoke(main, ["rebuild", *options, "--wait"])
    assert waited.exit_code == 1
    assert waited.output.count("no worker has taken it up") == SHARDS
    trial = CliRunner().invoke(main, ["rebuild", *options, "--dry-run"])
    assert (trial.exit_code, trial.output.count("has no row")) == (0, SHARDS), trial.output
