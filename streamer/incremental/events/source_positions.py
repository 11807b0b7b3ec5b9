"""Where a captured message stands in the log of its source, by what Debezium writes into `source`.

* Only for rows that a snapshot has read: is one older than what a later change made of it? So only positions of one row
  are compared, or those of a whole log that is in the order of its commits.
* Postgres: its own LSN, or that of the last commit before it, if that is higher. A transaction may write early and
  commit late: what a snapshot read in between is older than it. MySQL and MariaDB: file and offset of the binlog. SQL
  Server, Db2, Informix: the LSN of the commit. Oracle: the SCN of the commit, or its own.
* Positions of different connectors or databases, or of binlogs with other names, are not compared.
* A source that was restored from a copy or replaced counts from anew. So a row that was read more than a day later than
  the change is not older, whatever its position. Clocks and time zones differ by less.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

DAY_MS = 86_400_000
NUMBER_MAX = 1 << 63  # the stored form has no larger ones

JUST_AFTER = -1

_BINLOG = re.compile(r"(.*?)\.?([0-9]{1,18})")


class SourcePosition(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A place in a log: numbers in ascending order. ms: since 1970; 0: not known."""

    log: str
    at: tuple[int, ...]
    ms: int = 0

    def is_before(self, other: SourcePosition) -> bool:
        """True if it is certainly older.

        >>> SourcePosition("a", (7,)).is_before(SourcePosition("a", (9,)))
        True
        """
        later = self.ms - other.ms if self.ms and other.ms else 0
        return self.log == other.log and self.at < other.at and later < DAY_MS

    def just_after(self) -> SourcePosition:
        """The position of what has none, and came after a message at this one: later than it, and before all others.

        >>> read = SourcePosition("a", (7,))
        >>> read.is_before(read.just_after()), read.just_after().is_before(SourcePosition("a", (8,)))
        (True, True)
        """
        return SourcePosition(self.log, (*self.of_a_message().at, JUST_AFTER), self.ms)

    def of_a_message(self) -> SourcePosition:
        """The position of the last message at or before this one."""
        return SourcePosition(self.log, self.at[:-1], self.ms) if self.at[-1] == JUST_AFTER else self


def position_of(source: object) -> SourcePosition | None:
    """The position in the `source` of an envelope; None if it says none that can be compared.

    >>> position_of({"connector": "mysql", "file": "binlog.000007", "pos": 154, "ts_ms": 1000})
    SourcePosition(log='mysql None None binlog', at=(7, 154), ms=1000)
    """
    if type(source) is not dict or (found := _log_and_numbers(source)) is None:
        return None
    kind, at = found
    log = f"{source.get('connector')} {source.get('name')} {source.get('db')} {kind}"
    return SourcePosition(log, at, _number(source.get("ts_ms")) or 0)


def flattened_position(row: Mapping[str, object]) -> SourcePosition | None:
    """The same, if the transform has put members of `source` into the row (`add.fields`)."""
    return position_of({name[2:].removeprefix("source_"): row[name] for name in row if name[:2] == "__"})


def _log_and_numbers(source: Mapping[str, object]) -> tuple[str, tuple[int, ...]] | None:
    if (lsn := _number(source.get("lsn"))) is not None:
        return "lsn", (max(lsn, _last_commit(source.get("sequence"))),)
    if (parts := _numbers(source.get("commit_lsn"))) is not None:
        return "commit_lsn", parts
    scns = [scn for name in ("scn", "commit_scn") if (scn := _number(source.get(name))) is not None]
    if scns:
        return "scn", (max(scns),)
    file, offset = source.get("file"), _number(source.get("pos"))
    if offset is not None and isinstance(file, str) and (parted := _BINLOG.fullmatch(file)):
        return parted[1], (int(parted[2]), offset)
    return None


def _last_commit(sequence: object) -> int:
    """The first of Postgres' two LSNs, in a JSON text: of the last commit; 0 if there is none yet."""
    return _number(sequence[2:].partition('"')[0]) or 0 if type(sequence) is str else 0


def _numbers(text: object) -> tuple[int, ...] | None:
    """Hexadecimal numbers with colons between them, as SQL Server and Db2 write an LSN; or one decimal number."""
    if not isinstance(text, str) or ":" not in text:
        return None if (number := _number(text)) is None else (number,)
    try:
        parts = tuple(int(part, 16) for part in text.split(":"))
    except ValueError:
        return None
    return parts if all(0 <= part < NUMBER_MAX for part in parts) else None


def _number(value: object) -> int | None:
    """A whole number, or its digits."""
    if type(value) is str and len(value) < 20 and value.isascii() and value.isdecimal():
        value = int(value)
    return value if type(value) is int and 0 <= value < NUMBER_MAX else None
