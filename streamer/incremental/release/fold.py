"""The reader's side of the changelog: records in, the table of the last complete release out.

* Per shard, a release becomes visible after its last part, or after a record of another release. Until then the
  table is that of the release before, so every visible table is k-anonymous.
* Releases are compared for inequality only. A record of the newest release may come twice: it says what a slot holds.
  The caller prevents older repetitions: `Subscription` skips offsets that it has read.
* A lossy join is two topics, and a release may have records in both. They become visible together: every record
  says how many there are `beside` it in the other topic. If the two topics wait for different releases, compaction
  has removed what they wait for: the earlier release goes first.
* A release that lies in one topic alone names the last release before it that lies in the other one (`after`). It
  becomes visible after that one, or once that one can never come: the other topic goes on with a later one, or the
  caller says how far everything is read (`read_up_to`, `finish`). Compaction has removed it then.
* A release of the whole table replaces every row of its shard that was visible, also rows that nobody removes. Later
  records name it (header `whole`), because compaction may drop all of its own. It returns removals of the replaced
  rows, too, for those who keep a copy.
* The rule holds from the first offset of an uncompacted log. On a compacted one past releases are mixed: the table
  counts from the moment when the fold reaches the end offset that was there at the start (`streamer.reader`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pandas as pd

from streamer.errors import LawViolated, UsageError
from streamer.incremental.release.frames import PUBLISHED, frames
from streamer.incremental.topics import JOINED, LIVE
from streamer.table.schema import Table


class ReleasePart(NamedTuple):
    """The number of a record within its release, from 1, and the number of the release's records."""

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
    whole: int = 0  # the last release, up to this one, that held the whole table, as its headers say
    at: int = 0  # when its first record was written, in milliseconds since 1970
    lacks: int = 0  # records that its headers announce and that have not come

    @property
    def is_whole(self) -> bool:
        """True if it holds the whole table of its shard: rows of earlier releases do not count any more."""
        return 0 < self.number == self.whole


def missing_before(before: FoldedRelease | None, release: FoldedRelease, young_from: int | None) -> str:
    """The records that a log has lost before the end of a release, in words; "": none. before: the release before.

    young_from: since when, in milliseconds since 1970, compaction has dropped no record; None if it can have dropped
    none at all, because the shard is followed record by record.
    """
    if release.lacks and (young_from is None or release.at >= young_from):
        return f"{release.lacks} of the records of release {release.number}"
    if before is None or release.is_whole or release.number in (before.number, before.number + 1):
        return ""
    if young_from is None and release.number < before.number:
        return f"everything between release {before.number} and a lower one, release {release.number}"
    if release.number > before.number and (young_from is None or before.at >= young_from):
        return f"all records of releases {before.number + 1} to {release.number - 1}"
    return ""


@dataclass(slots=True)
class _Announced:
    """The records of one release that one topic has had."""

    release: FoldedRelease
    total: int  # the number of records that the topic has of it, 0 if that is not known
    beside: int  # this and the next one: as in `Fold.apply`
    after: int | None
    complete: bool = False  # the topic will have no more of them


