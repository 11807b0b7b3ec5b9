"""One person's row, encoded: what every other room takes, keeps and passes on.

Codes instead of quasi-identifiers, canonical JSON texts instead of the other values. Rows, and what is made of them for
every message, are structs: one is built eight times as fast as a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from streamer.table.arrays import Bools, Ints

Values = tuple[bytes, ...]
"""The published values of a row that are not quasi-identifiers: one canonical JSON text per kept column."""


class Unshown(msgspec.Struct, frozen=True, gc=False):
    """A value made of people's data: its repr is only the name of its class, so that a log line can hold no value.

    No subclass may be part of a reference cycle: the garbage collector skips these values (gc=False), because it would
    visit all rows and all outgoing records again and again.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class Row(Unshown, frozen=True):
    """One person's row, encoded."""

    codes: tuple[int, ...]  # d codes, by attribute
    values: Values
    exact: tuple[str, ...] = ()  # the texts of decimals without a step, by attribute
    individual: str | None = None  # whom k counts, if the table declares individuals
    nulls: tuple[int, ...] = ()  # ascending numbers of the null attributes; their codes are what a null counts as


class RowsView(Protocol):
    """n rows as columns; codes: int64 (n, d), nulls: bool (n, d), the others have length n. Each may cost a copy."""

    @property
    def codes(self) -> Ints: ...

    @property
    def exact(self) -> Sequence[tuple[str, ...]]: ...

    @property
    def values(self) -> Sequence[Values]: ...

    @property
    def nulls(self) -> Bools: ...
