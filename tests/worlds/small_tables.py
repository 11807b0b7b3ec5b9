"""Small tables for properties: few cells, so that ties, equal boxes and crowded groups are frequent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from msgspec import structs

from streamer.errors import EventRefused
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
from streamer.table.arrays import Bools
from streamer.table.codes import (
    EQUAL,
    HIERARCHICAL,
    ORDERED,
    Attribute,
    CategoricalAttribute,
    DistributionDemands,
    Diversity,
    KeptColumn,
    NumericAttribute,
    Reference,
    reference_of,
)
from streamer.table.codes.same_text import without_capitals
from streamer.table.hierarchy import Hierarchy
from streamer.table.row import Row, RowsView
from streamer.table.schema import NO_REPAIR, VERSION, Repair, Table

CITIES = Hierarchy.from_rows(
    [
        ["a1", "a", "west", "*"],
        ["a2", "a", "west", "*"],
        ["b1", "b", "west", "*"],
        ["c1", "east", "*"],
        ["c2", "east", "*"],
        ["d1", "*"],
    ]
)

AGE = NumericAttribute("age", (Decimal(1), Decimal(23)), Decimal(5), Decimal(1), Decimal("4.4"))
YEARS = NumericAttribute("years", (Decimal(0), Decimal(9)), Decimal(1), Decimal(1), Decimal("1.8"))
BMI = NumericAttribute("bmi", (Decimal(10), Decimal("12.5")), Decimal(1), None, Decimal("0.5"), integer=False)
CITY = CategoricalAttribute("city", CITIES, Decimal("1.2"))
PROBLEM = KeptColumn("problem", sensitive=True)


def table(
    *attributes: Attribute,
    k: int = 2,
    individual: str | None = None,
    recut: bool = True,
    shrink: bool = True,
    repair: Repair = NO_REPAIR,
) -> Table:
    return Table("people", ("id",), attributes, (PROBLEM,), k, individual, recut=recut, shrink=shrink, repair=repair)


TABLES = {
    "one number": table(YEARS, k=2),
    "coarse number and category": table(AGE, CITY, k=3),
    "decimal, number, category": table(BMI, YEARS, CITY, k=2),
    "individuals": table(AGE, CITY, k=2, individual="ssn"),
    "no recut": table(YEARS, CITY, k=2, recut=False),
    "no shrink": table(AGE, YEARS, k=2, shrink=False),
    "repair": table(YEARS, CITY, k=2, repair=Repair(price=0.05)),
    "repair for a share of the loss": table(BMI, YEARS, CITY, k=3, repair=Repair(share=0.02)),
    "repair, individuals, no recut": table(YEARS, CITY, k=2, individual="ssn", recut=False, repair=Repair(share=0.3)),
    "weights": table(replace(AGE, weight=Decimal(3)), replace(CITY, weight=Decimal("0.5")), k=2),
    "bounds, repair": table(
        replace(YEARS, coarsest=Decimal(4)),
        replace(CITY, coarsest=2, weight=Decimal(2)),
        k=2,
        repair=Repair(share=0.02),
    ),
}


def codes_of(small: Table) -> st.SearchStrategy[tuple[int, ...]]:
    """Codes of a row; decimals at a few places of each cell, its lower edge among them."""
    columns = []
    for attribute in small.attributes:
        if isinstance(attribute, CategoricalAttribute):
            columns.append(st.integers(0, attribute.hierarchy.n_leaves - 1))
        elif not attribute.axis.closed:
            last = int(attribute.width_codes)
            quarters = range(0, last, attribute.codes_per_cell // 4)
            columns.append(st.sampled_from([*quarters, last - 1]))
        else:
            columns.append(st.integers(0, int(attribute.width_codes)))
    return st.tuples(*columns)


VALUES = st.sampled_from([(b'"flu"',), (b'"cough"',), (b"null",)])


def values_of(small: Table) -> st.SearchStrategy[tuple[bytes, ...]]:
    """Published values; of a column with a hierarchy all its leaves and null, few of them often."""
    tree = small.kept[0].hierarchy
    if tree is None:
        return VALUES
    leaves = [(b'"%b"' % leaf.encode(),) for leaf in tree.leaves]
    return st.sampled_from([(b"null",), *leaves, leaves[0], leaves[0]])


PEOPLE = st.sampled_from(["ann", "bob", "cy", "dee", "eve", "fay"])


@cache
def rows(small: Table) -> st.SearchStrategy[Row]:
    """Rows of a table; what draws them is made once for each table, as it takes longer than to draw a row."""
    stepless, who = small.stepless, st.none() if small.individual is None else PEOPLE
    return st.tuples(codes_of(small), values_of(small), who).map(
        lambda parts: Row(parts[0], parts[1], tuple(f"code {parts[0][j]}" for j in stepless), parts[2])
    )


@dataclass(frozen=True)
class CodeIs:
    """A condition on one attribute's codes, for the engine (columns) and for its twin (one row)."""

    attribute: int
    lowest: int
    highest: int

    def matches(self, rows: RowsView) -> Bools:
        column = rows.codes[:, self.attribute]
        return (self.lowest <= column) & (column <= self.highest)

    def __call__(self, row: Row) -> bool:
        return self.lowest <= row.codes[self.attribute] <= self.highest


