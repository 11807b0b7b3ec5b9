"""One move at a time: a row joins a QI group or leaves it; its slots carry no row's identity."""

from __future__ import annotations

import pytest

from streamer.incremental.core.moves import box_of_members, dissolve, is_short, join, leave
from streamer.incremental.core.record_types import NODES, NONE, PENDING
from streamer.incremental.core.tree import nodes_needed
from worlds.core_tables import CoreTable
from worlds.shard_tables import OF_PEOPLE


def table_of(*groups: tuple[int, ...]) -> CoreTable:
    """QI groups of these years, numbered from 1."""
    world = CoreTable()
    for years in groups:
        world.form(*years)
    return world


def test_a_row_joins_a_group_and_the_box_grows_to_hold_it() -> None:
    world = table_of((0, 1), (7, 8))
    join(world.s, world.load(5), world.group(2))
    assert (world.box(2), world.cells(2)) == ((5, 8), [5, 7, 8])


def test_a_row_that_leaves_is_pending_and_leaves_the_box_as_it_was() -> None:
    world = table_of((0, 1, 4))
    leave(world.s, 2)
    assert (world.box(1), world.cells(1)) == ((0, 4), [0, 1])
    assert (world.s.rows.row[2].group, world.held.say("n_pending")) == (PENDING, 1)
    box_of_members(world.s, world.group(1), now := world.s.work.hull[0])
    assert now.tolist() == [[0], [1]]


def of_values(*values: str) -> CoreTable:
    """One QI group of rows in one cell, with these values in its slots."""
    world = CoreTable()
    world.form(*[3] * len(values), values=values)
    return world


def test_slots_of_a_formed_group_are_in_the_order_of_their_values_not_of_the_rows() -> None:
    assert of_values("ulcer", "cough", "flu").slots(1) == ["cough", "flu", "ulcer"]


def test_a_row_that_comes_takes_the_next_slot_and_moves_nobody() -> None:
    world = of_values("flu", "ulcer")
    join(world.s, world.load(3, "cough"), world.group(1))
    assert world.slots(1) == ["flu", "ulcer", "cough"]


def test_a_row_that_goes_frees_the_highest_slot_of_its_values_and_the_last_record_moves_there() -> None:
    world = of_values("cough", "flu", "flu", "ulcer")
    leave(world.s, 1)
    assert world.slots(1) == ["cough", "flu", "ulcer"]
    leave(world.s, 0)
    assert world.slots(1) == ["ulcer", "flu"]


def test_the_last_slot_is_freed_without_a_move() -> None:
    world = of_values("cough", "flu")
    leave(world.s, 1)
    assert world.slots(1) == ["cough"]


def test_of_a_slot_that_was_rewritten_the_new_values_are_freed() -> None:
    world = of_values("cough", "flu", "ulcer")
    world.rewrite(0, 3, "flu")
    assert world.slots(1) == ["flu", "flu", "ulcer"]
    leave(world.s, 1)
    assert world.slots(1) == ["flu", "ulcer"]


def test_who_is_in_a_group_twice_is_counted_once_and_until_the_last_row_goes() -> None:
    world = CoreTable(OF_PEOPLE)
    for who in (0, 0, 1):
        world.insert(4, who=who)
    group = world.s.groups.group[world.group(1)]
    assert group["count"] == 2
    leave(world.s, 0)
    assert (group["count"], world.held.say("pending_count")) == (2, 1)
    leave(world.s, 1)
    assert (group["count"], world.held.say("pending_count")) == (1, 1)
    leave(world.s, 2)
    assert (group["count"], world.held.say("pending_count")) == (0, 2)


def test_rows_of_a_dissolved_group_are_pending() -> None:
    world = table_of((0, 1), (8, 9))
    dissolve(world.s, world.group(1))
    assert world.numbers() == [2]
    assert [int(world.s.rows.row[place].group) for place in (0, 1)] == [PENDING, PENDING]
    assert world.held.say("n_pending") == 2


@pytest.mark.parametrize(("rows", "groups"), [(10**6, 1), (1, 10**6)])
def test_a_move_without_room_says_what_is_short_and_by_how_much(rows: int, groups: int) -> None:
    world = table_of((0, 1))
    assert not is_short(world.s, 2, 1)
    assert is_short(world.s, rows, groups)
    assert world.held.say("short") != NONE
    assert world.held.say("short_by") >= 10**6


@pytest.mark.parametrize("groups", [1, 2, 65])
def test_there_is_room_in_the_tree_for_every_box_that_a_move_changes(groups: int) -> None:
    """A group that dissolves changes the boxes of as many others as it has rows: each may be put elsewhere."""
    world = table_of((0, 1), (7, 8))
    state, most = world.s.state, len(world.s.tree.node)
    state.nodes_used = most - (groups + 1) * nodes_needed(world.s)
    assert not is_short(world.s, groups, groups)
    state.nodes_used += 1
    assert is_short(world.s, groups, groups)
    assert (int(state.short[0]), int(state.short_by[0])) == (NODES, most + 1)
