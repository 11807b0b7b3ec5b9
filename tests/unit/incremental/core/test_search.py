"""The compiled core's tree answers as a scan of all QI groups does, to the last bit, through every kind of change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.incremental.core import search
from streamer.incremental.core.layout import FAN, LENGTH, Shard
from streamer.table.hierarchy import Hierarchy
from streamer.table.space import Space
from worlds.boxes import (
    SPACES,
    ShardBoxes,
    number_axis,
    random_cells,
    some_box,
    tree_axis,
)

EVERY_SPACE = pytest.mark.parametrize("name", SPACES)


@EVERY_SPACE
def test_an_empty_table_has_no_answer_and_a_lone_group_is_every_answer(name: str) -> None:
    world = ShardBoxes(SPACES[name])
    cells = [0] * world.space.d
    assert world.locate(cells) is None
    world.put(7, cells, cells, 3)
    assert world.locate([int(n) - 1 for n in world.space.n_cells]) == 7
    assert world.nearest(7) is None
    assert world.neighbours(7, 3) == world.listed(7) == []


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), name=st.sampled_from(sorted(SPACES)), n_groups=st.integers(2, 40))
def test_answers_are_those_of_a_scan_through_any_changes(seed: int, name: str, n_groups: int) -> None:
    world, random = ShardBoxes(SPACES[name]), np.random.default_rng(seed)
    for number in range(1, n_groups + 1):
        change(world, number, random)
    world.check_tree()
    question(world, random)


@pytest.mark.parametrize("n", [240, pytest.param(600, marks=pytest.mark.night)])
@EVERY_SPACE
def test_the_compiled_search_agrees_with_the_scan_over_a_long_history(name: str, n: int) -> None:
    world, random = ShardBoxes(SPACES[name], compiled=True), np.random.default_rng(5)
    for number in range(1, n + 1):
        change(world, number, random)
        if number > n * 2 // 3:
            world.take_out(int(random.choice(sorted(world.indexes))))
        if number % 40 == 0:
            world.check_tree()
            question(world, random)


def change(world: ShardBoxes, number: int, random: np.random.Generator) -> None:
    """A group comes, and some other one changes or goes."""
    world.put(number, *some_box(world, random), int(random.integers(1, 4)))
    other, chance = int(random.choice(sorted(world.indexes))), random.random()
    if chance < 0.4:
        world.list_any(other, random)
    elif chance < 0.6:
        world.put(other, *some_box(world, random), int(random.integers(1, 4)))
    elif chance < 0.7:
        world.resize(other, int(random.integers(1, 4)))
    elif chance < 0.85 and len(world.indexes) > 2:
        world.take_out(other)


def question(world: ShardBoxes, random: np.random.Generator) -> None:
    """All questions about one QI group and one tuple, against the scan."""
    number, count = int(random.choice(sorted(world.indexes))), int(random.integers(1, FAN + 1))
    cells = random_cells(random, world.space).tolist()
    assert world.locate(cells) == world.twin.locate(cells)
    nearest = world.twin.nearest(number)
    for _ in range(3):  # whatever its similarity list says
        assert world.nearest(number) == (None if nearest is None else nearest[0])
        world.list_any(number, random)
    found = world.neighbours(number, count)
    assert found == world.twin.neighbours(number)[:count]
    assert world.listed(number) == found[:LENGTH]


@pytest.mark.parametrize(("n_equal", "n_groups"), [(1_000, 1_000), pytest.param(2_000, 3_000, marks=pytest.mark.night)])
def test_thousands_of_equal_boxes_cost_a_search_for_neighbours_no_more_than_a_few(
    monkeypatch: pytest.MonkeyPatch, n_equal: int, n_groups: int
) -> None:
    """Of equal ones those are taken that win ties, and nodes without one of these are not visited."""
    world = ShardBoxes(SPACES["numbers"], n_groups=n_groups)
    visited, scored = set[int](), search.widths_added_by_children
    for number in range(1, n_equal + 1):
        world.put(number, [3, 3], [4, 4], 2)

    def counted(s: Shard, node: int) -> None:
        visited.add(node)
        scored(s, node)

    monkeypatch.setattr(search, "widths_added_by_children", counted)
    assert world.neighbours(n_equal, 3) == [1, 2, 3]
    assert len(visited) < 20


@pytest.mark.parametrize("n", [150, pytest.param(300, marks=pytest.mark.night)])
def test_wide_domains_and_large_hierarchies_are_searched_exactly(n: int) -> None:
    leaves = Hierarchy.from_rows([(f"{i}", f"t{i // 4}", f"u{i // 20}", f"v{i // 300}", "*") for i in range(1500)])
    space = Space([tree_axis(leaves, 200.0), number_axis(1, 10_000), number_axis(1, 4)])
    world, random = ShardBoxes(space), np.random.default_rng(4)
    for number in range(1, n + 1):
        world.put(number, *some_box(world, random), int(random.integers(1, 4)))
    for _ in range(n // 10):
        cells = random_cells(random, space).tolist()
        assert world.locate(cells) == world.twin.locate(cells)
    for number in range(1, n + 1, 10):
        nearest = world.twin.nearest(number)
        assert nearest is not None
        assert world.nearest(number) == nearest[0]
        assert world.neighbours(number, 5) == world.twin.neighbours(number)[:5]
