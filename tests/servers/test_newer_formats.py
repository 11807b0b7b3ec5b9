"""What a newer streamer has kept stops an older one, wherever it stands, before it changes anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from streamer.incremental.shard.outlet import POSITION_FORMAT
from streamer.incremental.shard.requests import FORMAT
from streamer.incremental.store.codec import FORMAT_VERSION
from streamer.incremental.topics import CONTROL, POSITIONS
from worlds.kafka_and_redis import write
from worlds.workers import SHARDS, WorkedTable, wait_until


def meta_of(world: WorkedTable, shard: int) -> str:
    return f"{{{world.name}:{shard}}}:meta"


def in_redis(world: WorkedTable, shard: int) -> None:
    version, *rest = msgspec.msgpack.decode(world.redis.hget(meta_of(world, shard), "state"), type=list[Any])
    assert version == FORMAT_VERSION
    world.redis.hset(meta_of(world, shard), "state", msgspec.msgpack.encode([version + 1, *rest, "more"]))


def in_positions(world: WorkedTable, shard: int) -> None:
    last = world.read(POSITIONS, shard)[-1]
    newer = msgspec.json.decode(last.value() or b"") | {"format": POSITION_FORMAT + 1, "more": 7}
    write(world.bootstrap, f"{world.name}.{POSITIONS}", [(shard, last.key() or b"", msgspec.json.encode(newer))])


def in_control(world: WorkedTable, shard: int) -> None:
    newer = {"format": FORMAT + 1, "command": "more", "shard": shard}
    write(world.bootstrap, f"{world.name}.{CONTROL}", [(shard, b"", msgspec.json.encode(newer))])


def says(what: str, known: int) -> str:
    return f"{what} is in format {known + 1}, and this streamer reads up to format {known}: run the version that wrote"


NEWER = pytest.mark.parametrize(
    ("newer", "sentence"),
    [
        (in_redis, says("store: a meta", FORMAT_VERSION)),
        (in_positions, says("the last position", POSITION_FORMAT)),
        (in_control, says("a record of the control topic", FORMAT)),
    ],
    ids=["in Redis", "in positions", "in control"],
)


@pytest.mark.slow
@NEWER
def test_a_worker_stops_at_a_newer_format_and_changes_nothing(
    world: WorkedTable, newer: Callable[[WorkedTable, int], None], sentence: str
) -> None:
    """One shard in it is refused alone; with all of them, the worker ends."""
    world.serve(60).terminate()
    newer(world, 0)
    before = world.redis.hget(meta_of(world, 0), "state")
    worker = world.start()
    world.write(20)
    wait_until(lambda: f"shard 0 of {world.name} is refused" in worker.log.read_text(), 40, world.logs)
    (refusal,) = (line for line in worker.log.read_text().splitlines() if "is refused" in line)
    assert sentence in refusal
    rest = [len(messages) for messages in world.changes.messages[1:]]
    wait_until(lambda: [meta.next for meta in map(world.meta, range(1, SHARDS))] == rest, 40, world.logs)
    assert world.redis.hget(meta_of(world, 0), "state") == before

    world.stop()
    for shard in range(1, SHARDS):
        newer(world, shard)
    states = [world.redis.hget(meta_of(world, shard), "state") for shard in range(SHARDS)]
    world.write(20)
    assert sentence in world.refusal()
    assert [world.redis.hget(meta_of(world, shard), "state") for shard in range(SHARDS)] == states
