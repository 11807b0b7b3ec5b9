"""The geometry of one quasi-identifier: codes, cells, published intervals, lengths and levels."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from streamer.errors import ConfigError
from streamer.table.codes import DATE, LOCAL_TIMESTAMP
from streamer.table.codes.attributes import NumericAttribute
from streamer.table.hierarchy import DoublingLevels, Hierarchy
from streamer.table.space import FINENESS, Space
from worlds.dates import temporal
from worlds.small_tables import AGE, BMI, CITY, YEARS

D = Decimal


def test_a_stepped_number_counts_steps_and_its_last_cell_is_clipped() -> None:
    """AGE: [1, 23] by fives."""
    assert (AGE.codes_per_cell, AGE.n_cells, AGE.width_codes) == (5, 5, 22)
    assert AGE.interval(0, 0) == (1, 5)
    assert AGE.interval(3, 4) == (16, 23)


def test_a_decimal_without_a_step_has_places_within_its_cells_and_is_published_by_its_edges() -> None:
    """BMI: [10, 12.5] by ones."""
    assert (BMI.codes_per_cell, BMI.n_cells, BMI.width_codes) == (FINENESS, 3, D("2.5") * FINENESS)
    assert BMI.interval(0, 0) == (10, 11)
    assert BMI.interval(0, 1) == (10, 12)
    assert BMI.interval(2, 2) == (12, D("12.5"))


def test_a_month_is_one_of_twelve_for_dates_as_for_timestamps() -> None:
    """In NCP, too: January costs what February costs, and neither 31 days."""
    for clock, last in ((DATE, "2020-12-31"), (LOCAL_TIMESTAMP, "2021-01-01")):
        space = Space([temporal("born", "2020-01-01", last, "1 month", clock).axis])
        of_months = [float(space.ncp(np.array([1]), np.array([1 + more]))) for more in (0, 2, 10)]
        assert of_months == pytest.approx([1 / 12, 3 / 12, 11 / 12], rel=1e-6)
    days = Space([temporal("born", "2020-01-01", "2020-12-31", "1 day").axis])
    assert float(days.ncp(np.array([0]), np.array([30]))) == pytest.approx(30 / 365)


def test_lengths_of_the_geometry_are_codes_and_leaves() -> None:
    age, city = AGE.axis, CITY.axis
    assert (age.width_codes, age.unit_codes, age.closed) == (22.0, 4.4, True)
    assert (city.width_codes, city.n_cells, city.codes_per_cell) == (6.0, 6, 1)
    assert not BMI.axis.closed


@pytest.mark.parametrize(
    ("ends", "grid", "cells"), [((0, 9), "1", 9), ((0, 9), "2", 5), ((5, 5), "1", 1), ((0, 10), "5", 2)]
)
def test_a_decimal_has_as_many_cells_as_its_domain_needs(ends: tuple[int, int], grid: str, cells: int) -> None:
    """A domain that ends on an edge has no cell of its own for the end."""
    attribute = NumericAttribute("x", (D(ends[0]), D(ends[1])), D(grid), None, D(1), integer=False)
    assert attribute.n_cells == cells
    assert attribute.interval(0, cells - 1) == ends


def test_an_integer_has_a_cell_for_its_last_value() -> None:
    assert YEARS.n_cells == 10


def test_a_number_without_a_hierarchy_is_recoded_by_doubling_its_cells() -> None:
    assert isinstance(AGE.levels, DoublingLevels)


def test_a_hierarchy_over_a_decimal_without_a_step_is_refused() -> None:
    named = replace(BMI, hierarchy=Hierarchy.from_rows([["10", "*"]]))
    with pytest.raises(ConfigError, match="give it a step"):
        _ = named.levels
