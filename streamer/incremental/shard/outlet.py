"""The way out of one shard, as a protocol: what a broker has to do for it, and the position that it keeps.

The rules of this file
----------------------
* All or nothing: the records of a commit and its position become visible together, or not at all.
* The position is read back only after the former writer was fenced: before, it could still move.
* Nothing here knows Kafka; files, a simulator and Kafka's transactions fulfil the same protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from streamer.incremental import remedies
from streamer.incremental.release.records import EPOCH_KEY, Outgoing
from streamer.incremental.sealed.stored_state import SealedMark
from streamer.incremental.store.base import LastRead, Meta
from streamer.incremental.store.codec import check_format
from streamer.incremental.topics import JOINED, LIVE, SEALED, output_id
from streamer.table.published.rows import qi_group_of
from streamer.table.schema import version_of

POSITION_FORMAT = 3
"""Of positions. Increase it when a field is added: an old reader would ignore the field and misjudge the commit."""


class Position(msgspec.Struct, frozen=True):
    """The published commit of a shard; written in the transaction of every commit.

    An offset alone does not name a commit: one that did not come from the input leaves `next` unchanged. What has no
    comment is as in `Meta`; a replay skips and retries as the position says. By `ends` and `read` it is seen
    that a topic has lost its end, even if new records have covered that.
    """

    commit: int
    next: int
    release: int
    qi_group_next: int
    outside: int
    digest: int
    skipped: tuple[int, ...] = ()
    live_id: str = ""  # of the `live` that holds the table, or of the two topics of a lossy join
    truncations: int = 0  # a former version counted them
    retried: tuple[tuple[int, int], ...] = ()
    last_of: Mapping[str, int] = {}
    read: LastRead | None = None
    whole: int = 0
    begins: Mapping[str, int] = {}
    ends: Mapping[str, int] = {}  # of the topics of published rows, by kind; their outlet knows them
    format: int = POSITION_FORMAT  # 1 if none is said
    engine: str = ""  # the version that published the commit; "": not known
    sealed: SealedMark | None = None

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
            retried=meta.retried,
            last_of=meta.last_of,
            read=meta.read,
            whole=meta.whole,
            begins=meta.begins,
            engine=version_of(meta.fingerprint),
            sealed=meta.sealed,
        )

    def is_of(self, meta: Meta) -> bool:
        """True if it says what the commit of `meta` published.

        A shard that has another secret now read the same message last; a former streamer did not say its engine, or
        counted truncations.
        """
        of_meta = Position.of(meta)
        said = replace(self, engine=self.engine or of_meta.engine, read=None, ends={}, truncations=0)
        return said == replace(of_meta, read=None)

    def to_json(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, text: bytes) -> Position:
        """Raises ShardRefused if a newer streamer wrote more than is known here; DecodeError for no position."""
        check_format(text, POSITION_FORMAT, "the last position", remedies.publish_again(remedies.SOME_TABLE))
        return replace(msgspec.json.decode(text, type=cls), format=POSITION_FORMAT)


class PublishedRecord(NamedTuple):
    """A published record; of a sealed changelog any but LIVE, which says nothing of what there is."""

    release: int  # -1: its transaction did not end; of a sealed changelog: the epoch
    key: bytes
    is_row: bool  # else a tombstone, or RETIRE
    topic: str = LIVE


@dataclass(frozen=True, slots=True)
class FoundSealed:
    """A shard's sealed changelog as it was found."""

    epoch: int = 0  # the last one
    cohorts: frozenset[str] = frozenset()  # those that are not retired


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """The output of a shard as it was found."""

    release: int = -1  # the highest; -1 if there is none
    qi_group: int = 0  # the highest number
    rows: Mapping[tuple[str, bytes], int] = field(default_factory=dict, repr=False)  # QI group by topic and key
    last_of: Mapping[str, int] = field(default_factory=dict)  # as in `Meta`
    sealed: FoundSealed = FoundSealed()


def found_records(records: Iterable[PublishedRecord]) -> FoundRecords:
    """The output that records leave, given in the order in which they were published."""
    release, highest, rows = -1, 0, dict[tuple[str, bytes], int]()
    last_of: dict[str, int] = {}
    epoch, cohorts = 0, set[str]()
    for record in records:
        if record.topic == SEALED:
            epoch = max(epoch, record.release)
            (cohorts.add if record.is_row else cohorts.discard)(record.key.decode())
            continue
        release = max(release, record.release)
        if record.topic in JOINED:
            last_of[record.topic] = max(last_of.get(record.topic, 0), record.release)
        _, number = qi_group_of(record.key)
        highest = max(highest, number if record.release >= 0 else 0)
        if record.is_row:
            rows[record.topic, record.key] = number
        else:
            rows.pop((record.topic, record.key), None)
    sealed = FoundSealed(epoch, frozenset(name for name in cohorts if not name.startswith(EPOCH_KEY)))
    return FoundRecords(release, highest, rows, last_of, sealed)


class Outlet(Protocol):
    """The way out of one shard. Every method may raise ServerUnreachable."""

    def fence(self) -> None:
        """Shuts out the former writer of this shard, and ends the transaction that it may have left open."""

    def position(self) -> Position | None:
        """The last committed position of the shard, or None if nothing was ever published."""

    def published(self) -> Iterable[PublishedRecord]:
        """All committed rows and tombstones of the shard up to the end, of every topic in its order."""

    def keep_secret(self, secret: bytes) -> None:
        """Writes the shard's secret into its partition of the control topic. Raises Fenced; ServerUnreachable."""

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        """Publishes all records and the position, which then says where the topics of rows end; or nothing.

        Raises Fenced; ServerUnreachable: outcome unknown.
        """


class DeafOutlet:
    """An outlet that has no other writer, publishes nothing and so holds nothing. Others say what they do besides."""

    def fence(self) -> None:
        pass

    def position(self) -> Position | None:
        return None

    def published(self) -> Iterable[PublishedRecord]:
        return ()

    def keep_secret(self, secret: bytes) -> None:
        pass

    def publish(self, records: Sequence[Outgoing], position: Position) -> None:
        pass


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


class LiveEnd(NamedTuple):
    """The end of a shard's part of `live`, as far as its writer knows.

    >>> end = LiveEnd(7).took(8)
    >>> end.offset, end.fell, end.took(0).fell
    (9, False, True)
    >>> end = LiveEnd(7).took(9, count=3)  # 7, 8, 9
    >>> end.fell, end.took(12, count=4).fell
    (False, True)
    >>> LiveEnd(7).after(3) == end.end == end.after(0)
    True
    """

    offset: int  # after all records that it is known to hold
    is_written: bool = False  # by its writer: the marker of a transaction follows
    fell: bool = False  # a record was taken at an offset that had been passed: `live` is another topic

    @property
    def end(self) -> int:
        """The offset after the marker."""
        return self.offset + self.is_written

    def after(self, count: int) -> int:
        """The `end` after one more transaction with `count` records here, if nobody else writes meanwhile."""
        return self.end + count + 1 if count else self.end

    def took(self, offset: int, count: int = 1) -> LiveEnd:
        """After `count` more records, the last one at `offset`; below 0: Kafka has not said it."""
        return LiveEnd(offset + 1, True, self.fell or offset - (count - 1) < self.offset)
