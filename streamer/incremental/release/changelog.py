"""The records that turn one published QI group into another, in the form that table.yaml names.

* The bytes are a function of the QI group's number, its box and its values: two diffs of the same groups are equal.
* A diff is minimal: nothing that readers have is written again, and nothing is written twice. If the published rows
  stay the same, there is no record, although the digest may change: it covers slots, which only `form: rows` publishes.
* A QI group that is wider than `coarsest` allows is withheld: readers do not get it, or it is removed, until it is
  narrow enough. The digest covers it.
* Each form (rows, groups, lossy join) has its writer. Digest, release, outbox and the reader's rule do not depend
  on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Protocol

import msgspec

from streamer.errors import GroupTooLarge
from streamer.incremental.release.records import DIGEST_MASK, OutboxEntry, PublishedGroup, group_hash
from streamer.incremental.topics import LIVE, QIT, STT
from streamer.table.published.groups import Cells, counted, group_key, qit_row, stt_key, stt_row, values_template
from streamer.table.published.rows import FRAGMENTS_MAX, box_piece, qi_group_name
from streamer.table.published.schemas import bytes_more
from streamer.table.row import Values
from streamer.table.schema import GROUPS, LOSSY_JOIN, ROWS, Table


def _cached_box_piece(table: Table) -> Callable[[int, int, int], bytes]:
    """The JSON of one side of a box: attribute number, lowest and highest cell -> bytes."""
    return lru_cache(FRAGMENTS_MAX)(lambda j, lo, hi: box_piece(table.attributes[j], lo, hi))


class RowsWriter:
    """`form: rows`: rows by slot.

    An unchanged box rewrites only the slots whose values differ, a changed box every row. Freed slots become
    tombstones. Records are in the order of slots, tombstones last. What all rows of a QI group have in common is
    formatted once.
    """

    def __init__(self, table: Table, shard: int) -> None:
        self._n_attributes, self._shard = len(table.attributes), shard
        self._piece = _cached_box_piece(table)
        names = (msgspec.json.encode(column.name).replace(b"%", b"%%") for column in table.kept)
        self._end = b"".join(b",%b:%%b" % name for name in names) + b"}"

    def records(self, qi_group: int, before: PublishedGroup | None, after: PublishedGroup | None) -> list[OutboxEntry]:
        name = qi_group_name(self._shard, qi_group).encode()
        key = b'{"qi_group":"%b","slot":%%d}' % name
        n_before, n_after = (len(group.slots) if group else 0 for group in (before, after))
        records = self._written(name, key, before, after) if after else []
        return records + [OutboxEntry(LIVE, key % slot, None) for slot in range(n_after, n_before)]

    def _written(
        self, name: bytes, key: bytes, before: PublishedGroup | None, after: PublishedGroup
    ) -> list[OutboxEntry]:
        """The rows of `after` that `before` does not have."""
        slots: Sequence[int] = range(len(after.slots))
        if before and before.lo == after.lo and before.hi == after.hi:
            old, new, n_before = before.slots, after.slots, len(before.slots)
            slots = [slot for slot in slots if slot >= n_before or old[slot] != new[slot]]
        if not slots:
            return []
        box = b"".join(map(self._piece, range(self._n_attributes), after.lo, after.hi))
        row = b'{"qi_group":"%b"%b%b' % (name, box.replace(b"%", b"%%"), self._end)
        return [OutboxEntry(LIVE, key % slot, row % after.slots[slot]) for slot in slots]


class GroupsWriter:
    """`form: groups`: each QI group is one message, written again after any change of its box or values.

    A message that Kafka would reject is refused here. The shard then skips the input message that caused it.
    """

    def __init__(self, table: Table, shard: int) -> None:
        self._n_attributes, self._shard = len(table.attributes), shard
        self._bytes_max = table.limits.row_bytes_max
        self._more_for_record, self._more_for_values = bytes_more(table)
        self._piece = _cached_box_piece(table)
        self._entry = values_template(table)

    def records(self, qi_group: int, before: PublishedGroup | None, after: PublishedGroup | None) -> list[OutboxEntry]:
        key = group_key(self._shard, qi_group)
        if after is None:
            return [OutboxEntry(LIVE, key, None)] if before else []
        if before and _are_alike(before, after):
            return []
        message = self._message(qi_group, after)
        more = self._more_for_record + self._more_for_values * len(after.slots)
        if len(key) + len(message) + more > self._bytes_max:
            raise GroupTooLarge(
                f"a QI group of {len(after.slots)} rows does not fit into one message of {self._bytes_max} bytes "
                "(limits.row_bytes_max); `form: rows` has no such limit"
            )
        return [OutboxEntry(LIVE, key, message)]

    def _message(self, qi_group: int, group: PublishedGroup) -> bytes:
        name = qi_group_name(self._shard, qi_group).encode()
        box = b"".join(map(self._piece, range(self._n_attributes), group.lo, group.hi))
        entries = b",".join(self._entry % (*values, rows) for values, rows in counted(group.slots).items())
        return b'{"qi_group":"%b"%b,"size":%d,"values":[%b]}' % (name, box, len(group.slots), entries)


def _are_alike(one: PublishedGroup, other: PublishedGroup) -> bool:
    """True if two QI groups are equal, apart from slots."""
    if (one.lo, one.hi, len(one.slots)) != (other.lo, other.hi, len(other.slots)):
        return False
    return one.slots == other.slots or sorted(one.slots) == sorted(other.slots)


class JoinWriter:
    """`form: lossy-join`: rows of two tables.

    A box is not published, so a box that grows writes nothing. Rows of the quasi-identifier table come first, and the
    removals of each table last.
    """

    def __init__(self, table: Table, shard: int) -> None:
        self._table = table
        self._shard = shard

    def records(self, qi_group: int, before: PublishedGroup | None, after: PublishedGroup | None) -> list[OutboxEntry]:
        name = qi_group_name(self._shard, qi_group)
        was, now = (frozenset(group.cells) if group else frozenset() for group in (before, after))
        had, has = (counted(group.slots) if group else {} for group in (before, after))
        changed = [values for values, rows in has.items() if had.get(values) != rows]
        gone = [values for values in had if values not in has]
        return [
            *self._qit(name, sorted(now - was), removed=False),
            *self._qit(name, sorted(was - now), removed=True),
            *(self._stt(name, values, has[values]) for values in changed),
            *(self._stt(name, values, None) for values in gone),
        ]

    def _qit(self, name: str, cells: Iterable[Cells], removed: bool) -> Iterable[OutboxEntry]:
        for one in cells:
            row = qit_row(self._table, name, one)
            yield OutboxEntry(QIT, row, None if removed else row)

    def _stt(self, name: str, values: Values, rows: int | None) -> OutboxEntry:
        key = stt_key(self._table, name, values)
        return OutboxEntry(STT, key, None if rows is None else stt_row(key, rows))


class Writer(Protocol):
    """Writes the published QI groups of one shard in one form."""

    def __init__(self, table: Table, shard: int) -> None: ...

    def records(self, qi_group: int, before: PublishedGroup | None, after: PublishedGroup | None) -> list[OutboxEntry]:
        """The fewest records that turn `before` into `after`; None: a QI group without published rows."""


WRITERS: Mapping[str, type[Writer]] = MappingProxyType({ROWS: RowsWriter, GROUPS: GroupsWriter, LOSSY_JOIN: JoinWriter})


class Changelog:
    """Writes the published records of one shard; none, if the table publishes a sealed changelog alone."""

    def __init__(self, table: Table, shard: int) -> None:
        self._writer = WRITERS[table.form](table, shard) if table.live else None
        self._space = table.space

    def diff(
        self, qi_group: int, before: PublishedGroup | None, after: PublishedGroup | None
    ) -> tuple[list[OutboxEntry], int]:
        """The records that turn `before` into `after`, and the change of the digest (mod 2^64).

        None: a QI group without published rows.
        """
        change = group_hash(qi_group, after) - group_hash(qi_group, before)
        if self._space.is_bounded:
            before, after = self._shown(before), self._shown(after)
        records = [] if self._writer is None else self._writer.records(qi_group, before, after)
        return records, change & DIGEST_MASK

    def _shown(self, group: PublishedGroup | None) -> PublishedGroup | None:
        return None if group is None or self._space.forbids(group.lo, group.hi) else group
