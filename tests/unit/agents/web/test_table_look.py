"""The look at the whole table: seldom, never twice at a time, and what fails is seen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agents.web.table_look import LOOK_SECONDS, OLD_SECONDS, Seen, TableLook
from streamer.cli.shard_facts import TableFacts, Workers
from streamer.errors import ServerUnreachable
from streamer.incremental.store.redis_lookups import RedisNow
from streamer.incremental.store.redis_server import Durability
from streamer.incremental.store.redis_url import Kind
from streamer.incremental.topics import topics_of
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS
from worlds.patients import CANARY

TABLE = load_table(PATIENTS)
NO_SHARD = TableFacts(
    [], Workers({}, told=False), {topic.name: 1 for topic in topics_of(TABLE.name)}, [], RedisNow(0.0),
    Durability(Kind.SERVER, 1),
)  # fmt: skip


class World:
    """A table that is looked at by `look`, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.looks = 1000.0, 0
        self.look: Callable[[], TableFacts] = lambda: NO_SHARD
        monkeypatch.setattr("agents.web.table_look.look", self._look)
        self.table_look = TableLook(TABLE, "a:1", "redis://b:2", lambda: self.now)

    def _look(self, *_where: Any) -> TableFacts:
        self.looks += 1
        return self.look()

    def looked(self, *at: float) -> None:
        async def some() -> None:
            for seconds in at:
                self.now = 1000.0 + seconds
                await self.table_look.look()

        asyncio.run(some())


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_nobody_looks_before_the_last_look_is_old(world: World) -> None:
    world.looked(0, 1, LOOK_SECONDS - 0.1)
    assert world.looks == 1
    world.looked(LOOK_SECONDS)
    assert world.looks == 2


def test_what_is_seen_is_judged_as_status_does(world: World) -> None:
    world.looked(0)
    assert world.table_look.seen.verdict.warnings == ["Kafka does not tell which worker holds which shard"]
    assert not world.table_look.seen.told


def test_what_was_seen_long_ago_is_not_told_any_more(world: World) -> None:
    world.looked(0)
    world.now = 1000.0 + OLD_SECONDS
    assert world.table_look.seen != Seen()
    world.now += 1
    assert world.table_look.seen == Seen()
    shown: list[Seen] = []

    def peeking() -> TableFacts:
        shown.append(world.table_look.seen)
        return NO_SHARD

    world.look = peeking
    world.looked(10 * OLD_SECONDS)
    assert shown == [Seen()], "while the next look is under way"
    assert world.table_look.seen != Seen()


def test_a_look_that_takes_long_is_not_begun_twice(world: World) -> None:
    goes_on = threading.Event()

    def slow() -> TableFacts:
        goes_on.wait(30)
        return NO_SHARD

    async def story() -> None:
        world.look = slow
        first = asyncio.ensure_future(world.table_look.look())
        while not world.table_look.busy:
            await asyncio.sleep(0.01)
        world.now += 10 * LOOK_SECONDS
        await world.table_look.look()
        goes_on.set()
        await first

    asyncio.run(story())
    assert (world.looks, world.table_look.busy) == (1, False)


def test_a_server_that_does_not_answer_is_a_problem_until_it_does(world: World) -> None:
    def unreachable() -> TableFacts:
        raise ServerUnreachable("Redis b:2: no answer")

    world.look = unreachable
    world.looked(0)
    assert world.table_look.seen.verdict.problems == ["Redis b:2: no answer"]
    world.look = lambda: NO_SHARD
    world.looked(LOOK_SECONDS)
    assert world.table_look.seen.verdict.problems == []


def test_what_a_library_says_stays_inside(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> TableFacts:
        raise KeyError(CANARY)

    world.look = failing
    world.looked(0)
    (said,) = world.table_look.seen.verdict.warnings
    assert CANARY not in said + caplog.text
