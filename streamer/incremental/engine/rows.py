"""The index table of a shard (Song et al. 2009, definition 4): rows by source key, with their exact values.

The rules of this file
----------------------
* Every row has an *index* in the core from its insertion to its removal. An index is used again once the operations
  that free it have run. Indexes are not known outside this process, and no result depends on one.
* Here is what the core must not know, because it may not decide: source keys, exact codes, nulls, names of individuals.
* Nothing is kept twice: a code is its cell, which the core has, and the *rest*, its offset in that cell. If all cells
  are single codes, there is no rest.
* A changed row is kept as an object until `write`, which writes many at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress
from typing import Any

import numpy as np
from numpy.dtypes import StringDType

from streamer.incremental.core import capacity
from streamer.incremental.core.layout import NO_GROUP_YET, NONE
from streamer.incremental.engine.constraints import Numbers, SubjectNumbers, ValueTexts
from streamer.incremental.engine.core_arrays import CoreArrays
from streamer.incremental.engine.stored_state import PENDING as NO_QI_GROUP
from streamer.incremental.engine.stored_state import RecordColumns
from streamer.table.arrays import Bools, Ints, Records
from streamer.table.encode import EncodedRows
from streamer.table.row import Row, Values
from streamer.table.schema import Table

# A list and a dictionary of source keys in a fifth of their memory.
#
# * The texts are in one array by index; a text of up to 15 bytes needs nothing beside its 16 bytes there.
# * The way back is a hash with open addressing: a slot has an index, or NONE. A removed row frees its slot, and later
#   ones move up. Half of the slots are used when they are made, two thirds at most.
# * A key's home is Python's own hash, which every process seeds anew: nobody who chooses keys can make them collide,
#   and no result may depend on where a key is. Keys are compared whole. Messages never contain a source key.

FIRST_CAPACITY = 1024

KEYS_AT_ONCE = 10_000
"""Source keys that are objects at the same time, when all are visited."""

HASH_BITS = 32


class SourceKeys:
    """Indexes of rows by source key; iterates in the order of indexes."""

    def __init__(self) -> None:
        self.texts: Any = _texts(FIRST_CAPACITY)  # source keys by index
        self._n = 0
        self.slots = np.full(FIRST_CAPACITY, NONE, np.int32).data  # a memoryview: its items are Python's integers

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, source_key: str) -> int:
        index: int = self.slots[self._slot_of(source_key)]
        if index == NONE:
            raise KeyError("there is no row with this source key")
        return index

    def __contains__(self, source_key: str) -> bool:
        return bool(self.slots[self._slot_of(source_key)] != NONE)

    def __iter__(self) -> Iterator[str]:
        indexes = self.indexes()
        for begin in range(0, len(indexes), KEYS_AT_ONCE):
            yield from self.texts[indexes[begin : begin + KEYS_AT_ONCE]].tolist()

    def get(self, source_key: str) -> int | None:
        """The index of a row, None if there is no such row."""
        index: int = self.slots[self._slot_of(source_key)]
        return None if index == NONE else index

    def indexes_of(self, source_keys: Sequence[str]) -> Ints:
        """The indexes of n source keys, NONE if there is no such row, (n,) int64."""
        n, slots = len(source_keys), np.asarray(self.slots)
        wanted, indexes = np.array(source_keys, StringDType()), np.full(n, NONE, np.int64)
        at, sought = _hashes(source_keys) * len(slots) >> HASH_BITS, np.arange(n)
        while len(sought):
            standing_there = slots[at]
            some = standing_there != NONE
            at, sought, standing_there = at[some], sought[some], standing_there[some]
            hit = self.texts[standing_there] == wanted[sought]
            indexes[sought[hit]] = standing_there[hit]
            at, sought = (at[~hit] + 1) % len(slots), sought[~hit]
        return indexes

    def add(self, source_key: str, index: int) -> None:
        """Adds a row that has no index yet, with an index that is free."""
        self._reach(index + 1)
        self.texts[index] = source_key
        if 3 * (self._n + 1) > 2 * len(self.slots):
            self._make_slots(self.indexes())
        self.slots[self._slot_of(source_key)] = index
        self._n += 1

    def remove(self, index: int) -> None:
        """Removes the row with an index; its text stays until another one is written there."""
        slots, length = self.slots, len(self.slots)
        hole = self._slot_of(self.texts[index])
        at, slots[hole] = hole, NONE
        while True:
            at = at + 1 if at + 1 < length else 0
            follower = slots[at]
            if follower == NONE:
                break
            home = self._home(self.texts[follower])
            if (at > hole and (home <= hole or home > at)) or (at < hole and at < home <= hole):
                slots[hole], slots[at], hole = follower, NONE, at
        self._n -= 1

    def write(self, first: int, source_keys: Sequence[str]) -> None:
        """Writes n texts, one after the other; they cannot be found before `found_up_to`."""
        self._reach(first + len(source_keys))
        self.texts[first : first + len(source_keys)] = source_keys

    def found_up_to(self, n: int) -> None:
        """Makes all texts below n source keys of rows. Raises ValueError if two are equal."""
        self._make_slots(np.arange(n))
        self._n = n

    def indexes(self) -> Ints:
        """Indexes of all rows, ascending, (n,) int64."""
        slots = np.asarray(self.slots)
        return np.sort(slots[slots != NONE]).astype(np.int64)

    def _home(self, source_key: str) -> int:
        return (hash(source_key) % (1 << HASH_BITS)) * len(self.slots) >> HASH_BITS

    def _slot_of(self, source_key: str) -> int:
        """The slot of a source key, or the free slot for it."""
        slots, texts = self.slots, self.texts
        length = len(slots)
        at = (hash(source_key) % (1 << HASH_BITS)) * length >> HASH_BITS
        while (index := slots[at]) != NONE and texts[index] != source_key:
            at = at + 1 if at + 1 < length else 0
        return at

    def _make_slots(self, indexes: Ints) -> None:
        """Makes new slots for the rows with these indexes, (n,) int64. Raises ValueError if two have one source key."""
        hashes = np.empty(len(indexes), np.int64)
        for begin in range(0, len(indexes), KEYS_AT_ONCE):
            some = self.texts[indexes[begin : begin + KEYS_AT_ONCE]].tolist()
            hashes[begin : begin + len(some)] = _hashes(some)
        order = np.argsort(hashes, kind="stable")
        indexes, hashes = indexes[order], hashes[order]
        alike = np.zeros(len(indexes) + 1, bool)
        alike[1:-1] = hashes[1:] == hashes[:-1]
        suspects = self.texts[indexes[alike[1:] | alike[:-1]]].tolist()
        if len(set(suspects)) < len(suspects):
            raise ValueError("two rows have one source key")
        length = max(FIRST_CAPACITY, 2 * len(indexes) + 2)
        slots = np.full(length, NONE, np.int32)
        slots[standing(hashes * length >> HASH_BITS, length)] = indexes
        self.slots = slots.data

    def _reach(self, n: int) -> None:
        if n > len(self.texts):
            texts = _texts(max(n, len(self.texts) + len(self.texts) // 2))
            texts[: len(self.texts)] = self.texts
            self.texts = texts


def _hashes(source_keys: Sequence[str]) -> Ints:
    """The last HASH_BITS bits of Python's hashes of n source keys, (n,) int64."""
    return np.fromiter(map(hash, source_keys), np.int64, len(source_keys)) & ((1 << HASH_BITS) - 1)


