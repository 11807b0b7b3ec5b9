"""What is kept of a shard in the process: counts that only grow, and since when something stands in the way."""

from __future__ import annotations

from collections import Counter
from time import monotonic, time

from agents.shard_metrics import ShardMetrics
from streamer.incremental.events.changes import Counts
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import DONE, REFUSED, STOPPED, Progress, Rebuild


def test_steps_add_up_and_their_faults_are_not_kept() -> None:
    begun = time(), monotonic()
    metrics = ShardMetrics()
    for _ in range(3):
        metrics.step(StepReport(Counts(dead_letters=1), 2, 1, faults=["KeyError"], reasons=Counter({"key-exists": 1})))
    assert (metrics.done.counts.dead_letters, metrics.done.published, metrics.done.commits) == (3, 6, 3)
    assert (metrics.done.reasons, metrics.done.faults) == ({"key-exists": 3}, ())
    assert begun[0] <= (metrics.committed_at or 0) <= time()
    assert begun[1] <= (metrics.fault_at or 0) <= monotonic()
    assert [metrics.done_unlogged().commits for _ in range(2)] == [3, 0], "of a minute, for the log"


def test_a_step_without_a_commit_took_no_time_of_redis() -> None:
    metrics = ShardMetrics()
    metrics.step(StepReport())
    assert sum(metrics.commits_by_seconds) == sum(metrics.publications_by_seconds) == 0
    assert metrics.committed_at is None


def test_rows_are_pending_since_the_first_of_them_was() -> None:
    metrics = ShardMetrics()
    metrics.has_pending(3)
    since = metrics.pending_since
    assert since is not None
    metrics.has_pending(5)
    assert metrics.pending_since == since
    metrics.has_pending(0)
    assert metrics.pending_since is None


def test_a_shard_is_held_since_it_was_taken_over_first_and_not_since_the_last_error() -> None:
    metrics = ShardMetrics()
    metrics.took_over(first=True)
    since = metrics.taken_at
    assert since is not None
    metrics.took_over(first=False)
    assert (metrics.take_overs, metrics.taken_at) == (2, since)


def test_rebuilds_are_counted_by_how_they_ended_and_answers_are_none() -> None:
    metrics = ShardMetrics()
    for state in (DONE, DONE, STOPPED, REFUSED):
        metrics.rebuilt(Progress(Rebuild("r1", "ordered", 1, 1), 1, state=state))
    assert metrics.rebuilds == {DONE: 2, STOPPED: 1}
