"""Median Mondrian: under any model, against a plain recursion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.models import Model, k_anonymity
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.mondrian import MONDRIAN
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.kd import WIDE, data_of, groups_of
from worlds.microdata import MODELS, holding, microdata
from worlds.microdata import TABLES as BATCH_TABLES
from worlds.small_tables import CITIES, CITY, YEARS, table


def by_recursion(data: Microdata, model: Model, members: list[int]) -> list[list[int]]:
    """The rules of the module in plain Python."""
    here, subjects = data.cells[members], data.subjects(model.subjects)[members]
    width = data.space.ncp_terms(*data.space.box_of_cells(here)).tolist()
    for j in sorted(range(len(width)), key=lambda j: -width[j]):
        along = here[:, j].tolist()
        median = sorted(along)[(len(along) - 1) // 2]
        for at in (median, median - 1):
            below = np.array(along) <= at
            if model.holds(subjects[below]) and model.holds(subjects[~below]):
                lower, upper = np.array(members)[below].tolist(), np.array(members)[~below].tolist()
                return by_recursion(data, model, lower) + by_recursion(data, model, upper)
    return [members]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
@given(data=st.data(), small=st.sampled_from([*BATCH_TABLES.values(), WIDE]))
def test_the_groups_are_those_of_a_plain_recursion(model: Model, data: st.DataObject, small: Table) -> None:
    people = data.draw(microdata(small))
    recoding = holding(MONDRIAN, people, model)
    assert groups_of(recoding) == sorted(by_recursion(people, model, list(range(len(people)))))


def test_the_attribute_whose_node_or_interval_covers_most_of_its_domain_is_cut_first() -> None:
    # years 0 .. 5 are 5/9 of the domain; a1, b1 lie under west: 3 of 6 leaves; c1 beside them would make it the root
    a1, b1, c1 = (CITIES.code_of[leaf] for leaf in ("a1", "b1", "c1"))
    west = data_of(table(YEARS, CITY), [(0, a1), (5, a1), (0, b1), (5, b1)])
    assert groups_of(run(MONDRIAN, west, k_anonymity(2))) == [[0, 2], [1, 3]]
    everywhere = data_of(table(YEARS, CITY), [(0, a1), (5, a1), (0, c1), (5, c1)])
    assert groups_of(run(MONDRIAN, everywhere, k_anonymity(2))) == [[0, 1], [2, 3]]


def test_of_equally_wide_attributes_the_earlier_one_is_cut() -> None:
    square = data_of(table(YEARS, YEARS), [(0, 0), (0, 9), (9, 0), (9, 9)])
    assert groups_of(run(MONDRIAN, square, k_anonymity(2))) == [[0, 1], [2, 3]]


def test_the_median_goes_to_the_upper_half_where_the_lower_one_would_leave_too_few_above() -> None:
    crowd = data_of(table(YEARS), [(1,), (2,), (5,), (5,), (5,), (6,)])  # median 5: 5 | 1 rows, or 2 | 4
    assert groups_of(run(MONDRIAN, crowd, k_anonymity(2))) == [[0, 1], [2, 3, 4, 5]]


def test_the_next_attribute_is_cut_where_the_widest_one_allows_no_cut() -> None:
    lopsided = data_of(table(YEARS, YEARS), [(0, 1), (0, 2), (0, 3), (9, 4)])
    assert groups_of(run(MONDRIAN, lopsided, k_anonymity(2))) == [[0, 1], [2, 3]]


@given(data=st.data())
def test_strict_cuts_never_part_rows_of_one_cell(data: st.DataObject) -> None:
    people = data.draw(microdata(BATCH_TABLES["coarse number and category"]))
    recoding = holding(MONDRIAN, people, k_anonymity(2))
    where: dict[tuple[int, ...], int] = {}
    for cell, group in zip(map(tuple, people.cells.tolist()), recoding.qi_group.tolist(), strict=True):
        assert where.setdefault(cell, group) == group
