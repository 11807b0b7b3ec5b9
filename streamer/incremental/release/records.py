"""Records on their way out of a shard: as they stand in the outbox, and as they are published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Entry:
    """One record on its way out: `topic` is the kind ("live", "dead-letters"); value None is a tombstone."""

    topic: str
    key: bytes = field(repr=False)
    value: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One record to publish; `topic` is "live" or "dead-letters", value None a tombstone."""

    topic: str
    key: bytes = field(repr=False)
    value: bytes | None = field(repr=False)
    headers: tuple[tuple[str, bytes], ...]


def outgoing(entries: Sequence[Entry], release: int, through: int) -> list[Outgoing]:
    """Outbox entries of one commit, with the headers that tell a reader where its release ends.

    through: the first source offset that the commit has not applied.
    """
    totals = Counter(entry.topic for entry in entries)
    headers = ("release", b"%d" % release), ("through", b"%d" % through)
    seen: Counter[str] = Counter()
    records = []
    for entry in entries:
        seen[entry.topic] += 1
        part = ("part", b"%d/%d" % (seen[entry.topic], totals[entry.topic]))
        records.append(Outgoing(entry.topic, entry.key, entry.value, (headers[0], part, headers[1])))
    return records
