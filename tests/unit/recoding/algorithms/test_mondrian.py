"""Median Mondrian: under any model, against a plain recursion."""

from __future__ import annotations

from math import log2

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.privacy.models import Model, k_anonymity
from streamer.recoding.algorithms.catalog import run
from streamer.recoding.algorithms.mondrian import EMP, MONDRIAN, ONE, distinct, split_value, tree_of, weights_up_to
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from worlds.microdata import TABLES, WIDE, data_of, every_model, groups_of, holding, microdata
from worlds.small_tables import CITIES, CITY, YEARS, table

any_table = st.sampled_from([*TABLES.values(), WIDE])


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


@every_model
@given(data=st.data(), small=any_table)
def test_the_groups_are_those_of_a_plain_recursion(model: Model, data: st.DataObject, small: Table) -> None:
    people = data.draw(microdata(small))
    recoding = holding(MONDRIAN, people, model)
    assert groups_of(recoding) == sorted(by_recursion(people, model, list(range(len(people)))))


def test_the_attribute_whose_node_or_interval_covers_most_of_its_domain_is_cut_first() -> None:
    # years 0 .. 5 are 5/9 of the domain; a1, b1 lie under west: 3 of 6 leaves; c1 in addition would make it the root
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
    people = data.draw(microdata(TABLES["coarse number and category"]))
    recoding = holding(MONDRIAN, people, k_anonymity(2))
    where: dict[tuple[int, ...], int] = {}
    for cell, group in zip(map(tuple, people.cells.tolist()), recoding.qi_group.tolist(), strict=True):
        assert where.setdefault(cell, group) == group


# EMP: cut where the halves stay most diverse; entropies worked out by hand, and a plain recursion.


def entropy_by_recursion(data: Microdata, model: Model, members: list[int]) -> list[list[int]]:
    """The rules of the module in plain Python."""
    if len(members) < 2 * model.rows_min:
        return [members]
    here, subjects = data.cells[members], data.subjects(model.subjects)[members]
    columns = [here[:, j].tolist() for j in range(data.space.d)]
    for along in sorted(columns, key=weight):
        best: tuple[float, np.ndarray] | None = None
        for at in walked(along):
            below = np.array(along) <= at
            holds = model.holds(subjects[below]) and model.holds(subjects[~below])
            if holds and (best is None or entropies(along, at) > best[0]):
                best = entropies(along, at), below
        if best is not None:
            lower, upper = (np.array(members)[side].tolist() for side in (best[1], ~best[1]))
            return entropy_by_recursion(data, model, lower) + entropy_by_recursion(data, model, upper)
    return [members]


def weight(along: list[int]) -> int:
    """Sum of c * log2(c) over the counts, in units: the lower, the higher the entropy of as many rows."""
    return sum(unit_weight(along.count(cell)) for cell in set(along))


def unit_weight(count: int) -> int:
    return round(count * log2(count) * ONE)


def entropies(along: list[int], at: int) -> float:
    halves = [c for c in along if c <= at], [c for c in along if c > at]
    return sum((unit_weight(len(half)) - weight(half)) / len(half) for half in halves)


