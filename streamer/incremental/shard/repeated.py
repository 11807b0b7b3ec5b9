"""Where a shard stands that reads its input again, because the store lost commits that are published."""

from __future__ import annotations

from dataclasses import replace

from streamer.errors import ShardRefused
from streamer.incremental import mends
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.base import Meta
from streamer.table.schema import Table


def is_repeated(meta: Meta, target: Position) -> bool:
    """Whether all messages were read again, and all truncations placed, that are in the published table."""
    return meta.next >= target.next and meta.truncations >= target.truncations


def replayed(table: Table, shard: int, meta: Meta, target: Position) -> Meta:
    """Where a replay ends it takes over the published commit and release: what it rebuilt must be what is out.

    On the way it numbers its commits above the published one, so that none is taken for another.
    """
    if not is_repeated(meta, target):
        return replace(meta, commit=max(meta.commit, target.commit + 1))
    rebuilt, published = ((one.digest, one.qi_group_next, one.skipped) for one in (meta, target))
    if rebuilt != published:
        raise ShardRefused(
            f"shard {shard} of {table.name}: reading the input again does not give the published table of commit "
            f"{target.commit}: the input has changed, or another version of streamer published it, or Redis had lost "
            f"everything, and with it the secret by which the shard's chances were drawn; restore Redis from any "
            f"former copy and start the workers, or, {mends.begin_anew(table.name)}"
        )
    return replace(meta, commit=target.commit, release=target.release, outside=target.outside)
