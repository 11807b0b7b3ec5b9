"""One person's row, encoded: what every other room takes, keeps and hands on.

Codes instead of quasi-identifiers, canonical JSON texts instead of the other values. Its repr shows nothing, so
that a log line or an error can name one without holding a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from streamer.table.arrays import Ints

Values = tuple[bytes, ...]
"""The published values of a row that are not quasi-identifiers: canonical JSON texts, one per kept column."""


@dataclass(frozen=True, slots=True)
class Row:
    """One person's row, encoded.

    codes: d codes in attribute order. exact: the texts of the decimals that have no step, in attribute order (empty
    where the table has none). values: one canonical JSON text per kept column. individual: whom k counts, or None.
    """

    codes: tuple[int, ...] = field(repr=False)
    values: Values = field(repr=False)
    exact: tuple[str, ...] = field(default=(), repr=False)
    individual: str | None = field(default=None, repr=False)


class RowsView(Protocol):
    """n rows as columns; codes: int64 (n, d), the others have length n. Each property may cost a copy."""

    @property
    def codes(self) -> Ints: ...

    @property
    def exact(self) -> Sequence[tuple[str, ...]]: ...

    @property
    def values(self) -> Sequence[Values]: ...
