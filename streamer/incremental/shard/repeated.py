"""Where a shard stands that reads its input again, because the store lost commits that are published."""

from __future__ import annotations

from dataclasses import replace

from streamer.errors import ShardRefused
from streamer.incremental import mends
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.base import Meta
from streamer.table.schema import Table


def is_repeated(meta: Meta, target: Position) -> bool:
    """Whether a replay has come to where it ends: all messages, all that was tried again, and all truncations."""
    again = meta.next >= target.next and len(meta.retried) >= len(target.retried)
    return again and meta.truncations >= target.truncations


def due_again(meta: Meta, target: Position) -> tuple[int, int] | None:
    """The next message that a replay has to try again, as in `Meta.retried`; None where there is no more."""
    return target.retried[len(meta.retried)] if len(meta.retried) < len(target.retried) else None


def replayed(table: Table, shard: int, meta: Meta, target: Position) -> Meta:
    """Where a replay ends it takes over the published commit and release: what it rebuilt must be what is out.

    On the way it numbers its commits above the published one, so that none is taken for another.
    """
    if not is_repeated(meta, target):
        return replace(meta, commit=max(meta.commit, target.commit + 1))
    rebuilt, published = ((one.digest, one.qi_group_next, one.skipped, one.retried) for one in (meta, target))
    if rebuilt != published:
        raise ShardRefused(
            f"shard {shard} of {table.name}: reading the input again does not give the published table of commit "
            f"{target.commit}: the input has changed, or another version of streamer published it, or Redis had lost "
            f"everything, and with it the secret by which the shard's chances were drawn; restore Redis from any "
            f"former copy and start the workers, or, {mends.begin_anew(table.name)}"
        )
    return replace(meta, commit=target.commit, release=target.release, outside=target.outside)


def cannot_repeat(table: Table, shard: int, offset: int, why: str) -> str:
    """What is said where a replay cannot apply what was tried again."""
    return (
        f"shard {shard} of {table.name}: offset {offset} was a dead letter that was tried again and applied, and "
        f"reading the input again cannot repeat that ({why}); restore Redis from a copy that holds it, or, "
        f"{mends.begin_anew(table.name)}"
    )
