"""What a worker sees: of its shards over time, of Kafka and Redis, and of the whole table while somebody looks."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaTimeoutError
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from agents.shard_metrics import ShardMetrics
from agents.shard_thread import ComputeLock, ShardThread
from agents.web import watch
from agents.web.watch import (
    OLD_SECONDS,
    PAGE_LOOK_SECONDS,
    RATE_SECONDS,
    FactCollector,
    Probes,
    Seen,
    TableLook,
    registry_of,
)
from streamer.errors import ServerUnreachable
from streamer.incremental.events.changes import Counts
from streamer.incremental.shard.ready import Facts
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import Meta, Snapshot
from streamer.incremental.store.codec import FORMAT_VERSION
from streamer.incremental.store.redis_lookups import Ownership, RedisNow, Refusal
from streamer.incremental.store.redis_server import Durability, Kind
from streamer.incremental.topics import topics_of
from streamer.status.facts import TableFacts, WorkerFacts, Workers
from streamer.table.yaml.loading import load_table
from streamer.worker.settings import WorkerSettings
from streamer.worker.tenure import Tenure, TenureState
from worlds.checkout import PATIENTS
from worlds.patients import CANARY
from worlds.status_facts import NOW, WELL, worker

TABLE = load_table(PATIENTS)


@dataclass
class Shard:
    """A shard as far as it is looked at."""

    number: int = 0
    tenure: Tenure = field(default_factory=lambda: Tenure(TenureState.SERVING, is_owner=True))
    meta: Meta = field(default_factory=Meta)
    facts: Facts = field(default_factory=lambda: Facts("Serving", Meta()))
    thread: ShardThread = field(default_factory=lambda: ShardThread(0, "a shard", ComputeLock(threading.Lock())))
    metrics: ShardMetrics = field(default_factory=ShardMetrics)


@dataclass
class Reader:
    """The service that holds shards."""

    held: list[Shard]
    joined: bool = True

    @property
    def metrics(self) -> dict[int, ShardMetrics]:
        return {shard.number: shard.metrics for shard in self.held}


class World:
    """A worker with one shard, and a clock."""

    def __init__(self) -> None:
        self.now = float(int(monotonic()))  # whole seconds: their differences are exact
        self.shard = Shard()
        self.reader = Reader([self.shard])
        settings = WorkerSettings(TABLE, "a:1", "redis://b:2", name="here:1")
        self.collector = FactCollector(settings, cast(Any, self.reader))

    def facts(self) -> WorkerFacts:
        return self.collector.facts((), {}, self.now)

    def after(self, seconds: float) -> Any:
        """The shard's facts then."""
        self.now += seconds
        (facts,) = self.facts().shards
        return facts


@pytest.fixture
def world() -> World:
    return World()


def test_a_shard_stands_still_since_messages_wait_and_none_was_applied(world: World) -> None:
    assert world.after(0).still_seconds == 0
    world.collector.ends = {0: 5}
    assert world.after(1).still_seconds == 1  # at most: they came since the look before
    assert (world.after(9).still_seconds, world.after(0).lag) == (10, 5)
    world.shard.meta = Meta(next=1)
    assert (world.after(1).still_seconds, world.after(3).still_seconds) == (0, 3)
    world.shard.meta = Meta(next=5)
    assert (world.after(60).still_seconds, world.after(60).still_seconds) == (0, 0)


def test_a_shard_that_is_not_taken_over_yet_has_no_lag_that_anybody_knows(world: World) -> None:
    world.collector.ends, world.shard.tenure = {0: 5}, Tenure()
    facts = world.after(0)
    assert (facts.lag, facts.taken_over, facts.since) == (0, False, None)


def test_a_shard_that_comes_back_is_not_measured_by_what_it_was(world: World) -> None:
    world.collector.ends = {0: 5}
    assert [world.after(0).still_seconds, world.after(30).still_seconds] == [0, 30]
    world.reader.held = []
    world.facts()
    world.reader.held = [world.shard]
    assert world.after(30).still_seconds == 0