@dataclass(frozen=True)
class Shifted:
    """An assignment that moves one attribute's code; out of the domain: refused."""

    attribute: int
    by: int
    last: int
    values: tuple[bytes, ...] | None = None

    def applied_to(self, row: Row) -> Row:
        codes = list(row.codes)
        codes[self.attribute] += self.by
        if not 0 <= codes[self.attribute] <= self.last:
            raise EventRefused("out-of-domain", "")
        return structs.replace(row, codes=tuple(codes), values=self.values or row.values)


def last_code(small: Table, j: int) -> int:
    attribute = small.attributes[j]
    if isinstance(attribute, CategoricalAttribute):
        return attribute.hierarchy.n_leaves - 1
    return int(attribute.width_codes) - (not attribute.axis.closed)


KINDS = st.sampled_from(["insert"] * 6 + ["delete"] * 3 + ["modify"] * 3 + ["upsert", "remove", "where", "set"])
LOSSES = st.sampled_from(["delete"] * 3 + ["remove", "where", "set"])
"""Of changes that take rows away: one, those of a statement, or all."""
KEYS = st.integers(0, 25).map(str)
FORMER_KEYS = st.one_of(st.none(), KEYS)
ONE_IN_31 = st.integers(0, 30).map(lambda number: number == 0)


