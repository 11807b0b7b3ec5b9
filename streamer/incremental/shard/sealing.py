"""The sealed changelog as a part of a shard: taken over, committed, repeated, and given a new table.

The rules of this file
----------------------
* What a batch did to rows goes to the publisher in the same commit, change by change. Its records wait in the outbox
  beside those of `live`, in the same transaction, and what it keeps is stored in the same call. So no cohort is formed
  twice, and what was stored is published as it is.
* An epoch that counts row changes ends between two of them. Batches decide nothing.
* An epoch that lasts a time ends when a `Tick` says so: on a quiet stream, too. Where that was, between which messages
  and retries, is a record of the shard's partition of the control topic, in the same transaction. A replay repeats it
  there (`EpochOver`).
* Ids are drawn by the shard's secret: a replay draws the same ones, and its digest shows that it forms the same
  cohorts.
* While a snapshot is held back, its rows wait in the pool, and no epoch ends.
* A table that is loaded is an epoch of its own, which ends with the first commit. In a reload people whose values stay
  are where they were. Others leave and come again, like after any change. A row whose former values are unknown counts
  as unchanged.
* If Redis has lost what was published, every cohort in the topic is retired, and none of the rows that are there now is
  published with the values that it has: nobody knows in which cohort it was.
* A topic that has lost cohorts is not repaired: whoever was in them would be published twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from streamer.errors import ConfigError, LawViolated, ShardRefused
from streamer.incremental import remedies
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import RowChange
from streamer.incremental.release.records import EPOCH_KEY, OutboxEntry
from streamer.incremental.sealed.alpha import check_alpha, frequencies
from streamer.incremental.sealed.formation import Formation
from streamer.incremental.sealed.publisher import Sealed, drawn_by
from streamer.incremental.sealed.records import SealedRecord, encode
from streamer.incremental.sealed.stored_state import NO_MARK, SealedChanges
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import FoundSealed, Position
from streamer.incremental.shard.requests import EpochOver
from streamer.incremental.store.base import Meta, State
from streamer.incremental.topics import CONTROL, SEALED
from streamer.table.encode import EncodedRows
from streamer.table.row import Row, Values
from streamer.table.schema import Table


@dataclass(frozen=True, slots=True)
class SealedPart:
    """The part of a commit that belongs to the sealed changelog."""

    entries: Sequence[OutboxEntry] = ()
    changes: SealedChanges | None = None

    @property
    def n_added(self) -> int:
        """The number of cohorts that it publishes."""
        return sum((entry.value or b"").startswith(b'{"record":"ADD"') for entry in self.entries)


NOTHING_SEALED = SealedPart()


def taken_over(
    table: Table, shard: int, form: Formation | None, meta: Meta, state: State | None, engine: Engine
) -> Sealed | None:
    """The publisher as the last commit left it; None: there is none. Raises ShardRefused."""
    if table.sealed is None or form is None:
        return None
    sealed = Sealed(table, shard, form, drawn_by(meta.secret))
    if state is None:
        return sealed
    try:
        sealed.restore(meta.sealed or NO_MARK, state.sealed, engine.rows_of)
    except (LawViolated, KeyError, ValueError):
        raise _damaged(table, shard, meta) from None
    if sealed.n_rows != engine.n_rows:
        raise _damaged(table, shard, meta)
    return sealed


def _damaged(table: Table, shard: int, meta: Meta) -> ShardRefused:
    return ShardRefused(
        f"shard {shard} of {table.name}: the sealed cohorts in the store are not those of commit {meta.commit}; "
        f"{remedies.reset_redis_and_reload(table.name)}"
    )


def committed(sealed: Sealed | None, changes: Iterable[RowChange], holds_back: bool, over: int | None) -> SealedPart:
    """The part of a commit of some row changes. over: the time of the epoch that ends after them, if one does.

    holds_back: whether no epoch ends.
    """
    if sealed is None:
        return NOTHING_SEALED
    if not holds_back and over is None:
        return SealedPart(list(_entries(sealed.take(changes))), sealed.drain())
    for change in changes:
        sealed.apply(change)
    epochs = [] if over is None else [sealed.end_epoch(over)]
    return SealedPart(list(_entries(epochs)), sealed.drain())


def _entries(epochs: Iterable[Iterable[SealedRecord]]) -> Iterator[OutboxEntry]:
    for records in epochs:
        for record in records:
            yield OutboxEntry(SEALED, *encode(record))


# -- the end of an epoch that lasts a time ----------------------------------------------------------------------------


def epoch_of(at: Meta | Position) -> int:
    """The last epoch that is over there."""
    return (at.sealed or NO_MARK).epoch


def said_of_end(meta: Meta, shard: int, seconds: int) -> OutboxEntry:
    """The record, in the shard's own partition, of an epoch that it ends at a time. meta: before it ends."""
    said = EpochOver(shard, epoch_of(meta) + 1, seconds, meta.next, len(meta.retried), truncations=0)
    return OutboxEntry(CONTROL, b"%d" % shard, said.to_json())


def to_repeat(
    table: Table, name: str, meta: Meta, position: Position, said: Iterable[EpochOver]
) -> tuple[EpochOver, ...]:
    """The ends of epochs that a store has lost, up to the published position, in order; said: by the shard.

    Raises ShardRefused if the clock ended one of them, and the control topic does not say when: a replay would wait.
    """
    by_epoch = {one.epoch: one for one in said}
    lost = range(epoch_of(meta) + 1, epoch_of(position) + 1)
    unsaid = [epoch for epoch in lost if epoch not in by_epoch]
    if unsaid and table.sealed is not None and table.sealed.epoch.seconds is not None:
        raise ShardRefused(
            f"{name}: Redis has lost epoch {unsaid[0]} of the sealed changelog, and so has the control topic, which "
            f"says when epochs end (was it recreated?): reading the input again cannot repeat it; restore "
            f"Redis from a copy that holds epoch {unsaid[-1]}, or {remedies.reload(table.name)}"
        )
    return tuple(by_epoch[epoch] for epoch in lost if epoch in by_epoch)


