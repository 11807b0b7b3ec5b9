"""The questions and orders of a shard's machine to its driver (`Ready`), and the events that it takes.

A driver carries out one `Ready` (`shard.commit.perform`, `shard.driver.read`) and hands the machine the answer as the
next event: `Performed`, `Unwritable`, or what was read. An error of a server is `Failed`. All of these are values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from streamer.errors import StreamerError
from streamer.incremental.engine.replacing import Region
from streamer.incremental.events.changes import Counts
from streamer.incremental.release.records import OutboxEntry, Outgoing, outgoing
from streamer.incremental.shard.input import InputState, KeptSecret, Message
from streamer.incremental.shard.outlet import FoundRecords, Position
from streamer.incremental.shard.requests import EpochOver
from streamer.incremental.shard.retrial import Judged
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import Commit, Meta, Progress, State
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows

# -- what the machine asks for ----------------------------------------------------------------------------------------


class Publication(NamedTuple):
    """Entries of the outbox and the position that goes out with them, in one transaction."""

    entries: Sequence[OutboxEntry]
    position: Position
    outside: bool = False  # whether the commit did not come from the input
    whole: int = 0  # as in `Meta`, and so is the next one
    begins: Mapping[str, int] = {}

    @classmethod
    def of(cls, entries: Sequence[OutboxEntry], meta: Meta) -> Publication:
        """The publication of a commit. meta: as the commit leaves it."""
        outside = meta.commit in (meta.outside, meta.whole_at)
        return cls(entries, Position.of(meta), outside, meta.whole, meta.begins)

    def records(self) -> list[Outgoing]:
        """The entries with the headers that tell a reader where their release ends."""
        position = self.position
        return outgoing(
            self.entries, position.release, position.next, self.outside, self.whole, self.begins, position.last_of
        )


class Preflight(NamedTuple):
    """Look at store, output and input before anyone is shut out. Answer: `Inspected`."""


class TakeFence(NamedTuple):
    """Shut out the former owner of the store. Answer: `Taken`."""

    again: bool  # only if no other worker has taken the shard since we did


class ReadOwned(NamedTuple):
    """Shut out the former writer of the output, and read what stands still now. Answer: `Owned`."""

    fence: str


class ReadOutbox(NamedTuple):
    """Read the outbox of one commit while the fence is ours. Answer: `Outboxed`."""

    fence: str
    commit: int
    sealed_end: int = 0  # where the sealed changelog ended by the last position


class ReadOutput(NamedTuple):
    """Read the output of the shard as readers find it, and the outbox of one commit. Answer: `Output`."""

    fence: str
    commit: int


class ReadTable(NamedTuple):
    """Read everything that the store holds. Answer: `Stored`."""

    fence: str = ""  # checked before, if it is given


class ReadMessage(NamedTuple):
    """Read one message of the input again. Answer: `Fetched`."""

    offset: int


class ReadPiece(NamedTuple):
    """Read messages of the input again. Answer: `RereadPiece`."""

    start: int
    end: int  # at most


class ReadOthers(NamedTuple):
    """Ask whether another shard knows that the first snapshot is over. Answer: `SeenElsewhere`."""


Read = Preflight | TakeFence | ReadOwned | ReadOutbox | ReadOutput | ReadTable | ReadMessage | ReadPiece | ReadOthers


class GroupSnapshot(NamedTuple):
    """Put all rows of a first snapshot into QI groups, in another process. Answer: `SnapshotGrouped`."""

    rows: EncodedRows
    secret: bytes


class GroupRegion(NamedTuple):
    """Put the rows of a region into QI groups, in another process. Answer: `JobDone` or `JobFailed`."""

    rows: EncodedRows
    algorithm: str
    seed: int
    standing: Ints | None  # of each row (n,) its present group, if groups not worth publishing again are to stay


class SealedFigures(NamedTuple):
    """Counts of a shard's sealed changelog."""

    epoch: int  # the last one that is over
    cohorts: int  # published
    waiting: int  # rows in no cohort


class Facts(NamedTuple):
    """Counts and figures of a shard, to be shown; nobody's data. None: not known."""

    state: str
    meta: Meta
    sizes: Mapping[str, int] = {}  # empty before the table is loaded; withheld rows count as pending
    ncp: float | None = None  # mean loss of the published rows (`Space.mean_loss`), some seconds old at most
    ncp_fresh: float | None = None  # the same of a fresh table
    sealed: SealedFigures | None = None
    withheld: int = 0  # rows of QI groups that are wider than `coarsest` allows, some seconds old at most


class Ready(NamedTuple):
    """Orders, to be carried out in this order; each completion or failure is the next event."""

    fence: str = ""  # by which the commit and the trim are made
    before: int = 0  # the number of the commit before
    commit: Commit | None = None
    publish: Publication | None = None
    trim: int | None = None  # the outbox, up to this commit
    keep: KeptSecret | None = None  # into the control topic
    read: Read | None = None
    job: GroupSnapshot | GroupRegion | None = None
    report: StepReport | None = None  # what was done, once nothing is left to be done for the last event from outside
    stop: StreamerError | None = None  # why the shard is let go of

    @property
    def of_servers(self) -> tuple[object, ...]:
        """The orders that servers carry out."""
        return self.read, self.keep, self.commit, self.publish, self.trim


