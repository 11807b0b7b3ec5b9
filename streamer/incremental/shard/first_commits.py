"""A first table of a shard as commits: each of whole QI groups, and of one release at most.

What was published before is removed in the same commits. The rows of a store and the records of the output are made
from one another's numbers: the QI groups of a prepared table are numbered from 1, and moved up to where numbers go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
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
    SimilarityList,
)
from streamer.incremental.events.changes import NO_MESSAGES, Counts
from streamer.incremental.events.source_position import SourcePosition
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import DIGEST_MASK, OutboxEntry, PublishedGroup
from streamer.incremental.shard.input import InputState
from streamer.incremental.store.base import UNFINISHED, Commit, Meta, Snapshot, State
from streamer.incremental.topics import OUTPUTS, outputs_of
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.published.groups import Cells, cells_by_group, distinct_cells
from streamer.table.schema import GROUPS, Table

LARGE_NUMBER = 10**15
"""Of a QI group: none will have a longer name."""

Name = TypeVar("Name")
Value = TypeVar("Value")
Portion = TypeVar("Portion", bound=Sized)


@dataclass(frozen=True, slots=True)
class FirstTable:
    """The rows of one shard in QI groups (arrays of row numbers; rows in none are pending), and where input goes on.

    next: the first source offset that is not in the rows. key_form: how the input writes message keys, "" unknown.
    counts, letters, statement_ids, skipped, truncated, log_seen: of the messages that the rows were read from, where
    they were. letters_from: as in `Meta`.
    """

    rows: EncodedRows
    qi_groups: Sequence[Ints]
    secret: bytes = field(repr=False)
    next: int
    key_form: str = ""
    counts: Counts = NO_MESSAGES
    letters: Sequence[OutboxEntry] = ()
    statement_ids: Sequence[str] = ()
    skipped: tuple[int, ...] = ()
    truncated: SourcePosition | None = None
    log_seen: bool = False
    letters_from: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A first table as a store keeps it, its QI groups numbered from 1."""

    first: FirstTable
    records: RecordColumns = field(repr=False)
    qi_groups: Mapping[int, QIGroupState] = field(repr=False)
    similarity: Mapping[int, SimilarityList] = field(repr=False)
    qi_group_next: int

    @property
    def n_pending(self) -> int:
        return len(self.records) - sum(len(state.members) for state in self.qi_groups.values())


@dataclass(frozen=True, slots=True)
class FoundShard:
    """What was there of a shard: the highest numbers that are known, and what removes every published record.

    release: the last one, -1 if nothing was published in these topics. tombstones: by QI group. control_next: the
    first request that has no answer yet. truncations: how many the shard has placed.
    """

    commit: int = 0
    release: int = -1
    qi_group_next: int = 1
    tombstones: Mapping[int, Sequence[OutboxEntry]] = field(default_factory=dict, repr=False)
    statement_ids: Sequence[str] = ()
    control_next: int = 0
    truncations: int = 0

    @property
    def n_records(self) -> int:
        return sum(map(len, self.tombstones.values()))


def prepare(table: Table, shard: int, shards: int, first: FirstTable) -> Prepared:
    """The first table, held to the model.

    Raises ConfigError if a row or the message of a QI group is too large, or a QI group breaks the model.
    """
    engine = Engine(table, shard, shards, first.secret)
    engine.load_initial(first.rows.source_keys, first.rows.rows(), first.rows.codes, first.qi_groups)
    drained = engine.drain()
    _check_messages(table, shard, drained.published)
    return Prepared(
        first,
        drained.records,  # into an empty table nothing is removed
        _present(drained.qi_groups),
        _present(drained.similarity),
        drained.qi_group_next,
    )


def _check_messages(table: Table, shard: int, published: Iterable[Seen]) -> None:
    """Raises ConfigError if a QI group does not fit into the one message of its form."""
    changelog = Changelog(table, shard)
    try:
        for _, _, after in published if table.form == GROUPS else ():
            changelog.diff(LARGE_NUMBER, None, after)
    except GroupTooLarge as error:
        raise ConfigError(f"initial load: {error}") from None


