"""Records on their way out of a shard: in the outbox, and as they are published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from itertools import repeat
from types import MappingProxyType

import msgspec

from streamer.errors import LawViolated
from streamer.incremental.topics import JOINED, SEALED
from streamer.table.row import Unshown, Values


class OutboxEntry(Unshown, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One record of the outbox: `topic` is the kind ("live", "dead-letters" ...); value None is a tombstone."""

    topic: str
    key: bytes
    value: bytes | None


class Outgoing(Unshown, frozen=True):
    """One record to publish; `topic` is the kind, value None a tombstone."""

    topic: str
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    at: int = 0  # its timestamp, in milliseconds since 1970; 0: when it is sent


EPOCH_KEY = "epoch-"
"""The beginning of the key of a record that ends an epoch; any other is about a cohort."""

OUTSIDE = ("outside", b"1")
"""The header of records that did not come from the input: of a table that was reloaded, or published again."""


def outgoing(
    entries: Sequence[OutboxEntry],
    release: int,
    through: int,
    outside: bool = False,
    whole: int = 0,
    begins: Mapping[str, int] = MappingProxyType({}),
    last_of: Mapping[str, int] = MappingProxyType({}),
) -> list[Outgoing]:
    """Outbox entries of one commit, with the headers that tell a reader where its release ends.

    through: the first source offset that the commit has not applied. outside: it did not come from the input. If two
    topics are one table, each record says how many records of the release are `beside` it in the other topic; if there
    is none, it names the release `after` which it stands: the last one before with records in that topic.
    whole, begins, last_of: as in `Meta`. Each later record repeats `whole` and `begins`, because compaction may drop
    all records of the release that held the whole table. Records of a sealed changelog have no headers, which would
    tell where in the input they come from, and the time of their epoch.
    """
    totals = Counter([entry.topic for entry in entries])
    of_release, of_through = ("release", b"%d" % release), ("through", b"%d" % through)
    announced = (*((OUTSIDE,) if outside else ()), *((("whole", b"%d" % whole),) if whole else ()))
    of_topic: dict[str, tuple[tuple[str, bytes], ...]] = {}
    for topic, other in JOINED.items():
        after = (("after", b"%d" % last_of[other]),) if other in last_of and not totals[other] else ()
        of_topic[topic] = (("beside", b"%d" % totals[other]), *after)
    for topic, offset in begins.items():
        of_topic[topic] = (*of_topic.get(topic, ()), ("begins", b"%d" % offset))
    after_part = {topic: (of_through, *of_topic.get(topic, ()), *announced) for topic in totals}
    records, times, parts = [], _epoch_times(entries), dict.fromkeys(totals, 0)
    for entry in entries:
        topic = entry.topic
        if topic == SEALED:
            records.append(Outgoing(topic, entry.key, entry.value, (), next(times)))
            continue
        parts[topic] += 1
        headers = (of_release, ("part", b"%d/%d" % (parts[topic], totals[topic])), *after_part[topic])
        records.append(Outgoing(topic, entry.key, entry.value, headers))
    return records


class _EpochTime(msgspec.Struct):
    """Of the record that ends an epoch (`streamer.incremental.sealed.records`)."""

    time: datetime


def _epoch_times(entries: Sequence[OutboxEntry]) -> Iterator[int]:
    """The time of the epoch of each record of a sealed changelog, in milliseconds since 1970.

    Raises LawViolated if the records do not end with an epoch.
    """
    n = 0
    for entry in entries:
        if entry.topic == SEALED:
            n += 1
            if entry.key.startswith(EPOCH_KEY.encode()):
                end = msgspec.json.decode(entry.value or b"", type=_EpochTime).time
                yield from repeat(1_000 * int(end.timestamp()), n)
                n = 0
    if n:
        raise LawViolated("records of an epoch without its end were to be published")


# The digest of a table is the sum mod 2^64 of one hash per QI group, withheld or not, of its number, box and values by
# slot. It is the same in all forms, depends on no order, and is updated group by group.

DIGEST_MASK = (1 << 64) - 1


class PublishedGroup(Unshown, frozen=True):
    """A QI group as readers see it."""

    lo: tuple[int, ...]  # the box, in cells
    hi: tuple[int, ...]
    slots: tuple[Values, ...]  # values of the kept columns by slot
    cells: tuple[tuple[int, ...], ...] = ()  # of its rows, each once, in order; () if the form does not publish them


_encode = msgspec.msgpack.Encoder().encode


def group_hash(qi_group: int, group: PublishedGroup | None) -> int:
    """A published QI group's share of the digest: 64 bits of BLAKE2b; 0 for none."""
    if group is None:
        return 0
    packed = _encode((qi_group, group.lo, group.hi, group.slots))
    return int.from_bytes(blake2b(packed, digest_size=8).digest(), "big")
