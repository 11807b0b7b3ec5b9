"""Reloads a shard's table from its source, whatever Redis and the output hold of it.

The rules of this file
----------------------
* The rows come in QI groups that a whole-table algorithm made. Only what the former state alone knows is kept: ids of
  statements, letters that are not published yet, which requests have answers. Messages are counted from the start.
* If there are several shards, what the control topic asks of them is history, as the rows are newer.
* Numbers go on: commits and QI groups above the highest that store, positions or output know, releases after the last
  one. So no reader of the old table mistakes a new QI group for an old one.
* What is removed is what readers have: the output is read to its end, after its former writer was shut out, and each
  record found there gets its tombstone, in whatever form it was written. It does not matter what Redis knew of it. Only
  the topics of the new form are read: if a table becomes a lossy join, or was one, the operator deletes the other ones.
* If all records fit (`RECORDS_MAX`), there is one commit, one release, one transaction; else several, each of whole QI
  groups: old ones are removed whole, new ones appear whole, so no reader sees a broken one. A store whose table is not
  whole yet belongs to no table.yaml (`UNFINISHED`), so no worker goes on with it.
* Every commit counts as `outside`: reading the input again cannot repeat it.
* A sealed changelog goes on (`shard.sealing`): its epoch is in the first commit, whole, so that a reload that is
  repeated finds what is published.
* The shard keeps the secret that the control topic or the store has. If it has none, a new one is in the control topic
  before the first commit.
* Before the first commit nothing is changed but who may write. A commit that was stored and not published is not
  published now. Its letters are, with a position that has the store's commit and does not fit. So the first commit is
  one ahead of the output, like every other.

| dies | store | output | what is next |
|---|---|---|---|
| before the first commit | old | old | a worker goes on as before, or another reload |
| the same, letters of the former commit are out | old | old, another position | a worker refuses; another reload |
| after a commit, not the last | a part of the new | that or one release less | a worker refuses; another reload |
| after the last commit, before it is published | new | one release less | a worker publishes it and reads on |
| after it is published | new | new | a worker reads on |

A reload may be repeated at any time: it begins from what it finds.

A shard is reloaded by one command at a time, which has claimed it. `whole_table` leaves the command's mark in all its
shards before the first one is written, which shuts workers out, and removes the marks when the last one has its rows.
If a worker has committed since the command read the shards, nothing is written: rows that were prepared on an older
state would take back what was published since, and `sealed` would publish these people twice. For the same reason, a
table with a sealed changelog never reads on before the offset that it has reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import msgspec

from streamer.errors import Conflict, LawViolated
from streamer.incremental.release.records import OutboxEntry, outgoing
from streamer.incremental.sealed.formation import Formation
from streamer.incremental.shard.commit import perform
from streamer.incremental.shard.first_commits import FoundShard, Prepared, beside_rows, by_slot, commits, has_rows
from streamer.incremental.shard.input import InputState, KeptSecret
from streamer.incremental.shard.outlet import FoundRecords, Outlet, Position, found_records
from streamer.incremental.shard.preflight import with_topics
from streamer.incremental.shard.ready import Publication, Ready, Unwritable
from streamer.incremental.shard.sealing import NOTHING_SEALED, epoch_of, reloaded
from streamer.incremental.store.base import Meta, Store
from streamer.incremental.topics import CONTROL, SEALED, output_id
from streamer.table.schema import Table

RECORDS_MAX = 100_000
"""Records of one release: their transaction takes some seconds of the time that Kafka gives it."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The result of a reload for one shard."""

    shard: int
    rows: int
    pending: int
    qi_groups: int
    removed: int  # records that were published before
    releases: int
    next: int
    cohorts: int  # sealed ones that were published
    cohorts_lost: int  # that the topic held and Redis did not know: they are retired


@dataclass(frozen=True, slots=True)
class Claimed:
    """A shard that a command has claimed."""

    name: str
    store: Store
    claim: str
    meta: Meta | None  # as it was when the command read the shard, before it read the input


@contextmanager
def whole_table(shards: Sequence[Claimed]) -> Iterator[None]:
    """In the block these shards are reloaded; if it fails, no worker serves one until another command ends well.

    Raises Conflict if a worker has committed since the command read the shards: then all is left as it was; Fenced if
    another command has claimed one since.
    """
    _check_unchanged(shards)  # before the marks, too: no worker is shut out in vain
    marked = [one for one in shards if one.store.tell_beginning(one.claim)]
    try:
        _check_unchanged(shards)
    except Conflict:
        for one in marked:
            one.store.tell_begun(one.claim)
        raise
    yield
    for one in shards:
        one.store.tell_begun(one.claim)


def _check_unchanged(shards: Sequence[Claimed]) -> None:
    for one in shards:
        now, then = one.store.meta() or Meta(), one.meta or Meta()
        if now != then:
            raise Conflict(WORKER_READ_ON.format(one.name, then.commit, then.next, now.commit, now.next))


WORKER_READ_ON = (
    "a worker has read on: {} was at commit {:,}, offset {:,} when this command began, and is at commit {:,}, offset "
    "{:,} now. Nothing was written, as these rows would take that back: stop the workers, then call this again"
)


