"""What is checked when a shard is taken over: input, output and store must agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum

from streamer.errors import ShardRefused
from streamer.incremental import remedies
from streamer.incremental.engine.stored_state import QIGroupState, Record
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import DIGEST_MASK, OutboxEntry, PublishedGroup, group_hash
from streamer.incremental.shard.input import InputState, ShardInput
from streamer.incremental.shard.outlet import Outlet, Position
from streamer.incremental.store.base import UNFINISHED, Commit, Meta, Store
from streamer.incremental.topics import CHANGES, CONTROL, OUTPUTS, POSITIONS, output_id, outputs_of
from streamer.table.published.groups import Cells, cells_by_group, distinct_cells
from streamer.table.schema import Table, differences

# Whether what the store, the output and the input say of a shard fits together.
#
# * The state belongs to this table.yaml, this input topic and this number of shards, or the shard is refused: a grown
#   or recreated topic would double or drop people in silence.
# * The input still holds what is needed and has not lost what was read: earliest <= next <= end.
# * A store behind the output lacks messages, truncations that other shards said (`shard.truncations`), or what was
#   tried again (`shard.answers`).
# * The store is at most one commit ahead of the output, because no batch is applied before the last one is published.
# * A store behind the output can be repeated from the input, unless a commit on the way did not come from the input.
# * A topic has an id, and one that was deleted and made again has another. A new `live` holds nothing of the table, and
#   differences mean nothing there: it is given the whole table first, from a store that is not behind. New positions
#   tell nothing: they are accepted if they say the same as the store, or where the whole table goes out anyway. New
#   dead letters are a new beginning and no more. In a new control topic a shard says once more which truncation it
#   knows of.
# * A table that began anew, from its source, is one commit that did not come from the input. Until it is published,
#   what the output says of the input is of no account: it may go on at a lower offset, or of another topic.
# * The two topics of a lossy join are one table: where one of them alone was recreated, the shard is refused.
# * Every refusal names what mends it (`incremental.remedies`).


class Consistency(Enum):
    """The store as seen from the output."""

    LEVEL = "the output holds what the store holds"
    AHEAD = "the store holds one commit that is not published yet"
    BEHIND = "the store has lost commits that are published"
    EMPTIED = "the output was made anew and needs the whole table"


def compare(table: Table, shard: int, meta: Meta, position: Position | None, input_state: InputState) -> Consistency:
    """Where the store stands against the output; raises ShardRefused where the three do not fit together."""
    name = f"shard {shard} of {table.name}"
    new = new_topics(meta, input_state)
    check_written_for(table, shard, meta)
    _check_input(name, table, meta, input_state, new)
    begun_anew = position is not None and meta.outside == meta.commit == position.commit + 1
    reached = meta.next if position is None or begun_anew else max(meta.next, position.next)
    _check_bounds(name, table, meta, reached, input_state)
    outputs = set(outputs_of(table.form))
    emptied = meta.commit > 0 and not new.isdisjoint(outputs)
    if emptied and not outputs <= new:
        raise ShardRefused(
            f"{name}: of the topics that hold what is published, only {', '.join(sorted(new & outputs))} was made "
            f"anew: they are one table; {remedies.publish_again(table.name, table.form)}"
        )
    if position is None and meta.commit == 0 and input_state.live_begun:
        raise ShardRefused(
            f"{name}: the output holds rows, but neither Redis nor the positions know of any; "
            f"{remedies.begin_anew(table.name)}"
        )
    if position is None and meta.commit > 0 and (emptied or POSITIONS in new):
        return _without_positions(name, table, emptied)
    _check_repeatable(name, table, meta, position)
    if position is not None and (reached > meta.next or (not begun_anew and _lacks(meta, position))):
        return _behind(name, table, meta, position, emptied or _is_of_another_live(position, input_state))
    published = position.commit if position else 0
    if meta.commit not in (published, published + 1):
        raise ShardRefused(
            f"{name}: the store is at commit {meta.commit}, the output at {published}: positions were lost, or "
            f"one of them was restored from an earlier copy; {remedies.publish_again(table.name, table.form)}"
        )
    if meta.commit == published and position is not None and position != Position.of(meta):
        raise ShardRefused(f"{name}: {_not_the_same(table, published)}")
    if emptied:
        return Consistency.EMPTIED
    return Consistency.LEVEL if meta.commit == published else Consistency.AHEAD


def new_topics(meta: Meta, input_state: InputState) -> frozenset[str]:
    """The kinds of topics that were made since the last commit, by their ids."""
    return frozenset(kind for kind, id_ in input_state.topic_ids.items() if meta.topic_ids.get(kind) != id_)


def with_topics(meta: Meta, input_state: InputState) -> Meta:
    """With the ids of the topics as they are now; in a control topic that was recreated no request has its answer.

    Until a shard has said there what it has to (`to_say_again`), that topic counts as new.
    """
    answered = 0 if CONTROL in new_topics(meta, input_state) else meta.control_next
    ids = {**meta.topic_ids, **input_state.topic_ids, **({CONTROL: ""} if to_say_again(meta, input_state) else {})}
    return replace(meta, topic_ids=ids, control_next=answered)


def to_say_again(meta: Meta, input_state: InputState) -> str:
    """The id of a control topic that was recreated and may lack what other shards have not heard; "" if none does.

    A truncation that was said in the former one is lost with it. A store that lost everything cannot tell.
    """
    new = meta.commit == 0 or CONTROL in new_topics(meta, input_state)
    return input_state.topic_ids.get(CONTROL, "") if new and meta.shards > 1 else ""


def _lacks(meta: Meta, position: Position) -> bool:
    """Whether more was tried again, or more truncations were placed, than a store knows."""
    return position.truncations > meta.truncations or len(position.retried) > len(meta.retried)


def _is_of_another_live(position: Position, input_state: InputState) -> bool:
    """Whether the table of a position is in a `live` that is gone; an emptied store cannot tell."""
    known = output_id(input_state.topic_ids)
    return bool(known) and known != position.live_id


def check_written_for(table: Table, shard: int, meta: Meta) -> None:
    """Raises ShardRefused if another table.yaml tells what the store means, or it holds a part of a table."""
    name = f"shard {shard} of {table.name}"
    if meta.fingerprint == UNFINISHED:
        raise ShardRefused(f"{name}: its table began anew and is not whole; {remedies.begin_anew(table.name)}")
    if meta.fingerprint == table.fingerprint:
        return
    versions, parts = differences(meta.fingerprint, table.fingerprint)
    changed, mend = ", ".join(parts), remedies.begin_anew(table.name)
    if versions is None:
        raise ShardRefused(
            f"{name}: table.yaml has changed since this state was written ({changed}); restore it, or, {mend}"
        )
    kept, ours = versions[0] or "5 or a lower one", versions[1]
    also = f"; table.yaml has changed, too ({changed})" if parts else ""
    raise ShardRefused(
        f"{name}: the state was kept by engine version {kept}, and this streamer's is {ours}: the same messages come "
        f"to another table by it{also}; run the version that kept it, or, {mend}"
    )


def _check_input(name: str, table: Table, meta: Meta, input_state: InputState, new: frozenset[str]) -> None:
    if meta.shards != input_state.shards:
        raise ShardRefused(
            f"{name}: the input topic had {meta.shards} partitions and has {input_state.shards} now, so source keys "
            f"would come to other shards than their rows; {remedies.begin_from_file(table.name)}"
        )
    if CHANGES in new:
        raise ShardRefused(
            f"{name}: the input topic was made anew since, and its offsets mean other rows now; "
            f"{remedies.begin_anew(table.name)}"
        )


def _check_bounds(name: str, table: Table, meta: Meta, reached: int, input_state: InputState) -> None:
    if meta.next < input_state.earliest:
        raise ShardRefused(
            f"{name}: the input is needed from offset {meta.next} on, but begins at {input_state.earliest}: it has "
            f"expired; {remedies.begin_from_file(table.name)}"
        )
    if reached > input_state.end:
        raise ShardRefused(
            f"{name}: offset {reached} was reached, but the input ends at {input_state.end}: the topic has lost "
            f"messages; {remedies.begin_from_file(table.name)}"
        )


def _check_repeatable(name: str, table: Table, meta: Meta, position: Position | None) -> None:
    """No reading of the input gives back what did not come from it, and no output is to be filled without it."""
    if position is not None and position.outside > meta.commit:
        raise ShardRefused(
            f"{name}: the store is at commit {meta.commit}, and commit {position.outside} did not come from the input, "
            f"so reading on cannot repeat it; {remedies.begin_anew(table.name)}"
        )


def _without_positions(name: str, table: Table, emptied: bool) -> Consistency:
    """Whether a store can go on if nothing says what was published of it."""
    if emptied:
        return Consistency.EMPTIED  # nothing is: whatever the store holds is a whole table
    raise ShardRefused(
        f"{name}: the topic of positions was made anew, and nothing says any more what of the store is published; "
        f"{remedies.publish_again(table.name, table.form)}"
    )


def _not_the_same(table: Table, commit: int) -> str:
    return f"commit {commit} is not the same in the store and in the output; {remedies.begin_anew(table.name)}"


def _behind(name: str, table: Table, meta: Meta, position: Position, emptied: bool) -> Consistency:
    """Whether a store that has lost commits can repeat them from the input.

    Not if it has another commit of the published number: one that the failover of a store brought back by losing a
    fence, and a former owner wrote.
    """
    if meta.commit == position.commit:
        raise ShardRefused(f"{name}: {_not_the_same(table, meta.commit)}")
    if emptied:
        raise ShardRefused(
            f"{name}: the store has lost commits, and the output was made anew and may hold some of them; "
            f"{remedies.publish_again(table.name, table.form)}"
        )
    return Consistency.BEHIND


# The look around before a shard is taken over: whatever does not fit together is refused while nobody is shut out.
#
# A worker with another table.yaml, or with the address of another Kafka, must leave the one alone that serves the shard
# well.


def look(table: Table, shard: int, store: Store, outlet: Outlet, shard_input: ShardInput) -> None:
    """Raises ShardRefused if store, outlet and input do not fit together.

    The shard's present owner may be at work meanwhile: then only what its work does not change is compared.
    """
    before, position, meta = store.meta(), outlet.position(), store.meta()
    input_state = shard_input.state()
    if meta is not None and meta != before:
        position = Position.of(meta)
    compare(table, shard, meta or first_meta(table, input_state), position, input_state)


def first_meta(table: Table, input_state: InputState) -> Meta:
    """Where a shard stands that never committed."""
    return Meta(shards=input_state.shards, fingerprint=table.fingerprint, topic_ids=dict(input_state.topic_ids))


# The whole published table of a shard as one release, for an output that was recreated and holds nothing of it.
#
# * One release, one commit, one transaction, however large the table: a reader sees all of it or nothing. Differences
#   come only after it. It is release 1: a changelog that begins anew obeys all laws from its first record on.
# * The release holds the rows of the last commit too, whether that commit was published or not. What it had to say
#   beside rows (dead letters) goes out before, with its position: else a crash in between would leave the output two
#   commits behind the store.
# * Where readers find something in the new topic already, rows that the last commit removed are removed here as well: a
#   worker has published into it before anybody saw that it was new.
# * A table of 200,000 rows takes 10 s on two busy cores. How long Kafka lets a transaction last bounds it.
# * The commit did not come from the input: it is marked as `outside`. The new topics' ids are part of it, so that what
#   was begun is known to be unfinished until the whole table is on its way.


def beside_rows(waiting: Iterable[OutboxEntry]) -> list[OutboxEntry]:
    """What of a commit is no published row. waiting: what the outbox holds of it."""
    return [entry for entry in waiting if entry.topic not in OUTPUTS]


def whole_table(
    table: Table,
    shard: int,
    meta: Meta,
    input_state: InputState,
    qi_groups: Mapping[int, QIGroupState],
    waiting: Sequence[OutboxEntry],
    records: Iterable[tuple[str, Record]] = (),
) -> Commit:
    """The commit after `meta` that publishes all rows of a shard. waiting: what the outbox holds of `meta`'s commit.

    records: the source rows, for a form that publishes their cells. Raises ShardRefused if the QI groups are not
    those that `meta` was written with.
    """
    cells = cells_by_group(table, ((record.qi_group, record.row.codes) for _, record in records))
    rows, digest = _rows(Changelog(table, shard), qi_groups, cells)
    if digest != meta.digest:
        raise ShardRefused(
            f"shard {shard} of {table.name}: the QI groups in the store are not those of commit {meta.commit}; "
            f"{remedies.begin_anew(table.name)}"
        )
    number = meta.commit + 1
    outbox = [*rows, *(_removed(rows, waiting) if input_state.live_begun else ())]
    release = int(bool(outbox))
    now = with_topics(meta, input_state)
    return Commit(replace(now, commit=number, release=release, outside=number), outbox=outbox)


def _rows(
    changelog: Changelog, qi_groups: Mapping[int, QIGroupState], cells: Mapping[int, list[Cells]]
) -> tuple[list[OutboxEntry], int]:
    """All rows as upserts, by QI group and slot, and their digest."""
    rows: list[OutboxEntry] = []
    digest = 0
    for number, state in sorted(qi_groups.items()):
        records, change = changelog.diff(number, None, _published(state, cells.get(number, ())))
        rows += records
        digest += change
    return rows, digest & DIGEST_MASK


def _published(state: QIGroupState, cells: Sequence[Cells]) -> PublishedGroup:
    return PublishedGroup(state.lo, state.hi, state.slots, distinct_cells(cells))


def _removed(rows: Iterable[OutboxEntry], waiting: Iterable[OutboxEntry]) -> list[OutboxEntry]:
    """The tombstones among what waits, but for rows that are there again."""
    there = {row.key for row in rows}
    return [e for e in waiting if e.topic in OUTPUTS and e.value is None and e.key not in there]


# Whether a store hands out the QI groups that were published: their digest must be that of its `meta`.
#
# What is lost with all that names it leaves a table that fits together, and rows that nobody would ever take back.


class Digested:
    """QI groups by number as a store hands them out, once; `digest`: of those that were handed on."""

    def __init__(self, qi_groups: Iterable[tuple[int, QIGroupState]]) -> None:
        self._qi_groups = qi_groups
        self.digest = 0

    def __iter__(self) -> Iterator[tuple[int, QIGroupState]]:
        for number, state in self._qi_groups:
            self.digest += group_hash(number, PublishedGroup(state.lo, state.hi, state.slots))
            yield number, state

    def check(self, table_name: str, shard: int, meta: Meta) -> None:
        """Raises ShardRefused where these were not all the QI groups that `meta` was written with."""
        if self.digest & DIGEST_MASK != meta.digest:
            raise ShardRefused(
                f"shard {shard} of {table_name}: the QI groups in the store are not those of commit {meta.commit}; "
                f"{remedies.begin_anew(table_name)}"
            )