def test_a_worker_waits_for_its_shards_since_kafka_began_to_give_them_out(world: World) -> None:
    seen = []
    for joined in (False, False, True, True, False, False):
        world.now += 10
        world.reader.joined = joined
        seen.append(world.facts().unjoined_seconds)
    assert seen == [0, 10, 0, 0, 0, 10]


def test_how_fast_a_shard_goes_is_of_the_last_seconds(world: World) -> None:
    assert world.after(0).messages_per_s == 0
    for _ in range(20):
        world.shard.metrics.step(StepReport(Counts(applied=100), published=30, commits=1))
        facts = world.after(1)
    assert (facts.messages_per_s, facts.records_per_s) == (100, 30)
    assert world.after(1).messages_per_s < 100
    assert world.after(RATE_SECONDS).messages_per_s == 0


def test_errors_and_faults_are_told_by_how_long_ago_they_were(world: World) -> None:
    facts = world.after(0)
    assert (facts.error, facts.error_seconds, facts.fault_seconds) == ("", 0.0, None)
    metrics = world.shard.metrics
    world.shard.tenure = Tenure(failed="Redis b:2: no answer", failed_at=world.now)
    metrics.step(StepReport(faults=["KeyError"]))
    assert metrics.fault_at is not None
    facts = world.after(7)
    fault_seconds = world.now - metrics.fault_at
    assert (facts.error, facts.error_seconds, facts.fault_seconds) == ("Redis b:2: no answer", 7, fault_seconds)


def test_figures_are_those_of_the_shard(world: World) -> None:
    world.shard.meta = Meta(release=4, counts=Counts(applied=8), snapshot=Snapshot(since=1))
    world.shard.facts = Facts("Serving", world.shard.meta, {"rows": 9, "pending": 2, "qi_groups": 3}, 0.5)
    world.shard.tenure = Tenure(TenureState.LOST, lost="given back", is_owner=True)
    facts = world.after(0)
    assert (facts.rows, facts.pending, facts.qi_groups, facts.release, facts.ncp) == (9, 2, 3, 4, 0.5)
    assert (facts.counts.applied, facts.lost, facts.releases) == (8, True, True)
    assert facts.pending_since is not None


def test_rows_of_a_shard_that_is_loaded_again_after_an_error_do_not_fall_to_zero(world: World) -> None:
    """Before: the page and /metrics said 0 rows until the shard was loaded, and a chart had a cliff."""
    loaded = Facts("Serving", Meta(), {"rows": 9, "pending": 2, "qi_groups": 3}, 0.5)
    world.shard.facts = loaded
    assert world.after(0).rows == 9
    world.shard.facts = Facts("Restoring", Meta())
    assert (world.after(1).rows, world.after(1).qi_groups, world.after(1).ncp) == (9, 3, 0.5)
    world.shard.facts = Facts("Serving", Meta(), {"rows": 0, "pending": 0, "qi_groups": 0})
    assert world.after(1).rows == 0
    world.shard.facts, world.shard.tenure = Facts("Restoring", Meta()), Tenure()
    assert world.after(1).rows == 0


# -- Kafka and Redis ----------------------------------------------------------------------------------------------

PLACES = [TopicPartition("patients.changes", number) for number in (0, 1)]


class Consumer:
    """The client that reads the input, of which shard 1 is given to this worker."""

    def __init__(self) -> None:
        self.fails: Exception | None = None
        self.ends = dict.fromkeys(PLACES, 10)

    def partitions_for_topic(self, topic: str) -> set[int]:
        return {place.partition for place in PLACES if place.topic == topic}

    async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        if self.fails is not None:
            raise self.fails
        return {place: self.ends[place] for place in places}


