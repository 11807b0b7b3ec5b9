"""The first table of a shard as commits: each of whole QI groups, and of one release at most.

A reload also removes what was published before, in the same commits. The QI groups of a prepared table are numbered
from 1, and moved up to where the shard's numbers go on.

The release of a snapshot that was held back:

* All rows are in the store, pending. They are read from there once, in the order of their source keys, so that the same
  rows and the same seed give the same QI groups, whoever makes them.
* If all records fit, there is one commit, one release, one transaction; else several, each of whole QI groups. The
  other rows stay pending in the store. `meta` says how many commits are done.
* A worker that takes the shard over in between makes the same QI groups again, finds those that are stored among them,
  and goes on after them. If they are others (another version of streamer made them), the shard is refused.
* The commits count as `outside`: reading the input again cannot repeat them, because it does not decide when they come.

| dies | store | output | the next take-over |
|---|---|---|---|
| while rows are held back | rows up to a commit | positions, dead letters | goes on holding back, from `next` |
| before the first commit of the release | all rows, pending | the same | finds the end of the snapshot again |
| between its commits | some QI groups, the rest pending | that or one release less | releases the rest |
| after the last commit | the table | that or one release less | publishes, and reads on |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from streamer.errors import ConfigError, GroupTooLarge, LawViolated, ShardRefused
from streamer.incremental import remedies
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.net_effect import Seen
from streamer.incremental.engine.stored_state import (
    PENDING,
    Origin,
    QIGroupState,
    Record,
    RecordColumns,
)
from streamer.incremental.events.changes import NO_MESSAGES, Counts
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import DIGEST_MASK, OutboxEntry, PublishedGroup
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import FoundRecords
from streamer.incremental.shard.preflight import Digested, new_topics, with_topics
from streamer.incremental.shard.sealing import NOTHING_SEALED, SealedPart
from streamer.incremental.store.base import UNFINISHED, Commit, Meta, State
from streamer.incremental.topics import OUTPUTS, live_kinds
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.published.groups import Cells, cells_by_group, distinct_cells
from streamer.table.schema import GROUPS, Table

LARGE_NUMBER = 10**15
"""No QI group will have a longer number."""

Name = TypeVar("Name")
Value = TypeVar("Value")
Portion = TypeVar("Portion", bound=Sized)


@dataclass(frozen=True, slots=True)
class FirstTable:
    """The rows of one shard in QI groups, and where the input goes on. What has no comment is as in `Meta`."""

    rows: EncodedRows
    qi_groups: Sequence[Ints]  # arrays of row numbers; rows in none are pending
    secret: bytes = field(repr=False)
    next: int
    key_form: str = ""
    # Of the messages that the rows were read from, if they were.
    counts: Counts = NO_MESSAGES
    letters: Sequence[OutboxEntry] = ()
    statement_ids: Sequence[str] = ()
    skipped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A first table as a store keeps it, its QI groups numbered from 1."""

    first: FirstTable
    records: RecordColumns = field(repr=False)
    qi_groups: Mapping[int, QIGroupState] = field(repr=False)
    qi_group_next: int

    @property
    def n_pending(self) -> int:
        return len(self.records) - sum(len(state.members) for state in self.qi_groups.values())


@dataclass(frozen=True, slots=True)
class FoundShard:
    """A shard before its load: the highest numbers that are known, and what removes every published record."""

    commit: int = 0
    release: int = -1  # -1 if nothing was published in these topics
    qi_group_next: int = 1
    tombstones: Mapping[int, Sequence[OutboxEntry]] = field(default_factory=dict, repr=False)  # by QI group
    statement_ids: Sequence[str] = ()
    control_next: int = 0  # as in `Meta`, and so are the next ones
    whole: int = 0
    begins: Mapping[str, int] = field(default_factory=dict)
    is_torn: bool = False  # the output has lost its beginning: one release has to replace all of it
    last_of: Mapping[str, int] = field(default_factory=dict)

    @property
    def n_records(self) -> int:
        return sum(map(len, self.tombstones.values()))


def prepare(table: Table, shard: int, shards: int, first: FirstTable) -> Prepared:
    """The first table. Raises ConfigError if a QI group breaks the model, or a row or QI group is too large."""
    engine = Engine(table, shard, shards, first.secret)
    engine.load_initial(first.rows.source_keys, first.rows.rows(), first.rows.codes, first.qi_groups)
    drained = engine.drain()
    _check_messages(table, shard, drained.published)
    return Prepared(
        first,
        drained.records,  # into an empty table nothing is removed
        _present(drained.qi_groups),
        drained.qi_group_next,
    )


