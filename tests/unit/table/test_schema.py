"""A table as values: its geometry, and the fingerprint that says whether two tables may share a state."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from streamer.errors import ConfigError
from streamer.table.hierarchy import Hierarchy
from streamer.table.levels import DoublingLevels
from streamer.table.schema import (
    CategoricalAttribute,
    Diversity,
    KeptColumn,
    Limits,
    NumericAttribute,
    Rebuilding,
    Table,
)
from streamer.table.space import FINENESS
from worlds.small_tables import AGE, BMI, CITIES, CITY, PROBLEM, YEARS

D = Decimal
PEOPLE = Table("people", ("id",), (AGE, CITY, BMI), (PROBLEM, KeptColumn("ward", sensitive=False)), k=3)


def test_a_stepped_number_counts_steps_and_its_last_cell_is_clipped() -> None:
    """AGE: [1, 23] by fives."""
    assert (AGE.codes_per_cell, AGE.n_cells, AGE.width_codes) == (5, 5, 22)
    assert AGE.interval(0, 0) == (1, 5)
    assert AGE.interval(3, 4) == (16, 23)


def test_a_decimal_without_a_step_has_places_within_its_cells_and_is_published_by_its_edges() -> None:
    """BMI: [10, 12.5] by ones."""
    assert (BMI.codes_per_cell, BMI.n_cells, BMI.width_codes) == (FINENESS, 3, D("2.5") * FINENESS)
    assert BMI.interval(0, 0) == (10, 11)
    assert BMI.interval(2, 2) == (12, D("12.5"))


def test_lengths_of_the_geometry_are_codes_and_leaves() -> None:
    age, city = AGE.axis, CITY.axis
    assert (age.width_codes, age.unit_codes, age.closed) == (22.0, 4.4, True)
    assert (city.width_codes, city.n_cells, city.codes_per_cell) == (6.0, 6, 1)
    assert not BMI.axis.closed


def test_a_number_without_a_hierarchy_is_recoded_by_doubling_its_cells() -> None:
    assert isinstance(AGE.levels, DoublingLevels)


def test_a_hierarchy_over_a_decimal_without_a_step_is_refused() -> None:
    named = replace(BMI, hierarchy=Hierarchy.from_rows([["10", "*"]]))
    with pytest.raises(ConfigError, match="give it a step"):
        _ = named.levels


def test_columns_are_numbered_in_the_order_of_the_table() -> None:
    assert PEOPLE.stepless == (2,)
    assert PEOPLE.sensitive == (0,)
    assert PEOPLE.space.d == 3


def test_a_demand_beside_k_is_true_and_none_is_false() -> None:
    assert not Diversity()
    assert not Diversity(level=2, null_counts=True)
    assert Diversity(beta=D("0.5"))


OTHER_CITIES = Hierarchy.from_rows([["a1", "*"], ["b1", "*"]])
DIFFERENT = {
    "another key": replace(PEOPLE, source_key=("ssn",)),
    "individuals": replace(PEOPLE, individual="ssn"),
    "another k": replace(PEOPLE, k=4),
    "diversity": replace(PEOPLE, diversity=Diversity(l=2)),
    "rows without a mark": replace(PEOPLE, input_rows=True),
    "decimals that are text": replace(PEOPLE, decimals_are_text=True),
    "no recut": replace(PEOPLE, recut=False),
    "no shrink": replace(PEOPLE, shrink=False),
    "local repair": replace(PEOPLE, repair=0.05),
    "another order": replace(PEOPLE, attributes=(CITY, AGE, BMI)),
    "a wider domain": replace(PEOPLE, attributes=(replace(AGE, domain=(D(1), D(24))), CITY, BMI)),
    "another grid": replace(PEOPLE, attributes=(replace(AGE, grid=D(6)), CITY, BMI)),
    "another unit": replace(PEOPLE, attributes=(replace(AGE, unit=D(5)), CITY, BMI)),
    "a null that counts": replace(PEOPLE, attributes=(replace(AGE, null_code=0), CITY, BMI)),
    "another hierarchy": replace(PEOPLE, attributes=(AGE, CategoricalAttribute("city", OTHER_CITIES, D("1.2")), BMI)),
    "a kept column less": replace(PEOPLE, kept=(PROBLEM,)),
    "a typed column": replace(PEOPLE, kept=(replace(PROBLEM, type="text"), PEOPLE.kept[1])),
}


@pytest.mark.parametrize("other", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_tables_whose_states_mean_different_things_have_different_fingerprints(other: Table) -> None:
    assert other.fingerprint != PEOPLE.fingerprint


def test_whether_nulls_count_belongs_to_the_fingerprint() -> None:
    one, other = (replace(PEOPLE, diversity=Diversity(l=2, null_counts=counts)) for counts in (False, True))
    assert one.fingerprint != other.fingerprint


def test_another_local_repair_is_another_state_only_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    prices = (0.0, 0.05)
    before = [replace(PEOPLE, repair=price).fingerprint for price in prices]
    monkeypatch.setattr("streamer.table.schema.REPAIR_VERSION", 999)
    after = [replace(PEOPLE, repair=price).fingerprint for price in prices]
    assert (after[0] == before[0], after[1] == before[1]) == (True, False)


def test_the_same_table_has_the_same_fingerprint_whatever_its_name_and_however_fast_it_steps() -> None:
    again = Table("others", ("id",), (AGE, CITY, BMI), PEOPLE.kept, k=3)
    assert again.fingerprint == PEOPLE.fingerprint
    assert replace(PEOPLE, limits=Limits(batch_events_max=7)).fingerprint == PEOPLE.fingerprint
    assert replace(PEOPLE, rebuilding=Rebuilding("emp", 60, None)).fingerprint == PEOPLE.fingerprint


def test_the_contents_of_a_hierarchy_decide_and_not_who_read_it() -> None:
    again = Hierarchy.from_rows(
        [["a1", "a", "west", "*"], ["a2", "a", "west", "*"], ["b1", "b", "west", "*"], ["c1", "east", "*"],
         ["c2", "east", "*"], ["d1", "*"]]
    )  # fmt: skip
    same = replace(PEOPLE, attributes=(AGE, CategoricalAttribute("city", again, CITY.unit), BMI))
    assert again is not CITIES
    assert same.fingerprint == PEOPLE.fingerprint


@pytest.mark.parametrize(("ends", "grid", "cells"), [((0, 9), "1", 9), ((0, 9), "2", 5), ((5, 5), "1", 1)])
def test_a_decimal_has_as_many_cells_as_its_domain_needs(ends: tuple[int, int], grid: str, cells: int) -> None:
    """A domain that ends on an edge has no cell of its own for the end."""
    attribute = NumericAttribute("x", (D(ends[0]), D(ends[1])), D(grid), None, D(1), integer=False)
    assert attribute.n_cells == cells


def test_an_integer_has_a_cell_for_its_last_value() -> None:
    assert YEARS.n_cells == 10
