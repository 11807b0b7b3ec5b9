"""Whether what the store, the output and the input say of a shard fits together.

The rules of this file
----------------------
* The state belongs to this table.yaml, this input topic and this number of shards, or the shard is refused: a grown or
  recreated topic would double or drop people in silence.
* The input still holds what is needed and has not lost what was read: earliest <= next <= end.
* A store behind the output lacks messages, truncations that other shards said (`shard.truncations`), or what was tried
  again (`shard.retrying`).
* The store is at most one commit ahead of the output, because no batch is applied before the last one is published.
* A store behind the output can be repeated from the input, unless a commit on the way did not come from the input.
* A topic has an id, and one that was deleted and made again has another. A new `live` holds nothing of the table, and
  differences mean nothing there: it is given the whole table first, from a store that is not behind. New positions tell
  nothing: they are accepted where they say the same as the store, or where the whole table goes out anyway. New dead
  letters are a new beginning and no more. In a new control topic a shard says once more which truncation it knows of.
* A table that began anew, from its source, is one commit that did not come from the input. Until it is published, what
  the output says of the input is of no account: it may go on at a lower offset, or of another topic.
* The two topics of a lossy join are one table: where one of them alone was made anew, the shard is refused.
* Every refusal names what mends it (`incremental.mends`).
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from streamer.errors import ShardRefused
from streamer.incremental import mends
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.base import UNFINISHED, Meta
from streamer.incremental.topics import CHANGES, CONTROL, POSITIONS, output_id, outputs_of
from streamer.table.fingerprint import differences
from streamer.table.schema import Table


class Standing(Enum):
    """The store as seen from the output."""

    LEVEL = "the output holds what the store holds"
    AHEAD = "the store holds one commit that is not published yet"
    BEHIND = "the store has lost commits that are published"
    EMPTIED = "the output was made anew and needs the whole table"


def compare(table: Table, shard: int, meta: Meta, position: Position | None, input_state: InputState) -> Standing:
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
            f"anew: they are one table; {mends.publish_again(table.name, table.form)}"
        )
    if position is None and meta.commit == 0 and input_state.live_begun:
        raise ShardRefused(
            f"{name}: the output holds rows, but neither Redis nor the positions know of any; "
            f"{mends.begin_anew(table.name)}"
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
            f"one of them was restored from an earlier copy; {mends.publish_again(table.name, table.form)}"
        )
    if meta.commit == published and position is not None and position != Position.of(meta):
        raise ShardRefused(f"{name}: {_not_the_same(table, published)}")
    if emptied:
        return Standing.EMPTIED
    return Standing.LEVEL if meta.commit == published else Standing.AHEAD


def new_topics(meta: Meta, input_state: InputState) -> frozenset[str]:
    """The kinds of topics that were made since the last commit, by their ids."""
    return frozenset(kind for kind, id_ in input_state.topic_ids.items() if meta.topic_ids.get(kind) != id_)


def with_topics(meta: Meta, input_state: InputState) -> Meta:
    """With the ids of the topics as they are now; in a control topic that was made anew no request has its answer.

    Until a shard has said there what it has to (`to_say_again`), that topic counts as new.
    """
    answered = 0 if CONTROL in new_topics(meta, input_state) else meta.control_next
    ids = {**meta.topic_ids, **input_state.topic_ids, **({CONTROL: ""} if to_say_again(meta, input_state) else {})}
    return replace(meta, topic_ids=ids, control_next=answered)


def to_say_again(meta: Meta, input_state: InputState) -> str:
    """The id of a control topic that was made anew and may lack what other shards have not heard; "" where none does.

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
    """Raises ShardRefused where another table.yaml tells what the store means, or it holds a part of a table."""
    name = f"shard {shard} of {table.name}"
    if meta.fingerprint == UNFINISHED:
        raise ShardRefused(f"{name}: its table began anew and is not whole; {mends.begin_anew(table.name)}")
    if meta.fingerprint == table.fingerprint:
        return
    versions, parts = differences(meta.fingerprint, table.fingerprint)
    changed, mend = ", ".join(parts), mends.begin_anew(table.name)
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
            f"would come to other shards than their rows; {mends.begin_from_file(table.name)}"
        )
    if CHANGES in new:
        raise ShardRefused(
            f"{name}: the input topic was made anew since, and its offsets mean other rows now; "
            f"{mends.begin_anew(table.name)}"
        )


def _check_bounds(name: str, table: Table, meta: Meta, reached: int, input_state: InputState) -> None:
    if meta.next < input_state.earliest:
        raise ShardRefused(
            f"{name}: the input is needed from offset {meta.next} on, but begins at {input_state.earliest}: it has "
            f"expired; {mends.begin_from_file(table.name)}"
        )
    if reached > input_state.end:
        raise ShardRefused(
            f"{name}: offset {reached} was reached, but the input ends at {input_state.end}: the topic has lost "
            f"messages; {mends.begin_from_file(table.name)}"
        )


def _check_repeatable(name: str, table: Table, meta: Meta, position: Position | None) -> None:
    """No reading of the input gives back what did not come from it, and no output is to be filled without it."""
    if position is not None and position.outside > meta.commit:
        raise ShardRefused(
            f"{name}: the store is at commit {meta.commit}, and commit {position.outside} did not come from the input, "
            f"so reading on cannot repeat it; {mends.begin_anew(table.name)}"
        )


def _without_positions(name: str, table: Table, emptied: bool) -> Standing:
    """Whether a store can go on where nothing says what was published of it."""
    if emptied:
        return Standing.EMPTIED  # nothing is: whatever the store holds is a whole table
    raise ShardRefused(
        f"{name}: the topic of positions was made anew, and nothing says any more what of the store is published; "
        f"{mends.publish_again(table.name, table.form)}"
    )


def _not_the_same(table: Table, commit: int) -> str:
    return f"commit {commit} is not the same in the store and in the output; {mends.begin_anew(table.name)}"


def _behind(name: str, table: Table, meta: Meta, position: Position, emptied: bool) -> Standing:
    """Whether a store that has lost commits can repeat them from the input.

    Not where it has another commit of the published number: one that the failover of a store brought back by losing a
    fence, and a former owner wrote.
    """
    if meta.commit == position.commit:
        raise ShardRefused(f"{name}: {_not_the_same(table, meta.commit)}")
    if emptied:
        raise ShardRefused(
            f"{name}: the store has lost commits, and the output was made anew and may hold some of them; "
            f"{mends.publish_again(table.name, table.form)}"
        )
    return Standing.BEHIND
