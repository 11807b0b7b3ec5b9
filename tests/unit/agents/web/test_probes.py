"""How it is known that Kafka and Redis are there, and where the input ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaTimeoutError

from agents.web.probes import Probes
from agents.worker_settings import WorkerSettings
from streamer.errors import ServerUnreachable
from streamer.incremental.store.redis_lookups import Custody, RedisNow, Refusal
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS

PLACES = [TopicPartition("patients.changes", number) for number in (0, 1)]


class Consumer:
    """The client that reads the input, of which shard 1 is given to this worker."""

    def __init__(self) -> None:
        self.fails: Exception | None = None
        self.ends = dict.fromkeys(PLACES, 10)

    def partitions_for_topic(self, topic: str) -> set[int]:
        return {place.partition for place in PLACES if place.topic == topic}

    def assignment(self) -> set[TopicPartition]:
        return {PLACES[1]}

    def highwater(self, place: TopicPartition) -> int | None:
        return 12 if place == PLACES[1] else None

    async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        if self.fails is not None:
            raise self.fails
        return {place: self.ends[place] for place in places}


class World:
    """Probes of servers that answer as they are told, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.consumer = Consumer()
        self.redis: Callable[[], RedisNow] = lambda: RedisNow(0.0)
        self.watch = SimpleNamespace(ends={})
        monkeypatch.setattr("agents.web.probes.monotonic", lambda: self.now)
        for name in ("PROBE_SECONDS", "FIRST_PROBE_SECONDS"):
            monkeypatch.setattr(f"agents.web.probes.{name}", 0.01)
        monkeypatch.setattr("agents.web.probes.connect", lambda url, seconds: None)
        monkeypatch.setattr("agents.web.probes.server_now", lambda client: self.redis())
        self.refusals: dict[int, str] = {}
        monkeypatch.setattr("agents.web.probes.RedisLookups", self._lookups)
        settings = WorkerSettings(load_table(PATIENTS), "a:1", "redis://b:2")
        self.ingest = SimpleNamespace(reader=SimpleNamespace(consumer=self.consumer), joined=True, held=[])
        self.probes = Probes(settings, cast(Any, self.ingest), cast(Any, self.watch))

    def _lookups(self, _client: object, _table: str, number: int) -> Any:
        reason = self.refusals.get(number)
        refusal = None if reason is None else Refusal(reason, "there:2", 0)
        return SimpleNamespace(custody=lambda: Custody(refusal=refusal))

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
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_servers_that_answer_are_silent_for_a_moment_only(world: World) -> None:
    world.now += 60
    assert world.silent() == {"Kafka": 60, "Redis": 60}
    world.asked(until=lambda: world.silent() == {"Kafka": 0, "Redis": 0})


def test_where_the_input_ends_kafka_says_and_what_is_in_open_transactions_counts(world: World) -> None:
    world.asked(until=lambda: world.watch.ends == {0: 10, 1: 12})


@pytest.mark.parametrize("fails", [KafkaTimeoutError(), TimeoutError(), ValueError("a fault of the client's")])
def test_a_kafka_that_fails_is_asked_again(world: World, fails: Exception) -> None:
    world.consumer.fails = fails
    world.now += 60
    world.asked(until=lambda: world.silent() == {"Kafka": 60, "Redis": 0})
    world.consumer.fails = None
    world.asked(until=lambda: world.silent() == {"Kafka": 0, "Redis": 0})


def test_a_redis_that_fails_is_asked_again(world: World) -> None:
    def unreachable() -> RedisNow:
        raise ServerUnreachable("Redis b:2: no answer")

    world.redis = unreachable
    world.now += 60
    world.asked(until=lambda: world.silent() == {"Kafka": 0, "Redis": 60})
    world.redis = lambda: RedisNow(0.0, full=True)
    world.asked(until=lambda: world.silent()["Redis"] == 0)
    assert [server.full for server in world.probes.facts()] == [False, True]


def test_before_there_is_a_client_kafka_has_not_answered(world: World) -> None:
    world.ingest.reader.consumer = None
    world.now += 5
    world.asked(until=lambda: world.silent() == {"Kafka": 5, "Redis": 0})


def test_a_shard_that_was_refused_is_told_while_this_worker_may_get_it_or_has_not_taken_it_over(world: World) -> None:
    world.refusals = {0: "its topic was made anew", 1: "its secret is lost"}
    world.ingest.joined = False
    world.asked(until=lambda: world.probes.refused == world.refusals)
    shard = SimpleNamespace(number=1, told=False)
    world.ingest.joined, world.ingest.held = True, [shard]
    world.asked(until=lambda: world.probes.refused == {1: "its secret is lost"})
    shard.told = True
    world.asked(until=lambda: world.probes.refused == {})