@dataclass(slots=True)
class _ShardFold:
    """Visible rows by key, and releases that are not visible yet, by topic."""

    rows: dict[bytes, bytes] = field(default_factory=dict)
    whole: int = 0  # as in `FoldedRelease`
    read_up_to: int = -1  # no release up to this one is still to come
    shown: dict[str, int] = field(default_factory=dict)  # the last visible release of each topic
    waiting: dict[str, deque[_Announced]] = field(default_factory=dict)

    def add(self, topic: str, one: _Announced, record: tuple[bytes, bytes | None]) -> _Announced:
        """Adds a record of a release; the topic's release before it is then complete."""
        announced = self.waiting.setdefault(topic, deque())
        if announced and announced[-1].release.number != one.release.number:
            announced[-1].complete = True
        if not announced or announced[-1].complete:
            announced.append(one)
        announced[-1].release.records.append(record)
        return announced[-1]

    def complete(self) -> list[FoldedRelease]:
        """Makes visible what is complete; returns the releases, oldest first."""
        visible = []
        while (ready := self._ready()) is not None:
            visible.append(self._show(ready))
        return visible

    def _heads(self) -> dict[str, _Announced]:
        """The first release of each topic that waits; without those that a release of the whole table has replaced."""
        whole = max((queue[0].release.whole for queue in self.waiting.values() if queue), default=0)
        for queue in self.waiting.values():
            while queue and queue[0].release.number < whole:
                queue.popleft()
        return {topic: queue[0] for topic, queue in self.waiting.items() if queue}

    def _ready(self) -> list[str] | None:
        """The topics whose first releases can become visible next, together."""
        heads = self._heads()
        complete = {topic: first for topic, first in heads.items() if first.complete}
        for topic, first in complete.items():
            if first.beside == 0 and not self._is_owed(first.after, topic, heads):
                return [topic]
        if len(complete) < 2:
            return None
        lowest = min(first.release.number for first in complete.values())
        return [topic for topic, first in complete.items() if first.release.number == lowest]

    def _is_owed(self, after: int | None, topic: str, heads: Mapping[str, _Announced]) -> bool:
        """True if the topic beside `topic` may still bring release `after`, or has it waiting."""
        if after is None or after <= self.read_up_to or after <= self.shown.get(JOINED[topic], -1):
            return False
        other = heads.get(JOINED[topic])
        return other is None or other.release.number <= after

    def awaits(self) -> int | None:
        """The first release that waits for nothing but an earlier one of the other topic, which has none waiting."""
        heads = self._heads()
        alone = next(iter(heads.values())) if len(heads) == 1 else None
        return alone.release.number if alone is not None and alone.complete and alone.beside == 0 else None

    def finish(self) -> list[FoldedRelease]:
        """Makes visible all that has come, complete or not."""
        visible = []
        while numbers := {topic: first.release.number for topic, first in self._heads().items()}:
            lowest = min(numbers.values())
            visible.append(self._show([topic for topic, number in numbers.items() if number == lowest]))
        self.read_up_to = max([self.read_up_to, *self.shown.values()])
        return visible

    def _show(self, topics: list[str]) -> FoldedRelease:
        one, *others = (self.waiting[topic].popleft() for topic in topics)
        first = one.release
        self.shown |= dict.fromkeys(topics, first.number)
        for other in others:
            first.records.extend(other.release.records)
        if one.total:
            first = first._replace(lacks=max(0, one.total + one.beside - len(first.records)))
        if first.whole > self.whole:
            written = {key for key, _ in first.records}
            first.records[:0] = [(key, None) for key in self.rows if key not in written]
            self.rows, self.whole = {}, first.whole
        for key, value in first.records:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        return first


class Fold:
    """A published table, followed record by record.

    >>> from streamer.table.codes import KeptColumn
    >>> from streamer.table.schema import Table
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
        whole: int = 0,
        after: int | None = None,
        at: int = 0,
    ) -> list[FoldedRelease]:
        """Adds the next record of a shard in a topic; returns the releases that it made visible, oldest first.

        beside: the number of the release's records in the other topic. outside: the record says that its release did
        not come from the input. whole: the last release of the whole table that the record names. after: the last
        release before it with records in the other topic, None if that is not known. at: when the record was written.
        """
        state = self._shards.get(shard)
        if state is None:
            state = self._shards[shard] = _ShardFold()
        named = FoldedRelease(shard, release, through, [], outside, whole, at)
        one = _Announced(named, part.total if part else 0, beside, after)
        announced = state.add(topic, one, (key, value))
        announced.complete = part is not None and part.number == part.total
        return state.complete()

    def finish(self, shard: int | None = None) -> list[FoldedRelease]:
        """Makes visible what has come of `shard`, or of all: the caller knows that the releases are complete."""
        shards = self._shards.values() if shard is None else [self._shards.setdefault(shard, _ShardFold())]
        return [release for state in shards for release in state.finish()]

    def awaits(self, shard: int) -> int | None:
        """The release of a shard that waits for an earlier one of the other topic, which has brought nothing since."""
        return self._shards[shard].awaits() if shard in self._shards else None

    def read_up_to(self, shard: int, release: int) -> list[FoldedRelease]:
        """Makes visible what waits for releases up to this one: the caller has read all of them that there are."""
        state = self._shards[shard]
        state.read_up_to = max(state.read_up_to, release)
        return state.complete()

    def is_whole(self, shard: int) -> bool:
        """True if the shard's last release is complete."""
        return shard not in self._shards or not any(self._shards[shard].waiting.values())

    @property
    def n_rows(self) -> int:
        """Visible rows of all shards, in all tables."""
        return sum(len(state.rows) for state in self._shards.values())

    def stored(self, shards: Container[int] | None = None) -> list[tuple[bytes, bytes]]:
        """Keys and values of the visible table (of some shards)."""
        wanted = (state for shard, state in self._shards.items() if shards is None or shard in shards)
        return [row for state in wanted for row in state.rows.items()]

    def to_frames(self, shards: Container[int] | None = None) -> dict[str, pd.DataFrame]:
        """The visible table (of some shards) as DataFrames by name (`release.frames`). Raises LawViolated."""
        return frames(self._table, self.stored(shards))

    def to_frame(self, shards: Container[int] | None = None) -> pd.DataFrame:
        """The visible table as one frame. Raises UsageError if there are two, LawViolated."""
        found = self.to_frames(shards)
        if PUBLISHED not in found:
            raise UsageError(f"form {self._table.form}: the published table is {' and '.join(found)}: use `to_frames`")
        return found[PUBLISHED]
