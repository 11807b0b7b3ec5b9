"""Rows as a store keeps them, by column: as objects, those of a whole table would take four times the memory.

Whoever loads a table with all its rows at once, or changes a hundred thousand of them in one statement, would otherwise
hold an object for every row between the engine and the bytes of the store. A record is made when it is asked for.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from streamer.incremental.groups.kept import Record
from streamer.table.arrays import Ints
from streamer.table.row import Row, Values

RECORDS_AT_ONCE = 10_000
"""Rows that are objects at the same time."""


@dataclass(frozen=True, eq=False)
class RecordColumns(Mapping[str, Record | None]):
    """n rows by source key; gone: source keys of rows that are not there any more, whose record is None.

    source_keys: an array of texts, (n,); codes (n, d); nulls: of each row, the numbers of the attributes that are null;
    qi_groups (n,): numbers, or PENDING.
    """

    source_keys: Any = field(repr=False)
    codes: Ints = field(repr=False)
    values_of: Sequence[Values] = field(repr=False)
    exact: Sequence[tuple[str, ...]] = field(repr=False)
    individuals: Sequence[str | None] = field(repr=False)
    nulls: Sequence[tuple[int, ...]] = field(repr=False)
    qi_groups: Ints = field(repr=False)
    gone: Sequence[str] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.codes) + len(self.gone)

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self.codes), RECORDS_AT_ONCE):
            yield from self.source_keys[first : first + RECORDS_AT_ONCE].tolist()
        yield from self.gone

    def __getitem__(self, source_key: str) -> Record | None:
        place = self._places[source_key]
        return next(self._records(slice(place, place + 1)), None)

    def items(self) -> ItemsView[str, Record | None]:
        """All of them, in one pass."""
        return _Items(self)

    def pairs(self) -> Iterator[tuple[str, Record | None]]:
        """Source keys with their records, some objects at a time."""
        for first in range(0, len(self.codes), RECORDS_AT_ONCE):
            some = slice(first, first + RECORDS_AT_ONCE)
            yield from zip(self.source_keys[some].tolist(), self._records(some), strict=True)
        yield from ((source_key, None) for source_key in self.gone)

    def in_groups(self, source_keys: Sequence[str], qi_groups: Ints) -> RecordColumns:
        """Some of the rows that are there, in QI groups of these numbers, (n,)."""
        places = [self._places[source_key] for source_key in source_keys]
        return RecordColumns(
            self.source_keys[places],
            self.codes[places],
            [self.values_of[place] for place in places],
            [self.exact[place] for place in places],
            [self.individuals[place] for place in places],
            [self.nulls[place] for place in places],
            qi_groups,
        )

    @cached_property
    def _places(self) -> dict[str, int]:
        return {source_key: place for place, source_key in enumerate(self)}

    def _records(self, some: slice) -> Iterator[Record]:
        codes = map(tuple, self.codes[some].tolist())
        rows = map(Row, codes, self.values_of[some], self.exact[some], self.individuals[some], self.nulls[some])
        return map(Record, rows, self.qi_groups[some].tolist())


class _Items(ItemsView[str, Record | None]):
    """The items of columns; a view of a mapping would look every record up."""

    _mapping: RecordColumns

    def __iter__(self) -> Iterator[tuple[str, Record | None]]:
        return self._mapping.pairs()
