"""Rows change QI groups where that saves more than the price of the rows that are published again for it."""

from __future__ import annotations

import pytest

from streamer.incremental.core.local_repair import SPENT_PER_K
from streamer.incremental.core.record_types import NONE, REWRITE
from worlds.core_tables import CoreTable
from worlds.small_tables import YEARS, table


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
