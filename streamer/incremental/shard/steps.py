"""The results of a batch: dead letters, counts, skipped messages, the next commit; and the course of a replay.

The rules of this file
----------------------
* A message is skipped because an operator said so (`streamer skip`), or because applying it failed in an unforeseen
  way. It becomes a dead letter, `skipped` or `internal-error`, and its offset is remembered in `Meta.skipped`.
* What is published is not decided again: a replay skips exactly the offsets that were skipped before the published
  `next`. Skips below it come too late, and an error below it stops the shard.
* After an error the table is loaded again, and its messages are applied again without the one at fault. If the error
  shows only when the effect of several is put together, they are committed one by one until it is found.
* A broken engine must not turn its input into dead letters: after `IN_A_ROW_MAX` failures without an applied message in
  between, or `SKIPPED_MAX` in all, the shard stops.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from types import TracebackType
from typing import NamedTuple

import msgspec

from streamer.errors import EventRefused, GroupTooLarge, LawViolated, ShardRefused, StreamerError
from streamer.incremental import remedies
from streamer.incremental.engine.engine import Outcome
from streamer.incremental.engine.net_effect import Drained
from streamer.incremental.engine.stored_state import Origin, SimilarityList
from streamer.incremental.events import changes
from streamer.incremental.events.changes import NO_MESSAGES, Counts
from streamer.incremental.events.snapshot_marks import Mark
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import DIGEST_MASK, OutboxEntry
from streamer.incremental.shard.input import Message, last_read
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.requests import EpochOver
from streamer.incremental.shard.sealing import NOTHING_SEALED, SealedPart, epoch_of
from streamer.incremental.shard.snapshot import held_after
from streamer.incremental.store.base import Commit, Meta
from streamer.incremental.topics import DEAD_LETTERS
from streamer.table.schema import Table

# Dead letters. A letter has a reason and coordinates, and no value of the message: anyone who may read the input topic
# finds the message there.

REFUSED, PARTIAL = "refused", "partial"
"""Kinds: nothing of the message was applied; a statement was, except to rows that it would have made invalid."""

RETRIED, SUPERSEDED, REFUSED_AGAIN = "retried", "superseded", "refused-again"
"""Kinds of letters about a refused message that an operator has retried (`streamer.incremental.shard.retrial`)."""

ACKNOWLEDGED = "acknowledged"
"""The kind, and the reason, of a letter that an operator writes: messages below its offset are seen to."""


class Coordinates(NamedTuple):
    """The place of a message."""

    topic: str
    partition: int
    offset: int


def refused(where: Coordinates, refusal: EventRefused) -> OutboxEntry:
    """The letter about a message that was not applied."""
    return _letter(where, REFUSED, refusal.reason, refusal.detail, column=refusal.column)


def partial(where: Coordinates, rows: int) -> OutboxEntry:
    """The letter about a statement that left some rows as they were. rows: how many."""
    detail = "rows whose new values would have been invalid keep their old ones"
    return _letter(where, PARTIAL, "rows-left-unchanged", detail, rows=rows)


def retried(where: Coordinates) -> OutboxEntry:
    """The letter about a refused message that is applied now."""
    return _letter(where, RETRIED, RETRIED, "it was tried again, and is applied")


def not_retried(where: Coordinates, refusal: EventRefused) -> OutboxEntry:
    """The letter about a retried message that is superseded, or refused again, maybe for another reason."""
    kind = SUPERSEDED if refusal.reason == SUPERSEDED else REFUSED_AGAIN
    return _letter(where, kind, refusal.reason, refusal.detail, column=refusal.column)


def acknowledged(where: Coordinates) -> OutboxEntry:
    """The letter about all refused messages below an offset."""
    return _letter(where, ACKNOWLEDGED, ACKNOWLEDGED, "an operator has seen to what was refused below this offset")


def _letter(where: Coordinates, kind: str, reason: str, detail: str, **more: str | int | None) -> OutboxEntry:
    coordinates = where._asdict()
    letter = {"kind": kind, "reason": reason, "detail": detail, **more, **coordinates}
    return OutboxEntry(DEAD_LETTERS, msgspec.json.encode(coordinates), msgspec.json.encode(letter))


@dataclass(slots=True)
class StepTally:
    """The messages applied since the last commit, and the letters about them."""

    next: int  # the first offset not applied
    key_form: str  # the shard's, as of the last change that was applied
    read: Message | None = field(default=None, repr=False)  # the last message
    counts: Counts = NO_MESSAGES
    letters: list[OutboxEntry] = field(default_factory=list, repr=False)  # also what is said of an epoch's end
    skipped: list[int] = field(default_factory=list)  # offsets
    marks: Counter[Mark] = field(default_factory=Counter)  # what messages said of a snapshot that is held back
    retried: list[tuple[int, int]] = field(default_factory=list)  # as in `Meta`
    reasons: Counter[str] = field(default_factory=Counter)  # codes of the dead letters' reasons

    @classmethod
    def after(cls, meta: Meta) -> StepTally:
        """Nothing yet, on top of a commit."""
        return cls(meta.next, meta.key_form)


def counts_of(outcome: Outcome) -> Counts:
    """What one message adds to the counts."""
    counts = changes.APPLIED if outcome.applied else changes.OLD_READ if outcome.old_read else changes.IGNORED
    if outcome.unknown_key:
        return counts + (changes.RESPELT_KEY if outcome.respelt_key else changes.UNKNOWN_KEY)
    return counts + changes.EXPLAINING if outcome.explains else counts


@dataclass(frozen=True, slots=True)
class StepReport:
    """Counts of messages, records and moves over any number of commits, and seconds by phase."""

    counts: Counts = NO_MESSAGES
    published: int = 0
    commits: int = 0
    merges: int = 0
    splits: int = 0
    faults: Sequence[str] = ()  # what went wrong in applying, without values
    commit_seconds: float = 0.0
    publish_seconds: float = 0.0
    reasons: Counter[str] = field(default_factory=Counter)  # codes of the dead letters' reasons

    @classmethod
    def of_commit(cls, tally: StepTally, published: int, commit_seconds: float, publish_seconds: float) -> StepReport:
        """One commit. published: its records."""
        return cls(tally.counts, published, 1, 0, 0, (), commit_seconds, publish_seconds, tally.reasons)

    def __add__(self, other: StepReport) -> StepReport:
        return StepReport(
            self.counts + other.counts,
            self.published + other.published,
            self.commits + other.commits,
            self.merges + other.merges,
            self.splits + other.splits,
            (*self.faults, *other.faults),
            self.commit_seconds + other.commit_seconds,
            self.publish_seconds + other.publish_seconds,
            self.reasons + other.reasons,
        )


def next_commit(
    meta: Meta, drained: Drained, tally: StepTally, changelog: Changelog, sealed: SealedPart = NOTHING_SEALED
) -> Commit:
    """The commit after `meta`; its outbox has the records by QI group, those of epochs, then the dead letters."""
    outbox: list[OutboxEntry] = []
    digest = meta.digest
    for number, before, after in drained.published:
        records, change = changelog.diff(number, before, after)
        outbox += records
        digest += change
    following = replace(
        meta.released(outbox),
        commit=meta.commit + 1,
        next=tally.next,
        qi_group_next=drained.qi_group_next,
        digest=digest & DIGEST_MASK,
        counts=meta.counts + tally.counts,
        key_form=tally.key_form,
        skipped=(*meta.skipped, *tally.skipped),
        retried=(*meta.retried, *tally.retried),
        snapshot=held_after(meta.snapshot, tally.marks),
        read=meta.read if tally.read is None else last_read(tally.read, meta.secret),
        sealed=sealed.changes.mark if sealed.changes else None,
    )
    outbox += sealed.entries
    outbox += tally.letters
    statement_ids = tuple(drained.statement_ids)
    kept = drained.records, drained.qi_groups, similarity_of(drained, following.commit)
    origins = origins_of(drained, following.commit)
    return Commit(
        following,
        *kept,
        statement_ids,
        outbox,
        origins=origins,
        row_changes=drained.row_changes,
        sealed=sealed.changes,
        last_changes=drained.last_changes,
    )


def similarity_of(drained: Drained, commit: int) -> dict[int, SimilarityList | None]:
    """The similarity lists that were found; None for groups that have none any more."""
    found = drained.similarity.items()
    return {number: None if degrees is None else SimilarityList(degrees, commit) for number, degrees in found}


def origins_of(drained: Drained, commit: int) -> dict[int, Origin | None]:
    """The origins of new QI groups; None for those that are gone."""
    gone = [number for number, state in drained.qi_groups.items() if state is None]
    return {**{number: Origin(how, commit) for number, how in drained.formed.items()}, **dict.fromkeys(gone)}


IN_A_ROW_MAX, SKIPPED_MAX = 10, 1_000

_REMEDY = "run a version of streamer that applies it, and report this as a fault"


class Unforeseen(Exception):
    """Applying messages failed in an unforeseen way; `what` holds no value. offset: the one at fault, if known."""

    def __init__(self, what: str, offset: int | None) -> None:
        super().__init__(what)
        self.what = what
        self.offset = offset


UNWRITABLE = (ValueError, TypeError, OverflowError)
"""A store raises these for a value that it cannot write. Anything else that it raises is not a message's fault."""


