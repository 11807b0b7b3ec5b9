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
    diary = ShardMetrics()
    for _ in range(3):
        diary.step(StepReport(Counts(dead_letters=1), 2, 1, faults=["KeyError"], reasons=Counter({"key-exists": 1})))
    assert (diary.done.counts.dead_letters, diary.done.published, diary.done.commits) == (3, 6, 3)
    assert (diary.done.reasons, diary.done.faults) == ({"key-exists": 3}, [])
    assert (diary.fault_at, diary.committed_at) == (100.0, 100.0)


def test_a_step_without_a_commit_took_no_time_of_redis() -> None:
    diary = ShardMetrics()
    diary.step(StepReport())
    assert sum(diary.commit_seconds.counts) == sum(diary.publish_seconds.counts) == 0
    assert diary.committed_at is None


def test_the_first_of_several_errors_says_since_when(clock: list[float]) -> None:
    diary = ShardMetrics()
    diary.failed("Redis does not answer")
    clock[0] = 107.0
    diary.failed("Kafka does not answer")
    assert (diary.error, diary.error_since) == ("Kafka does not answer", 100.0)
    diary.goes_on()
    assert (diary.error, diary.error_since) == ("", None)


def test_rows_are_pending_since_the_first_of_them_was(clock: list[float]) -> None:
    diary = ShardMetrics()
    diary.has_pending(3)
    clock[0] = 200.0
    diary.has_pending(5)
    assert diary.pending_since == 100.0
    diary.has_pending(0)
    assert diary.pending_since is None


def test_a_shard_is_held_since_it_was_taken_over_first_and_not_since_the_last_error(clock: list[float]) -> None:
    diary = ShardMetrics()
    diary.took_over(first=True)
    clock[0] = 200.0
    diary.took_over(first=False)
    assert (diary.take_overs, diary.taken_at) == (2, 100.0)


def test_rebuilds_are_counted_by_how_they_ended_and_answers_are_none() -> None:
    diary = ShardMetrics()
    for state in (DONE, DONE, STOPPED, REFUSED):
        diary.rebuilt(Progress(Rebuild(f"{len(diary.rows_rebuilt)}", "ordered", 1, 1), 1, state=state), rows=7)
    assert diary.rebuilds == {DONE: 2, STOPPED: 1}


def test_as_many_rebuilds_are_known_by_their_rows_as_a_shard_remembers() -> None:
    diary = ShardMetrics()
    for number in range(20):
        diary.rebuilt(Progress(Rebuild(f"{number}", "ordered", 1, 1), 1, state=DONE), rows=number)
    assert list(diary.rows_rebuilt.values()) == list(range(20 - REMEMBERED, 20))
