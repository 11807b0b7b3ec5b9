"""What algorithms do, by plain loops: what a model asks of rows, lattices of levels, one group specialized."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from itertools import product
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from streamer.kernels.distributions import shortage_by_group, whole_rows
from streamer.privacy.distributions import laws_of
from streamer.privacy.models import Model
from streamer.table.codes import CategoricalAttribute, NumericAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.microdata import NULL, Microdata
from streamer.table.schema import Table
from worlds.microdata import TEXTS, assert_holds, people


def obeys(model: Model, subjects: np.ndarray | list[list[int]]) -> bool:
    """The model counted by hand."""
    try:
        assert_holds(model, np.asarray(subjects).tolist())
    except AssertionError:
        return False
    return True


def fits(model: Model, subjects: np.ndarray) -> bool:
    """Whether no subject has more than its share, of as many rows as the smallest QI group has at least."""
    n = max(len(subjects), model.rows_min)
    columns = dict(zip(model.subjects, subjects.T.tolist(), strict=True))
    return all(max(map(columns[of].count, columns[of])) <= share * n for of, share in model.shares.items())


def lacking(model: Model, subjects: np.ndarray) -> int:
    """How many rows a group lacks at least until it holds."""
    n, columns = len(subjects), dict(zip(model.subjects, subjects.T.tolist(), strict=True))
    wanted = [model.rows - n, 0]
    for of, least in model.distinct.items():
        wanted.append(least - len({code for code in columns[of] if of.null_counts or code != NULL}))
    wanted += [ceil(max(map(columns[of].count, columns[of])) / share) - n for of, share in model.shares.items()]
    for law in model.laws:  # in whole numbers, as the kernel counts; whether it is 0 has a twin of its own
        codes = [code for code in columns[law.subject] if law.subject.null_counts or code != NULL]
        which, rows = np.unique(np.array(codes, dtype=np.int64), return_counts=True)
        laws = laws_of((law,), (law.subject,), n)
        short = shortage_by_group(laws, 0, np.array([0, len(which)]), which, rows, np.array([n]))
        wanted.append(whole_rows(int(short[0])))
    return max(wanted)


def rows_of(draw: Callable[..., Any], model: Model, max_rows: int = 12) -> np.ndarray:
    row = st.lists(st.integers(0, 3), min_size=len(model.subjects), max_size=len(model.subjects))
    rows = draw(st.lists(row, min_size=1, max_size=max_rows))
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(model.subjects))


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


def suppressed_at(data: Microdata, model: Model, node: Node) -> int:
    subjects = data.subjects(model.subjects)
    groups = groups_at(data, node).values()
    return sum(len(rows) for rows in groups if not obeys(model, subjects[rows]))


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


class Chosen(NamedTuple):
    """The attribute that lowers the NCP most, the children by first row (empty: stayed behind), and the remainder."""

    attribute: int
    children: list[list[int]]
    remainder: list[int]


def chosen_by_hand(
    data: Microdata, model: Model, members: list[int], levels: list[int]
) -> tuple[list[int], Chosen | None]:
    """The levels of a group once those at which all rows agree are taken, and how it is specialized, if it is."""
    levels = list(levels)
    for j in range(len(levels)):
        while levels[j] > 0 and len({said_at(data, j, levels[j] - 1, i) for i in members}) == 1:
            levels[j] -= 1
    most, best = 0.0, None
    for j in range(len(levels)):
        if levels[j] > 0:
            children, remainder = specialized(data, model, members, j, levels[j] - 1)
            fall = sum(len(c) * fall_of_ncp(data, j, levels[j], c[0]) for c in children if c)
            if fall > most:
                most, best = fall, Chosen(j, children, remainder)
    return levels, best


def said_at(data: Microdata, j: int, level: int, row: int) -> tuple[int, int]:
    """What an attribute says of a row at a level: its first cell and its last."""
    lo, hi = data.table.attributes[j].levels.recode(level, data.cells[[row], j])
    return int(lo[0]), int(hi[0])


def fall_of_ncp(data: Microdata, j: int, level: int, row: int) -> float:
    """By how much a row's NCP falls when attribute j goes one level down from `level`."""
    axis = data.space.of_one(j)
    above, below = (axis.ncp(*np.array(said_at(data, j, at, row)).reshape(2, 1, 1))[0] for at in (level, level - 1))
    return float(above - below)


def specialized(
    data: Microdata, model: Model, members: list[int], j: int, level: int
) -> tuple[list[list[int]], list[int]]:
    """The children by first row, and the remainder after it has taken back what it lacks."""
    subjects = data.subjects(model.subjects)
    by_value: dict[tuple[int, int], list[int]] = {}
    for i in members:
        by_value.setdefault(said_at(data, j, level, i), []).append(i)
    children = list(by_value.values())
    sizes, stands = [len(c) for c in children], [obeys(model, subjects[c]) for c in children]
    remainder = [i for c, stood in zip(children, stands, strict=True) if not stood for i in c]
    children = [c if stood else [] for c, stood in zip(children, stands, strict=True)]
    if not any(stands) or not remainder:
        return children, sorted(remainder, key=members.index)
    for c in sorted(range(len(children)), key=lambda c: (-sizes[c], c)):
        for i in list(children[c]):
            missing = lacking(model, subjects[remainder])
            without = [other for other in children[c] if other != i]
            if missing and lacking(model, subjects[[*remainder, i]]) < missing and obeys(model, subjects[without]):
                children[c] = without
                remainder.append(i)
    for c in sorted(range(len(children)), key=lambda c: (sizes[c], -c)):
        if stands[c] and lacking(model, subjects[remainder]):
            remainder += children[c]
            children[c] = []
    return children, sorted(remainder, key=members.index)