class unforeseen(AbstractContextManager[None]):
    """Raises `Unforeseen` for a fault that a message may have caused, without its text, which may quote the message.

    It is a class because every message passes through one: a generator takes three times as long.
    """

    __slots__ = ("_faults", "_offset")

    def __init__(self, offset: int | None = None, faults: tuple[type[Exception], ...] = (Exception,)) -> None:
        self._offset = offset
        self._faults = faults

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or not isinstance(error, self._faults):
            return
        if isinstance(error, MemoryError | OSError):  # the machine, the network: the next message would meet it too
            return
        if isinstance(error, LawViolated) or not isinstance(error, StreamerError):
            raise Unforeseen(told(error), self._offset) from None


def told(error: BaseException) -> str:
    """Class of an error and its line of code. Never its text, which may quote values, except one that is known.

    >>> told(KeyError("a value"))
    'KeyError'
    """
    if isinstance(error, GroupTooLarge):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {PurePath(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


class Skipped:
    """The messages of one shard that are skipped, from a take-over to the next.

    skips: offsets that an operator named. replay_to: the published position, if the store is behind it.
    """

    def __init__(self, name: str, meta: Meta, skips: Iterable[int] = (), replay_to: Position | None = None) -> None:
        self._name = name
        self._decided = replay_to.next if replay_to else meta.next
        self._repeated = frozenset(replay_to.skipped if replay_to else ())
        self._skips = frozenset(offset for offset in skips if offset >= self._decided)
        self._errors: dict[int, str] = {}  # by offset, in the order in which they were found
        self._in_a_row = 0
        self._one_by_one_to = 0

    def refusal(self, offset: int) -> EventRefused | None:
        """Why the message at `offset` is skipped; None if it is not."""
        if offset in self._errors:
            return EventRefused("internal-error", f"applying it failed: {self._errors[offset]}")
        if offset in self._skips or offset in self._repeated:
            return EventRefused("skipped", "an operator had it passed over (`streamer skip`)")
        return None

    def check(self, offset: int, tally: StepTally) -> None:
        """Raises EventRefused if the message at `offset` is skipped, and notes it in the tally."""
        refusal = self.refusal(offset)
        if refusal is not None:
            tally.skipped.append(offset)
            raise refusal

    def applied(self, offset: int) -> bool:
        """Takes note of a message that could be applied; returns True if it ends a row of failures.

        Then a commit is due: what was found need not be found again.
        """
        if not self._in_a_row or offset <= next(reversed(self._errors)):
            return False
        self._in_a_row = 0
        return True

    def goes_alone(self, offset: int) -> bool:
        """True if the message at `offset` gets a commit of its own, because it may be the one at fault."""
        return offset < self._one_by_one_to

    def failed(self, fault: Unforeseen, last: int, n_messages: int, meta: Meta) -> str:
        """Decides what a failure leads to, and says it in words.

        last, n_messages: the last offset and the number of messages handled on top of `meta` before it failed. Raises
        ShardRefused if skipping would not help.
        """
        if fault.offset is None and n_messages > 1:
            self._one_by_one_to = last + 1
            return f"the messages up to offset {last} are committed one by one: {fault.what}"
        offset = last if fault.offset is None else fault.offset
        if offset < self._decided:
            raise ShardRefused(
                f"{self._name}: offset {offset} has been decided and cannot be repeated: {fault.what}; {_REMEDY}"
            )
        self._in_a_row += 1
        hopeless = self.refusal(offset) is not None or self._in_a_row >= IN_A_ROW_MAX
        if hopeless or len(meta.skipped) + len(self._errors) >= SKIPPED_MAX:
            raise ShardRefused(
                f"{self._name}: {self._in_a_row} messages in a row could not be applied, {len(meta.skipped)} before "
                f"were passed over; the last one, at offset {offset}: {fault.what}; the fault is not theirs; {_REMEDY}"
            )
        self._errors[offset] = fault.what
        return f"offset {offset} is passed over: {fault.what}"


@dataclass(frozen=True, slots=True)
class Repetition:
    """Reading the input again, without publishing, because the store lost commits that are published."""

    to: Position  # the published position, where it ends
    epochs: tuple[EpochOver, ...] = ()  # that the clock ended, in order

    def is_over(self, meta: Meta) -> bool:
        """True if all messages and retried messages are applied again, and all epochs have ended."""
        retried = meta.next >= self.to.next and len(meta.retried) >= len(self.to.retried)
        return retried and epoch_of(meta) >= epoch_of(self.to)

    def _next_epoch(self, meta: Meta) -> EpochOver | None:
        return next((one for one in self.epochs if one.epoch > epoch_of(meta)), None)

    def epoch_due(self, meta: Meta) -> EpochOver | None:
        """The epoch that ends now, before the next message or retry; None if none does."""
        one = self._next_epoch(meta)
        return one if one and meta.next >= one.next and len(meta.retried) >= one.retried else None

    def retry_due(self, meta: Meta) -> tuple[int, int] | None:
        """The next message to be applied late again, as in `Meta.retried`; None if there is no more."""
        return self.to.retried[len(meta.retried)] if len(meta.retried) < len(self.to.retried) else None

    def stops_at(self, meta: Meta) -> int:
        """The offset before which something has to be done between two messages, or the replay ends."""
        retry, epoch = self.retry_due(meta), self._next_epoch(meta)
        return min(self.to.next, retry[0] if retry else self.to.next, epoch.next if epoch else self.to.next)

    def numbered(self, table: Table, shard: int, meta: Meta) -> Meta:
        """A commit of the replay. Raises ShardRefused if the last one does not give what is published.

        The last one takes over the published numbers of commit and release. Those before have numbers above the
        published one, so that none is mistaken for another.
        """
        if not self.is_over(meta):
            return replace(meta, commit=max(meta.commit, self.to.commit + 1))
        rebuilt, published = (
            (one.digest, one.qi_group_next, one.skipped, one.retried, one.sealed) for one in (meta, self.to)
        )
        if rebuilt != published:
            raise ShardRefused(
                f"shard {shard} of {table.name}: reading the input again does not give the published table of commit "
                f"{self.to.commit}: the input has changed, or another version of streamer published it, or the "
                f"secret by which rows that are alike are ordered was lost, with Redis and the control topic; restore "
                f"Redis from any former copy and start the workers, or {remedies.reload(table.name)}"
            )
        to = self.to
        meta = replace(meta, whole=to.whole, begins=to.begins, last_of=to.last_of)
        return replace(meta, commit=to.commit, release=to.release, outside=to.outside)


def cannot_repeat(table: Table, shard: int, offset: int, why: str) -> ShardRefused:
    """The refusal of a replay that cannot apply again what was retried."""
    return ShardRefused(
        f"shard {shard} of {table.name}: offset {offset} was a dead letter that was tried again and applied, and "
        f"reading the input again cannot repeat that ({why}); restore Redis from a copy that holds it, or "
        f"{remedies.reload(table.name)}"
    )