class Servers:
    """Probes of servers that answer as they are told, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.consumer = Consumer()
        self.redis: Callable[[], RedisNow] = lambda: RedisNow(0.0)
        self.collector = SimpleNamespace(ends={})
        self.refusals: dict[int, str] = {}
        for name, instead in {
            "monotonic": lambda: self.now, "PROBE_SECONDS": 0.01, "FIRST_PROBE_SECONDS": 0.01,
            "connect": lambda url, seconds: None, "server_now": lambda client: self.redis(),
            "RedisLookups": self._lookups,
        }.items():  # fmt: skip
            monkeypatch.setattr(watch, name, instead)
        settings = WorkerSettings(TABLE, "a:1", "redis://b:2")
        self.ingest = SimpleNamespace(reader=SimpleNamespace(consumer=self.consumer), joined=True, held=[])
        self.probes = Probes(settings, cast(Any, self.ingest), cast(Any, self.collector))

    def _lookups(self, _client: object, _table: str, number: int) -> Any:
        reason = self.refusals.get(number)
        refusal = None if reason is None else Refusal(reason, "there:2", 0)
        return SimpleNamespace(custody=lambda: Ownership(refusal=refusal))

    def refused(self) -> dict[int, str]:
        custodies = self.probes.refused.items()
        return {number: custody.refusal.reason for number, custody in custodies if custody.refusal is not None}

    def silent(self) -> dict[str, float]:
        return {server.name: server.silent_seconds for server in self.probes.facts()}

    def asked(self, until: Callable[[], bool]) -> None:
        """Asks both again and again, until something holds."""

        async def story() -> None:
            asking = asyncio.ensure_future(self.probes.run())
            for _ in range(3000):
                if until() or asking.done():
                    break
                await asyncio.sleep(0.01)
            assert until()
            asking.cancel()

        asyncio.run(story())


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> Servers:
    return Servers(monkeypatch)


def test_servers_that_answer_are_silent_for_a_moment_only(probed: Servers) -> None:
    probed.now += 60
    assert probed.silent() == {"Kafka": 60, "Redis": 60}
    probed.asked(until=lambda: probed.silent() == {"Kafka": 0, "Redis": 0})


def test_the_input_ends_where_it_can_be_read_and_no_open_transaction_counts_as_waiting(probed: Servers) -> None:
    """Before: a producer that left one open had a healthy worker restarted for ever."""
    probed.asked(until=lambda: probed.collector.ends == {0: 10, 1: 10})


@pytest.mark.parametrize("fails", [KafkaTimeoutError(), TimeoutError(), ValueError("a fault of the client's")])
def test_a_kafka_that_fails_is_asked_again(probed: Servers, fails: Exception) -> None:
    probed.consumer.fails = fails
    probed.now += 60
    probed.asked(until=lambda: probed.silent() == {"Kafka": 60, "Redis": 0})
    probed.consumer.fails = None
    probed.asked(until=lambda: probed.silent() == {"Kafka": 0, "Redis": 0})


def test_a_redis_that_fails_is_asked_again(probed: Servers) -> None:
    def unreachable() -> RedisNow:
        raise ServerUnreachable("Redis b:2: no answer")

    probed.redis = unreachable
    probed.now += 60
    probed.asked(until=lambda: probed.silent() == {"Kafka": 0, "Redis": 60})
    probed.redis = lambda: RedisNow(0.0, full=True)
    probed.asked(until=lambda: probed.silent()["Redis"] == 0)
    assert [server.full for server in probed.probes.facts()] == [False, True]


def test_before_there_is_a_client_kafka_has_not_answered(probed: Servers) -> None:
    probed.ingest.reader.consumer = None
    probed.now += 5
    probed.asked(until=lambda: probed.silent() == {"Kafka": 5, "Redis": 0})


def test_a_refusal_is_known_while_this_worker_may_get_the_shard_or_has_not_taken_it_over(
    probed: Servers,
) -> None:
    probed.refusals = {0: "its topic was recreated", 1: "its secret is lost"}
    probed.ingest.joined = False
    probed.asked(until=lambda: probed.refused() == probed.refusals)
    shard = SimpleNamespace(number=1, tenure=Tenure())
    probed.ingest.joined, probed.ingest.held = True, [shard]
    probed.asked(until=lambda: probed.refused() == {1: "its secret is lost"})
    shard.tenure = Tenure(is_owner=True)
    probed.asked(until=lambda: probed.refused() == {})


# -- the whole table ----------------------------------------------------------------------------------------------

NO_SHARD = TableFacts(
    [], Workers({}, told=False), {topic.name: 1 for topic in topics_of(TABLE.name)}, [], RedisNow(0.0),
    Durability(Kind.SERVER, 1),
)  # fmt: skip


class LookedAt:
    """A table that is looked at by `look`, and a clock."""

    def __init__(self) -> None:
        self.now, self.looks = 1000.0, 0
        self.look: Callable[[], TableFacts] = lambda: NO_SHARD
        self.table_look = TableLook(self._look, lambda: self.now)

    def _look(self) -> TableFacts:
        self.looks += 1
        return self.look()

    def looked(self, *at: float) -> None:
        async def some() -> None:
            for seconds in at:
                self.now = 1000.0 + seconds
                await self.table_look.look()

        asyncio.run(some())


@pytest.fixture
def table() -> LookedAt:
    return LookedAt()


def test_nobody_looks_before_the_last_look_is_old(table: LookedAt) -> None:
    table.looked(0, 1, PAGE_LOOK_SECONDS - 0.1)
    assert table.looks == 1
    table.looked(PAGE_LOOK_SECONDS)
    assert table.looks == 2


def test_what_was_seen_long_ago_is_not_told_any_more(table: LookedAt) -> None:
    table.looked(0)
    table.now = 1000.0 + OLD_SECONDS
    assert table.table_look.seen != Seen()
    table.now += 1
    assert table.table_look.seen == Seen()
    shown: list[Seen] = []

    def peeking() -> TableFacts:
        shown.append(table.table_look.seen)
        return NO_SHARD

    table.look = peeking
    table.looked(10 * OLD_SECONDS)
    assert shown == [Seen()], "while the next look is under way"
    assert table.table_look.seen != Seen()


def test_a_look_that_takes_long_is_not_begun_twice(table: LookedAt) -> None:
    goes_on = threading.Event()

    def slow() -> TableFacts:
        goes_on.wait(30)
        return NO_SHARD

    async def story() -> None:
        table.look = slow
        first = asyncio.ensure_future(table.table_look.look())
        while not table.table_look.busy:
            await asyncio.sleep(0.01)
        table.now += 10 * PAGE_LOOK_SECONDS
        await table.table_look.look()
        goes_on.set()
        await first

    asyncio.run(story())
    assert (table.looks, table.table_look.busy) == (1, False)


def test_a_server_that_does_not_answer_is_a_problem_until_it_does(table: LookedAt) -> None:
    def unreachable() -> TableFacts:
        raise ServerUnreachable("Redis b:2: no answer")

    table.look = unreachable
    table.looked(0)
    assert table.table_look.seen.problem == "Redis b:2: no answer"
    table.look = lambda: NO_SHARD
    table.looked(PAGE_LOOK_SECONDS)
    assert table.table_look.seen == Seen(NO_SHARD)


def test_what_a_library_says_stays_inside(table: LookedAt, caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> TableFacts:
        raise KeyError(CANARY)

    table.look = failing
    table.looked(0)
    said = table.table_look.seen.warning
    assert said.startswith("the state of the whole table could not be read") and CANARY not in said + caplog.text


# What Prometheus reads is what the worker knows, and names nobody.

STEP = StepReport(
    Counts(applied=5, ignored=1, dead_letters=2, unlisted={"job": 3}),
    published=9,
    commits=1,
    merges=2,
    splits=1,
    reasons=Counter({"key-exists": 2}),
    commit_seconds=0.004,
    publish_seconds=0.3,
)


def busy_shard() -> ShardMetrics:
    metrics = ShardMetrics(take_overs=3, fenced=1)
    metrics.step(STEP)
    metrics.step(STEP)
    return metrics


def read(facts: WorkerFacts, **shards: ShardMetrics) -> dict[str, Metric]:
    """The metrics of a worker; shards: as `_4`."""
    by_shard = {int(name.removeprefix("_")): one for name, one in shards.items()}
    text = generate_latest(registry_of(lambda: facts, by_shard)).decode()
    return {metric.name: metric for metric in text_string_to_metric_families(text)}


def value(metrics: dict[str, Metric], name: str, sample: str = "", **labels: str) -> float:
    found = [
        one.value
        for one in metrics[name].samples
        if one.name == (sample or name) and labels.items() <= one.labels.items()
    ]
    assert len(found) == 1, metrics[name].samples
    return found[0]


def test_a_shard_is_told_as_it_is() -> None:
    metrics = read(worker(replace(WELL, lag=12, pending=3, pending_since=NOW - 40)))
    wanted = {
        "streamer_lag_messages": 12, "streamer_rows": 90, "streamer_pending_rows": 3, "streamer_qi_groups": 20,
        "streamer_pending_oldest_seconds": 40,
        "streamer_information_loss_ratio": 0.25, "streamer_fresh_information_loss_ratio": 0.2,
        "streamer_last_release_number": 7,
        "streamer_shard_healthy": 1,
    }  # fmt: skip
    assert {name: value(metrics, name, table="patients", shard="0") for name in wanted} == wanted


def test_what_is_not_known_is_not_told() -> None:
    metrics = read(worker(replace(WELL, ncp=None, ncp_fresh=None)))
    assert (
        metrics["streamer_information_loss_ratio"].samples
        == metrics["streamer_fresh_information_loss_ratio"].samples
        == []
    )


def test_counts_are_those_of_the_process_and_stay_when_the_shard_has_gone() -> None:
    metrics = read(replace(worker(), shards=()), _4=busy_shard())
    of = {"table": "patients", "shard": "4"}
    messages = {
        result: value(metrics, "streamer_messages", "streamer_messages_total", result=result, **of)
        for result in ("applied", "ignored", "dead-letter")
    }
    assert messages == {"applied": 10, "ignored": 2, "dead-letter": 4}
    reason = value(metrics, "streamer_dead_letters", "streamer_dead_letters_total", reason="key-exists", **of)
    totals = ("published_records", "commits", "merges", "splits", "take_overs", "fencings")
    assert reason == 4
    name = "streamer_unlisted_categories"
    assert value(metrics, name, f"{name}_total", column="job", **of) == 6
    assert [value(metrics, f"streamer_{name}", f"streamer_{name}_total", **of) for name in totals] == [
        18, 2, 4, 2, 3, 1,
    ]  # fmt: skip
    assert metrics["streamer_rows"].samples == []


@pytest.mark.parametrize(
    ("name", "below", "above", "seconds"),
    [("commit", "0.0025", "0.005", STEP.commit_seconds), ("publish", "0.25", "0.5", STEP.publish_seconds)],
)
def test_durations_of_steps_are_histograms(name: str, below: str, above: str, seconds: float) -> None:
    metrics, of = read(worker(WELL), _0=busy_shard()), f"streamer_{name}_duration_seconds"
    buckets = {bound: value(metrics, of, f"{of}_bucket", le=bound) for bound in (below, above, "+Inf")}
    assert buckets == {below: 0, above: 2, "+Inf": 2}
    assert value(metrics, of, f"{of}_count") == 2
    assert value(metrics, of, f"{of}_sum") == pytest.approx(2 * seconds)


def test_the_worker_says_whether_it_is_well_and_which_server_is_silent() -> None:
    well, ill = read(worker()), read(worker(replace(WELL, lag=1, still_seconds=60.0)))
    assert [value(one, "streamer_healthy") for one in (well, ill)] == [1, 0]
    assert [value(one, "streamer_shard_healthy", shard="0") for one in (well, ill)] == [1, 0]
    assert value(well, "streamer_server_silent_seconds", server="redis") == 2
    assert value(well, "streamer_worker_info", worker="here:1") == 1
    assert value(well, "streamer_build_info", version="1.2.3", redis_format=f"{FORMAT_VERSION}") == 1


def test_every_metric_says_what_it_is_and_begins_with_our_name() -> None:
    for name, metric in read(worker(WELL), _0=busy_shard()).items():
        assert name.startswith("streamer_")
        assert metric.documentation.endswith(".")