def reload(
    table: Table,
    shard: int,
    store: Store,
    outlet: Outlet,
    input_state: InputState,
    prepared: Prepared,
    records_max: int = RECORDS_MAX,
    read_secret: Callable[[], KeptSecret | None] = lambda: None,
    form: Formation | None = None,
    now: float = 0.0,
) -> Begun:
    """Shuts out the shard's owner and gives the shard a new table. read_secret: what the control topic keeps.

    form: of sealed cohorts, if the table has any. now: seconds since 1970.

    Raises Fenced if someone else takes the shard over at the same time, Conflict if a worker has drawn a secret since
    the rows were prepared, ShardRefused if the store cannot be read, ServerUnreachable. The table above says what these
    leave behind.
    """
    fence = store.take_over()
    outlet.fence()
    _keep_secret(f"shard {shard} of {table.name}", read_secret(), prepared.first.secret, outlet)
    position, meta = outlet.position(), store.meta()
    store.check_fence(fence)  # nobody wrote between the two readings: they belong together
    published = found_records(outlet.published())
    found, seen = find(published, position, meta, input_state), published.sealed
    if meta is not None:
        answered = with_topics(meta, input_state).control_next
        found = replace(found, statement_ids=store.statement_ids(), control_next=answered)
        if meta.commit > (position.commit if position else 0):
            waiting = [entry for commit, entry in store.outbox() if commit == meta.commit]
            unwanted = {CONTROL} if seen.epoch < epoch_of(meta) else {CONTROL, SEALED}
            beside = [entry for entry in beside_rows(waiting) if entry.topic not in unwanted]
            letters = outgoing(beside, meta.release, meta.next)
            outlet.publish(letters, not_fitting(meta, position, found))
            if any(entry.topic == SEALED for entry in beside):
                seen = replace(seen, epoch=epoch_of(meta))
    if input_state.shards > 1:
        found = replace(found, control_next=max(found.control_next, input_state.control_end))
    sealed, before, releases = NOTHING_SEALED, meta.commit if meta else 0, 0
    if form is not None:
        former = (meta or Meta(), store.load())
        sealed = reloaded(table, shard, form, prepared.first.secret, prepared.first.rows, former, seen, now)
    for commit in commits(table, shard, input_state, prepared, found, records_max, sealed):
        number, publication = commit.meta.commit, Publication.of(commit.outbox, commit.meta)
        answer = perform(Ready(fence, before, commit, publication, number), store, outlet, input_state)
        if isinstance(answer, Unwritable):
            raise LawViolated(f"shard {shard} of {table.name}: its first table cannot be stored ({answer.what})")
        before, releases = number, releases + has_rows(commit.outbox)
    n_rows, n_groups = len(prepared.records), len(prepared.qi_groups)
    counts = (n_rows, prepared.n_pending, n_groups, found.n_records, releases)
    lost = len(seen.cohorts) if form is not None and seen.epoch > (epoch_of(meta) if meta else 0) else 0
    return Begun(shard, *counts, prepared.first.next, sealed.n_added, lost)


def known_secret(kept: KeptSecret | None, meta: Meta | None) -> bytes:
    """The secret of a shard, as the control topic or, if it is not there, the store has it; b"" if none has it."""
    return (kept.secret if kept is not None else b"") or (meta.secret if meta is not None else b"")


def _keep_secret(name: str, kept: KeptSecret | None, secret: bytes, outlet: Outlet) -> None:
    if kept is None or kept == KeptSecret(secret, is_current=True):
        return
    if kept.secret not in (b"", secret):
        raise Conflict(f"{name}: a worker has drawn its secret since the rows were prepared: call this again")
    outlet.keep_secret(secret)


def find(found: FoundRecords, position: Position | None, meta: Meta | None, input_state: InputState) -> FoundShard:
    """A shard as the records of its output, its position and its store show it."""
    release, last_of = found.release, dict(found.last_of)
    if position is not None and position.live_id == (output_id(input_state.topic_ids) or position.live_id):
        release = max(release, position.release)
        last_of |= {kind: max(last, last_of.get(kind, 0)) for kind, last in position.last_of.items()}
    said = [known for known in (position, meta) if known is not None]
    begun = meta.begins if meta else {}
    torn = {kind: end for kind, (begin, end) in input_state.reach.items() if begin > begun.get(kind, 0)}
    by_group: dict[int, list[OutboxEntry]] = {}
    for (topic, key), number in found.rows.items():
        by_group.setdefault(number, []).append(OutboxEntry(topic, key, None))
    return FoundShard(
        commit=max((known.commit for known in said), default=0),
        release=release,
        qi_group_next=max([found.qi_group + 1, *(known.qi_group_next for known in said)]),
        tombstones={number: sorted(entries, key=by_slot) for number, entries in sorted(by_group.items())},
        whole=meta.whole if meta else 0,
        begins={**begun, **torn},
        is_torn=bool(torn),
        last_of=last_of,
    )


def not_fitting(meta: Meta, position: Position | None, found: FoundShard) -> Position:
    """A position at the store's commit which says that the output lacks the rows of that commit."""
    said = position or Position(0, 0, max(found.release, 0), 1, 0, 0)
    return msgspec.structs.replace(
        said,
        commit=meta.commit,
        next=min(said.next, meta.next),
        qi_group_next=found.qi_group_next,
        outside=meta.commit,
        sealed=meta.sealed,
    )
