"""Topics that are deleted and made again, or grown, on a real Kafka, beside workers that run: no reader sees a QI group
below k, nothing of one topic is taken for another's, and what the refusals advise works.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic, sleep

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions

from streamer.cli.main import main
from streamer.cli.main import main as agents_main
from streamer.errors import StreamerError
from streamer.incremental import remedies
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import CHANGES, DEAD_LETTERS, LIVE, POSITIONS, REQUIRED_CONFIGS
from streamer.reader import Subscription
from streamer.table.yaml.loading import load_table
from worlds.kafka_and_redis import make_topics, read
from worlds.patients import expected, folded
from worlds.workers import SHARDS, WorkedTable, wait_until

K = 3


def delete(world: WorkedTable, *kinds: str) -> None:
    names = [f"{world.name}.{kind}" for kind in kinds]
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    for answer in admin.delete_topics(names).values():
        answer.result(20)


def make(world: WorkedTable, *kinds: str, partitions: int = SHARDS) -> None:
    until = monotonic() + 10
    while True:
        try:
            make_topics(
                world.bootstrap, world.name, but=dict.fromkeys(REQUIRED_CONFIGS, 0) | dict.fromkeys(kinds, partitions)
            )
        except KafkaException:  # the old one is still being deleted
            if monotonic() > until:
                raise
            sleep(0.02)
        else:
            return


def make_anew(world: WorkedTable, *kinds: str) -> None:
    delete(world, *kinds)
    make(world, *kinds)


def stop(world: WorkedTable) -> None:
    for worker in world.workers:
        if worker.process.poll() is None:
            assert worker.terminate()[0] == 0


def metas(world: WorkedTable) -> list[Meta | None]:
    client = connect(world.environment["REDIS_URL"])
    return [RedisStore(client, world.name, shard).meta() for shard in range(SHARDS)]


def topics_create(world: WorkedTable) -> None:
    made = CliRunner().invoke(main, ["topics", "create", "--table", str(world.table), "--kafka", world.bootstrap])
    assert made.exit_code == 0, made.output


def delete_keys(world: WorkedTable) -> None:
    client = connect(world.environment["REDIS_URL"])
    client.delete(*client.scan_iter(f"{{{world.name}:*}}:*"))


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
def test_an_output_made_anew_between_two_workers_holds_the_whole_table_and_no_group_below_k(world: WorkedTable) -> None:
    world.write(600)
    world.start()
    world.wait_until_published()
    stop(world)
    world.write(300)
    make_anew(world, LIVE)
    with a_reader(world) as sizes:
        world.start()
        assert_output_as_expected(world)
        wait_until(lambda: bool(sizes), 60, world.logs)
    assert min(sizes) >= K


@pytest.mark.gate("a recreated output")
@pytest.mark.slow
def test_an_output_made_anew_under_a_busy_worker_gets_the_whole_table_before_anything_else(world: WorkedTable) -> None:
    worker = world.start()
    world.write(600)
    world.wait_until_published()
    with a_reader(world) as sizes:
        for _ in range(3):
            world.write(400)
            delete(world, LIVE)
            world.write(200)
            make(world, LIVE)
            for _ in range(5):
                world.write(100)
            assert_output_as_expected(world)
            seen = len(sizes)
            wait_until(partial(_has_looked, sizes, seen), 60, world.logs)
    assert min(sizes) >= K, world.logs()
    assert worker.process.poll() is None, world.logs()


def _has_looked(sizes: list[int], before: int) -> bool:
    return len(sizes) > before


@pytest.mark.slow
def test_a_reader_that_began_before_the_output_was_made_anew_shows_whole_tables_and_then_has_to_begin_again(
    world: WorkedTable,
) -> None:
    world.start()
    world.write(600)
    world.wait_until_published()
    with Subscription(load_table(world.table), world.bootstrap) as people:
        people.catch_up()
        before = people.frame()
        make_anew(world, LIVE)
        world.write(3000)
        with pytest.raises(StreamerError, match=r"live was deleted and made anew.*start again"):
            for _ in range(200):
                people.poll(0.1)
                assert people.frame().equals(before)
    assert_output_as_expected(world)


@pytest.mark.slow
def test_an_output_made_anew_while_nothing_happens_is_filled_within_seconds(world: WorkedTable) -> None:
    world.start()
    world.write(600)
    world.wait_until_published()
    make_anew(world, LIVE)
    wait_until(lambda: all(read(world.bootstrap, world.name, LIVE, shard) for shard in range(SHARDS)), 60, world.logs)
    assert_output_as_expected(world)


@pytest.mark.gate("a recreated input")
@pytest.mark.slow
def test_an_input_made_anew_under_a_busy_worker_is_not_read_as_the_old_one(world: WorkedTable) -> None:
    worker = world.start()
    world.write(2000)
    world.wait_until_published()
    before, published = metas(world), [len(read(world.bootstrap, world.name, LIVE, shard)) for shard in range(SHARDS)]
    make_anew(world, CHANGES)
    world.write(4000)
    assert worker.ended() == 2, world.logs()
    assert "the input topic was made anew" in world.logs()
    assert remedies.begin_anew(world.name) in world.logs()
    assert metas(world) == before, "not one message of the new topic was applied to the old table"
    assert [len(read(world.bootstrap, world.name, LIVE, shard)) for shard in range(SHARDS)] == published


@pytest.mark.slow
def test_reading_the_input_again_as_the_refusal_says_works_and_readers_go_on(world: WorkedTable) -> None:
    world.start()
    world.write(600)
    world.wait_until_published()
    with a_reader(world) as sizes:
        wait_until(lambda: bool(sizes), 60, world.logs)
        make_anew(world, CHANGES)
        world.changes.messages = [[] for _ in range(SHARDS)]
        world.changes._alive = [[] for _ in range(SHARDS)]
        world.write(900)  # the source sends again
        assert world.workers[0].ended() == 2, world.logs()
        assert remedies.begin_anew(world.name) in world.logs()
        servers = ["--kafka", world.bootstrap, "--redis", world.environment["REDIS_URL"]]
        command = ["reload", "--from-source", "topic", "--table", str(world.table), *servers]
        begun = CliRunner().invoke(agents_main, command)
        assert begun.exit_code == 0, begun.output
        world.write(300)
        world.start()
        world.wait_until_published()
    assert min(sizes) >= K
    for shard, (meta, messages) in enumerate(zip(metas(world), world.changes.messages, strict=True)):
        assert meta is not None
        rows, n_letters = expected(world.table, shard, messages, SHARDS, meta.secret)
        records = read(world.bootstrap, world.name, LIVE, shard)
        assert len(folded([(record.key(), record.value()) for record in records])) == len(rows)
        assert (meta.counts.messages, meta.counts.dead_letters) == (len(messages), n_letters)


@pytest.mark.slow
def test_lost_positions_are_refused_and_publishing_again_as_the_refusal_says_works(world: WorkedTable) -> None:
    world.start()
    world.write(600)
    world.wait_until_published()
    stop(world)
    make_anew(world, POSITIONS)
    assert world.start().ended() == 2
    assert remedies.publish_again(world.name) in world.logs()
    delete(world, LIVE, POSITIONS)
    topics_create(world)
    world.write(300)
    with a_reader(world) as sizes:
        world.start()
        assert_output_as_expected(world)
        wait_until(lambda: bool(sizes), 60, world.logs)
    assert min(sizes) >= K


@pytest.mark.slow
def test_redis_and_positions_cleared_without_the_output_is_refused(world: WorkedTable) -> None:
    world.start()
    world.write(600)
    world.wait_until_published()
    stop(world)
    make_anew(world, POSITIONS)
    delete_keys(world)
    assert world.start().ended() == 2
    assert "the output holds rows, but neither Redis nor the positions know of any" in world.logs()
    assert remedies.begin_anew(world.name) in world.logs()


@pytest.mark.slow
@pytest.mark.parametrize("busy", [False, True])
def test_an_input_that_grows_stops_the_worker_before_anybody_is_misplaced(world: WorkedTable, busy: bool) -> None:
    worker = world.start()
    world.write(1000)
    world.wait_until_published()
    letters = [len(read(world.bootstrap, world.name, DEAD_LETTERS, shard)) for shard in range(SHARDS)]
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    admin.create_partitions([NewPartitions(f"{world.name}.changes", 6)])[f"{world.name}.changes"].result(20)
    before = metas(world)
    if busy:
        world.write(1000)
    assert worker.ended() == 2, world.logs()
    assert f"{world.name}.changes 6, {world.name}.live 4" in world.logs()
    assert remedies.after_growth(world.name) in world.logs()
    assert metas(world) == before
    assert [len(read(world.bootstrap, world.name, DEAD_LETTERS, shard)) for shard in range(SHARDS)] == letters


@pytest.mark.slow
def test_dead_letters_made_anew_are_a_new_beginning(world: WorkedTable) -> None:
    worker = world.start()
    world.write(300)
    world.wait_until_published()
    make_anew(world, DEAD_LETTERS)
    world.write(300)
    world.wait_until_published()
    assert worker.process.poll() is None
