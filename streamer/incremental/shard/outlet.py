"""The way in and the way out of one shard, as a protocol: what a broker has to do for the loop, and in which words.

The rules of this file
----------------------
* All or nothing: the records of a commit and its position become visible together, or not at all.
* The position is read back only after the former writer was fenced: before, it could still move.
* Nothing here knows Kafka; files, a simulator and Kafka's transactions fulfil the same protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace

from streamer.incremental import mends
from streamer.incremental.kept_formats import check_format
from streamer.incremental.release.records import Outgoing
from streamer.incremental.store.base import Meta
from streamer.incremental.topics import output_id

FORMAT = 1
"""Of positions: whoever adds a field raises it, because a reader that passes over one knows a part of a commit."""


class Position(msgspec.Struct, frozen=True):
    """Where the published table of a shard stands; written in the transaction of every commit.

    An offset alone does not name a commit: one that did not come from the input leaves `next` unchanged. live_id: the
    id of the `live` that holds the table, or the ids of the two topics of a lossy join; a store that lost everything
    knows of no others. truncations: how many the shard heard of from others, and placed. retried: as in `Meta`; a
    replay has to apply the same messages in the same places. format: 1 is one that does not say it.
    """

    commit: int
    next: int
    release: int
    qi_group_next: int
    outside: int
    digest: int
    skipped: tuple[int, ...] = ()
    live_id: str = ""
    truncations: int = 0
    retried: tuple[tuple[int, int], ...] = ()
    format: int = FORMAT

    @classmethod
    def of(cls, meta: Meta) -> Position:
        return cls(
            meta.commit,
            meta.next,
            meta.release,
            meta.qi_group_next,
            meta.outside,
            meta.digest,
            meta.skipped,
            output_id(meta.topic_ids),
            meta.truncations,
            meta.retried,
        )

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, text: bytes) -> Position:
        """Raises ShardRefused where a newer streamer wrote more than is known here; DecodeError for no position."""
        check_format(text, FORMAT, "the last position", mends.publish_again(mends.SOME_TABLE))
        return replace(msgspec.json.decode(text, type=cls), format=FORMAT)


class Outlet(Protocol):
    """The way out of one shard. Every method may raise ServerUnreachable."""

    def fence(self) -> None:
        """Shuts out the former writer of this shard and resolves the transaction it may have left open."""

    def position(self) -> Position | None:
        """The last committed position of the shard, or None where nothing was ever published."""

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        """Publishes all records and the position, or nothing. Raises Fenced; ServerUnreachable: outcome unknown."""
