"""QI groups as rows by slot: an unchanged box rewrites only the slots whose values differ, a changed one every row.

Freed slots become tombstones. Records come by slot, tombstones last.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from streamer.incremental.release.published_group import PublishedGroup
from streamer.incremental.release.records import Entry
from streamer.incremental.topics import LIVE
from streamer.table.published import FRAGMENTS_MAX, box_piece, qi_group_name
from streamer.table.schema import Table


class RowsWriter:
    """Writes the published rows of one shard.

    Building a row is one formatting of bytes: whatever is the same for all rows of a QI group is put together once.
    """

    def __init__(self, table: Table, shard: int) -> None:
        self._attributes = table.attributes
        self._shard = shard
        self._piece = lru_cache(FRAGMENTS_MAX)(self._piece_of)
        names = (msgspec.json.encode(column.name).replace(b"%", b"%%") for column in table.kept)
        self._end = b"".join(b",%b:%%b" % name for name in names) + b"}"

    def records(self, qi_group: int, before: PublishedGroup | None, after: PublishedGroup | None) -> list[Entry]:
        """The fewest records that turn `before` into `after`; None: a QI group without published rows."""
        name = qi_group_name(self._shard, qi_group).encode()
        key = b'{"qi_group":"%b","slot":%%d}' % name
        n_before = len(before.slots) if before else 0
        records = self._written(name, key, before, after) if after else []
        records += [Entry(LIVE, key % slot, None) for slot in range(len(after.slots) if after else 0, n_before)]
        return records

    def _written(self, name: bytes, key: bytes, before: PublishedGroup | None, after: PublishedGroup) -> list[Entry]:
        """The rows of `after` that `before` does not have."""
        slots: Sequence[int] = range(len(after.slots))
        if before and before.lo == after.lo and before.hi == after.hi:
            old, new, n_before = before.slots, after.slots, len(before.slots)
            slots = [slot for slot in slots if slot >= n_before or old[slot] != new[slot]]
        if not slots:
            return []
        box = b"".join(map(self._piece, range(len(self._attributes)), after.lo, after.hi))
        row = b'{"qi_group":"%b"%b%b' % (name, box.replace(b"%", b"%%"), self._end)
        return [Entry(LIVE, key % slot, row % after.slots[slot]) for slot in slots]

    def _piece_of(self, j: int, lo: int, hi: int) -> bytes:
        return box_piece(self._attributes[j], lo, hi)
