"""The reader's side of the changelog: records in, the table of the last complete release out.

* Per shard, a release becomes visible after its last part, or after a record of another release. Until then the
  table is that of the release before, so every visible table is k-anonymous.
* Releases are compared for inequality only. A record of the newest release may come twice: it says what a slot holds,
  not what to do with it. The caller prevents older repetitions: `Subscription` skips offsets that it has read.
* A lossy join is two topics, and a release may have records in both. They become visible together: every record
  says how many there are `beside` it in the other topic. If the two topics wait for different releases, compaction
  has removed what they wait for: the earlier release goes first.
* `finish` says that nothing is missing although no last part was seen: at the end of a file, or of all that is
  committed.
* The rule holds from the first offset of an uncompacted log. On a compacted one past releases are mixed: the table
  counts from the moment when the fold reaches the end offset that was there at the start (`streamer.reader`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import NamedTuple

import pandas as pd

from streamer.errors import LawViolated, UsageError
from streamer.incremental.release.frames import PUBLISHED, frames
from streamer.incremental.topics import LIVE
from streamer.table.schema import Table


class ReleasePart(NamedTuple):
    """Which record of its release this is, from 1, and how many the release has."""

    number: int
    total: int


def parse_part(text: bytes) -> ReleasePart:
    """Reads the header `part`. Raises LawViolated.

    >>> parse_part(b"3/14")
    ReleasePart(number=3, total=14)
    """
    number, _, total = text.partition(b"/")
    if not (number.isdigit() and total.isdigit() and len(text) <= 40 and 1 <= int(number) <= int(total)):
        raise LawViolated("the part of a record is not of the form 3/14")
    return ReleasePart(int(number), int(total))


class FoldedRelease(NamedTuple):
    """One release of a shard; records: key and value in order, None for a tombstone."""

    shard: int
    number: int
    through: int
    records: list[tuple[bytes, bytes | None]]
    outside: bool = False  # its headers say that it did not come from the input


class _Announced:
    """The records of one release that one topic has had; whole: it will have no more of them."""

    __slots__ = ("beside", "release", "whole")

    def __init__(self, release: FoldedRelease, beside: int) -> None:
        self.release = release
        self.beside = beside
        self.whole = False


class _ShardFold:
    """Visible rows by key, and releases that are not visible yet, by topic."""

    __slots__ = ("rows", "waiting")

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.waiting: dict[str, deque[_Announced]] = {}

    def add(self, topic: str, release: FoldedRelease, record: tuple[bytes, bytes | None], beside: int) -> _Announced:
        """Adds a record; the topic's release before it is then whole."""
        announced = self.waiting.setdefault(topic, deque())
        if announced and announced[-1].release.number != release.number:
            announced[-1].whole = True
        if not announced or announced[-1].whole:
            announced.append(_Announced(release, beside))
        announced[-1].release.records.append(record)
        return announced[-1]

    def complete(self) -> list[FoldedRelease]:
        """Makes visible what is whole; returns the releases, oldest first."""
        visible = []
        while (ready := self._ready()) is not None:
            visible.append(self._show(ready))
        return visible

    def _ready(self) -> list[str] | None:
        """The topics whose first releases can become visible next, together."""
        whole = {topic: announced[0] for topic, announced in self.waiting.items() if announced and announced[0].whole}
        for topic, first in whole.items():
            if first.beside == 0:
                return [topic]
        if len(whole) < 2:
            return None
        lowest = min(first.release.number for first in whole.values())
        return [topic for topic, first in whole.items() if first.release.number == lowest]

    def finish(self) -> list[FoldedRelease]:
        """Makes visible all that has come, whole or not."""
        visible = []
        while numbers := {topic: announced[0].release.number for topic, announced in self.waiting.items() if announced}:
            lowest = min(numbers.values())
            visible.append(self._show([topic for topic, number in numbers.items() if number == lowest]))
        return visible

    def _show(self, topics: list[str]) -> FoldedRelease:
        first, *others = (self.waiting[topic].popleft().release for topic in topics)
        for other in others:
            first.records.extend(other.records)
        for key, value in first.records:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        return first


class Fold:
    """A published table, followed record by record.

    >>> from streamer.table.schema import KeptColumn, Table
    >>> fold = Fold(Table("people", ("id",), (), (KeptColumn("problem", sensitive=True),), k=2))
    >>> for slot in (0, 1):
    ...     key = b'{"qi_group":"0-1","slot":%d}' % slot
    ...     complete = fold.apply(0, 1, 2, key, b'{"qi_group":"0-1","problem":"flu"}', ReleasePart(slot + 1, 2))
    ...     print(len(complete), fold.n_rows)
    0 0
    1 2
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._shards: dict[int, _ShardFold] = {}

    def apply(
        self,
        shard: int,
        release: int,
        through: int,
        key: bytes,
        value: bytes | None,
        part: ReleasePart | None = None,
        topic: str = LIVE,
        beside: int = 0,
        outside: bool = False,
    ) -> list[FoldedRelease]:
        """Adds the next record of a shard in a topic; returns the releases that it made visible, oldest first.

        beside: how many records of the release the other topic has. outside: whether the record says that its release
        did not come from the input.
        """
        state = self._shards.get(shard)
        if state is None:
            state = self._shards[shard] = _ShardFold()
        announced = state.add(topic, FoldedRelease(shard, release, through, [], outside), (key, value), beside)
        announced.whole = part is not None and part.number == part.total
        return state.complete()

    def finish(self, shard: int | None = None) -> list[FoldedRelease]:
        """Makes visible what has come of `shard`, or of all: the caller knows that the releases are whole."""
        shards = self._shards.values() if shard is None else [self._shards.setdefault(shard, _ShardFold())]
        return [release for state in shards for release in state.finish()]

    def is_whole(self, shard: int) -> bool:
        """Whether the shard's last release is complete."""
        return shard not in self._shards or not any(self._shards[shard].waiting.values())

    @property
    def n_rows(self) -> int:
        """Visible rows of all shards, in all tables."""
        return sum(len(state.rows) for state in self._shards.values())

    def stored(self, shards: Container[int] | None = None) -> list[tuple[bytes, bytes]]:
        """Keys and values of the visible table (of some shards)."""
        return [
            row
            for shard, state in self._shards.items()
            if shards is None or shard in shards
            for row in state.rows.items()
        ]

    def to_frames(self, shards: Container[int] | None = None) -> dict[str, pd.DataFrame]:
        """The visible table (of some shards) as DataFrames by name (`release.frames`). Raises LawViolated."""
        return frames(self._table, self.stored(shards))

    def to_frame(self, shards: Container[int] | None = None) -> pd.DataFrame:
        """The same as one frame. Raises UsageError if there are two, LawViolated."""
        found = self.to_frames(shards)
        if PUBLISHED not in found:
            raise UsageError(f"form {self._table.form}: the published table is {' and '.join(found)}: use `to_frames`")
        return found[PUBLISHED]
