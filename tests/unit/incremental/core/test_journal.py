"""The memory of a batch: what readers saw before it, and how much may have to be published after it."""

from __future__ import annotations

from streamer.incremental.core.journal import (
    journal_is_short,
    mark_changed,
    mark_gone,
    mark_touched,
    note_origin,
    remember,
)
from streamer.incremental.core.layout import HI, LO, MERGED, NONE, SPLIT
from streamer.incremental.core.step import clear_batch
from worlds.core_arrays import CoreTable


def one_group() -> tuple[CoreTable, int]:
    """A QI group of two rows, and an empty journal."""
    world = CoreTable()
    world.form(1, 2, values=("flu", "cough"))
    world.drain()
    clear_batch(world.s)
    return world, world.group(1)


def test_a_group_is_remembered_as_it_was_before_the_first_change_of_the_batch() -> None:
    world, g = one_group()
    seen = world.s.groups.pool[1, world.s.groups.group[g].block :][:2].tolist()
    world.insert(5, "ulcer")
    world.rewrite(0, 0, "measles")
    entry = world.s.journal.entry[0]
    assert (world.core.field("n_journal"), entry.number, entry.members) == (1, 1, 2)
    assert world.s.journal.slots_before[entry.slots :][:2].tolist() == seen
    assert world.s.journal.box[0, [LO, HI], 0].tolist() == [1, 2]


def test_a_group_that_readers_did_not_see_was_nothing_before() -> None:
    world = CoreTable()
    world.form(1, 2)
    entry = world.s.journal.entry[0]
    assert (entry.number, entry.members) == (1, 0)


def test_the_rows_to_publish_are_never_counted_too_low() -> None:
    """The whole group once, for its box may change, and every row that comes."""
    world, g = one_group()
    remember(world.s, g, 1)
    assert world.core.field("rows_published_max") == 2 + 1
    remember(world.s, g, 5)
    assert world.core.field("rows_published_max") == 2 + 1 + 5


def test_a_group_whose_size_and_box_change_is_named_once_and_its_box_is_marked() -> None:
    world, g = one_group()
    mark_changed(world.s, g, 0)
    assert (world.s.groups.group[g].moved, world.core.field("n_changed")) == (0, 1)
    mark_changed(world.s, g, 1)
    assert (world.s.groups.group[g].moved, world.core.field("n_changed")) == (1, 1)


def test_a_group_that_is_gone_is_none_in_its_entry() -> None:
    world, g = one_group()
    remember(world.s, g, 1)
    mark_gone(world.s, g)
    assert world.s.journal.entry[0].group == NONE
    assert world.s.journal.gone[: world.core.field("n_gone")].tolist() == [g]


def test_how_a_group_was_formed_is_that_of_the_last_time_in_the_batch_and_of_this_batch_alone() -> None:
    world, g = one_group()
    remember(world.s, g, 1)
    assert world.s.journal.entry[0].origin == 0
    for origin in (SPLIT, MERGED):
        note_origin(world.s, g, origin)
    assert world.s.journal.entry[0].origin == MERGED
    clear_batch(world.s)
    remember(world.s, g, 1)
    assert world.s.journal.entry[0].origin == 0


def test_a_row_is_touched_once() -> None:
    world, _ = one_group()
    for index in (1, 0, 1):
        mark_touched(world.s, index)
    assert world.s.journal.touched[: world.core.field("n_touched")].tolist() == [1, 0]


def test_where_capacity_lacks_it_says_of_what() -> None:
    world, _ = one_group()
    assert not journal_is_short(world.s, 10, 10)
    assert journal_is_short(world.s, 10**6, 1)
    assert journal_is_short(world.s, 1, 10**6)
    assert world.core.field("short_by") >= 10**6
