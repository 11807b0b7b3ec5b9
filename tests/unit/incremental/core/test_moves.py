"""One move at a time: a row joins a QI group or leaves it; its slots carry no row's identity."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.core.journal import journal_is_short
from streamer.incremental.core.layout import (
    LOSS_UNITS,
    NODES,
    NONE,
    VALUE,
    CoreValues,
    Shard,
    empty_shard,
)
from streamer.incremental.core.moves import (
    LEAST_BLOCK_BITS,
    block_bits_for,
    free_block,
    highest_slot,
    is_short,
    new_group,
    replace_block,
    reserve_block,
    sort_values,
    sum_loss,
    take_block,
)
from streamer.incremental.core.tree import nodes_needed
from streamer.table.arrays import records
from streamer.table.row import Values as Texts
from streamer.table.schema import Repair
from worlds.core_arrays import CoreTable, check_blocks
from worlds.engine_tables import OF_TWO
from worlds.native import compiled_now
from worlds.small_tables import YEARS, table

# The slots of a QI group: sorted by the texts of the published values, and found from the end.

BLOCK = 3

TEXTS = st.text(st.characters(min_codepoint=0x20, codec="utf-8"), max_size=12).map(str.encode)
SHARING_A_PREFIX = st.builds(
    lambda n, rest: b"the same" * n + rest, st.integers(0, 3), st.sampled_from([b"", b"a", b"b", b"ab", b"\xc3\xa9"])
)


def values_of(numbered: list[Texts]) -> CoreValues:
    """Value number i is numbered[i], its texts joined by a zero byte."""
    joined = [b"\0".join(texts) for texts in numbered]
    value, text = records(len(joined), VALUE), b"".join(joined)
    value.prefix = [int.from_bytes(one[:8].ljust(8, b"\0"), "big") for one in joined]
    value.length = [len(one) for one in joined]
    value.at = np.cumsum([0, *map(len, joined)])[:-1]
    return CoreValues(value, np.frombuffer(text or b"\0", np.uint8).copy())


def shard_of(numbered: list[Texts], slots: list[int]) -> Shard:
    """A shard whose QI group 0 has these slots from BLOCK on; others' slots are before and after them."""
    shard = empty_shard(table(YEARS).space, 2, recut=True, shrink=True, individuals=False)
    pool = np.zeros((2, BLOCK + len(slots) + 1), np.int32)
    pool[1, BLOCK:-1], pool[1, :BLOCK], pool[1, -1] = slots, -5, -6
    shard.groups.group[0]["block"], shard.groups.group[0]["members"] = BLOCK, len(slots)
    return shard._replace(groups=shard.groups._replace(pool=pool), values=values_of(numbered))


@compiled_now
def compiled_sort(s: Shard, block: int, n: int) -> None:
    sort_values(s, block, n)


def test_slots_are_sorted_by_text_and_not_by_number() -> None:
    shard = shard_of([(b'"flu"',), (b'"cough"',), (b"null",)], [2, 0, 1, 0, 2])
    sort_values(shard, BLOCK, 5)
    assert shard.groups.pool[1].tolist() == [-5, -5, -5, 1, 0, 0, 2, 2, -6]


@given(data=st.data(), columns=st.integers(1, 3))
def test_slots_are_sorted_as_tuples_of_texts_are(data: st.DataObject, columns: int) -> None:
    texts = st.tuples(*[st.one_of(TEXTS, SHARING_A_PREFIX)] * columns)
    numbered = data.draw(st.lists(texts, min_size=1, max_size=8, unique=True))
    slots = data.draw(st.lists(st.integers(0, len(numbered) - 1), max_size=70))
    shard = shard_of(numbered, slots)
    sort_values(shard, BLOCK, len(slots))
    assert shard.groups.pool[1, BLOCK:-1].tolist() == sorted(slots, key=lambda number: numbered[number])


@pytest.mark.parametrize("n", [1, 15, 16, 17, 31, 32, 33, 48, 49, 300, 1024])
def test_compiled_and_uncompiled_slots_are_the_same(n: int) -> None:
    numbered: list[Texts] = [(str(number * 7919 % 1000).encode() * 3,) for number in range(200)]
    slots = np.random.default_rng(n).integers(0, 200, n).tolist()
    one, other = shard_of(numbered, slots), shard_of(numbered, slots)
    sort_values(one, BLOCK, n)
    compiled_sort(other, BLOCK, n)
    assert one.groups.pool[1].tolist() == other.groups.pool[1].tolist()
    assert one.groups.pool[1, BLOCK:-1].tolist() == sorted(slots, key=lambda number: numbered[number])
    assert one.groups.pool[1, :BLOCK].tolist() == [-5] * BLOCK


def test_of_equal_values_the_highest_slot_is_found() -> None:
    shard = shard_of([(b"a",), (b"b",), (b"c",)], [0, 1, 0, 1, 1, 0])
    assert (highest_slot(shard, 0, 0), highest_slot(shard, 0, 1)) == (5, 4)


def test_values_that_a_group_does_not_hold_are_in_no_slot() -> None:
    assert highest_slot(shard_of([(b"a",), (b"b",)], [0, 0]), 0, 1) == -1


# Blocks of the pool: no two QI groups share an entry, what was given back is used again, contents move along.


def shard() -> Shard:
    s = empty_shard(table(YEARS).space, 2, recut=True, shrink=True, individuals=False)
    s.groups.group.block, s.groups.group.block_bits = NONE, NONE
    return s


