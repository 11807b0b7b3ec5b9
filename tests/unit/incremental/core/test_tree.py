"""The tree of boxes keeps its nodes right while groups come, change and go, and takes no more nodes than it says."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.incremental.core.layout import FAN, NONE
from streamer.incremental.core.tree import FEW, cut, nodes_needed
from worlds.boxes import SPACES, ShardBoxes, grown, some_box

# That nodes know what is below them, and who wins ties: test_search.py, after every change.

# A full node is cut in two: nobody is lost, neither half is small, and what is far apart is parted.


def full_leaf(name: str, seed: int) -> tuple[ShardBoxes, int]:
    """A tree of one leaf that is full."""
    world, _ = grown(name, FAN, seed)
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


def test_groups_far_from_one_another_do_not_share_a_leaf_after_a_cut() -> None:
    world = ShardBoxes(SPACES["one decimal"])
    for number in range(1, FAN + 2):
        cell = 0 if number % 2 else 3
        world.put(number, [cell], [cell], 2)
    leaves = [{int(world.s.groups.group[world.indexes[n]].node) for n in range(first, FAN + 2, 2)} for first in (1, 2)]
    assert not leaves[0] & leaves[1]


@pytest.mark.parametrize("name", ["one number", "mixed"])
def test_a_put_takes_no_more_nodes_than_it_says(name: str) -> None:
    world, random = ShardBoxes(SPACES[name]), np.random.default_rng(4)
    state = world.s.state[0]
    for number in range(1, 300):
        most = state.nodes_used + nodes_needed(world.s)
        world.put(number, *some_box(world, random), 2)
        assert state.nodes_used <= most
    world.check_tree()


@pytest.mark.parametrize("name", ["one number", "mixed", "one value only"])
def test_a_tree_that_is_emptied_gives_all_its_nodes_back(name: str) -> None:
    world, random = grown(name, 120, seed=4)
    used = int(world.s.state[0].nodes_used)
    for number in random.permutation(sorted(world.indexes)).tolist():
        world.take_out(number)
        if number % 6 == 0:
            world.check_tree()
    assert world.s.state[0].root == NONE
    world.check_tree()
    for number in range(1, 60):
        world.put(number, *some_box(world, random), 2)
    assert world.s.state[0].nodes_used <= used
    world.check_tree()


def test_a_box_that_changes_little_stays_in_its_leaf_and_one_that_moves_far_does_not() -> None:
    world = ShardBoxes(SPACES["one decimal"])
    for number in range(1, FAN + 2):
        world.put(number, [number // 5], [number // 5], 2)
    g = world.indexes[1]
    leaf = int(world.s.groups.group[g].node)
    world.put(1, [0], [0], 2)
    assert world.s.groups.group[g].node == leaf
    world.put(1, [3], [3], 2)
    assert world.s.groups.group[g].node != leaf
    world.check_tree()
