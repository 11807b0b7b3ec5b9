"""Repairs after a change: groups below k merge, groups of 2k are cut, rows change groups."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.errors import LawViolated
from streamer.incremental.core.layout import NONE, REWRITE
from streamer.incremental.core.repair import (
    ROWS_TOGETHER,
    SPENT_PER_K,
    cheapest_group,
    move_cost,
    ncp_without,
    repair_event,
    set_edges,
)
from streamer.incremental.core.tree import precedes, take_out
from streamer.table.schema import Repair, Table
from worlds.boxes import SPACES, ShardBoxes, random_box, random_cells
from worlds.core_arrays import CoreTable
from worlds.engine_tables import OF_PEOPLE, OF_TWO
from worlds.small_tables import AGE, YEARS, asking, table
from worlds.twin import shuffled

# The QI group that takes a row at least cost is that of a scan, to the last bit; and only edges are missed.

ROW = 0
"""The index of the row that is asked about."""


def world_of(name: str, n_groups: int, random: np.random.Generator) -> ShardBoxes:
    """Random boxes of two rows and more, some of which were set in this event."""
    world = ShardBoxes(SPACES[name])
    world.s.state[0].price = float(random.choice([0.001, 0.1, 1.0]))
    for number in range(1, n_groups + 1):
        lo, hi = random_box(random, world.space)
        world.put(number, lo.tolist(), hi.tolist(), int(random.integers(2, 5)))
        group = world.s.groups.group[world.indexes[number]]
        group.box_event, group.count = int(random.integers(0, 2)), group.members
    return world


def best_of_scan(world: ShardBoxes, cells: np.ndarray, but: int) -> tuple[int, float]:
    best, least = NONE, inf
    for g in world.indexes.values():
        cost = move_cost(world.s, cells, g)
        if g != but and (cost < least or (cost == least and precedes(world.s.groups, g, best))):
            best, least = g, cost
    return best, least


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), name=st.sampled_from(sorted(SPACES)), n_groups=st.integers(2, 60))
def test_the_least_cost_is_found(seed: int, name: str, n_groups: int) -> None:
    random = np.random.default_rng(seed)
    world = world_of(name, n_groups, random)
    for _ in range(5):
        cells, but = (
            random_cells(random, world.space).astype(np.int32),
            world.indexes[int(random.integers(1, n_groups + 1))],
        )
        best, least = best_of_scan(world, cells, but)
        world.s.rows.cells[ROW], world.s.rows.row[ROW].group = cells, but
        assert (cheapest_group(world.s, ROW, inf), world.s.state[0].cost) == (best, least)
        assert cheapest_group(world.s, ROW, least) == best
        assert cheapest_group(world.s, ROW, np.nextafter(least, -inf)) == NONE


@pytest.mark.parametrize("years", [(3, 3), (1, 9), (1, 1, 9), (5, 2, 9, 9), (4, 1, 7, 2, 9)])
def test_ncp_without_a_row_is_that_of_the_others(years: tuple[int, ...]) -> None:
    world = CoreTable(table(AGE, k=2, repair=Repair(0.1)))
    world.form(*(year // 2 for year in years))
    set_edges(world.s, 0)
    for index in world.members(1):
        others = CoreTable(table(AGE, k=2))
        others.form(*(int(world.s.rows.cells[other, 0]) for other in world.members(1) if other != index))
        assert ncp_without(world.s, world.s.rows.cells[index]) == others.s.groups.group[0].ncp


# A QI group and a neighbour across which it lies are cut afresh, where that saves more than its price.


def repaired(*groups: tuple[int, ...], price: float = 0.05, k: int = 2) -> CoreTable:
    """QI groups of these years, numbered from 1, under local repair."""
    return CoreTable.of(table(YEARS, k=k, repair=Repair(price)), *groups)


def test_groups_that_lie_across_each_other_are_cut_afresh() -> None:
    world = repaired((0, 9), (1, 8))
    world.rewrite(0, 1)
    assert sorted(world.cells_by_number().values()) == [[1, 1], [8, 9]]
    assert sorted((world.box(1), world.box(2))) == [(1, 1), (8, 9)]
    assert (world.core.field("merges"), world.core.field("splits")) == (0, 0)


@pytest.mark.parametrize(
    ("others", "halves"), [((1, 1, 8), {1: [8, 9], 2: [1, 1, 1]}), ((0, 0, 8), {1: [8, 9], 2: [0, 0, 1]})]
)
def test_the_larger_half_goes_by_the_number_of_the_larger_group(
    others: tuple[int, ...], halves: dict[int, list[int]]
) -> None:
    world = repaired((0, 9), others)
    world.rewrite(0, 1)
    assert world.cells_by_number() == halves


def test_they_stay_where_what_it_saves_is_not_worth_what_is_published_again() -> None:
    world = repaired((0, 9), (1, 8), price=2)
    world.rewrite(0, 1)
    assert world.cells_by_number() == {1: [1, 9], 2: [1, 8]}


def test_of_the_neighbours_that_with_which_most_is_saved_is_taken_and_not_the_nearest() -> None:
    world = repaired((1, 9), (4, 6), (0, 8))
    world.rewrite(0, 2)
    assert world.cells(2) == [4, 6]
    assert sorted(world.cells_by_number().values()) == [[0, 2], [4, 6], [8, 9]]


def test_a_half_of_2k_is_cut_again() -> None:
    world = repaired((4, 9), (0, 0, 1, 2, 9))
    world.rewrite(0, 3)
    assert sorted(world.cells_by_number().values()) == [[0, 0, 1], [2, 3], [9, 9]]
    assert world.core.field("splits") == 1


@pytest.mark.parametrize(("rows", "groups"), [(ROWS_TOGETHER, 3), (ROWS_TOGETHER + 1, 2)])
def test_groups_that_have_too_many_rows_together_are_left_alone(rows: int, groups: int) -> None:
    """Cut afresh, the larger half is cut up."""
    world = repaired((0, 9), (1, 8) * ((rows - 2) // 2) + (8,) * (rows % 2))
    world.rewrite(0, 1)
    assert (len(world.numbers()) >= groups) is True
    assert (world.cells(1) == [1, 9]) is (groups == 2)


# Rows change QI groups where that saves more than the price of the rows that are published again for it.

TWO_KINDS, HALF_AT_MOST = asking(YEARS, l=2), asking(YEARS, beta="0.5")


def test_a_group_one_short_of_k_takes_the_row_that_costs_least_from_a_group_that_can_lose_one() -> None:
    world = repaired((0, 1), (2, 8, 9), (5, 5))
    world.take(0)
    assert world.cells_by_number() == {1: [1, 2], 2: [8, 9], 3: [5, 5]}
    assert (world.box(1), world.box(2)) == ((1, 2), (8, 9))
    assert (world.core.field("merges"), world.core.field("splits")) == (0, 0)


def test_where_no_group_can_lose_a_row_it_merges() -> None:
    world = repaired((0, 1), (8, 9))
    world.take(0)
    assert (world.cells_by_number(), world.core.field("merges")) == ({2: [1, 8, 9]}, 1)


def test_a_group_that_is_short_of_more_than_one_merges() -> None:
    world = repaired((0, 1, 1), (3, 4, 5, 5), k=3)
    world.take(0, 1)
    assert (world.cells_by_number(), world.core.field("merges")) == ({2: [1, 3, 4, 5, 5]}, 1)


@pytest.mark.parametrize("price", [0.05, 0.2, 100])
def test_no_edge_of_a_box_is_left_of_a_row_that_is_gone_whatever_that_publishes_again(price: float) -> None:
    deleted, moved = repaired((0, 1, 2), price=price), repaired((0, 1, 2), (7, 7), price=price)
    deleted.take(0)
    moved.rewrite(0, 7)
    assert deleted.box(1) == moved.box(1) == (1, 2)


def test_a_row_that_changes_within_its_box_takes_the_edge_along() -> None:
    world = repaired((0, 1, 2), price=100)
    world.rewrite(0, 1)
    assert world.box(1) == (1, 2)


def test_the_group_that_gives_a_row_away_keeps_no_edge_of_it() -> None:
    world = repaired((0, 1), (2, 8, 9), price=2)
    world.take(0)
    assert world.cells_by_number() == {1: [1, 2], 2: [8, 9]}
    assert world.box(2) == (8, 9)


def test_of_rows_as_near_the_one_inside_the_box_is_taken_where_records_are_dear() -> None:
    """Without it the box stays, and one or two records are published for it instead of all."""
    world = repaired((5, 5), (0, 4, 4, 4, 5, 6), price=1)
    world.take(0)
    assert world.cells_by_number() == {1: [5, 5], 2: [0, 4, 4, 4, 6]}
    assert world.box(2) == (0, 6)


def test_a_touched_group_evicts_the_row_that_makes_it_wide() -> None:
    world = repaired((0, 1, 9), (8, 8))
    world.rewrite(1, 0)
    assert world.cells_by_number() == {1: [0, 0], 2: [8, 8, 9]}
    assert (world.box(1), world.box(2)) == ((0, 0), (8, 9))


@pytest.mark.parametrize("years", [(1, 4, 9), (9, 4, 1)])
def test_of_two_rows_that_gain_the_same_the_one_of_lower_cells_goes(years: tuple[int, ...]) -> None:
    """Both could join a group that is published again anyway, and loses nothing by it."""
    world = repaired(years, (0, 1), (8, 9))
    world.run(*[(REWRITE, index, year, "flu", NONE) for index, year in ((1, 5), (3, 1), (5, 9))])
    assert world.cells_by_number() == {1: [5, 9], 2: [1, 1, 1], 3: [9, 9]}


def test_nobody_is_evicted_from_a_group_of_k() -> None:
    world = repaired((0, 9), (8, 8, 8), price=100)
    world.rewrite(0, 1)
    assert world.cells_by_number() == {1: [1, 9], 2: [8, 8, 8]}


def test_a_row_stays_where_what_it_saves_is_not_worth_what_is_published_again() -> None:
    world = repaired((0, 1, 9), (8, 8), price=1)
    world.rewrite(1, 0)
    assert world.cells_by_number() == {1: [0, 0, 9], 2: [8, 8]}


def test_groups_that_the_event_has_not_touched_are_left_alone() -> None:
    world = repaired((0, 1, 9), (8, 8), (3, 4, 4))
    world.rewrite(6, 4)
    assert world.cells(1) == [0, 1, 9]


def test_a_group_dissolves_where_its_rows_are_better_off_elsewhere_and_its_number_is_gone() -> None:
    world = repaired((0, 0), (9, 9), (1, 9))
    world.rewrite(4, 2)
    assert world.cells_by_number() == {1: [0, 0, 2], 2: [9, 9, 9]}


def test_a_group_of_2k_that_came_of_it_is_cut_with_the_number_that_was_freed() -> None:
    world = repaired((0, 0, 0), (9, 9), (1, 9))
    world.rewrite(5, 2)
    assert sorted(world.cells_by_number().items()) == [(1, [0, 0]), (2, [9, 9, 9]), (3, [0, 2])] or (
        world.cells_by_number() == {1: [0, 2], 2: [9, 9, 9], 3: [0, 0]}
    )


def test_an_event_that_has_published_enough_repairs_no_more() -> None:
    world = repaired((0, 1, 9), (8, 8))
    world.s.state[0].spent = SPENT_PER_K * 2
    world.rewrite(1, 0)
    assert world.cells(1) == [0, 0, 9]
    assert world.core.field("spent") == 0
    world.rewrite(1, 1)
    assert world.cells(1) == [0, 1]


def test_without_a_price_nothing_is_repaired() -> None:
    world = repaired((0, 1, 9), (8, 8), price=0)
    world.rewrite(1, 0)
    assert world.cells_by_number() == {1: [0, 0, 9], 2: [8, 8]}


# -- beside a richer model --------------------------------------------------------------------------------------------


def of_values(small: Table, *groups: tuple[tuple[int, str], ...]) -> CoreTable:
    """The same of years and values, at a low price."""
    world = CoreTable(replace(small, repair=Repair(0.01)))
    for group in groups:
        world.form(*(year for year, _ in group), values=tuple(value for _, value in group))
    world.drain()
    return world


def all_of(year: int, *values: str) -> tuple[tuple[int, str], ...]:
    return tuple((year, value) for value in values)


def test_a_row_that_came_by_a_merge_goes_on_in_the_same_event_and_no_other_group_publishes_its_value() -> None:
    crowd, three, far = all_of(0, *["ulcer"] * 8), all_of(5, "cough", "flu", "flu"), all_of(9, "flu", "flu")
    world = of_values(table(YEARS, k=3), all_of(6, "cough", "cough", "gout"), crowd, three, ((7, "flu"), *far))
    world.take(0, 1, 15)
    assert world.cells_by_number() == {2: [0] * 8, 3: [5, 5, 5], 4: [6, 7, 9]}
    assert (world.slots(2), world.slots(3)) == (["ulcer"] * 8, ["cough", "flu", "flu"])
    assert world.box(3) == (5, 5)


def test_a_group_that_lost_its_last_row_of_a_value_takes_one_with_another_that_is_not_needed() -> None:
    near = ((5, "ulcer"), (6, "flu"), (7, "ulcer"), (8, "flu"))
    world = of_values(TWO_KINDS, ((0, "flu"), (1, "cough"), (2, "flu")), near)
    world.take(1)
    assert world.cells_by_number() == {1: [0, 2, 5], 2: [6, 7, 8]}
    assert world.core.field("merges") == 0


def test_it_merges_where_all_others_are_needed() -> None:
    near = ((5, "flu"), (6, "ulcer"), (7, "flu"))
    world = of_values(TWO_KINDS, ((0, "flu"), (1, "cough"), (2, "flu")), near)
    world.take(1)
    assert world.core.field("merges") == 1


def test_a_group_whose_share_an_insertion_broke_takes_a_row_of_another_value() -> None:
    world = of_values(HALF_AT_MOST, ((0, "flu"), (1, "cough")), ((4, "ulcer"), (5, "flu"), (6, "itch")))
    world.insert(1, "flu")
    assert world.cells_by_number() == {1: [5, 6], 2: [0, 1], 3: [1, 4]}, "and then all six are cut in three"
    assert world.core.field("merges") == 0


def test_a_group_that_can_be_cut_with_the_row_that_it_took_is_cut() -> None:
    flus = ((0, "flu"), (0, "flu"), (1, "cough"), (1, "ulcer"), (2, "itch"))
    world = of_values(HALF_AT_MOST, flus, ((3, "itch"), (9, "cough"), (9, "ulcer")))
    world.rewrite(4, 2, "flu")
    assert sorted(world.cells_by_number().values()) == [[0, 0, 1, 1], [2, 3], [9, 9]]


@pytest.mark.parametrize(("value", "taker"), [("itch", [9, 9]), ("flu", [7, 9, 9])])
def test_a_row_leaves_for_the_cheapest_of_the_groups_where_its_value_keeps_its_share(
    value: str, taker: list[int]
) -> None:
    """In the nearest group a third flu would be one too many of five."""
    goes = ((0, "ulcer"), (0, "cough"), (7, value))
    near = all_of(7, "flu", "flu", "ulcer", "cough")
    world = of_values(HALF_AT_MOST, goes, near, all_of(9, "itch", "ulcer"))
    world.rewrite(0, 1, "ulcer")
    assert (world.cells(1), world.cells(3)) == ([0, 1], taker)


@pytest.mark.parametrize(("third", "stays"), [("itch", [0, 0, 1]), ("flu", [0, 0, 1, 8])])
def test_a_row_whose_value_its_group_needs_stays(third: str, stays: list[int]) -> None:
    wide = ((0, "flu"), (0, "cough"), (0, third), (8, "ulcer"))
    world = of_values(asking(YEARS, l=3), wide, all_of(8, "flu", "cough", "ulcer"))
    world.rewrite(0, 1, "flu")
    assert world.cells(1) == stays


@pytest.mark.parametrize(("second", "taker"), [("itch", [8, 9, 9, 9]), ("flu", [9, 9, 9])])
def test_a_group_stays_where_another_could_take_each_of_its_rows_and_not_all(second: str, taker: list[int]) -> None:
    """Of the second group's five rows three are flu: four of six are allowed, and not five of seven."""
    goes = ((1, "flu"), (1, second), (9, "cough"))
    near = all_of(1, "flu", "flu", "flu", "ulcer", "cough")
    world = of_values(asking(YEARS, k=3, beta="0.67"), goes, near, all_of(9, "itch", "ulcer", "cough"))
    world.rewrite(2, 8, "cough")
    assert world.cells(3) == taker


