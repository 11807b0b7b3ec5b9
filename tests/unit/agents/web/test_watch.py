"""What a worker is seen to do over time: since when a shard stands still, and how fast it goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from agents.diary import Diary
from agents.web.watch import RATE_SECONDS, Watch
from agents.worker_settings import WorkerSettings
from streamer.incremental.events.counts import Counts
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import Meta
from streamer.incremental.store.snapshot import Snapshot
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS


@dataclass
class Shard:
    """A shard as far as it is looked at."""

    number: int = 0
    told: bool = True
    lost: str = ""
    next: int = 0
    busy_seconds: float = 0.0
    computing_seconds: float = 0.0
    meta: Meta = field(default_factory=Meta)
    sizes: dict[str, int] = field(default_factory=dict)
    ncp: float | None = None
    ncp_fresh: float | None = None
    diary: Diary = field(default_factory=Diary)


@dataclass
class Reader:
    """The service that holds shards."""

    held: list[Shard]
    joined: bool = True

    @property
    def diaries(self) -> dict[int, Diary]:
        return {shard.number: shard.diary for shard in self.held}


class World:
    """A worker with one shard, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("agents.web.watch.monotonic", lambda: self.now)
        self.shard = Shard()
        self.reader = Reader([self.shard])
        settings = WorkerSettings(load_table(PATIENTS), "a:1", "redis://b:2", name="here:1")
        self.watch = Watch(settings, cast(Any, self.reader))

    def after(self, seconds: float) -> Any:
        """The shard's facts then."""
        self.now += seconds
        (facts,) = self.watch.facts(()).shards
        return facts


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_shard_stands_still_since_messages_wait_and_none_was_applied(world: World) -> None:
    assert world.after(0).still_seconds == 0
    world.watch.ends = {0: 5}
    assert world.after(1).still_seconds == 1  # at most: they came since the look before
    assert (world.after(9).still_seconds, world.after(0).lag) == (10, 5)
    world.shard.next = 1
    assert (world.after(1).still_seconds, world.after(3).still_seconds) == (0, 3)
    world.shard.next = 5
    assert (world.after(60).still_seconds, world.after(60).still_seconds) == (0, 0)


def test_a_shard_that_is_not_taken_over_yet_has_no_lag_that_anybody_knows(world: World) -> None:
    world.watch.ends, world.shard.told = {0: 5}, False
    facts = world.after(0)
    assert (facts.lag, facts.taken_over, facts.since) == (0, False, None)


def test_a_shard_that_comes_back_is_not_measured_by_what_it_was(world: World) -> None:
    world.watch.ends = {0: 5}
    assert [world.after(0).still_seconds, world.after(30).still_seconds] == [0, 30]
    world.reader.held = []
    world.watch.facts(())
    world.reader.held = [world.shard]
    assert world.after(30).still_seconds == 0


def test_a_worker_waits_for_its_shards_since_kafka_began_to_give_them_out(world: World) -> None:
    seen = []
    for joined in (False, False, True, True, False, False):
        world.now += 10
        world.reader.joined = joined
        seen.append(world.watch.facts(()).unjoined_seconds)
    assert seen == [0, 10, 0, 0, 0, 10]


def test_how_fast_a_shard_goes_is_of_the_last_seconds(world: World) -> None:
    assert world.after(0).messages_per_s == 0
    for _ in range(20):
        world.shard.diary.step(StepReport(Counts(applied=100), published=30, commits=1))
        facts = world.after(1)
    assert (facts.messages_per_s, facts.records_per_s) == (100, 30)
    assert world.after(1).messages_per_s < 100
    assert world.after(RATE_SECONDS).messages_per_s == 0


def test_errors_and_faults_are_told_by_how_long_ago_they_were(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.diary.monotonic", lambda: world.now)
    facts = world.after(0)
    assert (facts.error, facts.error_seconds, facts.fault_seconds) == ("", 0.0, None)
    world.shard.diary.failed("Redis b:2: no answer")
    world.shard.diary.step(StepReport(faults=["KeyError"]))
    facts = world.after(7)
    assert (facts.error, facts.error_seconds, facts.fault_seconds) == ("Redis b:2: no answer", 7, 7)


def test_figures_are_those_of_the_shard(world: World) -> None:
    world.shard.sizes = {"rows": 9, "pending": 2, "qi_groups": 3}
    world.shard.meta = Meta(release=4, counts=Counts(applied=8), snapshot=Snapshot(since=1))
    world.shard.ncp, world.shard.lost = 0.5, "given back"
    facts = world.after(0)
    assert (facts.rows, facts.pending, facts.qi_groups, facts.release, facts.ncp) == (9, 2, 3, 4, 0.5)
    assert (facts.counts.applied, facts.lost, facts.releases) == (8, True, True)
    assert facts.pending_since is not None
