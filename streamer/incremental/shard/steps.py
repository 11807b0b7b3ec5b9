"""What a step of a shard did, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from streamer.incremental.events.counts import NO_MESSAGES, Counts
from streamer.incremental.events.snapshot_marks import Mark
from streamer.incremental.events.source_position import SourcePosition
from streamer.incremental.release.records import Entry
from streamer.incremental.shard.input import Message
from streamer.incremental.store.base import Meta

PHASES = ("commit", "publish")


@dataclass(slots=True)
class Tally:
    """What has been applied since the last commit, and the letters about it.

    next: the first offset not applied. key_form: the shard's, as of the last change that was applied. last: the last
    message's offset. skipped: offsets that were passed over. marks: what they said of a snapshot that is held back.
    letters: also what is said to other shards. truncated: the last truncation in the source's order, as far as known;
    log_seen: whether a message of its log was read. retried: what was tried again and applied, as in `Meta`. reasons:
    of the dead letters.
    """

    next: int
    key_form: str
    last: int = -1
    counts: Counts = NO_MESSAGES
    letters: list[Entry] = field(default_factory=list, repr=False)
    skipped: list[int] = field(default_factory=list)
    marks: Counter[Mark] = field(default_factory=Counter)
    truncated: SourcePosition | None = None
    log_seen: bool = False
    retried: list[tuple[int, int]] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    @classmethod
    def after(cls, meta: Meta) -> Tally:
        """Nothing yet, after a commit."""
        return cls(meta.next, meta.key_form, truncated=meta.truncated, log_seen=meta.log_seen)


@dataclass(slots=True)
class StepReport:
    """Counts of messages, records and moves over any number of commits, and seconds by phase.

    faults: what went wrong in applying, in words that hold no value. left: messages that were not begun, because what
    is held back of a snapshot has to be released before. reasons: of the dead letters, the codes by which they are
    known.
    """

    counts: Counts = NO_MESSAGES
    published: int = 0
    commits: int = 0
    merges: int = 0
    splits: int = 0
    faults: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    left: Sequence[Message] = field(default=(), repr=False)
    reasons: Counter[str] = field(default_factory=Counter)

    def committed(
        self, tally: Tally, published: int, commit_seconds: float = 0.0, publish_seconds: float = 0.0
    ) -> None:
        """Counts one commit."""
        self.counts += tally.counts
        self.reasons += tally.reasons
        self.published += published
        self.commits += 1
        self.seconds["commit"] += commit_seconds
        self.seconds["publish"] += publish_seconds

    def add(self, other: StepReport) -> None:
        """Adds another step's numbers to these."""
        self.counts += other.counts
        self.published += other.published
        self.commits += other.commits
        self.merges += other.merges
        self.splits += other.splits
        self.faults += other.faults
        self.reasons += other.reasons
        for phase, seconds in other.seconds.items():
            self.seconds[phase] += seconds
