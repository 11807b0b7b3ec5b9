"""A full node is cut in two: nobody is lost, neither half is small, and what is far apart is parted."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.incremental.core.record_types import FAN, NONE
from streamer.incremental.core.tree_cuts import FEW, cut, drop_lane
from worlds.scanned_boxes import SPACES, random_box
from worlds.shard_boxes import ShardBoxes


def full_leaf(name: str, seed: int) -> tuple[ShardBoxes, int]:
    """A tree of one leaf that has no room for one more."""
    space, random = SPACES[name], np.random.default_rng(seed)
    world = ShardBoxes(space)
    for number in range(1, FAN + 1):
        lo, hi = (ends.tolist() for ends in random_box(random, space))
        world.put(number, lo, hi, 2)
    return world, int(world.s.state[0].root)


def children_of(world: ShardBoxes, node: int) -> list[int]:
    return [int(child) for child in world.s.tree.child[node, : world.s.tree.node[node].n]]


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("seed", range(4))
def test_every_child_is_in_one_half_and_neither_half_is_small(name: str, seed: int) -> None:
    world, leaf = full_leaf(name, seed)
    before = children_of(world, leaf)
    sibling = cut(world.s, leaf)
    halves = [children_of(world, node) for node in (leaf, sibling)]
    assert sorted(halves[0] + halves[1]) == sorted(before)
    assert all(FEW <= len(half) <= FAN - FEW for half in halves)
    for node, half in zip((leaf, sibling), halves, strict=True):
        assert {int(world.s.groups.group[g].node) for g in half} == {node}
        firsts = [(group.ncp, group.members, group.number) for group in world.s.groups.group[half]]
        first = world.s.groups.group[world.s.tree.node[node].first]
        assert (first.ncp, first.members, first.number) == min(firsts)
    assert world.s.tree.node[sibling].parent == NONE


def test_a_child_that_goes_leaves_its_lane_to_the_last_one() -> None:
    world, leaf = full_leaf("numbers", 0)
    before, lane = children_of(world, leaf), world.s.tree.lane[leaf].copy()
    drop_lane(world.s.tree, leaf, 3)
    assert children_of(world, leaf) == [*before[:3], before[-1], *before[4:-1]]
    assert (world.s.tree.lane[leaf, :, :, 3] == lane[:, :, FAN - 1]).all()


def test_groups_far_from_one_another_do_not_share_a_leaf_after_a_cut() -> None:
    world = ShardBoxes(SPACES["one decimal"])
    for number in range(1, FAN + 2):
        cell = 0 if number % 2 else 3
        world.put(number, [cell], [cell], 2)
    leaves = [{int(world.s.groups.group[world.places[n]].node) for n in range(first, FAN + 2, 2)} for first in (1, 2)]
    assert not leaves[0] & leaves[1]
