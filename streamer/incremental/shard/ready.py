"""What goes into a shard's machine and what comes out of it: events, and what the machine asks its driver to do.

The rules of this file
----------------------
* Values only. An event says what has happened, `Ready` what is to be done next; nothing here does it.
* A driver carries out one `Ready` (`shard.commit.perform`, `shard.driver.read`) and hands back what came of it as the
  next event: `Performed`, `Unwritable` or what was read. An error of a server is `Failed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from streamer.errors import StreamerError
from streamer.incremental.engine.replacing import Region
from streamer.incremental.events.changes import Counts
from streamer.incremental.events.source_position import SourcePosition
from streamer.incremental.release.records import OutboxEntry, Outgoing, outgoing
from streamer.incremental.shard.answers import Judged
from streamer.incremental.shard.input import InputState, Message
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.requests import Placed
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import Commit, Meta, Progress, State
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows

# -- what the machine asks for ----------------------------------------------------------------------------------------


class Publication(NamedTuple):
    """Entries of the outbox and the position that goes out with them, in one transaction.

    outside: whether the commit did not come from the input.
    """

    entries: Sequence[OutboxEntry]
    position: Position
    outside: bool = False

    @classmethod
    def of(cls, entries: Sequence[OutboxEntry], meta: Meta) -> Publication:
        """What a commit publishes. meta: as the commit leaves it."""
        return cls(entries, Position.of(meta), meta.outside == meta.commit)

    def records(self) -> list[Outgoing]:
        """The entries with the headers that tell a reader where their release ends."""
        return outgoing(self.entries, self.position.release, self.position.next, self.outside)


class Preflight(NamedTuple):
    """Look at store, output and input while nobody is shut out; answered by `Inspected`."""


class TakeFence(NamedTuple):
    """Shut out the former owner of the store; again: only if nobody else took the shard since. Answer: `Taken`."""

    again: bool


class ReadOwned(NamedTuple):
    """Shut out the former writer of the output, and read what stands still now; answered by `Owned`."""

    fence: str


class ReadOutbox(NamedTuple):
    """What the outbox holds of one commit, read while the fence is ours; answered by `Waiting`."""

    fence: str
    commit: int


class ReadTable(NamedTuple):
    """Everything that the store holds; fence: checked before, if it is given. Answered by `Stored`."""

    fence: str = ""


class ReadMessage(NamedTuple):
    """One message of the input that was read before; answered by `Found`."""

    offset: int


class ReadBehind(NamedTuple):
    """The rows of all messages below `end` that came after a truncation in the source's order; answered by `RowsAfter`.

    request: the offset of the record that told of it. whole: the input is needed from its beginning; else no row of
    before is there. skips: offsets that are skipped.
    """

    request: int
    source: SourcePosition
    end: int
    shards: int
    whole: bool
    skips: frozenset[int]


class ReadPiece(NamedTuple):
    """Messages of the input that were read before, from an offset to another or as far as one piece goes; answered by
    `RereadPiece`."""

    start: int
    end: int


class ReadOthers(NamedTuple):
    """Whether another shard knows that the first snapshot is over; answered by `SeenElsewhere`."""


Read = Preflight | TakeFence | ReadOwned | ReadOutbox | ReadTable | ReadMessage | ReadBehind | ReadPiece | ReadOthers


class GroupSnapshot(NamedTuple):
    """Put all rows of a first snapshot into QI groups, in another process; answered by `SnapshotGrouped`."""

    rows: EncodedRows
    secret: bytes


class GroupRegion(NamedTuple):
    """Put the rows of a region into QI groups, in another process; standing: of each row its group as it is now, if
    groups that are not worth publishing again are to stay. Answered by `JobDone` or `JobFailed`."""

    rows: EncodedRows
    algorithm: str
    seed: int
    standing: Ints | None


class Facts(NamedTuple):
    """What is shown of a shard: counts and figures, nobody's data. sizes: none before the table was loaded. ncp: the
    mean of the published rows, some seconds old at most; ncp_fresh: of a fresh table. None: not known."""

    state: str
    meta: Meta
    sizes: Mapping[str, int] = {}
    ncp: float | None = None
    ncp_fresh: float | None = None


class Ready(NamedTuple):
    """What is to be done, in this order; each completion or failure is the next event.

    fence, before: of the commit, whom and on top of which commit it is. trim: the commit up to which the outbox is
    trimmed. facts, report: how the shard stands, and what was done since the last event from outside, once nothing is
    left to be done for it. wake: seconds until a `Tick` is wanted. stop: why the shard is let go of.
    """

    fence: str = ""
    before: int = 0
    commit: Commit | None = None
    publish: Publication | None = None
    trim: int | None = None
    read: Read | None = None
    job: GroupSnapshot | GroupRegion | None = None
    facts: Facts | None = None
    wake: float | None = None
    report: StepReport | None = None
    stop: StreamerError | None = None


# -- what has happened ------------------------------------------------------------------------------------------------


class Assigned(NamedTuple):
    """The shard is ours to take over. skips: offsets that an operator named.

    truncated, log_seen: a truncation that is known before the first message, as in `Meta`. clock: as in `Tick`.
    """

    skips: frozenset[int] = frozenset()
    truncated: SourcePosition | None = None
    log_seen: bool = False
    clock: float = 0.0


class Inspected(NamedTuple):
    """What stood there before anybody was shut out; before, meta: of the store, before the position and after it."""

    before: Meta | None
    position: Position | None
    meta: Meta | None
    input: InputState


class Taken(NamedTuple):
    """The store takes writes with this fence only."""

    fence: str


class Owned(NamedTuple):
    """What stands still, now that nobody else may write. placed: where truncations took effect, as far as needed."""

    position: Position | None
    meta: Meta | None
    input: InputState
    placed: Sequence[Placed] = ()


class Outboxed(NamedTuple):
    """What the outbox holds of the last commit."""

    entries: Sequence[OutboxEntry]


class Stored(NamedTuple):
    """What the store holds; None: nothing was ever committed."""

    state: State | None


class Messages(NamedTuple):
    """A batch in offset order. through: an offset below which the input holds no other messages than those read."""

    messages: Sequence[Message]
    through: int = 0


class Performed(NamedTuple):
    """What was to be committed, published and trimmed is; seconds that the first two took."""

    commit_seconds: float = 0.0
    publish_seconds: float = 0.0


class Unwritable(NamedTuple):
    """A value of the commit cannot be written; what: class and place of the error. Nothing is stored."""

    what: str


class Fetched(NamedTuple):
    """The message that was asked for, or None if the input does not hold it any more."""

    message: Message | None


class RowsRead(NamedTuple):
    """The rows at an offset of the input, and what its messages came to; next: that offset.

    truncated: the last truncation that is known of it, where there are several shards; log_seen: as in `Meta`.
    """

    rows: EncodedRows
    next: int
    counts: Counts
    letters: Sequence[OutboxEntry]
    key_form: str
    statement_ids: Sequence[str]
    skipped: tuple[int, ...]
    faults: Sequence[str]
    truncated: SourcePosition | None = None
    log_seen: bool = False


class RowsAfter(NamedTuple):
    """The rows that came after a truncation; request, source: as they were asked for."""

    request: int
    source: SourcePosition
    rows: RowsRead


class FirstRows(NamedTuple):
    """The rows and QI groups (arrays of row numbers) that a shard without a commit begins with."""

    rows: EncodedRows
    groups: Sequence[Ints]


class Truncated(NamedTuple):
    """Another shard read a truncation; request: the offset of its record in the control topic."""

    request: int
    source: SourcePosition


class SnapshotEnded(NamedTuple):
    """The snapshot that is held back is over; why: "" if a message said so."""

    why: str = ""


class SnapshotGrouped(NamedTuple):
    """The QI groups of a first snapshot, arrays of row numbers. records_max: of one release."""

    groups: Sequence[Ints]
    records_max: int


class Replace(NamedTuple):
    """A region is to get other QI groups; progress: of the rebuild before."""

    region: Region
    groups: Sequence[Ints]
    progress: Progress | None = None


class Remember(NamedTuple):
    """To be kept: which rebuild is running, how others ended, that requests below `heard` have their answers."""

    running: Progress | None
    ended: Iterable[Progress] = ()
    heard: int = 0


class ApplyLate(NamedTuple):
    """Refused messages that are to be applied late; heard: requests below have their answers then."""

    judged: Sequence[Judged]
    heard: int


class Tick(NamedTuple):
    """Time, and nothing else brings it. now: in seconds since 1970; clock: of one that never goes back. idle: the input
    had no message just now. since: when this worker, or one before it, took the shard over first. chance: 64 bits."""

    now: float
    clock: float
    idle: bool = False
    since: float = 0.0
    chance: int = 0


class Request(NamedTuple):
    """A record of the shard's control partition; at: when it was written, in seconds since 1970."""

    offset: int
    at: float
    value: bytes


class Free(NamedTuple):
    """The process that anonymizes has nothing to do."""


class JobDone(NamedTuple):
    """QI groups of a region, arrays of numbers of its rows; seconds: that the algorithm took."""

    groups: Sequence[Ints]
    seconds: float


class JobFailed(NamedTuple):
    """A region could not be anonymized; why: holds no value."""

    why: str


class RereadPiece(NamedTuple):
    """Messages that were read before; through: the offset that they do not reach."""

    messages: Sequence[Message]
    through: int


class SeenElsewhere(NamedTuple):
    """Whether another shard knows that the first snapshot is over."""

    seen: bool


class Failed(NamedTuple):
    """A server did not answer, or somebody else owns the shard: what is in memory is worth nothing."""


class Revoked(NamedTuple):
    """The shard was given back."""


Event = (
    Assigned | Inspected | Taken | Owned | Outboxed | Stored | Messages | Performed | Unwritable | Fetched | RowsAfter
    | FirstRows | Truncated | SnapshotEnded | SnapshotGrouped | Replace | Remember | ApplyLate | Failed | Revoked
    | Tick | Request | Free | JobDone | JobFailed | RereadPiece | SeenElsewhere
)  # fmt: skip
