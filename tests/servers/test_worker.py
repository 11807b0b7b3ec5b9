"""Workers as processes on a real Kafka and Redis: what they publish is what a quiet replay of the same events gives."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from agents.shard_thread import EXIT_LOST
from servers.broker.servers import Servers
from streamer.incremental.shard.requests import secrets_in
from streamer.incremental.topics import CONTROL, LIVE
from worlds.kafka_and_redis import expire, transactional
from worlds.patients import write_table
from worlds.workers import PATIENCE, SHARDS, WorkedTable, Worker, inserts, wait_until


@pytest.mark.gate("worker")
@pytest.mark.slow
@pytest.mark.parametrize("command", [pytest.param("streamer", marks=pytest.mark.night), "faust"])
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


@pytest.mark.gate("a worker that joins and leaves")
@pytest.mark.slow
def test_whoever_joins_or_leaves_has_nobody_load_what_stays(world: WorkedTable) -> None:
    """Before: every worker gave back all its shards and loaded all that it got, whoever joined."""
    first = world.start()
    world.write(400)
    world.wait_until_published()
    second = world.start()
    wait_until(lambda: len(second.taken_over()) == SHARDS // 2, 20, world.logs)
    world.write(400)
    world.wait_until_published()
    moved = set(second.taken_over())
    assert set(first.ours_again()) == set(range(SHARDS)) - moved
    assert second.terminate()[0] == 0
    world.write(400)
    world.wait_until_published()
    assert sorted(first.taken_over()) == sorted([*range(SHARDS), *moved])  # once, and again what came back
    world.assert_published_as_expected()


@pytest.mark.gate("a rolling restart")
@pytest.mark.slow
def test_a_worker_with_a_name_of_its_own_keeps_its_shards_over_a_restart(world: WorkedTable) -> None:
    named = [world.start(more=["--instance", name]) for name in ("a", "b")]
    wait_until(lambda: all(len(set(worker.taken_over())) >= SHARDS // 2 for worker in named), 30, world.logs)
    world.write(400)
    world.wait_until_published()
    before = [worker.log.read_text().count("ours again") + len(worker.taken_over()) for worker in named]
    given, kept = sorted((set(worker.taken_over()) for worker in named), key=len)  # whoever came first had all of them
    first_had_all = len(kept) == SHARDS and kept == set(named[0].taken_over())
    served = kept - given if first_had_all else set(named[0].taken_over())
    named[0].terminate()
    again = world.start(more=["--instance", "a"])
    wait_until(lambda: len(again.taken_over()) == SHARDS // 2, 30, world.logs)
    world.write(400)
    world.wait_until_published()
    assert named[1].log.read_text().count("ours again") + len(named[1].taken_over()) == before[1]
    assert set(again.taken_over()) == served
    shown = world.call("status", "--json")
    holders = {one["shard"]: one["worker"] for one in json.loads(shown.stdout)["shards"]}
    assert {shard for shard, worker in holders.items() if worker == "a"} == served, "before: a dead process was named"
    assert set(holders.values()) == {"a", "b"}
    world.assert_published_as_expected()


@pytest.mark.slow
def test_a_worker_that_gets_no_more_memory_says_so_and_ends(world: WorkedTable) -> None:
    """Before: its shard was refused and tried again, with the same table, in the same process."""
    worker = world.start("fragile")
    world.send(inserts(["a", "b", "c", "hungry-canary"]))
    assert worker.ended() == 2, world.logs()
    assert "the system gives no more memory or threads" in world.logs()
    assert ("Traceback" in world.logs(), "canary" in world.logs()) == (False, False)


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
def test_shards_whose_redis_keys_are_gone_are_read_again_by_themselves(world: WorkedTable) -> None:
    """Their secrets are in the control topic, encrypted by the operator's key, without which nobody is shut out."""
    world.environment["STREAMER_SECRET_KEY"] = Fernet.generate_key().decode()
    dropper = world.serve(1000)
    published = world.ends(LIVE)
    world.lose_redis()
    world.write(40)
    assert dropper.ended() == EXIT_LOST, world.logs()
    key = world.environment.pop("STREAMER_SECRET_KEY")
    assert "is encrypted, and STREAMER_SECRET_KEY is not set" in world.refusal()
    world.environment["STREAMER_SECRET_KEY"] = key
    world.start()
    world.wait_until_published()
    assert "the input is read again from 0 to" in world.logs()
    world.assert_published_as_expected()
    assert [first <= last for first, last in zip(published, world.ends(LIVE), strict=True)] == [True] * SHARDS
    records = [record for shard in range(SHARDS) for record in world.read(CONTROL, shard)]
    said = [secrets_in([record.value() or b""], shard)[0] for shard, record in enumerate(records)]
    assert [(one.plain, bool(one.encrypted)) for one in said] == [(b"", True)] * SHARDS


@pytest.mark.slow
def test_a_refused_shard_leaves_the_others_of_its_worker_served_and_goes_on_once_it_is_mended(
    world: WorkedTable,
) -> None:
    """Before: the worker ended, and with it the healthy shards."""
    first = world.serve(400)
    copy = world.copy_redis("0")
    world.write(200)
    world.wait_until_published()
    first.terminate()
    world.lose_redis("0")
    expire(world.bootstrap, world.input, {0: 10})
    worker = world.start()
    wait_until(lambda: "shard 0 of" in refused_in(worker), 40, world.logs)
    refused_at = world.reached()[0]
    world.write(400)
    wanted = [refused_at, *(len(messages) for messages in world.changes.messages[1:])]
    world.wait_until_published(to=wanted)
    assert any("shard 0: refused by" in problem for problem in world.status()["problems"])
    copy.restore()
    world.wait_until_published()
    assert worker.process.poll() is None
    world.assert_published_as_expected()
    wait_until(lambda: not any("refused by" in problem for problem in world.status()["problems"]), 20, world.logs)


def refused_in(worker: Worker) -> str:
    """The lines about refused shards."""
    return "\n".join(line for line in worker.log.read_text().splitlines() if "is refused" in line)


@pytest.mark.slow
def test_a_kafka_that_was_away_for_more_than_half_a_minute_ends_no_worker(world: WorkedTable, servers: Servers) -> None:
    """Whatever the clients say meanwhile, no shard is refused, then or later."""
    servers.require_own()
    worker = world.serve(400)
    servers.kill_kafka()
    time.sleep(45)
    servers.start_kafka()
    world.write(400)
    world.wait_until_published(60)
    assert worker.process.poll() is None, world.logs()
    world.assert_published_as_expected()
    assert refused_in(worker) == ""
    assert not any("refused by" in problem for problem in world.status()["problems"])


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


def test_topics_that_are_missing_are_named(world: WorkedTable) -> None:
    world.edit_yaml(f"table: {world.name}", "table: never-made")
    said = world.refusal()
    assert "never-made.changes" in said
    assert "streamer topics create" in said