def test_another_value_in_the_same_cell_lets_a_row_go_that_its_group_needed_until_then() -> None:
    wide = ((0, "flu"), (0, "flu"), (0, "cough"), (8, "itch"))
    world = of_values(HALF_AT_MOST, wide, all_of(8, "flu", "cough", "ulcer"))
    world.rewrite(0, 0, "flu")
    assert world.cells(1) == [0, 0, 0, 8]
    world.rewrite(0, 0, "ulcer")
    assert world.cells(1) == [0, 0, 0]


NO_RECUT = table(YEARS, k=2, recut=False)


def halves_in(world: CoreTable, *numbers: int) -> list[list[int]]:
    """The years of these groups, whichever of them has which number."""
    return sorted(world.cells(number) for number in numbers)


def test_a_group_below_k_merges_with_the_nearest_and_is_cut_again_with_the_number_that_was_freed() -> None:
    world = CoreTable.of(OF_TWO, (0, 1), (4, 5, 5), (9, 9))
    world.take(0)
    assert halves_in(world, 1, 2) == [[1, 4], [5, 5]]
    assert world.cells(3) == [9, 9]
    assert (world.core.field("merges"), world.core.field("splits")) == (1, 1)


def test_merged_groups_stay_whole_where_the_table_says_so_and_the_larger_one_keeps_its_number() -> None:
    world = CoreTable.of(NO_RECUT, (0, 1), (4, 5, 5), (9, 9))
    world.take(0)
    assert world.cells_by_number() == {2: [1, 4, 5, 5], 3: [9, 9]}


