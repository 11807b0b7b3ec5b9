"""What a step of a shard did, in numbers.

The rules of this file
----------------------
* Messages read = applied + ignored + dead letters, in every tally and in every sum of tallies. A letter about rows that
  a statement left unchanged (`partial`) is no dead letter of this sum: its statement was applied.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from streamer.store.base import Entry

PHASES = ("decode", "apply", "drain", "commit", "publish")


@dataclass(slots=True)
class Tally:
    """What has been applied since the last commit, and the letters about it; `next`: the first offset not applied."""

    next: int
    events: int = 0
    applied: int = 0
    ignored: int = 0
    dead_letters: int = 0
    letters: list[Entry] = field(default_factory=list, repr=False)


@dataclass(slots=True)
class StepReport:
    """Counts of messages, records and moves over any number of commits, and seconds by phase."""

    events: int = 0
    applied: int = 0
    ignored: int = 0
    dead_letters: int = 0
    published: int = 0
    commits: int = 0
    merges: int = 0
    splits: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    def committed(self, tally: Tally, published: int) -> None:
        """Counts one commit."""
        self.events += tally.events
        self.applied += tally.applied
        self.ignored += tally.ignored
        self.dead_letters += tally.dead_letters
        self.published += published
        self.commits += 1

    def add(self, other: StepReport) -> None:
        """Adds another step's numbers to these."""
        for name in ("events", "applied", "ignored", "dead_letters", "published", "commits", "merges", "splits"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for phase, seconds in other.seconds.items():
            self.seconds[phase] += seconds
