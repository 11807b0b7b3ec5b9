"""`streamer rebuild` on workers, a real Kafka and Redis: under traffic, stopped, refused, and killed in the middle."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from drills.load import SourceLoad
from drills.source import COLUMNS, SourceTable
from streamer.incremental.shard.rebuild import how_it_ended
from streamer.incremental.shard.requests import FullRebuild
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import topic_name
from worlds.kafka_and_redis import write
from worlds.workers import SHARDS, WorkedTable, wait_until


class Rebuilt:
    """A table in small regions, its people and its worker."""

    def __init__(self, world: WorkedTable) -> None:
        self.world = world
        settings = "limits: {transaction_rows_max: 100}\nrebuild: {drift: never}\nengine: {repair: off}\n"
        world.table.write_text(f"{world.table.read_text()}\n{settings}")
        self.people = SourceTable(SHARDS, seed=7)
        self.worker = world.start()

    def come(self, count: int, shard: int | None = None) -> None:
        """So many people come, and are published."""
        self.world.send(self.people.come(count, shard))
        self.until_published()

    def report(self, *arguments: object, code: int = 0) -> dict[str, Any]:
        return self.world.report("rebuild", *arguments, code=code)

    def trial(self) -> list[dict[str, Any]]:
        """What a rebuild would gain, shard by shard; by a process of its own."""
        with self.world.begun("rebuild", "--dry-run", "--json") as tried:
            shards: list[dict[str, Any]] = json.loads(tried.communicate()[0])["shards"]
        assert tried.returncode == 0
        return shards

    def meta(self, shard: int = 0) -> Meta:
        return self.world.metas()[shard]

    def until_published(self) -> None:
        """Until all that was sent is read: as many rows as there are people."""

        def published() -> bool:
            total = self.world.status().get("total")  # a busy machine's servers do not always answer in time
            return bool(total and total["lag"] == total["outbox"] == 0 and total["rows"] == len(self.people.rows))

        wait_until(published, 60, self.world.logs)

    def until_regions_are_done(self, count: int) -> None:
        """Until the running rebuild of shard 0 has done so many regions."""

        def enough() -> bool:
            running = self.meta().rebuild
            return running is not None and running.done >= count

        wait_until(enough, 30, self.world.logs)

    def verify(self) -> None:
        self.world.verify(self.people.rows.values(), COLUMNS)


@pytest.fixture
def rebuilt(world: WorkedTable) -> Rebuilt:
    return Rebuilt(world)


@pytest.mark.slow
def test_a_rebuild_under_traffic_loses_no_one_and_breaks_no_law(rebuilt: Rebuilt) -> None:
    rebuilt.come(1_000)
    trial = rebuilt.trial()
    assert [one["shard"] for one in trial] == list(range(SHARDS))
    assert sum(one["rows"] for one in trial) == 1_000
    assert all(0 < one["ncp_now"] < one["ncp_before"] and one["rows_published_again"] for one in trial)
    assert rebuilt.meta().rebuilds == ()
    traffic = SourceLoad(rebuilt.world.bootstrap, rebuilt.world.input, rebuilt.people, events_per_second=50)
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
    shown = rebuilt.world.call("status")
    assert (shown.exit_code, shown.output.count("last rebuild of shard")) == (0, SHARDS), shown.output


@pytest.mark.gate("a stopped rebuild")
def test_a_rebuild_can_be_stopped_and_everything_else_is_answered_meanwhile(rebuilt: Rebuilt) -> None:
    rebuilt.come(4_000, shard=0)  # so many regions take longer than all that is asked meanwhile
    id_ = rebuilt.report("--shard", 0)["id"]
    rebuilt.until_regions_are_done(1)
    again = FullRebuild(0, id_, int(time.time())).to_json()
    nonsense = [b"nonsense", b'{"command":"rebuild","shard":0}', FullRebuild(3, "astray", int(time.time())).to_json()]
    records = [(0, None, value) for value in (again, *nonsense, None)]
    write(rebuilt.world.bootstrap, topic_name(rebuilt.world.name, "control"), records)
    (second,) = rebuilt.report("--shard", 0, "--wait", code=1)["shards"]
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
    (too_late,) = rebuilt.report("--shard", 0, "--cancel", "--wait", code=1)["shards"]
    assert too_late["said"] == "no rebuild is running that could be stopped"
    assert [rebuilt.meta(shard).rebuilds for shard in range(1, SHARDS)] == [()] * (SHARDS - 1)
    rebuilt.verify()


@pytest.mark.slow
def test_a_rebuild_whose_worker_was_killed_is_begun_again_by_the_next_and_done_once(rebuilt: Rebuilt) -> None:
    rebuilt.come(600, shard=0)
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
    world: WorkedTable, arguments: list[str], says: str
) -> None:
    assert says in world.refused("rebuild", *arguments)
    assert not any(world.ends("control"))
