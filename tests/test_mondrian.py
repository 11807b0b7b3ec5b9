"""Median Mondrian: under any model, against a plain recursion; the initial load, and the baseline of the drift."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_world import MODELS, holding, microdata
from batch_world import TABLES as BATCH_TABLES
from kd_world import WIDE, data_of, groups_of
from small_tables import CITIES, CITY, TABLES, YEARS, codes_of, table
from streamer.algorithms.catalog import run
from streamer.algorithms.mondrian import MONDRIAN, median_mondrian
from streamer.groups.cut import best_cut
from streamer.privacy.models import Model, k_anonymity
from streamer.table.microdata import Microdata
from streamer.table.schema import Table


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
def test_the_groups_are_those_of_a_plain_recursion(model: Model, data, small: Table) -> None:
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


@st.composite
def people(draw: st.DrawFn, small: Table) -> tuple[np.ndarray, list[str], list[str] | None]:
    codes = np.array(draw(st.lists(codes_of(small), min_size=1, max_size=60)), dtype=np.int64)
    keys = [f"p{i:02}" for i in draw(st.permutations(range(len(codes))))]
    who = None if small.individual is None else draw(st.lists(st.sampled_from("abcdefgh"), min_size=60))[: len(codes)]
    return codes, keys, who


def count(members: np.ndarray, who: list[str] | None) -> int:
    return len(members) if who is None else len({who[i] for i in members})


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@given(data=st.data(), relaxed=st.booleans())
def test_every_row_is_in_exactly_one_group_and_every_group_holds_k(small: Table, data, relaxed: bool) -> None:
    codes, keys, who = data.draw(people(small))
    groups = median_mondrian(small.space, codes, keys, who, small.k, relaxed=relaxed)
    if count(np.arange(len(codes)), who) < small.k:
        assert groups == []
        return
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(codes)))
    assert all(count(members, who) >= small.k for members in groups)


@given(data=st.data())
def test_relaxed_cuts_leave_no_group_of_2k_rows(data) -> None:
    small = TABLES["coarse number and category"]
    codes, keys, who = data.draw(people(small))
    groups = median_mondrian(small.space, codes, keys, who, small.k, relaxed=True)
    assert all(len(members) < 2 * small.k for members in groups)


@given(data=st.data())
def test_strict_cuts_never_part_rows_of_one_cell(data) -> None:
    small = TABLES["coarse number and category"]
    codes, keys, who = data.draw(people(small))
    where: dict[tuple, int] = {}
    for number, members in enumerate(median_mondrian(small.space, codes, keys, who, small.k, relaxed=False)):
        for cell in map(tuple, small.space.cells(codes[members]).tolist()):
            assert where.setdefault(cell, number) == number


@given(data=st.data(), relaxed=st.booleans())
def test_the_order_of_the_rows_does_not_matter(data, relaxed: bool) -> None:
    small = TABLES["decimal, number, category"]
    codes, keys, who = data.draw(people(small))
    order = np.array(data.draw(st.permutations(range(len(codes)))))
    one = median_mondrian(small.space, codes, keys, who, small.k, relaxed=relaxed)
    other = median_mondrian(small.space, codes[order], [keys[i] for i in order], who, small.k, relaxed=relaxed)
    assert [{keys[i] for i in members} for members in one] == [{keys[order[i]] for i in members} for members in other]


def test_identical_rows_are_cut_into_groups_of_k_in_the_order_of_their_keys() -> None:
    codes = np.zeros((11, 1), dtype=np.int64)
    keys = [f"p{i:02}" for i in range(11)][::-1]
    groups = median_mondrian(table(YEARS).space, codes, keys, None, 3, relaxed=True)
    assert [sorted(keys[i] for i in members) for members in groups] == [
        ["p00", "p01", "p02"],
        ["p03", "p04", "p05"],
        ["p06", "p07", "p08", "p09", "p10"],
    ]


def test_the_short_way_for_identical_rows_is_what_repeated_cuts_give() -> None:
    space, k = table(YEARS, CITY).space, 2
    codes = np.full((13, 2), 3, dtype=np.int64)
    keys = [f"p{i}" for i in range(13)]
    rest, peeled = np.arange(13), []
    while (cut := best_cut(space, codes[rest], [keys[i] for i in rest], None, k)) is not None:
        peeled.append(set(rest[cut[0]].tolist()))
        rest = rest[cut[1]]
    groups = median_mondrian(space, codes, keys, None, k, relaxed=True)
    assert [set(members.tolist()) for members in groups] == [*peeled, set(rest.tolist())]


def test_a_cut_keeps_the_records_of_one_individual_with_one_qi_together() -> None:
    space = table(YEARS).space
    codes = np.array([[1], [1], [1], [1], [1], [1]])
    keys, who = ["a1", "b1", "a2", "c1", "b2", "d1"], ["ann", "bob", "ann", "cy", "bob", "dee"]
    lower, upper = best_cut(space, codes, keys, who, 2)
    assert {who[i] for i in lower} == {"ann", "bob"}
    assert {who[i] for i in upper} == {"cy", "dee"}


def test_no_cut_is_allowed_where_a_half_would_hold_fewer_than_k_individuals() -> None:
    space = table(YEARS).space
    codes = np.array([[1], [2], [3], [4]])
    assert best_cut(space, codes, ["a", "b", "c", "d"], ["ann", "ann", "bob", "cy"], 2) is None


def test_the_cheapest_cut_wins_over_all_attributes_then_the_earlier_one_then_the_lower_place() -> None:
    space = table(YEARS, YEARS).space
    codes = np.array([[0, 0], [0, 9], [9, 0], [9, 9]])
    lower, _ = best_cut(space, codes, ["a", "b", "c", "d"], None, 2)
    assert sorted(lower.tolist()) == [0, 1]  # both attributes cost the same: the first is cut
    codes = np.array([[0, 0], [5, 0], [4, 9], [9, 9]])
    lower, _ = best_cut(space, codes, ["a", "b", "c", "d"], None, 2)
    assert sorted(lower.tolist()) == [0, 1]  # along the second attribute: 0, 0 | 9, 9
