"""How long the kept values of one row may be, so that all that is published of it fits into one message.

A row is refused before anything changes: later its shard would stop, because Kafka would reject the message forever.
"""

from __future__ import annotations

from streamer.table.format_limits import bytes_more
from streamer.table.published import LONGEST_NAME, QI_GROUP, box_bytes, frame_bytes, names_bytes
from streamer.table.published_group import COUNT, SIZE, VALUES
from streamer.table.schema import GROUPS, LOSSY_JOIN, Table

LONGEST_COUNT = 18
"""Digits of a number of rows."""


def values_bytes_max(table: Table) -> int:
    """The most bytes that the JSON texts of one row's kept values may have; below 0 where nothing fits."""
    row_bytes = table.limits.row_bytes_max
    for_record, for_values = bytes_more(table)
    row_bytes -= for_record
    kept = names_bytes(column.name for column in table.kept)
    counted = kept + names_bytes([COUNT]) + LONGEST_COUNT + len("{}") + for_values
    name = names_bytes([QI_GROUP]) + len(LONGEST_NAME) + len('""')
    if table.form == GROUPS:
        frame = len("{}") + name + box_bytes(table) + names_bytes([SIZE, VALUES]) + LONGEST_COUNT + len("[]")
        return (row_bytes - frame) // (2 * table.k) - counted - len(",")
    if table.form == LOSSY_JOIN:
        return (row_bytes - 2 * (name + counted)) // 2
    return row_bytes - frame_bytes(table) - for_values
