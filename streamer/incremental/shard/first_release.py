"""What a shard has held back of a snapshot, published as its first table: whole QI groups, commit by commit.

The rules of this file
----------------------
* All rows are in the store, pending. They are read from there once, in the order of their source keys, so that the same
  rows and the same seed give the same QI groups wherever and whenever that is done.
* One commit, one release, one transaction, where all records fit; more go out in several, each of whole QI groups. What
  has none yet stays pending in the store, and how many commits are done stands in `meta`.
* Who takes the shard over in between makes the same QI groups again, finds those that are stored among them, and goes
  on behind them. Where they are others (another version of streamer made them) the shard is refused.
* The commits count as `outside`: no reading of the input can repeat them, since not it alone decides when they come.

| dies | store | output | at the next take-over |
|---|---|---|---|
| while rows are held back | rows up to a commit | positions, letters | held back on, from `next` |
| before the first commit of the release | all rows, pending | the same | its end is found again; released |
| after a commit that is not the last | some QI groups, rows pending | that or one release less | the rest is released |
| after the last commit | the table | that or one release less | published, and read on |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from streamer.errors import LawViolated, ShardRefused
from streamer.incremental import mends
from streamer.incremental.groups.kept import QIGroupState
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.published_group import DIGEST_MASK
from streamer.incremental.shard.first_commits import (
    FirstTable,
    NewGroup,
    cut,
    has_rows,
    lines_of,
    loaded,
    prepare,
    rows_of,
    states_of,
)
from streamer.incremental.store.base import Commit, Meta, State
from streamer.incremental.store.snapshot import Snapshot
from streamer.incremental.topics import outputs_of
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.published_join import cells_by_group
from streamer.table.schema import Table


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
    snapshot is waited for. stored: the QI groups that commits before have made. Raises ShardRefused where these are
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
    """Raises ShardRefused where what was released before is not the beginning of what is to be released."""
    if {one.number: one.state for one in made} != dict(stored):
        raise ShardRefused(
            f"shard {shard} of {table.name}: the release of its snapshot was begun with other QI groups than this "
            f"streamer makes of the same rows; run the version that began it, or, {mends.begin_anew(table.name)}"
        )
