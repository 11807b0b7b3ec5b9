"""The look around before a shard is taken over: whatever does not fit together is refused while nobody is shut out.

A worker with another table.yaml, or with the address of another Kafka, must leave the one alone that serves the shard
well.
"""

from __future__ import annotations

from streamer.incremental.shard.input import InputState, ShardInput
from streamer.incremental.shard.outlet import Outlet, Position
from streamer.incremental.shard.standing import compare
from streamer.incremental.store.base import Meta, Store
from streamer.table.schema import Table


def look(table: Table, shard: int, store: Store, outlet: Outlet, shard_input: ShardInput) -> None:
    """Raises ShardRefused where store, outlet and input do not fit together.

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