def test_of_two_groups_of_one_size_the_lower_number_stays() -> None:
    world = CoreTable.of(NO_RECUT, (0, 1), (3, 4), (9, 9))
    world.take(0, 3)
    assert world.cells_by_number() == {1: [1, 3], 3: [9, 9]}


def test_the_last_group_below_k_is_dissolved_and_its_number_never_comes_back() -> None:
    world = CoreTable.of(OF_TWO, (0, 1))
    world.take(0)
    assert (world.numbers(), world.core.field("n_pending")) == ([], 1)
    world.insert(9)
    assert world.cells_by_number() == {2: [1, 9]}


def test_a_group_that_lost_all_its_rows_goes_without_a_merge() -> None:
    world = CoreTable.of(OF_TWO, (0, 1), (8, 9))
    world.take(0, 1)
    assert (world.cells_by_number(), world.core.field("merges")) == ({2: [8, 9]}, 0)


def test_a_group_of_2k_is_cut_where_it_costs_least_and_both_boxes_are_small() -> None:
    world = CoreTable.of(OF_TWO, (0, 1, 8))
    world.insert(9)
    assert halves_in(world, 1, 2) == [[0, 1], [8, 9]]
    assert sorted(world.box(number) for number in (1, 2)) == [(0, 1), (8, 9)]


