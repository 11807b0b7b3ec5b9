"""The index table of a shard, in columns (Song et al. 2009, definition 4).

The rules of this file
----------------------
* Every row has a *place*, an index into the columns, from its insertion to its removal; places are used again. Nothing
  outside this process knows a place, and no result depends on one: whatever needs an order sorts by lot.
* Codes (exact) and cells (coarsened to the grid) stand side by side as int64 matrices, so that a box is two numpy calls
  over the members' places and a statement runs over whole columns.
* `qi_group` is the number of the row's QI group, or PENDING; it changes by `assign` alone, which counts who is pending:
  rows, and how many each individual has among them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamer.incremental.groups.kept import PENDING, Record
from streamer.table.arrays import Ints
from streamer.table.row import Row, Values
from streamer.table.space import Space

FIRST_CAPACITY = 1024


class Rows:
    """All rows of one shard by source key, with their QI groups."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._free: list[int] = []
        self.place_of: dict[str, int] = {}
        self.codes: Ints = np.empty((FIRST_CAPACITY, space.d), dtype=np.int64)
        self.cells: Ints = np.empty((FIRST_CAPACITY, space.d), dtype=np.int64)
        self.source_keys: list[str] = []
        self.rows: list[Row] = []
        self.qi_group: list[int] = []
        self.n_pending = 0
        self._pending_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.place_of)

    def add(self, source_key: str, row: Row, codes: Ints) -> int:
        """Adds a row that is in no QI group yet; returns its place."""
        if self._free:
            place = self._free.pop()
            self.source_keys[place], self.rows[place], self.qi_group[place] = source_key, row, PENDING
        else:
            place = len(self.rows)
            if place == len(self.codes):
                self._grow(2 * place)
            self.source_keys.append(source_key)
            self.rows.append(row)
            self.qi_group.append(PENDING)
        self.codes[place] = codes
        self.cells[place] = codes // self._space.codes_per_cell
        self.place_of[source_key] = place
        self._count_pending(row, 1)
        return place

    def add_many(self, source_keys: Sequence[str], rows: Sequence[Row], codes: Ints, qi_groups: Sequence[int]) -> None:
        """Adds n rows to an empty table; place i is row i. codes (n, d)."""
        n = len(source_keys)
        self._grow(max(FIRST_CAPACITY, n))
        self.codes[:n], self.cells[:n] = codes, self._space.cells(codes)
        self.source_keys, self.rows, self.qi_group = list(source_keys), list(rows), list(qi_groups)
        for place, number in enumerate(qi_groups):
            if number == PENDING:
                self._count_pending(rows[place], 1)
        self.place_of = {source_key: place for place, source_key in enumerate(source_keys)}

    def assign(self, place: int, qi_group: int) -> None:
        """Puts the row at `place` into a QI group, or into none: PENDING."""
        change = (qi_group == PENDING) - (self.qi_group[place] == PENDING)
        self.qi_group[place] = qi_group
        if change:
            self._count_pending(self.rows[place], change)

    def rewrite(self, place: int, row: Row, codes: Ints) -> None:
        """Gives the row at `place` new contents; its QI group stays."""
        self.rows[place] = row
        self.codes[place] = codes
        self.cells[place] = codes // self._space.codes_per_cell

    def remove(self, place: int) -> None:
        if self.qi_group[place] == PENDING:
            self._count_pending(self.rows[place], -1)
        del self.place_of[self.source_keys[place]]
        self.source_keys[place] = ""
        self._free.append(place)

    def record(self, source_key: str) -> Record | None:
        """The line of the index table for a source key, as the store keeps it; None where there is no such row."""
        place = self.place_of.get(source_key)
        if place is None:
            return None
        return Record(self.rows[place], self.qi_group[place])

    def view(self) -> StoredRows:
        """All rows as columns, in no particular order."""
        return StoredRows(self, list(self.place_of.values()))

    @property
    def pending_count(self) -> int:
        """What k counts of the rows that are not publishable yet: individuals where rows belong to one, else rows."""
        return len(self._pending_of) or self.n_pending

    def _count_pending(self, row: Row, change: int) -> None:
        self.n_pending += change
        if row.individual is not None:
            self._pending_of[row.individual] = self._pending_of.get(row.individual, 0) + change
            if not self._pending_of[row.individual]:
                del self._pending_of[row.individual]

    def pending(self) -> list[int]:
        """Places of the rows that are not publishable yet."""
        return [place for place in self.place_of.values() if self.qi_group[place] == PENDING]

    def _grow(self, capacity: int) -> None:
        for name in ("codes", "cells"):
            old: Ints = getattr(self, name)
            new = np.empty((capacity, self._space.d), dtype=np.int64)
            new[: len(old)] = old[:capacity]
            setattr(self, name, new)


class StoredRows:
    """Some rows as columns, for conditions (`RowsView`); the columns that a condition does not use are never built."""

    def __init__(self, rows: Rows, places: list[int]) -> None:
        self._rows = rows
        self.places = places

    @property
    def codes(self) -> Ints:
        """(n, d) int64."""
        return self._rows.codes[np.array(self.places, dtype=np.int64)]

    @property
    def exact(self) -> list[tuple[str, ...]]:
        rows = self._rows.rows
        return [rows[place].exact for place in self.places]

    @property
    def values(self) -> list[Values]:
        rows = self._rows.rows
        return [rows[place].values for place in self.places]
