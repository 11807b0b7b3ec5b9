"""What a shard keeps, and the contract of the place that keeps it.

The rules of this file
----------------------
* A store holds one shard: its index table (`records`), its QI groups, the similarity lists, the outbox and `meta`. It
  also holds how each QI group came to be (`origins`), for people to read: it depends on batches, nothing depends on it.
* A commit is atomic: all of `Commit` or nothing. It compares the fence and the number of the commit before. It can be
  repeated: if the same fence has stored this commit already, the answer was lost and the work is done.
* The outbox holds what is committed and not yet known to be published. It is trimmed by commit number, never by count,
  so that a delayed trim cannot remove entries of a later commit.
* Only the holder of the newest fence may write.
* Memory and Redis fulfil this contract; one shared test suite holds both to it.
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

# `Snapshot`, `Rebuild` and `Progress` are stored by position (`store.codec`): a new field comes last and has a default.

TABLES, INCREMENTAL = "tables", "incremental"
"""Kinds of snapshots: whole tables are read before any change, or rows between changes."""

LAST, CHANGE = "last", "change"
"""What a shard has seen of the end itself: the last row of its table, or a change, which comes after all reads."""

ELSEWHERE, QUIET, OPERATOR = "elsewhere", "quiet", "operator"
"""Why else it may be over: another shard has seen the end, no row was read for long, or an operator said so."""


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """The snapshot with which a shard begins."""

    since: int  # the source offset of its first row, which names it
    kind: str = TABLES
    reads: int = 0  # messages that were rows of it
    seen: str = ""  # LAST, CHANGE or ""
    ended: str = ""  # why no more of it is waited for; "" while it is held back
    released: int = 0  # commits of the first table that are done
    of: int = 0  # all commits of the first table; 0 while that is not known

    @property
    def holds(self) -> bool:
        """Whether rows are still held back; they are until their release is done."""
        return not self.ended or self.released < self.of or not self.of

    @property
    def is_over(self) -> bool:
        """Whether what is held back only waits for its release."""
        return self.holds and bool(self.ended)


REMEMBERED, ANSWERS_REMEMBERED = 5, 20
"""How many ended rebuilds are remembered, and how many answers to requests that began none."""

RUNNING, DONE, CANCELLED, STOPPED, FAILED = "running", "done", "cancelled", "stopped", "failed"
"""How a rebuild stands; stopped: its worker went away, and the next one did not go on with it."""

REFUSED, ANSWERED = "refused", "answered"
"""Of what is no rebuild but the answer to a request, so that it is not answered again."""


class Rebuild(msgspec.Struct, frozen=True, array_like=True):
    """One full re-anonymization of a shard."""

    id: str
    algorithm: str
    seed: int  # below 2^64
    turn: int  # its number in the life of the shard, which moves the borders of regions


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """How far a rebuild came."""

    rebuild: Rebuild
    total: int  # regions
    done: int = 0  # regions that were replaced
    left: int = 0  # regions left as they were, because they changed too often
    rows_published_again: int = 0
    ncp_before: float = 0.0  # NCP times rows of the regions done, before and after
    ncp_now: float = 0.0
    state: str = RUNNING
    why: str = ""  # what began it
    began: int = 0  # seconds since 1970
    at: int = 0  # when this was written
    drift: float = 0.0  # the table's loss over that of a fresh one, before; 0 if it was not known
    said: str = ""  # why it ended as it did

    @property
    def is_answer(self) -> bool:
        """Whether it is no rebuild but the answer to a request."""
        return self.state in (REFUSED, ANSWERED)

    def left_alone(self, ncp: float) -> Progress:
        """With one more region done, which stayed as it was."""
        return replace(self, done=self.done + 1, ncp_before=self.ncp_before + ncp, ncp_now=self.ncp_now + ncp)

    def after(self, replaced: Replaced) -> Progress:
        """With one more region done."""
        return replace(
            self,
            done=self.done + 1,
            rows_published_again=self.rows_published_again + replaced.rows_published_again,
            ncp_before=self.ncp_before + replaced.ncp_before,
            ncp_now=self.ncp_now + replaced.ncp_now,
        )


def remembered(rebuilds: Sequence[Progress], ended: Iterable[Progress]) -> tuple[Progress, ...]:
    """The last rebuilds and the last answers, after some more have ended; the newest is last."""
    all_of_them = [*rebuilds, *ended]
    answers = [i for i, one in enumerate(all_of_them) if one.is_answer]
    others = [i for i, one in enumerate(all_of_them) if not one.is_answer]
    kept = sorted(answers[-ANSWERS_REMEMBERED:] + others[-REMEMBERED:])
    return tuple(all_of_them[i] for i in kept)


UNFINISHED = "unfinished"
"""In place of a fingerprint while a table that is being reloaded is not whole: no table.yaml has it."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Where a shard stands after a commit."""

    commit: int = 0  # number of commits
    next: int = 0  # the first source offset that is not applied
    release: int = 0  # number of commits that changed the published table
    qi_group_next: int = 1  # the next unused number of a QI group
    outside: int = 0  # the last commit that did not come from the input
    digest: int = 0  # sum mod 2^64 of a hash per published QI group
    counts: Counts = NO_MESSAGES  # of all messages read
    shards: int = 1
    fingerprint: str = ""  # of table.yaml
    topic_ids: Mapping[str, str] = field(default_factory=dict)  # the broker's, by kind, as far as they are known
    key_form: str = ""  # how producers write message keys; "" before the first row change
    skipped: tuple[int, ...] = ()  # offsets skipped without being decided by their content, ascending; see `steps`
    # What ties are drawn by (`streamer.incremental.engine.tie_break`): never changes, and is kept only here.
    secret: bytes = field(default=b"", repr=False)
    rebuild: Progress | None = None  # the running one
    rebuilds: tuple[Progress, ...] = ()  # the last ones that ended, the newest last
    snapshot: Snapshot | None = None  # with which the table began, or begins
    control_next: int = 0  # the first offset of the shard's control partition that has no answer yet
    # If there are several shards: the position of the last truncation in the source's order, how many truncations the
    # shard heard of from other shards, and whether it has read a message of the log of `truncated`.
    truncated: SourcePosition | None = None
    truncations: int = 0
    log_seen: bool = False
    # Refused messages that were applied late, in that order: `next` at that time, and the message's offset.
    retried: tuple[tuple[int, int], ...] = ()
    letters_from: int = 0  # the first offset whose dead letter may be retried: a reload has dealt with what lies below


