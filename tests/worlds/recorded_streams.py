"""Streams of messages that are always the same: many kinds of tables, and every kind of message that changes one.

A stream is what a table's input would hold, as bytes. `Life` draws it, seeded, with Python's own generator, and knows
nothing of the engine: it remembers which keys it has inserted, so that most messages find their row and some do not.
Rows come in clusters, so that boxes are shared, boundaries are crossed and statements gather rows in one place.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from streamer.table.codes import Attribute, CategoricalAttribute, KeptColumn, NumericAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.schema import Limits, Repair, Table
from streamer.table.yaml.loading import load_table
from worlds import adult_people
from worlds.small_tables import AGE, BMI, CITY, PROBLEM, YEARS, table

Message = tuple[bytes | None, bytes | None]
"""Key and value."""

Fields = dict[str, Any]

NOTE = KeptColumn("note", sensitive=False)
"""A kept column whose values hardly repeat."""

DOSE = NumericAttribute("dose", (Decimal("-2"), Decimal("8")), Decimal(1), Decimal("0.25"), Decimal(2), integer=False)

JOBS = CategoricalAttribute(
    "job",
    Hierarchy.from_rows([[f"{a}{b}{c}", f"{a}{b}", a, "*"] for a in "xyz" for b in "12" for c in "pqr"]),
    Decimal(3),
)

EVERYTHING = {
    "insert": 400, "delete": 180, "modify": 150, "nudge": 60, "revalue": 50, "create": 40, "update": 60, "rename": 15,
    "removal": 30, "tombstone": 20, "delete_where": 12, "shift_where": 12, "gather_where": 8, "revalue_where": 12,
    "repeated": 6, "truncate": 1, "captured_truncate": 1, "notice": 5, "refused": 25,
}  # fmt: skip
"""Weights of the kinds of messages."""

COMING_AND_GOING = {"insert": 40, "delete": 30, "modify": 30}

FEW_ROWS = {**EVERYTHING, "insert": 250, "delete": 450, "truncate": 12, "gather_where": 20}

HEAPS = {"insert": 60, "create": 20, "delete": 8, "gather_where": 8, "shift_where": 4, "delete_where": 2}
"""Many rows go to one place: QI groups of 4k rows and more are cut up, and many of their cuts are equally good."""


@dataclass(frozen=True)
class Stream:
    """A table, and the messages that its shard reads; first: so many of them are loaded as an initial table."""

    table: Table
    messages: tuple[Message, ...]
    first: int = 0


class Life:
    """Seeded messages about one table; rows: about how many there are in the long run."""

    def __init__(self, table: Table, seed: int, rows: int) -> None:
        self.table = table
        self._rng = random.Random(seed)
        self._rows = rows
        self._alive: dict[str, Fields] = {}
        self._born = 0
        self._statements: list[bytes] = []
        self._clusters = [[self._anywhere(a) for a in table.attributes] for _ in range(5)]

    def more(self, count: int, kinds: Mapping[str, int]) -> Iterator[Message]:
        """`count` messages."""
        for kind in self._rng.choices(list(kinds), list(kinds.values()), k=count):
            if kind == "delete" and len(self._alive) < self._rows and self._rng.random() < 0.4:
                kind = "insert"
            yield getattr(self, f"_{kind}")()

    # -- values ---------------------------------------------------------------------------------------------------

    def _anywhere(self, attribute: Attribute) -> Any:
        if isinstance(attribute, CategoricalAttribute):
            return self._rng.choice(list(attribute.hierarchy.code_of))
        assert isinstance(attribute, NumericAttribute)
        lo, hi = attribute.domain
        fine = attribute.step or Decimal("0.125")
        return _number(attribute, lo + fine * self._rng.randrange(int((hi - lo) / fine) + 1))

    def _near(self, attribute: Attribute, value: Any) -> Any:
        """Often the same, else not far, sometimes anywhere."""
        chance = self._rng.random()
        if chance < 0.3 or (isinstance(attribute, CategoricalAttribute) and chance < 0.6):
            return value
        if isinstance(attribute, CategoricalAttribute) or chance > 0.85:
            return self._anywhere(attribute)
        assert isinstance(attribute, NumericAttribute)
        lo, hi = attribute.domain
        fine = attribute.step or Decimal("0.125")
        moved = Decimal(str(value)) + fine * self._rng.randrange(-4, 5)
        return _number(attribute, min(hi, max(lo, moved)))

    def _quasi_identifiers(self) -> Fields:
        center = self._rng.choice(self._clusters)
        return {a.name: self._near(a, value) for a, value in zip(self.table.attributes, center, strict=True)}

    def _values(self) -> Fields:
        return {
            column.name: f"note {self._rng.randrange(10**6)}" if column.name == "note" else self._problem()
            for column in self.table.kept
        }

    def _problem(self) -> str | None:
        return self._rng.choice(["flu", "cough", "ulcer", "ulcer", None])

    def _fields(self, who: str) -> Fields:
        fields = {"id": who, **self._quasi_identifiers(), **self._values()}
        if self.table.individual is not None:
            alike = self._alive[self._some_key()] if self._alive and self._rng.random() < 0.3 else None
            fields[self.table.individual] = f"person {self._rng.randrange(max(4, self._rows // 2))}"
            if alike is not None:  # another row of one individual, often in the same cells
                fields |= {
                    name: alike[name] for name in (self.table.individual, *(a.name for a in self.table.attributes))
                }
        return fields

    def _new_key(self) -> str:
        self._born += 1
        return f"{self._rng.choice(['p', 'q', 'é'])}{self._born}"

    def _some_key(self) -> str:
        return self._rng.choice(list(self._alive)) if self._alive else "nobody"

    def _some_column(self) -> Attribute:
        return self._rng.choice(self.table.attributes)

    # -- rows, one by one -----------------------------------------------------------------------------------------

    def _born_row(self) -> Fields:
        who = self._new_key()
        self._alive[who] = self._fields(who)
        return self._alive[who]

    def _insert(self) -> Message:
        return _plain({"op": "insert", "row": self._born_row()})

    def _delete(self) -> Message:
        who = self._some_key()
        self._alive.pop(who, None)
        return _plain({"op": "delete", "key": who})

    def _changed(self, changed: Fields) -> Message:
        who = self._some_key()
        if who in self._alive:
            self._alive[who] = {**self._alive[who], **changed}
        return _plain({"op": "modify", "key": who, "row": changed})

    def _modify(self) -> Message:
        fresh = {**self._quasi_identifiers(), **self._values()}
        return self._changed({name: fresh[name] for name in self._rng.sample(list(fresh), min(2, len(fresh)))})

    def _nudge(self) -> Message:
        """A value that lies beside the old one: often in the same cell, in the same box more often still."""
        who, attribute = self._some_key(), self._some_column()
        if who not in self._alive:
            return self._modify()
        moved = self._near(attribute, self._alive[who][attribute.name])
        self._alive[who] = {**self._alive[who], attribute.name: moved}
        return _plain({"op": "modify", "key": who, "row": {attribute.name: moved}})

    def _revalue(self) -> Message:
        return self._changed(self._values())

    def _create(self) -> Message:
        return _captured("c", None, self._born_row())

    def _update(self) -> Message:
        who = self._some_key()
        before = self._alive.get(who)
        self._alive[who] = after = {**self._fields(who), **({} if before is None else self._kept_individual(before))}
        return _captured("u", before, after)

    def _kept_individual(self, before: Fields) -> Fields:
        """Mostly the row stays the same individual's."""
        name = self.table.individual
        return {} if name is None or self._rng.random() < 0.2 else {name: before[name]}

    def _rename(self) -> Message:
        former = self._some_key()
        before = self._alive.pop(former, {"id": former})
        return _captured("u", before, self._born_row())

    def _removal(self) -> Message:
        who = self._some_key()
        return _captured("d", self._alive.pop(who, {"id": who}), None)

    def _tombstone(self) -> Message:
        who = self._some_key()
        if self._rng.random() < 0.5:
            self._alive.pop(who, None)
        else:
            who = "nobody"
        return who.encode(), None

    def _notice(self) -> Message:
        return None, b'{"ts_ms": 1700000000000}'

    def _refused(self) -> Message:
        who, attribute = self._some_key(), self._some_column()
        return self._rng.choice(
            [
                _plain({"op": "insert", "row": self._fields(who)}),
                _plain({"op": "delete", "key": "nobody"}),
                _plain({"op": "modify", "key": "nobody", "row": self._values()}),
                _plain({"op": "modify", "key": who, "row": {attribute.name: "no such value"}}),
                _plain({"op": "modify", "key": who, "row": {"ssn": "somebody else"}}),
                _plain({"op": "modify", "key": who, "row": {"problem": "x" * 3000}}),
                _plain({"op": "insert", "row": {**self._fields("x"), "problem": "x" * 3000}}),
                _plain({"op": "delete", "where": "no such column = 1"}),
            ]
        )

    # -- statements -----------------------------------------------------------------------------------------------

    def _where(self, width: float) -> str:
        """A condition that about `width` of the rows satisfy."""
        attribute = self._some_column()
        if isinstance(attribute, CategoricalAttribute):
            return f"{attribute.name} = '{self._anywhere(attribute)}'"
        if self._rng.random() < 0.15:
            return f"problem = '{self._problem() or 'flu'}'"
        assert isinstance(attribute, NumericAttribute)
        lo, hi = attribute.domain
        begins = Decimal(str(self._anywhere(attribute)))
        ends = begins + Decimal(str(width)) * (hi - lo)
        return f"{attribute.name} >= {begins} and {attribute.name} <= {ends}"

    def _statement(self, message: Fields) -> Message:
        if self._rng.random() < 0.7:
            message["statement_id"] = f"statement {len(self._statements)}"
        said = _plain(message)
        self._statements.append(said[1] or b"")
        return said

    def _delete_where(self) -> Message:
        return self._statement({"op": "delete", "where": self._where(0.15)})

    def _shift_where(self) -> Message:
        """Numbers move along, out of the domain here and there; categories become one."""
        attribute = self._some_column()
        if isinstance(attribute, CategoricalAttribute):
            shifted = f"'{self._anywhere(attribute)}'"
        else:
            assert isinstance(attribute, NumericAttribute)
            fine = attribute.step or Decimal("0.125")
            shifted = f"{attribute.name} + {fine * self._rng.choice([1, 1, 2, 5])}"
            if self._rng.random() < 0.5:
                shifted = shifted.replace("+", "-")
        assigned = {attribute.name: shifted}
        if self._rng.random() < 0.3:
            assigned["problem"] = "'flu'"
        return self._statement({"op": "modify", "where": self._where(0.3), "set": assigned})

    def _gather_where(self) -> Message:
        """Many rows into one place."""
        target = {a.name: self._anywhere(a) for a in self.table.attributes}
        assigned = {n: f"'{value}'" if isinstance(value, str) else str(value) for n, value in target.items()}
        return self._statement({"op": "modify", "where": self._where(0.6), "set": assigned})

    def _revalue_where(self) -> Message:
        value = self._problem()
        assigned = {"problem": "null" if value is None else f"'{value}'"}
        return self._statement({"op": "modify", "where": self._where(0.3), "set": assigned})

    def _repeated(self) -> Message:
        """A statement once more: ignored where it has an id."""
        return None, self._rng.choice(self._statements[-3:] or [b'{"op": "m"}'])

    def _truncate(self) -> Message:
        self._alive.clear()
        return self._statement({"op": "truncate"})

    def _captured_truncate(self) -> Message:
        return _plain({"op": "t"})