def test_the_larger_half_keeps_the_number() -> None:
    world = CoreTable.of(OF_TWO, (0, 1, 2, 8))
    world.insert(9)
    assert world.cells_by_number() == {1: [0, 1, 2], 2: [8, 9]}


def test_of_equal_halves_the_one_with_the_smallest_tie_hash_keeps_the_number() -> None:
    world = CoreTable.of(OF_TWO, (0, 1, 8))
    world.insert(9)
    smallest = min(range(4), key=lambda tie_hash: shuffled(tie_hash, number=1, next_number=2))
    assert smallest in world.members(1)


def test_2k_rows_of_fewer_than_2k_individuals_are_not_cut() -> None:
    world = CoreTable(OF_PEOPLE)
    for year, who in ((0, 0), (1, 0), (8, 0), (9, 1)):
        world.insert(year, who=who)
    assert world.cells_by_number() == {1: [0, 1, 8, 9]}


def test_rows_wait_until_they_are_k_individuals_and_are_published_together() -> None:
    world = CoreTable(OF_PEOPLE)
    for year in (3, 4, 5):
        world.insert(year, who=0)
    assert (world.numbers(), world.core.field("n_pending")) == ([], 3)
    world.insert(6, who=1)
    assert (world.cells_by_number(), world.core.field("n_pending")) == ({1: [3, 4, 5, 6]}, 0)


def test_the_person_who_completes_2k_has_the_group_cut() -> None:
    world = CoreTable(table(YEARS, k=3, individual="ssn"))
    for index in range(100):
        world.insert(index % 10, who=index % 5)
    assert world.numbers() == [1]
    world.insert(4, who=5)
    assert len(world.numbers()) > 1
    for number in world.numbers():
        who = {int(world.s.rows.row[index].who) for index in world.members(number)}
        assert 3 <= len(who) == world.s.groups.group[world.group(number)]["count"] < 6


def test_a_group_that_should_have_a_partner_and_has_none_is_a_violated_law() -> None:
    world = CoreTable()
    for years in ((0, 1), (8, 9)):
        world.form(*years)
    take_out(world.s, world.group(2))
    assert repair_event(world.s), "nothing is broken yet"
    with pytest.raises(LawViolated, match="QI group 1 has nothing to merge with"):
        world.take(0)
