"""Values and a privacy model as the core counts them: by number.

A number is given with the first row that needs it. When there are far more numbers than rows, or texts of values have
become far longer than those in use, the numbers that no row has are taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from typing import Generic, TypeVar

import msgspec
import numpy as np

from streamer.incremental.core import capacity
from streamer.incremental.core.layout import DEMAND, FIRST_CAPACITY, FREE, NO_GROUP_YET, NONE, Shard
from streamer.kernels.distributions import Laws, shortage_by_group
from streamer.privacy.distributions import AtMostDistance, laws_of
from streamer.privacy.models import Model, exceeds, model_of, subject_of
from streamer.table.arrays import Bools, Ints, Records, records
from streamer.table.microdata import IN_REFERENCE, INDIVIDUAL, NULL, Subject
from streamer.table.row import Values
from streamer.table.schema import Table

T = TypeVar("T", bound=Hashable)

SPARE_VALUES = 10_000
"""Unused numbers, beyond one per row, before any are taken back."""

SPARE_BYTES = 16_000_000
"""Bytes of unused texts, beyond as many as were in use at the last time, before any are taken back."""


class Numbers(Generic[T]):
    """Numbers of things; equal things have one."""

    def __init__(self) -> None:
        self.number_of: dict[T, int] = {}
        self.things: list[T | None] = []
        self._free: list[int] = []

    def give(self, thing: T) -> int:
        """The number of a thing; gives a new thing one."""
        number = self.number_of.get(thing)
        if number is None:
            if self._free:
                number = self._free.pop()
                self.things[number] = thing
            else:
                number = len(self.things)
                self.things.append(thing)
            self.number_of[thing] = number
            self.is_new(thing, number)
        return number

    def give_many(self, things: Sequence[T]) -> Ints:
        """The numbers of n things, (n,) int64."""
        for thing in dict.fromkeys(things):
            self.give(thing)
        return np.fromiter(map(self.number_of.__getitem__, things), np.int64, len(things))

    def is_new(self, thing: T, number: int) -> None:
        """Called for a thing that has just got a number."""

    def has_many_spare(self, n_rows: int) -> bool:
        return len(self.number_of) > 2 * n_rows + SPARE_VALUES

    def keep(self, used: Ints) -> None:
        """Takes back all numbers except those in use."""
        mask = np.zeros(len(self.things), dtype=bool)
        mask[used] = True
        self._free = np.flatnonzero(~mask).tolist()
        for number in self._free:
            thing = self.things[number]
            if thing is not None:
                del self.number_of[thing]
                self.things[number] = None


class ValueTexts(Numbers[Values]):
    """Values by number, and the texts that the core does not have yet."""

    def __init__(self) -> None:
        super().__init__()
        self._fresh: list[tuple[int, bytes]] = []
        self._bytes = 0
        self._bytes_kept = 0

    def has_many_spare(self, n_rows: int) -> bool:
        return super().has_many_spare(n_rows) or self._bytes > 2 * self._bytes_kept + SPARE_BYTES

    def is_new(self, thing: Values, number: int) -> None:
        self._fresh.append((number, b"\0".join(thing)))

    def keep(self, used: Ints) -> None:
        super().keep(used)
        self._fresh = [(number, b"\0".join(thing)) for number, thing in enumerate(self.things) if thing is not None]
        self._bytes, self._bytes_kept = 0, sum(len(text) for _, text in self._fresh)

    def unwritten(self) -> list[tuple[int, Values]]:
        """The values that the core does not have yet, by number."""
        things = [(number, self.things[number]) for number, _ in self._fresh]
        return [(number, thing) for number, thing in things if thing is not None]

    def write_to(self, shard: Shard) -> Shard:
        """The shard, with the texts of all values."""
        if not self._fresh:
            return shard
        fresh, self._fresh = self._fresh, []
        numbers = [number for number, _ in fresh]
        lengths = np.array([len(text) for _, text in fresh], dtype=np.int64)
        joined = b"".join(text for _, text in fresh)
        shard = capacity.with_values(shard, len(self.things), self._bytes + len(joined))
        at = self._bytes + np.cumsum(lengths) - lengths
        shard.values.value.at[numbers], shard.values.value.length[numbers] = at, lengths
        shard.values.value.prefix[numbers] = np.frombuffer(
            b"".join(text[:8].ljust(8, b"\0") for _, text in fresh), dtype=">u8"
        )
        shard.values.text[self._bytes : self._bytes + len(joined)] = np.frombuffer(joined, dtype=np.uint8)
        self._bytes += len(joined)
        return shard


# The privacy model: equal numbers are one subject, and no two demands share a number.

Entries = tuple[Ints, Ints, Ints]
"""Of the tally: groups, who, and how many rows or subjects."""


def counted_by_k(table: Table) -> int:
    """The k of the core: of individuals if the table declares them, else the rows that the model asks for."""
    return table.k if table.individual is not None else model_of(table).rows


def demanding_subjects(model: Model) -> list[Subject]:
    """The subjects of demands: those that have to be distinct or keep a share, but not individuals only k counts."""
    asked = [subject for subject in model.subjects if subject in model.distinct or subject in model.shares]
    return [subject for subject in asked if subject != INDIVIDUAL or subject in model.shares]


def demands_of(table: Table) -> Records:
    """The demands of the model beyond k; (c,) DEMAND, that of the individuals first."""
    model = model_of(table)
    subjects = demanding_subjects(model)
    demand = records(len(subjects), DEMAND)
    for c, subject in enumerate(subjects):
        share = model.shares.get(subject, Fraction(1))
        demand[c].numerator, demand[c].denominator = share.numerator, share.denominator
        demand[c].of_individuals = subject == INDIVIDUAL
        demand[c].least = 0 if subject == INDIVIDUAL else model.distinct.get(subject, 0)
    return demand


def laws_asked(table: Table) -> Laws:
    """The laws of the model, for the core. Raises ConfigError if one has nothing to compare with."""
    laws = model_of(table).laws
    return laws_of(laws, [law.subject for law in laws], FIRST_CAPACITY)


class SubjectNumbers:
    """The subjects that each demand, and each law, counts of values, by number."""

    def __init__(self, table: Table) -> None:
        model = model_of(table)
        self._subjects = demanding_subjects(model)
        self._readers = [None if s == INDIVIDUAL else subject_of(table, s) for s in self._subjects]
        self._numbers: Numbers[tuple[int, Hashable]] = Numbers()
        self._laws = [(law.subject, subject_of(table, law.subject)) for law in model.laws]
        self._given = max((law.reference.unknown for law in model.laws if isinstance(law, AtMostDistance) and
            law.reference is not None), default=0)  # fmt: skip

    def write_to(self, shard: Shard, fresh: Iterable[tuple[int, Values]]) -> Shard:
        """The shard, with the subjects of these values, given by number.

        Raises ValueError if its column cannot have a value; only a store can contain such.
        """
        fresh = list(fresh)
        if not (self._subjects or self._laws) or not fresh:
            return shard
        numbers, codes = [number for number, _ in fresh], [self._codes(values) for _, values in fresh]
        leaves = [self._leaves(values) for _, values in fresh]
        shard = capacity.with_subjects(shard, 1 + max(numbers), len(self._numbers.things))
        shard.demands.code[numbers] = codes
        if self._laws:
            shard = capacity.with_codes(shard, 1 + max(numbers), max(self._given + 1, len(self._numbers.things)))
            shard.demands.leaf[numbers] = leaves
        return shard

    def _leaves(self, values: Values) -> list[int]:
        """The code of values in each law: that of the reference, or the number of the subject; NONE: not counted."""
        leaves = []
        for law, (subject, reader) in enumerate(self._laws):
            counted = _read(reader, values)
            if subject.level == IN_REFERENCE:
                leaves.append(NULL if counted is None else int(str(counted)))
            else:
                counts = counted is not None or subject.null_counts
                leaves.append(self._numbers.give((-1 - law, counted)) if counts else NONE)
        return leaves

    def _codes(self, values: Values) -> list[int]:
        """-2 - number of the subject of each demand; NONE for none, and for an individual."""
        codes = []
        for c, (subject, reader) in enumerate(zip(self._subjects, self._readers, strict=True)):
            counted = None if reader is None else _read(reader, values)
            counts = reader is not None and (counted is not None or subject.null_counts)
            codes.append(-2 - self._numbers.give((c, counted)) if counts else NONE)
        return codes

    def keep(self, shard: Shard, used: Ints) -> None:
        """Takes back all numbers except those of the values with these numbers."""
        if not (self._subjects or self._laws):
            return
        codes = shard.demands.code[used]
        numbered = [i for i, (subject, _) in enumerate(self._laws) if subject.level != IN_REFERENCE]
        leaves = shard.demands.leaf[used][:, numbered] if numbered else np.zeros(0, np.int32)
        of_laws = leaves[leaves != NONE].astype(np.int64)
        self._numbers.keep(np.concatenate([-2 - codes[codes != NONE].astype(np.int64), of_laws]))


def _read(reader: Callable[[Values], Hashable | None], values: Values) -> Hashable | None:
    try:
        return reader(values)
    except (LookupError, TypeError, ValueError, msgspec.MsgspecError):
        raise ValueError("its column cannot have this value") from None


def count_demands(s: Shard) -> Entries:
    """Counts all rows, of groups and pending: fills `reached`; returns the entries of the tally."""
    indexes = np.flatnonzero(s.rows.row.group[: int(s.state.rows_used[0])] != FREE)
    row, entries = s.rows.row[indexes], [np.zeros((3, 0), np.int64)]
    for c in range(len(s.demands.demand)):
        demand = s.demands.demand[c]
        code = row.who if demand.of_individuals else s.demands.code[row["values"], c]
        reached = s.demands.reached[:, c]
        group, who, n = _counted(row.group[code != NONE], code[code != NONE])
        reached.distinct[:] = np.bincount(group + 1, minlength=len(reached))
        reached.single[:] = np.bincount(group[n == 1] + 1, minlength=len(reached))
        if not demand.of_individuals:
            entries.append(np.stack([group, who, n]))
        if demand.numerator < demand.denominator:
            np.maximum.at(reached.top, group + 1, n.astype(np.int32))
            of_group, rows, subjects = _counted(group, n)
            entries.append(np.stack([-3 - of_group, rows * len(s.demands.demand) + c, subjects]))
    for law in range(len(s.demands.laws.kind)):
        leaf = s.demands.leaf[row["values"][row.group == NO_GROUP_YET], law]
        s.demands.waiting[law] = np.bincount(leaf[leaf != NONE], minlength=s.demands.waiting.shape[1])
    group, who, n = np.concatenate(entries, axis=1)
    return group, who, n


def _counted(group: Ints, what: Ints) -> Entries:
    """The distinct pairs, int64, and how often each comes; group >= PENDING, what an int32."""
    low = 1 << 31
    pairs, n = np.unique((group.astype(np.int64) << 32) + (what.astype(np.int64) + low), return_counts=True)
    return pairs >> 32, (pairs & (2 * low - 1)) - low, n.astype(np.int64)


def groups_that_hold(s: Shard) -> Bools:
    """True for each of the QI groups with indexes 0..n-1 that holds the model; (n,) bool."""
    n = int(s.state.groups_used[0])
    group, holds = s.groups.group[:n], np.asarray(s.groups.group["count"][:n] >= s.state.k[0])
    for c, demand in enumerate(s.demands.demand):
        reached = s.demands.reached[1 : 1 + n, c]
        holds &= reached.distinct >= demand.least
        holds &= ~exceeds(reached.top, group.members, demand)
    for law in range(len(s.demands.laws.kind)):
        holds &= _lacking(s, law, n) == 0
    return holds


def _lacking(s: Shard, law: int, n: int) -> Ints:
    """The rows that each of the QI groups with indexes 0..n-1 lacks to hold a law; (n,)."""
    row = s.rows.row[: int(s.state.rows_used[0])]
    row = row[row.group >= 0]
    leaf = s.demands.leaf[row["values"], law]
    counts = leaf != NONE
    group, code, rows = _counted(row.group[counts], leaf[counts])
    begins = np.searchsorted(group, np.arange(n + 1)).astype(np.int64)
    return shortage_by_group(s.demands.laws, law, begins, code, rows, s.groups.group["members"][:n].astype(np.int64))
