"""A source that truncates its table, with several shards, on a real Kafka and Redis: said, and mended by command."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from worlds.debezium import NAME, Source
from worlds.workers import WorkedTable, wait_until


@pytest.fixture
def source(world: WorkedTable) -> Iterator[Source]:
    yield Source(world)
    assert NAME not in world.logs()


def come(source: Source, first: int, end: int) -> None:
    """Rows come, and all are applied."""
    for number in range(first, end):
        source.change("c", f"p{number}")
    source.write()
    source.world.wait_until_published(60, source.n_written)


def problems(world: WorkedTable) -> list[str]:
    return [one for one in world.status()["problems"] if "the source has truncated the table" in one]


@pytest.mark.gate("a truncated source")
def test_a_captured_truncation_is_red_until_the_command_has_emptied_all_shards_and_its_letter_was_retried(
    world: WorkedTable, source: Source
) -> None:
    world.start()
    come(source, 0, 120)
    assert problems(world) == []
    offset = source.n_written[2]
    source.truncate(shard=2)
    come(source, 100, 160)  # some keys are those of before
    (problem,) = problems(world)
    assert problem.startswith(f"shard 2: the source has truncated the table (offset {offset})")
    (letter,) = world.letters(2)
    assert (letter["kind"], letter["reason"]) == ("refused", "truncate-one-shard")

    world.must("produce", "--truncate")
    source.n_written = [end + 2 for end in source.n_written]  # a transaction has its marker, too
    for key in list(source.rows):
        source.change("r", key)  # as an incremental snapshot reads them
    come(source, 160, 180)
    world.verify(source.rows.values())
    world.must("dead-letters retry", "--reason", "truncate-one-shard")
    wait_until(lambda: problems(world) == [], 60, world.logs)
