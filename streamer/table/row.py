"""One person's row, encoded: what every other room takes, keeps and hands on.

Codes instead of quasi-identifiers, canonical JSON texts instead of the other values. Its repr shows nothing, so
that a log line or an error can name one without holding a value. Rows, and what is made of them for every message, are
structs: one is built eight times as fast as a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from streamer.table.arrays import Bools, Ints

Values = tuple[bytes, ...]
"""The published values of a row that are not quasi-identifiers: canonical JSON texts, one per kept column."""


class Unshown(msgspec.Struct, frozen=True, gc=False):
    """A value made of what people said: its repr is the name of its class and no more.

    No subclass may hold what could lead back to it: the garbage collector, which would look through all rows and all
    records on their way out again and again, does not look into these values.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class Row(Unshown, frozen=True):
    """One person's row, encoded.

    codes: d codes in attribute order. exact: the texts of the decimals that have no step, in attribute order (empty
    where the table has none). values: one canonical JSON text per kept column. individual: whom k counts, or None.
    nulls: numbers of the attributes that are null, ascending; code and exact text of these say what a null counts as.
    """

    codes: tuple[int, ...]
    values: Values
    exact: tuple[str, ...] = ()
    individual: str | None = None
    nulls: tuple[int, ...] = ()


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
