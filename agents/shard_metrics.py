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
from dataclasses import dataclass, field
from time import monotonic, time

from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import Progress

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of a histogram of durations, in seconds."""


class Durations:
    """A histogram of durations; the last bucket has no bound."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Counts one duration.

        >>> durations = Durations()
        >>> durations.add(0.005), durations.add(99)
        (None, None)
        >>> durations.counts[2], durations.counts[-1], durations.seconds
        (1, 1, 99.005)
        """
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


@dataclass(slots=True)
class ShardMetrics:
    """One shard's metrics. Times are in seconds since 1970, if they are not by the monotonic clock."""

    done: StepReport = field(default_factory=StepReport)
    commit_seconds: Durations = field(default_factory=Durations)
    publish_seconds: Durations = field(default_factory=Durations)
    take_overs: int = 0
    fenced: int = 0
    rebuilds: Counter[str] = field(default_factory=Counter)  # by how they ended
    taken_at: float | None = None  # the first take-over of the present assignment
    committed_at: float | None = None
    pending_since: float | None = None  # since when it has pending rows
    fault_at: float | None = None  # monotonic: the last skip of a message that could not be applied
    error: str = ""  # why the shard is about to be taken over again
    error_since: float | None = None  # monotonic
    _unlogged: StepReport = field(default_factory=StepReport)

    def step(self, report: StepReport) -> None:
        """Counts a step: batches, regions of a rebuild, the release of a snapshot."""
        if report.commits:
            self.commit_seconds.add(report.seconds["commit"])
            self.publish_seconds.add(report.seconds["publish"])
            self.committed_at = time()
        if report.faults:
            self.fault_at = monotonic()
        for done in (self.done, self._unlogged):
            done.add(report)
            done.faults.clear()  # the log has them

    def done_unlogged(self) -> StepReport:
        """The steps since the last call."""
        done, self._unlogged = self._unlogged, StepReport()
        return done

    def took_over(self, first: bool) -> None:
        """Counts a take-over. first: of the present assignment."""
        self.take_overs += 1
        self.taken_at = time() if first else self.taken_at

    def was_fenced(self) -> None:
        """Another worker has shut this one out."""
        self.fenced += 1

    def goes_on(self) -> None:
        """The last error is over."""
        self.error, self.error_since = "", None

    def failed(self, error: str) -> None:
        """The shard cannot go on. The first of several errors says since when."""
        self.error_since = monotonic() if self.error_since is None else self.error_since
        self.error = error

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