def _number(attribute: NumericAttribute, value: Decimal) -> int | float:
    return int(value) if attribute.integer else float(value)


def _plain(message: Mapping[str, Any]) -> Message:
    return None, json.dumps(message).encode()


def _captured(op: str, before: Fields | None, after: Fields | None) -> Message:
    return None, json.dumps({"op": op, "before": before, "after": after}).encode()


# -- the streams ------------------------------------------------------------------------------------------------------


def _kept(small: Table, *columns: KeptColumn) -> Table:
    return replace(small, kept=columns)


def _of(
    small: Table, seed: int, count: int, rows: int, kinds: Mapping[str, int] = EVERYTHING, first: int = 0
) -> Callable[[], Stream]:
    def stream() -> Stream:
        life = Life(small, seed, rows)
        return Stream(small, (*life.more(first, {"insert": 1}), *life.more(count, kinds)), first)

    return stream


TIGHT = Limits(statement_rows_max=12, row_bytes_max=1_000)

STREAMS: dict[str, Callable[[], Stream]] = {
    "one number": _of(table(YEARS, k=2), 1, 200, 40),
    "coarse number and category": _of(table(AGE, CITY, k=3), 2, 200, 50),
    "decimal, number, category": _of(table(BMI, YEARS, CITY, k=2), 3, 200, 50),
    "individuals": _of(table(AGE, CITY, k=2, individual="ssn"), 4, 200, 50),
    "individuals of many rows, k = 5": _of(table(YEARS, DOSE, k=5, individual="ssn"), 5, 250, 90),
    "no recut": _of(table(YEARS, CITY, k=2, recut=False), 6, 200, 50),
    "no shrink": _of(table(AGE, YEARS, k=2, shrink=False), 7, 200, 50),
    "neither, of individuals": _of(table(BMI, JOBS, k=3, individual="ssn", recut=False, shrink=False), 8, 200, 60),
    "hardly any rows": _of(table(AGE, CITY, k=3), 9, 250, 6, FEW_ROWS),
    "hardly any individuals": _of(table(YEARS, k=3, individual="ssn"), 10, 250, 8, FEW_ROWS),
    "unique values": _of(_kept(table(DOSE, CITY, k=5), NOTE, PROBLEM), 11, 250, 80),
    "tight limits": _of(replace(_kept(table(DOSE, JOBS, k=2), PROBLEM, NOTE), limits=TIGHT), 12, 300, 50),
    "categories alone": _of(table(CITY, JOBS, k=5), 13, 250, 100),
    "k = 10": _of(table(YEARS, AGE, JOBS, k=10), 14, 250, 120),
    "heaps": _of(table(YEARS, CITY, k=3), 15, 250, 200, HEAPS),
    "heaps of individuals": _of(table(DOSE, JOBS, k=3, individual="ssn"), 16, 250, 200, HEAPS),
    "heaps without shrinking, k = 5": _of(table(BMI, AGE, JOBS, k=5, shrink=False), 17, 250, 200, HEAPS),
    "local repair": _of(table(BMI, YEARS, CITY, k=2, repair=Repair(0.05)), 19, 250, 80),
    "local repair of individuals, k = 3": _of(
        table(AGE, JOBS, k=3, individual="ssn", repair=Repair(0.02)), 20, 250, 80
    ),
    "local repair of heaps": _of(table(YEARS, CITY, k=3, repair=Repair(share=0.05)), 24, 200, 200, HEAPS),
    "an initial table": _of(_kept(table(AGE, BMI, CITY, k=3), NOTE, PROBLEM), 18, 150, 80, first=80),
}
"""Short ones: a core that is not compiled runs them too."""

