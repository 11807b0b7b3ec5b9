"""What a newer streamer has kept stops an older one, wherever it stands, before it changes anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from streamer.incremental.topics import CONTROL, POSITIONS
from worlds.kafka_and_redis import write
from worlds.workers import WorkedTable


def in_redis(world: WorkedTable) -> None:
    meta = f"{{{world.name}:0}}:meta"
    version, *rest = msgspec.msgpack.decode(world.redis.hget(meta, "state"), type=list[Any])
    world.redis.hset(meta, "state", msgspec.msgpack.encode([version + 1, *rest, "more"]))


def in_positions(world: WorkedTable) -> None:
    last = world.read(POSITIONS, 0)[-1]
    newer = (last.value() or b"").replace(b'"format":1', b'"format":2,"more":7')
    write(world.bootstrap, f"{world.name}.positions", [(0, last.key() or b"", newer)])


def in_control(world: WorkedTable) -> None:
    write(world.bootstrap, f"{world.name}.{CONTROL}", [(0, b"", b'{"format":2,"command":"more","shard":0}')])


NEWER: list[tuple[Callable[[WorkedTable], None], str]] = [
    (in_redis, "store: a meta is in format 6, and this streamer reads up to format 5: run the version that wrote it"),
    (in_positions, "the last position is in format 2, and this streamer reads up to format 1: run the version that"),
    (in_control, "a record of the control topic is in format 2, and this streamer reads up to format 1: run the"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("newer", "says"), NEWER)
def test_a_worker_stops_at_a_newer_format_and_changes_nothing(
    world: WorkedTable, newer: Callable[[WorkedTable], None], says: str
) -> None:
    first = world.serve(60)
    first.terminate()
    newer(world)
    before = world.redis.hget(f"{{{world.name}:0}}:meta", "state")
    world.write(20)
    assert says in world.refusal()
    assert world.redis.hget(f"{{{world.name}:0}}:meta", "state") == before
