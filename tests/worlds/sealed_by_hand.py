"""A sealed publisher written down plainly, rule by rule, with dictionaries and median cuts: the twin of the real one.

It also remembers what no publisher may: which event gave each row of a cohort its values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import msgspec

from streamer.incremental.sealed.publisher import Draw
from streamer.table.published.rows import box_columns, json_texts
from streamer.table.row import Values
from streamer.table.schema import SealedRules, Table
from worlds.sealed_people import Event, numbers_of

Cells = tuple[int, ...]


@dataclass
class Waiting:
    """A row of the pool."""

    name: str
    cells: Cells
    values: Values
    individual: str | None
    came: int  # the epoch
    set_at: int  # the number of the event that gave it its values


@dataclass
class Published:
    """A cohort."""

    n: int
    names: set[str]  # of those who are left
    set_at: tuple[int, ...]  # of each row
    shown: bool
    epoch: int
    box: bytes
    retired: bool = False


@dataclass
class ByHand:
    """The publisher of shard 0."""

    table: Table
    draw: Draw
    epoch: int = 0
    pool: dict[str, Waiting] = field(default_factory=dict)
    cohorts: dict[str, Published] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    n_events: int = 0
    values: dict[str, Values] = field(default_factory=dict)
    individuals: dict[str, str | None] = field(default_factory=dict)
    places: dict[str, Cells] = field(default_factory=dict)
    drawn: int = 0

    @property
    def rules(self) -> SealedRules:
        if self.table.sealed is None:
            raise ValueError("the table publishes no sealed changelog")
        return self.table.sealed

    def take(self, one: Event) -> None:
        number, self.n_events = self.n_events, self.n_events + 1
        if one.kind == "delete":
            self.drop(one.name)
            del self.values[one.name]
            return
        before = self.values.get(one.name)
        texts = before or ()
        if one.values is not None:
            texts = tuple(map(msgspec.json.encode, one.values))
        self.values[one.name] = texts
        self.individuals.setdefault(one.name, one.individual)
        if one.name in self.pool:
            waits = self.pool[one.name]
            waits.values, waits.cells = texts, self.cells(one.codes) if one.codes else waits.cells
            waits.set_at = number if one.values is not None else waits.set_at
        elif before is None or self.sensitive(texts) != self.sensitive(before):
            self.drop(one.name)
            cells = self.cells(one.codes) if one.codes else self.places[one.name]
            self.pool[one.name] = Waiting(one.name, cells, texts, self.individuals[one.name], self.epoch + 1, number)
        if one.codes:
            self.places[one.name] = self.cells(one.codes)

    def sensitive(self, texts: Values) -> Values:
        return tuple(text for text, column in zip(texts, self.table.kept, strict=True) if column.sensitive)

    def cells(self, codes: Sequence[int]) -> Cells:
        return tuple(code // int(per) for code, per in zip(codes, self.table.space.codes_per_cell, strict=True))

    def drop(self, name: str) -> None:
        if self.pool.pop(name, None) is not None:
            return
        for cohort_id, cohort in self.cohorts.items():
            if name in cohort.names:
                cohort.names.remove(name)
                if not cohort.retired:
                    self.touched.add(cohort_id)

    def end_epoch(self) -> list[bytes]:
        """The values of its records, as they are published."""
        self.epoch += 1
        self.drawn = 0
        records: dict[str, bytes] = {}
        kinds: Counter[str] = Counter()
        for cohort_id in self.touched:
            cohort = self.cohorts[cohort_id]
            left = len(cohort.names)
            if left == 0 or left <= Fraction(str(self.rules.theta)) * cohort.n:
                cohort.retired = True
                records[cohort_id] = b'{"record":"RETIRE","cohort":"%b","epoch":%d}' % (cohort_id.encode(), self.epoch)
                kinds["retires"] += 1
            elif self.rules.counters:
                said = cohort_id.encode(), self.epoch, left
                records[cohort_id] = b'{"record":"LIVE","cohort":"%b","epoch":%d,"live":%d}' % said
                kinds["lives"] += 1
        self.touched.clear()
        for block in self.blocks():
            cohort_id = f"{self.chance():032x}"
            records[cohort_id] = self.add(cohort_id, block)
            kinds["adds"] += 1
        end = {
            "record": "EPOCH", "epoch": self.epoch, "shard": 0, "time": f"1970-01-01T00:{self.epoch:02}:00Z",
            "adds": kinds["adds"], "retires": kinds["retires"], "lives": kinds["lives"], "k": self.table.k,
            "alpha": str(self.rules.alpha), "l": self.rules.l,
        }  # fmt: skip
        return [*(records[one] for one in sorted(records)), msgspec.json.encode(end)]

    def chance(self) -> int:
        self.drawn += 1
        return self.draw(self.epoch, self.drawn - 1)

    def blocks(self) -> Iterable[list[Waiting]]:
        """What is published now: of each individual one row in each round."""
        rest = list(self.pool.values())
        while True:
            first: dict[str, Waiting] = {}
            for one in rest:
                first.setdefault(one.name if self.table.individual is None else str(one.individual), one)
            if len(first) < self.table.k:
                return
            self.chance()  # for a formation that draws
            for block in self.partition(list(first.values())):
                waited = max(self.epoch - one.came + 1 for one in block)
                if self.rules.tau is None or self.width(block) <= float(self.rules.tau) or waited >= self.rules.delta:
                    yield block
            rest = [one for one in rest if one not in first.values()]

    def partition(self, rows: list[Waiting]) -> list[list[Waiting]]:
        k, widths = self.table.k, self.widths(rows)
        for j in sorted(range(len(widths)), key=lambda j: -widths[j]) if len(rows) >= 2 * k else ():
            median = sorted(one.cells[j] for one in rows)[(len(rows) - 1) // 2]
            for above in (median + 1, median):
                lower = [one for one in rows if one.cells[j] < above]
                upper = [one for one in rows if one.cells[j] >= above]
                if len(lower) >= k and len(upper) >= k:
                    return [*self.partition(lower), *self.partition(upper)]
        return [rows]

    def widths(self, rows: list[Waiting]) -> list[float]:
        """Of the box, as shares of the domains."""
        shares = []
        for j, attribute in enumerate(numbers_of(self.table)):
            cells = [one.cells[j] for one in rows]
            first, last = attribute.interval(min(cells), max(cells))
            shares.append(float((last - first) / (attribute.domain[1] - attribute.domain[0])))
        return shares

    def width(self, block: list[Waiting]) -> float:
        widths = self.widths(block)
        return sum(widths) / len(widths)

    def add(self, cohort_id: str, block: list[Waiting]) -> bytes:
        n, sides = len(block), []
        for j, attribute in enumerate(self.table.attributes):
            cells = [one.cells[j] for one in block]
            texts = json_texts(box_columns(attribute, min(cells), max(cells)))
            sides += [b'"%b":%b' % (name.encode(), text) for name, text in texts.items()]
        shown = b"null"
        if all(self.is_safe([one.values[i] for one in block]) for i in self.table.sensitive):
            rows = sorted(one.values for one in block)
            shown = b"[%b]" % b",".join(b"[%b]" % b",".join(values) for values in rows)
        box = b"{%b}" % b",".join(sides)
        set_at = tuple(one.set_at for one in block)
        names = {one.name for one in block}
        self.cohorts[cohort_id] = Published(n, names, set_at, shown != b"null", self.epoch, box)
        for one in block:
            del self.pool[one.name]
        return b'{"record":"ADD","cohort":"%b","epoch":%d,"n":%d,"box":%b,"sensitive":%b}' % (
            cohort_id.encode(), self.epoch, n, box, shown
        )  # fmt: skip

    def is_safe(self, values: list[bytes]) -> bool:
        counts = Counter(values)
        most = Fraction(str(self.rules.alpha)) * len(values)
        return max(counts.values()) <= most and len(counts) >= self.rules.l


def by_hand(table: Table, draw: Draw, epochs: Iterable[Iterable[Event]]) -> tuple[ByHand, list[list[bytes]]]:
    """The twin at the end of a stream, and the values of its records by epoch."""
    twin, written = ByHand(table, draw), []
    for events in epochs:
        for one in events:
            twin.take(one)
        written.append(twin.end_epoch())
    return twin, written
