"""The way out of one shard, as a protocol: what a broker has to do for it, and the position that it keeps.

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
"""Of positions. Increase it when a field is added: an old reader would ignore the field and misjudge the commit."""


class Position(msgspec.Struct, frozen=True):
    """Where the published table of a shard stands; written in the transaction of every commit.

    An offset alone does not name a commit: one that did not come from the input leaves `next` unchanged. What has no
    comment is as in `Meta`; a replay skips, retries and truncates as the position says.
    """

    commit: int
    next: int
    release: int
    qi_group_next: int
    outside: int
    digest: int
    skipped: tuple[int, ...] = ()
    live_id: str = ""  # of the `live` that holds the table, or of the two topics of a lossy join
    truncations: int = 0
    retried: tuple[tuple[int, int], ...] = ()
    format: int = FORMAT  # 1 if none is said

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
        """Shuts out the former writer of this shard, and ends the transaction that it may have left open."""

    def position(self) -> Position | None:
        """The last committed position of the shard, or None if nothing was ever published."""

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        """Publishes all records and the position, or nothing. Raises Fenced; ServerUnreachable: outcome unknown."""


# How a recreated `live` is recognized by the offsets of our own records, before a transaction ends:
#
# * Within one topic offsets only rise; in a recreated topic they begin at 0. Only the shard writes to its partition of
#   `live`. So its first record in another `live` gets an offset that the former one has passed.
# * Records of one transaction follow one another, so the offset of the last one gives that of the first: one answer is
#   asked for, not one per record.
# * The marker of one transaction may come before that record: the last one, if it was made known to `live` when there
#   was another already. A first release has at least k records, so the former `live` had passed that offset, too. (If
#   whole QI groups or cells are published, a first release may have one record. Then the topics' ids tell, at the next
#   question.)
# * If the former `live` was empty, nothing is missed in the new one.
# * The end is read before a take-over asks for the topics' ids: a `live` recreated before that question has another id,
#   one recreated later has another end.
# * Not seen: a `live` recreated after its records were taken (its id tells, at the next question), and one into which
#   another writer has written as much as the former one held (likewise).


class LiveEnd:
    """The offset after all records that a shard's part of `live` is known to hold.

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
        """Notes the offset of the last of `count` records; one below 0 if Kafka has not said it."""
        self.fell = self.fell or offset - (count - 1) < self.offset
        self.offset = offset + 1
