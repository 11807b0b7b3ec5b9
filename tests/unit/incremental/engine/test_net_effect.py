"""What a batch comes to: rows, QI groups, lists and what is published, netted against what readers saw before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.net_effect import Drained, LossyJoinCells
from streamer.incremental.engine.stored_state import PENDING, How, QIGroupState, Record, SimilarityList
from streamer.incremental.events.changes import Delete, Insert, Modify, Truncate
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import PublishedGroup
from streamer.table.schema import LOSSY_JOIN, Repair, Table
from worlds.engine_tables import OF_TWO, FoldedTable, apply_valid, engine_with, row_of
from worlds.small_tables import TABLES, YEARS, changes, table

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
@given(data=st.data())
def test_what_is_published_before_and_after_a_batch_is_what_its_rows_say(name: str, data: st.DataObject) -> None:
    small = replace(TABLES[name], form=LOSSY_JOIN)
    engine, kept = Engine(small), FoldedTable()
    per_cell = small.space.codes_per_cell.tolist()
    for batch in data.draw(st.lists(st.lists(changes(small), max_size=10), max_size=6)):
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
        similarity={1: SimilarityList((), 0.0)},
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


def test_a_group_at_k_has_its_neighbours_written_down_and_a_larger_one_has_not() -> None:
    engine = engine_with({"a": 1, "b": 1, "c": 8, "d": 8})
    engine.apply(Insert("e", row_of(8)))
    drained = engine.drain()
    assert list(drained.similarity.values()) == [None]
    engine.apply(Delete("e"))
    (listed,) = engine.drain().similarity.values()
    assert listed is not None
    assert [number for number, _ in listed.neighbours] == [dict(engine.index_table())["a"]]


def test_a_new_group_says_how_it_was_formed_and_one_that_took_or_lost_a_row_says_nothing() -> None:
    engine = Engine(OF_TWO)
    formed: list[dict[int, How]] = []
    for change in (
        Insert("a", row_of(1)),
        Insert("b", row_of(1)),
        Insert("c", row_of(8)),
        Insert("d", row_of(8)),
        Insert("e", row_of(8)),
        Delete("e"),
        Delete("c"),
        Truncate(),
    ):
        engine.apply(change)
        formed.append(engine.drain().formed)
    assert formed == [{}, {1: "formed"}, {}, {1: "split", 2: "split"}, {}, {}, {min(formed[6]): "merged"}, {}]


def test_the_last_time_that_a_group_was_formed_in_a_batch_counts() -> None:
    engine = Engine(OF_TWO)
    for key, year in (("a", 1), ("b", 1), ("c", 8), ("d", 8)):
        engine.apply(Insert(key, row_of(year)))
    engine.apply(Delete("d"))
    (how,) = engine.drain().formed.values()
    assert how == "merged"


def test_groups_of_a_first_table_are_loaded_and_those_of_a_region_rebuilt() -> None:
    engine = Engine(OF_TWO)
    years = (1, 9, 1, 9, 4, 5)
    groups = [np.array(members) for members in ((0, 1), (2, 3), (4, 5))]
    engine.load_initial(list("abcdef"), [row_of(year) for year in years], np.array(years)[:, None], groups)
    assert engine.drain().formed == dict.fromkeys((1, 2, 3), "loaded")
    region = engine.region([1, 2, 3])
    at = {key: i for i, key in enumerate(region.rows.source_keys)}
    assert engine.replace(region, [np.array([at[key] for key in members]) for members in ("ac", "bd", "ef")])
    assert engine.drain().formed == dict.fromkeys((1, 2), "rebuilt")


def test_two_groups_that_local_repair_cuts_together_are_cut_afresh() -> None:
    engine = Engine(table(YEARS, k=2, repair=Repair(0.05)))
    years = (0, 9, 1, 8)
    groups = [np.array([0, 1]), np.array([2, 3])]
    engine.load_initial(list("abcd"), [row_of(year) for year in years], np.array(years)[:, None], groups)
    engine.drain()
    engine.apply(Modify("a", {0: 1}))
    assert engine.drain().formed == dict.fromkeys((1, 2), "cut afresh")


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@given(data=st.data())
def test_of_every_group_that_is_there_it_is_known_how_it_was_formed(small: Table, data: st.DataObject) -> None:
    """A group whose rows differ by more than one change was formed again."""
    engine, known, before = Engine(small), dict[int, How](), dict[int, set[str]]()
    for change in data.draw(st.lists(changes(small), max_size=20)):
        try:
            engine.apply(change)
        except EventRefused:
            continue
        drained = engine.drain()
        known = {**known, **drained.formed}
        now = {number: set(state.members) for number, state in drained.qi_groups.items() if state}
        assert drained.formed.keys() <= now.keys()
        if isinstance(change, Insert | Delete | Modify) and not small.repair:
            others = {number for number, keys in now.items() if len(keys ^ before.get(number, set())) > 1}
            assert others <= drained.formed.keys()
        before |= now
        for number in drained.qi_groups.keys() - now.keys():
            known.pop(number, None)
            before.pop(number, None)
        assert known.keys() == before.keys()


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
