"""Dead letters as they are read back: one of them, what many come to, and how many there were lately.

The rules of this file
----------------------
* A letter holds coordinates (shard and offset of the input), a reason and the column at fault, and nothing of what the
  message said. Kinds: "refused", the message was not applied; "partial", a statement was, and some of its rows kept
  their old values; "retried", "superseded" and "refused-again", what became of a
  refused one that an operator had tried again.
* Letters are counted as they pass, by kind, reason and column: a topic of millions is not held in memory.
* "Lately" means a number of source offsets, not a time: the share of what was refused is then one of messages, whatever
  the traffic, and the letters' own coordinates tell which belong to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from streamer.incremental.shard.letters import REFUSED, REFUSED_AGAIN, RETRIED, SUPERSEDED
from streamer.kafka.reading import Record

LATEST_OFFSETS: Final = 10_000
"""Of the messages of a shard, so many count as the latest."""

TAIL_FIRST: Final = 512
"""Records that are read first when the latest letters are sought; then twice as many, and so on."""


class Letter(msgspec.Struct, frozen=True):
    """One dead letter; partition and offset: where the message stands in the input topic."""

    kind: str
    reason: str
    detail: str
    partition: int
    offset: int
    column: str | None = None
    rows: int | None = None


class Tally(msgspec.Struct):
    """The letters that have kind, reason and column in common. first, last: when they were written, ISO 8601, UTC.

    shards: the numbers of those that wrote them. example: coordinates of the last one.
    """

    kind: str
    reason: str
    column: str | None
    letters: int = 0
    first: str = ""
    last: str = ""
    shards: list[int] = []
    example: dict[str, int] = {}

    def add(self, letter: Letter, milliseconds: int) -> None:
        """Counts one more letter, written at a time in milliseconds since 1970."""
        at = written_at(milliseconds)
        self.letters += 1
        self.first = min(self.first or at, at)
        if letter.partition not in self.shards:
            self.shards = sorted([*self.shards, letter.partition])
        if at >= self.last:
            self.last, self.example = at, {"partition": letter.partition, "offset": letter.offset}


class Tallies:
    """What any number of letters come to."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str, str | None], Tally] = {}

    def add(self, letter: Letter, milliseconds: int) -> None:
        """Counts one more letter, written at a time in milliseconds since 1970."""
        alike = letter.kind, letter.reason, letter.column
        self._of.setdefault(alike, Tally(*alike)).add(letter, milliseconds)

    @property
    def total(self) -> int:
        return sum(one.letters for one in self._of.values())

    def most_common(self) -> list[Tally]:
        """The most frequent first."""
        return sorted(self._of.values(), key=lambda one: (-one.letters, one.kind, one.reason, one.column or ""))


def written_at(milliseconds: int) -> str:
    """A time of Kafka's, to the second.

    >>> written_at(1_764_000_000_123)
    '2025-11-24T16:00:00+00:00'
    """
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def letter_of(record: Record) -> Letter:
    """The letter that a record of the dead-letters topic holds; of kind "foreign" where somebody else wrote it."""
    try:
        return msgspec.json.decode(record.value() or b"", type=Letter)
    except msgspec.DecodeError:
        detail = "somebody else wrote this record of the dead-letters topic"
        return Letter("foreign", "not-a-dead-letter", detail, record.partition(), record.offset())


def row_of(letter: Letter, milliseconds: int) -> dict[str, Any]:
    """A letter as one line of a file, with the time it was written."""
    return {"at": written_at(milliseconds), **msgspec.structs.asdict(letter)}


def standing_refused(letters: Iterable[Letter]) -> dict[int, Letter]:
    """Of one shard's letters, in the order they were written, those whose message is refused to this day, by offset."""
    standing: dict[int, Letter] = {}
    for letter in letters:
        if letter.kind in (REFUSED, REFUSED_AGAIN):
            standing[letter.offset] = letter
        elif letter.kind in (RETRIED, SUPERSEDED):
            standing.pop(letter.offset, None)
    return standing


def refused_lately(reached: int, first: int, end: int, letters_from: Callable[[int], Iterable[Letter]]) -> int:
    """How many of the LATEST_OFFSETS before `reached` are dead letters, by the end of the topic of dead letters.

    first, end: its offsets; letters_from: its letters from an offset on, which are read back as far as is needed.
    """
    since, n_records = reached - LATEST_OFFSETS, TAIL_FIRST
    while True:
        start = max(first, end - n_records)
        tail = list(letters_from(start))
        refused = [letter.offset for letter in tail if letter.kind == REFUSED]
        if start == first or any(offset < since for offset in refused):
            return sum(since <= offset < reached for offset in standing_refused(tail))
        n_records *= 2
