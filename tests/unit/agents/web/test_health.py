"""When a worker is not well, and how that is said; when it is ready."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.web.facts import HeldFacts, ServerFacts
from agents.web.health import is_ready, reasons, waits_for
from worlds.worker_facts import WELL, worker


def test_nothing_is_wrong_with_a_worker_that_is_well_or_has_no_shard() -> None:
    assert reasons(worker()) == []
    assert reasons(replace(worker(), shards=())) == []


@pytest.mark.parametrize(
    ("shard", "sentence"),
    [
        (replace(WELL, lost=True), "shard 0: another worker has taken it over"),
        (
            replace(WELL, error="Redis a:1: no answer", error_seconds=12.0),
            "shard 0: cannot go on for 12 s: Redis a:1: no answer",
        ),
        (
            replace(WELL, lag=1200, still_seconds=11.0),
            "shard 0: 1,200 messages wait, and none was applied for 11 s",
        ),
        (
            replace(WELL, lag=1, still_seconds=11.0, busy_seconds=11.5),
            "none was applied for 11 s; its thread is in one call for 12 s",
        ),
        (
            replace(WELL, lag=1, still_seconds=51.0, busy_seconds=51.0, computing_seconds=40.0),
            "none was applied for 51 s",
        ),
        (replace(WELL, lag=1, still_seconds=121.0, computing_seconds=121.0), "none was applied for 121 s"),
        (replace(WELL, taken_over=False, busy_seconds=121.0), "shard 0: its thread is in one call for 121 s"),
        (replace(WELL, fault_seconds=3.0), "shard 0: a message could not be applied 3 s ago"),
        (replace(WELL, releases=True, lag=1, still_seconds=601.0), "1 messages wait"),
    ],
)
def test_a_shard_that_does_not_go_on_is_a_reason(shard: HeldFacts, sentence: str) -> None:
    (said,) = reasons(worker(shard))
    assert sentence in said


@pytest.mark.parametrize(
    "shard",
    [
        replace(WELL, error="Redis a:1: no answer", error_seconds=3.0),
        replace(WELL, lag=1200, still_seconds=9.0, busy_seconds=9.0),
        replace(WELL, taken_over=False, lag=1200, still_seconds=100.0, busy_seconds=100.0),
        replace(WELL, releases=True, lag=1200, still_seconds=500.0, busy_seconds=500.0),
        replace(WELL, lag=1, still_seconds=49.0, busy_seconds=49.0, computing_seconds=40.0),
        replace(WELL, lag=1, still_seconds=60.0, computing_seconds=59.0),
        replace(WELL, fault_seconds=31.0),
        replace(WELL, pending=5),
    ],
    ids=[
        "just failed",
        "just begun",
        "loads",
        "first table",
        "a large statement",
        "another shard computes",
        "long ago",
        "pending",
    ],
)
def test_what_takes_its_time_or_is_over_is_none(shard: HeldFacts) -> None:
    assert reasons(worker(shard)) == []


@pytest.mark.parametrize("silent", ["Kafka", "Redis"])
def test_a_server_that_does_not_answer_is_a_reason(silent: str) -> None:
    servers = tuple(ServerFacts(name, 10.5 if name == silent else 9.5) for name in ("Kafka", "Redis"))
    assert reasons(worker(servers=servers)) == [f"{silent} has not answered for 10 s"]


def test_a_shard_that_was_refused_before_is_a_reason_until_it_is_taken_over() -> None:
    facts = replace(worker(), refused={3: "its topic was made anew"})
    assert reasons(facts) == ["shard 3: was refused: its topic was made anew"]


def test_shards_that_are_never_given_out_are_a_reason() -> None:
    (said,) = reasons(replace(worker(joined=False), shards=(), unjoined_seconds=61.0))
    assert said.startswith("Kafka has given this worker no shards for 61 s")
    assert reasons(replace(worker(joined=False), shards=(), unjoined_seconds=59.0)) == []


def test_a_full_redis_is_a_reason() -> None:
    (said,) = reasons(worker(servers=(ServerFacts("Redis", 0.0, full=True),)))
    assert said.startswith("Redis is full")


def test_a_worker_is_ready_once_it_has_taken_over_what_kafka_gave_it() -> None:
    assert is_ready(worker())
    assert is_ready(replace(worker(), shards=()))
    assert not is_ready(worker(joined=False))
    assert not is_ready(worker(WELL, replace(WELL, shard=1, taken_over=False)))
    assert not is_ready(worker(replace(WELL, lost=True)))


def test_what_a_worker_waits_for_is_said_as_long_as_it_is_not_ready() -> None:
    assert waits_for(worker()) == []
    assert waits_for(worker(WELL, replace(WELL, shard=1, taken_over=False))) == ["shard 1: is being taken over"]
    assert waits_for(replace(worker(joined=False), shards=())) == ["Kafka has not given shards to this worker yet"]
    assert waits_for(worker(replace(WELL, lost=True))) != []
