"""Similarity lists in arrays are those of a scan of everything, whatever happened between two refreshes."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
import pytest

from streamer.incremental.core.layout import LENGTH, LINKS, NONE, Shard, empty_shard
from streamer.incremental.core.lists import (
    NO_LIST,
    link_to,
    save_before,
    save_none_before,
    settle_list,
    sort_links,
    unlink,
)
from streamer.table.space import Space
from worlds.boxes import SPACES, random_box
from worlds.similarity_lists import RUNS, ListedBoxes

# Links of similarity lists are in the chains of the groups that they name, wherever they are moved.


def shard_of_holes(groups: int) -> Shard:
    """Groups numbered from 1 that nobody names, and two lists of holes."""
    s = empty_shard(SPACES["one number"], 2, recut=True, shrink=True, individuals=False)
    for g in range(groups):
        s.groups.group[g].number, s.groups.group[g].listed = g + 1, NONE
    s.lists.link[: 2 * LINKS].other, s.lists.link[: 2 * LINKS].score = NONE, -inf
    return s


def chain(s: Shard, g: int) -> list[int]:
    """The links that name a group; their way back is looked at too."""
    found, at, previous = [], s.groups.group[g].listed, NONE
    while at != NONE:
        assert s.lists.link[at].previous == previous and s.lists.link[at].other == g
        found.append(int(at))
        at, previous = s.lists.link[at].next, at
    return found


def test_a_link_leaves_its_chain_from_the_beginning_the_middle_and_the_end() -> None:
    for gone in (0, 3, LINKS):
        s = shard_of_holes(1)
        for at in (0, 3, LINKS):
            link_to(s, at, 0, 1.0)
        unlink(s, gone)
        assert chain(s, 0) == [at for at in (LINKS, 3, 0) if at != gone]
        assert s.lists.link[gone].other == NONE


def test_a_list_is_set_in_order_by_score_then_number_with_holes_last_and_chains_follow() -> None:
    s = shard_of_holes(4)
    for at, g, score in ((1, 2, 1.0), (3, 3, 2.0), (4, 1, 1.0), (7, 0, 0.5), (LINKS, 3, 9.0)):
        link_to(s, at, g, score)
    sort_links(s, 0)
    assert s.lists.link[:LINKS].other.tolist() == [3, 1, 2, 0, NONE, NONE, NONE, NONE]
    assert [sorted(chain(s, g)) for g in range(4)] == [[3], [1], [2], [0, LINKS]]


# A list is saved as it was before its first change, and ends sorted and not too long.


def with_lists() -> tuple[Shard, int]:
    """A shard with 20 groups, all tracked, and the group that has list 0."""
    space, random = SPACES["numbers"], np.random.default_rng(0)
    world = ListedBoxes(space, RUNS["as it stands"])
    for _ in range(20):
        lo, hi = (ends.tolist() for ends in random_box(random, space))
        world.insert(lo, hi, 2)
    world.drain()
    return world.s, int(world.s.lists.one[0].owner)


def entries(links: np.recarray, first: int, n: int) -> list[tuple[int, float]]:
    return [(int(link.other), float(link.score)) for link in links[first : first + n]]


def test_a_list_is_saved_once_as_it_was_before_its_first_change() -> None:
    s, owner = with_lists()
    was, floor = entries(s.lists.link, 0, LENGTH), float(s.lists.one[0].floor)
    save_before(s, 0)
    s.lists.link[0].score, s.lists.one[0].floor = 99.0, 98.0
    save_before(s, 0)
    before = s.lists.before[0]
    assert int(s.state[0].n_lists_before) == 1
    assert (int(before.owner), int(before.n), float(before.floor)) == (owner, LENGTH, floor)
    assert entries(s.lists.links_before, 0, LENGTH) == was


def test_that_there_was_no_list_is_saved_too() -> None:
    s, owner = with_lists()
    save_none_before(s, 0)
    assert (int(s.lists.before[0].owner), int(s.lists.before[0].n)) == (owner, NO_LIST)


def test_a_list_with_too_many_entries_is_cut_to_the_best_and_its_floor_is_the_score_of_the_next() -> None:
    s, owner = with_lists()
    save_before(s, 0)
    others = [g for g in range(20) if g != owner and g not in s.lists.link[:LENGTH].other]
    for at in range(LENGTH, LINKS):
        link_to(s, at, others[at], 100.0 + at)
    s.lists.one[0].entered = LINKS + 1
    settle_list(s, 0)
    best = [(others[at], 100.0 + at) for at in range(LINKS - 1, LENGTH - 1, -1)]
    assert entries(s.lists.link, 0, LENGTH) == best[:LENGTH]
    assert (s.lists.one[0].n, s.lists.one[0].before) == (LENGTH, NONE)
    assert entries(s.lists.link, LENGTH, LINKS - LENGTH) == [(NONE, -np.inf)] * (LINKS - LENGTH)
    assert float(s.lists.one[0].floor) == max(score for _, score in entries(s.lists.links_before, 0, LENGTH))


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
