"""Median Mondrian: the initial load, and the baseline of the drift."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_tables import CITY, TABLES, YEARS, codes_of, table
from streamer.algorithms.mondrian import median_mondrian
from streamer.groups.cut import best_cut
from streamer.table.schema import Table


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