# -- what has happened ------------------------------------------------------------------------------------------------


class Assigned(NamedTuple):
    """The shard is ours to take over."""

    skips: frozenset[int] = frozenset()  # offsets that an operator named
    clock: float = 0.0  # as in `Tick`


class Inspected(NamedTuple):
    """Store and output before anyone was shut out, in the order in which they were read."""

    before: Meta | None  # of the store; another one than `meta` if the present owner is at work
    position: Position | None
    meta: Meta | None
    input: InputState
    secret: KeptSecret | None = None  # None: there is no control topic


class Taken(NamedTuple):
    """The store takes writes with this fence only."""

    fence: str


class Owned(NamedTuple):
    """Store and output as they stand still, now that nobody else may write."""

    position: Position | None
    meta: Meta | None
    input: InputState
    epochs: Sequence[EpochOver] = ()  # where they ended, if a replay may need it
    secret: KeptSecret | None = None  # as in `Inspected`


class Outboxed(NamedTuple):
    """The outbox of the last commit."""

    entries: Sequence[OutboxEntry]
    sealed_is_out: bool = False  # whether its cohorts are published, although no position says so


class Output(NamedTuple):
    """The output, and the outbox of the last commit."""

    found: FoundRecords
    waiting: Sequence[OutboxEntry]


NO_OUTPUT = Output(FoundRecords(), ())


class Stored(NamedTuple):
    """Everything that the store holds; None: nothing was ever committed."""

    state: State | None


class Messages(NamedTuple):
    """A batch in offset order."""

    messages: Sequence[Message]
    through: int = 0  # below this offset the input holds no other messages than those read


class Performed(NamedTuple):
    """The orders to commit, publish and trim are carried out; the seconds that the first two took."""

    commit_seconds: float = 0.0
    publish_seconds: float = 0.0


class Unwritable(NamedTuple):
    """A value of the commit cannot be written; nothing is stored."""

    what: str  # class of the error and line of the code


class Fetched(NamedTuple):
    """The message that was asked for, or None if the input does not hold it any more."""

    message: Message | None


class RowsRead(NamedTuple):
    """The rows at an offset of the input, and what the messages below it came to. Without a comment: as in `Meta`."""

    rows: EncodedRows
    next: int
    counts: Counts
    letters: Sequence[OutboxEntry]  # dead letters
    key_form: str
    statement_ids: Sequence[str]  # of the last statements, oldest first
    skipped: tuple[int, ...]
    faults: Sequence[str]  # what went wrong in applying, without values


class FirstRows(NamedTuple):
    """The rows and QI groups (arrays of row numbers) that a shard without a commit begins with."""

    rows: EncodedRows
    groups: Sequence[Ints]


class SnapshotEnded(NamedTuple):
    """The snapshot that is held back is over."""

    why: str = ""  # "" if a message said so


class SnapshotGrouped(NamedTuple):
    """The QI groups of a first snapshot, arrays of row numbers."""

    groups: Sequence[Ints]
    records_max: int  # of one release


class Replace(NamedTuple):
    """A region is to get other QI groups, arrays of numbers of its rows."""

    region: Region
    groups: Sequence[Ints]
    progress: Progress | None = None  # of the rebuild, without this region


class Remember(NamedTuple):
    """Keep rebuilds and the answers to requests."""

    running: Progress | None
    ended: Iterable[Progress] = ()
    heard: int = 0  # requests below this offset have their answers


class ApplyLate(NamedTuple):
    """Refused messages that are to be applied late; heard: as in `Remember`."""

    judged: Sequence[Judged]
    heard: int


class Tick(NamedTuple):
    """The only event that brings time, and chance."""

    now: float  # seconds since 1970
    clock: float  # seconds that never go back
    idle: bool = False  # the input had no message just now
    since: float = 0.0  # when this worker, or one before it, took the shard over first
    chance: int = 0  # 64 bits


class Request(NamedTuple):
    """A record of the shard's control partition."""

    offset: int
    at: float  # when it was written, in seconds since 1970
    value: bytes


class Free(NamedTuple):
    """The process that anonymizes has nothing to do."""


class JobDone(NamedTuple):
    """QI groups of a region, arrays of numbers of its rows, and the seconds that the algorithm took."""

    groups: Sequence[Ints]
    seconds: float


class JobFailed(NamedTuple):
    """A region could not be anonymized."""

    why: str  # holds no value


class RereadPiece(NamedTuple):
    """Messages that were read before."""

    messages: Sequence[Message]
    through: int  # the first offset that they do not reach


class SeenElsewhere(NamedTuple):
    """Another shard knows that the first snapshot is over, or none does."""

    seen: bool


class Failed(NamedTuple):
    """A server did not answer, or another worker owns the shard: what is in memory may be outdated."""


class Revoked(NamedTuple):
    """The shard was given back."""


Event = (
    Assigned | Inspected | Taken | Owned | Outboxed | Output | Stored | Messages | Performed | Unwritable | Fetched
    | FirstRows | SnapshotEnded | SnapshotGrouped | Replace | Remember | ApplyLate | Failed | Revoked | Tick | Request
    | Free | JobDone | JobFailed | RereadPiece | SeenElsewhere
)  # fmt: skip
