"""Changes of a table of people, as values: the input of the engine.

* A change is decoded, validated and encoded: codes instead of raw quasi-identifiers, canonical JSON texts instead of
  sensitive values. A message that could not be encoded is never a change; it is an `EventRefused`.
* Two families. The plain form is strict: `Insert` of an existing source key is refused, and so are `Delete` and
  `Modify` of an unknown one. Change data capture is at-least-once: `Upsert` (also in the plain form) and `Remove` say
  how the row is afterwards, and repeating them changes nothing.
* Statements (`DeleteWhere`, `ModifyWhere`, `Truncate`) are about all rows of a shard.
* The repr of a change shows its kind only, so that logs hold no value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from streamer.incremental.events.source_positions import SourcePosition
from streamer.table.arrays import Bools
from streamer.table.row import Row, RowsView, Unshown, Values


class RowCondition(Protocol):
    """The condition of a statement (Song et al. 2009, phi)."""

    def matches(self, rows: RowsView) -> Bools:
        """True for each row that satisfies it; bool (n,)."""


class RowAssignments(Protocol):
    """The changes that a statement makes to a row (Song et al. 2009, F_M)."""

    def applied_to(self, row: Row) -> Row:
        """The row with its new values; raises EventRefused if one of them is not a value of its column."""


class Insert(Unshown, frozen=True):
    """A new row; refused (`key-exists`) if the source key is there."""

    source_key: str
    row: Row


class Delete(Unshown, frozen=True):
    """Removes a row; refused (`key-unknown`) if the source key is not there."""

    source_key: str


class Modify(Unshown, frozen=True):
    """New values for some columns of one row; refused (`key-unknown`) if the source key is not there."""

    source_key: str
    codes: Mapping[int, int] = {}  # attribute number -> code
    exact: Mapping[int, str] = {}  # attribute number -> text
    values: Mapping[int, bytes] = {}  # kept column number -> JSON text
    individual: str | None = None  # compared with the stored one: `individual-changed` if it differs
    nulls: tuple[int, ...] = ()  # those of the attributes that are null now


class Upsert(Unshown, frozen=True):
    """The row is like this afterwards."""

    source_key: str
    row: Row
    former_key: str | None = None  # the source key that it had before, if the key changed
    was_there: bool = False  # the message is about a change: the row should be there already
    position: SourcePosition | None = None  # of a captured message
    is_read: bool = False  # by a snapshot: the row may have changed since


class Remove(Unshown, frozen=True):
    """The row is not there afterwards; ignored if it is not there now."""

    source_key: str
    was_there: bool = False  # the message is a deletion, not the tombstone that may follow one
    position: SourcePosition | None = None


@dataclass(frozen=True, slots=True)
class DeleteWhere:
    """Removes the rows that satisfy a condition (Song et al. 2009, DELETE(R, phi_D))."""

    condition: RowCondition = field(repr=False)
    statement_id: str | None = None


@dataclass(frozen=True, slots=True)
class ModifyWhere:
    """Changes the rows that satisfy a condition (Song et al. 2009, MODIFY(R, phi_M, F_M))."""

    condition: RowCondition = field(repr=False)
    assignments: RowAssignments = field(repr=False)
    statement_id: str | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    """Removes all rows."""

    statement_id: str | None = None
    whole_table_only: bool = False  # a connector wrote it to one partition: with several shards it is refused
    position: SourcePosition | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """A message that is about no row (a heartbeat, a transaction's border): ignored and counted."""


Statement = DeleteWhere | ModifyWhere | Truncate

Change = Insert | Delete | Modify | Upsert | Remove | Statement | Nothing


class RowChange(Unshown, frozen=True):
    """The change of one row. Row changes are in the sequence in which they were made: none, one or many per change."""

    source_key: str
    before: Values | None  # its published values before; None: it is new
    row: Row | None  # as it is now; None: it is gone
    at: int = 0  # the time of the message, in milliseconds since 1970; 0 if it says none


class Counts(msgspec.Struct, frozen=True):
    """Messages by their outcome: in every sum, messages = applied + ignored + dead letters.

    A dead letter about rows that a statement left unchanged (`partial`) is not counted: its statement was applied.

    >>> (Counts(applied=2, dead_letters=1) + Counts(ignored=1)).messages
    4
    """

    applied: int = 0
    ignored: int = 0
    dead_letters: int = 0
    unknown_keys: int = 0  # of these: captured changes of rows that the table does not have
    unlisted: Mapping[str, int] = {}  # of the applied: by column, an unknown category
    respelt_keys: int = 0  # of the unknown keys: those of rows, in another spelling
    old_reads: int = 0  # of the ignored: rows that a snapshot has read, and that were changed or deleted since
    explaining: int = 0  # deletions at no known position and rows that came again: why later keys may be unknown

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.applied + other.applied,
            self.ignored + other.ignored,
            self.dead_letters + other.dead_letters,
            self.unknown_keys + other.unknown_keys,
            dict(Counter(self.unlisted) + Counter(other.unlisted)) if other.unlisted else self.unlisted,
            self.respelt_keys + other.respelt_keys,
            self.old_reads + other.old_reads,
            self.explaining + other.explaining,
        )

    @property
    def messages(self) -> int:
        return self.applied + self.ignored + self.dead_letters


NO_MESSAGES = Counts()
APPLIED, IGNORED, DEAD = Counts(applied=1), Counts(ignored=1), Counts(dead_letters=1)
OLD_READ = Counts(ignored=1, old_reads=1)
"""One message each."""

APPLIED_LATE, IGNORED_LATE = Counts(applied=1, dead_letters=-1), Counts(ignored=1, dead_letters=-1)
"""A dead letter that was retried: it is not a dead letter any more."""

UNKNOWN_KEY, RESPELT_KEY = Counts(unknown_keys=1), Counts(unknown_keys=1, respelt_keys=1)
EXPLAINING = Counts(explaining=1)
"""Added to the outcome of the message."""
