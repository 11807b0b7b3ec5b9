"""Crashes, freezes and outages under load: nothing is lost, nothing doubled, and no reader sees less than k."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest

from drills.drill import Drill
from servers.broker.servers import Servers
from streamer.worker.settings import SESSION_SECONDS

pytestmark = [pytest.mark.drill, pytest.mark.timeout(420)]


class Outage(NamedTuple):
    """A server that is away for so many seconds, and the seconds until what is left is judged."""

    begin: Callable[[Servers], None]
    seconds: float
    end: Callable[[Servers], None]
    then_seconds: float


OUTAGES = {
    "kafka frozen past the session": Outage(Servers.freeze_kafka, SESSION_SECONDS + 5, Servers.thaw_kafka, 10),
    # long enough for calls to be given up; when Redis wakes, it still carries out what no one waits for any more
    "redis frozen": Outage(Servers.freeze_redis, 30, Servers.thaw_redis, 10),
    "kafka killed": Outage(Servers.kill_kafka, 4, Servers.start_kafka, 25),
    "redis killed": Outage(Servers.kill_redis, 5, Servers.start_redis, 10),
}


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


@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES)
def test_away(drill: Drill, outage: Outage) -> None:
    drill.go_on(8)
    drill.strike(partial(outage.begin, drill.servers))
    drill.go_on(outage.seconds)
    outage.end(drill.servers)
    drill.go_on(outage.then_seconds)
    drill.finish()


def test_redis_set_back(drill: Drill) -> None:
    """The workers read the input again from where Redis stands, and publish nothing of it twice."""
    drill.until_all_publish()
    drill.set_redis_back(12)
    drill.go_on(20)
    drill.finish()


def test_redis_emptied(drill: Drill) -> None:
    """The workers read the input again from its beginning, and publish nothing of it twice."""
    drill.until_all_publish()
    drill.go_on(12)
    drill.empty_redis()
    drill.go_on(20)
    drill.finish()


def test_redis_emptied_and_workers_killed_in_the_replay(drill: Drill) -> None:
    drill.until_all_publish()
    drill.go_on(12)
    drill.empty_redis()
    for _ in range(3):
        drill.go_on(1, 6)
        drill.kill_worker()
    drill.go_on(20)
    drill.finish()


def test_workers_ended_while_a_server_is_away(drill: Drill) -> None:
    """They end in time, and those that come after them find what they left unfinished."""
    for outage in OUTAGES.values():
        drill.until_all_publish()
        drill.strike(partial(outage.begin, drill.servers))
        drill.go_on(1, 3)
        drill.end_workers()
        outage.end(drill.servers)
        drill.start_workers()
    drill.finish()


def test_everything_at_once(drill: Drill) -> None:
    drill.go_on(4, 8)
    drill.kill_worker()
    drill.go_on(0, 4)
    drill.strike(drill.servers.kill_redis)
    drill.go_on(0, 2)
    drill.kill_worker()
    drill.go_on(0, 2)
    drill.servers.start_redis()
    drill.go_on(4, 8)
    drill.strike(drill.servers.kill_kafka)
    drill.go_on(0, 3)
    drill.kill_worker()
    drill.go_on(0, 3)
    drill.servers.start_kafka()
    drill.freeze_worker(SESSION_SECONDS + 4)
    drill.go_on(4, 8)
    drill.empty_redis()
    drill.go_on(0, 6)
    drill.kill_worker()
    drill.go_on(0, 6)
    drill.strike(drill.servers.kill_kafka)
    drill.strike(drill.servers.kill_redis)
    drill.go_on(0, 2)
    drill.servers.start_redis()
    drill.servers.start_kafka()
    drill.kill_worker()
    drill.go_on(10)
    drill.finish()
