"""Similarity lists in arrays are those of a scan of everything, whatever happened between two refreshes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from streamer.incremental.core.layout import LINKS, NONE, Shard
from streamer.table.space import Space
from worlds.boxes import SPACES, random_box
from worlds.similarity_lists import RUNS, ListedBoxes

Run = Callable[[Shard, int, int], int]


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]


def something_happens(world: ListedBoxes, random: np.random.Generator, growing: bool) -> None:
    """A group comes, changes, gets or loses members, goes, or goes and its number is given again."""
    numbers = list(world.twin.groups)
    lo, hi = (ends.tolist() for ends in random_box(random, world.space))
    chance, members = random.random(), int(random.integers(1, 5))
    if not numbers or chance < (0.4 if growing else 0.1):
        world.insert(lo, hi, members)
        return
    number = int(random.choice(numbers))
    if chance < 0.55:
        world.change(number, lo, hi, members)
    elif chance < 0.6:
        was_lo, was_hi, _ = world.twin.groups[number]
        world.change(number, was_lo, was_hi, members)
    elif chance < 0.8:
        world.resize(number, members)
    else:
        world.remove(number)
        if chance > 0.9:
            world.insert(lo, hi, members, number)


def check_chains(s: Shard) -> None:
    """Every link is in the chain of the group that it names, and in no other."""
    group, linked = s.groups.group, set()
    for g in range(s.state[0].groups_used):
        at, previous = (group[g].listed, NONE) if group[g].alive else (NONE, NONE)
        while at != NONE:
            link = s.lists.link[at]
            assert (link.other, link.previous) == (g, previous)
            linked.add(int(at))
            at, previous = link.next, at
    alive = [g for g in range(s.state[0].groups_used) if group[g].alive and group[g].list != NONE]
    assert all(s.lists.one[group[g].list].owner == g for g in alive)
    assert linked == {group[g].list * LINKS + j for g in alive for j in range(s.lists.one[group[g].list].n)}


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES.keys())
def test_batch_after_batch_lists_are_those_of_a_scan(space: Space, run: Run) -> None:
    random = np.random.default_rng(5)
    world = ListedBoxes(space, run)
    for batch in range(60):
        for _ in range(int(random.integers(1, 4 if batch % 2 else 25))):
            something_happens(world, random, growing=batch % 30 < 15)
        expected = world.scanned.refresh(world.moved, world.resized)
        assert world.drain() == expected
        assert world.stored() == world.scanned.lists
        assert world.scanned.bounds_the_rest()
        check_chains(world.s)


def test_lists_that_another_worker_stored_are_continued(run: Run) -> None:
    random = np.random.default_rng(6)
    world = ListedBoxes(SPACES["mixed"], run)
    for batch in range(30):
        for _ in range(6):
            something_happens(world, random, growing=batch < 20)
        world.scanned.refresh(world.moved, world.resized)
        world.drain()
        if batch % 5 == 0:
            world.restart()
            check_chains(world.s)
        assert world.stored() == world.scanned.lists


def test_the_partner_is_the_nearest_of_all_also_in_the_middle_of_a_batch(run: Run) -> None:
    random = np.random.default_rng(7)
    world = ListedBoxes(SPACES["numbers"], run)
    for happening in range(150):
        something_happens(world, random, growing=happening < 80)
        for number in world.twin.groups:
            nearest = world.twin.nearest(number)
            assert world.partner(number) == (None if nearest is None else nearest[0])
        if happening % 10 == 0:
            world.drain()


def test_a_box_that_was_only_looked_at_changes_no_list(run: Run) -> None:
    random = np.random.default_rng(8)
    world = ListedBoxes(SPACES["mixed"], run)
    for _ in range(20):
        lo, hi = (ends.tolist() for ends in random_box(random, world.space))
        world.insert(lo, hi, 1)
    world.drain()
    stored = world.stored()
    for number, (lo, hi, members) in list(world.twin.groups.items()):
        world.change(number, lo, hi, members)
    assert world.drain() == {}
    assert world.stored() == stored
