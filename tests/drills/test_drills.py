"""Crashes, freezes and outages under load: nothing is lost, nothing doubled, and no reader sees less than k."""

from __future__ import annotations

import pytest

from drills.drill import Drill
from streamer.worker.settings import SESSION_SECONDS

pytestmark = [pytest.mark.drill, pytest.mark.timeout(420)]


def test_ten_workers_killed(drill: Drill) -> None:
    """Each one at work: while Kafka gives the shards of the one before away, the workers have nothing to lose."""
    for _ in range(10):
        drill.until_all_publish()
        drill.go_on(0, 3)
        drill.kill_worker()
    drill.finish()


def test_a_worker_frozen_past_its_session(drill: Drill) -> None:
    drill.go_on(5)
    drill.freeze_worker(SESSION_SECONDS + 6)
    drill.go_on(15)
    drill.finish()


def test_kafka_killed(drill: Drill) -> None:
    drill.go_on(8)
    drill.kill_kafka()
    drill.go_on(4)
    drill.start_kafka()
    drill.go_on(25)
    drill.finish()


def test_redis_killed(drill: Drill) -> None:
    drill.go_on(8)
    drill.kill_redis()
    drill.go_on(5)
    drill.start_redis()
    drill.go_on(10)
    drill.finish()


def test_kafka_frozen_past_the_session(drill: Drill) -> None:
    drill.go_on(8)
    drill.freeze_kafka()
    drill.go_on(SESSION_SECONDS + 5)
    drill.thaw_kafka()
    drill.go_on(10)
    drill.finish()


def test_redis_frozen(drill: Drill) -> None:
    """Long enough for calls to be given up; when Redis wakes, it still carries out what no one waits for any more."""
    drill.go_on(8)
    drill.freeze_redis()
    drill.go_on(30)
    drill.thaw_redis()
    drill.go_on(10)
    drill.finish()


def test_redis_set_back(drill: Drill) -> None:
    """The workers read the input again from where Redis stands, and publish nothing of it twice."""
    drill.until_all_publish()
    drill.set_redis_back(12)
    drill.go_on(20)
    drill.finish()


def test_workers_ended_while_a_server_is_away(drill: Drill) -> None:
    """They end in time, and those that come after them find what they left unfinished."""
    outages = [
        (drill.freeze_kafka, drill.thaw_kafka),
        (drill.freeze_redis, drill.thaw_redis),
        (drill.kill_kafka, drill.start_kafka),
        (drill.kill_redis, drill.start_redis),
    ]
    for begin, end in outages:
        drill.until_all_publish()
        begin()
        drill.go_on(1, 3)
        drill.end_workers()
        end()
        drill.start_workers()
    drill.finish()


def test_everything_at_once(drill: Drill) -> None:
    drill.go_on(4, 8)
    drill.kill_worker()
    drill.go_on(0, 4)
    drill.kill_redis()
    drill.go_on(0, 2)
    drill.kill_worker()
    drill.go_on(0, 2)
    drill.start_redis()
    drill.go_on(4, 8)
    drill.kill_kafka()
    drill.go_on(0, 3)
    drill.kill_worker()
    drill.go_on(0, 3)
    drill.start_kafka()
    drill.freeze_worker(SESSION_SECONDS + 4)
    drill.go_on(4, 8)
    drill.set_redis_back(4, 8)
    drill.go_on(0, 6)
    drill.kill_worker()
    drill.go_on(0, 6)
    drill.kill_kafka()
    drill.kill_redis()
    drill.go_on(0, 2)
    drill.start_redis()
    drill.start_kafka()
    drill.kill_worker()
    drill.go_on(10)
    drill.finish()
