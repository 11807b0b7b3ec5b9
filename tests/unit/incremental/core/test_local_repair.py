"""Rows change QI groups where that saves more than the price of the rows that are published again for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.incremental.core.local_repair import SPENT_PER_K
from streamer.incremental.core.record_types import NONE, REWRITE
from streamer.table.schema import Table
from worlds.core_tables import CoreTable
from worlds.model_tables import asking
from worlds.small_tables import YEARS, table

TWO_KINDS, HALF_AT_MOST = asking(YEARS, l=2), asking(YEARS, beta="0.5")


def table_of(*groups: tuple[int, ...], price: float = 0.05, k: int = 2) -> CoreTable:
    """QI groups of these years, numbered from 1, whose rows have places in this order."""
    world = CoreTable(table(YEARS, k=k, repair=price))
    for years in groups:
        world.form(*years)
    world.held.drain()
    world.held.taken()
    return world


def test_a_group_one_short_of_k_takes_the_row_that_costs_least_from_a_group_that_can_lose_one() -> None:
    world = table_of((0, 1), (2, 8, 9), (5, 5))
    world.take(0)
    assert world.cells_by_number() == {1: [1, 2], 2: [8, 9], 3: [5, 5]}
    assert (world.box(1), world.box(2)) == ((1, 2), (8, 9))
    assert (world.held.say("merges"), world.held.say("splits")) == (0, 0)


def test_where_no_group_can_lose_a_row_it_merges() -> None:
    world = table_of((0, 1), (8, 9))
    world.take(0)
    assert (world.cells_by_number(), world.held.say("merges")) == ({2: [1, 8, 9]}, 1)


def test_a_group_that_is_short_of_more_than_one_merges() -> None:
    world = table_of((0, 1, 1), (3, 4, 5, 5), k=3)
    world.take(0, 1)
    assert (world.cells_by_number(), world.held.say("merges")) == ({2: [1, 3, 4, 5, 5]}, 1)


def test_a_box_that_lost_a_row_shrinks_only_where_that_is_worth_its_price() -> None:
    for price, box in ((0.2, (0, 2)), (0.05, (1, 2))):
        world = table_of((0, 1, 2), price=price)
        world.take(0)
        assert world.box(1) == box


def test_a_touched_group_evicts_the_row_that_makes_it_wide() -> None:
    world = table_of((0, 1, 9), (8, 8))
    world.rewrite(1, 0)
    assert world.cells_by_number() == {1: [0, 0], 2: [8, 8, 9]}
    assert (world.box(1), world.box(2)) == ((0, 0), (8, 9))


@pytest.mark.parametrize("years", [(1, 4, 9), (9, 4, 1)])
def test_of_two_rows_that_gain_the_same_the_one_of_lower_cells_goes(years: tuple[int, ...]) -> None:
    """Both could join a group that is published anew anyway, and loses nothing by it."""
    world = table_of(years, (0, 1), (8, 9))
    world.run(*[(REWRITE, place, year, "flu", NONE) for place, year in ((1, 5), (3, 1), (5, 9))])
    assert world.cells_by_number() == {1: [5, 9], 2: [1, 1, 1], 3: [9, 9]}


def test_nobody_is_evicted_from_a_group_of_k() -> None:
    world = table_of((0, 9), (8, 8, 8), price=100)
    world.rewrite(0, 1)
    assert world.cells_by_number() == {1: [1, 9], 2: [8, 8, 8]}


def test_a_row_stays_where_what_it_saves_is_not_worth_what_is_published_again() -> None:
    world = table_of((0, 1, 9), (8, 8), price=1)
    world.rewrite(1, 0)
    assert world.cells_by_number() == {1: [0, 0, 9], 2: [8, 8]}


def test_groups_that_the_event_has_not_touched_are_left_alone() -> None:
    world = table_of((0, 1, 9), (8, 8), (3, 4, 4))
    world.rewrite(6, 4)
    assert world.cells(1) == [0, 1, 9]


def test_a_group_dissolves_where_its_rows_are_better_off_elsewhere_and_its_number_is_gone() -> None:
    world = table_of((0, 0), (9, 9), (1, 9))
    world.rewrite(4, 2)
    assert world.cells_by_number() == {1: [0, 0, 2], 2: [9, 9, 9]}


def test_a_group_of_2k_that_came_of_it_is_cut_with_the_number_that_was_freed() -> None:
    world = table_of((0, 0, 0), (9, 9), (1, 9))
    world.rewrite(5, 2)
    assert sorted(world.cells_by_number().items()) == [(1, [0, 0]), (2, [9, 9, 9]), (3, [0, 2])] or (
        world.cells_by_number() == {1: [0, 2], 2: [9, 9, 9], 3: [0, 0]}
    )


def test_an_event_that_has_published_enough_repairs_no_more() -> None:
    world = table_of((0, 1, 9), (8, 8))
    world.s.state[0].spent = SPENT_PER_K * 2
    world.rewrite(1, 0)
    assert world.cells(1) == [0, 0, 9]
    assert world.held.say("spent") == 0
    world.rewrite(1, 1)
    assert world.cells(1) == [0, 1]


def test_without_a_price_nothing_is_repaired() -> None:
    world = table_of((0, 1, 9), (8, 8), price=0)
    world.rewrite(1, 0)
    assert world.cells_by_number() == {1: [0, 0, 9], 2: [8, 8]}


# -- beside a richer model --------------------------------------------------------------------------------------------


def of_values(small: Table, *groups: tuple[tuple[int, str], ...]) -> CoreTable:
    """The same of years and values, at a low price."""
    world = CoreTable(replace(small, repair=0.01))
    for group in groups:
        world.form(*(year for year, _ in group), values=tuple(value for _, value in group))
    world.held.drain()
    world.held.taken()
    return world


def all_of(year: int, *values: str) -> tuple[tuple[int, str], ...]:
    return tuple((year, value) for value in values)


def test_a_group_that_lost_its_last_row_of_a_value_takes_one_with_another_that_is_not_needed() -> None:
    near = ((5, "ulcer"), (6, "flu"), (7, "ulcer"), (8, "flu"))
    world = of_values(TWO_KINDS, ((0, "flu"), (1, "cough"), (2, "flu")), near)
    world.take(1)
    assert world.cells_by_number() == {1: [0, 2, 5], 2: [6, 7, 8]}
    assert world.held.say("merges") == 0


def test_it_merges_where_all_others_are_needed() -> None:
    near = ((5, "flu"), (6, "ulcer"), (7, "flu"))
    world = of_values(TWO_KINDS, ((0, "flu"), (1, "cough"), (2, "flu")), near)
    world.take(1)
    assert world.held.say("merges") == 1


def test_a_group_whose_share_an_insertion_broke_takes_a_row_of_another_value() -> None:
    world = of_values(HALF_AT_MOST, ((0, "flu"), (1, "cough")), ((4, "ulcer"), (5, "flu"), (6, "itch")))
    world.insert(1, "flu")
    assert world.cells_by_number() == {1: [0, 1, 1, 4], 2: [5, 6]}
    assert world.held.say("merges") == 0


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
