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
    """The row shall not be there afterwards; ignored if it is not there now.

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

    whole_table_only: said to one shard only, which cannot do it if there are several: whoever reads it tells the
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


# What became of the messages that were read: messages = applied + ignored + dead letters, in every sum of counts.
#
# Beside this sum stands how many of the applied and ignored ones changed or deleted a captured row that the table did
# not have: rows were missed before, or lie in another shard; and, by column, how many of the applied ones had a
# category that table.yaml does not list and its `other` takes: a vocabulary that drifts is seen nowhere else. A letter
# about rows that a statement left unchanged (`partial`) is not counted here: its statement was applied.


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages by what became of them.

    >>> (Counts(applied=2, dead_letters=1) + Counts(ignored=1)).messages
    4
    """

    applied: int = 0
    ignored: int = 0
    dead_letters: int = 0
    unknown_keys: int = 0
    unlisted: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.applied + other.applied,
            self.ignored + other.ignored,
            self.dead_letters + other.dead_letters,
            self.unknown_keys + other.unknown_keys,
            _summed(self.unlisted, other.unlisted) if other.unlisted else self.unlisted,
        )

    @property
    def messages(self) -> int:
        return self.applied + self.ignored + self.dead_letters


def _summed(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {name: counts.get(name, 0) + more.get(name, 0) for name in (*counts, *(more.keys() - counts.keys()))}


NO_MESSAGES = Counts()
APPLIED, IGNORED, DEAD = Counts(applied=1), Counts(ignored=1), Counts(dead_letters=1)
"""One message each."""

APPLIED_LATE, IGNORED_LATE = Counts(applied=1, dead_letters=-1), Counts(ignored=1, dead_letters=-1)
"""A message that had been refused, and was tried again: it is no dead letter any more."""

UNKNOWN_KEY = Counts(unknown_keys=1)
"""To be added to what became of the message."""