def _check_messages(table: Table, shard: int, published: Iterable[Seen]) -> None:
    changelog = Changelog(table, shard)
    try:
        for _, _, after in published if table.form == GROUPS else ():
            changelog.diff(LARGE_NUMBER, None, after)
    except GroupTooLarge as error:
        raise ConfigError(f"initial load: {error}") from None


def _present(changed: Mapping[Name, Value | None]) -> dict[Name, Value]:
    """A net effect without what is gone."""
    return {name: value for name, value in changed.items() if value is not None}


def commits(
    table: Table,
    shard: int,
    input_state: InputState,
    prepared: Prepared,
    found: FoundShard,
    records_max: int,
    sealed: SealedPart = NOTHING_SEALED,
) -> Iterator[Commit]:
    """The commits, each of one release at most, that turn whatever was there into the prepared table.

    sealed: published and kept by the first one, whole.
    """
    first, shift = prepared.first, found.qi_group_next - 1
    meta = Meta(
        commit=found.commit,
        next=first.next,
        release=found.release,
        qi_group_next=prepared.qi_group_next + shift,
        shards=input_state.shards,
        fingerprint=UNFINISHED,
        topic_ids=dict(input_state.topic_ids),
        key_form=first.key_form,
        skipped=first.skipped,
        secret=first.secret,
        counts=first.counts,
        control_next=found.control_next,
        letters_from=0 if first.counts.messages else first.next,
        whole=found.whole,
        begins=found.begins,
        last_of=found.last_of,
        sealed=sealed.changes.mark if sealed.changes else None,
    )
    new_groups = _NewGroups(table, shard, prepared, shift)
    members = sum(len(state.slots) for state in prepared.qi_groups.values())
    records_of_new = members * len(live_kinds(table))  # at most: forms of fewer records have larger ones
    n = -(-(records_of_new + found.n_records + len(first.letters)) // records_max) or 1
    n = 1 if found.is_torn else n
    letters = cut([[letter] for letter in first.letters], n)
    removed = cut(list(found.tombstones.values()), n)
    new = cut([NewGroup(number, state) for number, state in sorted(prepared.qi_groups.items())], n)
    for i in range(n):
        tombstones = [entry for of_group in removed[i] for entry in of_group]
        if found.is_torn and not new[i]:
            tombstones += _absences(table, shard, found.qi_group_next, tombstones, input_state)
        commit = new_groups.next_commit(meta, new[i], tombstones, whole=n == 1)
        meta, outbox = commit.meta, [*commit.outbox, *(letter for (letter,) in letters[i])]
        commit = replace(commit, outbox=outbox)
        if i == 0:
            commit = replace(commit, outbox=[*sealed.entries, *outbox], replaces=True, sealed=sealed.changes)
        yield commit if i < n - 1 else _last(commit, table, prepared, found, shift)


def _last(commit: Commit, table: Table, prepared: Prepared, found: FoundShard, shift: int) -> Commit:
    """With what belongs to the table as a whole: from the last commit on it is one."""
    known = set(found.statement_ids)
    records = commit.records
    if prepared.n_pending:
        all_of_them = prepared.records.items()
        records = {**records, **{key: one for key, one in all_of_them if one and one.qi_group == PENDING}}
    return replace(
        commit,
        meta=replace(commit.meta, fingerprint=table.fingerprint, release=max(commit.meta.release, 0)),
        records=records,
        statement_ids=[said for said in prepared.first.statement_ids if said not in known],
    )


class NewGroup(NamedTuple):
    """A new QI group with its number in the prepared table."""

    number: int
    state: QIGroupState

    def __len__(self) -> int:
        return len(self.state.slots)


def _upserts(
    changelog: Changelog, groups: Iterable[tuple[int, QIGroupState, Sequence[Cells]]]
) -> tuple[list[OutboxEntry], int]:
    """QI groups as upserts, and their digest; groups: number, state, and cells if the form publishes them."""
    rows: list[OutboxEntry] = []
    digest = 0
    for number, state, cells in groups:
        published = PublishedGroup(state.lo, state.hi, state.slots, distinct_cells(cells))
        records, change = changelog.diff(number, None, published)
        rows += records
        digest += change
    return rows, digest


@dataclass(frozen=True)
class _NewGroups:
    """Makes commits of a prepared table's QI groups, whose numbers are moved up by `shift`."""

    table: Table
    shard: int
    prepared: Prepared
    shift: int

    @cached_property
    def _cells(self) -> Mapping[int, Sequence[Cells]]:
        """Of each QI group's rows, if the form publishes them."""
        records = (record for _, record in self.prepared.records.items() if record)
        return cells_by_group(self.table, ((record.qi_group, record.row.codes) for record in records))

    def next_commit(
        self, meta: Meta, groups: Sequence[NewGroup], tombstones: Iterable[OutboxEntry] = (), whole: bool = False
    ) -> Commit:
        """The commit after `meta` with some of the QI groups; whole: these are all.

        tombstones: what it removes besides.
        """
        number, shown = meta.commit + 1, [(of + self.shift, state, self._cells.get(of, ())) for of, state in groups]
        outbox, change = _upserts(Changelog(self.table, self.shard), shown)
        outbox += tombstones
        digest = (meta.digest + change) & DIGEST_MASK
        following = replace(meta.released(outbox, whole), commit=number, outside=number, digest=digest)
        states = {of + self.shift: state for of, state in groups}
        origins = dict.fromkeys(states, Origin("loaded", number))
        return Commit(following, self._lines(groups), states, outbox=outbox, origins=origins)

    def _lines(self, groups: Sequence[NewGroup]) -> RecordColumns:
        numbers = np.array([of + self.shift for of, _ in groups], dtype=np.int64)
        members = list(chain.from_iterable([state.members for _, state in groups]))
        sizes = [len(state.members) for _, state in groups]
        return self.prepared.records.in_groups(members, np.repeat(numbers, sizes))


def cut(portions: Sequence[Portion], n: int) -> list[list[Portion]]:
    """Portions in n runs of about equal sizes together, in their order; no portion is torn.

    >>> cut(["aa", "b", "cc", "d"], 2)
    [['aa', 'b'], ['cc', 'd']]
    """
    runs: list[list[Portion]] = [[] for _ in range(n)]
    total, before = sum(map(len, portions)), 0
    for portion in portions:
        runs[n * before // total].append(portion)
        before += len(portion)
    return runs


def has_rows(entries: Iterable[OutboxEntry]) -> bool:
    """True if any of the entries is a published record or its removal."""
    return any(entry.topic in OUTPUTS for entry in entries)


def rows_in(table: Table, state: State | None) -> EncodedRows:
    """All rows that a shard holds, in the order of their source keys."""
    rows = {} if state is None else dict(sorted((key, record.row) for key, record in state.kept.records))
    return EncodedRows.of_rows(rows, len(table.attributes))


def release_commits(
    table: Table,
    shard: int,
    meta: Meta,
    rows: EncodedRows,
    qi_groups: Sequence[Ints],
    ended: str,
    stored: Mapping[int, QIGroupState],
    records_max: int,
) -> Iterator[Commit]:
    """The commits after `meta` that put rows into the given QI groups, each of one release at most.

    rows: those of `rows_in`. qi_groups: arrays of row numbers; rows in none stay pending. ended: why no more of the
    snapshot is waited for. stored: the QI groups that commits before have made. Raises ShardRefused if these are not
    the first of the given ones, ConfigError if a QI group breaks the model or is too large.
    """
    snapshot = meta.snapshot
    if snapshot is None:
        raise LawViolated(f"shard {shard} of {table.name}: there is no snapshot to be released")
    prepared = prepare(table, shard, meta.shards, FirstTable(rows, qi_groups, meta.secret, meta.next))
    records = len(live_kinds(table)) * sum(len(state.slots) for state in prepared.qi_groups.values())
    n = snapshot.of or -(-records // records_max) or 1
    runs = cut([NewGroup(number, state) for number, state in sorted(prepared.qi_groups.items())], n)
    _check_same(table, shard, [one for run in runs[: snapshot.released] for one in run], stored)
    new_groups = _NewGroups(table, shard, prepared, shift=0)
    if not snapshot.released and not meta.release:
        meta = replace(meta, release=-1)  # nothing was ever published: the first release is 0
    for done in range(snapshot.released, n):
        commit = new_groups.next_commit(meta, runs[done])
        meta = replace(
            commit.meta,
            release=max(commit.meta.release, 0),
            qi_group_next=prepared.qi_group_next,
            snapshot=msgspec.structs.replace(snapshot, ended=ended, released=done + 1, of=n),
        )
        yield replace(commit, meta=meta)


def _check_same(table: Table, shard: int, made: Sequence[NewGroup], stored: Mapping[int, QIGroupState]) -> None:
    """Raises ShardRefused if what was released before is not the beginning of what is to be released."""
    if {one.number: one.state for one in made} != dict(stored):
        raise ShardRefused(
            f"shard {shard} of {table.name}: the release of its snapshot was begun with other QI groups than this "
            f"streamer makes of the same rows; run the version that began it, or {remedies.reload(table.name)}"
        )


# The whole published table as one release, for an output that was recreated, or has lost records.
#
# * One release, one commit, one transaction, however large the table: a reader sees all of it or nothing. A table of
#   200,000 rows takes 10 s on two busy cores; how long Kafka lets a transaction last bounds it.
# * It holds the rows of the last commit, too, published or not, and what that commit says beside rows (dead letters),
#   if that is not published. So the output may be two commits behind the store, if the store's is such a one.
# * Whatever record is found in the output and is no row of the table gets a tombstone. Its number follows the highest
#   release that is found or known; in an empty output it is release 1, because a new changelog obeys all laws.
# * If there is no row and no such record, one tombstone of what is not there carries the headers: a release without a
#   record would tell readers nothing, and they refuse a log that has lost its beginning.
# * Readers are told that it did not come from the input, and that it is the whole table (`Meta.whole`): they drop every
#   earlier row, also those that no one knows any more. A replay has nothing of it to repeat, so it is not `outside`.
# * The topics' ids and beginnings are part of it, so that an unfinished one is known as such.


def by_slot(entry: OutboxEntry) -> tuple[str, int, bytes]:
    return entry.topic, len(entry.key), entry.key  # keys write slots without leading zeros


def beside_rows(waiting: Iterable[OutboxEntry]) -> list[OutboxEntry]:
    """The entries of a commit that are no rows. waiting: its entries in the outbox."""
    return [entry for entry in waiting if entry.topic not in OUTPUTS]


def _absences(
    table: Table, shard: int, qi_group_next: int, entries: Iterable[OutboxEntry], input_state: InputState
) -> list[OutboxEntry]:
    """A tombstone of what is not there for each topic that has held something and gets none of the entries.

    Its key is of QI group 1, whose number is not given again. So before there was one, nothing is said.
    """
    there = {entry.topic for entry in entries}
    silent = {kind for kind, (_, end) in input_state.reach.items() if end and kind not in there}
    cells = (0,) * len(table.attributes)
    never = PublishedGroup(cells, cells, ((b"null",) * len(table.kept),), (cells,))
    removals, _ = Changelog(table, shard).diff(1, never, None)
    return [entry for entry in removals if entry.topic in silent and qi_group_next > 1]


def whole_table(
    table: Table,
    shard: int,
    meta: Meta,
    input_state: InputState,
    qi_groups: Mapping[int, QIGroupState],
    waiting: Sequence[OutboxEntry],
    found: FoundRecords,
    records: Iterable[tuple[str, Record]] = (),
) -> Commit:
    """The commit after `meta` that publishes all rows of a shard, and `waiting` of its former commit beside them.

    found: what is there already. records: the source rows, for a form that publishes their cells. Raises ShardRefused
    if the QI groups are not those that `meta` was written with, or if the output holds later ones.
    """
    if found.release > meta.release or found.qi_group >= meta.qi_group_next:
        raise ShardRefused(
            f"shard {shard} of {table.name}: the output holds later releases than the store knows of, so the store has "
            f"lost commits; {remedies.publish_again(table.name, table.form)}"
        )
    cells = cells_by_group(table, ((record.qi_group, record.row.codes) for _, record in records))
    groups = Digested(sorted(qi_groups.items()))
    outbox, _ = _upserts(Changelog(table, shard), ((n, state, cells.get(n, ())) for n, state in groups))
    groups.check(table, shard, meta)
    there = {(row.topic, row.key) for row in outbox}
    gone = [OutboxEntry(topic, key, None) for topic, key in found.rows if (topic, key) not in there]
    rows = [*outbox, *sorted(gone, key=by_slot)]
    outbox = [*rows, *_absences(table, shard, meta.qi_group_next, rows, input_state), *beside_rows(waiting)]
    is_new = bool(kinds := set(live_kinds(table))) and kinds <= new_topics(meta, input_state)
    before = replace(meta, release=max(found.release, 0), last_of=found.last_of) if is_new else meta
    number, following = meta.commit + 1, with_topics(before.released(outbox, whole=True), input_state)
    begins = {kind: end for kind, (begin, end) in input_state.reach.items() if begin}
    return Commit(replace(following, commit=number, whole_at=number, begins=begins), outbox=outbox)
