"""The reader's side of the changelog: records in, the table of the last complete release out.

The rules of this file
----------------------
* The reader's rule, per shard: a release becomes visible when its last part has come, or a record of another release.
  Until then the table stays that of the release before, so whoever looks sees k-anonymous tables only.
* Releases are compared for inequality only. A record of the newest release that comes twice does no harm: it says how a
  slot shall be, not what to do with it. Going back further is the caller's to prevent: `Subscription` passes over
  offsets that it has read.
* `finish` says that nothing is missing although no last part was seen: the end of a file, or of all that is committed.
* The rule holds from the first offset of an uncompacted log. On a compacted one the releases of the past are mixed: the
  table counts from the moment the end offset of the start was reached (see `streamer.incremental.subscribe`).
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

import pandas as pd

from streamer.errors import LawViolated
from streamer.table.published import parse_key, published_columns
from streamer.table.schema import Table
from streamer.table.typed_frame import decode_json, typed_frame


class Part(NamedTuple):
    """Which record of its release this is, from 1, and how many the release has."""

    number: int
    total: int


def parse_part(text: bytes) -> Part:
    """Reads the header `part`. Raises LawViolated.

    >>> parse_part(b"3/14")
    Part(number=3, total=14)
    """
    number, _, total = text.partition(b"/")
    if not (number.isdigit() and total.isdigit() and len(text) <= 40 and 1 <= int(number) <= int(total)):
        raise LawViolated("the part of a record is not of the form 3/14")
    return Part(int(number), int(total))


class Release(NamedTuple):
    """The records of one release of a shard, in order: key and value, None for a tombstone."""

    shard: int
    number: int
    through: int
    records: list[tuple[bytes, bytes | None]]


class _Shard:
    """Visible rows by key, and the release whose end has not been seen."""

    __slots__ = ("rows", "unfinished")

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.unfinished: Release | None = None

    def complete(self) -> Release | None:
        """Makes the unfinished release visible; returns it."""
        release, self.unfinished = self.unfinished, None
        for key, value in release.records if release else ():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        return release


class Fold:
    """A published table, followed record by record.

    >>> from streamer.table.schema import KeptColumn, Table
    >>> fold = Fold(Table("people", ("id",), (), (KeptColumn("problem", sensitive=True),), k=2))
    >>> for slot in (0, 1):
    ...     key = b'{"qi_group":"0-1","slot":%d}' % slot
    ...     complete = fold.apply(0, 1, 2, key, b'{"qi_group":"0-1","problem":"flu"}', Part(slot + 1, 2))
    ...     print(len(complete), fold.n_rows)
    0 0
    1 2
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._shards: dict[int, _Shard] = {}

    def apply(
        self, shard: int, release: int, through: int, key: bytes, value: bytes | None, part: Part | None = None
    ) -> list[Release]:
        """Takes the next record of a shard; returns the releases that became visible by it, oldest first."""
        state = self._shards.get(shard)
        if state is None:
            state = self._shards[shard] = _Shard()
        complete = []
        current = state.unfinished
        if current is not None and current.number != release:
            state.complete()
            complete.append(current)
            current = None
        if current is None:
            current = state.unfinished = Release(shard, release, through, [])
        current.records.append((key, value))
        if part is not None and part.number == part.total:
            state.complete()
            complete.append(current)
        return complete

    def finish(self, shard: int | None = None) -> list[Release]:
        """Makes visible what has come of `shard`, or of all: the caller knows that these releases are whole."""
        shards = self._shards.values() if shard is None else [self._shards.setdefault(shard, _Shard())]
        return [release for state in shards if (release := state.complete()) is not None]

    def is_whole(self, shard: int) -> bool:
        """Whether nothing of the shard's last release is still awaited."""
        return shard not in self._shards or self._shards[shard].unfinished is None

    @property
    def n_rows(self) -> int:
        """Visible rows of all shards."""
        return sum(len(state.rows) for state in self._shards.values())

    def to_frame(self, shards: Container[int] | None = None) -> pd.DataFrame:
        """The visible table (of some shards) by shard, number of the QI group and slot, in the published columns.

        Typed by `typed_frame`, which rounds nothing. Raises LawViolated for a key or a row that is not of the published
        form.
        """
        rows = [
            (parse_key(key), value)
            for shard, state in self._shards.items()
            if shards is None or shard in shards
            for key, value in state.rows.items()
        ]
        rows.sort(key=lambda row: row[0])
        return _frame(self._table, [value for _, value in rows])


def _frame(table: Table, rows: list[bytes]) -> pd.DataFrame:
    columns: dict[str, list[object]] = {name: [] for name in published_columns(table)}
    try:
        for row in rows:
            decoded = decode_json(row)
            for name, column in columns.items():
                column.append(decoded[name])
        return typed_frame(table, columns)
    except (KeyError, TypeError, ValueError, ArithmeticError):  # msgspec's own errors are ValueErrors
        raise LawViolated("a row does not have the published columns in their types") from None
