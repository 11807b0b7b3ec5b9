"""A region of a shard's table, and the replacement of its QI groups by others of the same rows.

The rules of this file
----------------------
* A region is some QI groups with all their rows. Its `stamp` is a digest of who is in which of them, with which cells
  and published values, as which individual: a region with the same stamp has not changed.
* Rows come in the order of their tie hashes, which nobody outside knows and every restart computes again: an algorithm
  with the same seed makes the same QI groups, whatever the names and arrivals.
* The new groups are all the region's rows, once each, and each holds the table's model; else nothing changes.
* A new group takes the number of an old one while there are any. Further groups get new numbers; groups left over are
  retired. So readers see rows rewritten rather than removed and added. First come pairs with one box and equal
  published values, then pairs with one box, then all others; in each step those that share most rows (equal: the lower
  number, then the earlier group), then the rest in their order.
* If the box stays, a slot keeps its values if they are still there, lowest slots first; the other slots are filled in
  the order of the values' texts. So a group with the same box and equal values publishes nothing, whoever is in it. If
  the box differs, slots follow the order of the values' texts.
* A group with exactly the rows of an old one is not touched, unless its box can be smaller (`shrink: false`).

Regions are small enough to be replaced in one release:
* QI groups are cut in two by the centers of their boxes along one attribute, again and again, as in a kd-tree (Bentley
  1975), never through a QI group. The border is chosen that the boxes of the fewest rows cross, because rows on two
  sides of it cannot come together. `benchmarks/regions.py` measures the cost.
* `turn` says which share of the rows is below a border, between a third and two thirds, give or take a sixth: so the
  borders of one rebuild lie inside the regions of the next.
* Ties: the earlier attribute, then the lower position. Groups with one center are ordered by number.
* A QI group with more rows than a region may have is a region by itself, and does not divide others.
* Only boxes, sizes and numbers of QI groups decide, all of them public; no chance.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np

from streamer.errors import LawViolated
from streamer.incremental.core import layout
from streamer.incremental.core.layout import HI, LO, NONE
from streamer.incremental.engine.core_arrays import CoreArrays
from streamer.incremental.engine.rows import Rows
from streamer.privacy.models import model_of
from streamer.table.arrays import Ints, Records, records
from streamer.table.encode import EncodedRows
from streamer.table.microdata import microdata_of
from streamer.table.schema import Table
from streamer.table.space import Space


@dataclass(frozen=True)
class RegionGroups:
    """g QI groups of a region of n rows."""

    of_row: Ints  # (n,): the group of each row
    sizes: Ints  # (g,)
    lo: Ints  # (g, d)
    hi: Ints  # (g, d)
    space: Space
    members: Ints  # (n,): rows, group by group
    values: Ints  # (n,): numbers of published values, group by group, sorted within
    ends: Ints  # (g,): where a group ends in both

    def box(self, i: int) -> tuple[bytes, bytes]:
        return self.lo[i].tobytes(), self.hi[i].tobytes()

    def values_of(self, i: int) -> Ints:
        return self.values[self.ends[i] - self.sizes[i] : self.ends[i]]

    def members_of(self, i: int) -> Ints:
        return self.members[self.ends[i] - self.sizes[i] : self.ends[i]]

    @property
    def loss(self) -> float:
        """NCP times rows, summed; withheld rows as the others on average."""
        return self.space.published_loss(self.lo, self.hi, self.sizes)


def successors(old: RegionGroups, new: RegionGroups) -> tuple[dict[int, int], set[int]]:
    """Old groups -> the new groups that take their numbers, as many as there can be.

    Also the new groups that are old ones to the row, in the same box; they take these groups' numbers.
    """
    pairs, shared = np.unique(old.of_row * max(1, len(new.sizes)) + new.of_row, return_counts=True)
    best = np.lexsort((pairs, -shared))  # by rows shared, then by old group, then by new
    one, other = divmod(pairs[best], max(1, len(new.sizes)))
    same = (shared[best] == old.sizes[one]) & (shared[best] == new.sizes[other])
    same &= (old.lo[one] == new.lo[other]).all(axis=1) & (old.hi[one] == new.hi[other]).all(axis=1)
    successor: dict[int, int] = dict(zip(one[same].tolist(), other[same].tolist(), strict=True))
    taken = set(successor.values())
    untouched = set(taken)
    sharing = list(zip(one[~same].tolist(), other[~same].tolist(), strict=True))
    for names in _names(old, new, successor, taken):
        of_old = {i: name for i, name in names[0].items() if i not in successor}
        of_new = {j: name for j, name in names[1].items() if j not in taken}
        alike = ((i, j) for i, j in sharing if i in of_old and j in of_new and of_old[i] == of_new[j])
        for i, j in alike:
            if i not in successor and j not in taken:
                successor[i] = j
                taken.add(j)
        for i, j in _in_order(of_old, of_new, successor, taken):
            successor[i] = j
            taken.add(j)
    return successor, untouched


Names = dict[int, Hashable]
"""Groups by number, with what two of them must have in common for one to succeed the other."""


def _names(
    old: RegionGroups, new: RegionGroups, successor: Mapping[int, int], taken: Set[int]
) -> Iterator[tuple[Names, Names]]:
    """The names by which old and new groups are compared, the best first: box and values; the box; nothing."""
    left = [i for i in range(len(old.sizes)) if i not in successor]
    free = [j for j in range(len(new.sizes)) if j not in taken]
    old_box, new_box = {i: old.box(i) for i in left}, {j: new.box(j) for j in free}
    both = set(old_box.values()) & set(new_box.values())  # most boxes are another group's nowhere
    old_box = {i: box for i, box in old_box.items() if box in both}
    new_box = {j: box for j, box in new_box.items() if box in both}
    yield (
        {i: (box, old.values_of(i).tobytes()) for i, box in old_box.items()},
        {j: (box, new.values_of(j).tobytes()) for j, box in new_box.items()},
    )
    yield dict(old_box), dict(new_box)
    yield dict.fromkeys(left), dict.fromkeys(free)


def _in_order(
    of_old: Mapping[int, Hashable], of_new: Mapping[int, Hashable], successor: Mapping[int, int], taken: Set[int]
) -> list[tuple[int, int]]:
    """Pairs of an old and a new group of one name that have no partner yet, in their order."""
    waiting: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for j, name in of_new.items():
        if j not in taken:
            waiting[name].append(j)
    free = ((i, waiting[name]) for i, name in of_old.items() if i not in successor and name in waiting)
    return [(i, others.popleft()) for i, others in free if others]


STRIDE = (5**0.5 - 1) / 2
"""Multiples of the golden ratio, modulo 1, never come close to an earlier one (Weyl 1916)."""

SLACK = 1 / 6
"""Share of the rows by which a cut may miss what `turn` asks for."""


def cut_regions(lo: Ints, hi: Ints, sizes: Ints, rows_max: int, turn: int) -> list[Ints]:
    """QI groups in regions of at most rows_max rows; each an int64 array of group numbers 0..g-1, ascending.

    lo, hi: (g, d) int64, boxes in cells; sizes: (g,) int64, rows. One region if everything fits.
    """
    everything = np.arange(len(sizes))
    if sizes.sum() <= rows_max:
        return [everything] if len(sizes) else []
    large = sizes > rows_max
    share = (1 + turn * STRIDE % 1) / 3
    regions: list[Ints] = []
    waiting = [everything[~large]]
    while waiting:
        some = waiting.pop()
        if sizes[some].sum() > rows_max:
            waiting += _halves(some, lo[some], hi[some], sizes[some], share)
        elif len(some):
            regions.append(np.sort(some))
    return regions + [everything[i : i + 1] for i in np.flatnonzero(large).tolist()]


def _halves(some: Ints, lo: Ints, hi: Ints, sizes: Ints, share: float) -> tuple[Ints, Ints]:
    """Cuts two QI groups or more in two halves; the upper one first, each ordered by number."""
    cuts = [_cut_along(lo[:, j], hi[:, j], sizes, share) for j in range(lo.shape[1])]
    _, below, order = min(cuts, key=lambda cut: cut[0])
    return np.sort(some[order[below:]]), np.sort(some[order[:below]])


def _cut_along(lo: Ints, hi: Ints, sizes: Ints, share: float) -> tuple[int, int, Ints]:
    """The best cut along one attribute: rows whose boxes cross it, groups below it, order of all groups (g,)."""
    order = np.argsort(lo + hi, kind="stable")
    twice = (lo + hi)[order]
    border = twice[:-1] + twice[1:]  # four times its position, a whole number
    over = _rows_until(4 * lo, sizes, border + 1) - _rows_until(4 * hi, sizes, border)
    below = np.cumsum(sizes[order])[:-1]
    off = np.abs(below - share * sizes.sum())
    allowed = np.flatnonzero(off <= max(off.min(), SLACK * sizes.sum()))
    best = int(allowed[np.argmin(over[allowed])])
    return int(over[best]), best + 1, order


def _rows_until(ends: Ints, sizes: Ints, border: Ints) -> Ints:
    """Rows of the groups that end below each border."""
    order = np.argsort(ends)
    rows = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes[order])])
    found: Ints = rows[np.searchsorted(ends[order], border)]
    return found


NOWHERE = -1
"""In place of a group whose box could be smaller."""


@dataclass(frozen=True, slots=True)
class Region:
    """Some QI groups as they are now."""

    numbers: tuple[int, ...]  # ascending
    rows: EncodedRows = field(repr=False)  # all their rows
    ncp: float  # NCP times rows, summed
    published_ncp: float  # the same, withheld rows as the others on average
    stamp: bytes = field(repr=False)
    standing: Ints = field(repr=False)  # (n,): of each row's group the index in `numbers`, or NOWHERE


@dataclass(frozen=True, slots=True)
class Replaced:
    """The outcome of a replacement, as the form `rows` publishes it; other forms publish other records of it."""

    groups_before: int
    groups_now: int
    kept: int  # groups in which readers see nothing new
    rows_published_again: int  # upserts
    ncp_before: float
    ncp_now: float
    rows: int


class _Now:
    """A region in the core's arrays: indexes of its groups (g,); of its rows indexes (n,) and groups (n,)."""

    def __init__(self, rows: Rows, core: CoreArrays, numbers: Sequence[int]) -> None:
        s = core.arrays
        group, living = _living(core)
        self.indexes: Ints = living[np.isin(group["number"][living], np.array(numbers, dtype=np.int64))]
        self.numbers: Ints = group["number"][self.indexes]
        sizes = group["members"][self.indexes].astype(np.int64)
        of_row = np.repeat(np.arange(len(sizes)), sizes)
        within = np.arange(len(of_row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        members = s.groups.pool[0, group["block"][self.indexes][of_row] + within].astype(np.int64)
        order = np.argsort(rows.in_core["tie_hash"][members], kind="stable")
        self.rows, self.of_row = members[order], of_row[order]
        self.cells, self.values = s.rows.cells[self.rows], rows.in_core["values"][self.rows].astype(np.int64)
        self.lo, self.hi = (s.groups.box[self.indexes, side].astype(np.int64) for side in (LO, HI))
        self.pool, self.blocks, self.sizes = s.groups.pool[1], group["block"][self.indexes], sizes

    def slots(self, i: int) -> list[int]:
        """Numbers of the values by slot of one of the groups."""
        found: list[int] = self.pool[self.blocks[i] : self.blocks[i] + self.sizes[i]].tolist()
        return found


def _living(core: CoreArrays) -> tuple[Any, Ints]:
    """The core's records of QI groups, and the indexes of those that are there, by number."""
    group = core.arrays.groups.group.view(np.ndarray)[: core.field("groups_used")]
    alive = np.flatnonzero(group["alive"])
    return group, alive[np.argsort(group["number"][alive])]


def boxes_of(core: CoreArrays) -> tuple[Ints, Ints, Ints, Ints]:
    """All QI groups by number: numbers (g,), boxes (g, d) and (g, d) in cells, rows (g,); int64."""
    group, indexes = _living(core)
    lo, hi = (core.arrays.groups.box[indexes, side].astype(np.int64) for side in (LO, HI))
    return group["number"][indexes], lo, hi, group["members"][indexes].astype(np.int64)


def published_by(space: Space, core: CoreArrays) -> tuple[int, float]:
    """The rows of all QI groups that are published, and their NCP, summed."""
    used = core.field("groups_used")
    group, box = core.arrays.groups.group.view(np.ndarray)[:used], core.arrays.groups.box[:used]
    rows = group["members"] * group["alive"]
    if space.is_bounded:
        rows = np.where(
            space.too_wide(box[:, LO] * group["alive"][:, None], box[:, HI] * group["alive"][:, None]), 0, rows
        )
    return int(rows.sum()), float((group["ncp"] * rows).sum())


def region_of(table: Table, rows: Rows, core: CoreArrays, numbers: Sequence[int]) -> Region:
    """The QI groups of these numbers, without those that are gone."""
    return _region(table, rows, _Now(rows, core, numbers))


def _region(table: Table, rows: Rows, now: _Now) -> Region:
    encoded = rows.encoded(now.rows)
    loss = float((now.sizes * table.space.ncp(now.lo, now.hi)).sum())
    stamp = blake2b(now.numbers[now.of_row].tobytes(), digest_size=16)
    stamp.update(now.cells.tobytes())
    stamp.update(msgspec.msgpack.encode((encoded.source_keys, encoded.values, encoded.individuals)))
    lo, hi = table.space.generalize(*_hulls(now.cells, now.of_row, now.sizes))
    smallest = (lo == now.lo).all(axis=1) & (hi == now.hi).all(axis=1)
    standing = np.where(smallest[now.of_row], now.of_row, NOWHERE)
    published = table.space.published_loss(now.lo, now.hi, now.sizes)
    return Region(tuple(now.numbers.tolist()), encoded, loss, published, stamp.digest(), standing)


def _hulls(cells: Ints, of_row: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Lowest and highest cells of g groups (g, d), none of them empty; cells (n, d), of_row (n,), sizes (g,)."""
    if not len(sizes):
        empty = np.zeros((0, cells.shape[1]), dtype=np.int64)
        return empty, empty.copy()
    there, begins = cells[np.argsort(of_row, kind="stable")].astype(np.int64), np.cumsum(sizes) - sizes
    return np.minimum.reduceat(there, begins, axis=0), np.maximum.reduceat(there, begins, axis=0)


def replacement(
    table: Table, rows: Rows, core: CoreArrays, region: Region, groups: Sequence[Ints]
) -> tuple[Records, Replaced] | None:
    """The operations that replace a region's QI groups by others, and what they do; None if it has changed.

    groups: arrays of row numbers into `region.rows`. Raises LawViolated if they are not all of these rows, once each,
    or one does not hold the model.
    """
    now = _Now(rows, core, region.numbers)
    if _region(table, rows, now).stamp != region.stamp:
        return None
    label = _labels(groups, len(now.rows))
    microdata, model = microdata_of(table, region.rows), model_of(table)
    holds = model.holds_by_group(label, len(groups), microdata.subjects(model.subjects))
    if not holds.all():
        raise LawViolated(f"rebuild: {int((~holds).sum())} of {len(groups)} QI groups do not hold the privacy model")
    old = _grouped(table, now, now.of_row, len(now.indexes), (now.lo, now.hi))
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


def _grouped(table: Table, now: _Now, of_row: Ints, n_groups: int, boxes: tuple[Ints, Ints] | None) -> RegionGroups:
    """Rows in groups, none of them empty; boxes: the groups' own, or the smallest there are."""
    order = np.lexsort((now.values, of_row))
    sizes = np.bincount(of_row, minlength=n_groups)
    ends = np.cumsum(sizes)
    if boxes is None:
        boxes = table.space.generalize(*_hulls(now.cells, of_row, sizes))
    members = np.argsort(of_row, kind="stable")
    return RegionGroups(of_row, sizes, *boxes, table.space, members, now.values[order], ends)


class _Plan:
    """The numbers of the new groups, and what readers see of them."""

    def __init__(self, rows: Rows, now: _Now, old: RegionGroups, new: RegionGroups) -> None:
        self._rows, self._now, self._old, self._new = rows, now, old, new
        self._successor, self._untouched = successors(old, new)
        self._kept = len(self._untouched)
        self._again = 0

    def operations(self) -> tuple[Records, Replaced]:
        """GATHER of every row of a group that changes, its FORM or REFORM, then RETIRE of the groups left over."""
        old, new = self._old, self._new
        predecessor = {j: i for i, j in self._successor.items()}
        made = [j for j in range(len(new.sizes)) if j not in self._untouched]
        parts = [part for j in made for part in self._made(j, predecessor.get(j))]
        gone = [i for i in range(len(old.sizes)) if i not in self._successor]
        parts.append(_operations(len(gone), layout.RETIRE, self._now.indexes[gone]))
        operations = records(sum(len(part) for part in parts), layout.OPERATION)
        operations.kind, operations.index, operations.values = np.concatenate(parts).T
        operations.who, operations.ends[-1:] = NONE, 1
        sizes, rows = (len(old.sizes), len(new.sizes)), len(old.of_row)
        return operations, Replaced(*sizes, self._kept, self._again, old.loss, new.loss, rows)

    def _made(self, j: int, i: int | None) -> list[Ints]:
        """Operations for one of the new groups, which takes the number of the old group i, if there is one."""
        members = self._new.members_of(j)
        rows, n = self._now.rows[members], len(members)
        if i is None:
            self._again += n
            return [_operations(n, layout.GATHER, rows), _operations(1, layout.FORM, NONE)]
        if self._old.box(i) != self._new.box(j):
            self._again += n
            return [_operations(n, layout.GATHER, rows), _operations(1, layout.REFORM, self._now.indexes[i])]
        before = self._now.slots(i)
        slots = self._slots(before, self._new.values_of(j).tolist())
        again = sum(a != b for a, b in zip(before, slots, strict=False)) + max(0, n - len(before))
        self._again += again
        self._kept += again == 0 and n == len(before)
        return [_operations(n, layout.GATHER, rows, slots), _operations(1, layout.REFORM, self._now.indexes[i], 1)]

    def _slots(self, before: Sequence[int], values: Sequence[int]) -> list[int]:
        """Values by slot: those that stay keep theirs, the others follow by their texts."""
        left = Counter(values)
        slots: list[int | None] = [None] * len(values)
        for slot, number in enumerate(before[: len(values)]):
            if left[number]:
                left[number] -= 1
                slots[slot] = number
        text = self._rows.values.things.__getitem__
        others = iter(sorted(left.elements(), key=lambda number: text(number) or ()))
        return [next(others) if number is None else number for number in slots]


def renewal(core: CoreArrays) -> Records:
    """RENEW of every QI group, by number: one event."""
    _, indexes = _living(core)
    operations = records(len(indexes), layout.OPERATION)
    operations.kind, operations.index, operations.ends[-1:] = layout.RENEW, indexes, 1
    return operations


def _operations(n: int, kind: int, indexes: Ints | int, values: Sequence[int] | int = 0) -> Ints:
    """n operations of one kind: kind, index and values of each, (n, 3)."""
    operations = np.empty((n, 3), dtype=np.int64)
    operations[:, 0], operations[:, 1], operations[:, 2] = kind, indexes, values
    return operations
