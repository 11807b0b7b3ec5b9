"""A QI group and a neighbour across which it lies are cut afresh, where that saves more than its price."""

from __future__ import annotations

import pytest

from streamer.incremental.core.neighbours import ROWS_TOGETHER
from worlds.core_tables import CoreTable
from worlds.small_tables import YEARS, table


def table_of(*groups: tuple[int, ...], price: float = 0.05) -> CoreTable:
    """QI groups of these years, numbered from 1, whose rows have places in this order; k = 2."""
    world = CoreTable(table(YEARS, k=2, repair=price))
    for years in groups:
        world.form(*years)
    world.held.drain()
    world.held.taken()
    return world


def test_groups_that_lie_across_each_other_are_cut_afresh() -> None:
    world = table_of((0, 9), (1, 8))
    world.rewrite(0, 1)
    assert sorted(world.cells_by_number().values()) == [[1, 1], [8, 9]]
    assert sorted((world.box(1), world.box(2))) == [(1, 1), (8, 9)]
    assert (world.held.say("merges"), world.held.say("splits")) == (0, 0)


@pytest.mark.parametrize(
    ("others", "halves"), [((1, 1, 8), {1: [8, 9], 2: [1, 1, 1]}), ((0, 0, 8), {1: [8, 9], 2: [0, 0, 1]})]
)
def test_the_larger_half_goes_by_the_number_of_the_larger_group(
    others: tuple[int, ...], halves: dict[int, list[int]]
) -> None:
    world = table_of((0, 9), others)
    world.rewrite(0, 1)
    assert world.cells_by_number() == halves


def test_they_stay_where_what_it_saves_is_not_worth_what_is_published_again() -> None:
    world = table_of((0, 9), (1, 8), price=1)
    world.rewrite(0, 1)
    assert world.cells_by_number() == {1: [1, 9], 2: [1, 8]}


def test_of_the_neighbours_that_with_which_most_is_saved_is_taken_and_not_the_nearest() -> None:
    world = table_of((1, 9), (4, 6), (0, 8))
    world.rewrite(0, 2)
    assert world.cells(2) == [4, 6]
    assert sorted(world.cells_by_number().values()) == [[0, 2], [4, 6], [8, 9]]


def test_a_half_of_2k_is_cut_again() -> None:
    world = table_of((4, 9), (0, 0, 1, 2, 9))
    world.rewrite(0, 3)
    assert sorted(world.cells_by_number().values()) == [[0, 0, 1], [2, 3], [9, 9]]
    assert world.held.say("splits") == 1


@pytest.mark.parametrize(("rows", "groups"), [(ROWS_TOGETHER, 3), (ROWS_TOGETHER + 1, 2)])
def test_groups_that_have_too_many_rows_together_are_left_alone(rows: int, groups: int) -> None:
    """Cut afresh, the larger half is cut up."""
    world = table_of((0, 9), (1, 8) * ((rows - 2) // 2) + (8,) * (rows % 2))
    world.rewrite(0, 1)
    assert (len(world.numbers()) >= groups) is True
    assert (world.cells(1) == [1, 9]) is (groups == 2)
