"""Which tables, or pairs, of a product the gate tries; the night tries all of them.

A law about every model, every shape of tables and every algorithm is a product that grows with each of them. A fault is
seldom in one of its pairs alone: it is in a model, in a shape, or where two kinds of demands meet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import product
from typing import TypeVar

import pytest

from streamer.table.schema import Table

T = TypeVar("T")


def parts_of(table: Table) -> set[tuple[Hashable, ...]]:
    """What a table is made of: its shape, its settings, and each demand of its model."""
    shape = tuple(attribute.name for attribute in table.attributes)
    parts: set[tuple[Hashable, ...]] = {
        ("shape", shape),
        ("individuals", table.individual is not None),
        ("cuts", table.recut),
        ("boxes", table.shrink),
        ("repair", table.repair.price > 0, table.repair.share > 0),
        ("weights", any(attribute.weight != 1 for attribute in table.attributes)),
        ("bounds", table.space.is_bounded),
    }
    column = table.kept[0]
    for where, asked in (("table", table.diversity), ("column", column.diversity), ("law", column.distribution)):
        for name in ("l", "alpha", "beta", "r", "null_counts", "entropy_l", "recursive", "t"):
            if getattr(asked, name, None):
                parts.add((where, name, getattr(asked, "distance", "") if name == "t" else ""))
    return parts


def covering(tables: Mapping[str, T], parts: Callable[[T], Iterable[Hashable]], times: int = 1) -> list[str]:
    """Few tables that meet each part so many times, or as often as it is there: one by one, most of what is left first.

    Of equal ones the first, so that the same tables give the same choice.
    """
    made_of = {name: set(parts(table)) for name, table in tables.items()}
    there = Counter(part for one in made_of.values() for part in one)
    missing = Counter({part: min(times, n) for part, n in there.items()})
    chosen: list[str] = []
    while missing:
        best = max(
            (name for name in made_of if name not in chosen),
            key=lambda name: sum(part in missing for part in made_of[name]),
        )
        chosen.append(best)
        missing -= Counter(made_of[best])
    return chosen


def tables_of_the_gate(name: str, tables: Mapping[str, Table], gate: Iterable[str]) -> pytest.MarkDecorator:
    """Parametrizes a test by tables, of which the gate has some and the night has the others."""
    at_the_gate = set(gate)
    return pytest.mark.parametrize(
        name,
        [
            pytest.param(one, id=key, marks=[pytest.mark.night] * (key not in at_the_gate))
            for key, one in tables.items()
        ],
    )


def covering_pairs(rows: Sequence[str], columns: Sequence[str], of_each_row: int = 3) -> set[tuple[str, str]]:
    """Pairs that have each row with so many columns, and each column with as many rows as is fair, at least two.

    A row's columns stand apart, and the next row's begin one further on: all columns come up equally often.
    """
    step = max(1, len(columns) // of_each_row)
    pairs = {(row, columns[(i + j * step) % len(columns)]) for i, row in enumerate(rows) for j in range(of_each_row)}
    for i, column in enumerate(columns):
        for j in range(len(rows)):
            if sum(one == column for _, one in pairs) >= 2:
                break
            pairs.add((rows[(i + j) % len(rows)], column))
    return pairs


def pairs_of_the_gate(row: str, column: str, rows: Sequence[str], columns: Sequence[str]) -> pytest.MarkDecorator:
    """Parametrizes a test by all pairs, of which the gate has some and the night has the others."""
    at_the_gate = covering_pairs(rows, columns)
    return pytest.mark.parametrize(
        (row, column),
        [
            pytest.param(*pair, id="-".join(reversed(pair)), marks=[pytest.mark.night] * (pair not in at_the_gate))
            for pair in product(rows, columns)
        ],
    )
