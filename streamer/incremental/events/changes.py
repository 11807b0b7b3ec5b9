"""What can happen to a table of people, as values: the input language of the engine.

The rules of this file
----------------------
* A change is decoded, validated and encoded already: codes instead of raw quasi-identifiers, canonical JSON texts
  instead of sensitive values. What could not be encoded never becomes a change (it is an `EventRefused`).
* Two families. The plain form is strict: `Insert` of a source key that exists, `Delete` or `Modify` of one that does
  not are refused. The change-data-capture form is at-least-once: `Upsert` (which the plain form has, too) and
  `Remove` say how the row shall be afterwards, and repeating them changes nothing.
* Statements (`DeleteWhere`, `ModifyWhere`, `Truncate`) speak about all rows of a shard.
* The repr of a change shows its kind only: a log line can hold one without holding a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streamer.table.arrays import Bools
from streamer.table.row import Row, RowsView, Unshown


class RowCondition(Protocol):
    """Which rows a statement speaks about (Song et al. 2009, phi)."""

    def matches(self, rows: RowsView) -> Bools:
        """Whether each row satisfies it; bool (n,)."""


class RowAssignments(Protocol):
    """What a statement makes of a row (Song et al. 2009, F_M)."""

    def applied_to(self, row: Row) -> Row:
        """The row with its new values; raises EventRefused where one of them is not a value of its column."""


class Insert(Unshown, frozen=True):
    """A new row; refused (`key-exists`) where the source key is there."""

    source_key: str
    row: Row


class Delete(Unshown, frozen=True):
    """Removes a row; refused (`key-unknown`) where the source key is not there."""

    source_key: str


class Modify(Unshown, frozen=True):
    """New values for some columns of one row; refused (`key-unknown`) where the source key is not there.

    codes: attribute number -> code. exact: attribute number -> text. values: kept column number -> JSON text. nulls:
    which of these attributes are null now.
    individual: only to be compared with the stored one (`individual-changed` where it differs).
    """

    source_key: str
    codes: Mapping[int, int] = {}
    exact: Mapping[int, str] = {}
    values: Mapping[int, bytes] = {}
    individual: str | None = None
    nulls: tuple[int, ...] = ()


class Upsert(Unshown, frozen=True):
    """The row shall be like this afterwards; `former_key`: the source key it had before, where that changed.

    was_there: the message speaks of a change, so that the row should be there already.
    """

    source_key: str
    row: Row
    former_key: str | None = None
    was_there: bool = False


class Remove(Unshown, frozen=True):
    """The row shall not be there afterwards; ignored where it is not there now.

    was_there: the message is a deletion, and not the tombstone that may follow one.
    """

    source_key: str
    was_there: bool = False


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
    """Removes all rows but the spared ones, which are named by their source keys.

    whole_table_only: said to one shard only, which cannot do it where there are several: whoever reads it tells the
    others first (`streamer.incremental.shard.truncations`).
    """

    statement_id: str | None = None
    whole_table_only: bool = False
    spared: frozenset[str] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True)
class Nothing:
    """A message that says nothing about the rows (a tombstone after a deletion, a heartbeat): ignored and counted."""


Statement = DeleteWhere | ModifyWhere | Truncate

Change = Insert | Delete | Modify | Upsert | Remove | Statement | Nothing
