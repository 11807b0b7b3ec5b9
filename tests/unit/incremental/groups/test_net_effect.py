"""What a batch comes to: netted against what readers saw, and refused where it would break a law."""

from __future__ import annotations

import numpy as np
import pytest

from streamer.errors import LawViolated
from streamer.incremental.groups.kept import QIGroupState, Record
from streamer.incremental.groups.net_effect import net_effect
from streamer.incremental.groups.qi_group import QIGroup
from streamer.incremental.groups.upkeep import Upkeep
from streamer.incremental.release.changelog import PublishedGroup
from worlds.shard_tables import OF_TWO, row_of

FLU = (b'"flu"',)


def shard(*years: int) -> tuple[Upkeep, QIGroup]:
    """A shard with one QI group of these years, the first batch behind it."""
    upkeep = Upkeep(OF_TWO)
    for i, year in enumerate(years):
        upkeep.rows.add(f"row {i}", row_of(year), np.array([year]))
    upkeep.form(upkeep.new_number(), list(range(len(years))))
    net_effect(upkeep)
    return upkeep, upkeep.groups[1]


def test_a_new_group_is_published_from_nothing() -> None:
    upkeep = Upkeep(OF_TWO)
    for key, year in (("ann", 1), ("bob", 4)):
        upkeep.rows.add(key, row_of(year), np.array([year]))
        upkeep.journal.source_keys.add(key)
    upkeep.form_pending()
    drained = net_effect(upkeep)
    assert drained.records == {"ann": Record(row_of(1), 1), "bob": Record(row_of(4), 1)}
    assert drained.qi_groups == {1: QIGroupState((1,), (4,), ("ann", "bob"), (FLU, FLU))}
    assert drained.published == [(1, None, PublishedGroup((1,), (4,), (FLU, FLU)))]
    assert drained.qi_group_next == 2


def test_a_change_that_was_undone_within_the_batch_publishes_nothing() -> None:
    upkeep, group = shard(1, 2, 3)
    upkeep.leave(2)
    upkeep.join(2)
    drained = net_effect(upkeep)
    assert drained.published == []
    assert drained.qi_groups.keys() == {group.number}


def test_a_group_that_came_and_went_within_the_batch_is_not_mentioned() -> None:
    upkeep, _ = shard(1, 2)
    places = [upkeep.rows.add(f"new {year}", row_of(year), np.array([year])) for year in (8, 9)]
    upkeep.form(upkeep.new_number(), places)
    upkeep.dissolve(upkeep.groups[2])
    drained = net_effect(upkeep)
    assert (drained.qi_groups, drained.published) == ({}, [])


def test_a_removed_row_and_a_dissolved_group_are_none() -> None:
    upkeep, group = shard(1, 2)
    seen = group.published()
    upkeep.dissolve(group)
    upkeep.rows.remove(0)
    drained = net_effect(upkeep)
    assert drained.records["row 0"] is None
    assert drained.qi_groups == {1: None}
    assert drained.published == [(1, seen, None)]


def test_a_group_at_k_has_its_neighbours_written_down_and_a_larger_one_has_not() -> None:
    upkeep, _ = shard(1, 2)
    places = [upkeep.rows.add(f"new {year}", row_of(year), np.array([year])) for year in (7, 8, 9)]
    upkeep.form(upkeep.new_number(), places)
    similarity = net_effect(upkeep).similarity
    listed = similarity[1]
    assert listed is not None
    assert [number for number, _ in listed.neighbours] == [2]
    assert 2 not in similarity


def test_a_second_look_finds_nothing_new() -> None:
    upkeep, _ = shard(1, 2)
    drained = net_effect(upkeep)
    assert not (drained.records or drained.qi_groups or drained.published or drained.similarity)


# -- laws, each broken by hand ----------------------------------------------------------------------------------------


def test_a_group_below_k_never_leaves_the_house() -> None:
    upkeep, _ = shard(1, 2)
    upkeep.leave(0)
    with pytest.raises(LawViolated, match="QI group 1 holds 1 of the k = 2 it needs"):
        net_effect(upkeep)


def test_a_slot_without_a_row_never_leaves_the_house() -> None:
    upkeep, group = shard(1, 2)
    upkeep.journal.group(group)
    group.slots.append(FLU)
    with pytest.raises(LawViolated, match="QI group 1 has 2 rows and 3 slots"):
        net_effect(upkeep)


def test_a_row_outside_its_box_never_leaves_the_house_and_its_group_is_named() -> None:
    upkeep, _ = shard(1, 2)
    places = [upkeep.rows.add(f"new {year}", row_of(year), np.array([year])) for year in (7, 8, 9)]
    upkeep.form(upkeep.new_number(), places)
    upkeep.rows.cells[places[1]] = 3
    upkeep.journal.group(upkeep.groups[1])
    with pytest.raises(LawViolated, match="QI group 2 has a row outside its box"):
        net_effect(upkeep)
