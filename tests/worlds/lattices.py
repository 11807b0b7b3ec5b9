"""Lattices of levels beside their twin, which recodes every row by itself; and a lattice of age and region."""

from __future__ import annotations

from collections import Counter, defaultdict
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np

from streamer.privacy.models import Model
from streamer.table.attributes import CategoricalAttribute, NumericAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import NULL, Microdata
from streamer.table.schema import Table
from worlds.microdata import TEXTS, people

Node = tuple[int, ...]


def n_levels(table: Table) -> Node:
    return tuple(attribute.levels.n_levels for attribute in table.attributes)


def nodes(table: Table) -> list[Node]:
    return list(product(*map(range, n_levels(table))))


@cache
def published(attribute: NumericAttribute | CategoricalAttribute, level: int) -> list[tuple[int, int]]:
    """First and last cell of what the level publishes, by cell."""
    lo, hi = attribute.levels.recode(level, np.arange(attribute.axis.n_cells))
    return list(zip(lo.tolist(), hi.tolist(), strict=True))


def groups_at(data: Microdata, node: Node) -> dict[tuple, list[int]]:
    """Rows by what the node publishes for them."""
    columns = [published(attribute, level) for attribute, level in zip(data.table.attributes, node, strict=True)]
    groups = defaultdict(list)
    for number, row in enumerate(data.cells.tolist()):
        groups[tuple(column[cell] for column, cell in zip(columns, row, strict=True))].append(number)
    return dict(groups)


def holds(model: Model, subjects: list[list[int]]) -> bool:
    """The model on one QI group, counted by hand."""
    if len(subjects) < model.rows:
        return False
    for column, subject in enumerate(model.subjects):
        count = Counter(row[column] for row in subjects if subject.null_counts or row[column] != NULL)
        if len(count) < model.distinct.get(subject, 0):
            return False
        if Fraction(max(count.values(), default=0), len(subjects)) > model.shares.get(subject, 1):
            return False
    return True


def suppressed_at(data: Microdata, model: Model, node: Node) -> int:
    subjects = data.subjects(model.subjects).tolist()
    groups = groups_at(data, node).values()
    return sum(len(rows) for rows in groups if not holds(model, [subjects[row] for row in rows]))


def minimal(good: set[Node]) -> set[Node]:
    return {node for node in good if not any(other != node and below(other, node) for other in good)}


def below(one: Node, other: Node) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


AGES = Hierarchy.from_rows([[age, f"{age[0]}0-{age[0]}9", "*"] for age in ("21", "24", "33", "37")])


REGIONS = Hierarchy.from_rows(
    [
        ["Beijing", "north", "inland", "*"],
        ["Tianjin", "north", "inland", "*"],
        ["Xian", "inland", "*"],
        ["Nanjing", "east", "coast", "*"],
        ["Shanghai", "east", "coast", "*"],
        ["Guangzhou", "coast", "*"],
    ]
)


def citizens(ages: Hierarchy, regions: Hierarchy, rows: list[tuple[str, str]]) -> Microdata:
    table = people(
        CategoricalAttribute("age", ages, Decimal(1)),
        CategoricalAttribute("region", regions, Decimal(1)),
    )
    codes = np.array([[ages.code_of[age], regions.code_of[region]] for age, region in rows], dtype=np.int64)
    return Microdata(table, codes, None, np.zeros((len(rows), 1), dtype=np.int64), TEXTS)


CITIZENS = citizens(
    AGES,
    REGIONS,
    [
        ("21", "Tianjin"), ("24", "Beijing"), ("33", "Tianjin"), ("37", "Beijing"),
        ("21", "Shanghai"), ("24", "Shanghai"), ("33", "Nanjing"), ("37", "Nanjing"),
    ],
)  # fmt: skip
