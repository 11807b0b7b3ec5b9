"""Blocks of the pool: no two QI groups share an entry, what was given back is used again, contents move along."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.core.blocks import LEAST_ROOM, fresh_block, give_block, make_room, room_for, take_block
from streamer.incremental.core.layout import Shard, empty_shard
from streamer.incremental.core.record_types import NONE
from worlds.checked_arrays import check_blocks
from worlds.small_tables import YEARS, table


def shard() -> Shard:
    s = empty_shard(table(YEARS).space, 2, recut=True, shrink=True, individuals=False)
    s.groups.group.block, s.groups.group.room = NONE, NONE
    return s


def fill(s: Shard, g: int, n: int) -> None:
    group = s.groups.group[g]
    group.members = n
    s.groups.pool[:, group.block : group.block + n] = contents(g, n)


def contents(g: int, n: int) -> list[list[int]]:
    return [[1000 * g + i for i in range(n)], [-1000 * g - i for i in range(n)]]


@pytest.mark.parametrize(("n", "room"), [(0, 3), (1, 3), (8, 3), (9, 4), (16, 4), (17, 5), (1 << 20, 20)])
def test_a_block_has_the_power_of_two_that_holds_its_rows(n: int, room: int) -> None:
    assert room_for(n) == room >= LEAST_ROOM


def test_a_block_that_was_given_back_is_the_next_of_its_size() -> None:
    s = shard()
    first, other, larger = take_block(s, 3), take_block(s, 3), take_block(s, 4)
    assert (first, other, larger, int(s.state.pool_used[0])) == (0, 8, 16, 32)
    give_block(s.groups, first, 3)
    assert take_block(s, 4) == 32, "of another size"
    assert [take_block(s, 3) for _ in range(2)] == [first, 48]


MOVES = st.tuples(st.sampled_from(["grow", "fresh", "give"]), st.integers(0, 4), st.integers(1, 70))


@given(st.lists(MOVES, max_size=40))
def test_no_two_groups_share_an_entry_and_nothing_is_lost(moves: Iterable[tuple[str, int, int]]) -> None:
    s, sizes = shard(), dict[int, int]()
    for what, g, n in moves:
        group = s.groups.group[g]
        if what == "give" and g in sizes:
            give_block(s.groups, group.block, group.room)
            group.block = group.room = NONE
            del sizes[g]
        elif what == "grow" and g in sizes:
            make_room(s, g, n)
            n = max(n, sizes[g])
            assert s.groups.pool[:, group.block : group.block + sizes[g]].tolist() == contents(g, sizes[g])
            fill(s, g, n)
            sizes[g] = n
        elif what == "fresh":
            fresh_block(s, g, n)
            assert group.room == room_for(n)
            fill(s, g, n)
            sizes[g] = n
        check_blocks(s, sorted(sizes))
        for other, size in sizes.items():
            block = s.groups.group[other].block
            assert s.groups.pool[:, block : block + size].tolist() == contents(other, size)


def test_a_group_that_fits_stays_where_it_is() -> None:
    s = shard()
    fresh_block(s, 0, 5)
    fill(s, 0, 5)
    make_room(s, 0, 8)
    fresh_block(s, 0, 1)
    assert (s.groups.group[0].block, int(s.state.pool_used[0])) == (0, 8)
