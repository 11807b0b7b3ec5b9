"""The mark of the connector's snapshot in a captured message, besides its row.

Debezium writes `source.snapshot` into every envelope, and into `__source_snapshot` of a flattened row if the transform
adds the fields `op` and `source.snapshot`. While it reads whole tables before any change (an initial or a blocking
snapshot) it says `first`, `true`, `first_in_data_collection`, `last_in_data_collection` or `last`; `incremental` of
rows that it reads between changes; `false`, null or nothing of a change. A table of one row that is the first of
several says `first` alone. Connectors that read in parallel chunks write `last` before other rows: it says only that
the end is near.

The mark is read apart from the change, because a message whose row is refused has a mark, too. A flattened row may have
columns of any name and type, `source` and `payload` too: these are not the connector's.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from streamer.errors import EventRefused
from streamer.incremental.events.json_messages import capture_json
from streamer.incremental.events.registered_schemas import Known


class Mark(Enum):
    """The marks of messages in a snapshot."""

    NOTHING = "nothing"
    READ = "a row read by a snapshot of whole tables"
    LAST = "the last such row of its table"
    INCREMENTAL = "a row that was read between changes"
    CHANGE = "a change: no snapshot of whole tables is running"


READS = frozenset((Mark.READ, Mark.LAST, Mark.INCREMENTAL))
"""Marks of rows that were read, not changed."""

_OF_READS = {
    "true": Mark.READ,
    "first": Mark.READ,
    "first_in_data_collection": Mark.READ,
    "last_in_data_collection": Mark.LAST,
    "last": Mark.LAST,
    "incremental": Mark.INCREMENTAL,
}
_FIRST = ("first", "first_in_data_collection")
_CHANGES = frozenset("cudt")

_ABSENT: Final = msgspec.Raw()


class _MarkedMessage(msgspec.Struct):
    """The members of an envelope or a flattened row that matter; the others are skipped unread."""

    op: msgspec.Raw = _ABSENT
    source: msgspec.Raw = _ABSENT
    deleted: msgspec.Raw = msgspec.field(default=_ABSENT, name="__deleted")
    flattened_op: str | None = msgspec.field(default=None, name="__op")
    flattened_snapshot: str | bool | None = msgspec.field(default=None, name="__source_snapshot")

    @property
    def is_flattened(self) -> bool:
        """True if its other members are columns of a row."""
        return self.flattened_op is not None or self.deleted is not _ABSENT


class _MarkedSource(msgspec.Struct):
    snapshot: str | bool | None = None


_message = msgspec.json.Decoder(_MarkedMessage).decode
_source = msgspec.json.Decoder(_MarkedSource).decode
_op = msgspec.json.Decoder(str).decode


def mark_of(value: bytes | None, schemas: Known | None = None) -> Mark:
    """The mark in the value of a message; schemas: of a registry.

    >>> mark_of(b'{"op": "r", "after": {"id": 7}, "source": {"snapshot": "last"}}').name
    'LAST'
    >>> mark_of(b'{"op": "insert", "row": {"id": 7}}').name, mark_of(None).name
    ('NOTHING', 'NOTHING')
    """
    op, name = _op_and_mark(value, schemas)
    if name in _OF_READS:
        return _OF_READS[name]
    return Mark.CHANGE if op in _CHANGES else Mark.NOTHING


def begins_a_snapshot(value: bytes | None, schemas: Known | None = None) -> bool:
    """True if a message says that it is the first row of a snapshot of whole tables, or of a table in it.

    >>> begins_a_snapshot(b'{"op": "r", "after": {"id": 7}, "source": {"snapshot": "first"}}')
    True
    """
    return _op_and_mark(value, schemas)[1] in _FIRST


def _op_and_mark(value: bytes | None, schemas: Known | None) -> tuple[str | None, str | None]:
    """The op and `source.snapshot` of a message; the latter was a boolean in former versions."""
    if value is None:
        return None, None
    try:
        message = _message(capture_json(value, schemas))
        if message.is_flattened:
            op, mark = message.flattened_op, message.flattened_snapshot
        elif message.op is _ABSENT or message.source is _ABSENT:
            return None, None
        else:
            op, mark = _op(message.op), _source(message.source).snapshot
    except (EventRefused, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, None
    return op, str(mark).lower() if isinstance(mark, bool) else mark