def _texts(n: int) -> Any:
    return np.empty(n, StringDType())


class Rows:
    """All rows of one shard by source key."""

    def __init__(self, table: Table, core: CoreArrays) -> None:
        self._space = table.space
        self._core = core
        self.d = table.space.d
        self.index_of = SourceKeys()
        self._rows_used = 0
        self._coarse: Ints = np.flatnonzero(table.space.codes_per_cell > 1)
        widest = table.space.codes_per_cell.max(initial=1) - 1
        self.rest: Ints = np.zeros((0, len(self._coarse)), np.min_scalar_type(widest))
        self._exact: list[tuple[str, ...]] | None = [] if table.stepless else None
        self._nullable = table.nullable
        self._is_null: Bools = np.zeros((0, len(table.nullable)), np.bool_)  # by index, of the nullable attributes
        self._n_texts = len(table.kept), len(table.stepless)
        self.values = ValueTexts()
        self._subjects = SubjectNumbers(table)
        self.counted_text = table.counted_text
        self.individuals: Numbers[str] = Numbers()
        self._given: dict[int, Row] = {}
        self._free: list[int] = []
        self._freed: list[int] = []

    def __len__(self) -> int:
        return len(self.index_of)

    @property
    def source_keys(self) -> Any:
        """Source keys by index, as an array of texts."""
        return self.index_of.texts

    # -- one row --------------------------------------------------------------------------------------------------

    def add(self, source_key: str, row: Row) -> int:
        """Adds a new row; returns its index."""
        if self._free:
            index = self._free.pop()
        else:
            index = self._rows_used
            self._rows_used += 1
        self.index_of.add(source_key, index)
        self._given[index] = row
        return index

    def give(self, index: int, row: Row) -> None:
        """Gives a row new contents."""
        self._given[index] = row

    def remove(self, index: int) -> None:
        """Removes a row; its index is free once the operations on it have run."""
        self.index_of.remove(index)
        self._given.pop(index, None)
        self._freed.append(index)

    def row(self, index: int) -> Row:
        given = self._given.get(index)
        if given is not None:
            return given
        _, _, _, values, who, _ = self._core.arrays.rows.row.item(index)
        exact = () if self._exact is None else self._exact[index]
        name = None if who == NONE else self.individuals.things[who]
        nulls = () if not self._nullable else self.nulls_of([index])[0]
        return Row(tuple(self.codes_of(index).tolist()), self._values_of(values), exact, name, nulls)

    def who(self, row: Row) -> int:
        """The number of a row's individual; NONE if the table declares none."""
        return NONE if row.individual is None else self.individuals.give(row.individual)

    def _values_of(self, number: int) -> Values:
        values = self.values.things[number]
        if values is None:
            raise LookupError(f"values number {number} were taken back")
        return values

    # -- many rows ------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Writes what was given; provides capacity in the core for all indexes and numbers, and frees indexes."""
        self._reach(self._rows_used)
        if self._given:
            if len(self._coarse):
                self._write_rest(list(self._given), np.array([row.codes for row in self._given.values()]))
            if self._exact is not None:
                self._exact += [()] * (self._rows_used - len(self._exact))
                for index, row in self._given.items():
                    self._exact[index] = row.exact
            self._write_nulls(list(self._given), list(self._given.values()))
            self._given = {}
        self.write_numbers()
        self._free += self._freed
        self._freed = []

    def add_many(self, source_keys: Sequence[str], rows: Sequence[Row]) -> Ints:
        """Adds n rows with consecutive indexes, in an empty table from 0 on; returns their cells, (n, d) int64.

        They cannot be found before `all_added`. Raises ValueError if a row has more or fewer codes than there are
        attributes, or one that is too large.
        """
        if not self.index_of and self._free + self._freed:
            self._rows_used, self._free, self._freed = 0, [], []
        first, n = self._rows_used, len(source_keys)
        self._rows_used += n
        self._reach(first + n)
        self.index_of.write(first, source_keys)
        codes = array_of([row.codes for row in rows], self.d)
        self._write_rest(slice(first, first + n), codes)
        if self._exact is not None:
            self._exact[first:] = [row.exact for row in rows]
        self._write_nulls(range(first, first + n), rows)
        return codes // self._space.codes_per_cell

    def all_added(self) -> None:
        """Makes added rows known. Raises ValueError if two have one source key."""
        self.index_of.found_up_to(self._rows_used)

    def _reach(self, n: int) -> None:
        self._core.arrays = capacity.with_rows(self._core.arrays, n)
        more = len(self._core.arrays.rows.row)
        if more > len(self.rest):
            rest = np.zeros((more, len(self._coarse)), self.rest.dtype)
            is_null = np.zeros((more, len(self._nullable)), np.bool_)
            rest[: len(self.rest)], is_null[: len(self._is_null)] = self.rest, self._is_null
            self.rest, self._is_null = rest, is_null

    def _write_rest(self, where: Any, codes: Ints) -> None:
        self.rest[where] = (codes % self._space.codes_per_cell)[:, self._coarse]

    def _write_nulls(self, indexes: Sequence[int], rows: Sequence[Row]) -> None:
        if self._nullable and indexes:
            self._is_null[indexes] = [[j in row.nulls for j in self._nullable] for row in rows]

    def nulls_of(self, indexes: Sequence[int] | Ints) -> list[tuple[int, ...]]:
        """The numbers of the attributes that are null, of each of the rows with these indexes."""
        if not self._nullable:
            return [()] * len(indexes)
        return [tuple(compress(self._nullable, row)) for row in self._is_null[indexes].tolist()]

    def are_null(self, indexes: Ints) -> Bools:
        """True for each null of the rows with these indexes, (n, d)."""
        nulls = np.zeros((len(indexes), self.d), np.bool_)
        nulls[:, self._nullable] = self._is_null[indexes]
        return nulls

    def write_numbers(self) -> None:
        """Provides capacity in the core for all numbers, and writes what it must know of new values."""
        self._core.arrays = self._subjects.write_to(self._core.arrays, self.values.unwritten())
        self._core.arrays = self.values.write_to(self._core.arrays)
        self._core.arrays = capacity.with_individuals(self._core.arrays, len(self.individuals.things))

    def take_back(self) -> None:
        """Takes back numbers of values and individuals that no row has any more, if there are many; after a drain."""
        if self.values.has_many_spare(len(self)):
            used = self.in_core["values"][self.indexes()]
            self.values.keep(used)
            self._subjects.keep(self._core.arrays, used)
        if self.individuals.has_many_spare(len(self)):
            self.individuals.keep(self.in_core["who"][self.indexes()])
        self.write_numbers()

    @property
    def in_core(self) -> Records:
        """The core's records of rows, by index."""
        return self._core.arrays.rows.row.view(np.ndarray)

    def cells_of(self, codes: Ints) -> Ints:
        """Codes (n, d) to cells."""
        return codes // self._space.codes_per_cell

    def codes_of(self, indexes: Any) -> Ints:
        """Codes of the rows with one index or n as the core has them, (d,) or (n, d), of any width."""
        cells: Ints = self._core.arrays.rows.cells[indexes]
        if not len(self._coarse):
            return cells
        codes = cells * self._space.codes_per_cell
        codes[..., self._coarse] += self.rest[indexes].astype(np.int64)  # of 64 bits it is unsigned
        return codes

    def leave_domain(self, cells: Ints) -> bool:
        """True if any of the cells (n, d) is not one of its attribute's."""
        return bool(((cells < 0) | (cells >= self._space.n_cells)).any())

    def are_whole(self, rows: Sequence[Row]) -> bool:
        """True if every row has a value for each kept column, and an exact text for each decimal without a step."""
        return {(len(row.values), len(row.exact)) for row in rows} <= {self._n_texts}

    def may_be_null(self, rows: Sequence[Row]) -> bool:
        """True if only attributes that may be null are null."""
        return {j for row in rows for j in row.nulls} <= set(self._nullable)

    def are_publishable(self, lo: Ints, hi: Ints) -> bool:
        """True if all boxes lo..hi (n, d) of cells can be published: categories must be nodes of their trees."""
        widened = self._space.generalize(lo.copy(), hi.copy())
        return bool((widened[0] == lo).all() and (widened[1] == hi).all())

    def indexes(self) -> Ints:
        """Indexes of all rows, int64; their order decides nothing."""
        return self.index_of.indexes()

    def in_tie_order(self) -> Ints:
        """Indexes of all rows, in the order of their tie hashes; int64."""
        indexes = np.sort(self.indexes())
        in_order: Ints = indexes[self.in_core["tie_hash"][indexes].argsort()]
        return in_order

    def records(self, changed: Ints, gone: Sequence[str]) -> RecordColumns:
        """Rows as a store keeps them; changed: index, values, individual, QI group of one after the other.

        gone: the source keys of rows that are not there any more.
        """
        indexes, values, who, numbers = changed.reshape(-1, 4).T.copy()
        at, names = indexes.tolist(), self.individuals.things
        return RecordColumns(
            self.source_keys[indexes],
            self.codes_of(indexes),
            [self._values_of(number) for number in values.tolist()],
            [()] * len(at) if self._exact is None else [self._exact[index] for index in at],
            [None if number == NONE else names[number] for number in who.tolist()],
            self.nulls_of(indexes),
            numbers,
            gone,
        )

    def qi_groups(self, groups: Ints) -> Ints:
        """Numbers of the QI groups with these indexes in the core; `stored_state.PENDING` for no group."""
        numbers: Ints = self._core.arrays.groups.group["number"].view(np.ndarray)[groups]
        return np.where(groups == NO_GROUP_YET, NO_QI_GROUP, numbers)

    def published_cells(self) -> tuple[Ints, Ints]:
        """The group's number (n,) and the row's cells (n, d) of every row in a QI group; int64."""
        indexes = self.indexes()
        numbers = self.qi_groups(self.in_core["group"][indexes])
        there = numbers != NO_QI_GROUP
        return numbers[there], self._cells_at(indexes[there])

    def cells_of_keys(self, source_keys: Iterable[str]) -> Ints:
        """The cells (n, d) of rows by source key; int64."""
        return self._cells_at(self.index_of.indexes_of(list(source_keys)))

    def _cells_at(self, indexes: Ints) -> Ints:
        cells: Ints = self._core.arrays.rows.cells[indexes].astype(np.int64)
        return cells

    def encoded(self, indexes: Ints) -> EncodedRows:
        """The rows with these indexes, as whole-table algorithms take them."""
        view, who = StoredRows(self, indexes), self.in_core["who"][indexes].tolist()
        names = [None if number == NONE else self.individuals.things[number] for number in who]
        keys = [self.source_keys[index] for index in indexes.tolist()]
        return EncodedRows(keys, view.codes, view.values, view.exact, names, self.nulls_of(indexes))

    def at(self, indexes: Sequence[int]) -> list[Row]:
        """The rows with these indexes, once all operations have run."""
        return self.encoded(np.array(indexes, np.int64)).rows()

    def view(self) -> StoredRows:
        """All rows as columns, in no particular order."""
        return StoredRows(self, self.indexes())


