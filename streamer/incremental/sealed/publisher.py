"""The sealed publisher of one shard: who waits, who is published in which cohort, and what each epoch publishes.

The rules of this file
----------------------
* Pure: time, chance and the way cohorts are formed are handed in. The same row changes and ends of epochs give the same
  bytes, however they are batched.
* A person is published once, in a cohort of at least k, and a cohort is never altered:
  - R1, arrival: a new row, or one with other sensitive values than before, waits in the *pool*. Nobody sees it.
  - R2, formation: at the end of an epoch the pool is put into cohorts by the cells of its quasi-identifiers alone. A
    cohort that is wider than tau waits for others, until one of its rows has waited delta epochs.
  - R3, seal: a cohort shows its values if no sensitive value has a larger share than alpha and each sensitive column
    has l distinct ones, and all of them fit into a message; else it shows its box alone. Nobody returns to the pool.
  - R4, departure: a row that is deleted, or gets other sensitive values, leaves. In the pool this leaves no trace; in a
    cohort it lowers the number of those who are left, and the published row stays, a *ghost*.
  - R5: a published row of which anything else changes stays as it is: a second cohort with its sensitive values would
    tell which they are. A row in the pool changes there. (If no column is sensitive, any other value is one.)
  - R6, retirement: a cohort with nobody left, or no larger share than theta, is withdrawn as a whole. Who was left is
    never published again with the same values.
  - R7, emission: ids are chance, and the records of an epoch are in the order of their ids.
  - R8, durability: what `drain` returns after an epoch is stored together with its records, and after a crash the same
    records are sent again.
* Nothing but R3 looks at a value. That is what the guarantee rests on: whoever knows all else about the people, and
  this code, holds every order of the values of a cohort to be equally likely.
* Individuals: a cohort has at most one row of each. Those with several rows are published in rounds, the rows that came
  first in the first one.
* A row that is deleted and inserted again is a new person. If its values are the same, two cohorts show them: a gap
  that only a memory of deleted people could close.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b

import msgspec
import numpy as np

from streamer.errors import ConfigError, LawViolated
from streamer.incremental.engine.rows import SourceKeys
from streamer.incremental.events.changes import RowChange
from streamer.incremental.sealed.formation import Formation
from streamer.incremental.sealed.records import (
    COHORT_ID_BYTES,
    Add,
    EpochEnd,
    Live,
    Retire,
    SealedRecord,
    SensitiveTexts,
    box_json,
    cohort_name,
    encode,
    ordered_epoch,
    sensitive_texts,
    time_text,
)
from streamer.incremental.sealed.stored_state import (
    IN_POOL,
    NO_TIME,
    SealedChanges,
    SealedMark,
    SealedPlace,
    StoredCohort,
    StoredSealed,
)
from streamer.privacy.models import cohort_model, of_values
from streamer.table.arrays import Ints
from streamer.table.codes import decimal_text
from streamer.table.row import Row, Values
from streamer.table.schema import SealedRules, Table

Draw = Callable[[int, int], int]
"""Chance: 128 bits for the number of an epoch and a number from 0 on; each pair is drawn once."""

SEALED_DIGEST_BYTES = 16

SPARE_PLACES = 1_024
"""Places of the pool that those who left may keep until it is closed up, beside as many as rows wait."""

EMPTY_EPOCHS_MAX = 1_000_000
"""The most epochs without a row change that may follow one another: beyond, some message has a wrong time."""

MINUTE = 60

NOWHERE = -1
"""Of a person: there is none with this index. In a place of the pool: who was there has left."""


class Pool:
    """The rows that wait, by place, in the order in which they came."""

    def __init__(self, d: int) -> None:
        self._d = d
        self.n = 0  # those who are there
        self.persons, self.since, self._cells = array("i"), array("i"), array("i")
        self.arrivals = array("q")
        self.values: list[Values] = []
        self.individuals: list[str | None] = []

    @property
    def places(self) -> int:
        """The number of places, those of rows that have left among them."""
        return len(self.persons)

    @property
    def cells(self) -> Ints:
        """(places, d), a copy."""
        return np.array(self._cells, np.int64).reshape(-1, self._d)

    def add(self, person: int, cells: Sequence[int], row: Row, since: int, arrival: int) -> int:
        """Adds a row; returns its place."""
        self.persons.append(person)
        self.since.append(since)
        self.arrivals.append(arrival)
        self._cells.extend(cells)
        self.values.append(row.values)
        self.individuals.append(row.individual)
        self.n += 1
        return len(self.persons) - 1

    def write(self, place: int, cells: Sequence[int], row: Row) -> None:
        """Gives a row other contents; it keeps its place and its age."""
        self._cells[place * self._d : (place + 1) * self._d] = array("i", cells)
        self.values[place], self.individuals[place] = row.values, row.individual

    def remove(self, place: int) -> None:
        self.persons[place], self.values[place], self.individuals[place] = NOWHERE, (), None
        self.n -= 1

    def close_up(self) -> None:
        """Removes the places of those who have left."""
        if self.n == self.places:
            return
        stay = np.flatnonzero(np.array(self.persons) != NOWHERE)
        self._cells = _array_of(self.cells[stay].ravel())
        self.since, self.persons = _array_of(np.array(self.since)[stay]), _array_of(np.array(self.persons)[stay])
        self.arrivals = array("q", np.array(self.arrivals)[stay].tobytes())
        self.values = [self.values[place] for place in stay.tolist()]
        self.individuals = [self.individuals[place] for place in stay.tolist()]


class Cohorts:
    """The published cohorts by index; retired ones as long as some of their people are there."""

    def __init__(self) -> None:
        self.rows, self.left, self.retired = array("i"), array("i"), array("i")
        self.touched: set[int] = set()  # those that somebody left in this epoch
        self.changed: set[int] = set()  # since the last `drain`
        self._ids = bytearray()
        self._free = array("i")
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def add(self, cohort_id: int, n: int) -> int:
        """Adds a cohort of n people; returns its index."""
        if self._free:
            index = self._free.pop()
        else:
            index = len(self.rows)
            for column in (self.rows, self.left, self.retired):
                column.append(0)
            self._ids.extend(bytes(COHORT_ID_BYTES))
        self.rows[index] = self.left[index] = n
        self._n += 1
        self._ids[index * COHORT_ID_BYTES : (index + 1) * COHORT_ID_BYTES] = cohort_id.to_bytes(COHORT_ID_BYTES)
        self.changed.add(index)
        return index

    def id(self, index: int) -> bytes:
        return bytes(self._ids[index * COHORT_ID_BYTES : (index + 1) * COHORT_ID_BYTES])

    def published(self) -> list[int]:
        """The indexes of those that are not retired."""
        return [index for index, rows in enumerate(self.rows) if rows and not self.retired[index]]

    def stored(self, index: int) -> StoredCohort | None:
        """As it is kept; None: there is none with this index."""
        if not self.rows[index]:
            return None
        retired, touched = bool(self.retired[index]), index in self.touched
        return StoredCohort(self.id(index), self.rows[index], self.left[index], retired, touched)

    def restore(self, kept: Iterable[tuple[int, StoredCohort]]) -> None:
        """Takes what was kept."""
        by_index = dict(kept)
        length = max(by_index, default=-1) + 1
        self.rows, self.left, self.retired = (array("i", bytes(4 * length)) for _ in range(3))
        self._ids = bytearray(length * COHORT_ID_BYTES)
        for index, one in by_index.items():
            self.rows[index], self.left[index], self.retired[index] = one.rows, one.left, one.retired
            self._ids[index * COHORT_ID_BYTES : (index + 1) * COHORT_ID_BYTES] = one.id
        self.touched = {index for index, one in by_index.items() if one.touched}
        self._n = sum(not one.retired for one in by_index.values())
        self._free = array("i", [index for index in range(length) if index not in by_index])

    def leave(self, index: int) -> None:
        """One of its people leaves."""
        self.left[index] -= 1
        self.changed.add(index)
        if not self.retired[index]:
            self.touched.add(index)
        elif not self.left[index]:
            self._forget(index)

    def retire(self, index: int) -> None:
        self.retired[index] = 1
        self._n -= 1
        self.changed.add(index)
        if not self.left[index]:
            self._forget(index)

    def _forget(self, index: int) -> None:
        self.retired[index] = self.rows[index] = 0
        self._free.append(index)


class Sealed:
    """The sealed publisher of one shard. form: how cohorts are formed of the pool's cells."""

    def __init__(self, table: Table, shard: int, form: Formation, draw: Draw) -> None:
        if table.sealed is None:
            raise LawViolated(f"{table.name} publishes no sealed changelog")
        self.rules: SealedRules = table.sealed
        self.epoch, self.seconds = 0, NO_TIME  # the last one that is over, and its time
        self.changes = 0  # of rows, since then
        self._table, self._shard, self._form, self._draw = table, shard, form, draw
        self._counted = table.counted_value
        self._may_show = of_values(table, cohort_model(table, table.sealed))
        self._per_cell = table.space.codes_per_cell.tolist()
        self._persons = SourceKeys()
        self._where = array("i")  # of each person: index of the cohort, or -2 less the place in the pool
        self._free = array("i")
        self._pool = Pool(table.space.d)
        self._cohorts = Cohorts()
        self._drawn = 0  # in this epoch
        self._arrivals, self._digest = 0, b""  # as in `SealedMark`
        self._changed: dict[str, None] = {}  # source keys of those who came, went or were published since `drain`

    @property
    def n_rows(self) -> int:
        """Rows that are there: in the pool, in cohorts, and in retired ones."""
        return len(self._persons)

    @property
    def n_waiting(self) -> int:
        """Rows in the pool."""
        return self._pool.n

    @property
    def source_keys(self) -> list[str]:
        return list(self._persons)

    @property
    def n_cohorts(self) -> int:
        """Cohorts that are published."""
        return len(self._cohorts)

    # -- row changes ----------------------------------------------------------------------------------------------

    def begin(self, table: Iterable[RowChange], seconds: int) -> list[SealedRecord]:
        """Takes the rows that are there at first; they are epoch 1. seconds: the time, since 1970; 0: not known.

        Raises ConfigError if time counts and is not known.
        """
        self._require_time(seconds)
        for change in table:
            self.apply(change)
        return self.end_epoch(self.full(seconds))

    def take(self, changes: Iterable[RowChange]) -> Iterator[list[SealedRecord]]:
        """Takes row changes in their sequence, and ends the epochs that are over by the number of changes."""
        for change in changes:
            self.apply(change)
            if self.rules.epoch.events is not None and self.changes >= self.rules.epoch.events:
                yield self.end_epoch(max(self.seconds, self.full(change.at // 1_000)))

    def due(self, now: float) -> int | None:
        """The time of the epoch that is over by a clock, in seconds since 1970; None: the present one goes on.

        If nobody was there to end them, several make one.
        """
        full = self.full(int(now))
        if self.rules.epoch.events is not None:
            return max(self.seconds, full) if self.changes >= self.rules.epoch.events else None
        return full if full > self.seconds else None

    def over_before(self, seconds: int) -> Iterator[list[SealedRecord]]:
        """Ends the epochs that are over at the time of a message. Raises ConfigError if it says none."""
        length = self.rules.epoch.seconds
        if length is None:
            return
        self._require_time(seconds)
        if self.seconds == NO_TIME:
            self.seconds = self.full(seconds)
        if (seconds - self.seconds) // length > EMPTY_EPOCHS_MAX:
            raise ConfigError(
                f"publish.sealed.epoch: more than {EMPTY_EPOCHS_MAX:,} epochs lie between two messages: are their times"
                " milliseconds since 1970? Else take a longer epoch"
            )
        while seconds >= self.seconds + length:
            yield self.end_epoch(self.seconds + length)

    def _require_time(self, seconds: int) -> None:
        if self.rules.epoch.seconds is not None and not seconds:
            raise ConfigError(
                "publish.sealed.epoch counts time, but a message has none: give one to each message, the first one too"
                ' ({"key": ..., "value": ..., "timestamp": milliseconds since 1970}), or count row changes, such as'
                " `epoch: 1000 events`"
            )

    def full(self, seconds: int) -> int:
        """When the epoch began that a time is in; no time of a message is published, so else the minute."""
        length = self.rules.epoch.seconds or MINUTE
        return seconds // length * length

    def apply(self, change: RowChange) -> None:
        """Takes one change of a row. Raises LawViolated if it does not fit the rows that are there."""
        person, row = self._persons.get(change.source_key), change.row
        self.changes += 1
        if (person is None) != (change.before is None):
            raise LawViolated("a sealed changelog was told of a change of a row that cannot be")
        if person is None:
            if row is not None:
                self._arrive(self._named(change.source_key), row)
        elif row is None:
            self._depart(person)
            self._where[person] = NOWHERE
            self._persons.remove(person)
            self._free.append(person)
            self._changed[change.source_key] = None
        elif self._where[person] < NOWHERE:
            self._pool.write(-2 - self._where[person], self._cells_of(row), row)
        elif change.before is None or self._decisive(row.values) != self._decisive(change.before):
            self._depart(person)
            self._arrive(person, row)
            self._changed[change.source_key] = None

    def _decisive(self, values: Values) -> Sequence[bytes | str | None]:
        """The values by whose change a row becomes another person's: not by another spelling of one."""
        return [self._counted(values[i]) for i in self._table.sensitive] if self._table.sensitive else values

    def _named(self, source_key: str) -> int:
        if self._free:
            person = self._free.pop()
        else:
            person = len(self._where)
            self._where.append(NOWHERE)
        self._persons.add(source_key, person)
        self._changed[source_key] = None
        return person

    def _arrive(self, person: int, row: Row) -> None:
        self._arrivals += 1
        self._where[person] = -2 - self._pool.add(person, self._cells_of(row), row, self.epoch + 1, self._arrivals)

    def _depart(self, person: int) -> None:
        """The person leaves the pool without a trace, or a cohort one fewer."""
        where = self._where[person]
        if where >= 0:
            self._cohorts.leave(where)
            return
        self._pool.remove(-2 - where)
        if self._pool.places > 2 * self._pool.n + SPARE_PLACES:
            self._close_up()

    def _close_up(self) -> None:
        self._pool.close_up()
        for place, person in enumerate(self._pool.persons):
            self._where[person] = -2 - place

    def _cells_of(self, row: Row) -> list[int]:
        return [code // codes for code, codes in zip(row.codes, self._per_cell, strict=True)]

    # -- the end of an epoch --------------------------------------------------------------------------------------

    def end_epoch(self, seconds: int) -> list[SealedRecord]:
        """Ends an epoch, at a time in seconds since 1970: its records in the order in which they are published."""
        self.epoch, self.seconds, self.changes, self._drawn = self.epoch + 1, seconds, 0, 0
        records = [*self._departures(), *self._formed()]
        kinds = Counter(map(type, records))
        end = EpochEnd(
            epoch=self.epoch,
            shard=self._shard,
            time=time_text(seconds),
            adds=kinds[Add],
            retires=kinds[Retire],
            lives=kinds[Live],
            k=self._table.k,
            alpha=decimal_text(self.rules.alpha),
            l=self.rules.l,
        )
        return self._digested(ordered_epoch(records, end))

    def _digested(self, records: list[SealedRecord]) -> list[SealedRecord]:
        """The records of an epoch, which count as published."""
        written = b"".join(b"%b %b\n" % encode(record) for record in records)
        self._digest = blake2b(self._digest + written, digest_size=SEALED_DIGEST_BYTES).digest()
        return records

    def _departures(self) -> Iterator[Live | Retire]:
        for index in sorted(self._cohorts.touched):
            left, name = self._cohorts.left[index], self._cohorts.id(index).hex()
            if left <= self.rules.theta * self._cohorts.rows[index]:
                yield Retire(name, self.epoch)
                self._cohorts.retire(index)
            elif self.rules.counters:
                yield Live(name, self.epoch, left)
        self._cohorts.changed |= self._cohorts.touched
        self._cohorts.touched.clear()

    def _formed(self) -> Iterator[Add]:
        """Forms cohorts of the pool; those that are published leave it."""
        self._close_up()
        cells, since = self._pool.cells, np.array(self._pool.since)
        rest = np.arange(len(cells))
        while len(rows := self._one_of_each(rest)) >= self._table.k:
            formed = [rows[cohort] for cohort in self._form(cells[rows], self._chance())]
            lo, hi = self._table.space.boxes_around(cells, formed)
            for i, may_go in enumerate(self._may_go(lo, hi, [since[cohort].min() for cohort in formed])):
                if may_go:
                    yield self._published(formed[i].tolist(), box_json(self._table, lo[i].tolist(), hi[i].tolist()))
            rest = np.setdiff1d(rest, rows, assume_unique=True)
        self._close_up()

    def _one_of_each(self, places: Ints) -> Ints:
        """The first row of each individual, of some rows of the pool; all, if the table declares none."""
        if self._table.individual is None:
            return places
        first: dict[str | None, int] = {}
        for place in places.tolist():
            first.setdefault(self._pool.individuals[place], place)
        return np.array([*first.values()], np.int64)

    def _may_go(self, lo: Ints, hi: Ints, since: Sequence[int]) -> Iterator[bool]:
        """True for each cohort that is narrow enough to be published, or of which a row has waited long enough.

        Never for one that is wider than `coarsest` allows.
        """
        space, tau = self._table.space, self.rules.tau
        ncp, forbidden = space.ncp(lo, hi) / space.d, space.too_wide(lo, hi)
        for width, wide, came in zip(ncp.tolist(), forbidden.tolist(), since, strict=True):
            yield not wide and (tau is None or width <= tau or self.epoch - came + 1 >= self.rules.delta)

    def _published(self, places: Sequence[int], box: msgspec.Raw) -> Add:
        name, n = self._chance(), len(places)
        index = self._cohorts.add(name, n)
        add = Add(cohort_name(name), self.epoch, n, box, self._shown([self._pool.values[at] for at in places]))
        if len(encode(add).value) > self._table.limits.row_bytes_max:
            add = Add(add.cohort, add.epoch, n, box, None)
        persons = [self._pool.persons[place] for place in places]
        self._changed.update(dict.fromkeys(self._persons.texts[persons].tolist()))
        for place, person in zip(places, persons, strict=True):
            self._where[person] = index
            self._pool.remove(place)
        return add

    def _shown(self, rows: Sequence[Values]) -> SensitiveTexts | None:
        """The values of a cohort, if it may show them: a function of these values, in no order."""
        return sensitive_texts(rows) if self._may_show(rows) else None

    def _chance(self) -> int:
        self._drawn += 1
        return self._draw(self.epoch, self._drawn - 1)

    # -- as it is stored ------------------------------------------------------------------------------------------

    @property
    def mark(self) -> SealedMark:
        return SealedMark(self.epoch, self.seconds, self.changes, self._arrivals, self._digest)

    def drain(self) -> SealedChanges:
        """The changes since the last call; to be stored with the records that came meanwhile, in one go."""
        places = {source_key: self._place_of(source_key) for source_key in self._changed}
        cohorts = {index: self._cohorts.stored(index) for index in self._cohorts.changed}
        self._changed, self._cohorts.changed = {}, set()
        return SealedChanges(self.mark, places, cohorts)

    def _place_of(self, source_key: str) -> SealedPlace | None:
        person = self._persons.get(source_key)
        if person is None:
            return None
        where = self._where[person]
        if where >= 0:
            return SealedPlace(where)
        return SealedPlace(IN_POOL, self._pool.since[-2 - where], self._pool.arrivals[-2 - where])

    def lose(self, epoch: int, cohorts: Iterable[str], source_keys: Sequence[str]) -> None:
        """Takes the place of a publisher whose state is lost; epoch: the last one that is known to be over.

        All its cohorts, by id, are retired at the end of the next epoch. As nobody knows in which of them somebody was,
        those who are there now count as people of a retired one.
        """
        self.epoch = epoch
        for name in cohorts:
            index = self._cohorts.add(int(name, 16), 1)
            self._cohorts.left[index] = 0
            self._cohorts.touched.add(index)
        if source_keys:
            unknown = self._cohorts.add(0, len(source_keys))
            self._cohorts.retire(unknown)
            for source_key in source_keys:
                self._where[self._named(source_key)] = unknown

    def restore(self, mark: SealedMark, kept: StoredSealed, rows_of: Callable[[list[str]], Iterable[Row]]) -> None:
        """Takes what was stored. rows_of: the rows with some source keys, in their order. Raises LawViolated."""
        self.epoch, self.seconds, self.changes = mark.epoch, mark.seconds, mark.changes
        self._arrivals, self._digest = mark.arrivals, mark.digest
        self._cohorts.restore(kept.cohorts)
        source_keys, where, waiting = list[str](), array("i"), list[tuple[int, int, int]]()
        for person, (source_key, place) in enumerate(kept.places):
            source_keys.append(source_key)
            where.append(place.cohort)
            if place.cohort == IN_POOL:
                waiting.append((place.arrival, person, place.since))
        self._check_people(where)
        self._persons.write(0, source_keys)
        self._persons.found_up_to(len(source_keys))
        self._where = where
        waiting.sort()
        rows = rows_of([source_keys[person] for _, person, _ in waiting])
        for (arrival, person, since), row in zip(waiting, rows, strict=True):
            where[person] = -2 - self._pool.add(person, self._cells_of(row), row, since, arrival)

    def _check_people(self, where: Sequence[int]) -> None:
        cohorts, of_each = self._cohorts, Counter(where)
        del of_each[IN_POOL]
        if of_each != {index: n for index, n in enumerate(cohorts.left) if n and cohorts.rows[index]}:
            raise LawViolated("the sealed cohorts that are stored have not as many people as were counted")


def _array_of(numbers: Ints) -> array[int]:
    return array("i", np.ascontiguousarray(numbers, np.int32).tobytes())


def drawn_by(secret: bytes) -> Draw:
    """Chance that nobody can tell without the secret, and that is the same again with it."""

    def draw(epoch: int, number: int) -> int:
        said = b"%d %d" % (epoch, number)
        return int.from_bytes(blake2b(said, key=secret, digest_size=COHORT_ID_BYTES, person=b"sealed cohorts").digest())

    return draw
