"""The states of a shard, what leads from one to the next, and the values that its machine keeps between two events."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from streamer.incremental.shard.ready import (
    ApplyLate,
    Assigned,
    Failed,
    Fetched,
    FirstRows,
    Free,
    Inspected,
    JobDone,
    JobFailed,
    Messages,
    Outboxed,
    Owned,
    Performed,
    Remember,
    Replace,
    Request,
    RereadPiece,
    Revoked,
    RowsAfter,
    SeenElsewhere,
    SnapshotEnded,
    SnapshotGrouped,
    Stored,
    Taken,
    Tick,
    Truncated,
    Unwritable,
)
from streamer.incremental.shard.steps import StepTally
from streamer.incremental.store.base import Meta, State
from streamer.table.encode import EncodedRows


class Holding(Enum):
    """What a shard holds back: only gathers rows and publishes none; the snapshot it begins with; or nothing."""

    ALL = "all"
    SNAPSHOT = "snapshot"
    NOTHING = "nothing"


class Phase(Enum):
    """The states of a shard."""

    IDLE = "Idle"
    INSPECTING = "Inspecting"
    FENCING = "Fencing"
    FINISHING = "Finishing"
    REPUBLISHING = "Republishing"
    RESTORING = "Restoring"
    REPLAYING = "Replaying"
    BUFFERING = "Buffering"
    RELEASING = "Releasing"
    SERVING = "Serving"
    REFUSED = "Refused"


class Release(NamedTuple):
    """What is being released: the rows that were held back, and their QI groups once these are known.

    state: of a table that is published anew instead. why: the snapshot is over, if no message said so. records: of the
    commit that is under way.
    """

    rows: EncodedRows | None = None
    groups: SnapshotGrouped | None = None
    why: str = ""
    state: State | None = None
    records: int = 0


class Doing(NamedTuple):
    """A commit under way, and what it was for: a batch, messages applied late, or something else.

    meta: as it leaves the shard. records: that it publishes. judged: of messages applied late; due: the one of them
    that a replay repeats. complaint: what is said if what is neither cannot be committed.
    """

    meta: Meta
    tally: StepTally
    records: int
    first: int = 0
    late: ApplyLate | None = None
    due: tuple[int, int] | None = None
    complaint: str = ""


class Transition(NamedTuple):
    """By which method of the machine an event is handled in a state, and to which states that may lead."""

    how: str
    leads: tuple[Phase, ...]


P = Phase
SERVED = (P.SERVING, P.REPLAYING, P.BUFFERING)
BETWEEN = (Tick, Request, Free, JobDone, JobFailed, RereadPiece, SeenElsewhere)
AFTER_COMMIT = {
    P.SERVING: (P.SERVING, P.RESTORING),
    P.BUFFERING: (P.BUFFERING, P.RESTORING, P.RELEASING),
    P.REPLAYING: (*SERVED, P.RESTORING, P.RELEASING),
}
"""To where a commit may lead: the rest of the batch may want the table loaded again, or end what is held back."""

TABLE: Mapping[tuple[Phase, type[Any]], Transition] = {
    **{(state, Assigned): Transition("_assign", (P.INSPECTING,)) for state in Phase},
    **{(state, kind): Transition("_drop", (P.IDLE,)) for state in Phase for kind in (Failed, Revoked)},
    (P.INSPECTING, Inspected): Transition("_inspect", (P.FENCING,)),
    (P.FENCING, Taken): Transition("_take", (P.FENCING,)),
    (P.FENCING, Owned): Transition("_own", (P.FINISHING, P.REPUBLISHING, P.RESTORING)),
    (P.FINISHING, Outboxed): Transition("_finish", (P.FINISHING,)),
    (P.FINISHING, Performed): Transition("_restore", (P.RESTORING,)),
    (P.REPUBLISHING, Stored): Transition("_republish_from", (P.REPUBLISHING,)),
    (P.REPUBLISHING, Outboxed): Transition("_republish", (P.REPUBLISHING,)),
    (P.REPUBLISHING, Performed): Transition("_republished", (P.REPUBLISHING, P.RESTORING)),
    (P.RESTORING, Performed): Transition("_restored", (P.RESTORING, P.RELEASING)),
    (P.RESTORING, Stored): Transition("_loaded", (*SERVED, P.RESTORING, P.RELEASING)),
    (P.REPLAYING, Messages): Transition("_messages", (P.REPLAYING, P.RESTORING)),
    (P.REPLAYING, Fetched): Transition("_repeat_retry", (P.REPLAYING, P.RESTORING)),
    (P.REPLAYING, Tick): Transition("_tick_in_replay", (P.REPLAYING,)),
    **{(state, Messages): Transition("_messages", AFTER_COMMIT[state]) for state in (P.SERVING, P.BUFFERING)},
    **{(state, Performed): Transition("_performed", AFTER_COMMIT[state]) for state in SERVED},
    **{(state, Unwritable): Transition("_unwritable", (P.RESTORING,)) for state in SERVED},
    **{(state, RowsAfter): Transition("_truncate", (state,)) for state in SERVED},
    **{
        (state, kind): Transition("_between", AFTER_COMMIT[state])
        for state in (P.SERVING, P.BUFFERING)
        for kind in BETWEEN
    },
    (P.SERVING, FirstRows): Transition("_first_rows", (P.SERVING,)),
    (P.SERVING, Replace): Transition("_replace", (P.SERVING,)),
    **{(state, Remember): Transition("_remember", (state,)) for state in (P.SERVING, P.BUFFERING)},
    **{(state, Truncated): Transition("_truncated", (state,)) for state in (P.SERVING, P.BUFFERING)},
    **{(state, ApplyLate): Transition("_retry", (state, P.RESTORING)) for state in (P.SERVING, P.BUFFERING)},
    **{(state, SnapshotEnded): Transition("_begin_release", (P.RELEASING,)) for state in (P.BUFFERING, P.RELEASING)},
    (P.RELEASING, Messages): Transition("_begin_release", (P.RELEASING,)),
    (P.RELEASING, Stored): Transition("_release_from", (P.RELEASING, P.RESTORING)),
    (P.RELEASING, SnapshotGrouped): Transition("_grouped", (P.RELEASING,)),
    (P.RELEASING, Performed): Transition("_released", (P.RELEASING, P.RESTORING)),
    (P.RELEASING, Request): Transition("_heard", (P.RELEASING,)),
    (P.RELEASING, Tick): Transition("_tick_in_release", (P.RELEASING,)),
}
"""What every event means in every state, and where it may lead; what is not here is an error. Beside that any state
leads to Refused if store, output and input do not fit together, and to Idle if a law does not hold."""
