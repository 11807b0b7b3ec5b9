"""What a batch comes to: rows, QI groups, lists and what is published, netted against what readers saw before it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.events.changes import Delete, Insert, Modify
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.kept import PENDING, QIGroupState, Record, SimilarityList
from streamer.incremental.groups.net_effect import Drained
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.published_group import PublishedGroup
from streamer.table.schema import Table
from worlds.folded_table import FoldedTable
from worlds.shard_tables import OF_TWO, engine_with, row_of
from worlds.small_tables import TABLES, changes

FLU, COUGH = (b'"flu"',), (b'"cough"',)


def test_a_new_group_is_published_from_nothing() -> None:
    engine = Engine(OF_TWO)
    for key, year, problem in (("ann", 1, "flu"), ("bob", 4, "cough")):
        engine.apply(Insert(key, row_of(year, problem)))
    drained = engine.drain()
    assert drained.records == {"ann": Record(row_of(1), 1), "bob": Record(row_of(4, "cough"), 1)}
    assert drained == Drained(
        records=drained.records,
        qi_groups={1: QIGroupState((1,), (4,), ("ann", "bob"), (COUGH, FLU))},
        similarity={1: SimilarityList((), 0.0)},
        published=[(1, None, PublishedGroup((1,), (4,), (COUGH, FLU)))],
        statement_ids=[],
        qi_group_next=2,
        merges=0,
        splits=0,
    )


def test_a_change_that_was_undone_within_the_batch_publishes_nothing() -> None:
    engine = engine_with({"a": 1, "b": 4})
    for change in (Modify("a", {0: 2}), Insert("c", row_of(3)), Modify("a", {0: 1}), Delete("c")):
        engine.apply(change)
    drained = engine.drain()
    assert drained.published == []
    assert drained.qi_groups == {1: QIGroupState((1,), (4,), ("a", "b"), (FLU, FLU))}
    assert drained.records == {"a": Record(row_of(1), 1), "c": None}


def test_a_group_that_came_and_went_within_the_batch_is_not_mentioned() -> None:
    engine = Engine(OF_TWO)
    for change in (Insert("a", row_of(1)), Insert("b", row_of(2)), Delete("a")):
        engine.apply(change)
    drained = engine.drain()
    assert (drained.qi_groups, drained.published) == ({}, [])
    assert drained.records == {"a": None, "b": Record(row_of(2), PENDING)}


def test_a_removed_row_and_a_dissolved_group_are_none() -> None:
    engine = engine_with({"a": 1, "b": 4})
    engine.apply(Delete("a"))
    drained = engine.drain()
    assert drained.records == {"a": None, "b": Record(row_of(4), PENDING)}
    assert drained.qi_groups == {1: None}
    assert drained.similarity == {1: None}
    assert drained.published == [(1, PublishedGroup((1,), (4,), (FLU, FLU)), None)]


def test_a_group_at_k_has_its_neighbours_written_down_and_a_larger_one_has_not() -> None:
    engine = engine_with({"a": 1, "b": 1, "c": 8, "d": 8})
    engine.apply(Insert("e", row_of(8)))
    drained = engine.drain()
    assert list(drained.similarity.values()) == [None]
    engine.apply(Delete("e"))
    (listed,) = engine.drain().similarity.values()
    assert listed is not None
    assert [number for number, _ in listed.neighbours] == [dict(engine.index_table())["a"]]


def test_a_second_look_finds_nothing_new() -> None:
    drained = engine_with({"a": 1, "b": 4}).drain()
    assert not (drained.records or drained.qi_groups or drained.published or drained.similarity)


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@given(data=st.data())
def test_what_is_published_stays_within_what_was_said_and_adds_up(small: Table, data: st.DataObject) -> None:
    engine, folded, changelog = Engine(small), FoldedTable(), Changelog(small, 0)
    for change in data.draw(st.lists(changes(small), max_size=40)):
        try:
            engine.apply(change)
        except EventRefused:
            continue
        if data.draw(st.booleans()):
            most, drained = engine.rows_published_max, engine.drain()
            assert sum(len(changelog.diff(*group)[0]) for group in drained.published) <= most
            folded.fold(drained)
    folded.fold(engine.drain())
    assert {n: (state.lo, state.hi, state.slots) for n, state in folded.qi_groups.items()} == {
        n: (group.lo, group.hi, group.slots) for n, group in folded.published.items()
    }
    assert {key: record.qi_group for key, record in folded.records.items()} == dict(engine.index_table())
