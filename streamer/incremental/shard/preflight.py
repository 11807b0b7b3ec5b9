"""The checks of a take-over: do table.yaml, input, output and store fit together?

The rules of this file
----------------------
* The state belongs to this table.yaml, this input topic and this number of shards, or the shard is refused: a grown or
  recreated topic would double or drop people in silence.
* The input still holds what is needed, and has not lost what was read: earliest <= next <= end.
* The input is the one that was read: where it still holds the message that was read last, that message is unchanged.
  A broker that lost the end of a log and took new messages after that has others there.
* The store is at most one commit ahead of the output, because no batch is applied before the last one is published. If
  it is further ahead, the positions have lost their end.
* A store behind the output lacks messages, retried messages (`shard.retrial`), or ends of epochs (`shard.sealing`). The
  input is read again, unless a commit on the way did not come from the input.
* A recreated topic has another id. A topic of published rows may also end below the end that the position names, or
  begin later than it did: compaction moves neither. Then a difference would mean nothing there: the whole table is
  published in one release, from a store that is not behind. So it is if the positions were recreated or have lost their
  end, because nothing says then what is published. Recreated dead letters need nothing.
* A table that was reloaded from its source is one commit that did not come from the input. Until it is published, it
  does not matter what the output says of the input: the offset may be lower, or of another topic.
* The secret in the store is the one that the control topic keeps. Where only one of them has it, the other gets it.
* QI groups that an older version of the engine kept are legal if they hold the model: they are adopted, in one commit
  that does not come from the input. Commits that the store lost are repeated only by the version that decided them. A
  newer version's state is refused.
* A topic of cohorts that was recreated, or has lost records, cannot be written again (`shard.sealing`).
* Every refusal names its remedy (`incremental.remedies`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import Enum
from operator import attrgetter, gt

from streamer.errors import ShardRefused
from streamer.incremental import remedies
from streamer.incremental.engine.stored_state import QIGroupState
from streamer.incremental.release.records import DIGEST_MASK, PublishedGroup, group_hash
from streamer.incremental.shard import sealing
from streamer.incremental.shard.input import InputState, KeptSecret, is_same
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.base import UNFINISHED, LastRead, Meta
from streamer.incremental.topics import CHANGES, CONTROL, POSITIONS, SEALED, live_kinds, output_id
from streamer.table.schema import Table, precedes, version_of


class Consistency(Enum):
    """The store as seen from the output."""

    LEVEL = "the output holds what the store holds"
    AHEAD = "the store holds one commit that is not published yet"
    BEHIND = "the store has lost commits that are published"
    INCOMPLETE = "the output was recreated or has lost records, and needs the whole table"


def compare(table: Table, shard: int, meta: Meta, position: Position | None, input_state: InputState) -> Consistency:
    """Compares the store with the output. Raises ShardRefused if the two and the input do not fit together."""
    name, new = f"shard {shard} of {table.name}", new_topics(meta, input_state)
    check_written_for(table, shard, meta)
    _check_input(name, table, meta, input_state, new)
    published = position.commit if position else 0
    reloaded = position is not None and meta.outside == meta.commit == published + 1
    reached = meta.next if position is None or reloaded else max(meta.next, position.next)
    _check_bounds(name, table, meta, reached, input_state)
    _check_last_read(name, table, meta, position, input_state)
    if position is None and meta.commit == 0 and input_state.live_begun:
        raise ShardRefused(
            f"{name}: the output holds rows, but neither Redis nor the positions know of any; "
            f"{remedies.reload(table.name)}"
        )
    _check_repeatable(name, table, meta, position)
    sealing.check(table, name, meta, position, input_state, new)
    recreated = not new.isdisjoint(live_kinds(table))
    if meta.whole_at == meta.commit > published and not recreated:
        return Consistency.AHEAD  # by a whole table, whatever the output has lost before
    unknown = position is None and POSITIONS in new
    incomplete = meta.commit > 0 and (recreated or unknown or bool(lost_records(meta, position, input_state)))
    live_id = output_id(input_state.topic_ids)
    if position is not None and (reached > meta.next or (not reloaded and _lacks(meta, position))):
        # an emptied store cannot tell that the table of the position is in a `live` that is gone
        return _behind(name, table, meta, position, incomplete or live_id not in ("", position.live_id))
    if meta.commit < published:
        raise ShardRefused(
            f"{name}: the store is at commit {meta.commit}, the output at {published}: one of them was restored from "
            f"an earlier copy; {remedies.publish_again(table.name, table.form)}"
        )
    if meta.commit == published and position is not None and not position.is_of(meta):
        raise ShardRefused(f"{name}: {_not_the_same(table, published)}")
    if incomplete or meta.commit > published + 1:
        return Consistency.INCOMPLETE
    return Consistency.LEVEL if meta.commit == published else Consistency.AHEAD


def lost_records(meta: Meta, position: Position | None, input_state: InputState) -> list[str]:
    """The kinds of topics with published rows that end or begin elsewhere than they did: they have lost records."""
    begun = {**meta.begins, **(position.begins if position else {})}
    ended = position.ends if position and position.live_id == output_id(input_state.topic_ids) else {}
    return [
        kind
        for kind, (begin, end) in input_state.reach.items()
        if kind != SEALED
        if end < ended.get(kind, 0) or begin > begun.get(kind, 0)
    ]


def message_read_last(meta: Meta | None, position: Position | None) -> LastRead | None:
    """The last message that store or output know to have been read."""
    reloaded = meta is not None and position is not None and meta.outside == meta.commit == position.commit + 1
    said = [known.read for known in (meta, None if reloaded else position) if known is not None and known.read]
    return max(said, key=attrgetter("offset"), default=None)


def new_topics(meta: Meta, input_state: InputState) -> frozenset[str]:
    """The kinds of topics that were created since the last commit, by their ids."""
    return frozenset(kind for kind, id_ in input_state.topic_ids.items() if meta.topic_ids.get(kind) != id_)


def with_topics(meta: Meta, input_state: InputState) -> Meta:
    """With the ids of the topics as they are now. In a recreated control topic no request has its answer."""
    answered = 0 if CONTROL in new_topics(meta, input_state) else meta.control_next
    return replace(meta, topic_ids={**meta.topic_ids, **input_state.topic_ids}, control_next=answered)


def _lacks(meta: Meta, position: Position) -> bool:
    """True if more messages were retried, or more epochs ended, than the store knows."""
    known, published = ((len(one.retried), sealing.epoch_of(one)) for one in (meta, position))
    return any(map(gt, published, known))


def check_written_for(table: Table, shard: int, meta: Meta) -> None:
    """Raises ShardRefused if another table.yaml or a newer engine kept the state, or it is a part of a table."""
    name = f"shard {shard} of {table.name}"
    if meta.fingerprint == UNFINISHED:
        raise ShardRefused(f"{name}: its table is loaded only in part; {remedies.reload(table.name)}")
    if meta.fingerprint == table.fingerprint:
        return
    versions, parts = table.differences(meta.fingerprint)
    changed, mend = ", ".join(parts), sealing.mend_change(table, meta, parts)
    if versions is None or precedes(*versions):
        if not parts:
            return
        raise ShardRefused(
            f"{name}: table.yaml has changed since this state was written ({changed}); restore it, or {mend}"
        )
    kept, ours = versions[0] or "5 or a lower one", versions[1]
    why = "which is older and does not read it" if versions[0] else "and the state does not say of which table.yaml"
    also = f"; table.yaml has changed, too ({changed})" if parts else ""
    run = "newer streamer" if versions[0] else "version that kept it"
    raise ShardRefused(
        f"{name}: the state was kept by engine version {kept}, and this streamer's is {ours}, {why}{also}; run the "
        f"{run}, or {mend}"
    )


def check_secret(table: Table, shard: int, meta: Meta | None, kept: KeptSecret | None) -> None:
    """Raises ShardRefused if the store and the control topic hold different secrets of a shard."""
    if meta is not None and kept is not None and kept.secret not in (b"", meta.secret):
        raise ShardRefused(
            f"shard {shard} of {table.name}: Redis has another secret than the control topic, so one of them is a copy "
            "of another table, or of this one from before it was recreated; restore Redis from a copy that fits, or "
            f"{remedies.reload(table.name)}"
        )


def former_version(table: Table, meta: Meta) -> str:
    """The older version of the engine that kept a state which is to be adopted; "" if ours kept it."""
    return "" if meta.fingerprint == table.fingerprint else version_of(meta.fingerprint)


def _check_input(name: str, table: Table, meta: Meta, input_state: InputState, new: frozenset[str]) -> None:
    if meta.shards != input_state.shards:
        raise ShardRefused(
            f"{name}: the input topic had {meta.shards} partitions and has {input_state.shards} now, so source keys "
            f"would come to other shards than their rows; {remedies.reload_from_file(table.name)}"
        )
    if CHANGES in new:
        raise ShardRefused(
            f"{name}: the input topic was recreated since, and its offsets mean other rows now; "
            f"{remedies.reload(table.name)}"
        )


def _check_bounds(name: str, table: Table, meta: Meta, reached: int, input_state: InputState) -> None:
    if meta.next < input_state.earliest:
        raise ShardRefused(
            f"{name}: the input is needed from offset {meta.next} on, but begins at {input_state.earliest}: it has "
            f"expired; {remedies.reload_from_file(table.name)}"
        )
    if reached > input_state.end:
        raise ShardRefused(
            f"{name}: offset {reached} was reached, but the input ends at {input_state.end}: the topic has lost "
            f"messages; {remedies.reload_from_file(table.name)}"
        )


def _check_last_read(name: str, table: Table, meta: Meta, position: Position | None, input_state: InputState) -> None:
    last = message_read_last(meta, position)
    if last is None:
        return
    secret = meta.secret if last == meta.read else b""  # a store that was emptied has another one than the position
    for found in input_state.again:
        if found is None or not is_same(found, last, secret):
            raise ShardRefused(
                f"{name}: the input holds another message, or none, at offset {last.offset}, where the last one was "
                "read: the topic has lost its end, and new messages have taken the place of those that were applied; "
                f"{remedies.reload_from_file(table.name)}"
            )


def _check_repeatable(name: str, table: Table, meta: Meta, position: Position | None) -> None:
    """Raises ShardRefused if the store lost a commit that did not come from the input: reading on cannot repeat it."""
    if position is not None and position.outside > meta.commit:
        kept, by = version_of(meta.fingerprint), ""
        if meta.commit and position.engine not in ("", kept):
            by = f", kept by engine version {kept}; since then version {position.engine} has adopted its QI groups"
        raise ShardRefused(
            f"{name}: the store is at commit {meta.commit}{by}, and commit {position.outside} did not come from the "
            f"input, so reading on cannot repeat it; {remedies.reload(table.name)}"
        )


def _not_the_same(table: Table, commit: int) -> str:
    return f"commit {commit} is not the same in the store and in the output; {remedies.reload(table.name)}"


def _behind(name: str, table: Table, meta: Meta, position: Position, emptied: bool) -> Consistency:
    """Refuses a store that has lost commits and cannot repeat them from the input.

    It cannot if it has another commit of the published number: a failover that lost a fence let a former owner write.
    """
    if meta.commit == position.commit:
        raise ShardRefused(f"{name}: {_not_the_same(table, meta.commit)}")
    if emptied:
        raise ShardRefused(
            f"{name}: the store has lost commits, and the output was recreated and may hold some of them; "
            f"{remedies.publish_again(table.name, table.form)}"
        )
    kept, ours = version_of(meta.fingerprint), version_of(table.fingerprint)
    decided = position.engine or kept or ours  # a former streamer's position does not say it
    if decided != ours:
        raise ShardRefused(
            f"{name}: the store has lost commits that engine version {decided} decided, and this streamer's is {ours}: "
            f"it makes another table of the same messages; run version {decided} until it has read them again, then "
            f"this one, or {remedies.reload(table.name)}"
        )
    return Consistency.BEHIND


def first_meta(table: Table, input_state: InputState) -> Meta:
    """The meta of a shard that never committed."""
    return Meta(shards=input_state.shards, fingerprint=table.fingerprint, topic_ids=dict(input_state.topic_ids))


class Digested:
    """QI groups by number as a store hands them out, once.

    If a QI group is lost together with everything that names it, the rest fits together, and no one would ever remove
    its published rows. The digest is compared after the whole table is loaded: what another owner wrote meanwhile is
    found first, and is a Conflict.
    """

    def __init__(self, qi_groups: Iterable[tuple[int, QIGroupState]]) -> None:
        self._qi_groups, self._digest = qi_groups, 0

    def __iter__(self) -> Iterator[tuple[int, QIGroupState]]:
        for number, state in self._qi_groups:
            self._digest += group_hash(number, PublishedGroup(state.lo, state.hi, state.slots))
            yield number, state

    def check(self, table: Table, shard: int, meta: Meta) -> None:
        """Raises ShardRefused if these were not all the QI groups that `meta` was written with."""
        if self._digest & DIGEST_MASK != meta.digest:
            raise ShardRefused(
                f"shard {shard} of {table.name}: the QI groups in the store are not those of commit {meta.commit}; "
                f"{remedies.reload(table.name)}"
            )
