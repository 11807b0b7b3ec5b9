"""Repairs after a change: groups below k merge, groups of 2k are cut, rows change groups."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.incremental.core.layout import NONE
from streamer.incremental.core.repair import (
    ROWS_TOGETHER,
    SPENT_PER_K,
    cheapest_group,
    move_cost,
    ncp_without,
    set_edges,
    withheld,
)
from streamer.incremental.core.tree import precedes, withheld_beside
from streamer.table.schema import Repair
from worlds.boxes import SPACES, ShardBoxes, random_box, random_cells
from worlds.core_arrays import CoreTable
from worlds.small_tables import AGE, YEARS, table

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
        open_to_it = g != but and not withheld(world.s, g)
        if open_to_it and (cost < least or (cost == least and precedes(world.s.groups, g, best))):
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


# One of each kind of move by hand; of all others tests/laws/test_engine_twin.py has the plain rules.


def repaired(*groups: tuple[int, ...], price: float = 0.05, k: int = 2) -> CoreTable:
    """QI groups of these years, numbered from 1, under local repair."""
    return CoreTable.of(table(YEARS, k=k, repair=Repair(price)), *groups)


def test_groups_that_lie_across_each_other_are_cut_afresh() -> None:
    world = repaired((0, 9), (1, 8))
    world.rewrite(0, 1)
    assert sorted(world.cells_by_number().values()) == [[1, 1], [8, 9]]
    assert sorted((world.box(1), world.box(2))) == [(1, 1), (8, 9)]
    assert (world.core.field("merges"), world.core.field("splits")) == (0, 0)


@pytest.mark.parametrize(("rows", "groups"), [(ROWS_TOGETHER, 3), (ROWS_TOGETHER + 1, 2)])
def test_groups_that_have_too_many_rows_together_are_left_alone(rows: int, groups: int) -> None:
    """Cut afresh, the larger half is cut up."""
    world = repaired((1, 8) * 64, (2, 9) * 64 + (9,) * (rows - 256))
    world.rewrite(0, 2)
    assert (len(world.numbers()) >= groups) is True
    assert (len(world.cells(1)) == 128) is (groups == 2)


@pytest.mark.parametrize(
    ("first", "second"),
    [((0, 1), (5, 9)), ((0, 3), (7, 9))],
    ids=["it loses little beside the others", "one box around both would lose much"],
)
def test_what_hardly_ever_gains_is_not_tried(first: tuple[int, int], second: tuple[int, int]) -> None:
    world = repaired(first, second)
    world.rewrite(0, 1)
    assert world.cells_by_number() == {1: [1, first[1]], 2: [*second]}
    assert world.s.groups.group[world.group(1)].searched == (first == (0, 3))


def test_a_group_one_short_of_k_takes_the_row_that_costs_least_from_a_group_that_can_lose_one() -> None:
    world = repaired((0, 1), (2, 8, 9), (5, 5))
    world.take(0)
    assert world.cells_by_number() == {1: [1, 2], 2: [8, 9], 3: [5, 5]}
    assert (world.box(1), world.box(2)) == ((1, 2), (8, 9))
    assert (world.core.field("merges"), world.core.field("splits")) == (0, 0)


def test_a_touched_group_evicts_the_row_that_makes_it_wide() -> None:
    world = repaired((0, 1, 9), (8, 8))
    world.rewrite(1, 0)
    assert world.cells_by_number() == {1: [0, 0], 2: [8, 8, 9]}
    assert (world.box(1), world.box(2)) == ((0, 0), (8, 9))


def test_a_group_dissolves_where_its_rows_are_better_off_elsewhere_and_its_number_is_gone() -> None:
    world = repaired((0, 0), (9, 9), (1, 9))
    world.rewrite(4, 2)
    assert world.cells_by_number() == {1: [0, 0, 2], 2: [9, 9, 9]}


def bounded(*groups: tuple[int, ...]) -> CoreTable:
    """QI groups of these years, of which none is published that is wider than two."""
    return CoreTable.of(table(replace(YEARS, coarsest=Decimal(2)), k=2, repair=Repair(0.05)), *groups)


def test_rows_that_nobody_takes_move_to_another_withheld_group_so_that_those_beside_them_are_published() -> None:
    """Before: a row without a home kept k - 1 others from being published, for ever."""
    world = bounded((0, 0), (9, 9), (0, 5), (5, 9))
    world.rewrite(4, 1)
    assert world.cells_by_number() == {1: [0, 0, 1], 2: [9, 9, 9], 4: [5, 5]}


def test_a_group_with_the_only_rows_that_are_withheld_keeps_them() -> None:
    world = bounded((0, 0), (0, 5))
    world.rewrite(2, 1)
    assert world.cells_by_number() == {1: [0, 0], 2: [1, 5]}


@pytest.mark.parametrize("seed", range(4))
def test_the_smallest_other_withheld_group_is_found(seed: int) -> None:
    random = np.random.default_rng(seed)
    world = world_of("bounded", 60, random)
    for g in world.indexes.values():
        others = [other for other in world.indexes.values() if other != g]
        assert withheld_beside(world.s, g) == world.smallest_withheld(others)


def test_an_event_that_has_published_enough_repairs_no_more() -> None:
    world = repaired((0, 1, 9), (8, 8))
    world.s.state[0].spent = SPENT_PER_K * 2
    world.rewrite(1, 0)
    assert world.cells(1) == [0, 0, 9]
    assert world.core.field("spent") == 0
    world.rewrite(1, 1)
    assert world.cells(1) == [0, 1]
