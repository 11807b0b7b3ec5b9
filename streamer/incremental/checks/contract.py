"""What the laws ask of a form of publication: where a record belongs, and what is known of one QI group by its records.

A form knows the place of a record by its key: in which QI group, and which of its items. An item is written or removed;
what follows from all of them the laws ask for: how many rows, which values, where the rows may lie.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple, Protocol

from streamer.table.arrays import Ints
from streamer.table.published import qi_group_name
from streamer.table.row import Values
from streamer.table.schema import Table

QIGroupId = tuple[int, int]
"""Shard and number."""


class Place(NamedTuple):
    """Where a record belongs: its QI group, which item of it, and how a sentence names the item."""

    qi_group: QIGroupId
    item: Hashable
    name: str = ""


Fault = tuple[str, str]
"""A law and what is wrong."""


class GroupSeen(Protocol):
    """One QI group as far as its records say."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it is published any more."""

    @property
    def values(self) -> Sequence[Values]:
        """The kept values of its rows, one for each row."""

    def put(self, item: Hashable, value: bytes, name: str) -> None:
        """Writes an item of the QI group called `name`. Raises LawViolated for what is not of the published form."""

    def remove(self, item: Hashable) -> bool:
        """Removes an item; False where it is not there."""

    def faults(self) -> Iterator[Fault]:
        """What breaks a law of the form."""

    def misplaced(self, cells: Ints) -> int | None:
        """The number of an attribute in which rows with cells (n, d), all of the group, cannot lie; None: they can."""


class Form(Protocol):
    """How a form of publication is read."""

    def __init__(self, table: Table) -> None: ...

    def place(self, key: bytes) -> Place:
        """Where a record belongs. Raises LawViolated for a key of another form."""

    def rewritten(self, key: bytes) -> bytes:
        """The bytes under which a record stands, from a key as any tool may write it. Raises LawViolated."""

    def topic(self, key: bytes) -> str:
        """The kind of topic that holds a record."""

    def new(self) -> GroupSeen:
        """A QI group of which nothing is known yet."""


class Misnamed(Exception):
    """A record's value names another QI group than its key."""


def group_name(qi_group: QIGroupId) -> str:
    """The published name of a QI group."""
    return qi_group_name(*qi_group)
