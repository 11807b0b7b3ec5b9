"""The state that a shard keeps, and the contract of its store.

The rules of this file
----------------------
* A store holds one shard: its index table (`records`), its QI groups, the similarity lists, the outbox and `meta`. It
  also holds how each QI group came to be (`origins`), for people to read: it depends on batches, nothing depends on it.
  Of a table with a sealed changelog it holds the place of each person (`sealed`) and the cohorts.
* A commit is atomic: all of `Commit` or nothing. It compares the fence and the number of the commit before. It can be
  repeated: if the same fence has stored this commit already, the answer was lost and the work is done.
* The outbox holds what is committed and not yet known to be published. It is trimmed by commit number, never by count,
  so that a delayed trim cannot remove entries of a later commit.
* Only the holder of the newest fence may write.
* A command that gives shards all their rows claims each of them first, in its custody: one command at a time, until it
  stops to renew its claim. Then it says so to the shard, which shuts out commands with earlier claims. Before it writes
  it leaves its mark in all its shards: from then on only this command may take them over. It removes the marks when all
  of them have their rows. A command that dies leaves them, and the next one makes them its own.
* Memory and Redis fulfil this contract; one shared test suite holds both to it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import msgspec
from msgspec.structs import replace

from streamer.errors import Conflict, Fenced
from streamer.incremental.engine.last_changes import Remembered
from streamer.incremental.engine.replacing import Region, Replaced
from streamer.incremental.engine.stored_state import Origin, QIGroupState, Record, SimilarityList, StoredTable
from streamer.incremental.events.changes import NO_MESSAGES, Counts, RowChange
from streamer.incremental.release.records import OutboxEntry
from streamer.incremental.sealed.stored_state import SealedChanges, SealedMark, StoredSealed
from streamer.incremental.topics import JOINED, OUTPUTS

# `Snapshot`, `Rebuild`, `Progress` and `Adopted` are stored by position (`store.codec`): a new field comes last and has
# a default.

TABLES, INCREMENTAL = "tables", "incremental"
"""Kinds of snapshots: whole tables are read before any change, or rows between changes."""

LAST, CHANGE = "last", "change"
"""Signs of the end that a shard has seen itself: the last row of its table, or a change, which follows all reads."""

ELSEWHERE, QUIET, OPERATOR = "elsewhere", "quiet", "operator"
"""Other ends: another shard has seen the end, no row was read for long, or an operator said so."""


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
        """True while rows are held back, which is until their release is done."""
        return not self.ended or self.released < self.of or not self.of

    @property
    def is_over(self) -> bool:
        """True if what is held back only waits for its release."""
        return self.holds and bool(self.ended)


REMEMBERED, ANSWERS_REMEMBERED = 5, 20
"""The numbers of ended rebuilds, and of answers to requests that began none, that are remembered."""

RUNNING, DONE, CANCELLED, STOPPED, FAILED = "running", "done", "cancelled", "stopped", "failed"
"""States of a rebuild; stopped: its worker went away, and the next one did not go on with it."""

REFUSED, ANSWERED = "refused", "answered"
"""States of an answer to a request that began no rebuild; it is kept so that it is not answered again."""


class Rebuild(msgspec.Struct, frozen=True, array_like=True):
    """One full re-anonymization of a shard."""

    id: str
    algorithm: str
    seed: int  # below 2^64
    turn: int  # its number in the life of the shard, which moves the borders of regions


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """The progress of a rebuild."""

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
    rows: int = 0  # of the regions done; 0: stored by a version that did not count them

    @property
    def is_answer(self) -> bool:
        """True if it is no rebuild but the answer to a request."""
        return self.state in (REFUSED, ANSWERED)

    def left_alone(self, region: Region) -> Progress:
        """The progress after one more region, which stayed as it was."""
        return self.after(Replaced(0, 0, 0, 0, region.ncp, region.ncp, len(region.rows.source_keys)))

    def after(self, replaced: Replaced) -> Progress:
        """The progress after one more region."""
        return replace(
            self,
            done=self.done + 1,
            rows_published_again=self.rows_published_again + replaced.rows_published_again,
            ncp_before=self.ncp_before + replaced.ncp_before,
            ncp_now=self.ncp_now + replaced.ncp_now,
            rows=self.rows + replaced.rows,
        )


def remembered(rebuilds: Sequence[Progress], ended: Iterable[Progress]) -> tuple[Progress, ...]:
    """The last rebuilds and the last answers, after some more have ended; the newest is last."""
    all_of_them = [*rebuilds, *ended]
    answers = [i for i, one in enumerate(all_of_them) if one.is_answer]
    others = [i for i, one in enumerate(all_of_them) if not one.is_answer]
    kept = sorted(answers[-ANSWERS_REMEMBERED:] + others[-REMEMBERED:])
    return tuple(all_of_them[i] for i in kept)


class Adopted(msgspec.Struct, frozen=True, array_like=True):
    """The QI groups of an older version of the engine were adopted by a newer one."""

    version: str  # the older one, which decided every commit before
    qi_groups: int
    commit: int  # by which they were adopted


UNFINISHED = "unfinished"
"""In place of a fingerprint while a table that is being reloaded is not whole: no table.yaml has it."""


class LastRead(msgspec.Struct, frozen=True, array_like=True):
    """The last message of the input that a commit has applied: how the input is known again."""

    offset: int
    timestamp: int  # milliseconds since 1970; 0 if the input says none
    checksum: bytes  # of key and value, by the shard's secret: without that it tells nobody a value


@dataclass(frozen=True, slots=True)
class Meta:
    """The position and the counts of a shard after a commit."""

    commit: int = 0  # number of commits
    next: int = 0  # the first source offset that is not applied
    release: int = 0  # number of commits that changed the published table
    qi_group_next: int = 1  # the next unused number of a QI group
    outside: int = 0  # the last commit that did not come from the input
    digest: int = 0  # sum mod 2^64 of a hash per QI group
    counts: Counts = NO_MESSAGES  # of all messages read
    shards: int = 1
    fingerprint: str = ""  # of the engine's version and table.yaml
    topic_ids: Mapping[str, str] = field(default_factory=dict)  # the broker's, by kind, as far as they are known
    key_form: str = ""  # how producers write message keys; "" before the first row change
    skipped: tuple[int, ...] = ()  # offsets skipped without being decided by their content, ascending; see `steps`
    # What ties are drawn by (`streamer.incremental.engine.tie_break`): never changes. The control topic has it, too.
    secret: bytes = field(default=b"", repr=False)
    rebuild: Progress | None = None  # the running one
    rebuilds: tuple[Progress, ...] = ()  # the last ones that ended, the newest last
    snapshot: Snapshot | None = None  # with which the table began, or begins
    control_next: int = 0  # the first offset of the shard's control partition that has no answer yet
    # Refused messages that were applied late, in that order: `next` at that time, and the message's offset.
    retried: tuple[tuple[int, int], ...] = ()
    letters_from: int = 0  # the first offset whose dead letter may be retried: a reload has dealt with what lies below
    read: LastRead | None = None
    entries: int = 0  # how many entries of the outbox the commit left
    # The last release that held the whole published table: no row of an earlier one counts; 0 if none had to. And the
    # offsets of the output's topics, by kind, before which nothing counts any more since then: a topic may begin
    # anywhere up to there. None is named if no topic has lost its beginning.
    whole: int = 0
    begins: Mapping[str, int] = field(default_factory=dict)
    # If two topics are one table: the last release with records in each, by kind, as far as it is known.
    last_of: Mapping[str, int] = field(default_factory=dict)
    whole_at: int = 0  # the commit that published the whole table last
    adopted: tuple[Adopted, ...] = ()  # from older versions of the engine, in that order
    sealed: SealedMark | None = None  # where the sealed changelog stands; None: there is none

    def released(self, entries: Iterable[OutboxEntry], whole: bool = False) -> Meta:
        """The meta with the next release, if an entry is a published record. whole: they hold the whole table."""
        topics = {entry.topic for entry in entries if entry.topic in OUTPUTS}
        release = self.release + bool(topics)
        last_of = {**self.last_of, **{kind: release for kind in JOINED if kind in topics}}
        begun = release + (not topics) if whole else self.whole  # the first release of an empty table is all of it
        return dataclasses.replace(self, release=release, last_of=last_of, whole=begun)


@dataclass(frozen=True, slots=True)
class Commit:
    """The net effect of one batch on what a shard keeps; None stands for a removal."""

    meta: Meta
    records: Mapping[str, Record | None] = field(default_factory=dict)
    qi_groups: Mapping[int, QIGroupState | None] = field(default_factory=dict)
    similarity: Mapping[int, SimilarityList | None] = field(default_factory=dict)
    statement_ids: Sequence[str] = ()
    outbox: Sequence[OutboxEntry] = ()
    # Of what was kept before only statement ids and last changes stay, and what is sealed if `meta` says so.
    replaces: bool = False
    origins: Mapping[int, Origin | None] = field(default_factory=dict)
    row_changes: Sequence[RowChange] = ()  # not kept: for who publishes a sealed changelog
    sealed: SealedChanges | None = None
    last_changes: Mapping[int, Remembered | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class State:
    """Everything a shard holds."""

    meta: Meta
    kept: StoredTable
    sealed: StoredSealed = field(default_factory=StoredSealed)


def being_loaded(shard: str, claim: str, by: str, left_s: float) -> Conflict:
    """Refuses a command because another one loads the shard. left_s: seconds until its claim ends by itself."""
    since = datetime.fromtimestamp(int(claim.partition("-")[0]) / 1e6, UTC)
    return Conflict(
        f"{shard} is being loaded by {by} since {since:%Y-%m-%d %H:%M:%S} UTC: wait for its end, then call this "
        f"again if it is still needed; if that process is dead, call this again in {max(left_s, 1):.0f} s"
    )


def claimed_since(table_name: str) -> Fenced:
    """Refuses a command whose claim has ended and after which another one has begun."""
    return Fenced(
        f"another `streamer load` or `streamer reload` has begun with {table_name} since: this one ends, and lets no "
        "worker in; wait for the end of the other one"
    )


class Store(Protocol):
    """The place of one shard's state. Every method may raise ServerUnreachable."""

    def claim(self, who: str, seconds: float) -> str:
        """Claims the shard for a command; returns the claim.

        who: a command and its process, for people. seconds: until the claim ends by itself. Raises Conflict if another
        command has a claim, with who and since when.
        """

    def renew(self, claim: str, seconds: float) -> None:
        """Moves the end of a claim; 0 ends it. Raises Fenced if another command has claimed the table since."""

    def shut_out_older(self, claim: str) -> None:
        """Shuts out commands with earlier claims; their mark becomes this one's. Raises Fenced if a later one came."""

    def tell_beginning(self, claim: str) -> bool:
        """Leaves a command's mark: no one else takes the shard over, and its owner is shut out.

        Returns False if a command that ended in the middle had left one. Raises Fenced if a later command came.
        """

    def tell_begun(self, claim: str) -> None:
        """Removes a command's mark, and a refusal. Raises Fenced if a later command came."""

    def take_over(self, again: bool = False) -> str:
        """Shuts out the former owner of the shard; returns the new fence (a counter and a random token).

        again: raises Fenced if another owner took it over since this object did. Even then the fence is a new one:
        calls of our own that are still on their way must not arrive later. Raises ShardRefused for a worker if a
        command has left its mark, and Fenced for a command whose mark it is not.
        """

    def check_fence(self, fence: str) -> None:
        """Raises Fenced if `fence` is not the newest any more."""

    def meta(self) -> Meta | None:
        """The meta of the last commit; None for a shard that never committed."""

    def load(self) -> State | None:
        """Everything the shard holds, or None for a shard that never committed."""

    def origin(self, qi_group: int) -> Origin | None:
        """The origin of a QI group; None if it is not known, or there is no such QI group."""

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