LONG_STREAMS: dict[str, Callable[[], Stream]] = {
    "a long life": _of(_kept(table(BMI, YEARS, DOSE, JOBS, CITY, k=3), PROBLEM, NOTE), 21, 3_000, 400),
    "a long life of individuals": _of(table(AGE, DOSE, JOBS, k=5, individual="ssn"), 22, 2_000, 400),
    "a long life without statements": _of(table(AGE, YEARS, BMI, JOBS, CITY, k=5), 23, 3_000, 1_000, COMING_AND_GOING),
}


def adult_stream(directory: Path, adult: Path, k: int, first: int, count: int) -> Stream:
    """Adult: `first` people to begin with, then changes of all kinds to them; directory: where table.yaml may stand."""
    people = dict(list(adult_people.read_people(adult).items())[:first])
    adult_table = replace(load_table(adult_people.write_table(directory, adult, "adult", k)), repair=Repair())
    changes = adult_people.Changes(people, seed=k, kinds=adult_people.ALL_KINDS)
    return Stream(adult_table, (*adult_people.inserts(people.values()), *changes.more(count)), first)


ADULT_STREAMS: dict[str, dict[str, int]] = {
    "Adult, k = 5": {"k": 5, "first": 3_000, "count": 1_500},
    "Adult, k = 2": {"k": 2, "first": 500, "count": 500},
}
