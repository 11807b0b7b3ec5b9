"""The records that turn one published QI group into another.

The rules of this file
----------------------
* The bytes are a function of the QI group's number, its box and its values (`table.published`), so two diffs of
  the same groups agree.
* A diff is minimal: an unchanged box rewrites only the slots whose values differ, a changed box rewrites every row,
  freed slots become tombstones. Records come by slot, tombstones last.
* The digest of a table is the sum mod 2^64 of one hash per published row. It does not depend on any order, and a diff
  changes it by the rows it touches alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

import msgspec

from streamer.incremental.release.records import Entry
from streamer.incremental.topics import LIVE
from streamer.table.published import FRAGMENTS_MAX, box_columns, json_texts, qi_group_name
from streamer.table.row import Values
from streamer.table.schema import Table

DIGEST_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class PublishedGroup:
    """A QI group as readers see it: its box in cells, and the values that are no quasi-identifiers by slot."""

    lo: tuple[int, ...]
    hi: tuple[int, ...]
    slots: tuple[Values, ...] = field(repr=False)


def row_hash(key: bytes, row: bytes) -> int:
    """A published row's share of the digest: 64 bits of BLAKE2b."""
    return int.from_bytes(blake2b(b"%b\0%b" % (key, row), digest_size=8).digest(), "big")


class Changelog:
    """Writes the published rows of one shard.

    Building a row is one formatting of bytes: whatever is the same for all rows of a QI group is put together once.
    """

    def __init__(self, table: Table, shard: int) -> None:
        self._attributes = table.attributes
        self._shard = shard
        self._piece = lru_cache(FRAGMENTS_MAX)(self._piece_of)
        names = (msgspec.json.encode(column.name).replace(b"%", b"%%") for column in table.kept)
        self._end = b"".join(b",%b:%%b" % name for name in names) + b"}"

    def diff(
        self, qi_group: int, before: PublishedGroup | None, after: PublishedGroup | None
    ) -> tuple[list[Entry], int]:
        """The records that turn `before` into `after`, and the change of the digest (mod 2^64).

        None stands for a QI group that has no published rows.
        """
        old_slots = before.slots if before else ()
        new_slots = after.slots if after else ()
        common = min(len(old_slots), len(new_slots))
        changed = list(range(common))
        if before and after and before.lo == after.lo and before.hi == after.hi:
            changed = [slot for slot in changed if old_slots[slot] != new_slots[slot]]
        written = self._rows(qi_group, after, [*changed, *range(common, len(new_slots))])
        replaced = self._rows(qi_group, before, [*changed, *range(common, len(old_slots))])
        freed = replaced[len(changed) :]
        records = [Entry(LIVE, key, row) for key, row in written]
        records += [Entry(LIVE, key, None) for key, _ in freed]
        digest = sum(row_hash(*row) for row in written) - sum(row_hash(*row) for row in replaced)
        return records, digest & DIGEST_MASK

    def _rows(self, qi_group: int, group: PublishedGroup | None, slots: list[int]) -> list[tuple[bytes, bytes]]:
        """Key and value of the rows in `slots`."""
        if group is None or not slots:
            return []
        name = qi_group_name(self._shard, qi_group).encode()
        key = b'{"qi_group":"%b","slot":%%d}' % name
        box = b"".join(map(self._piece, range(len(self._attributes)), group.lo, group.hi))
        row = b'{"qi_group":"%b"%b%b' % (name, box.replace(b"%", b"%%"), self._end)
        return [(key % slot, row % group.slots[slot]) for slot in slots]

    def _piece_of(self, j: int, lo: int, hi: int) -> bytes:
        """The piece of a row that publishes one attribute, with a comma in front."""
        texts = json_texts(box_columns(self._attributes[j], lo, hi))
        return b"".join(b",%b:%b" % (msgspec.json.encode(name), text) for name, text in texts.items())
