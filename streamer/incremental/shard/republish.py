"""The whole published table of a shard as one release, for an output that was made anew and holds nothing of it.

The rules of this file
----------------------
* One release, one commit, one transaction, however large the table: a reader sees all of it or nothing. Differences
  come only after it. It is release 1: a changelog that begins anew obeys all laws from its first record on.
* The release holds the rows of the last commit too, whether that commit was published or not. What it had to say beside
  rows (dead letters) goes out before, with its position: else a crash in between would leave the output two commits
  behind the store.
* Where readers find something in the new topic already, rows that the last commit removed are removed here as well: a
  worker has published into it before anybody saw that it was new.
* A table of 200,000 rows takes 10 s on two busy cores. How long Kafka lets a transaction last bounds it.
* The commit did not come from the input: it is marked as `outside`. The new topics' ids are part of it, so that what
  was begun is known to be unfinished until the whole table is on its way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from streamer.errors import ShardRefused
from streamer.incremental import mends
from streamer.incremental.groups.kept import QIGroupState, Record
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.published_group import DIGEST_MASK, PublishedGroup
from streamer.incremental.release.records import Entry
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.standing import with_topics
from streamer.incremental.store.base import Commit, Meta
from streamer.incremental.topics import OUTPUTS
from streamer.table.published_join import Cells, cells_by_group, distinct_cells
from streamer.table.schema import Table


def beside_rows(waiting: Iterable[Entry]) -> list[Entry]:
    """What of a commit is no published row. waiting: what the outbox holds of it."""
    return [entry for entry in waiting if entry.topic not in OUTPUTS]


def whole_table(
    table: Table,
    shard: int,
    meta: Meta,
    input_state: InputState,
    qi_groups: Mapping[int, QIGroupState],
    waiting: Sequence[Entry],
    records: Iterable[tuple[str, Record]] = (),
) -> Commit:
    """The commit after `meta` that publishes all rows of a shard. waiting: what the outbox holds of `meta`'s commit.

    records: the source rows, for a form that publishes their cells. Raises ShardRefused where the QI groups are not
    those that `meta` was written with.
    """
    cells = cells_by_group(table, ((record.qi_group, record.row.codes) for _, record in records))
    rows, digest = _rows(Changelog(table, shard), qi_groups, cells)
    if digest != meta.digest:
        raise ShardRefused(
            f"shard {shard} of {table.name}: the QI groups in the store are not those of commit {meta.commit}; "
            f"{mends.begin_anew(table.name)}"
        )
    number = meta.commit + 1
    outbox = [*rows, *(_removed(rows, waiting) if input_state.live_begun else ())]
    release = int(bool(outbox))
    now = with_topics(meta, input_state)
    return Commit(replace(now, commit=number, release=release, outside=number), outbox=outbox)


def _rows(
    changelog: Changelog, qi_groups: Mapping[int, QIGroupState], cells: Mapping[int, list[Cells]]
) -> tuple[list[Entry], int]:
    """All rows as upserts, by QI group and slot, and their digest."""
    rows: list[Entry] = []
    digest = 0
    for number, state in sorted(qi_groups.items()):
        records, change = changelog.diff(number, None, _published(state, cells.get(number, ())))
        rows += records
        digest += change
    return rows, digest & DIGEST_MASK


def _published(state: QIGroupState, cells: Sequence[Cells]) -> PublishedGroup:
    return PublishedGroup(state.lo, state.hi, state.slots, distinct_cells(cells))


def _removed(rows: Iterable[Entry], waiting: Iterable[Entry]) -> list[Entry]:
    """The tombstones among what waits, but for rows that are there again."""
    there = {row.key for row in rows}
    return [e for e in waiting if e.topic in OUTPUTS and e.value is None and e.key not in there]
