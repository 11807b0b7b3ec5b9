"""The states of a shard, what leads from one to the next, and the values that its machine keeps from event to event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from streamer.incremental.shard import ready
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.preflight import Consistency
from streamer.incremental.shard.steps import Repetition, Skipped, StepReport, StepTally
from streamer.incremental.store.base import Commit, Meta
from streamer.table.encode import EncodedRows


class Holding(Enum):
    """What a shard does not publish: any row, the rows of the snapshot it begins with, or nothing."""

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
    """What is known of the last take-over. Every error ends with another one."""

    assigned: ready.Assigned  # from Inspecting on
    # From the end of Fencing on: what stood still, and how the store stood against the output.
    owned: ready.Owned = NOTHING_OWNED
    standing: Consistency | None = None
    # From then to the end of Replaying, if the store is behind the output.
    replay: Repetition | None = None
    skipped: Skipped = field(default_factory=lambda: Skipped("", Meta()))  # from Restoring on


class Release(NamedTuple):
    """A whole table that is being published: what a snapshot held back, or all rows again into a recreated output."""

    why: str = ""  # the snapshot is over, if no message said so
    rows: EncodedRows | None = None  # that were held back
    groups: ready.SnapshotGrouped | None = None  # of these rows
    output: ready.Output = ready.NO_OUTPUT  # into which a table is published again
    commits: Iterator[Commit] = iter(())  # still to be made, each of whole QI groups


NO_RELEASE = Release()


class Doing(NamedTuple):
    """A commit under way, and what it is for: messages of the batch, messages applied late, or something else."""

    meta: Meta  # as the commit leaves it
    tally: StepTally
    records: int  # published by it
    first: int = 0  # of the batch: the first message that is not in the commit
    late: ready.ApplyLate | None = None
    due: tuple[int, int] | None = None  # of `Meta.retried`: what a replay repeats by this commit
    complaint: str = ""  # said if a commit that no message brought about cannot be made


@dataclass(frozen=True, slots=True)
class UnderWay:
    """What is being done for the last event from outside. An error, or the loss of the shard, drops all of it."""

    batch: ready.Messages = NO_BATCH  # not applied yet; kept while the table is loaded again or released
    late: ready.ApplyLate | None = None  # Restoring: applied late once the table is loaded again, as that has failed
    doing: Doing | None = None  # Replaying, Buffering, Serving: until it is done no other event is handled
    release: Release = NO_RELEASE  # Republishing, Releasing
    report: StepReport = field(default_factory=StepReport)  # of the commits so far


class Transition(NamedTuple):
    """By which method of the machine an event is handled in a state, and to which states that may lead."""

    how: str
    leads: tuple[Phase, ...]


P = Phase
SERVED = (P.SERVING, P.REPLAYING, P.BUFFERING)
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
    P.SERVING: (P.SERVING, P.RESTORING),
    P.BUFFERING: (P.BUFFERING, P.RESTORING, P.RELEASING),
    P.REPLAYING: (*SERVED, P.RESTORING, P.RELEASING),
}
"""To where a commit may lead: the rest of the batch may want the table loaded again, or end what is held back."""

TABLE: Mapping[tuple[Phase, type[Any]], Transition] = {
    **{(state, ready.Assigned): Transition("_assign", (P.INSPECTING,)) for state in Phase},
    **{(state, kind): Transition("_drop", (P.IDLE,)) for state in Phase for kind in (ready.Failed, ready.Revoked)},
    (P.INSPECTING, ready.Inspected): Transition("_inspect", (P.FENCING,)),
    (P.FENCING, ready.Taken): Transition("_take", (P.FENCING,)),
    (P.FENCING, ready.Owned): Transition("_own", (P.FINISHING, P.REPUBLISHING, P.RESTORING)),
    (P.FINISHING, ready.Outboxed): Transition("_finish", (P.FINISHING, P.REPUBLISHING)),
    (P.FINISHING, ready.Performed): Transition("_restore", (P.RESTORING,)),
    (P.REPUBLISHING, ready.Output): Transition("_republish_from", (P.REPUBLISHING,)),
    (P.REPUBLISHING, ready.Stored): Transition("_republish", (P.REPUBLISHING,)),
    (P.REPUBLISHING, ready.Performed): Transition("_restore", (P.RESTORING,)),
    (P.RESTORING, ready.Performed): Transition("_restored", (P.RESTORING, P.RELEASING)),
    (P.RESTORING, ready.Stored): Transition("_loaded", (*SERVED, P.RESTORING, P.RELEASING)),
    (P.REPLAYING, ready.Messages): Transition("_go_on", (P.REPLAYING, P.RESTORING)),
    (P.REPLAYING, ready.Fetched): Transition("_repeat_retry", (P.REPLAYING, P.RESTORING)),
    (P.REPLAYING, ready.Tick): Transition("_tick_in_replay", (P.REPLAYING,)),
    **{(state, ready.Messages): Transition("_go_on", AFTER_COMMIT[state]) for state in (P.SERVING, P.BUFFERING)},
    **{(state, ready.Performed): Transition("_performed", AFTER_COMMIT[state]) for state in SERVED},
    **{(state, ready.Unwritable): Transition("_unwritable", (P.RESTORING,)) for state in SERVED},
    **{
        (state, kind): Transition("_between", AFTER_COMMIT[state])
        for state in (P.SERVING, P.BUFFERING)
        for kind in BETWEEN
    },
    (P.SERVING, ready.FirstRows): Transition("_first_rows", (P.SERVING,)),
    (P.SERVING, ready.Replace): Transition("_replace", (P.SERVING,)),
    **{(state, ready.Remember): Transition("_remember", (state,)) for state in (P.SERVING, P.BUFFERING)},
    **{(state, ready.ApplyLate): Transition("_retry", (state, P.RESTORING)) for state in (P.SERVING, P.BUFFERING)},
    **{
        (state, ready.SnapshotEnded): Transition("_begin_release", (P.RELEASING,))
        for state in (P.BUFFERING, P.RELEASING)
    },
    (P.RELEASING, ready.Messages): Transition("_begin_release", (P.RELEASING,)),
    (P.RELEASING, ready.Stored): Transition("_release_from", (P.RELEASING, P.RESTORING)),
    (P.RELEASING, ready.SnapshotGrouped): Transition("_grouped", (P.RELEASING,)),
    (P.RELEASING, ready.Performed): Transition("_released", (P.RELEASING, P.RESTORING)),
    (P.RELEASING, ready.Request): Transition("_heard", (P.RELEASING,)),
    (P.RELEASING, ready.Tick): Transition("_tick_in_release", (P.RELEASING,)),
}
"""What every event means in every state, and where it may lead; what is not here is an error. Beside that any state
leads to Refused if store, output and input do not fit together, and to Idle if a law does not hold."""
