"""The tree of boxes keeps its nodes right while groups come, change and go, and takes no more room than it says."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.incremental.core.record_types import FAN, NONE
from streamer.incremental.core.tree import nodes_needed
from worlds.scanned_boxes import SPACES, Box, random_box
from worlds.shard_boxes import ShardBoxes


def grown(name: str, n_groups: int) -> tuple[ShardBoxes, np.random.Generator]:
    world, random = ShardBoxes(SPACES[name]), np.random.default_rng(4)
    for number in range(1, n_groups + 1):
        world.put(number, *some_box(world, random), 2)
    return world, random


def some_box(world: ShardBoxes, random: np.random.Generator) -> Box:
    lo, hi = random_box(random, world.space)
    return lo.tolist(), hi.tolist()


@pytest.mark.parametrize("name", ["one number", "mixed"])
def test_a_put_takes_no_more_nodes_than_it_says(name: str) -> None:
    world, random = ShardBoxes(SPACES[name]), np.random.default_rng(4)
    state = world.s.state[0]
    for number in range(1, 300):
        room = state.nodes_used + nodes_needed(world.s)
        world.put(number, *some_box(world, random), 2)
        assert state.nodes_used <= room
    world.check_tree()


@pytest.mark.parametrize("name", ["one number", "mixed", "one value only"])
def test_a_tree_that_is_emptied_gives_all_its_nodes_back(name: str) -> None:
    world, random = grown(name, 120)
    used = int(world.s.state[0].nodes_used)
    for number in random.permutation(sorted(world.places)).tolist():
        world.take_out(number)
        if number % 6 == 0:
            world.check_tree()
    assert world.s.state[0].root == NONE
    world.check_tree()
    for number in range(1, 60):
        world.put(number, *some_box(world, random), 2)
    assert world.s.state[0].nodes_used <= used
    world.check_tree()


def test_a_group_that_is_taken_out_is_in_no_leaf() -> None:
    world, _ = grown("numbers", 40)
    g = world.places[7]
    assert world.s.groups.group[g].node != NONE
    world.take_out(7)
    assert world.s.groups.group[g].node == NONE


def test_a_box_that_changes_little_stays_in_its_leaf_and_one_that_moves_far_does_not() -> None:
    world = ShardBoxes(SPACES["one decimal"])
    for number in range(1, FAN + 2):
        world.put(number, [number // 5], [number // 5], 2)
    g = world.places[1]
    leaf = int(world.s.groups.group[g].node)
    world.put(1, [0], [0], 2)
    assert world.s.groups.group[g].node == leaf
    world.put(1, [3], [3], 2)
    assert world.s.groups.group[g].node != leaf
    world.check_tree()
