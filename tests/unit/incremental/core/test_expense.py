"""The QI group that takes a row at least expense is that of a scan, to the last bit; and only edges are missed."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.incremental.core.expense import cheapest, expense, ncp_without, take_edges
from streamer.incremental.core.nodes import precedes
from streamer.incremental.core.record_types import NONE
from worlds.core_tables import CoreTable
from worlds.scanned_boxes import SPACES, random_box, random_cells
from worlds.shard_boxes import ShardBoxes
from worlds.small_tables import AGE, table

ROW = 0
"""The place of the row that is asked about."""


def world_of(name: str, n_groups: int, random: np.random.Generator) -> ShardBoxes:
    """Random boxes of two rows and more, some of which were set in this event."""
    world = ShardBoxes(SPACES[name])
    world.s.state[0].price = float(random.choice([0.001, 0.1, 1.0]))
    for number in range(1, n_groups + 1):
        lo, hi = random_box(random, world.space)
        world.put(number, lo.tolist(), hi.tolist(), int(random.integers(2, 5)))
        group = world.s.groups.group[world.places[number]]
        group.paid, group.count = int(random.integers(0, 2)), group.members
    return world


def best_of_scan(world: ShardBoxes, cells: np.ndarray, but: int) -> tuple[int, float]:
    best, least = NONE, inf
    for g in world.places.values():
        cost = expense(world.s, cells, g)
        if g != but and (cost < least or (cost == least and precedes(world.s.groups, g, best))):
            best, least = g, cost
    return best, least


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), name=st.sampled_from(sorted(SPACES)), n_groups=st.integers(2, 60))
def test_the_least_expense_is_found(seed: int, name: str, n_groups: int) -> None:
    random = np.random.default_rng(seed)
    world = world_of(name, n_groups, random)
    for _ in range(5):
        cells, but = (
            random_cells(random, world.space).astype(np.int32),
            world.places[int(random.integers(1, n_groups + 1))],
        )
        best, least = best_of_scan(world, cells, but)
        world.s.rows.cells[ROW], world.s.rows.row[ROW].group = cells, but
        assert (cheapest(world.s, ROW, inf), world.s.state[0].expense) == (best, least)
        assert cheapest(world.s, ROW, least) == best
        assert cheapest(world.s, ROW, np.nextafter(least, -inf)) == NONE


@pytest.mark.parametrize("years", [(3, 3), (1, 9), (1, 1, 9), (5, 2, 9, 9), (4, 1, 7, 2, 9)])
def test_ncp_without_a_row_is_that_of_the_others(years: tuple[int, ...]) -> None:
    world = CoreTable(table(AGE, k=2, repair=0.1))
    world.form(*(year // 2 for year in years))
    take_edges(world.s, 0)
    for place in world.members(1):
        others = CoreTable(table(AGE, k=2))
        others.form(*(int(world.s.rows.cells[other, 0]) for other in world.members(1) if other != place))
        assert ncp_without(world.s, world.s.rows.cells[place]) == others.s.groups.group[0].ncp
