"""Workers as processes on a real Kafka and Redis: what they publish is what a quiet replay of the same events gives."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from agents.shard_thread import EXIT_LOST
from worlds.kafka_and_redis import expire, transactional
from worlds.patients import write_table
from worlds.workers import PATIENCE, SHARDS, WorkedTable, Worker, inserts, wait_until


@pytest.mark.gate("worker")
@pytest.mark.slow
@pytest.mark.parametrize("command", ["streamer", "faust"])
def test_a_worker_publishes_everything_ends_on_sigterm_and_goes_on(world: WorkedTable, command: str) -> None:
    world.write(1000)
    first = world.start(command)
    world.wait_until_published()
    wait_until(lambda: world.lag() == 0, 15, world.logs)
    code, seconds = first.terminate()
    assert (code, seconds < 4 * PATIENCE) == (0, True), world.logs()
    world.write(1000)
    world.start(command)
    world.wait_until_published()
    world.assert_published_as_expected()


@pytest.mark.gate("a killed worker")
@pytest.mark.slow
def test_two_workers_share_the_shards_and_one_goes_on_alone_after_the_other_was_killed(world: WorkedTable) -> None:
    first = world.start()
    wait_until(lambda: len(first.taken_over()) == SHARDS, 20, world.logs)
    second = world.start()
    wait_until(lambda: len(second.taken_over()) == SHARDS // 2, 20, world.logs)
    world.write(1500)
    wait_until(lambda: min(world.reached()) > 0, 20, world.logs)
    first.kill()
    world.write(500)
    world.wait_until_published()
    assert set(second.taken_over()) == set(range(SHARDS))
    world.assert_published_as_expected()


@pytest.mark.gate("a frozen worker")
@pytest.mark.slow
def test_a_worker_that_slept_past_its_session_publishes_nothing_any_more(world: WorkedTable) -> None:
    sleeper = world.start()
    wait_until(lambda: len(sleeper.taken_over()) == SHARDS, 20, world.logs)
    world.write(500)
    wait_until(lambda: min(world.reached()) > 0, 20, world.logs)
    sleeper.process.send_signal(signal.SIGSTOP)
    world.serve(500)
    sleeper.process.send_signal(signal.SIGCONT)
    world.write(500)
    world.wait_until_published()
    world.assert_published_as_expected()


@pytest.mark.gate("lost keys of Redis")
@pytest.mark.slow
def test_shards_whose_redis_keys_are_gone_are_refused_until_a_former_copy_is_restored(world: WorkedTable) -> None:
    """Their secrets went with the keys: the input alone gives another table than the published one."""
    dropper = world.serve(400)
    copy = world.copy_redis()
    world.write(600)
    world.wait_until_published()
    world.lose_redis()
    world.write(400)
    assert dropper.ended() == EXIT_LOST, world.logs()
    assert world.start().ended() == 2, world.logs()
    assert "Redis had lost everything, and with it the secret" in world.logs()
    copy.restore()
    world.start()
    world.wait_until_published()
    world.assert_published_as_expected()


def letters_of(world: WorkedTable) -> list[tuple[str, int]]:
    """Reason and offset of shard 0's dead letters."""
    return [(letter["reason"], letter["offset"]) for letter in world.letters(0)]


@pytest.mark.gate("a message that ends its worker")
def test_a_message_that_ends_its_worker_is_skipped_once_an_operator_says_so(world: WorkedTable) -> None:
    world.send(inserts(["a", "b", "c", "killer", "d"]))
    for _ in range(2):
        assert world.start("fragile").ended() == 9
    assert world.report("skip", "--shard", "0", "--offset", "3")["offset"] == 3
    worker = world.start("fragile")
    wait_until(lambda: world.reached()[0] == 5, 40, world.logs)
    assert (letters_of(world), len(world.rows(0))) == ([("skipped", 3)], 4)
    assert "an operator skips these offsets: [3]" in world.logs()
    worker.terminate()
    meta = world.meta()
    assert (meta.skipped, meta.counts.dead_letters) == ((3,), 1)


def test_a_worker_with_a_changed_table_leaves_the_healthy_one_alone(world: WorkedTable, tmp_path: Path) -> None:
    """Before: it shut the healthy worker out first, and ended then: no one served the shards."""
    healthy = world.start()
    wait_until(lambda: len(healthy.taken_over()) == SHARDS, 30, world.logs)
    world.send([r for shard in range(SHARDS) for r in inserts("abc", shard)])
    wait_until(lambda: world.reached() == [3] * SHARDS, 30, world.logs)
    changed = write_table(tmp_path / "other", world.name)
    changed.write_text(changed.read_text().replace("k: 3", "k: 4"))
    assert "k: 4" in changed.read_text()
    intruder = Worker(tmp_path / "intruder.log", {**world.environment, "STREAMER_TABLE": str(changed)})
    world.workers.append(intruder)
    assert intruder.ended() == 2
    assert re.search(r"table\.yaml has changed", intruder.log.read_text())
    world.send([r for shard in range(SHARDS) for r in inserts("def", shard)])
    wait_until(lambda: world.reached() == [6] * SHARDS, 40, world.logs)
    assert healthy.process.poll() is None
    assert "Fenced" not in healthy.log.read_text()


def test_an_input_that_expired_up_to_its_end_is_gone_on_with_after_a_restart(world: WorkedTable) -> None:
    """The last offset held the marker of a transaction: nothing that could have been read has expired."""
    producer = transactional(world.bootstrap, f"{world.name}-source")
    producer.begin_transaction()
    for shard, source_key, value in inserts("abcde"):
        producer.produce(world.input, value, source_key, partition=shard)
    producer.commit_transaction(20)
    first = world.start()
    wait_until(lambda: world.reached()[0] == 6, 40, world.logs)
    first.terminate()
    expire(world.bootstrap, world.input, {0: 6})
    second = world.start()
    world.send(inserts("f"))
    wait_until(lambda: world.reached()[0] == 7, 40, world.logs)
    assert second.process.poll() is None
    assert len(world.rows(0)) == 6


def test_a_redis_that_forgets_is_refused(world: WorkedTable) -> None:
    world.redis.config_set("appendfsync", "everysec")
    try:
        assert "appendfsync" in world.refusal()
    finally:
        world.redis.config_set("appendfsync", "always")


def test_an_input_that_expired_before_it_was_read_is_refused(world: WorkedTable) -> None:
    world.write(200)
    expire(world.bootstrap, world.input, dict.fromkeys(range(SHARDS), 5))
    assert re.search(r"needed from offset 0 on, but begins at 5.*expired", world.refusal())


@pytest.mark.gate("lost topics")
def test_topics_that_are_missing_are_named(world: WorkedTable) -> None:
    world.edit_yaml(f"table: {world.name}", "table: never-made")
    said = world.refusal()
    assert "never-made.changes" in said
    assert "streamer topics create" in said


def test_a_redis_that_is_not_there_ends_the_worker_with_the_servers_code(world: WorkedTable) -> None:
    world.environment["REDIS_URL"] = "redis://127.0.0.1:1/0"
    assert world.start().ended() == 3
    assert "Redis 127.0.0.1:1" in world.logs()