@dataclass(frozen=True, slots=True)
class Commit:
    """The net effect of one batch on what a shard keeps; None stands for a removal."""

    meta: Meta
    records: Mapping[str, Record | None] = field(default_factory=dict)
    qi_groups: Mapping[int, QIGroupState | None] = field(default_factory=dict)
    similarity: Mapping[int, SimilarityList | None] = field(default_factory=dict)
    statement_ids: Sequence[str] = ()
    outbox: Sequence[OutboxEntry] = ()
    replaces: bool = False  # of what was kept before only the statement ids stay
    origins: Mapping[int, Origin | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class State:
    """Everything a shard holds."""

    meta: Meta
    kept: StoredTable


class Store(Protocol):
    """The place of one shard's state. Every method may raise ServerUnreachable."""

    def take_over(self, again: bool = False) -> str:
        """Shuts out the former owner of the shard; returns the new fence (a counter and a random token).

        again: raises Fenced if another owner took it over since this object did. Even then the fence is a new one:
        calls of our own that are still on their way must not arrive later.
        """

    def check_fence(self, fence: str) -> None:
        """Raises Fenced if `fence` is not the newest any more."""

    def meta(self) -> Meta | None:
        """Where the shard stands, or None for a shard that never committed."""

    def load(self) -> State | None:
        """Everything the shard holds, or None for a shard that never committed."""

    def origin(self, qi_group: int) -> Origin | None:
        """How a QI group came to be; None if that is not known, or there is no such QI group."""

    def commit(self, fence: str, commit_before: int, commit: Commit) -> None:
        """Applies `commit` on top of commit number `commit_before`, whole or not at all.

        Raises Fenced if `fence` is not the newest, Conflict if the store is neither at `commit_before` nor already at
        this very commit.
        """

    def statement_ids(self) -> Sequence[str]:
        """The ids of the last statements that were applied, oldest first."""

    def outbox(self) -> Iterator[tuple[int, OutboxEntry]]:
        """Entries not trimmed yet with their commit numbers, oldest first."""

    def trim(self, fence: str, commit: int) -> None:
        """Drops the outbox entries of commits <= `commit`. Raises Fenced."""
