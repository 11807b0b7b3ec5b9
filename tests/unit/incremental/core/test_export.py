"""The net effect of a batch as numbers: read by its own rules it says what changed; it never needs more room."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from streamer.incremental.core.export import numbers_needed
from worlds.core_shards import CoreShard, insert, rewrite, take


class Seen(NamedTuple):
    """What the numbers say of one QI group: box and slots before and now, members now."""

    seen: int
    before: tuple[list[int], list[int]] | None
    now: tuple[list[int], list[int], list[int]] | None


class Read(NamedTuple):
    rows: list[tuple[int, ...]]
    groups: dict[int, Seen]
    lists: dict[int, list[int] | None]


def read(numbers: list[int]) -> Read:
    """Of single years: a box is two numbers."""
    left = iter(numbers)

    def some(n: int) -> list[int]:
        return [next(left) for _ in range(n)]

    rows = [tuple(some(4)) for _ in range(next(left))]
    groups: dict[int, Seen] = {}
    for _ in range(next(left)):
        number, seen, n_before, n_now, _ = some(5)
        before = (some(2), some(n_before)) if seen and n_before else None
        groups[number] = Seen(seen, before, (some(2), some(n_now), sorted(some(n_now))) if n_now else None)
    lists: dict[int, list[int] | None] = {}
    for _ in range(next(left)):
        number, n = some(2)
        lists[number] = None if n < 0 else some(n)
    assert not list(left)
    return Read(rows, groups, lists)


def shard_of(*years: int) -> CoreShard:
    shard = CoreShard(2)
    shard.do(*(insert(place, year, place) for place, year in enumerate(years)), drains=True)
    return shard


def test_a_new_group_is_told_with_its_rows() -> None:
    shard = CoreShard(2)
    shard.do(insert(0, 4, 2), insert(1, 1, 0))
    told = read(shard.drain())
    assert told.rows == [(0, 2, -1, 1), (1, 0, -1, 1)]
    assert told.groups == {1: Seen(1, None, ([1, 4], [0, 2], [0, 1]))}
    assert told.lists == {1: []}


def test_a_group_that_changed_is_told_as_it_was_and_as_it_is() -> None:
    shard = shard_of(1, 4)
    shard.do(insert(2, 9, 5))
    told = read(shard.drain())
    assert told.rows == [(2, 5, -1, 1)]
    assert told.groups == {1: Seen(1, ([1, 4], [0, 1]), ([1, 9], [0, 1, 5], [0, 1, 2]))}


def test_a_group_that_is_gone_is_told_as_it_was_and_rows_that_are_gone_are_not() -> None:
    shard = shard_of(1, 4)
    shard.do(take(0))
    told = read(shard.drain())
    assert told.rows == [(1, 1, -1, 0)]
    assert told.groups == {1: Seen(1, ([1, 4], [0, 1]), None)}
    assert told.lists == {1: None}


def test_what_was_undone_within_the_batch_is_seen_by_nobody() -> None:
    shard = shard_of(1, 4)
    shard.do(insert(2, 2, 7), take(2), rewrite(0, 1, 9), rewrite(0, 1, 0))
    assert read(shard.drain()).groups == {1: Seen(0, None, ([1, 4], [0, 1], [0, 1]))}


def test_a_group_that_came_and_went_within_the_batch_was_never_there() -> None:
    shard = CoreShard(2)
    shard.do(insert(0, 1), insert(1, 2), take(0))
    assert read(shard.drain()).groups == {1: Seen(0, None, None)}


@pytest.mark.parametrize("seed", range(8))
def test_no_batch_needs_more_than_was_asked_for(seed: int) -> None:
    random, shard, there = np.random.default_rng(seed), CoreShard(2 + seed % 3), set[int]()
    for _ in range(30):
        for _ in range(random.integers(1, 12)):
            free = next(place for place in range(100) if place not in there)
            if random.random() < 0.55:
                shard.do(insert(free, int(random.integers(10)), int(random.integers(26))))
                there.add(free)
            elif there:
                place = sorted(there)[random.integers(len(there))]
                if random.random() < 0.6:
                    shard.do(take(place))
                    there.remove(place)
                else:
                    shard.do(rewrite(place, int(random.integers(10)), int(random.integers(26))))
        told = shard.drain()
        assert len(told) <= numbers_needed(shard.s)
        assert int(shard.s.state.n_scores[0]) <= numbers_needed(shard.s)
        read(told)
