"""The index table of a shard (Song et al. 2009, definition 4): which row stands at which place, and its exact values.

The rules of this file
----------------------
* Every row has a *place* from its insertion to its removal; a place is used again once the operations that free it have
  been run. Nothing outside this process knows a place, and no result depends on one.
* Here is what the core must not know, because it may not decide: source keys, exact codes, what is null, names. The
  core knows cells, the number of the values, the number of the individual and the lot.
* Nothing is kept twice: a code is its cell, which the core has, and the *rest*, how far it stands in that cell. Where
  all cells are single codes there is no rest.
* A row that was changed is held as it was given until `write`: many are written at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress
from typing import Any

import numpy as np
from numpy.dtypes import StringDType

from streamer.incremental.core import capacity
from streamer.incremental.core.layout import NO_GROUP_YET, NONE, Records
from streamer.incremental.core.model import standing
from streamer.incremental.engine.constraints import Numbers, SubjectNumbers, ValueTexts
from streamer.incremental.engine.core_arrays import CoreArrays
from streamer.incremental.engine.stored_state import PENDING as NO_QI_GROUP
from streamer.incremental.engine.stored_state import RecordColumns
from streamer.table.arrays import Bools, Ints
from streamer.table.encode import EncodedRows
from streamer.table.row import Row, Values
from streamer.table.schema import Table

# The source keys of a shard's rows, by place and back: what a list and a dictionary do, in a fifth of their memory.
#
# * The texts stand in one array by place; a text of up to 15 bytes needs nothing beside its 16 bytes there.
# * The way back is a hash with open addressing: a slot holds a place, or NONE. A row that goes takes its slot along,
#   and those behind it move up, so that the way to a key stays short. Half of the slots are used when they are made
#   anew, two thirds at most.
# * A key's home is Python's own hash of it, which every process draws anew: nobody who chooses keys can make them
#   collide, and no result may depend on where a key stands. What stands there is compared as a whole.
# * Messages never hold a source key.

FIRST_ROOM = 1024
KEYS_AT_ONCE = 10_000
"""Source keys that are objects at the same time, where all of them are looked at."""

HASH_BITS = 32


class SourceKeys:
    """The places of rows by source key, in the order of places; `texts`: the source keys by place."""

    def __init__(self) -> None:
        self.texts: Any = _texts(FIRST_ROOM)
        self._n = 0
        self._slots = np.full(FIRST_ROOM, NONE, np.int32).data  # whose items are integers of Python

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, source_key: str) -> int:
        place: int = self._slots[self._slot_of(source_key)]
        if place == NONE:
            raise KeyError("there is no row with this source key")
        return place

    def __contains__(self, source_key: str) -> bool:
        return bool(self._slots[self._slot_of(source_key)] != NONE)

    def __iter__(self) -> Iterator[str]:
        places = self.places()
        for begin in range(0, len(places), KEYS_AT_ONCE):
            yield from self.texts[places[begin : begin + KEYS_AT_ONCE]].tolist()

    def get(self, source_key: str) -> int | None:
        """The place of a row, None if there is no such row."""
        place: int = self._slots[self._slot_of(source_key)]
        return None if place == NONE else place

    def places_of(self, source_keys: Sequence[str]) -> Ints:
        """The places of n source keys, NONE if there is no such row, (n,) int64."""
        n, slots = len(source_keys), np.asarray(self._slots)
        wanted, places = np.array(source_keys, StringDType()), np.full(n, NONE, np.int64)
        at, sought = _hashes(source_keys) * len(slots) >> HASH_BITS, np.arange(n)
        while len(sought):
            standing_there = slots[at]
            some = standing_there != NONE
            at, sought, standing_there = at[some], sought[some], standing_there[some]
            hit = self.texts[standing_there] == wanted[sought]
            places[sought[hit]] = standing_there[hit]
            at, sought = (at[~hit] + 1) % len(slots), sought[~hit]
        return places

    def add(self, source_key: str, place: int) -> None:
        """A row that has no place yet; nobody else has this one."""
        self._reach(place + 1)
        self.texts[place] = source_key
        if 3 * (self._n + 1) > 2 * len(self._slots):
            self._make_slots(self.places())
        self._slots[self._slot_of(source_key)] = place
        self._n += 1

    def remove(self, place: int) -> None:
        """The row at a place is gone; its text stays until another one is written there."""
        slots, length = self._slots, len(self._slots)
        hole = self._slot_of(self.texts[place])
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
        """Texts at n places one after the other; they cannot be found before `found_up_to`."""
        self._reach(first + len(source_keys))
        self.texts[first : first + len(source_keys)] = source_keys

    def found_up_to(self, n: int) -> None:
        """All texts below n are those of rows. Raises ValueError if two rows have one source key."""
        self._make_slots(np.arange(n))
        self._n = n

    def places(self) -> Ints:
        """The places of all rows, ascending, (n,) int64."""
        slots = np.asarray(self._slots)
        return np.sort(slots[slots != NONE]).astype(np.int64)

    def _home(self, source_key: str) -> int:
        return (hash(source_key) % (1 << HASH_BITS)) * len(self._slots) >> HASH_BITS

    def _slot_of(self, source_key: str) -> int:
        """Where a source key stands, or the free slot for it."""
        slots, texts = self._slots, self.texts
        length = len(slots)
        at = (hash(source_key) % (1 << HASH_BITS)) * length >> HASH_BITS
        while (place := slots[at]) != NONE and texts[place] != source_key:
            at = at + 1 if at + 1 < length else 0
        return at

    def _make_slots(self, places: Ints) -> None:
        """New slots for the rows at these places, (n,) int64."""
        hashes = np.empty(len(places), np.int64)
        for begin in range(0, len(places), KEYS_AT_ONCE):
            some = self.texts[places[begin : begin + KEYS_AT_ONCE]].tolist()
            hashes[begin : begin + len(some)] = _hashes(some)
        order = np.argsort(hashes, kind="stable")
        self._refuse_doubles(places[order], hashes[order])
        length = max(FIRST_ROOM, 2 * len(places) + 2)
        slots = np.full(length, NONE, np.int32)
        slots[standing(hashes[order] * length >> HASH_BITS, length)] = places[order]
        self._slots = slots.data

    def _refuse_doubles(self, places: Ints, hashes: Ints) -> None:
        """places (n,) with their hashes, in the order of these."""
        alike = np.zeros(len(places) + 1, bool)
        alike[1:-1] = hashes[1:] == hashes[:-1]
        suspects = self.texts[places[alike[1:] | alike[:-1]]].tolist()
        if len(set(suspects)) < len(suspects):
            raise ValueError("two rows have one source key")

    def _reach(self, n: int) -> None:
        if n > len(self.texts):
            texts = _texts(max(n, len(self.texts) + len(self.texts) // 2))
            texts[: len(self.texts)] = self.texts
            self.texts = texts


def _hashes(source_keys: Sequence[str]) -> Ints:
    """The last HASH_BITS bits of Python's hashes of n source keys, (n,) int64."""
    return np.fromiter(map(hash, source_keys), np.int64, len(source_keys)) & ((1 << HASH_BITS) - 1)


