"""What a batch comes to: rows, QI groups, lists and what is published, netted against what readers saw before it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.net_effect import Drained, LossyJoinCells
from streamer.incremental.engine.stored_state import PENDING, QIGroupState, Record
from streamer.incremental.events.changes import Delete, Insert, Modify
from streamer.incremental.release.records import PublishedGroup
from streamer.table.schema import LOSSY_JOIN
from worlds.engine_tables import OF_TWO, FoldedTable, apply_valid, engine_with, row_of
from worlds.small_tables import FEW_LONG, TABLES, changes

# Which cells readers of a lossy join have seen of every QI group, against a count of all rows.


def cells_by_group(stored: FoldedTable, per_cell: list[int]) -> dict[int, tuple[tuple[int, ...], ...]]:
    """The distinct cells of every QI group, row by row."""
    found: dict[int, set[tuple[int, ...]]] = {}
    for record in stored.records.values():
        cells = tuple(code // codes for code, codes in zip(record.row.codes, per_cell, strict=True))
        if record.qi_group != PENDING:
            found.setdefault(record.qi_group, set()).add(cells)
    return {number: tuple(sorted(cells)) for number, cells in found.items()}


@pytest.mark.parametrize("name", TABLES)
@FEW_LONG
@given(data=st.data())
def test_what_is_published_before_and_after_a_batch_is_what_its_rows_say(name: str, data: st.DataObject) -> None:
    small = replace(TABLES[name], form=LOSSY_JOIN)
    engine, kept = Engine(small), FoldedTable()
    per_cell = small.space.codes_per_cell.tolist()
    for batch in data.draw(st.lists(st.lists(changes(small), max_size=10), min_size=3, max_size=6)):
        apply_valid(engine, batch)
        kept.fold(engine.drain())
        assert {number: group.cells for number, group in kept.published.items()} == cells_by_group(kept, per_cell)
        if data.draw(st.booleans()):
            engine = Engine.load(small, 0, 1, kept.kept_table())


def test_other_forms_publish_no_cells() -> None:
    engine, kept = Engine(TABLES["one number"]), FoldedTable()
    kept.fold(engine.drain())
    assert not kept.published
    assert LossyJoinCells(1).completed([], {}, lambda keys: engine.source_rows()[1]) == []


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
        similarity={1: None},
        published=[(1, None, PublishedGroup((1,), (4,), (COUGH, FLU)))],
        formed={1: "formed"},
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


def test_the_similarity_list_of_a_group_goes_if_the_group_goes_or_has_other_members() -> None:
    engine = engine_with({"a": 1, "b": 1, "c": 8, "d": 8})
    engine.apply(Insert("e", row_of(8)))
    assert engine.drain().similarity == {}
    engine.apply(Insert("f", row_of(9)))
    assert set(engine.drain().similarity.values()) == {None}
