"""A list is remembered as it was before its first change, and is left in order, no longer than it may be."""

from __future__ import annotations

import numpy as np

from streamer.incremental.core.layout import Shard
from streamer.incremental.core.links import name
from streamer.incremental.core.list_images import NO_LIST, remember_before, remember_none_before, settle
from streamer.incremental.core.record_types import LENGTH, LINKS, NONE
from worlds.listed_boxes import RUNS, ListedBoxes
from worlds.scanned_boxes import SPACES, random_box


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


def test_a_list_is_remembered_once_as_it_was_before_its_first_change() -> None:
    s, owner = with_lists()
    was, floor = entries(s.lists.link, 0, LENGTH), float(s.lists.one[0].floor)
    remember_before(s, 0)
    s.lists.link[0].score, s.lists.one[0].floor = 99.0, 98.0
    remember_before(s, 0)
    before = s.lists.before[0]
    assert int(s.state[0].n_lists_before) == 1
    assert (int(before.owner), int(before.n), float(before.floor)) == (owner, LENGTH, floor)
    assert entries(s.lists.links_before, 0, LENGTH) == was


def test_that_there_was_no_list_is_remembered_too() -> None:
    s, owner = with_lists()
    remember_none_before(s, 0)
    assert (int(s.lists.before[0].owner), int(s.lists.before[0].n)) == (owner, NO_LIST)


def test_a_list_with_too_many_entries_is_cut_to_the_best_and_its_floor_is_the_score_of_the_next() -> None:
    s, owner = with_lists()
    remember_before(s, 0)
    others = [g for g in range(20) if g != owner and g not in s.lists.link[:LENGTH].other]
    for at in range(LENGTH, LINKS):
        name(s, at, others[at], 100.0 + at)
    s.lists.one[0].entered = LINKS + 1
    settle(s, 0)
    best = [(others[at], 100.0 + at) for at in range(LINKS - 1, LENGTH - 1, -1)]
    assert entries(s.lists.link, 0, LENGTH) == best[:LENGTH]
    assert (s.lists.one[0].n, s.lists.one[0].before) == (LENGTH, NONE)
    assert entries(s.lists.link, LENGTH, LINKS - LENGTH) == [(NONE, -np.inf)] * (LINKS - LENGTH)
    assert float(s.lists.one[0].floor) == max(score for _, score in entries(s.lists.links_before, 0, LENGTH))