def _texts(n: int) -> Any:
    """n empty texts."""
    return np.empty(n, StringDType())


class Rows:
    """All rows of one shard by source key."""

    def __init__(self, table: Table, held: CoreArrays) -> None:
        self._space = table.space
        self._held = held
        self.d = table.space.d
        self.place_of = SourceKeys()
        self._n_places = 0
        self._coarse: Ints = np.flatnonzero(table.space.codes_per_cell > 1)
        widest = table.space.codes_per_cell.max(initial=1) - 1
        self.rest: Ints = np.zeros((0, len(self._coarse)), np.min_scalar_type(widest))
        self._exact: list[tuple[str, ...]] | None = [] if table.stepless else None
        self._nullable = table.nullable
        self._is_null: Bools = np.zeros((0, len(table.nullable)), np.bool_)  # by place, of the nullable attributes
        self._n_texts = len(table.kept), len(table.stepless)
        self.values = ValueTexts()
        self._subjects = SubjectNumbers(table)
        self.individuals: Numbers[str] = Numbers()
        self._given: dict[int, Row] = {}
        self._free: list[int] = []
        self._freed: list[int] = []

    def __len__(self) -> int:
        return len(self.place_of)

    @property
    def source_keys(self) -> Any:
        """Source keys by place, as an array of texts."""
        return self.place_of.texts

    # -- one row --------------------------------------------------------------------------------------------------

    def add(self, source_key: str, row: Row) -> int:
        """A place for a new row."""
        if self._free:
            place = self._free.pop()
        else:
            place = self._n_places
            self._n_places += 1
        self.place_of.add(source_key, place)
        self._given[place] = row
        return place

    def give(self, place: int, row: Row) -> None:
        """New contents for a row."""
        self._given[place] = row

    def remove(self, place: int) -> None:
        """The row goes; its place is free once this has been run."""
        self.place_of.remove(place)
        self._given.pop(place, None)
        self._freed.append(place)

    def row(self, place: int) -> Row:
        """The row at a place."""
        given = self._given.get(place)
        if given is not None:
            return given
        record = self._held.arrays.rows.row[place]
        return self._as_row(place, self.codes_of(place).tolist(), int(record["values"]), int(record["who"]))

    def who(self, row: Row) -> int:
        """The number of a row's individual; NONE where rows belong to none."""
        return NONE if row.individual is None else self.individuals.give(row.individual)

    def _as_row(self, place: int, codes: list[int], values: int, who: int) -> Row:
        exact = () if self._exact is None else self._exact[place]
        name = None if who == NONE else self.individuals.things[who]
        nulls = () if not self._nullable else self.nulls_of([place])[0]
        return Row(tuple(codes), self._values_of(values), exact, name, nulls)

    def _values_of(self, number: int) -> Values:
        values = self.values.things[number]
        if values is None:
            raise LookupError(f"values number {number} were taken back")
        return values

    # -- many rows ------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Writes what was given; makes room in the core for all places and numbers, and frees places."""
        self._reach(self._n_places)
        if self._given:
            if len(self._coarse):
                self._write_rest(list(self._given), np.array([row.codes for row in self._given.values()]))
            if self._exact is not None:
                self._exact += [()] * (self._n_places - len(self._exact))
                for place, row in self._given.items():
                    self._exact[place] = row.exact
            self._write_nulls(list(self._given), list(self._given.values()))
            self._given = {}
        self.tell()
        self._free += self._freed
        self._freed = []

    def add_many(self, source_keys: Sequence[str], rows: Sequence[Row]) -> Ints:
        """Adds n rows at places one after the other, in an empty table from 0 on; their cells, (n, d) int64.

        Nobody finds them before `all_added`. Raises ValueError where a row has more or fewer codes than there are
        attributes, or one that no array holds.
        """
        if not self.place_of and self._free + self._freed:
            self._n_places, self._free, self._freed = 0, [], []
        first, n = self._n_places, len(source_keys)
        self._n_places += n
        self._reach(first + n)
        self.place_of.write(first, source_keys)
        codes = array_of([row.codes for row in rows], self.d)
        self._write_rest(slice(first, first + n), codes)
        if self._exact is not None:
            self._exact[first:] = [row.exact for row in rows]
        self._write_nulls(range(first, first + n), rows)
        return codes // self._space.codes_per_cell

    def all_added(self) -> None:
        """All rows are there. Raises ValueError if two have one source key."""
        self.place_of.found_up_to(self._n_places)

    def _reach(self, n: int) -> None:
        self._held.arrays = capacity.with_places(self._held.arrays, n)
        more = len(self._held.arrays.rows.row)
        if more > len(self.rest):
            rest = np.zeros((more, len(self._coarse)), self.rest.dtype)
            rest[: len(self.rest)] = self.rest
            self.rest = rest
            is_null = np.zeros((more, len(self._nullable)), np.bool_)
            is_null[: len(self._is_null)] = self._is_null
            self._is_null = is_null

    def _write_rest(self, where: Any, codes: Ints) -> None:
        self.rest[where] = (codes % self._space.codes_per_cell)[:, self._coarse]

    def _write_nulls(self, places: Sequence[int], rows: Sequence[Row]) -> None:
        if self._nullable and places:
            self._is_null[places] = [[j in row.nulls for j in self._nullable] for row in rows]

    def nulls_of(self, places: Sequence[int] | Ints) -> list[tuple[int, ...]]:
        """Of the rows at these places, the numbers of the attributes that are null."""
        if not self._nullable:
            return [()] * len(places)
        return [tuple(compress(self._nullable, row)) for row in self._is_null[places].tolist()]

    def are_null(self, places: Ints) -> Bools:
        """The same as columns, (n, d)."""
        nulls = np.zeros((len(places), self.d), np.bool_)
        nulls[:, self._nullable] = self._is_null[places]
        return nulls

    def tell(self) -> None:
        """Makes room in the core for all numbers, and tells it what it has to know of new values."""
        self._held.arrays = self._subjects.told(self._held.arrays, self.values.untold())
        self._held.arrays = self.values.told(self._held.arrays)
        self._held.arrays = capacity.with_individuals(self._held.arrays, len(self.individuals.things))

    def take_back(self) -> None:
        """Numbers of values and individuals that no row has any more, if there are many; after a drain."""
        if self.values.has_many_spare(len(self)):
            used = self.core["values"][self.places()]
            self.values.keep(used)
            self._subjects.keep(self._held.arrays, used)
        if self.individuals.has_many_spare(len(self)):
            self.individuals.keep(self.core["who"][self.places()])
        self.tell()

    @property
    def core(self) -> Records:
        """What the core has of every place."""
        return self._held.arrays.rows.row.view(np.ndarray)

    def cells_of(self, codes: Ints) -> Ints:
        """Codes (n, d) to cells."""
        return codes // self._space.codes_per_cell

    def codes_of(self, places: Any) -> Ints:
        """Codes of the rows at one or n places as far as the core was told of them, (d,) or (n, d), of any width."""
        cells: Ints = self._held.arrays.rows.cells[places]
        if not len(self._coarse):
            return cells
        codes = cells * self._space.codes_per_cell
        codes[..., self._coarse] += self.rest[places].astype(np.int64)  # of 64 bits it is unsigned
        return codes

    def leave_domain(self, cells: Ints) -> bool:
        """Whether any of the cells (n, d) is none of its attribute's."""
        return bool(((cells < 0) | (cells >= self._space.n_cells)).any())

    def are_whole(self, rows: Sequence[Row]) -> bool:
        """Whether all rows have a value for every kept column, and an exact text for every decimal without a step."""
        return {(len(row.values), len(row.exact)) for row in rows} <= {self._n_texts}

    def may_be_null(self, rows: Sequence[Row]) -> bool:
        """Whether nulls are only in attributes that may be null."""
        return {j for row in rows for j in row.nulls} <= set(self._nullable)

    def are_publishable(self, lo: Ints, hi: Ints) -> bool:
        """Whether all boxes lo..hi (n, d) of cells could be published: categories stand at nodes of their trees."""
        widened = self._space.generalize(lo.copy(), hi.copy())
        return bool((widened[0] == lo).all() and (widened[1] == hi).all())

    def places(self) -> Ints:
        """Places of all rows, in no order that decides anything; int64."""
        return self.place_of.places()

    def places_but(self, source_keys: Iterable[str]) -> Ints:
        """Places of all rows but some, in the order of their lots; int64."""
        found = (self.place_of.get(source_key) for source_key in source_keys)
        places = np.setdiff1d(self.places(), [place for place in found if place is not None]).astype(np.int64)
        in_order: Ints = places[self.core["lot"][places].argsort()]
        return in_order

    def records(self, changed: Ints, gone: Sequence[str]) -> RecordColumns:
        """Rows as a store keeps them; changed: place, values, individual, QI group of one after the other.

        gone: the source keys of rows that are not there any more.
        """
        places, values, who, numbers = changed.reshape(-1, 4).T.copy()
        at, names = places.tolist(), self.individuals.things
        return RecordColumns(
            self.source_keys[places],
            self.codes_of(places),
            [self._values_of(number) for number in values.tolist()],
            [()] * len(at) if self._exact is None else [self._exact[place] for place in at],
            [None if number == NONE else names[number] for number in who.tolist()],
            self.nulls_of(places),
            numbers,
            gone,
        )

    def qi_groups(self, groups: Ints) -> Ints:
        """Numbers of the QI groups at these places of the core; `kept.PENDING` for PENDING."""
        numbers: Ints = self._held.arrays.groups.group["number"].view(np.ndarray)[groups]
        return np.where(groups == NO_GROUP_YET, NO_QI_GROUP, numbers)

    def published_cells(self) -> tuple[Ints, Ints]:
        """Of every row that is in a QI group the group's number (n,) and its cells (n, d); int64."""
        places = self.places()
        numbers = self.qi_groups(self.core["group"][places])
        there = numbers != NO_QI_GROUP
        return numbers[there], self._cells_at(places[there])

    def cells_of_keys(self, source_keys: Iterable[str]) -> Ints:
        """The cells (n, d) of rows that are there; int64."""
        return self._cells_at(self.place_of.places_of(list(source_keys)))

    def _cells_at(self, places: Ints) -> Ints:
        cells: Ints = self._held.arrays.rows.cells[places].astype(np.int64)
        return cells

    def encoded(self, places: Ints) -> EncodedRows:
        """The rows at these places, as whole-table algorithms take them."""
        view, who = StoredRows(self, places), self.core["who"][places].tolist()
        names = [None if number == NONE else self.individuals.things[number] for number in who]
        keys = [self.source_keys[place] for place in places.tolist()]
        return EncodedRows(keys, view.codes, view.values, view.exact, names, self.nulls_of(places))

    def view(self) -> StoredRows:
        """All rows as columns, in no particular order."""
        return StoredRows(self, self.places())


class StoredRows:
    """Some rows as columns, for conditions (`RowsView`); the columns that a condition does not use are never built."""

    def __init__(self, rows: Rows, places: Ints) -> None:
        self._rows = rows
        self.places = places

    @property
    def codes(self) -> Ints:
        """(n, d) int64."""
        return self._rows.codes_of(self.places).astype(np.int64)

    @property
    def exact(self) -> list[tuple[str, ...]]:
        exact = self._rows._exact
        return [()] * len(self.places) if exact is None else [exact[place] for place in self.places.tolist()]

    @property
    def values(self) -> list[Values]:
        number = self._rows.core["values"][self.places].tolist()
        return [self._rows._values_of(one) for one in number]

    @property
    def nulls(self) -> Bools:
        """(n, d)."""
        return self._rows.are_null(self.places)


def array_of(runs: Sequence[Sequence[int]], length: int) -> Ints:
    """Runs of integers, (n, length) int64; raises ValueError if one is longer or shorter, or a number too large."""
    if set(map(len, runs)) - {length}:
        raise ValueError("a run has another length")
    try:
        return np.fromiter(chain.from_iterable(runs), np.int64, len(runs) * length).reshape(len(runs), length)
    except OverflowError:
        raise ValueError("a number is too large") from None