@cache
def changes(small: Table, kinds: st.SearchStrategy[str] = KINDS) -> st.SearchStrategy[Change]:
    """Changes of a table, drawn by what is made once for each table, as `rows` are."""
    some_row, columns = rows(small), range(len(small.attributes))
    some_column, some_columns = st.sampled_from(columns), st.sets(st.sampled_from(columns))
    lasts = [last_code(small, j) for j in columns]
    steps = [attribute.axis.codes_per_cell for attribute in small.attributes]
    lowests = [st.integers(0, last) for last in lasts]
    widths = [st.integers(0, max(1, last // 2)) for last in lasts]
    shifts = [st.sampled_from([-2 * step, -1, 0, 1, 3, 2 * step]) for step in steps]
    everybodys = st.one_of(st.none(), values_of(small))

    @st.composite
    def change(draw: st.DrawFn) -> Change:
        key, kind = draw(KEYS), draw(kinds)
        match kind:
            case "insert":
                return Insert(key, draw(some_row))
            case "delete":
                return Delete(key)
            case "upsert":
                former = draw(FORMER_KEYS)
                return Upsert(key, draw(some_row), former)
            case "remove":
                return Remove(key)
            case "modify":
                row, chosen = draw(some_row), draw(some_columns)
                exact = {j: text for j, text in zip(small.stepless, row.exact, strict=True) if j in chosen}
                values = {0: row.values[0]} if draw(st.booleans()) else {}
                return Modify(key, {j: row.codes[j] for j in chosen}, exact, values, row.individual)
        if draw(ONE_IN_31):
            return Truncate()
        j = draw(some_column)
        lowest = draw(lowests[j])
        condition = CodeIs(j, lowest, lowest + draw(widths[j]))
        if kind == "where":
            return DeleteWhere(condition)
        target = draw(some_column)
        return ModifyWhere(condition, Shifted(target, draw(shifts[target]), lasts[target], draw(everybodys)))

    return change()


FEW_LONG = settings(max_examples=max(5, settings().max_examples // 6))
"""For laws of long histories: a drawn list is short unless it must not be, and few rows make no groups that meet.

Few lists of twenty changes and more see as many changes as six times as many lists of five, and more groups.
"""


def coming_and_going(small: Table, seed: int, first: int, then: int) -> Iterator[Change]:
    """Seeded: so many insertions; then as often a row comes, goes, or changes in one attribute or its value."""
    random, alive, tree = Random(seed), list[str](), small.kept[0].hierarchy
    values = [b'"flu"', b'"cough"'] if tree is None else [b'"%b"' % leaf.encode() for leaf in tree.leaves]
    for i in range(first + then):
        kind = random.choice(["insert", "delete", "modify", "value"]) if i >= first else "insert"
        codes = tuple(random.randrange(last_code(small, j) + 1) for j in range(len(small.attributes)))
        if kind == "insert":
            exact = tuple(f"code {codes[j]}" for j in small.stepless)
            who = None if small.individual is None else f"person {random.randrange(first)}"
            alive.append(str(i))
            yield Insert(str(i), Row(codes, (random.choice(values),), exact, who))
        elif kind == "delete":
            yield Delete(alive.pop(random.randrange(len(alive))))
        elif kind == "value":
            yield Modify(random.choice(alive), values={0: random.choice(values)})
        else:
            j = random.randrange(len(codes))
            yield Modify(random.choice(alive), {j: codes[j]}, {j: f"code {codes[j]}"} if j in small.stepless else {})


PROBLEMS = Hierarchy.from_rows(
    [
        ["flu", "lung", "*"],
        ["cough", "lung", "*"],
        ["ulcer", "belly", "*"],
        ["gastritis", "belly", "*"],
        ["insomnia", "*"],
    ]
)
NESTED_PROBLEM = KeptColumn("problem", sensitive=True, type="text", hierarchy=PROBLEMS)


def asking(*attributes: Attribute, k: int = 2, individual: str | None = None, **diversity: object) -> Table:
    """A table whose QI groups owe more than k."""
    asked = {name: Decimal(v) if isinstance(v, str) else v for name, v in diversity.items()}
    small = table(*attributes, k=k, individual=individual)
    return replace(small, kept=(NESTED_PROBLEM,), diversity=Diversity(**asked))  # type: ignore[arg-type]


def distributed(small: Table, **asked: object) -> Table:
    """The table with demands on the distribution of its sensitive values."""
    distance = asked.get("distance", HIERARCHICAL)
    rows = {None: 1, "flu": 6, "cough": 4, "ulcer": 3, "gastritis": 2, "insomnia": 1}
    reference = reference_of(
        "problem", EQUAL if distance == ORDERED else str(distance), rows, PROBLEMS, without_capitals
    )
    if distance == ORDERED:  # as if names had an order
        reference = Reference(ORDERED, tuple(sorted(map(str, {*rows} - {None}))), (1, 4, 6, 2, 1, 3))
    given = {"reference": reference, "distance": distance} | asked
    kept = replace(small.kept[0], distribution=DistributionDemands(**given))  # type: ignore[arg-type]
    return replace(small, kept=(kept,))


MODEL_TABLES = {
    "distinct l": asking(YEARS, l=3),
    "distinct l, nulls count": asking(AGE, CITY, l=2, null_counts=True),
    "(k, l)": asking(AGE, CITY, k=2, individual="ssn", l=2),
    "(alpha, beta)": asking(YEARS, CITY, individual="ssn", alpha="0.5", beta="0.5"),
    "(alpha, beta) of rows": asking(YEARS, alpha="0.3", beta="0.6"),
    "(r, k)": asking(AGE, CITY, k=3, r="0.7", level=1),
    "(r, k) of individuals": asking(YEARS, CITY, individual="ssn", r="0.6", level=1),
    "all at once": asking(BMI, YEARS, k=2, individual="ssn", alpha="0.6", beta="0.6", l=2, r="0.75", level=1),
    "all at once, whole": replace(asking(YEARS, CITY, l=2, beta="0.7", r="0.8"), recut=False, shrink=False),
    "entropy l": distributed(asking(AGE, CITY), entropy_l=Decimal("1.9")),
    "t, ordered": distributed(asking(YEARS, CITY, k=3), t=Decimal("0.3"), distance=ORDERED),
    "t, hierarchical": distributed(asking(YEARS, CITY, individual="ssn"), t=Decimal("0.6")),
    "laws and shares": distributed(
        asking(BMI, YEARS, individual="ssn", alpha="0.6", beta="0.8", l=2),
        t=Decimal("0.6"),
        entropy_l=Decimal("1.5"),
        recursive=(Decimal(3), 2),
    ),
    "all at once, by column": replace(
        asking(YEARS, CITY, beta="0.8"),
        kept=(replace(NESTED_PROBLEM, diversity=Diversity(l=2, beta=Decimal("0.7"), r=Decimal("0.85"))),),
    ),
}

PRICES = (Repair(price=0.001), Repair(share=0.05), Repair(price=0.05))

REPAIRED_MODELS = {
    f"{name}, repair": replace(small, repair=PRICES[i % len(PRICES)])
    for i, (name, small) in enumerate(MODEL_TABLES.items())
} | {
    f"{name}, bounds, repair": replace(TABLES["bounds, repair"], diversity=small.diversity, individual=small.individual)
    for name, small in MODEL_TABLES.items()
    if name in ("(alpha, beta) of rows", "(k, l)")
}
"""The same with local repair, and two with bounds, too."""


@dataclass
class RowsAsColumns:
    """Rows of a table without nulls."""

    table: Table
    rows: list[Row]

    @property
    def codes(self) -> np.ndarray:
        return np.array([row.codes for row in self.rows], dtype=np.int64).reshape(-1, self.table.space.d)

    @property
    def exact(self) -> list[tuple[str, ...]]:
        return [row.exact for row in self.rows]

    @property
    def values(self) -> list[tuple[bytes, ...]]:
        return [row.values for row in self.rows]

    @property
    def nulls(self) -> np.ndarray:
        return np.zeros((len(self.rows), self.table.space.d), dtype=np.bool_)


def as_of_version(version: str, ours: Table, **decisions: Any) -> Table:
    """A table as another version of the engine had it, which decided by these settings; table.yaml is the same."""
    other: Table = replace(ours, **decisions)
    _, parts = ours.fingerprint.split(" ", 1)
    other.__dict__["fingerprint"] = f"{VERSION}:{version} {parts}"
    return other
