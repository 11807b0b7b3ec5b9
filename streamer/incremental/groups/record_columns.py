"""Many rows as a store keeps them, by column: as a mapping of objects they would take four times the memory.

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

    source_keys: an array of texts, (n,); codes (n, d); qi_groups (n,): numbers, or PENDING.
    """

    source_keys: Any = field(repr=False)
    codes: Ints = field(repr=False)
    values_of: Sequence[Values] = field(repr=False)
    exact: Sequence[tuple[str, ...]] = field(repr=False)
    individuals: Sequence[str | None] = field(repr=False)
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
        if place >= len(self.codes):
            return None
        row = Row(tuple(self.codes[place].tolist()), self.values_of[place], self.exact[place], self.individuals[place])
        return Record(row, int(self.qi_groups[place]))

    def items(self) -> ItemsView[str, Record | None]:
        """All of them, in one pass."""
        return _Items(self)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {source_key: place for place, source_key in enumerate(self)}

    def pairs(self) -> Iterator[tuple[str, Record | None]]:
        """Source keys with their records, some objects at a time."""
        for first in range(0, len(self.codes), RECORDS_AT_ONCE):
            some = slice(first, first + RECORDS_AT_ONCE)
            codes = map(tuple, self.codes[some].tolist())
            rows = map(Row, codes, self.values_of[some], self.exact[some], self.individuals[some])
            records = map(Record, rows, self.qi_groups[some].tolist())
            yield from zip(self.source_keys[some].tolist(), records, strict=True)
        yield from ((source_key, None) for source_key in self.gone)


class _Items(ItemsView[str, Record | None]):
    """The items of columns; a view of a mapping would look every record up."""

    _mapping: RecordColumns

    def __iter__(self) -> Iterator[tuple[str, Record | None]]:
        return self._mapping.pairs()
