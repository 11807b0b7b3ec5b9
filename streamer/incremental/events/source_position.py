"""The position of a captured message in its source's log, by the connector's `source` block.

* Partitions of the input are read independently, so their offsets have no order between them; the source's log has
  one. The question to it is whether a message came before a truncation of the same table.
* PostgreSQL: `lsn`, the position of the change itself in the write-ahead log. Changes of several transactions come in
  the order of their commits, not of these positions. But a truncation locks its table against all others, so what was
  committed before it has lower positions, and everything else higher ones.
* MySQL and MariaDB: the number of the binlog file, the position in it, the row of the event. Files with another name
  are another log. A truncation is an event without rows: the row that it names is left over from the event before,
  and differs when the connector reads the event again.
* Positions in two logs cannot be compared: neither comes first. Other connectors, and messages without these members,
  have no position.
* A flattened row may have columns of any name, `source` and `payload` too. So these are read only if the message is
  not a flattened row, and only a message of exactly Kafka Connect's two members is unwrapped. If the schema is in a
  registry, the position is read by it.
* A log may start again (another server, a restored copy) and give lower positions to later changes. Then dates
  contradict positions. That is never decided here: `OrderLost` is raised.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from streamer.errors import EventRefused
from streamer.incremental.events.json_messages import capture_json
from streamer.incremental.events.registered_schemas import Known

DATES_APART_MS = 600_000
"""How much later than a truncation a message before it may be dated: MySQL dates statements by their start."""

POSTGRESQL = "postgresql"
BINLOGS = frozenset({"mysql", "mariadb"})

_TRUNCATE = b'"t"'
_FILE = re.compile(r"(.+)\.([0-9]{1,18})")


class OrderLost(Exception):
    """Positions in a log and dates of its changes contradict each other."""


class SourcePosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A position in a log; the fields are stored and published by these names.

    >>> before, after = SourcePosition("postgresql", (70,)), SourcePosition("postgresql", (90,))
    >>> before.precedes(after), after.precedes(before), before.precedes(SourcePosition("mysql binlog", (90,)))
    (True, False, False)
    """

    log: str
    place: tuple[int, ...]  # compared within the log
    at: int = 0  # milliseconds since 1970; 0: not known

    def precedes(self, other: SourcePosition) -> bool:
        """Whether this position is before the other; raises OrderLost if the dates contradict it."""
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
    """The members of an envelope or a flattened row that matter; the others are skipped unread."""

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
        """Whether its other members are columns of a row."""
        marks = self.flattened_op is not _ABSENT or self.deleted is not _ABSENT
        return marks or self.lsn is not None or self.file is not None


_message = msgspec.json.Decoder(_PlacedMessage).decode
_source = msgspec.json.Decoder(_Source).decode


def position_of(value: bytes | None, schemas: Known | None = None) -> SourcePosition | None:
    """The position that a message names; None if it names none. schemas: of a registry.

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
    source = _source(message.source)
    return msgspec.structs.replace(source, row=None) if bytes(message.op) == _TRUNCATE else source


def _position(source: _Source | _PlacedMessage) -> SourcePosition | None:
    at = source.ts_ms or 0
    if source.lsn is not None and source.connector in (POSTGRESQL, None):
        return SourcePosition(POSTGRESQL, (source.lsn,), at)
    named = None if source.file is None else _FILE.fullmatch(source.file)
    if named is None or source.pos is None or (source.connector is not None and source.connector not in BINLOGS):
        return None
    return SourcePosition(named[1], (int(named[2]), source.pos, source.row or 0), at)
