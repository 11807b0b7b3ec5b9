"""What is kept of a shard in the process: counts that only grow, and since when something stands in the way."""

from __future__ import annotations

from collections import Counter

import pytest

from agents.shard_metrics import ShardMetrics
from streamer.incremental.events.changes import Counts
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import DONE, REFUSED, REMEMBERED, STOPPED, Progress, Rebuild


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    for name in ("time", "monotonic"):
        monkeypatch.setattr(f"agents.shard_metrics.{name}", lambda: now[0])
    return now


def test_steps_add_up_and_their_faults_are_not_kept(clock: list[float]) -> None:
    metrics = ShardMetrics()
    for _ in range(3):
        metrics.step(StepReport(Counts(dead_letters=1), 2, 1, faults=["KeyError"], reasons=Counter({"key-exists": 1})))
    assert (metrics.done.counts.dead_letters, metrics.done.published, metrics.done.commits) == (3, 6, 3)
    assert (metrics.done.reasons, metrics.done.faults) == ({"key-exists": 3}, [])
    assert (metrics.fault_at, metrics.committed_at) == (100.0, 100.0)
    assert [metrics.done_unlogged().commits for _ in range(2)] == [3, 0], "of a minute, for the log"


def test_a_step_without_a_commit_took_no_time_of_redis() -> None:
    metrics = ShardMetrics()
    metrics.step(StepReport())
    assert sum(metrics.commit_seconds.counts) == sum(metrics.publish_seconds.counts) == 0
    assert metrics.committed_at is None


def test_the_first_of_several_errors_says_since_when(clock: list[float]) -> None:
    metrics = ShardMetrics()
    metrics.failed("Redis does not answer")
    clock[0] = 107.0
    metrics.failed("Kafka does not answer")
    assert (metrics.error, metrics.error_since) == ("Kafka does not answer", 100.0)
    metrics.goes_on()
    assert (metrics.error, metrics.error_since) == ("", None)


def test_rows_are_pending_since_the_first_of_them_was(clock: list[float]) -> None:
    metrics = ShardMetrics()
    metrics.has_pending(3)
    clock[0] = 200.0
    metrics.has_pending(5)
    assert metrics.pending_since == 100.0
    metrics.has_pending(0)
    assert metrics.pending_since is None


def test_a_shard_is_held_since_it_was_taken_over_first_and_not_since_the_last_error(clock: list[float]) -> None:
    metrics = ShardMetrics()
    metrics.took_over(first=True)
    clock[0] = 200.0
    metrics.took_over(first=False)
    assert (metrics.take_overs, metrics.taken_at) == (2, 100.0)


def test_rebuilds_are_counted_by_how_they_ended_and_answers_are_none() -> None:
    metrics = ShardMetrics()
    for state in (DONE, DONE, STOPPED, REFUSED):
        metrics.rebuilt(Progress(Rebuild(f"{len(metrics.rows_rebuilt)}", "ordered", 1, 1), 1, state=state), rows=7)
    assert metrics.rebuilds == {DONE: 2, STOPPED: 1}


def test_as_many_rebuilds_are_known_by_their_rows_as_a_shard_remembers() -> None:
    metrics = ShardMetrics()
    for number in range(20):
        metrics.rebuilt(Progress(Rebuild(f"{number}", "ordered", 1, 1), 1, state=DONE), rows=number)
    assert list(metrics.rows_rebuilt.values()) == list(range(20 - REMEMBERED, 20))
