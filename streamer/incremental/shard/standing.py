"""Whether what the store, the output and the input say of a shard fits together.

The rules of this file
----------------------
* The state belongs to this table.yaml, this input topic and this number of shards, or the shard is refused: a grown or
  recreated topic would double or drop people in silence.
* The input still holds what is needed and has not lost what was read: earliest <= next <= end.
* The store is at most one commit ahead of the output, because no batch is applied before the last one is published.
* A store behind the output can be repeated from the input, unless a commit on the way did not come from the input.
"""

from __future__ import annotations

from enum import Enum

from streamer.errors import ShardRefused
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import CHANGES
from streamer.table.schema import Table


class Standing(Enum):
    """The store as seen from the output."""

    LEVEL = "the output holds what the store holds"
    AHEAD = "the store holds one commit that is not published yet"
    BEHIND = "the store has lost commits that are published"


def compare(table: Table, shard: int, meta: Meta, position: Position | None, input_state: InputState) -> Standing:
    """Where the store stands against the output; raises ShardRefused where the three do not fit together."""
    name = f"shard {shard} of {table.name}"
    _check_identity(name, table, meta, input_state)
    _check_bounds(name, meta, position, input_state)
    if position is not None and position.next > meta.next:
        if position.outside > meta.commit:
            raise ShardRefused(
                f"{name}: the store is at commit {meta.commit}, and commit {position.outside} did not come from the "
                "input, so reading the input again cannot repeat it; the table has to be read again from its source"
            )
        return Standing.BEHIND
    published = position.commit if position else 0
    if meta.commit == published + 1:
        return Standing.AHEAD
    if meta.commit != published:
        raise ShardRefused(
            f"{name}: the store is at commit {meta.commit}, the output at {published}: positions were lost, or the "
            "store was restored from elsewhere; the table has to be read again from its source"
        )
    if position is not None and position != Position.of(meta):
        raise ShardRefused(f"{name}: commit {published} is not the same in the store and in the output")
    return Standing.LEVEL


def _check_identity(name: str, table: Table, meta: Meta, input_state: InputState) -> None:
    if meta.fingerprint != table.fingerprint:
        raise ShardRefused(
            f"{name}: table.yaml has changed since this state was written; restore it, or clear the shard's state and "
            "its output topics and read the input again from the start"
        )
    if meta.topic_ids.get(CHANGES) != input_state.topic_id:
        raise ShardRefused(f"{name}: the input topic was made anew since; its offsets mean other rows now")
    if meta.shards != input_state.shards:
        raise ShardRefused(
            f"{name}: the input topic had {meta.shards} partitions and has {input_state.shards} now, so source keys "
            "would come to other shards than their rows; the table has to be read again from its source"
        )


def _check_bounds(name: str, meta: Meta, position: Position | None, input_state: InputState) -> None:
    if meta.next < input_state.earliest:
        raise ShardRefused(
            f"{name}: the input is needed from offset {meta.next} on, but begins at {input_state.earliest}: it has "
            "expired; the table has to be read again from its source"
        )
    reached = max(meta.next, position.next if position else 0)
    if reached > input_state.end:
        raise ShardRefused(
            f"{name}: offset {reached} was reached, but the input ends at {input_state.end}: the topic has lost "
            "messages or was made anew"
        )
