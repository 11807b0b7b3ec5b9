"""Where a captured message stands in the order of its source, as the connector's `source` block says it.

The rules of this file
----------------------
* The partitions of the input are read apart, so their offsets say nothing of one another; the source's own log does.
  What is asked of it is whether a message came before a truncation of the same table.
* PostgreSQL: `lsn`, the place of the change itself in the write-ahead log. Changes of several transactions are captured
  by their commits, and not by these places; but a truncation locks its table against everybody, so of this table all
  that was committed before it lies before it in the log, and all else behind it.
* MySQL and MariaDB: the number of the binlog's file, the position in it, the row of the event. Files of another name
  are another log. A truncation is an event without rows: what it says of one is left over from the event before it,
  and is another one when the connector reads it again.
* Places of two logs cannot be compared: neither comes before the other. A connector that is not named here, or a
  message without these members, has no place.
* A flattened row may have columns of any name, `source` and `payload` too. So these are read only where the message is
  no flattened row, and nothing but a message of Kafka Connect's two members is unwrapped. Where a registry keeps the
  schema, the place is read by that.
* A log may begin anew (another server, a restored copy) and use lower places for later changes. Then the dates
  contradict the places: that is never decided, but told (`OrderLost`).
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from streamer.errors import EventRefused
from streamer.incremental.events.json_messages import capture_json
from streamer.incremental.events.registered_schemas import Known

DATES_APART_MS = 600_000
"""How much later than a truncation a message before it may be dated: MySQL dates statements by when they began."""

POSTGRESQL = "postgresql"
BINLOGS = frozenset({"mysql", "mariadb"})

_TRUNCATE = b'"t"'
_FILE = re.compile(r"(.+)\.([0-9]{1,18})")


class OrderLost(Exception):
    """The places of a log and the dates of its changes contradict one another."""


class SourcePosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A place in a log. log: which one; place: to be compared within it; at: milliseconds since 1970, 0 not known.

    >>> before, after = SourcePosition("postgresql", (70,)), SourcePosition("postgresql", (90,))
    >>> before.precedes(after), after.precedes(before), before.precedes(SourcePosition("mysql binlog", (90,)))
    (True, False, False)
    """

    log: str
    place: tuple[int, ...]
    at: int = 0

    def precedes(self, other: SourcePosition) -> bool:
        """Whether this place comes before the other one; raises OrderLost where the dates say something else."""
        if self.log != other.log or self.place >= other.place:
            return False
        if self.at and other.at and self.at - other.at > DATES_APART_MS:
            raise OrderLost
        return True


class _Source(msgspec.Struct):
    connector: str | None = None
    lsn: int | None = None
    file: str | None = None
    pos: int | None = None
    row: int | None = None
    ts_ms: int | None = None


_ABSENT: Final = msgspec.Raw()


class _PlacedMessage(msgspec.Struct):
    """The members that tell, of an envelope or a flattened row; all others are skipped without being read."""

    op: msgspec.Raw = _ABSENT
    source: msgspec.Raw = _ABSENT
    flattened_op: msgspec.Raw = msgspec.field(default=_ABSENT, name="__op")
    deleted: msgspec.Raw = msgspec.field(default=_ABSENT, name="__deleted")
    connector: str | None = msgspec.field(default=None, name="__source_connector")
    lsn: int | None = msgspec.field(default=None, name="__source_lsn")
    file: str | None = msgspec.field(default=None, name="__source_file")
    pos: int | None = msgspec.field(default=None, name="__source_pos")
    row: int | None = msgspec.field(default=None, name="__source_row")
    ts_ms: int | None = msgspec.field(default=None, name="__source_ts_ms")

    @property
    def is_flattened(self) -> bool:
        """Whether what else it has are columns of a row."""
        marks = self.flattened_op is not _ABSENT or self.deleted is not _ABSENT
        return marks or self.lsn is not None or self.file is not None


_message = msgspec.json.Decoder(_PlacedMessage).decode
_source = msgspec.json.Decoder(_Source).decode


def position_of(value: bytes | None, schemas: Known | None = None) -> SourcePosition | None:
    """The place that the value of a message names; None if it names none that is known here.

    schemas: those of a registry.

    >>> position_of(b'{"op": "t", "source": {"connector": "postgresql", "lsn": 33, "ts_ms": 5}}')
    SourcePosition(log='postgresql', place=(33,), at=5)
    >>> position_of(b'{"op": "insert", "row": {"id": 7}}')
    """
    if value is None:
        return None
    try:
        message = _message(capture_json(value, schemas))
        return _position(message if message.is_flattened else _source_of(message))
    except (EventRefused, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _source_of(message: _PlacedMessage) -> _Source:
    """The source block of an envelope, which always has an op."""
    if message.op is _ABSENT or message.source is _ABSENT:
        return _Source()
    said = _source(message.source)
    return msgspec.structs.replace(said, row=None) if bytes(message.op) == _TRUNCATE else said


def _position(said: _Source | _PlacedMessage) -> SourcePosition | None:
    at = said.ts_ms or 0
    if said.lsn is not None and said.connector in (POSTGRESQL, None):
        return SourcePosition(POSTGRESQL, (said.lsn,), at)
    named = None if said.file is None else _FILE.fullmatch(said.file)
    if named is None or said.pos is None or (said.connector is not None and said.connector not in BINLOGS):
        return None
    return SourcePosition(named[1], (int(named[2]), said.pos, said.row or 0), at)
