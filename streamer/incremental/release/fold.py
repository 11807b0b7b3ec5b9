"""The reader's side of the changelog: records in, the table of the last complete release out.

The rules of this file
----------------------
* The reader's rule, per shard: a release becomes visible when its last part has come, or a record of another release.
  Until then the table stays that of the release before, so whoever looks sees k-anonymous tables only.
* Releases are compared for inequality only. A record of the newest release that comes twice does no harm: it says how a
  slot shall be, not what to do with it. Going back further is the caller's to prevent: `Subscription` passes over
  offsets that it has read.
* A lossy join is two topics, and a release may have records in both. What one of them has told becomes visible only
  with what the other has: every record says how many there are `beside` it in the other topic. Where the two wait for
  different releases, compaction has taken what they wait for: the earlier one goes first.
* `finish` says that nothing is missing although no last part was seen: the end of a file, or of all that is committed.
* The rule holds from the first offset of an uncompacted log. On a compacted one the releases of the past are mixed: the
  table counts from the moment the end offset of the start was reached (see `streamer.reader`).
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
    """The records of one release of a shard, in order: key and value, None for a tombstone.

    outside: whether it is announced as one that did not come from the input.
    """

    shard: int
    number: int
    through: int
    records: list[tuple[bytes, bytes | None]]
    outside: bool = False


class _Announced:
    """What one topic has told of one release; whole: nothing more of it will come there."""

    __slots__ = ("beside", "release", "whole")

    def __init__(self, release: FoldedRelease, beside: int) -> None:
        self.release = release
        self.beside = beside
        self.whole = False

    @property
    def waits(self) -> bool:
        """Whether another topic has to tell its part of the release first."""
        return self.beside > 0


class _ShardFold:
    """Visible rows by key, and what has been told and is not visible yet, by topic."""

    __slots__ = ("rows", "told")

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.told: dict[str, deque[_Announced]] = {}

    def tell(self, topic: str, release: FoldedRelease, record: tuple[bytes, bytes | None], beside: int) -> _Announced:
        """Takes note of a record; what came before of another release is whole then."""
        told = self.told.setdefault(topic, deque())
        if told and told[-1].release.number != release.number:
            told[-1].whole = True
        if not told or told[-1].whole:
            told.append(_Announced(release, beside))
        told[-1].release.records.append(record)
        return told[-1]

    def complete(self) -> list[FoldedRelease]:
        """Makes visible what is whole; returns the releases, oldest first."""
        visible = []
        while (ready := self._ready()) is not None:
            visible.append(self._show(ready))
        return visible

    def _ready(self) -> list[str] | None:
        """The topics whose first releases can become visible next, together."""
        whole = {topic: told[0] for topic, told in self.told.items() if told and told[0].whole}
        for topic, first in whole.items():
            if not first.waits:
                return [topic]
        if len(whole) < 2:
            return None
        lowest = min(first.release.number for first in whole.values())
        return [topic for topic, first in whole.items() if first.release.number == lowest]

    def finish(self) -> list[FoldedRelease]:
        """Makes visible whatever has come, whole or not."""
        visible = []
        while waiting := {topic: told[0].release.number for topic, told in self.told.items() if told}:
            lowest = min(waiting.values())
            visible.append(self._show([topic for topic, number in waiting.items() if number == lowest]))
        return visible

    def _show(self, topics: list[str]) -> FoldedRelease:
        first, *others = (self.told[topic].popleft().release for topic in topics)
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
        """Takes the next record that a topic has of a shard; returns the releases that became visible by it.

        They come oldest first. beside: how many records of the release the other topic has. outside: whether its
        records say that it did not come from the input.
        """
        state = self._shards.get(shard)
        if state is None:
            state = self._shards[shard] = _ShardFold()
        told = state.tell(topic, FoldedRelease(shard, release, through, [], outside), (key, value), beside)
        told.whole = part is not None and part.number == part.total
        return state.complete()

    def finish(self, shard: int | None = None) -> list[FoldedRelease]:
        """Makes visible what has come of `shard`, or of all: the caller knows that these releases are whole."""
        shards = self._shards.values() if shard is None else [self._shards.setdefault(shard, _ShardFold())]
        return [release for state in shards for release in state.finish()]

    def is_whole(self, shard: int) -> bool:
        """Whether nothing of the shard's last release is still awaited."""
        return shard not in self._shards or not any(self._shards[shard].told.values())

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
        """The visible table (of some shards) as `streamer.incremental.release.frames` makes it. Raises LawViolated."""
        return frames(self._table, self.stored(shards))

    def to_frame(self, shards: Container[int] | None = None) -> pd.DataFrame:
        """The same if it is one frame. Raises UsageError if it is two, LawViolated."""
        found = self.to_frames(shards)
        if PUBLISHED not in found:
            raise UsageError(f"form {self._table.form}: the published table is {' and '.join(found)}: ask for both")
        return found[PUBLISHED]
