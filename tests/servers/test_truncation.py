"""A source that truncates its table, on two workers, a real Kafka and Redis: every shard loses what came before.

The same beside dead letters that are tried again: no one comes back who is gone, and no one is missing. The partitions
are written apart, as far from the source's order as a slow partition leader could have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from streamer.incremental.store.base import Meta
from worlds.debezium import NAME, Source
from worlds.workers import SHARDS, WorkedTable, wait_until


@pytest.fixture
def source(world: WorkedTable) -> Iterator[Source]:
    yield Source(world)
    assert NAME not in world.logs()


def come(source: Source, first: int, end: int) -> None:
    """Rows come, some of them twice, and some go."""
    for number in range(first, end):
        source.change("c", f"p{number}")
        if number % 5 == 0:
            source.change("u", f"p{number}")
        if number % 7 == 0:
            source.change("d", f"p{number}")


def until_applied(source: Source) -> None:
    source.world.wait_until_published(60, source.n_written)


def until_truncated(world: WorkedTable, place: int) -> None:
    """Until all shards know of a truncation there, or of a later one."""

    def known(meta: Meta) -> bool:
        return meta.truncated is not None and meta.truncated.place >= (place,)

    wait_until(lambda: all(map(known, world.metas())), 60, world.logs)


def skip_some(source: Source, begins: list[int]) -> None:
    """Has three messages of each shard skipped, of those that are written from these offsets on."""
    for shard, (begin, end) in enumerate(zip(begins, source.n_written, strict=True)):
        for offset in range(begin, end, max(1, (end - begin) // 3))[:3]:
            source.world.must("skip", "--shard", shard, "--offset", offset)


def letters_of(world: WorkedTable) -> list[Counter[tuple[int, str]]]:
    """By shard, how many letters of each kind there are about each offset."""
    return [Counter((one["offset"], one["kind"]) for one in world.letters(shard)) for shard in range(SHARDS)]


def until_answered(world: WorkedTable) -> None:
    """Until it is said of every refused message what became of it."""

    def offsets(of: Counter[tuple[int, str]], refused: bool) -> set[int]:
        return {offset for offset, kind in of if (kind == "refused") is refused}

    wait_until(lambda: all(offsets(of, True) == offsets(of, False) for of in letters_of(world)), 60, world.logs)


@pytest.mark.gate("a truncated source")
def test_rows_that_came_before_go_in_every_shard_and_rows_that_came_after_stay(
    world: WorkedTable, source: Source
) -> None:
    workers = [world.start(), world.start()]
    come(source, 0, 120)
    source.write()
    until_applied(source)
    assert sum(world.ends("live")) > 60
    former = world.copy_redis()

    # late: later rows are applied in three shards before the fourth, which has the truncation, is written
    source.truncate(shard=2)
    come(source, 100, 180)  # some keys are those of before
    source.write(2)
    until_applied(source)
    workers[0].kill()
    source.write()
    workers[0] = world.start()
    until_truncated(world, 1)
    until_applied(source)
    world.verify(source.rows.values())

    # early: rows of before come to a shard that has heard of the truncation already
    come(source, 180, 230)
    source.write(3)
    source.truncate(shard=0)
    second = source.lsn
    source.write(3)
    until_truncated(world, second)
    workers[1].kill()
    come(source, 220, 260)
    source.write()
    workers[1] = world.start()
    until_applied(source)
    world.verify(source.rows.values())
    metas = world.metas()
    assert [meta.counts.dead_letters for meta in metas] == [0] * SHARDS
    assert [meta.truncations for meta in metas] == [1, 2, 1, 2]

    # a store that falls back comes to the same, and so does a table that is reloaded from its input
    published = world.ends("live")
    for worker in workers:
        worker.terminate()
    former.restore()
    world.start()
    reached = [(meta.next, meta.commit) for meta in metas]
    wait_until(lambda: [(meta.next, meta.commit) for meta in world.metas()] == reached, 60, world.logs)
    assert world.ends("live") == published, "what is published is not published again"
    world.verify(source.rows.values())
    world.workers[-1].terminate()
    world.must("reload", "--from-source", "topic")
    world.verify(source.rows.values())


def test_letters_tried_again_beside_a_truncation_and_killed_workers_come_to_what_the_source_holds(
    world: WorkedTable, source: Source
) -> None:
    come(source, 0, 80)
    source.write()
    skip_some(source, [0] * SHARDS)
    world.start()
    until_applied(source)
    former = world.copy_redis()

    # the worker dies between what is tried again and the truncation, in whatever order each shard hears of them
    source.truncate(shard=2)
    come(source, 60, 120)
    source.write(2)
    world.must("dead-letters retry")
    source.write()
    wait_until(lambda: any(meta.truncated for meta in world.metas()), 60, world.logs)
    world.workers[-1].kill()
    world.start()
    until_truncated(world, 1)
    until_applied(source)
    until_answered(world)
    world.verify(source.rows.values())

    # letters of after it, some of them about rows that come once more
    world.workers[-1].terminate()
    begins = source.n_written.copy()
    come(source, 120, 180)
    source.write()
    skip_some(source, begins)
    world.start()
    come(source, 150, 200)
    source.write()
    until_applied(source)
    world.must("dead-letters retry")
    world.workers[-1].kill()
    world.start()
    until_answered(world)
    world.verify(source.rows.values())
    letters = letters_of(world)
    assert all(number == 1 for of in letters for number in of.values()), "nothing is applied, or answered, twice"
    kinds = Counter(kind for of in letters for _, kind in of)
    assert kinds["refused"] == 6 * SHARDS == kinds["retried"] + kinds["superseded"]
    assert min(kinds["retried"], kinds["superseded"]) >= SHARDS
    applied = [sorted(offset for offset, kind in of if kind == "retried") for of in letters]
    assert [sorted(offset for _, offset in meta.retried) for meta in world.metas()] == applied

    # a store that falls back repeats both; it has forgotten its answers, and gives them again, applying nothing
    def come_to() -> list[object]:
        return [(meta.next, meta.truncations, meta.retried, meta.digest) for meta in world.metas()]

    published, before = world.ends("live"), come_to()
    world.workers[-1].terminate()
    former.restore()
    world.start()
    wait_until(lambda: come_to() == before, 60, world.logs)
    assert world.ends("live") == published, "what is published is not published again"
    world.verify(source.rows.values())


def test_a_truncation_that_names_no_place_stops_its_shard_with_a_sentence(world: WorkedTable, source: Source) -> None:
    worker = world.start()
    come(source, 0, 40)
    source.write()
    until_applied(source)
    reached = source.n_written.copy()
    world.send([(1, None, b'{"op": "t", "source": {"connector": "oracle"}}')])
    wait_until(lambda: f"shard 1 of {world.name} is refused" in world.logs(), 60, world.logs)
    come(source, 40, 80)
    source.write()
    world.wait_until_published(60, [reached[1] if shard == 1 else end for shard, end in enumerate(source.n_written)])
    (said,) = (line for line in world.logs().splitlines() if "is refused" in line)
    (problem,) = (one for one in world.status()["problems"] if "shard 1: refused by" in one)
    for sentence in (said, problem):
        assert f"was truncated (offset {reached[1]})" in sentence
        assert "does not say where in the source's order" in sentence
        assert "pause the connector, run `streamer produce --truncate`" in sentence
    assert worker.terminate()[0] == 0
