"""The states of a shard, and what its machine keeps from event to event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from streamer.incremental.engine.engine import Engine
from streamer.incremental.sealed.publisher import Sealed
from streamer.incremental.shard import ready
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.preflight import Consistency
from streamer.incremental.shard.steps import Repetition, Skipped, StepReport, StepTally
from streamer.incremental.store.base import Commit, Meta, Snapshot
from streamer.table.encode import EncodedRows


class Holding(Enum):
    """The rows that a shard does not publish: all, those of the snapshot it begins with, or none."""

    ALL = "all"
    SNAPSHOT = "snapshot"
    NOTHING = "nothing"


class Phase(Enum):
    """The states of a shard. `TakeOver` and `UnderWay` say which of their fields mean something in which state."""

    IDLE = "Idle"  # it is not ours, or an error has ended what was done
    INSPECTING = "Inspecting"  # store, output and input are compared; nobody is shut out yet
    FENCING = "Fencing"  # the former owner is shut out of the store, then of the output; they are compared again
    FINISHING = "Finishing"  # the last commit is stored but not published: the outbox is published
    REPUBLISHING = "Republishing"  # the output was recreated or has lost records: the whole table is published
    RESTORING = "Restoring"  # the outbox is trimmed, and the table loaded
    REPLAYING = "Replaying"  # the store lost commits: the input is read again, and nothing is published
    BUFFERING = "Buffering"  # the rows of a first snapshot are gathered, and none is published
    RELEASING = "Releasing"  # what was gathered is put into QI groups and published
    SERVING = "Serving"  # batches are applied and published
    REFUSED = "Refused"  # store, output and input do not fit together: an operator has to act


NOTHING_OWNED = ready.Owned(None, None, InputState({}, 1, 0, 0))
NO_BATCH = ready.Messages(())


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The last take-over. Every error ends with another one."""

    assigned: ready.Assigned  # from Inspecting on
    # From the end of Fencing on: what stood still, and how the store stood against the output.
    owned: ready.Owned = NOTHING_OWNED
    standing: Consistency | None = None
    repetition: Repetition | None = None  # if the store was behind the output
    skipped: Skipped = field(default_factory=lambda: Skipped("", Meta()))


class Loaded(NamedTuple):
    """The table in memory, from the end of Restoring on; none in Releasing."""

    engine: Engine
    sealed: Sealed | None  # of a table with a sealed changelog


@dataclass(slots=True)
class Release:
    """A whole table that is being published: what a snapshot held back, or all rows again into a recreated output."""

    why: str = ""  # the snapshot is over, if no message said so
    rows: EncodedRows | None = None  # that were held back
    groups: ready.SnapshotGrouped | None = None  # of these rows
    output: ready.Output = ready.NO_OUTPUT  # into which a table is published again
    commits: Iterator[Commit] = field(default_factory=lambda: iter(()))  # still to be made, each of whole QI groups


class Doing(NamedTuple):
    """A commit under way, and what it is for: messages of the batch, messages applied late, or something else."""

    meta: Meta  # as the commit leaves it
    tally: StepTally
    records: int = 0  # published by it
    first: int = 0  # of the batch: the first message that is not in the commit
    late: ready.ApplyLate | None = None
    due: tuple[int, int] | None = None  # of `Meta.retried`: what a replay repeats by this commit
    complaint: str = ""  # said if a commit that no message brought about cannot be made


@dataclass(slots=True)
class UnderWay:
    """The work for the last event from outside. An error, or the loss of the shard, drops all of it."""

    batch: ready.Messages = NO_BATCH  # not applied yet; kept while the table is loaded again or released
    late: ready.ApplyLate | None = None  # Restoring: applied late once the table is loaded again, as that has failed
    doing: Doing | None = None  # until it is done no other event is handled
    turned: Snapshot | None = None  # begins or ends with the next message; the next commit says so
    release: Release = field(default_factory=Release)  # Republishing, Releasing
    report: StepReport = field(default_factory=StepReport)  # of the commits so far


SERVED = (Phase.SERVING, Phase.REPLAYING, Phase.BUFFERING)
LISTENING = (Phase.SERVING, Phase.BUFFERING)
BETWEEN = (
    ready.Tick,
    ready.Request,
    ready.Free,
    ready.JobDone,
    ready.JobFailed,
    ready.RereadPiece,
    ready.SeenElsewhere,
)
AFTER_COMMIT = {
    Phase.SERVING: (Phase.SERVING, Phase.RESTORING),
    Phase.BUFFERING: (Phase.BUFFERING, Phase.RESTORING, Phase.RELEASING),
    Phase.REPLAYING: (*SERVED, Phase.RESTORING, Phase.RELEASING),
}
"""To where a commit may lead: the rest of the batch may want the table loaded again, or end what is held back."""
