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

from streamer.incremental import remedies
from streamer.incremental.release.records import Outgoing
from streamer.incremental.store.base import Meta
from streamer.incremental.store.codec import check_format
from streamer.incremental.topics import output_id

FORMAT = 1
"""Of positions: whoever adds a field raises it, because a reader that skips one knows a part of a commit."""


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
        """Raises ShardRefused if a newer streamer wrote more than is known here; DecodeError for no position."""
        check_format(text, FORMAT, "the last position", remedies.publish_again(remedies.SOME_TABLE))
        return replace(msgspec.json.decode(text, type=cls), format=FORMAT)


class Outlet(Protocol):
    """The way out of one shard. Every method may raise ServerUnreachable."""

    def fence(self) -> None:
        """Shuts out the former writer of this shard and resolves the transaction it may have left open."""

    def position(self) -> Position | None:
        """The last committed position of the shard, or None if nothing was ever published."""

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        """Publishes all records and the position, or nothing. Raises Fenced; ServerUnreachable: outcome unknown."""


# Where the part of `live` that one shard writes ends, and how that tells a `live` that was made anew.
#
# * Within one topic offsets only rise; in a topic recreated they begin at 0. Nobody but the shard writes to its
#   partition of `live`. So the first record of ours that another `live` takes gets an offset that the former has
#   passed, and it is known before the transaction ends, without a question. Differences alone are never seen in it.
# * Records that go out in one transaction stand one behind the other, so the offset of the last one tells that of the
#   first: one answer is asked for, not one per record.
# * Before that record there may be the marker of one transaction: the last one, made known to `live` when there was
#   another already. A first release has more than one record, k of them at least, so the former had passed that too.
#   (Where whole QI groups are published, or cells, a first release may have one record: then it is not seen here, and
#   the topics' ids tell, at the next question.)
# * Where the former held nothing, nothing is missed in the new one.
# * The end is read before a take-over asks for the topics' ids: a `live` made anew before that question has another id,
#   one that is recreated later has another end.
# * Not seen: a `live` made anew after its records were taken (its id tells, at the next question), and one into which
#   somebody else has written as much as the former held (likewise).


class LiveEnd:
    """The offset behind all records that a shard's part of `live` is known to hold.

    >>> end = LiveEnd(7)
    >>> end.took(8), end.offset, end.fell
    (None, 9, False)
    >>> end.took(0), end.took(1), end.fell
    (None, None, True)
    >>> end = LiveEnd(7)
    >>> end.took(9, count=3), end.fell  # 7, 8, 9
    (None, False)
    >>> end.took(12, count=4), end.fell
    (None, True)
    """

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.fell = False
        """Whether a record was taken at an offset that had been passed: `live` is another topic."""

    def took(self, offset: int, count: int = 1) -> None:
        """Takes note of the offset of the last of `count` records; one below 0 where Kafka has not told it."""
        self.fell = self.fell or offset - (count - 1) < self.offset
        self.offset = offset + 1
