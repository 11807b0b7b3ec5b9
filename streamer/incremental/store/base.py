"""What a shard keeps, and the contract of the place that keeps it.

The rules of this file
----------------------
* A store holds one shard: its index table (`records`), its QI groups, the similarity lists, the outbox and `meta`;
  and how each QI group came to be (`origins`), for people to read: no engine loads it, nothing depends on it, and it
  depends on batches. Two stores fulfil the contract, memory and Redis, and one shared test-suite holds both to it.
* A commit is atomic: all of `Commit` or nothing. It compares the fence and the number of the commit before; it is
  repeatable: the same fence and the commit already stored means that the answer was lost, and the work is done.
* The outbox holds what is committed here and not yet known to be published. It is trimmed by commit number, never by
  count, so that a delayed trim cannot cut off a later commit's entries.
* Nobody but the holder of the newest fence may write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from msgspec.structs import replace

from streamer.incremental.engine.replacing import Replaced
from streamer.incremental.engine.stored_state import Origin, QIGroupState, Record, SimilarityList, StoredTable
from streamer.incremental.events.changes import NO_MESSAGES, Counts
from streamer.incremental.events.source_position import SourcePosition
from streamer.incremental.release.records import OutboxEntry

# The first snapshot of a shard as a store keeps it: what was held back since when, and how it came to its end.
#
# Positional, as all that a store keeps (`store.codec`): fields are added at the end, with a default.

TABLES, INCREMENTAL = "tables", "incremental"
"""Kinds: whole tables are read before any change, or rows between changes."""

LAST, CHANGE = "last", "change"
"""What a shard has seen itself of the end: the last row of its table; a change, which comes after all reads."""

ELSEWHERE, QUIET, OPERATOR = "elsewhere", "quiet", "operator"
"""Why else it may be over: another shard has seen the end; no read came for long; an operator said so."""


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """A snapshot with which a shard begins.

    since: the source offset of its first read, by which it is named. reads: messages that were rows of it. seen: LAST,
    CHANGE or "". ended: why no more of it is waited for, "" while it is held back. released, of: commits of the first
    table that are done, and all of them; 0 while nobody knows.
    """

    since: int
    kind: str = TABLES
    reads: int = 0
    seen: str = ""
    ended: str = ""
    released: int = 0
    of: int = 0

    @property
    def holds(self) -> bool:
        """Whether rows are held back still, be it because their release is under way."""
        return not self.ended or self.released < self.of or not self.of

    @property
    def is_over(self) -> bool:
        """Whether what is held back waits for nothing but its release."""
        return self.holds and bool(self.ended)


# A rebuild of a shard as a store keeps it: which one it is, how far it came, what it gained.
#
# Positional, as all that a store keeps (`store.codec`): fields are added at the end, with a default.

REMEMBERED, ANSWERS_REMEMBERED = 5, 20
"""Rebuilds that have ended and are remembered; answers to requests that began none."""

RUNNING, DONE, CANCELLED, STOPPED, FAILED = "running", "done", "cancelled", "stopped", "failed"
"""How a rebuild stands; stopped: its worker went, and whoever followed did not go on with it."""

REFUSED, ANSWERED = "refused", "answered"
"""Of what is no rebuild, but the answer to a request, so that nobody answers it again."""


class Rebuild(msgspec.Struct, frozen=True, array_like=True):
    """One full re-anonymization of a shard.

    seed: below 2^64. turn: its number in the life of the shard, which moves the borders of regions.
    """

    id: str
    algorithm: str
    seed: int
    turn: int


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """How far a rebuild came.

    total: its regions, done: those that were replaced, left: those left as they were, because they changed too often.
    Of the regions done: upserts that were published, and NCP times rows, summed, before and after. why: who or what
    began it; began, at: when, and when it was heard of last, in seconds since 1970; drift: the loss over that of a
    fresh table before it, 0 where nobody knew; said: why it ended as it did.
    """

    rebuild: Rebuild
    total: int
    done: int = 0
    left: int = 0
    rows_published_again: int = 0
    ncp_before: float = 0.0
    ncp_now: float = 0.0
    state: str = RUNNING
    why: str = ""
    began: int = 0
    at: int = 0
    drift: float = 0.0
    said: str = ""

    @property
    def is_answer(self) -> bool:
        """Whether it is no rebuild, but the answer to a request."""
        return self.state in (REFUSED, ANSWERED)

    def left_alone(self, ncp: float) -> Progress:
        """With one region more, which was as good as it was, and has stayed so."""
        return replace(self, done=self.done + 1, ncp_before=self.ncp_before + ncp, ncp_now=self.ncp_now + ncp)

    def after(self, replaced: Replaced) -> Progress:
        """With one region more."""
        return replace(
            self,
            done=self.done + 1,
            rows_published_again=self.rows_published_again + replaced.rows_published_again,
            ncp_before=self.ncp_before + replaced.ncp_before,
            ncp_now=self.ncp_now + replaced.ncp_now,
        )


def remembered(rebuilds: Sequence[Progress], ended: Iterable[Progress]) -> tuple[Progress, ...]:
    """What is remembered when some more have ended: the last rebuilds and the last answers, the newest last."""
    all_of_them = [*rebuilds, *ended]
    answers = [i for i, one in enumerate(all_of_them) if one.is_answer]
    others = [i for i, one in enumerate(all_of_them) if not one.is_answer]
    kept = sorted(answers[-ANSWERS_REMEMBERED:] + others[-REMEMBERED:])
    return tuple(all_of_them[i] for i in kept)


UNFINISHED = "unfinished"
"""In place of a fingerprint while a table that begins anew is not whole: no table.yaml has it."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Where a shard stands after a commit.

    commit: number of commits. next: the first source offset not applied. release: commits that changed the published
    table. qi_group_next: the next unused number of a QI group. outside: the last commit that did not come from the
    input. digest: sum mod 2^64 of a hash per published QI group. counts: of all messages read. topic_ids: the
    broker's ids of the table's topics by kind, as far as they are known. key_form: how the producers of the input write
    message keys; "" until the first row change told. skipped: source offsets that were skipped without being
    decided by their content, ascending: whoever repeats the input has to skip them too. secret: what the shard's
    lots are drawn by (`streamer.incremental.engine.tie_break`), the same from its first commit on; nothing else says
    it. rebuild: the one that was running; rebuilds: the last ones that ended, the newest last. snapshot: the one with
    which the table began, or begins. control_next: the first offset of the shard's control partition that has no answer
    yet. truncated: where in the source's order the last truncation of the table stands, if there are several shards;
    truncations: how many of these the shard heard of from others, and placed; log_seen: whether it has read a
    message of the log of `truncated`. retried: which refused messages were applied after all, as pairs in the order in
    which that was done: the `next` of the shard at that time, and the message's offset. letters_from: the first offset
    whose dead letter may be tried again: a table that began anew from its source holds what lies below, or what came
    instead.
    """

    commit: int = 0
    next: int = 0
    release: int = 0
    qi_group_next: int = 1
    outside: int = 0
    digest: int = 0
    counts: Counts = NO_MESSAGES
    shards: int = 1
    fingerprint: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    key_form: str = ""
    skipped: tuple[int, ...] = ()
    secret: bytes = field(default=b"", repr=False)
    rebuild: Progress | None = None
    rebuilds: tuple[Progress, ...] = ()
    snapshot: Snapshot | None = None
    control_next: int = 0
    truncated: SourcePosition | None = None
    truncations: int = 0
    log_seen: bool = False
    retried: tuple[tuple[int, int], ...] = ()
    letters_from: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    """The net effect of one batch on what a shard keeps; None stands for a removal.

    replaces: nothing of what was kept before stays but the statement ids: no row, QI group, list, origin or
    outbox entry.
    """

    meta: Meta
    records: Mapping[str, Record | None] = field(default_factory=dict)
    qi_groups: Mapping[int, QIGroupState | None] = field(default_factory=dict)
    similarity: Mapping[int, SimilarityList | None] = field(default_factory=dict)
    statement_ids: Sequence[str] = ()
    outbox: Sequence[OutboxEntry] = ()
    replaces: bool = False
    origins: Mapping[int, Origin | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class State:
    """Everything a shard holds."""

    meta: Meta
    kept: StoredTable


class Store(Protocol):
    """The place of one shard's state. Every method may raise ServerUnreachable."""

    def take_over(self, again: bool = False) -> str:
        """Shuts out whoever wrote this shard before; returns the new fence (a counter and a random token).

        again: only where nobody else took it over since this object did, or raises Fenced. The fence is a new one even
        then: calls of our own that are still on their way must not arrive later.
        """

    def check_fence(self, fence: str) -> None:
        """Raises Fenced when `fence` is not the newest any more."""

    def meta(self) -> Meta | None:
        """Where the shard stands, or None for a shard that never committed."""

    def load(self) -> State | None:
        """Everything the shard holds, or None for a shard that never committed."""

    def origin(self, qi_group: int) -> Origin | None:
        """How a QI group came to be; None if nobody knows, or if there is no such QI group."""

    def commit(self, fence: str, commit_before: int, commit: Commit) -> None:
        """Applies `commit` on top of commit number `commit_before`, whole or not at all.

        Raises Fenced when `fence` is not the newest, Conflict when the store is neither at `commit_before` nor already
        at this very commit.
        """

    def statement_ids(self) -> Sequence[str]:
        """The ids of the last statements that were applied, oldest first."""

    def outbox(self) -> Iterator[tuple[int, OutboxEntry]]:
        """Entries not trimmed yet with their commit numbers, oldest first."""

    def trim(self, fence: str, commit: int) -> None:
        """Drops the outbox entries of commits <= `commit`. Raises Fenced."""
