"""What a node knows of the groups below it follows each of their changes at once."""

from __future__ import annotations

from math import inf

import numpy as np

from streamer.incremental.core.nodes import list_floor, precedes
from worlds.scanned_boxes import SPACES, Box, random_box
from worlds.shard_boxes import ShardBoxes


def grown(n_groups: int) -> ShardBoxes:
    world, random = ShardBoxes(SPACES["mixed"]), np.random.default_rng(6)
    for number in range(1, n_groups + 1):
        world.put(number, *some_box(world, random), 2)
    return world


def test_ties_go_to_the_least_loss_then_to_the_fewest_members_then_to_the_lowest_number() -> None:
    world = grown(30)
    for number in range(1, 31, 3):
        world.resize(number, 1)
    for one, g in world.places.items():
        for other, h in world.places.items():
            assert precedes(world.s.groups, g, h) == (world.twin.worth(one) < world.twin.worth(other))


def test_the_root_knows_who_wins_ties_after_every_change_of_a_size() -> None:
    world = grown(60)
    root = world.s.state[0].root
    for number in (3, 3, 17, 42, 59):
        for members in (1, 9, 2):
            world.resize(number, members)
            first = world.number(int(world.s.tree.node[root].first))
            assert first == min(world.places, key=world.twin.worth)
    world.check_tree()


def test_the_lowest_floor_rises_and_falls_with_the_lists() -> None:
    world = grown(60)
    root = world.s.tree.node[world.s.state[0].root]
    assert root.floor == inf
    world.set_floor(20, 3.0)
    world.set_floor(41, 2.0)
    assert root.floor == 2.0
    world.set_floor(41, 4.0)
    assert root.floor == 3.0
    world.take_out(20)
    assert root.floor == 4.0
    world.set_floor(41, None)
    assert root.floor == inf
    assert list_floor(world.s, world.places[41]) == inf
    world.check_tree()


def some_box(world: ShardBoxes, random: np.random.Generator) -> Box:
    lo, hi = random_box(random, world.space)
    return lo.tolist(), hi.tolist()
