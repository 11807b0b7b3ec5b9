"""Metrics of one shard in this process, over all its assignments to this worker.

The rules of this file
----------------------
* Used in the event loop only; cheap enough to be kept always.
* Counts grow from the start of the process. Counts over a shard's whole life are in its meta.
* Counts, codes of reasons, and texts of our own errors: no value of a row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field, replace
from time import monotonic, time

from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import Progress

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of a histogram of durations, in seconds; its last bucket has none."""


@dataclass(slots=True)
class ShardMetrics:
    """One shard's metrics. Times are in seconds since 1970, if they are not by the monotonic clock."""

    done: StepReport = field(default_factory=StepReport)
    commits_by_seconds: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))  # a histogram
    publications_by_seconds: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    take_overs: int = 0
    fenced: int = 0
    rebuilds: Counter[str] = field(default_factory=Counter)  # by how they ended
    taken_at: float | None = None  # the first take-over of the present assignment
    committed_at: float | None = None
    pending_since: float | None = None  # since when it has pending rows
    fault_at: float | None = None  # monotonic: the last skip of a message that could not be applied
    _unlogged: StepReport = field(default_factory=StepReport)

    def step(self, report: StepReport) -> None:
        """Counts a step: batches, regions of a rebuild, the release of a snapshot."""
        if report.commits:
            self.commits_by_seconds[bisect_left(BOUNDS, report.commit_seconds)] += 1
            self.publications_by_seconds[bisect_left(BOUNDS, report.publish_seconds)] += 1
            self.committed_at = time()
        if report.faults:
            self.fault_at = monotonic()
        report = replace(report, faults=())  # the log has them
        self.done, self._unlogged = self.done + report, self._unlogged + report

    def done_unlogged(self) -> StepReport:
        """The steps since the last call."""
        done, self._unlogged = self._unlogged, StepReport()
        return done

    def took_over(self, first: bool) -> None:
        """first: of the present assignment."""
        self.take_overs += 1
        self.taken_at = time() if first else self.taken_at

    def was_fenced(self) -> None:
        """Another worker has shut this one out."""
        self.fenced += 1

    def rebuilt(self, ended: Progress) -> None:
        """Counts a rebuild that ended. An answer to a request is no rebuild."""
        if not ended.is_answer:
            self.rebuilds[ended.state] += 1

    def has_pending(self, rows: int) -> None:
        """Notes how many rows are pending now."""
        if not rows:
            self.pending_since = None
        elif self.pending_since is None:
            self.pending_since = time()
