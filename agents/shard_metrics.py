"""What became of one shard in this process, over all the times that it was given to it: for whoever looks from outside.

The rules of this file
----------------------
* Kept in the event loop alone, by whoever serves the shard; cheap enough to be kept always.
* Counts only grow, from the start of the process on: what is true of a shard for ever stands in its meta.
* Counts, codes of reasons, and the texts of our own errors, which hold no value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from time import monotonic, time

from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import REMEMBERED, Progress

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the classes into which durations are counted, in seconds."""


class Durations:
    """How long something took, counted in classes; the last one has no bound."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Counts one.

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
    """One shard's. fault_at: when a message was skipped last, that could not be applied; pending_since: since when
    it has had pending rows; committed_at: of the last step: in seconds since 1970, but fault_at and error_since, which
    are of the process' own clock. error: why the shard is about to be taken over again. taken_at: when this worker
    took it over first since it has it. rows_rebuilt: rows published when a rebuild ended, by its id, of the last ones.
    """

    done: StepReport = field(default_factory=StepReport)
    commit_seconds: Durations = field(default_factory=Durations)
    publish_seconds: Durations = field(default_factory=Durations)
    take_overs: int = 0
    fenced: int = 0
    rebuilds: Counter[str] = field(default_factory=Counter)
    rows_rebuilt: dict[str, int] = field(default_factory=dict)
    taken_at: float | None = None
    committed_at: float | None = None
    pending_since: float | None = None
    fault_at: float | None = None
    error: str = ""
    error_since: float | None = None

    def step(self, report: StepReport) -> None:
        """A step was done: batches, regions of a rebuild, the release of what was held back."""
        if report.commits:
            self.commit_seconds.add(report.seconds["commit"])
            self.publish_seconds.add(report.seconds["publish"])
            self.committed_at = time()
        if report.faults:
            self.fault_at = monotonic()
        self.done.add(report)
        self.done.faults.clear()  # they stand in the log

    def took_over(self, first: bool) -> None:
        """The shard was taken over: for the first time since Kafka gave it to this worker, or once more."""
        self.take_overs += 1
        self.taken_at = time() if first else self.taken_at

    def goes_on(self) -> None:
        """What stood in the way does not any more."""
        self.error, self.error_since = "", None

    def failed(self, error: str) -> None:
        """The shard cannot go on; the first error of a row says since when."""
        self.error_since = monotonic() if self.error_since is None else self.error_since
        self.error = error

    def rebuilt(self, ended: Progress, rows: int) -> None:
        """A rebuild is over, and so many rows are published; an answer to a request is none."""
        if ended.is_answer:
            return
        self.rebuilds[ended.state] += 1
        self.rows_rebuilt[ended.rebuild.id] = rows
        if len(self.rows_rebuilt) > REMEMBERED:
            del self.rows_rebuilt[next(iter(self.rows_rebuilt))]

    def has_pending(self, rows: int) -> None:
        """So many rows are pending now."""
        if not rows:
            self.pending_since = None
        elif self.pending_since is None:
            self.pending_since = time()
