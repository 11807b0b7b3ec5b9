"""The engine's brute-force twin: the same rules, written a second time in plain Python, scanning every QI group.

No numpy, no index, no journal, no batches: sets and loops over the definitions (Song et al. 2009, definitions 6 and 7,
and the decisions where the paper is silent). It shares the table's description with the engine and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b
from math import ceil, inf, nextafter
from typing import Any

import msgspec
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import (
    Change,
    Delete,
    DeleteWhere,
    Insert,
    Modify,
    ModifyWhere,
    Remove,
    Truncate,
    Upsert,
)
from streamer.table.codes import Diversity
from streamer.table.row import Row
from streamer.table.schema import Table
from streamer.table.space import Space
from worlds.distributions import distributions_hold
from worlds.engine_tables import FoldedTable

Box = tuple[tuple[int, int], ...]


@dataclass
class TwinGroup:
    members: list[str]
    box: Box
    slots: list[tuple[bytes, ...]] = field(default_factory=list)


def shuffled(tie_hash: int, number: int, next_number: int) -> int:
    """A tie hash for the cut of the QI group `number`, as a signed number of 64 bits."""
    word, tie_hash = 2**64 - 1, tie_hash % 2**64
    for salt in (number, next_number):
        tie_hash = (tie_hash + salt * 0x9E3779B97F4A7C15) & word
        tie_hash = (tie_hash ^ tie_hash >> 30) * 0xBF58476D1CE4E5B9 & word
        tie_hash = (tie_hash ^ tie_hash >> 27) * 0x94D049BB133111EB & word
        tie_hash = tie_hash ^ tie_hash >> 31
    return tie_hash - 2**64 if tie_hash >= 2**63 else tie_hash


class Scan:
    """Definitions 6 and 7 of Song et al. 2009 and the tie rule, by a look at every QI group."""

    def __init__(self, space: Space) -> None:
        self.axes, self.weights = space.axes, space.weight.tolist()
        self.rounds = not all(float(end).is_integer() for end in space.end)
        self.groups: dict[int, Any] = {}
        """By number: first cells, last cells, size."""

    def place(self, number: int) -> tuple[Box, int]:
        """Box and size of a QI group."""
        lo, hi, size = self.groups[number]
        return tuple(zip(lo, hi, strict=True)), size

    def tie(self, number: int) -> tuple[float, int, int]:
        box, size = self.place(number)
        return self.ncp(box), size, number

    def locate(self, cells: Sequence[int]) -> int:
        holding = [n for n in self.groups if self.inside(self.place(n)[0], cells)]
        if holding:
            return min(holding, key=self.tie)
        return min(self.groups, key=lambda n: (-self.t_qgssd(cells, n), self.tie(n)))

    def nearest(self, number: int) -> tuple[int, float] | None:
        scores = {other: self.qgssd(number, other) for other in self.groups if other != number}
        if not scores:
            return None
        first = min(scores, key=lambda other: (-scores[other], self.tie(other)))
        return first, scores[first]

    def inside(self, box: Box, cells: Sequence[int]) -> bool:
        return all(lo <= cell <= hi for (lo, hi), cell in zip(box, cells, strict=True))

    def cover(self, j: int, lo: int, hi: int) -> tuple[int, int]:
        tree = self.axes[j].hierarchy
        if tree is None:
            return lo, hi
        nodes = [(a, b) for a, b in tree.interval_of.values() if a <= lo and hi <= b]
        return min(nodes, key=lambda node: node[1] - node[0])

    def edges(self, j: int, lo: int, hi: int) -> tuple[float, float]:
        """Ends of the published interval, in codes."""
        axis = self.axes[j]
        last = (hi + 1) * axis.codes_per_cell - axis.closed
        return float(lo * axis.codes_per_cell), min(float(last), axis.width_codes)

    def too_wide(self, j: int, lo: int, hi: int) -> bool:
        """Whether `coarsest` forbids it: too many cells, or leaves of two nodes of the highest level."""
        axis = self.axes[j]
        if axis.hierarchy is None or axis.level_max is None:
            return hi - lo + 1 > axis.cells_max
        return len(set(axis.hierarchy.levels[axis.level_max, lo : hi + 1].tolist())) > 1

    def ncp(self, box: Box) -> float:
        total = 0.0
        for j, (lo, hi) in enumerate(box):
            width = self.axes[j].width_codes / self.weights[j]
            if self.axes[j].hierarchy is not None:
                term = 0.0 if lo == hi else (hi - lo + 1) / width
            else:
                first, last = self.edges(j, lo, hi)
                term = (last - first) / width if width else 0.0
            total += term + (len(self.axes) + 1) if self.too_wide(j, lo, hi) else term
        return min(total, float(len(self.axes) + 1))  # who is withheld loses everything, and no more

    def t_qgssd(self, cells: Sequence[int], number: int) -> float:
        """A number stands in the middle of what its cell publishes."""
        total = 0.0
        for j, ((lo, hi), cell) in enumerate(zip(self.place(number)[0], cells, strict=True)):
            if lo <= cell <= hi:
                total += self.weights[j]
            elif self.axes[j].hierarchy is not None:
                wide = self.cover(j, min(lo, cell), max(hi, cell))
                total += self.weights[j] * ((hi - lo + 1) / (wide[1] - wide[0] + 1))
            else:
                first, last = self.edges(j, lo, hi)
                center = (first + last) / 2
                half = max(last - center, center - first, 0.5)
                total += self.weights[j] * (half / abs(sum(self.edges(j, cell, cell)) / 2 - center))
        return total

    def adds(self, one: int, other: int) -> float:
        """What another QI group adds to one: widths of a box around both, less half its own, in domains."""
        total, sides = 0.0, zip(self.place(one)[0], self.place(other)[0], strict=True)
        for j, ((lo1, hi1), (lo2, hi2)) in enumerate(sides):
            width = self.axes[j].width_codes / self.weights[j]
            per = 1 / width if width else 0.0
            if self.axes[j].hierarchy is not None:
                wide = self.cover(j, min(lo1, lo2), max(hi1, hi2))
                total += (wide[1] - wide[0] + 1 - 0.5 * (hi2 - lo2 + 1)) * per
            else:
                own, (first, last) = self.half_width(j, lo2, hi2), self.around(j, lo2, hi2)
                center, half = self.center(j, lo1, hi1), self.half_width(j, lo1, hi1)
                total += (max(center + half, last) - min(center - half, first) - own) * per
        return total

    def center(self, j: int, lo: int, hi: int) -> float:
        return sum(self.edges(j, lo, hi)) / 2

    def half_width(self, j: int, lo: int, hi: int) -> float:
        """Of a number's interval in codes, which is one code wide at least."""
        (first, last), center = self.edges(j, lo, hi), self.center(j, lo, hi)
        return max(last - center, center - first, 0.5)

    def around(self, j: int, lo: int, hi: int) -> tuple[float, float]:
        """Ends of a number's interval; outwards if sums may round."""
        center, half = self.center(j, lo, hi), self.half_width(j, lo, hi)
        ends = center - half, center + half
        return (nextafter(ends[0], -inf), nextafter(ends[1], inf)) if self.rounds else ends

    def neighbours(self, number: int) -> list[int]:
        """All other groups, those first that add least."""
        others = (other for other in self.groups if other != number)
        return sorted(others, key=lambda other: (self.adds(number, other), self.tie(other)))

    def qgssd(self, one: int, other: int) -> float:
        total, sides = 0.0, zip(self.place(one)[0], self.place(other)[0], strict=True)
        for j, ((lo1, hi1), (lo2, hi2)) in enumerate(sides):
            if self.axes[j].hierarchy is not None:
                wide = self.cover(j, min(lo1, lo2), max(hi1, hi2))
                apart = (wide[1] - wide[0] + 1) - ((hi1 - lo1 + 1) + (hi2 - lo2 + 1)) / 2
            else:
                apart = abs(sum(self.edges(j, lo1, hi1)) / 2 - sum(self.edges(j, lo2, hi2)) / 2)
            total += self.weights[j] * (1 / max(apart / self.axes[j].unit_codes, 0.5))
        return total


