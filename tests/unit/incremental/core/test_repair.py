"""What keeps QI groups at k after a change: merge below k, cut at 2k, wait where there is no other group."""

from __future__ import annotations

import pytest

from streamer.errors import LawViolated
from streamer.incremental.core.repair import repaired
from streamer.incremental.core.tree import take_out
from streamer.incremental.core.waiting import mend_later
from streamer.table.schema import Table
from worlds.core_tables import CoreTable
from worlds.shard_tables import OF_PEOPLE, OF_TWO
from worlds.small_tables import YEARS, table
from worlds.twin import shuffled

NO_RECUT = table(YEARS, k=2, recut=False)


def table_of(*groups: tuple[int, ...], small: Table = OF_TWO) -> CoreTable:
    """QI groups of these years, numbered from 1, whose rows have places in this order."""
    world = CoreTable(small)
    for years in groups:
        world.form(*years)
    world.held.drain()
    world.held.taken()
    return world


def halves_in(world: CoreTable, *numbers: int) -> list[list[int]]:
    """The years of these groups, whichever of them has which number."""
    return sorted(world.cells(number) for number in numbers)


def test_a_group_below_k_merges_with_the_nearest_and_is_cut_again_with_the_number_that_was_freed() -> None:
    world = table_of((0, 1), (4, 5, 5), (9, 9))
    world.take(0)
    assert halves_in(world, 1, 2) == [[1, 4], [5, 5]]
    assert world.cells(3) == [9, 9]
    assert (world.held.say("merges"), world.held.say("splits")) == (1, 1)


def test_merged_groups_stay_whole_where_the_table_says_so_and_the_larger_one_keeps_its_number() -> None:
    world = table_of((0, 1), (4, 5, 5), (9, 9), small=NO_RECUT)
    world.take(0)
    assert world.cells_by_number() == {2: [1, 4, 5, 5], 3: [9, 9]}


def test_of_two_groups_of_one_size_the_lower_number_stays() -> None:
    world = table_of((0, 1), (3, 4), (9, 9), small=NO_RECUT)
    world.take(0, 3)
    assert world.cells_by_number() == {1: [1, 3], 3: [9, 9]}


def test_the_last_group_below_k_is_dissolved_and_its_number_never_comes_back() -> None:
    world = table_of((0, 1))
    world.take(0)
    assert (world.numbers(), world.held.say("n_pending")) == ([], 1)
    world.insert(9)
    assert world.cells_by_number() == {2: [1, 9]}


def test_a_group_that_lost_all_its_rows_goes_without_a_merge() -> None:
    world = table_of((0, 1), (8, 9))
    world.take(0, 1)
    assert (world.cells_by_number(), world.held.say("merges")) == ({2: [8, 9]}, 0)


def test_a_group_of_2k_is_cut_where_it_costs_least_and_both_boxes_are_small() -> None:
    world = table_of((0, 1, 8))
    world.insert(9)
    assert halves_in(world, 1, 2) == [[0, 1], [8, 9]]
    assert sorted(world.box(number) for number in (1, 2)) == [(0, 1), (8, 9)]


def test_the_larger_half_keeps_the_number() -> None:
    world = table_of((0, 1, 2, 8))
    world.insert(9)
    assert world.cells_by_number() == {1: [0, 1, 2], 2: [8, 9]}


def test_of_equal_halves_the_one_with_the_smallest_lot_keeps_the_number() -> None:
    world = table_of((0, 1, 8))
    world.insert(9)
    smallest = min(range(4), key=lambda lot: shuffled(lot, number=1, next_number=2))
    assert smallest in world.members(1)


def test_2k_rows_of_fewer_than_2k_individuals_are_not_cut() -> None:
    world = CoreTable(OF_PEOPLE)
    for year, who in ((0, 0), (1, 0), (8, 0), (9, 1)):
        world.insert(year, who=who)
    assert world.cells_by_number() == {1: [0, 1, 8, 9]}


def test_rows_wait_until_they_are_k_individuals_and_are_published_together() -> None:
    world = CoreTable(OF_PEOPLE)
    for year in (3, 4, 5):
        world.insert(year, who=0)
    assert (world.numbers(), world.held.say("n_pending")) == ([], 3)
    world.insert(6, who=1)
    assert (world.cells_by_number(), world.held.say("n_pending")) == ({1: [3, 4, 5, 6]}, 0)


def test_the_person_who_completes_2k_has_the_group_cut() -> None:
    world = CoreTable(table(YEARS, k=3, individual="ssn"))
    for place in range(100):
        world.insert(place % 10, who=place % 5)
    assert world.numbers() == [1]
    world.insert(4, who=5)
    assert len(world.numbers()) > 1
    for number in world.numbers():
        who = {int(world.s.rows.row[place].who) for place in world.members(number)}
        assert 3 <= len(who) == world.s.groups.group[world.group(number)]["count"] < 6


def test_a_group_that_should_have_a_partner_and_has_none_is_a_violated_law() -> None:
    world = CoreTable()
    for years in ((0, 1), (8, 9)):
        world.form(*years)
    take_out(world.s, world.group(2))
    assert repaired(world.s), "nothing is broken yet"
    with pytest.raises(LawViolated, match="QI group 1 has nothing to merge with"):
        world.take(0)


def test_a_group_is_named_for_repair_once() -> None:
    world = table_of((0, 1), (8, 9))
    mend_later(world.s, world.group(1))
    before = world.s.work.heap_size.tolist()
    mend_later(world.s, world.group(1))
    assert world.s.work.heap_size.tolist() == before
