"""Workers in Kafka's consumer group: whoever comes, and whenever, every shard has one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiokafka import TopicPartition, client
from aiokafka.abc import ConsumerRebalanceListener
from confluent_kafka import Consumer

from agents import input_reader
from agents.input_reader import InputReader
from streamer.errors import StreamerError
from streamer.incremental.topics import CHANGES, topic_name, worker_group
from streamer.table.yaml.loading import load_table
from streamer.worker.settings import WorkerSettings
from worlds.workers import PATIENCE, SHARDS, WorkedTable, wait_until

LOOK_SECONDS = 0.02


class Member(ConsumerRebalanceListener):
    """One worker's reader, and what Kafka's group gave it."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.reader = InputReader(settings)
        self.held: set[TopicPartition] = set()
        self.assignments = 0

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.held = set()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.held = set(assigned)
        self.assignments += 1


@asynccontextmanager
async def group_of(world: WorkedTable, size: int) -> AsyncIterator[list[Member]]:
    """Members that join at the same moment, after each has got what it gets."""
    settings = WorkerSettings(load_table(world.table), world.bootstrap, "", session_seconds=6.0)
    members = [Member(settings) for _ in range(size)]
    try:
        await asyncio.gather(*(one.reader.start(one, is_embedded=False) for one in members))
        await until(lambda: all(one.assignments for one in members) and all_given_out(members))
        yield members
    finally:
        await asyncio.gather(*(one.reader.stop() for one in members))


def all_given_out(members: Iterable[Member]) -> bool:
    return sum(len(one.held) for one in members) == SHARDS


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5 * PATIENCE):
        while not holds():
            await asyncio.sleep(LOOK_SECONDS)


def test_workers_that_join_at_the_same_moment_all_get_shards_at_once(world: WorkedTable) -> None:
    """The client joins once for each way to share that it is told: with two ways, this could go on for ever."""

    async def join() -> list[int]:
        async with group_of(world, 3) as members:
            return [one.assignments for one in members]

    for _ in range(8):
        assert max(asyncio.run(join())) <= 3


def test_a_worker_that_had_no_shard_for_long_takes_over_when_the_others_end(
    world: WorkedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client leaves the group if nobody reads, and one that has no shard has nothing to read."""
    monkeypatch.setattr(input_reader, "POLL_INTERVAL_MS_MAX", 6_000)

    async def rest_and_take_over() -> None:
        async with group_of(world, SHARDS + 1) as members:
            asked = [asyncio.ensure_future(ask_again_and_again(one)) for one in members]
            await asyncio.sleep(12)
            idle = [one for one in members if not one.held]
            assert (len(idle), all_given_out(members)) == (1, True)
            for one in members:
                if one not in idle:
                    await one.reader.stop()
                    one.held = set()
            await until(lambda: all_given_out(idle))
            for task in asked:
                task.cancel()

    async def ask_again_and_again(member: Member) -> None:
        while True:
            with suppress(Exception):  # of one that has been stopped
                await member.reader.keep_joined()
            await asyncio.sleep(LOOK_SECONDS)

    asyncio.run(rest_and_take_over())


def test_a_client_that_will_never_read_again_is_an_error_and_no_silence(
    world: WorkedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors of its own kind it tries again; one of another kind ends its tasks, while its heartbeats go on."""

    make, made, broken = client.create_conn, list[Any](), asyncio.Event()

    async def create(*server: Any, **access: Any) -> Any:
        if broken.is_set():
            raise RuntimeError("of no kind that it knows")
        made.append(await make(*server, **access))
        return made[-1]

    async def break_connections() -> None:
        async with group_of(world, 1) as (member,):
            await member.reader.keep_joined()
            broken.set()
            for connection in made:
                connection.close()
            with pytest.raises(StreamerError, match=r"unexpected RuntimeError|KafkaError"):
                async with asyncio.timeout(5 * PATIENCE):
                    while True:
                        await member.reader.keep_joined()
                        await asyncio.sleep(LOOK_SECONDS)

    monkeypatch.setattr(client, "create_conn", create)
    asyncio.run(break_connections())


def test_of_two_workers_of_one_name_one_says_so_and_ends(world: WorkedTable) -> None:
    """They took all shards from each other every few seconds, and nobody said why."""
    namesakes = [world.start(more=["--instance", "a"]) for _ in range(2)]
    wait_until(lambda: any(one.process.poll() is not None for one in namesakes), 60.0 * PATIENCE, world.logs)
    (code, log), *_ = [(one.process.poll(), one.log.read_text()) for one in namesakes if one.process.poll() is not None]
    assert (code, "another worker with --instance a has taken shard" in log) == (2, True)
    world.write(200)
    world.wait_until_published()  # by the other one


def test_a_worker_whose_group_has_a_stranger_says_so_and_ends(world: WorkedTable) -> None:
    stranger = Consumer(
        {
            "bootstrap.servers": world.bootstrap,
            "group.id": worker_group(world.name),
            "partition.assignment.strategy": "roundrobin",
        }
    )
    stranger.subscribe([topic_name(world.name, CHANGES)])
    try:
        wait_until(lambda: not stranger.poll(0.1) and bool(stranger.assignment()), 60.0, lambda: "no assignment")
        assert "another program is in this consumer group" in world.refusal()
    finally:
        stranger.close()
