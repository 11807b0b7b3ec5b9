"""QI groups as one message each: any change of box or values is one record, and none where both stay.

A message that Kafka would not take is refused here, when the batch is put together: the shard then passes over the
message of the input that brought it about (`streamer.incremental.shard.passed_over`).
"""

from __future__ import annotations

from functools import lru_cache

from streamer.errors import GroupTooLarge
from streamer.incremental.release.published_group import PublishedGroup
from streamer.incremental.release.records import Entry
from streamer.incremental.topics import LIVE
from streamer.table.format_limits import bytes_more
from streamer.table.published import FRAGMENTS_MAX, box_piece, qi_group_name
from streamer.table.published_group import counted, group_key, values_template
from streamer.table.schema import Table


class GroupsWriter:
    """Writes the published QI groups of one shard, whole."""

    def __init__(self, table: Table, shard: int) -> None:
        self._attributes = table.attributes
        self._shard = shard
        self._bytes_max = table.limits.row_bytes_max
        self._more_for_record, self._more_for_values = bytes_more(table)
        self._piece = lru_cache(FRAGMENTS_MAX)(self._piece_of)
        self._entry = values_template(table)

    def records(self, qi_group: int, before: PublishedGroup | None, after: PublishedGroup | None) -> list[Entry]:
        """The record that turns `before` into `after`, if they differ; None: a QI group without published rows."""
        key = group_key(self._shard, qi_group)
        if after is None:
            return [Entry(LIVE, key, None)] if before else []
        if before and _are_alike(before, after):
            return []
        message = self._message(qi_group, after)
        more = self._more_for_record + self._more_for_values * len(after.slots)
        if len(key) + len(message) + more > self._bytes_max:
            raise GroupTooLarge(
                f"a QI group of {len(after.slots)} rows does not fit into one message of {self._bytes_max} bytes "
                "(limits.row_bytes_max); `form: rows` knows no such bound"
            )
        return [Entry(LIVE, key, message)]

    def _message(self, qi_group: int, group: PublishedGroup) -> bytes:
        name = qi_group_name(self._shard, qi_group).encode()
        box = b"".join(map(self._piece, range(len(self._attributes)), group.lo, group.hi))
        entries = b",".join(self._entry % (*values, rows) for values, rows in counted(group.slots).items())
        return b'{"qi_group":"%b"%b,"size":%d,"values":[%b]}' % (name, box, len(group.slots), entries)

    def _piece_of(self, j: int, lo: int, hi: int) -> bytes:
        return box_piece(self._attributes[j], lo, hi)


def _are_alike(one: PublishedGroup, other: PublishedGroup) -> bool:
    """Whether two QI groups say the same, slots aside."""
    if (one.lo, one.hi, len(one.slots)) != (other.lo, other.hi, len(other.slots)):
        return False
    return one.slots == other.slots or sorted(one.slots) == sorted(other.slots)