def fill(s: Shard, g: int, n: int) -> None:
    group = s.groups.group[g]
    group.members = n
    s.groups.pool[:, group.block : group.block + n] = contents(g, n)


def contents(g: int, n: int) -> list[list[int]]:
    return [[1000 * g + i for i in range(n)], [-1000 * g - i for i in range(n)]]


@pytest.mark.parametrize(("n", "bits"), [(0, 3), (1, 3), (8, 3), (9, 4), (16, 4), (17, 5), (1 << 20, 20)])
def test_a_block_has_the_power_of_two_that_holds_its_rows(n: int, bits: int) -> None:
    assert block_bits_for(n) == bits >= LEAST_BLOCK_BITS


def test_a_block_that_was_given_back_is_the_next_of_its_size() -> None:
    s = shard()
    first, other, larger = take_block(s, 3), take_block(s, 3), take_block(s, 4)
    assert (first, other, larger, int(s.state.pool_used[0])) == (0, 8, 16, 32)
    free_block(s.groups, first, 3)
    assert take_block(s, 4) == 32, "of another size"
    assert [take_block(s, 3) for _ in range(2)] == [first, 48]


MOVES = st.tuples(st.sampled_from(["grow", "fresh", "give"]), st.integers(0, 4), st.integers(1, 70))


@given(st.lists(MOVES, max_size=40))
def test_no_two_groups_share_an_entry_and_nothing_is_lost(moves: Iterable[tuple[str, int, int]]) -> None:
    s, sizes = shard(), dict[int, int]()
    for what, g, n in moves:
        group = s.groups.group[g]
        if what == "give" and g in sizes:
            free_block(s.groups, group.block, group.block_bits)
            group.block = group.block_bits = NONE
            del sizes[g]
        elif what == "grow" and g in sizes:
            reserve_block(s, g, n)
            n = max(n, sizes[g])
            assert s.groups.pool[:, group.block : group.block + sizes[g]].tolist() == contents(g, sizes[g])
            fill(s, g, n)
            sizes[g] = n
        elif what == "fresh":
            replace_block(s, g, n)
            assert group.block_bits == block_bits_for(n)
            fill(s, g, n)
            sizes[g] = n
        check_blocks(s, sorted(sizes))
        for other, size in sizes.items():
            block = s.groups.group[other].block
            assert s.groups.pool[:, block : block + size].tolist() == contents(other, size)


def test_a_group_that_fits_stays_where_it_is() -> None:
    s = shard()
    replace_block(s, 0, 5)
    fill(s, 0, 5)
    reserve_block(s, 0, 8)
    replace_block(s, 0, 1)
    assert (s.groups.group[0].block, int(s.state.pool_used[0])) == (0, 8)


@pytest.mark.parametrize(("rows", "groups"), [(10**6, 1), (1, 10**6)])
def test_a_move_without_room_says_what_is_short_and_by_how_much(rows: int, groups: int) -> None:
    world = CoreTable.of(OF_TWO, (0, 1))
    assert not is_short(world.s, 2, 1)
    assert is_short(world.s, rows, groups)
    assert world.core.field("short") != NONE
    assert world.core.field("short_by") >= 10**6


def test_a_journal_without_room_says_what_is_short_and_by_how_much() -> None:
    world = CoreTable.of(OF_TWO, (1, 2))
    assert not journal_is_short(world.s, 10, 10)
    assert journal_is_short(world.s, 10**6, 1)
    assert journal_is_short(world.s, 1, 10**6)
    assert world.core.field("short_by") >= 10**6


@pytest.mark.parametrize("groups", [1, 2, 65])
def test_there_is_room_in_the_tree_for_every_box_that_a_move_changes(groups: int) -> None:
    """A group that dissolves changes the boxes of as many others as it has rows: each may be put elsewhere."""
    world = CoreTable.of(OF_TWO, (0, 1), (7, 8))
    state, most = world.s.state, len(world.s.tree.node)
    state.nodes_used = most - (groups + 1) * nodes_needed(world.s)
    assert not is_short(world.s, groups, groups)
    state.nodes_used += 1
    assert is_short(world.s, groups, groups)
    assert (int(state.short[0]), int(state.short_by[0])) == (NODES, most + 1)


def test_the_loss_of_a_large_wide_group_is_summed_whole() -> None:
    wide = table(*(replace(YEARS, name=f"years {i}") for i in range(30)))
    shard = empty_shard(wide.space, 2, recut=True, shrink=True, individuals=False)
    g = new_group(shard, 1)
    for members in (100_000, 3):
        shard.groups.group[g].members, shard.groups.group[g].ncp = members, 30.0
        sum_loss(shard, g)
        assert int(shard.state.loss[0]) == int(shard.groups.group[g].loss) == members * 30 * LOSS_UNITS


def test_a_group_that_is_withheld_counts_for_no_price() -> None:
    """Before: some withheld rows made a row cost as much to publish again as fourteen others lose."""
    world = CoreTable.of(table(replace(YEARS, coarsest=Decimal(4)), k=2, repair=Repair(share=0.05)), (0, 1), (0, 9))
    shown, withheld = (int(loss) for loss in world.s.groups.group.loss[:2])
    assert (shown > 0, withheld) == (True, 0)
    assert float(world.s.state.price[0]) == pytest.approx(0.05 * shown / LOSS_UNITS / 4)
