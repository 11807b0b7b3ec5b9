"""A region of a shard's table, and what replaces its QI groups by others of the same rows.

The rules of this file
----------------------
* A region is some QI groups with all their rows. Its `stamp` is a digest of who is in which of them, with which cells
  and published values, as which individual: a region whose stamp is the same has not changed.
* Rows are handed out in the order of their lots, which no one outside knows and every restart gives again: an algorithm
  with the same seed gives the same QI groups, and neither names nor arrivals have a part in it.
* The new groups are all the region's rows, once each, and every one of them holds the table's model; else nothing is
  changed.
* A new group is given the number of an old one as long as there are any (`groups.successors`). What is over gets new
  numbers, or is retired.
* Where the box stays, a slot whose values are still there keeps them, the lowest slots first; the others are filled in
  the order of the values' texts. So a group with the same box and equal values publishes nothing, whoever is in it.
  Where the box is another, slots stand in the order of the values' texts.
* A group with the very rows of an old one is not touched, unless it can have a smaller box (`shrink: false`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec
import numpy as np

from streamer.errors import LawViolated
from streamer.incremental.core.record_types import (
    FORM,
    GATHER,
    HI,
    LO,
    NONE,
    OPERATION,
    REFORM,
    RETIRE,
    Records,
    records,
)
from streamer.incremental.groups.held import Held
from streamer.incremental.groups.rows import Rows
from streamer.incremental.groups.successors import Groups, same_box, successors
from streamer.privacy.models import model_of
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.microdata import microdata_of
from streamer.table.schema import Table

STAMP_BYTES = 16

NOWHERE = -1
"""In place of a group, of a row that is in none that could stay as it is."""


@dataclass(frozen=True, slots=True)
class Region:
    """Some QI groups as they are now: their numbers, ascending; all their rows; NCP times rows, summed; a digest.

    standing: of each row (n,) the place of its group's number in `numbers`, NOWHERE where its box could be smaller.
    """

    numbers: tuple[int, ...]
    rows: EncodedRows = field(repr=False)
    ncp: float
    stamp: bytes = field(repr=False)
    standing: Ints = field(repr=False)


@dataclass(frozen=True, slots=True)
class Replaced:
    """What a replacement did; kept: groups of which readers see nothing new; rows_published_again: upserts.

    Both are counted as the form `rows` publishes them; other forms publish other records of the same change.
    """

    groups_before: int
    groups_now: int
    kept: int
    rows_published_again: int
    ncp_before: float
    ncp_now: float


class _Now:
    """A region in the core's arrays: of its groups the places (g,), of its rows the places (n,) and groups (n,)."""

    def __init__(self, rows: Rows, held: Held, numbers: Sequence[int]) -> None:
        s = held.arrays
        group = s.groups.group.view(np.ndarray)[: held.say("groups_used")]
        alive = np.flatnonzero(group["alive"])
        wanted = alive[np.isin(group["number"][alive], np.array(numbers, dtype=np.int64))]
        self.places: Ints = wanted[np.argsort(group["number"][wanted])]
        self.numbers: Ints = group["number"][self.places]
        sizes = group["members"][self.places].astype(np.int64)
        of_row = np.repeat(np.arange(len(sizes)), sizes)
        within = np.arange(len(of_row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        members = s.groups.pool[0, group["block"][self.places][of_row] + within].astype(np.int64)
        order = np.argsort(rows.core["lot"][members], kind="stable")
        self.rows, self.of_row = members[order], of_row[order]
        self.cells, self.values = s.rows.cells[self.rows], rows.core["values"][self.rows].astype(np.int64)
        self.lo, self.hi = (s.groups.box[self.places, side].astype(np.int64) for side in (LO, HI))
        self.pool, self.blocks, self.sizes = s.groups.pool[1], group["block"][self.places], sizes

    def slots(self, i: int) -> list[int]:
        """Numbers of the values by slot of one of the groups."""
        found: list[int] = self.pool[self.blocks[i] : self.blocks[i] + self.sizes[i]].tolist()
        return found


def boxes_of(held: Held) -> tuple[Ints, Ints, Ints, Ints]:
    """All QI groups by number: numbers (g,), boxes (g, d) and (g, d) in cells, rows (g,); int64."""
    s = held.arrays
    group = s.groups.group.view(np.ndarray)[: held.say("groups_used")]
    alive = np.flatnonzero(group["alive"])
    places = alive[np.argsort(group["number"][alive])]
    lo, hi = (s.groups.box[places, side].astype(np.int64) for side in (LO, HI))
    return group["number"][places], lo, hi, group["members"][places].astype(np.int64)


def loss_of(held: Held) -> float:
    """NCP times rows, summed over all QI groups; of what is pending nothing is lost yet."""
    group = held.arrays.groups.group.view(np.ndarray)[: held.say("groups_used")]
    return float((group["ncp"] * (group["members"] * group["alive"])).sum())


def region_of(table: Table, rows: Rows, held: Held, numbers: Sequence[int]) -> Region:
    """The QI groups of these numbers, without those that are gone."""
    return _region(table, rows, _Now(rows, held, numbers))


def _region(table: Table, rows: Rows, now: _Now) -> Region:
    encoded = rows.encoded(now.rows)
    loss = float((now.sizes * table.space.ncp(now.lo, now.hi)).sum())
    stamp = blake2b(now.numbers[now.of_row].tobytes(), digest_size=STAMP_BYTES)
    stamp.update(now.cells.tobytes())
    stamp.update(msgspec.msgpack.encode((encoded.source_keys, encoded.values, encoded.individuals)))
    return Region(tuple(now.numbers.tolist()), encoded, loss, stamp.digest(), _standing(table, now))


def _standing(table: Table, now: _Now) -> Ints:
    """See `Region.standing`."""
    lo, hi = table.space.generalize(*_hulls(now.cells, now.of_row, now.sizes))
    smallest = (lo == now.lo).all(axis=1) & (hi == now.hi).all(axis=1)
    standing: Ints = np.where(smallest[now.of_row], now.of_row, NOWHERE)
    return standing


def _hulls(cells: Ints, of_row: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Lowest and highest cells of g groups (g, d), none of them empty; cells (n, d), of_row (n,), sizes (g,)."""
    if not len(sizes):
        empty = np.zeros((0, cells.shape[1]), dtype=np.int64)
        return empty, empty.copy()
    there, begins = cells[np.argsort(of_row, kind="stable")].astype(np.int64), np.cumsum(sizes) - sizes
    return np.minimum.reduceat(there, begins, axis=0), np.maximum.reduceat(there, begins, axis=0)


def replacement(
    table: Table, rows: Rows, held: Held, region: Region, groups: Sequence[Ints]
) -> tuple[Records, Replaced] | None:
    """The operations that replace a region's QI groups by others, and what they do; None where it has changed.

    groups: arrays of row numbers into `region.rows`. Raises LawViolated where they are not all of these rows, once
    each, or one does not hold the model.
    """
    now = _Now(rows, held, region.numbers)
    if _region(table, rows, now).stamp != region.stamp:
        return None
    label = _labels(groups, len(now.rows))
    microdata, model = microdata_of(table, region.rows), model_of(table)
    holds = model.holds_by_group(label, len(groups), microdata.subjects(model.subjects))
    if not holds.all():
        raise LawViolated(f"rebuild: {int((~holds).sum())} of {len(groups)} QI groups do not hold the privacy model")
    old = _grouped(table, now, now.of_row, len(now.places), (now.lo, now.hi))
    new = _grouped(table, now, label, len(groups), None)
    return _Plan(rows, now, old, new).operations()


def _labels(groups: Sequence[Ints], n: int) -> Ints:
    """The group of each of n rows."""
    named = np.concatenate([np.zeros(0, np.int64), *groups]).astype(np.int64)
    if len(named) != n or not np.array_equal(np.sort(named), np.arange(n)):
        raise LawViolated("rebuild: the QI groups are not all of the region's rows, once each")
    label = np.empty(n, dtype=np.int64)
    label[named] = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    return label


def _grouped(table: Table, now: _Now, of_row: Ints, n_groups: int, boxes: tuple[Ints, Ints] | None) -> Groups:
    """Rows in groups, none of them empty; boxes: the groups' own, or the smallest there are."""
    order = np.lexsort((now.values, of_row))
    sizes = np.bincount(of_row, minlength=n_groups)
    ends = np.cumsum(sizes)
    if boxes is None:
        boxes = table.space.generalize(*_hulls(now.cells, of_row, sizes))
    members = np.argsort(of_row, kind="stable")
    return Groups(of_row, sizes, *boxes, table.space.ncp(*boxes), members, now.values[order], ends)


class _Plan:
    """Which new group takes whose number, and what of it readers see."""

    def __init__(self, rows: Rows, now: _Now, old: Groups, new: Groups) -> None:
        self._rows, self._now, self._old, self._new = rows, now, old, new
        self._successor, self._untouched = successors(old, new)
        self._kept = len(self._untouched)
        self._again = 0

    def operations(self) -> tuple[Records, Replaced]:
        """GATHER of every row of a group that is another, its FORM or REFORM, then RETIRE of what is over."""
        old, new = self._old, self._new
        predecessor = {j: i for i, j in self._successor.items()}
        made = [j for j in range(len(new.sizes)) if j not in self._untouched]
        parts = [part for j in made for part in self._made(j, predecessor.get(j))]
        gone = [i for i in range(len(old.sizes)) if i not in self._successor]
        parts.append(_operations(len(gone), RETIRE, self._now.places[gone]))
        operations = records(sum(len(part) for part in parts), OPERATION)
        operations.kind, operations.place, operations.values = np.concatenate(parts).T
        operations.who, operations.ends[-1:] = NONE, 1
        return operations, Replaced(len(old.sizes), len(new.sizes), self._kept, self._again, old.loss, new.loss)

    def _made(self, j: int, i: int | None) -> list[Ints]:
        """One of the new groups, which takes the number of the old group i, if there is one."""
        members = self._new.members_of(j)
        rows, n = self._now.rows[members], len(members)
        if i is None:
            self._again += n
            return [_operations(n, GATHER, rows), _operations(1, FORM, NONE)]
        if not same_box(self._old, i, self._new, j):
            self._again += n
            return [_operations(n, GATHER, rows), _operations(1, REFORM, self._now.places[i])]
        before = self._now.slots(i)
        slots = self._slots(before, self._new.values_of(j).tolist())
        again = sum(a != b for a, b in zip(before, slots, strict=False)) + max(0, n - len(before))
        self._again += again
        self._kept += again == 0 and n == len(before)
        return [_operations(n, GATHER, rows, slots), _operations(1, REFORM, self._now.places[i], 1)]

    def _slots(self, before: Sequence[int], values: Sequence[int]) -> list[int]:
        """Values by slot: those that are still there where they were, the others by their texts."""
        left = Counter(values)
        slots: list[int | None] = [None] * len(values)
        for slot, number in enumerate(before[: len(values)]):
            if left[number]:
                left[number] -= 1
                slots[slot] = number
        text = self._rows.values.things.__getitem__
        others = iter(sorted(left.elements(), key=lambda number: text(number) or ()))
        return [next(others) if number is None else number for number in slots]


def _operations(n: int, kind: int, places: Ints | int, values: Sequence[int] | int = 0) -> Ints:
    """n operations of one kind: kind, place and values of each, (n, 3)."""
    operations = np.empty((n, 3), dtype=np.int64)
    operations[:, 0], operations[:, 1], operations[:, 2] = kind, places, values
    return operations