class Twin(Scan):
    """The k-anonymous table of one shard, the slow way."""

    def __init__(self, table: Table, secret: bytes = b"") -> None:
        super().__init__(table.space)
        self.table = table
        self.secret = secret
        self.rows: dict[str, Row] = {}
        self.group_of: dict[str, int] = {}
        self.next_number = 1
        self.box_event: set[int] = set()
        self.repaired: Counter[str] = Counter()

    def place(self, number: int) -> tuple[Box, int]:
        return self.groups[number].box, len(self.groups[number].members)

    def box(self, keys: list[str]) -> Box:
        box = []
        for j in range(len(self.table.attributes)):
            cells = [self.cells(key)[j] for key in keys]
            box.append(self.cover(j, min(cells), max(cells)))
        return tuple(box)

    def tie_hash(self, key: str) -> int:
        return int.from_bytes(blake2b(key.encode(), key=self.secret, digest_size=8).digest(), "little", signed=True)

    def lot_in_cut(self, key: str, number: int) -> int:
        """Lots are shuffled for every cut."""
        return shuffled(self.tie_hash(key), number, self.next_number)

    def cells(self, key: str) -> tuple[int, ...]:
        return self.cells_of(self.rows[key])

    def cells_of(self, row: Row) -> tuple[int, ...]:
        return tuple(code // axis.codes_per_cell for axis, code in zip(self.axes, row.codes, strict=True))

    # -- the privacy model, by its definitions --------------------------------------------------------------------

    def count(self, keys: list[str]) -> int:
        return len(keys) if self.table.individual is None else len({self.rows[key].individual for key in keys})

    @property
    def k(self) -> int:
        """How many a QI group has at least; a share of the rows that each of them may be asks for some as well."""
        alpha = None if self.table.individual else self.table.diversity.alpha
        return max(self.table.k, ceil(1 / Fraction(alpha or 1)))

    @property
    def asks_more_than_k(self) -> bool:
        """Whether a row that stays where it is can change what its group may do, by another value."""
        by_individuals = self.table.diversity.alpha is not None and self.table.individual is not None
        of_values = [limit for i in self.table.sensitive for one in self.asked(i) for limit in (one.l, one.beta, one.r)]
        distributed = any(column.distribution is not None for column in self.table.kept)
        return by_individuals or distributed or any(limit is not None for limit in of_values)

    def asked(self, i: int) -> list[Diversity]:
        """What is demanded of a column: of all of them, and of it alone."""
        return [one for one in (self.table.diversity, self.table.kept[i].diversity) if one is not None]

    def holds(self, keys: list[str]) -> bool:
        """Whether these rows may be a QI group: k, (alpha, beta), l distinct values, (r, k)."""
        asked = self.table.diversity
        if self.count(keys) < self.table.k:
            return False
        owners = keys if self.table.individual is None else [self.rows[key].individual for key in keys]
        if self.largest_share(owners) > Fraction(asked.alpha or 1):
            return False
        for i in self.table.sensitive:
            values = [self.rows[key].values[i] for key in keys]
            if not all(self.values_hold(values, i, one) for one in self.asked(i)):
                return False
            if not distributions_hold(self.table, i, values):
                return False
        return True

    def values_hold(self, values: list[bytes], i: int, asked: Diversity) -> bool:
        distinct = {value for value in values if value != b"null" or asked.null_counts}
        if len(distinct) < (asked.l or 0) or self.largest_share(values) > Fraction(asked.beta or 1):
            return False
        close = [self.ancestor(value, i, asked.level) for value in values]
        return asked.r is None or self.largest_share(close) <= Fraction(asked.r)

    def largest_share(self, things: list[Any]) -> Fraction:
        return Fraction(max(Counter(things).values()), len(things))

    def ancestor(self, value: bytes, i: int, level: int) -> Any:
        """The label above a value at a level; a null is its own."""
        tree, label = self.table.kept[i].hierarchy, msgspec.json.decode(value)
        if label is None or tree is None:
            return None
        return int(tree.levels[level][tree.code_of[label]])

    def price_now(self) -> float:
        """What a row published again has to save: stated, or a share of what a row in a group loses."""
        if not self.table.repair.share:
            return self.table.repair.price
        losses = map(self.counted_loss, self.groups)
        rows = sum(len(group.members) for group in self.groups.values())
        return self.table.repair.share * float(sum(losses)) / (2.0**24 * max(1, rows))

    def counted_loss(self, number: int) -> int:
        """Of all rows of a group, in units; none if it is withheld, as its width is no measure of what is lost."""
        group = self.groups[number]
        return 0 if self.is_withheld(number) else len(group.members) * int(self.ncp(group.box) * 2**24 + 0.5)

    def is_withheld(self, number: int) -> bool:
        return any(self.too_wide(j, lo, hi) for j, (lo, hi) in enumerate(self.groups[number].box))

    # -- changes --------------------------------------------------------------------------------------------------

    def apply(self, change: Change) -> None:
        self.price = self.price_now()
        match change:
            case Insert():
                if change.source_key in self.rows:
                    raise EventRefused("key-exists", "")
                self.insert(change.source_key, change.row)
            case Delete():
                self.known(change.source_key)
                self.delete([change.source_key])
            case Remove():
                if change.source_key in self.rows:
                    self.delete([change.source_key])
            case Modify():
                self.known(change.source_key)
                row = self.rows[change.source_key]
                if change.individual is not None and change.individual != row.individual:
                    raise EventRefused("individual-changed", "")
                codes = tuple(change.codes.get(j, code) for j, code in enumerate(row.codes))
                values = tuple(change.values.get(i, value) for i, value in enumerate(row.values))
                exact = tuple(change.exact.get(j, t) for j, t in zip(self.table.stepless, row.exact, strict=True))
                self.modify([(change.source_key, Row(codes, values, exact, row.individual))])
            case Upsert():
                if change.former_key not in (None, change.source_key) and change.former_key in self.rows:
                    self.delete([change.former_key])
                old = self.rows.get(change.source_key)
                if old is not None and old.individual != change.row.individual:
                    self.delete([change.source_key])
                    old = None
                if old is None:
                    self.insert(change.source_key, change.row)
                else:
                    self.modify([(change.source_key, change.row)])
            case DeleteWhere():
                self.delete(self.selected(change.condition))
            case ModifyWhere():
                changed = []
                for key in self.selected(change.condition):
                    try:
                        changed.append((key, change.assignments.applied_to(self.rows[key])))
                    except EventRefused:
                        continue
                self.modify(changed)
            case Truncate():
                self.delete(list(self.rows))

    def known(self, key: str) -> None:
        if key not in self.rows:
            raise EventRefused("key-unknown", "")

    def selected(self, condition: Any) -> list[str]:
        return sorted((key for key, row in self.rows.items() if condition(row)), key=self.tie_hash)

    def insert(self, key: str, row: Row) -> None:
        self.rows[key] = row
        if not self.groups:
            self.group_of[key] = 0
            self.repair(set(), set())
            return
        self.repair({self.join(key)}, set())

    def join(self, key: str) -> int:
        number = self.locate(self.cells(key))
        self.join_group(key, number)
        return number

    def join_group(self, key: str, number: int) -> None:
        group = self.groups[number]
        group.members.append(key)
        group.slots.append(self.rows[key].values)
        self.group_of[key] = number
        self.set_box(number, self.grow(group.box, self.cells(key)))

    def grow(self, box: Box, cells: tuple[int, ...]) -> Box:
        ends = zip(box, cells, strict=True)
        return tuple(self.cover(j, min(lo, cell), max(hi, cell)) for j, ((lo, hi), cell) in enumerate(ends))

    def set_box(self, number: int, box: Box) -> None:
        """A group whose box changes is published as a whole: `box_event` until the event ends."""
        if self.groups[number].box != box:
            self.groups[number].box = box
            self.box_event.add(number)

    def leave(self, key: str) -> int:
        number = self.group_of[key]
        if number:
            group = self.groups[number]
            group.members.remove(key)
            slot = max(i for i, values in enumerate(group.slots) if values == self.rows[key].values)
            group.slots[slot] = group.slots[-1]
            group.slots.pop()
        self.group_of[key] = 0
        return number

    def delete(self, keys: list[str]) -> None:
        lost = set()
        for key in keys:
            lost.add(self.leave(key))
            del self.rows[key], self.group_of[key]
        lost.discard(0)
        if self.table.shrink:
            self.shrink(lost)
        self.repair(set(), lost)

    def modify(self, changed: list[tuple[str, Row]]) -> None:
        gained, lost, recounted = set(), set(), set()
        for key, row in changed:
            old, number, before = self.rows[key], self.group_of[key], self.cells(key)
            if number == 0:
                self.rows[key] = row
                continue
            group = self.groups[number]
            if self.inside(group.box, self.cells_of(row)):
                self.rows[key] = row
                if row.values != old.values:
                    group.slots[max(i for i, values in enumerate(group.slots) if values == old.values)] = row.values
                    recounted |= {number} if self.asks_more_than_k else set()
                if self.cells(key) != before:
                    lost.add(number)
            else:
                self.leave(key)
                lost.add(number)
                self.rows[key] = row
                gained.add(self.join(key))
        self.shrink(lost)
        self.repair(gained, lost | recounted)

    def shrink(self, numbers: set[int]) -> None:
        for number in numbers:
            if self.groups[number].members:
                self.set_box(number, self.box(self.groups[number].members))

    # -- repairs --------------------------------------------------------------------------------------------------

    def form(self, number: int, members: list[str]) -> None:
        self.groups[number] = TwinGroup(members, self.box(members), sorted(self.rows[key].values for key in members))
        self.box_event.add(number)
        for key in members:
            self.group_of[key] = number

    def new_number(self) -> int:
        self.next_number += 1
        return self.next_number - 1

    def repair(self, gained: set[int], lost: set[int]) -> None:
        k, to_cut, freed, touched = self.k, set(gained), [], gained | lost
        for number in lost:
            if not self.groups[number].members:
                del self.groups[number]
        while broken := sorted(n for n, group in self.groups.items() if not self.holds(group.members)):
            number = broken[0]
            if len(self.groups) == 1:
                for key in self.groups.pop(number).members:
                    self.group_of[key] = 0
                break
            if self.table.repair and (donor := adopt(self, number)):
                self.repaired["adopt"] += 1
                touched |= {number, donor}
                to_cut.add(number)
                continue
            partner, _ = self.nearest(number) or (0, 0.0)
            small, large = sorted((number, partner), key=lambda n: (len(self.groups[n].members), -n))
            members = self.groups[large].members + self.groups.pop(small).members
            freed.append(small)
            self.form(large, members)
            to_cut -= {small, large}
            touched.add(large)
            if self.table.recut:
                to_cut.add(large)
        waiting = [key for key, number in self.group_of.items() if number == 0]
        if not self.groups and waiting and self.holds(waiting):
            number = self.new_number()
            self.form(number, waiting)
            to_cut.add(number)
            touched.add(number)
        self.cut_all(to_cut, freed, touched)
        spent = 0
        while self.table.repair and spent < SPENT_PER_K * k and (touched := touched & self.groups.keys()):
            move = improve(self, min(touched))
            if move is None:
                touched.remove(min(touched))
                continue
            spent += move.spent
            freed += move.freed
            touched |= move.received
            self.cut_all(move.received, freed, touched)
        self.box_event = set()

    def cut_all(self, to_cut: set[int], freed: list[int], touched: set[int]) -> None:
        k = self.k
        while to_cut := {n for n in to_cut if n in self.groups and self.count(self.groups[n].members) >= 2 * k}:
            number = min(to_cut)
            to_cut.discard(number)
            halves = self.cut(number)
            if halves is None:
                continue
            kept, given = halves
            fresh = min(freed) if freed else self.new_number()
            if fresh in freed:
                freed.remove(fresh)
            self.form(number, kept)
            self.form(fresh, given)
            to_cut |= {number, fresh}
            touched |= {number, fresh}

    def cut(self, number: int) -> tuple[list[str], list[str]] | None:
        """The halves of the cut of least total NCP among the candidates, first what keeps the number.

        Of equal loss: the nearest to the middle, then the earlier attribute, then the lower position.
        """
        return self.cut_of(self.groups[number].members, number)

    def cut_of(
        self, members: list[str], number: int, lower_least: int = 1, upper_least: int = 1
    ) -> tuple[list[str], list[str]] | None:
        """The same of any rows, their tie hashes shuffled as for a group; with so many rows in the halves at least."""
        tie_hashes = {key: self.lot_in_cut(key, number) for key in members}
        n, found = len(members), []
        for j in range(len(self.table.attributes)):
            along = sorted(members, key=lambda key: self.place_along(j, key, tie_hashes))
            for position in range(lower_least, n - upper_least + 1):
                if self.may_cut(lower := along[:position], upper := along[position:]):
                    found.append((j, position, lower, upper))
        if n >= 4 * self.k:
            found = [cut for cut in found if n / 4 <= cut[1] <= 3 * n / 4] or found
        if not found:
            return None
        _, _, lower, upper = min(found, key=lambda cut: (self.loss(*cut[2:]), abs(2 * cut[1] - n), cut[:2]))
        stays, goes = sorted((lower, upper), key=lambda half: (-len(half), min(tie_hashes[key] for key in half)))
        return stays, goes

    def may_cut(self, lower: list[str], upper: list[str]) -> bool:
        """Both halves hold the model, and no one's records in the same cells fall apart."""
        if not (self.holds(lower) and self.holds(upper)):
            return False
        return self.table.individual is None or not self.tears(lower[-1], upper[0])

    def loss(self, lower: list[str], upper: list[str]) -> float:
        return len(lower) * self.ncp(self.box(lower)) + len(upper) * self.ncp(self.box(upper))

    def place_along(self, j: int, key: str, tie_hashes: dict[str, int]) -> tuple:
        cells, tie_hash = self.cells(key), tie_hashes[key]
        others = tuple(cell for i, cell in enumerate(cells) if i != j)
        if self.table.individual is None:
            return (cells[j], *others, tie_hash)
        return (
            cells[j],
            *others,
            min(tie_hashes[other] for other in tie_hashes if not self.differ(key, other)),
            tie_hash,
        )

    def differ(self, one: str, other: str) -> bool:
        same_person = self.rows[one].individual == self.rows[other].individual
        return not same_person or self.cells(one) != self.cells(other)

    def tears(self, one: str, other: str) -> bool:
        return not self.differ(one, other)


# -- local repair: every row of every group is tried against every other group -----------------------------------------

NEAREST, ROWS_AT_MOST, SPENT_PER_K = 16, 64, 16
NEIGHBOURS, ROWS_TOGETHER = 3, 256
LEAST_LOSS, MOST_TOGETHER = 0.75, 2

INFINITY = float("inf")


@dataclass
class Move:
    spent: int
    received: set[int]
    freed: list[int]


def again(twin: Twin, number: int, rows: int) -> int:
    """Rows that are published again: none more where all of them are, or none is."""
    return 0 if number in twin.box_event or twin.is_withheld(number) else rows


def move_cost(twin: Twin, key: str, number: int) -> float:
    """What it costs that a row joins a group."""
    group = twin.groups[number]
    n, box = len(group.members), twin.grow(group.box, twin.cells(key))
    if box == group.box:
        return twin.ncp(box) + twin.price * again(twin, number, 1)
    return (n + 1) * twin.ncp(box) - n * twin.ncp(group.box) + twin.price * again(twin, number, n + 1)


def ncp_without(twin: Twin, key: str, number: int) -> float:
    return twin.ncp(twin.box([other for other in twin.groups[number].members if other != key]))


def holds_without(twin: Twin, key: str, number: int) -> bool:
    """Whatever individual goes with the row, one less is asked for."""
    members = twin.groups[number].members
    return twin.count(members) > twin.table.k and twin.holds([other for other in members if other != key])


def can_lose(twin: Twin, key: str, number: int) -> bool:
    members = twin.groups[number].members
    if twin.table.individual is not None:
        who = twin.rows[key].individual
        if sum(twin.rows[other].individual == who for other in members) > 1:
            return False
    return holds_without(twin, key, number)


def can_take(twin: Twin, keys: list[str], number: int) -> bool:
    return twin.holds([*twin.groups[number].members, *keys])


def cheapest_group(twin: Twin, key: str, number: int) -> tuple[float, int] | None:
    """The least cost in another group that is not withheld and can take the row, and that group."""
    others = [
        other for other in twin.groups
        if other != number and not twin.is_withheld(other) and can_take(twin, [key], other)
    ]  # fmt: skip
    if not others:
        return None
    best = min(others, key=lambda other: (move_cost(twin, key, other), *twin.tie(other)))
    return move_cost(twin, key, best), best


def order(twin: Twin, key: str, number: int) -> tuple[Any, ...]:
    return twin.cells(key), twin.lot_in_cut(key, number)


def move(twin: Twin, key: str, to: int) -> None:
    twin.leave(key)
    twin.join_group(key, to)


def adopt(twin: Twin, number: int) -> int | None:
    """A group that does not hold takes the row that it is short of from one of the nearest; the group that gave it."""
    price, found = twin.price, []
    for index, other in enumerate(twin.neighbours(number)[:NEAREST]):
        group = twin.groups[other]
        n = len(group.members)
        for key in group.members:
            if can_take(twin, [key], number) and can_lose(twin, key, other):
                ncp, now = twin.ncp(group.box), ncp_without(twin, key, other)
                loses = (n - 1) * now - n * ncp + price * again(twin, other, 2 if now == ncp else n)
                cost = loses + move_cost(twin, key, number)
                found.append((cost, index, order(twin, key, other), key, other))
    if not found:
        return None
    *_, key, other = min(found)
    move(twin, key, number)
    twin.set_box(other, twin.box(twin.groups[other].members))
    return other


def improve(twin: Twin, number: int) -> Move | None:
    """What local repair does to one of the groups that an event has touched."""
    if len(twin.groups) == 1:
        return None
    for way in (evict, dissolve, recut_with_neighbours):
        if move := way(twin, number):
            twin.repaired[way.__name__] += 1
            return move
    return None


def evict(twin: Twin, number: int) -> Move | None:
    group, price, found = twin.groups[number], twin.price, []
    n, ncp = len(group.members), twin.ncp(group.box)
    rows = again(twin, number, n)
    for key in group.members:
        narrower = ncp_without(twin, key, number) < ncp or twin.is_withheld(number)
        leaves = can_lose(twin, key, number) and narrower
        if leaves and (taker := cheapest_group(twin, key, number)):
            cost, to = taker
            gain = n * ncp - (n - 1) * ncp_without(twin, key, number) - price * rows - cost
            if gain > 0:
                found.append((-gain, order(twin, key, number), key, to))
    if not found:
        return None
    *_, key, to = min(found)
    spent = 1 + rows + again(twin, to, len(twin.groups[to].members))
    move(twin, key, to)
    twin.set_box(number, twin.box(group.members))
    return Move(spent, {to}, [])


def dissolve(twin: Twin, number: int) -> Move | None:
    group, price = twin.groups[number], twin.price
    keys = sorted(group.members, key=lambda key: order(twin, key, number))
    if len(keys) > ROWS_AT_MOST or any(holds_without(twin, key, number) for key in keys):
        return None
    spent = again(twin, number, len(keys))
    gain = len(keys) * twin.ncp(group.box) - price * spent
    boxes: dict[int, Box] = {}
    came: dict[int, int] = {}
    ways = []
    for key in keys:
        if gain <= 0:
            return None
        cost, to = target_of(twin, key, number)
        if cost > gain:
            return None
        was, n = boxes.get(to, twin.groups[to].box), len(twin.groups[to].members) + came.get(to, 0)
        now = twin.grow(was, twin.cells(key))
        if to in came:
            rows = 1 if now == was or was != twin.groups[to].box else n + 1
            loss = twin.ncp(was) if now == was else (n + 1) * twin.ncp(now) - n * twin.ncp(was)
            cost = loss + price * again(twin, to, rows)
        gain -= cost
        boxes[to], came[to] = now, came.get(to, 0) + 1
        ways.append((key, to))
        spent += again(twin, to, len(twin.groups[to].members))
    if gain <= 0 or not all(can_take(twin, [key for key, at in ways if at == to], to) for to in came):
        return None
    for key, to in ways:
        move(twin, key, to)
    del twin.groups[number]
    return Move(1 + spent, set(came), [number])


def target_of(twin: Twin, key: str, number: int) -> tuple[float, int]:
    """The least cost of a row of a group that goes, and where; from a withheld group to the smallest other one, too."""
    cost, to = cheapest_group(twin, key, number) or (INFINITY, 0)
    withheld = [other for other in twin.groups if other != number and twin.is_withheld(other)]
    if withheld and twin.is_withheld(number):
        aside = min(withheld, key=twin.tie)
        lost = twin.ncp(twin.groups[aside].box)
        if can_take(twin, [key], aside) and cost > lost:
            return lost, aside
    return cost, to


def recut_with_neighbours(twin: Twin, number: int) -> Move | None:
    """Two groups are cut in two, or, from 3k rows on, in three; three groups in four, from 4k rows on."""
    found: list[Any] = []
    losses = {n: twin.counted_loss(n) for n in twin.groups}
    if losses[number] < LEAST_LOSS * sum(losses.values()) / len(losses) and not twin.is_withheld(number):
        return None
    near = twin.neighbours(number)[:NEIGHBOURS]
    for a, one in enumerate(near):
        for others in ((one,), *((one, other) for other in near[:a])):
            numbers = sorted((number, *others), key=lambda n: (-len(twin.groups[n].members), n))
            groups = [twin.groups[n] for n in (number, *others)]
            together = [key for group in groups for key in group.members]
            rows = sum(again(twin, n, len(twin.groups[n].members)) for n in numbers)
            loss = 0.0
            for group in groups:
                loss += len(group.members) * twin.ncp(group.box)
            if len(groups) == 2 and len(together) * twin.ncp(twin.box(together)) > MOST_TOGETHER * loss:
                continue
            for least in least_rows(len(groups), len(together), twin.k):
                halves = twin.cut_of(together, number, *least) if len(together) <= ROWS_TOGETHER else None
                if halves is None:
                    continue
                if least == (1, 1):
                    lost = twin.loss(*halves)
                else:
                    lost = sum(loss_of_part(twin, part, n) for part, n in zip(halves, numbers[:2], strict=True))
                if loss - twin.price * rows - lost > 0:
                    found.append((-(loss - twin.price * rows - lost), len(found), numbers, halves, rows))
    if not found:
        return None
    _, _, numbers, halves, rows = min(found)
    twin.repaired[f"{len(numbers)} groups cut afresh"] += 1
    for n, half in zip(numbers[:2], halves, strict=True):
        twin.form(n, half)
    for gone in numbers[2:]:
        del twin.groups[gone]
    return Move(1 + rows, set(numbers[:2]), numbers[2:])


def least_rows(groups: int, rows: int, k: int) -> list[tuple[int, int]]:
    """The rows that the halves of each cut of these rows have at least."""
    if groups == 3:
        return [(2 * k, 2 * k)] if rows >= 4 * k else []
    return [(1, 1), (1, 2 * k), (2 * k, 1)] if rows >= 3 * k else [(1, 1)]


def loss_of_part(twin: Twin, rows: list[str], number: int) -> float:
    """What rows lose as a QI group of this number, which is cut again if that can be."""
    halves = twin.cut_of(rows, number) if len(rows) >= 2 * twin.k else None
    return len(rows) * twin.ncp(twin.box(rows)) if halves is None else twin.loss(*halves)


# -- the engine beside its twin ---------------------------------------------------------------------------------------

SECRETS = st.binary(min_size=16, max_size=16)


def refusal(apply: Callable[[Change], object], change: Change) -> str | None:
    try:
        apply(change)
    except EventRefused as error:
        return error.reason
    return None


def assert_same(engine: Engine, folded: FoldedTable, twin: Twin) -> None:
    assert dict(engine.index_table()) == twin.group_of
    assert {n: (g.lo, g.hi, g.slots) for n, g in folded.published.items()} == {
        n: (tuple(lo for lo, _ in g.box), tuple(hi for _, hi in g.box), tuple(g.slots)) for n, g in twin.groups.items()
    }
    assert {key: record.qi_group for key, record in folded.records.items()} == twin.group_of
    assert {key: record.row for key, record in folded.records.items()} == twin.rows
    assert {n: sorted(state.members) for n, state in folded.qi_groups.items()} == {
        n: sorted(group.members) for n, group in twin.groups.items()
    }
    assert engine.n_pending == sum(number == 0 for number in twin.group_of.values())
    assert folded.qi_group_next == twin.next_number


def assert_batches_leave_no_trace(
    small: Table, data: st.DataObject, steps: Iterable[Any], take: Callable[[Engine, Any], object]
) -> None:
    """One engine drains after every step; the other now and then, and is now and then loaded from what was stored."""
    secret = data.draw(SECRETS)
    steady, folded_steady = Engine(small, secret=secret), FoldedTable()
    jumpy, folded_jumpy = Engine(small, secret=secret), FoldedTable()
    for step in steps:
        assert take(steady, step) == take(jumpy, step)
        folded_steady.fold(steady.drain())
        what = data.draw(st.sampled_from(["go on", "go on", "drain", "restart", "restart without similarity lists"]))
        if what != "go on":
            folded_jumpy.fold(jumpy.drain())
        if what == "restart without similarity lists":
            folded_jumpy.similarity.clear()
        if what.startswith("restart"):
            jumpy = Engine.load(small, 0, 1, folded_jumpy.kept_table(), secret)
    folded_jumpy.fold(jumpy.drain())
    assert dict(steady.index_table()) == dict(jumpy.index_table())
    assert folded_steady.published == folded_jumpy.published
    assert folded_steady.records == folded_jumpy.records
    assert folded_steady.qi_group_next == folded_jumpy.qi_group_next
