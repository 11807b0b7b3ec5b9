"""One person's row, encoded: what every other room takes, keeps and passes on.

Codes instead of quasi-identifiers, canonical JSON texts instead of the other values. Rows, and what is made of them for
every message, are structs: one is built eight times as fast as a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import msgspec

from streamer.table.arrays import Bools, Ints

T = TypeVar("T")

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


@dataclass(slots=True)
class Patch:
    """New cells for rows, by their numbers in a row; nulls: those of the codes that are null then."""

    codes: dict[int, int] = field(default_factory=dict, repr=False)
    exact: dict[int, str] = field(default_factory=dict, repr=False)
    values: dict[int, bytes] = field(default_factory=dict, repr=False)
    nulls: set[int] = field(default_factory=set, repr=False)

    def copy(self) -> Patch:
        return Patch(self.codes.copy(), self.exact.copy(), self.values.copy(), self.nulls.copy())

    def on(self, row: Row) -> Row:
        """The row with these cells."""
        nulls = row.nulls
        if nulls or self.nulls:
            nulls = tuple(sorted({*nulls} - self.codes.keys() | self.nulls))
        codes, values, exact = (
            _with(row.codes, self.codes), _with(row.values, self.values), _with(row.exact, self.exact)
        )  # fmt: skip
        return Row(codes, values, exact, row.individual, nulls)


def _with(cells: tuple[T, ...], new: Mapping[int, T]) -> tuple[T, ...]:
    if not new:
        return cells
    changed = list(cells)
    for i, cell in new.items():
        changed[i] = cell
    return tuple(changed)


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