def _present(changed: Mapping[Name, Value | None]) -> dict[Name, Value]:
    """What is there of a net effect."""
    return {name: value for name, value in changed.items() if value is not None}


def commits(
    table: Table, shard: int, input_state: InputState, prepared: Prepared, found: FoundShard, records_max: int
) -> Iterator[Commit]:
    """The commits, each of one release at most, that turn whatever was there into the prepared table."""
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
        truncated=first.truncated,
        truncations=found.truncations,
        log_seen=first.log_seen,
        letters_from=first.letters_from if first.counts.messages else first.next,
    )
    changelog = Changelog(table, shard)
    cells = cells_by_group(
        table, ((record.qi_group, record.row.codes) for _, record in prepared.records.items() if record)
    )
    members = sum(len(state.slots) for state in prepared.qi_groups.values())
    records_of_new = members * len(outputs_of(table.form))  # at most: forms of fewer records have larger ones
    n = -(-(records_of_new + found.n_records + len(first.letters)) // records_max) or 1
    letters = cut([[letter] for letter in first.letters], n)
    removed = cut(list(found.tombstones.values()), n)
    new = cut([NewGroup(number, state) for number, state in sorted(prepared.qi_groups.items())], n)
    for i in range(n):
        outbox, digest = rows_of(changelog, new[i], cells, shift)
        outbox += [tombstone for tombstones in removed[i] for tombstone in tombstones]
        meta = replace(
            meta,
            commit=meta.commit + 1,
            outside=meta.commit + 1,
            release=meta.release + has_rows(outbox),
            digest=(meta.digest + digest) & DIGEST_MASK,
        )
        outbox += [letter for (letter,) in letters[i]]
        lines, states = lines_of(prepared, new[i], shift), states_of(new[i], shift)
        commit = Commit(meta, lines, states, outbox=outbox, replaces=i == 0, origins=loaded(states, meta.commit))
        yield commit if i < n - 1 else _last(commit, table, prepared, found, shift)


def _last(commit: Commit, table: Table, prepared: Prepared, found: FoundShard, shift: int) -> Commit:
    """The last commit also has what belongs to the table as a whole; from it on the table is one."""
    known = set(found.statement_ids)
    return replace(
        commit,
        meta=replace(commit.meta, fingerprint=table.fingerprint, release=max(commit.meta.release, 0)),
        records={**commit.records, **_pending(prepared)} if prepared.n_pending else commit.records,
        similarity={number + shift: _shifted(similar, shift) for number, similar in prepared.similarity.items()},
        statement_ids=[said for said in prepared.first.statement_ids if said not in known],
    )


def _pending(prepared: Prepared) -> dict[str, Record]:
    """The index table's lines of the rows that are in no QI group."""
    return {key: record for key, record in prepared.records.items() if record and record.qi_group == PENDING}


class NewGroup(NamedTuple):
    """A new QI group with its number in the prepared table."""

    number: int
    state: QIGroupState

    def __len__(self) -> int:
        return len(self.state.slots)


def rows_of(
    changelog: Changelog, groups: Iterable[NewGroup], cells: Mapping[int, Sequence[Cells]], shift: int
) -> tuple[list[OutboxEntry], int]:
    """New QI groups as upserts, and their digest. cells: of their rows, where the form publishes them."""
    rows: list[OutboxEntry] = []
    digest = 0
    for number, state in groups:
        published = PublishedGroup(state.lo, state.hi, state.slots, distinct_cells(cells.get(number, ())))
        records, change = changelog.diff(number + shift, None, published)
        rows += records
        digest += change
    return rows, digest


def lines_of(prepared: Prepared, groups: Sequence[NewGroup], shift: int) -> RecordColumns:
    """The index table's lines of some QI groups."""
    numbers = np.array([number + shift for number, _ in groups], dtype=np.int64)
    members = list(chain.from_iterable([state.members for _, state in groups]))
    return prepared.records.in_groups(members, np.repeat(numbers, [len(state.members) for _, state in groups]))


def states_of(groups: Iterable[NewGroup], shift: int) -> dict[int, QIGroupState]:
    return {number + shift: state for number, state in groups}


def loaded(numbers: Iterable[int], commit: int) -> dict[int, Origin]:
    """How QI groups of a first table came to be."""
    return dict.fromkeys(numbers, Origin("loaded", commit))


def _shifted(similar: SimilarityList, shift: int) -> SimilarityList:
    return SimilarityList(tuple((number + shift, degree) for number, degree in similar.neighbours), similar.floor)


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
    """Whether any of the entries is a published record or its removal."""
    return any(entry.topic in OUTPUTS for entry in entries)


# What a shard has held back of a snapshot, published as its first table: whole QI groups, commit by commit.
#
# * All rows are in the store, pending. They are read from there once, in the order of their source keys, so that the
#   same rows and the same seed give the same QI groups wherever and whenever that is done.
# * One commit, one release, one transaction, where all records fit; more go out in several, each of whole QI groups.
#   What has none yet stays pending in the store, and how many commits are done stands in `meta`.
# * Who takes the shard over in between makes the same QI groups again, finds those that are stored among them, and goes
#   on behind them. Where they are others (another version of streamer made them) the shard is refused.
# * The commits count as `outside`: no reading of the input can repeat them, since not it alone decides when they come.
#
# | dies | store | output | at the next take-over |
# |---|---|---|---|
# | while rows are held back | rows up to a commit | positions, letters | held back on, from `next` |
# | before the first commit of the release | all rows, pending | the same | its end is found again; released |
# | after a commit that is not the last | some QI groups, rows pending | that or one release less | the rest is released
# | | after the last commit | the table | that or one release less | published, and read on |


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
    """The commits that follow `meta`, each of one release at most, and leave the rows in the given QI groups.

    rows: those of `rows_in`; qi_groups: arrays of row numbers, rows in none stay pending. ended: why no more of the
    snapshot is waited for. stored: the QI groups that commits before have made. Raises ShardRefused if these are
    others than the given ones, ConfigError where a QI group breaks the model or is too large.
    """
    snapshot = meta.snapshot
    if snapshot is None:
        raise LawViolated(f"shard {shard} of {table.name}: there is no snapshot to be released")
    prepared = prepare(table, shard, meta.shards, FirstTable(rows, qi_groups, meta.secret, meta.next))
    records = len(outputs_of(table.form)) * sum(len(state.slots) for state in prepared.qi_groups.values())
    n = snapshot.of or -(-records // records_max) or 1
    runs = cut([NewGroup(number, state) for number, state in sorted(prepared.qi_groups.items())], n)
    _check_same(table, shard, [one for run in runs[: snapshot.released] for one in run], stored)
    cells = cells_by_group(
        table, ((record.qi_group, record.row.codes) for _, record in prepared.records.items() if record)
    )
    changelog = Changelog(table, shard)
    if not snapshot.released and not meta.release:
        meta = replace(meta, release=-1)  # nothing was ever published: the first release is 0
    for done in range(snapshot.released, n):
        outbox, digest = rows_of(changelog, runs[done], cells, shift=0)
        meta = replace(
            meta,
            commit=meta.commit + 1,
            outside=meta.commit + 1,
            release=meta.release + has_rows(outbox),
            qi_group_next=prepared.qi_group_next,
            digest=(meta.digest + digest) & DIGEST_MASK,
            snapshot=_after(snapshot, ended, done + 1, n),
        )
        meta = replace(meta, release=max(meta.release, 0))
        similarity = prepared.similarity if done == n - 1 else {}
        lines, states = lines_of(prepared, runs[done], 0), states_of(runs[done], 0)
        yield Commit(meta, lines, states, similarity, outbox=outbox, origins=loaded(states, meta.commit))


def _after(snapshot: Snapshot, ended: str, released: int, of: int) -> Snapshot:
    return msgspec.structs.replace(snapshot, ended=ended, released=released, of=of)


def _check_same(table: Table, shard: int, made: Sequence[NewGroup], stored: Mapping[int, QIGroupState]) -> None:
    """Raises ShardRefused if what was released before is not the beginning of what is to be released."""
    if {one.number: one.state for one in made} != dict(stored):
        raise ShardRefused(
            f"shard {shard} of {table.name}: the release of its snapshot was begun with other QI groups than this "
            f"streamer makes of the same rows; run the version that began it, or, {remedies.begin_anew(table.name)}"
        )
