"""Debezium's first snapshot on workers, a real Kafka and Redis: held back, killed in the middle, released, and ended.

The messages have the schemas of Connect's converter or none. Here are the tests of streamer.cli.operate.end_snapshot,
too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from streamer.incremental.events.key_form import shard_of
from streamer.incremental.store.base import CHANGE, ELSEWHERE, LAST, OPERATOR
from worlds.debezium import NAME, Source
from worlds.workers import SHARDS, WorkedTable, wait_until

N_ROWS = 400


@pytest.fixture
def connector(world: WorkedTable) -> Iterator[Source]:
    yield Source(world, schemas=False)
    assert NAME not in world.logs()


def read(connector: Source, first: int, end: int) -> None:
    """Rows of the snapshot by their numbers: `first` marks the very first one, `last` the very last."""
    marks = {0: "first", N_ROWS - 1: "last"}
    for number in range(first, end):
        connector.change("r", f"p{number}", marks.get(number, "true"))
    connector.write()


def change(connector: Source, count: int) -> None:
    """Changes as the log says them: rows come, change and go."""
    for number in range(count):
        op = connector.rng.choice("cudu")
        new = f"c{len(connector.rows)}-{number}"
        connector.change(op, new if op == "c" else connector.rng.choice(sorted(connector.rows)))
    connector.write()


def until_held(world: WorkedTable, enough: Callable[[int], bool]) -> None:
    """Until all shards together hold back enough rows of the snapshot."""

    def held() -> int:
        snapshots = [meta.snapshot for meta in world.metas()]
        return sum(one.reads for one in snapshots if one is not None and one.holds)

    wait_until(lambda: enough(held()), 60, world.logs)


def ends(world: WorkedTable) -> list[str]:
    """Why the snapshot of each shard ended, for those that have released it."""
    return [m.snapshot.ended for m in world.metas() if m.snapshot is not None and not m.snapshot.holds]


def assert_all_is_applied(world: WorkedTable, connector: Source) -> None:
    """Every message that was written is applied and published, and the table is what the source holds."""

    def done() -> bool:
        shown = world.status()
        return shown["total"]["lag"] == 0 and not shown["problems"]

    wait_until(done, 60, world.logs)
    world.verify(connector.rows.values())


@pytest.mark.parametrize("schemas", [False, True], ids=["flat", "with schemas"])
def test_a_snapshot_is_published_whole_although_its_worker_is_killed_twice(
    world: WorkedTable, connector: Source, schemas: bool
) -> None:
    connector.schemas = schemas
    worker = world.start()
    read(connector, 0, 250)
    until_held(world, lambda rows: rows > 100)
    worker.kill()
    worker = world.start()
    until_held(world, lambda rows: rows == 250)
    assert sum(world.ends("live")) == 0
    shown = world.call("status")
    assert "holds back" in shown.output.replace("\n", " "), shown.output
    read(connector, 0, 120)  # the connector was started again: its snapshot begins again, and rows have changed
    read(connector, 120, N_ROWS)
    wait_until(lambda: "the snapshot is over" in world.logs(), 60, world.logs)
    worker.kill()
    world.start()
    wait_until(lambda: len(ends(world)) == SHARDS, 90, world.logs)
    assert sorted(set(ends(world))) == [ELSEWHERE, LAST]
    assert [meta.release for meta in world.metas()] == [0] * SHARDS
    assert sum(world.ends("live")) == N_ROWS
    change(connector, 150)
    assert_all_is_applied(world, connector)
    assert all(meta.counts.dead_letters == 0 for meta in world.metas())
    world.must("status")


def test_a_change_in_one_shard_ends_a_snapshot_whose_last_row_was_seen_by_no_one_in_all(
    world: WorkedTable, connector: Source
) -> None:
    world.start()
    read(connector, 0, N_ROWS - 1)
    until_held(world, lambda rows: rows == N_ROWS - 1)
    connector.change("u", next(key for key in connector.rows if shard_of(connector.message_key(key), SHARDS) == 2))
    connector.write()
    wait_until(lambda: len(ends(world)) == SHARDS, 60, world.logs)
    assert sorted(ends(world)) == [CHANGE, *[ELSEWHERE] * (SHARDS - 1)]
    assert_all_is_applied(world, connector)


@pytest.mark.gate("end-snapshot")
def test_an_operator_ends_a_snapshot_that_nothing_else_ends(world: WorkedTable, connector: Source) -> None:
    assert "no shard holds back rows" in world.refused("end-snapshot")
    world.start()
    read(connector, 0, 120)
    until_held(world, lambda rows: rows == 120)
    world.refused("end-snapshot", "--shard", SHARDS)
    assert world.report("end-snapshot", "--shard", 1)["shards"] == [1]
    wait_until(lambda: ends(world) == [OPERATOR], 60, world.logs)
    world.must("end-snapshot")
    wait_until(lambda: ends(world) == [OPERATOR] * SHARDS, 60, world.logs)
    read(connector, 120, 150)
    assert_all_is_applied(world, connector)
