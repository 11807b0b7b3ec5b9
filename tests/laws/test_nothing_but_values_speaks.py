"""What a stream publishes is a function of cells, of who is one individual, and of published values, and chance.

Names of individuals and values inside their cells may be anything: with the same source keys and the same secret, the
same bytes come out, change by change. And what chance decides says nothing of the values that it was drawn for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from streamer.errors import EventRefused
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import Change, DeleteWhere, Insert, Modify, ModifyWhere, Upsert
from streamer.incremental.release.changelog import Changelog
from streamer.table.codes import CategoricalAttribute, NumericAttribute
from streamer.table.row import Row
from streamer.table.schema import Repair, Table
from worlds.core_arrays import halves, shard_of
from worlds.small_tables import AGE, BMI, CITY, FEW_LONG, YEARS, CodeIs, Shifted, changes, last_code, table

SECRET = b"of these tables."

HALVES_OF_A_LIFE = NumericAttribute("age", (Decimal(0), Decimal(99)), Decimal(50), Decimal(1), Decimal(20))
WIDE = {
    "coarse number and category": table(AGE, CITY, k=3),
    "two coarse numbers": table(HALVES_OF_A_LIFE, BMI, k=2),
    "coarse number and fine number, no shrink": table(AGE, YEARS, k=2, shrink=False),
    "individuals": table(AGE, CITY, k=2, individual="ssn"),
    "individuals in few cells": table(HALVES_OF_A_LIFE, k=2, individual="ssn"),
    "local repair": table(AGE, CITY, k=2, repair=Repair(0.01)),
    "local repair of individuals": table(AGE, BMI, k=2, individual="ssn", repair=Repair(0.01)),
}

Somewhere = Callable[[int, int], int]
"""Attribute and code -> a code in the same cell."""


@dataclass(frozen=True)
class IntoCode:
    """An assignment of one attribute."""

    attribute: int
    code: int

    def applied_to(self, row: Row) -> Row:
        codes = list(row.codes)
        codes[self.attribute] = self.code
        return structs.replace(row, codes=tuple(codes))


def moved(change: Change, small: Table, somewhere: Somewhere, names: Mapping[str, str]) -> Change:
    """The same change of other exact values and other names. What a statement compares are whole cells."""
    match change:
        case Insert() | Upsert():
            return structs.replace(change, row=moved_row(change.row, somewhere, names))
        case Modify():
            codes = {j: somewhere(j, code) for j, code in change.codes.items()}
            return structs.replace(change, codes=codes, individual=change.individual and names[change.individual])
        case DeleteWhere(condition=CodeIs() as condition):
            return replace(change, condition=whole_cells(condition, small))
        case ModifyWhere(condition=CodeIs() as condition, assignments=Shifted() as shifted):
            into = IntoCode(shifted.attribute, somewhere(shifted.attribute, 0))
            return replace(change, condition=whole_cells(condition, small), assignments=into)
    return change


def moved_row(row: Row, somewhere: Somewhere, names: Mapping[str, str]) -> Row:
    codes = tuple(somewhere(j, code) for j, code in enumerate(row.codes))
    exact = tuple(f"{text}, moved" for text in row.exact)
    return structs.replace(row, codes=codes, exact=exact, individual=row.individual and names[row.individual])


def whole_cells(condition: CodeIs, small: Table) -> CodeIs:
    per = small.attributes[condition.attribute].axis.codes_per_cell
    lowest, highest = condition.lowest // per * per, condition.highest // per * per + per - 1
    return CodeIs(condition.attribute, lowest, highest)


def anywhere_in_the_cell(small: Table, chance: random.Random) -> Somewhere:
    def somewhere(j: int, code: int) -> int:
        attribute = small.attributes[j]
        if isinstance(attribute, CategoricalAttribute):
            return code
        first = code // attribute.codes_per_cell * attribute.codes_per_cell
        return chance.randint(first, min(first + attribute.codes_per_cell - 1, last_code(small, j)))

    return somewhere


class Published:
    """An engine, and the records of each of its changes."""

    def __init__(self, small: Table, secret: bytes) -> None:
        self.engine = Engine(small, secret=secret)
        self._changelog = Changelog(small, 0)

    def after(self, change: Change) -> tuple[str, list[tuple[bytes, bytes | None]]]:
        """Why it was refused, and what is published."""
        reason = ""
        try:
            self.engine.apply(change)
        except EventRefused as refusal:
            reason = refusal.reason
        records = [record for group in self.engine.drain().published for record in self._changelog.diff(*group)[0]]
        return reason, [(record.key, record.value) for record in records]


@pytest.mark.parametrize("small", WIDE.values(), ids=WIDE)
@FEW_LONG
@given(data=st.data())
def test_names_and_exact_values_change_no_byte(small: Table, data: st.DataObject) -> None:
    people = ["ann", "bob", "cy", "dee", "eve", "fay"]
    names = dict(zip(people, data.draw(st.permutations(people)), strict=True))
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    stay, somewhere = (lambda j, code: code), anywhere_in_the_cell(small, chance)
    secret = data.draw(st.binary(min_size=16, max_size=16))
    one, other = Published(small, secret), Published(small, secret)
    for change in data.draw(st.lists(changes(small), min_size=20, max_size=60)):
        as_it_is = moved(change, small, stay, {name: name for name in people})
        assert one.after(as_it_is) == other.after(moved(change, small, somewhere, names))
        assert dict(one.engine.index_table()) == dict(other.engine.index_table())


@given(st.data(), st.integers(1, 4))
def test_where_a_group_is_cut_and_which_cells_go_where_no_lot_decides(data: st.DataObject, k: int) -> None:
    """Lots choose among rows of the same cells only."""
    small = table(HALVES_OF_A_LIFE, BMI, k=k)
    cells = np.array(data.draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=2 * k, max_size=20)))
    tie_hashes = [np.array(data.draw(st.permutations(range(len(cells))))) for _ in range(2)]
    cuts = [halves(shard_of(small, cells, drawn)) for drawn in tie_hashes]
    one, other = (sorted(sorted(cells[half].tolist()) for half in cut or ()) for cut in cuts)
    assert one == other != []


# -- what chance decides ----------------------------------------------------------------------------------------------

ONE_BOX = table(NumericAttribute("age", (Decimal(0), Decimal(49)), Decimal(50), Decimal(1), Decimal(10)), k=5)
ROWS = 200
AGES = [number * 50 // ROWS for number in range(ROWS)]

ORDERS: dict[str, Callable[[random.Random], list[int]]] = {
    "rising": lambda _: AGES,
    "falling": lambda _: AGES[::-1],
    "shuffled": lambda chance: chance.sample(AGES, ROWS),
}


def age_kept_less_age_given(ages: list[int], secret: bytes) -> list[float]:
    """Of every cut: the mean age of those who keep the number, less that of those who get a new one."""
    engine, before = Engine(ONE_BOX, secret=secret), dict[str, int]()
    differences = []
    age_of = {f"{number:03}": age for number, age in enumerate(ages)}
    for source_key, age in age_of.items():
        engine.apply(Insert(source_key, Row((age,), (b'"flu"',))))
        now = dict(engine.index_table())
        fresh = max(now.values())
        if before and fresh > max(before.values()) > 0:
            given = [age_of[key] for key, number in now.items() if number == fresh]
            was = next(before[key] for key, number in now.items() if number == fresh and key in before)
            kept = [age_of[key] for key, number in now.items() if number == was]
            differences.append(float(np.mean(kept) - np.mean(given)))
        before = now
    return differences


@pytest.mark.parametrize(
    "order", ["rising", *(pytest.param(one, marks=pytest.mark.night) for one in ("falling", "shuffled"))]
)
def test_of_two_groups_of_one_box_the_newer_number_says_nothing_of_ages(order: str) -> None:
    """660 cuts of groups that all publish [0, 49]: in half of them the older number keeps the older people."""
    differences = [
        difference
        for run in range(30)
        for difference in age_kept_less_age_given(ORDERS[order](random.Random(run)), b"run %d of these" % run)
    ]
    signs = np.sign(differences)
    assert np.count_nonzero(signs) > 600
    assert abs(signs.sum()) < 4 * np.sqrt(np.count_nonzero(signs))


def test_where_ages_come_in_no_order_numbers_say_nothing_of_them() -> None:
    """The mean correlation of number and age over 40 secrets has a deviation of 0.013."""
    correlations = []
    for run in range(40):
        ages = ORDERS["shuffled"](random.Random(run))
        engine = Engine(ONE_BOX, secret=b"run %d of these" % run)
        for number, age in enumerate(ages):
            engine.apply(Insert(f"{number:03}", Row((age,), (b'"flu"',))))
        numbers = [qi_group for _, qi_group in sorted(engine.index_table())]
        correlations.append(np.corrcoef(numbers, ages)[0, 1])
    assert abs(np.mean(correlations)) < 0.05
