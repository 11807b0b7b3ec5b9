"""Topics that are deleted and made again, or grown, on a real Kafka, beside workers that run: no reader sees a QI group
below k, nothing of one topic is taken for another's, and what the refusals advise works.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from streamer.errors import StreamerError
from streamer.incremental import remedies
from streamer.incremental.topics import CHANGES, DEAD_LETTERS, LIVE, POSITIONS
from streamer.reader import Subscription
from streamer.table.yaml.loading import load_table
from worlds.kafka_and_redis import grow
from worlds.patients import Changes, expected
from worlds.workers import SHARDS, WorkedTable, wait_until

K = 3


@contextmanager
def a_reader(world: WorkedTable) -> Iterator[list[int]]:
    """Follows the published table; gives the size of the smallest QI group of every table that it saw."""
    sizes: list[int] = []
    done = threading.Event()

    def follow() -> None:
        while not done.is_set():
            with suppress(StreamerError), Subscription(load_table(world.table), world.bootstrap) as people:
                while not done.is_set():
                    people.poll(0.05)
                    found = people.frame()
                    if len(found):
                        sizes.append(int(found.groupby("qi_group").size().min()))

    reader = threading.Thread(target=follow)
    reader.start()
    yield sizes
    done.set()
    reader.join(20)


def assert_output_as_expected(world: WorkedTable) -> None:
    world.wait_until_published()
    world.assert_published_as_expected()


@pytest.mark.slow
def test_an_output_recreated_between_two_workers_holds_the_whole_table_and_no_group_below_k(world: WorkedTable) -> None:
    world.serve(600)
    world.stop()
    world.write(300)
    world.recreate_topics(LIVE)
    with a_reader(world) as sizes:
        world.start()
        assert_output_as_expected(world)
        wait_until(lambda: bool(sizes), 60, world.logs)
    assert min(sizes) >= K


@pytest.mark.gate("a recreated output")
@pytest.mark.slow
@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.night)])
def test_an_output_recreated_under_a_busy_worker_gets_the_whole_table_before_anything_else(
    world: WorkedTable, times: int
) -> None:
    worker = world.serve(600)
    with a_reader(world) as sizes:
        for _ in range(times):
            world.write(400)
            world.delete_topics(LIVE)
            world.write(200)
            world.make_topics_again(LIVE)
            for _ in range(5):
                world.write(100)
            assert_output_as_expected(world)
            before = len(sizes)
            wait_until(lambda before=before: len(sizes) > before, 60, world.logs)  # type: ignore[misc]
    assert min(sizes) >= K, world.logs()
    assert worker.process.poll() is None, world.logs()


@pytest.mark.slow
def test_a_reader_that_began_before_the_output_was_recreated_shows_whole_tables_and_then_has_to_begin_again(
    world: WorkedTable,
) -> None:
    world.serve(600)
    with Subscription(load_table(world.table), world.bootstrap) as people:
        people.catch_up()
        before = people.frame()
        world.recreate_topics(LIVE)
        world.write(3000)
        with pytest.raises(StreamerError, match=r"live was deleted and recreated.*start again"):
            for _ in range(200):
                people.poll(0.1)
                assert people.frame().equals(before)
    assert_output_as_expected(world)


@pytest.mark.slow
def test_an_output_recreated_while_nothing_happens_is_filled_within_seconds(world: WorkedTable) -> None:
    world.serve(600)
    world.recreate_topics(LIVE)
    wait_until(lambda: all(world.ends(LIVE)), 60, world.logs)
    assert_output_as_expected(world)


@pytest.mark.gate("a recreated input")
@pytest.mark.slow
def test_an_input_recreated_under_a_busy_worker_is_not_read_as_the_old_one(world: WorkedTable) -> None:
    worker = world.serve(2000)
    before, published = world.metas(), world.ends(LIVE)
    world.recreate_topics(CHANGES)
    world.write(4000)
    assert worker.ended() == 2, world.logs()
    assert "the input topic was recreated" in world.logs()
    assert remedies.reload(world.name) in world.logs()
    assert world.metas() == before, "not one message of the new topic was applied to the old table"
    assert world.ends(LIVE) == published


@pytest.mark.slow
def test_reading_the_input_again_as_the_refusal_says_works_and_readers_go_on(world: WorkedTable) -> None:
    world.serve(600)
    with a_reader(world) as sizes:
        wait_until(lambda: bool(sizes), 60, world.logs)
        world.recreate_topics(CHANGES)
        world.changes = Changes(SHARDS, seed=2)
        world.write(900)  # the source sends again
        assert world.workers[0].ended() == 2, world.logs()
        assert remedies.reload(world.name) in world.logs()
        world.must("reload", "--from-source", "topic")
        world.serve(300)
    assert min(sizes) >= K
    for shard, (meta, messages) in enumerate(zip(world.metas(), world.changes.messages, strict=True)):
        rows, n_letters = expected(world.table, shard, messages, SHARDS, meta.secret)
        assert len(world.rows(shard)) == len(rows)
        assert (meta.counts.messages, meta.counts.dead_letters) == (len(messages), n_letters)


@pytest.mark.slow
def test_lost_positions_have_the_whole_table_published_and_readers_go_on(world: WorkedTable) -> None:
    """Nothing else says what of the stored table is published."""
    world.serve(600)
    with a_reader(world) as sizes:
        wait_until(lambda: bool(sizes), 60, world.logs)
        world.stop()
        world.recreate_topics(POSITIONS)
        world.start()
        wait_until(lambda: world.logs().count("the whole table was published into it") == SHARDS, 60, world.logs)
        world.write(300)
        assert_output_as_expected(world)
        before = len(sizes)
        wait_until(lambda: len(sizes) > before, 60, world.logs)
    assert min(sizes) >= K


@pytest.mark.slow
def test_publishing_again_as_the_refusal_says_works(world: WorkedTable) -> None:
    """The store has lost commits, and the output that had them was recreated."""
    world.serve(600)
    former = world.copy_redis()
    world.write(200)
    world.wait_until_published()
    world.stop()
    former.restore()
    world.recreate_topics(LIVE)
    assert remedies.publish_again(world.name) in world.refusal()
    world.delete_topics(LIVE, POSITIONS)
    world.must("topics create")
    world.write(300)
    with a_reader(world) as sizes:
        world.start()
        world.wait_until_published()
        wait_until(lambda: bool(sizes), 60, world.logs)
    assert min(sizes) >= K
    for shard, messages in enumerate(world.changes.messages):
        rows, _ = expected(world.table, shard, messages, SHARDS, world.meta(shard).secret)
        assert world.rows(shard) == rows


@pytest.mark.slow
def test_redis_and_positions_cleared_without_the_output_is_refused(world: WorkedTable) -> None:
    world.serve(600)
    world.stop()
    world.recreate_topics(POSITIONS)
    world.lose_redis()
    assert world.start().ended() == 2
    assert "the output holds rows, but neither Redis nor the positions know of any" in world.logs()
    assert remedies.reload(world.name) in world.logs()


@pytest.mark.slow
@pytest.mark.parametrize("busy", [False, True])
def test_an_input_that_grows_stops_the_worker_before_anybody_is_misplaced(world: WorkedTable, busy: bool) -> None:
    worker = world.serve(1000)
    letters = world.ends(DEAD_LETTERS)
    grow(world.bootstrap, world.input, 6)
    before = world.metas()
    if busy:
        world.write(1000)
    assert worker.ended() == 2, world.logs()
    assert f"{world.name}.changes 6, {world.name}.live 4" in world.logs()
    assert remedies.keep_new_partitions(world.name) in world.logs()
    assert world.metas() == before
    assert world.ends(DEAD_LETTERS) == letters


@pytest.mark.slow
def test_dead_letters_recreated_are_a_new_beginning(world: WorkedTable) -> None:
    worker = world.serve(300)
    world.recreate_topics(DEAD_LETTERS)
    world.write(300)
    world.wait_until_published()
    assert worker.process.poll() is None