def walked(along: list[int]) -> list[int]:
    """Split values in the order of the walk: from the start down, from the start up."""
    cells = sorted(set(along))
    if len(cells) == 1:
        return []
    start = min(len(cells) // 2, len(cells) - 2)
    found = []
    for way in (cells[start::-1], cells[start:-1]):
        before = -1.0
        for at in way:
            if entropies(along, at) < before:
                break
            before = entropies(along, at)
            found.append(at)
    return found


@every_model
@given(data=st.data(), small=any_table)
def test_entropy_the_groups_are_those_of_a_plain_recursion(model: Model, data: st.DataObject, small: Table) -> None:
    people = data.draw(microdata(small))
    recoding = holding(EMP, people, model)
    assert groups_of(recoding) == sorted(entropy_by_recursion(people, model, list(range(len(people)))))


def value_split_at(years: list[int], k: int) -> int | None:
    """Where EMP cuts rows of these years; None where it may not."""
    along, rows = np.array(years), np.arange(len(years))
    tree = tree_of(np.array(years)[:, None], k_anonymity(k), np.empty((len(years), 0), dtype=np.int64))
    n_values = distinct(along, tree.values)
    found = split_value(weights_up_to(len(years)), tree.counting, rows, along, tree.values, n_values)
    return None if found < 0 else int(found)


def rows_of(*counts: int) -> list[int]:
    """Years 1, 2, 3 ..., each as often as said."""
    return [year for year, count in enumerate(counts, start=1) for _ in range(count)]


def test_the_split_value_walks_down_from_the_median_to_the_most_diverse_halves() -> None:
    # Four distinct values: index floor(4 / 2) = 2, so the walk starts at 3.
    #   <= 3: H(1/3, 1/3, 1/3) + H(1) = 1.585 + 0 = 1.585
    #   <= 2: H(1/2, 1/2) + H(1/2, 1/2) = 1 + 1 = 2, larger: go on
    #   <= 1: H(1) + H(1/3, 1/3, 1/3) = 1.585, it falls: stop. Upwards from 3 no row would be left above.
    assert value_split_at(rows_of(2, 2, 2, 2), k=3) == 2


def test_the_split_value_walks_up_where_that_is_more_diverse() -> None:
    # Seven distinct values: the walk starts at 4.
    #   <= 4: H(5/8, 1/8, 1/8, 1/8) + H(5/7, 1/7, 1/7) = 1.549 + 1.149 = 2.697
    #   <= 3: the same two halves the other way round, it does not fall: go on
    #   <= 2: H(5/6, 1/6) + H(1/9, 1/9, 5/9, 1/9, 1/9) = 0.650 + 1.880 = 2.530, it falls: stop
    #   <= 5: H(5/13, 1/13, 1/13, 1/13, 5/13) + H(1/2, 1/2) = 1.914 + 1 = 2.914, larger: go on
    #   <= 6: H(5/14, 1/14, 1/14, 1/14, 5/14, 1/14) + H(1) = 2.149, it falls: stop
    assert value_split_at(rows_of(5, 1, 1, 1, 5, 1, 1), k=2) == 5


def test_the_median_stays_where_both_ways_fall() -> None:
    # Five distinct values: the walk starts at 3.
    #   <= 3: H(4/6, 1/6, 1/6) + H(1/2, 1/2) = 1.252 + 1 = 2.252
    #   <= 2: H(4/5, 1/5) + H(1/5, 2/5, 2/5) = 0.722 + 1.522 = 2.244;  <= 4: H(4/8, 1/8, 1/8, 2/8) + H(1) = 1.750
    assert value_split_at(rows_of(4, 1, 1, 2, 2), k=2) == 3


def test_of_equally_diverse_halves_those_at_the_start_are_taken() -> None:
    # Three distinct values: the walk starts at 2.
    #   <= 2: H(4/5, 1/5) + H(1) = 0.722;  <= 1: H(1) + H(1/5, 4/5) = 0.722, the same.
    assert value_split_at(rows_of(4, 1, 4), k=4) == 2


def test_of_two_values_the_lower_one_is_the_split_value() -> None:
    assert value_split_at(rows_of(2, 2), k=2) == 1


def test_a_more_diverse_split_below_k_gives_way_to_the_best_one_that_holds() -> None:
    # The walk starts at 3.
    #   <= 3: H(1/6, 1/6, 4/6) + H(1) = 1.252, six and four rows
    #   <= 2: H(1/2, 1/2) + H(1/2, 1/2) = 2, but two rows are fewer than k;  <= 1: H(1/9, 4/9, 4/9) = 1.392 falls.
    assert value_split_at(rows_of(1, 1, 4, 4), k=2) == 2
    assert value_split_at(rows_of(1, 1, 4, 4), k=4) == 3


def test_a_split_value_that_was_not_walked_over_is_not_taken() -> None:
    # The walk starts at 3.
    #   <= 3: log2(3) + H(1/5, 4/5) = 1.585 + 0.722 = 2.307, three rows, fewer than k
    #   <= 2: 1 + H(1/6, 1/6, 4/6) = 2.252 falls;  <= 4: H(4 x 1/4) + H(1) = 2 falls, though both halves would hold.
    assert value_split_at(rows_of(1, 1, 1, 1, 4), k=4) is None


def test_the_halves_are_cut_again_by_the_same_rule() -> None:
    # <= 2, as above; then each half of two values at the lower one
    years = data_of(table(YEARS), [(year,) for year in rows_of(2, 2, 2, 2)])
    assert groups_of(run(EMP, years, k_anonymity(3))) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert groups_of(run(EMP, years, k_anonymity(2))) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_fewer_than_2k_rows_are_not_cut() -> None:
    years = data_of(table(YEARS), [(1,), (1,), (1,), (2,), (2,)])
    assert groups_of(run(EMP, years, k_anonymity(3))) == [[0, 1, 2, 3, 4]]


def test_the_attribute_of_highest_entropy_is_cut_not_the_widest() -> None:
    # first attribute: 0 seven times and 9 once, H = 0.544; second: 4 and 5 four times each, H = 1
    rows = [(0, 4), (0, 5)] * 3 + [(0, 4), (9, 5)]
    found = groups_of(run(EMP, data_of(table(YEARS, YEARS), rows), k_anonymity(4)))
    assert found == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_of_attributes_of_one_entropy_the_earlier_is_cut_whatever_the_order_of_their_counts() -> None:
    # counts 3, 1, 2 and 2, 1, 3 of six rows: one entropy. First attribute:
    #   <= 2: H(3/4, 1/4) + H(1) = 0.811;  <= 1: H(1) + H(1/3, 2/3) = 0.918. The second one would part 4, 5 from 6.
    rows = [(1, 4), (1, 6), (1, 6), (2, 4), (3, 5), (3, 6)]
    assert weight([first for first, _ in rows]) == weight([second for _, second in rows])
    found = groups_of(run(EMP, data_of(table(YEARS, YEARS), rows), k_anonymity(2)))
    assert found == [[0, 1, 2], [3, 4, 5]]
    found = groups_of(run(EMP, data_of(table(YEARS, YEARS), [row[::-1] for row in rows]), k_anonymity(2)))
    assert found == [[0, 3, 4], [1, 2, 5]]


def test_the_next_attribute_is_cut_where_the_first_one_allows_no_cut() -> None:
    # first attribute as in the example that is not cut, H = 2; second: two values, H = 1
    rows = [(1, 0), (2, 1), (3, 0), (4, 1), (5, 0), (5, 1), (5, 0), (5, 1)]
    found = groups_of(run(EMP, data_of(table(YEARS, YEARS), rows), k_anonymity(4)))
    assert found == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_weights_are_what_entropies_are_made_of() -> None:
    weights = weights_up_to(100)
    assert weights[:3].tolist() == [0, 0, 2 * ONE]
    assert np.abs(weights[2:] / ONE - [c * log2(c) for c in range(2, 101)]).max() <= 0.5 / ONE