def check_snapshot(table: Table, name: str, rows: EncodedRows) -> None:
    """Raises ShardRefused if alpha cannot hide a value of the rows that a snapshot has brought."""
    try:
        check_alpha(table, frequencies(table, rows.values))
    except ConfigError as error:
        raise ShardRefused(
            f"{name}: its snapshot cannot be published in sealed cohorts: {error}; then, {remedies.reload(table.name)}"
        ) from None


# -- a take-over ------------------------------------------------------------------------------------------------------


def check(
    table: Table, name: str, meta: Meta, position: Position | None, found: InputState, new: Iterable[str]
) -> None:
    """Raises ShardRefused if the sealed changelog cannot go on with these topics."""
    if table.sealed is None:
        return
    if found.topic_ids and CONTROL not in found.topic_ids:
        raise ShardRefused(f"{name}: there is no control topic: `streamer topics create` makes it")
    if meta.commit and meta.sealed is None:
        raise ShardRefused(f"{name}: the state knows of no sealed changelog; {remedies.reload(table.name)}")
    begin, end = found.reach.get(SEALED, (0, 0))
    lost = begin > 0 or (position is not None and end < position.ends.get(SEALED, 0))
    if lost or (epoch_of(meta) and SEALED in new):
        raise ShardRefused(f"{name}: {remedies.sealed_is_lost(table.name)}")


def not_out_yet(
    table: Table, name: str, meta: Meta, found: FoundSealed, waiting: Sequence[OutboxEntry]
) -> Sequence[OutboxEntry]:
    """The waiting entries without epochs that readers find: the positions may have lost their end alone.

    Raises ShardRefused if readers find neither.
    """
    if found.epoch >= epoch_of(meta):
        return [entry for entry in waiting if entry.topic != SEALED]
    epochs = sum(entry.topic == SEALED and entry.key.startswith(EPOCH_KEY.encode()) for entry in waiting)
    if found.epoch < epoch_of(meta) - epochs:
        raise ShardRefused(f"{name}: {remedies.sealed_is_lost(table.name)}")
    return waiting


# -- a table that is loaded -------------------------------------------------------------------------------------------


DECIDES = frozenset({"columns", "privacy", "sealed"})
"""Parts of table.yaml that what was promised rests on; when epochs end may change."""


def mend_change(table: Table, meta: Meta, parts: Collection[str]) -> str:
    """The remedy for a table.yaml with other `parts`, given the cohorts that are published."""
    if table.sealed is None or not epoch_of(meta):
        return remedies.reload(table.name)
    if DECIDES.intersection(parts):
        return remedies.under_another_name(table.name)
    return f"{remedies.reload(table.name)}: the cohorts that are published stay"


def check_goes_on(table: Table, shard: int, meta: Meta | None, found: InputState) -> None:
    """Raises ShardRefused if a load cannot follow the cohorts that are published.

    They were published by a table.yaml that promised something else, or the topic has lost some of them.
    """
    if table.sealed is None:
        return
    name, known = f"shard {shard} of {table.name}", meta or Meta()
    if changed := sorted(DECIDES.intersection(table.differences(known.fingerprint).parts) if epoch_of(known) else ()):
        raise ShardRefused(
            f"{name}: its sealed changelog was written for another table.yaml ({', '.join(changed)}), and who was "
            f"published by both would be less protected than by either; {remedies.under_another_name(table.name)}"
        )
    recreated = found.topic_ids.get(SEALED, "") != known.topic_ids.get(SEALED, "")
    if (epoch_of(known) and recreated) or found.reach.get(SEALED, (0, 0))[0] > 0:
        raise ShardRefused(f"{name}: {remedies.sealed_is_lost(table.name)}")


def reloaded(
    table: Table,
    shard: int,
    form: Formation,
    secret: bytes,
    rows: EncodedRows,
    former: tuple[Meta, State | None],
    found: FoundSealed,
    now: float,
) -> SealedPart:
    """The epoch in which a shard gets these rows.

    former: what the store holds, before it is overwritten. found: what readers find in the topic. now: seconds since
    1970. Raises ShardRefused if the topic has lost cohorts.
    """
    meta, state = former
    mark = meta.sealed or NO_MARK
    if found.epoch < mark.epoch:
        raise ShardRefused(f"shard {shard} of {table.name}: {remedies.sealed_is_lost(table.name)}")
    sealed = Sealed(table, shard, form, drawn_by(secret))
    sealed.seconds = mark.seconds
    if found.epoch > mark.epoch or state is None:
        sealed.lose(found.epoch, found.cohorts, rows.source_keys if found.epoch else ())
        before: Mapping[str, Values] = {}
    else:
        before = {key: record.row.values for key, record in state.kept.records}
        nothing = Row((0,) * len(table.attributes), ())  # each row of the pool is written below, or leaves
        sealed.restore(mark, state.sealed, lambda keys: [nothing] * len(keys))
    now_there = dict(zip(rows.source_keys, rows.rows(), strict=True))
    for source_key in sealed.source_keys:
        row = now_there.pop(source_key, None)
        known = before.get(source_key, row.values if row is not None else ())
        sealed.apply(RowChange(source_key, known, row))
    for source_key, row in now_there.items():
        sealed.apply(RowChange(source_key, None, row))
    return committed(sealed, (), False, max(sealed.seconds, sealed.full(int(now))))
