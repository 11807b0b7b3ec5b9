"""A shard's table as it is stored: rows, QI groups, similarity lists.

An engine returns what has changed, a store keeps it, and the next engine loads it.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from streamer.incremental.engine.last_changes import Remembered
from streamer.table.arrays import Ints
from streamer.table.row import Row, Unshown, Values

PENDING = 0
"""In place of a QI group's number: the row is accepted, but not publishable yet. Numbers of groups start at 1."""


class Record(Unshown, frozen=True):
    """One line of the index table (Song et al. 2009, definition 4): a source row and its QI group."""

    row: Row
    qi_group: int


class QIGroupState(Unshown, frozen=True):
    """One QI group: its box in cells, the source keys of its members, and its published values by slot."""

    lo: tuple[int, ...]
    hi: tuple[int, ...]
    members: tuple[str, ...]
    slots: tuple[Values, ...]


How: TypeAlias = Literal["formed", "loaded", "merged", "split", "cut afresh", "rebuilt"]
"""Out of pending rows; with a first table; of two QI groups; as a part of one, or of two that local repair cut
together; with a region of a rebuild.
"""

HOW: tuple[How, ...] = get_args(How)
"""In the order of the core's numbers, which begin with 1."""


class Origin(msgspec.Struct, frozen=True, gc=False):
    """The way in which a QI group was last formed, and the number of the commit.

    It decides nothing: no engine loads it. Of several changes in one commit the last one counts, so it depends on
    batches.
    """

    how: How
    commit: int


Degrees: TypeAlias = tuple[tuple[int, float], ...]
"""QI groups by number with their similarity degrees to one (QGSSD, definition 7), best first."""


class SimilarityList(msgspec.Struct, frozen=True, gc=False):
    """The QI groups that the last search for neighbours of one found, and the commit of which the degrees are.

    It decides nothing: a search begins with these groups, and finds the same without them. As `Origin`, it depends on
    batches.
    """

    neighbours: Degrees
    commit: int


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table for an engine to load. The iterables may be read once, in this order, while the store reads them."""

    qi_group_next: int  # the next unused number
    records: Iterable[tuple[str, Record]]  # by source key
    qi_groups: Iterable[tuple[int, QIGroupState]]  # by number
    similarity: Iterable[tuple[int, SimilarityList]]  # by number
    statement_ids: Sequence[str]
    last_changes: Iterable[tuple[int, Remembered]] = ()  # by tie hash, in any order


STATEMENT_IDS_MAX = 10_000
"""Statement ids that a shard remembers; a statement with one of them is ignored."""

RECORDS_AT_ONCE = 10_000
"""Rows that are objects at the same time."""


@dataclass(frozen=True, eq=False)
class RecordColumns(Mapping[str, Record | None]):
    """n rows by source key, as columns: a table's worth of objects would take four times the memory.

    Columns are in one order; a `Record` is made when it is asked for, and is None for the keys in `gone`.
    """

    source_keys: Any = field(repr=False)  # an array of texts, (n,)
    codes: Ints = field(repr=False)  # (n, d)
    values_of: Sequence[Values] = field(repr=False)
    exact: Sequence[tuple[str, ...]] = field(repr=False)
    individuals: Sequence[str | None] = field(repr=False)
    nulls: Sequence[tuple[int, ...]] = field(repr=False)  # numbers of the attributes that are null
    qi_groups: Ints = field(repr=False)  # (n,): numbers, or PENDING
    gone: Sequence[str] = field(default=(), repr=False)  # source keys of rows that are not there any more

    def __len__(self) -> int:
        return len(self.codes) + len(self.gone)

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self.codes), RECORDS_AT_ONCE):
            yield from self.source_keys[first : first + RECORDS_AT_ONCE].tolist()
        yield from self.gone

    def __getitem__(self, source_key: str) -> Record | None:
        index = self._indexes[source_key]
        return next(self._records(slice(index, index + 1)), None)

    def items(self) -> ItemsView[str, Record | None]:
        """All of them, in one pass."""
        return _Items(self)

    def pairs(self) -> Iterator[tuple[str, Record | None]]:
        """Source keys with their records, some as objects at a time."""
        for first in range(0, len(self.codes), RECORDS_AT_ONCE):
            some = slice(first, first + RECORDS_AT_ONCE)
            yield from zip(self.source_keys[some].tolist(), self._records(some), strict=True)
        yield from ((source_key, None) for source_key in self.gone)

    def in_groups(self, source_keys: Sequence[str], qi_groups: Ints) -> RecordColumns:
        """Some of the rows, in QI groups of these numbers, (n,)."""
        indexes = [self._indexes[source_key] for source_key in source_keys]
        return RecordColumns(
            self.source_keys[indexes],
            self.codes[indexes],
            [self.values_of[index] for index in indexes],
            [self.exact[index] for index in indexes],
            [self.individuals[index] for index in indexes],
            [self.nulls[index] for index in indexes],
            qi_groups,
        )

    @cached_property
    def _indexes(self) -> dict[str, int]:
        return {source_key: index for index, source_key in enumerate(self)}

    def _records(self, some: slice) -> Iterator[Record]:
        codes = map(tuple, self.codes[some].tolist())
        rows = map(Row, codes, self.values_of[some], self.exact[some], self.individuals[some], self.nulls[some])
        return map(Record, rows, self.qi_groups[some].tolist())


class _Items(ItemsView[str, Record | None]):
    """The items of columns; the default view would look every record up."""

    _mapping: RecordColumns

    def __iter__(self) -> Iterator[tuple[str, Record | None]]:
        return self._mapping.pairs()