class StoredRows:
    """Some rows as columns, for conditions (`RowsView`); columns that a condition does not use are never made."""

    def __init__(self, rows: Rows, indexes: Ints) -> None:
        self._rows = rows
        self.indexes = indexes

    @property
    def codes(self) -> Ints:
        """(n, d) int64."""
        return self._rows.codes_of(self.indexes).astype(np.int64)

    @property
    def exact(self) -> list[tuple[str, ...]]:
        exact = self._rows._exact
        return [()] * len(self.indexes) if exact is None else [exact[index] for index in self.indexes.tolist()]

    @property
    def values(self) -> list[Values]:
        number = self._rows.in_core["values"][self.indexes].tolist()
        return [self._rows._values_of(one) for one in number]

    @property
    def nulls(self) -> Bools:
        """(n, d)."""
        return self._rows.are_null(self.indexes)


def array_of(runs: Sequence[Sequence[int]], length: int) -> Ints:
    """Runs of integers, (n, length) int64. Raises ValueError if one has another length, or a number is too large."""
    if set(map(len, runs)) - {length}:
        raise ValueError("a run has another length")
    try:
        return np.fromiter(chain.from_iterable(runs), np.int64, len(runs) * length).reshape(len(runs), length)
    except OverflowError:
        raise ValueError("a number is too large") from None


def standing(homes: Ints, length: int) -> Ints:
    """Slots of entries in a hash with open addressing; homes (n,) int64, ascending, n < length.

    Each entry stands at its home, or after the one before it. Entries that run over the end take the first free slots:
    all slots after their homes are taken.
    """
    order = np.arange(len(homes))
    at = order + np.maximum.accumulate(homes - order)
    beyond = at >= length
    if beyond.any():
        free = np.ones(length, bool)
        free[at[~beyond]] = False
        at[beyond] = np.flatnonzero(free)[: beyond.sum()]
    return at
