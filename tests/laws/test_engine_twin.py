"""The engine against its brute-force twin: the same QI group for every row, the same table, at every step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.stored_state import Degrees
from streamer.incremental.events.changes import Insert
from streamer.table.codes import Diversity
from streamer.table.schema import Repair, Table
from worlds.core_arrays import check_arrays
from worlds.covering import covering, parts_of, tables_of_the_gate
from worlds.engine_tables import FoldedTable, apply_valid
from worlds.small_tables import (
    CITY,
    FEW_LONG,
    LOSSES,
    MODEL_TABLES,
    REPAIRED_MODELS,
    TABLES,
    YEARS,
    changes,
    coming_and_going,
    rows,
    table,
)
from worlds.twin import SECRETS, Twin, assert_batches_leave_no_trace, assert_same, holds_without, refusal

DEAR = 0.4
"""A price at which a smaller box is never worth the records of its group."""

PLAIN_TABLES = {**TABLES, "repair, records are dear": table(YEARS, CITY, k=3, repair=Repair(DEAR))}
ALL_TABLES = {**PLAIN_TABLES, **REPAIRED_MODELS}
GATE_TABLES = covering(ALL_TABLES, parts_of)
"""Each shape, setting and demand once; `test_no_published_group_ever_breaks...` has all models."""

SHRINKING = {
    name: replace(small, repair=Repair(DEAR) if small.repair else Repair())
    for name, small in ALL_TABLES.items()
    if small.shrink
}


@tables_of_the_gate("small", ALL_TABLES, PLAIN_TABLES)
@FEW_LONG
@given(data=st.data())
def test_every_row_is_in_the_group_that_a_scan_of_all_groups_finds(small: Table, data: st.DataObject) -> None:
    secret = data.draw(SECRETS)
    engine, folded, twin = Engine(small, secret=secret), FoldedTable(), Twin(small, secret)
    for change in data.draw(st.lists(changes(small), min_size=20, max_size=40)):
        note(f"{change!r}")
        assert refusal(engine.apply, change) == refusal(twin.apply, change)
        folded.fold(engine.drain())
        assert_same(engine, folded, twin)


@tables_of_the_gate("small", ALL_TABLES, GATE_TABLES)
@FEW_LONG
@given(data=st.data())
def test_batches_and_restarts_leave_no_trace_in_the_state(small: Table, data: st.DataObject) -> None:
    steps = data.draw(st.lists(changes(small), min_size=20, max_size=40))
    assert_batches_leave_no_trace(small, data, steps, lambda engine, change: refusal(engine.apply, change))


@tables_of_the_gate("small", SHRINKING, GATE_TABLES)
@FEW_LONG
@given(data=st.data())
def test_no_published_box_is_wider_than_the_rows_that_are_left_in_it(small: Table, data: st.DataObject) -> None:
    """Half of the steps remove rows: one, those of a statement, or all."""
    batch = data.draw(st.sampled_from([1, 3, 40]))
    engine, folded = Engine(small, secret=data.draw(SECRETS)), FoldedTable()
    steps = st.one_of(changes(small), changes(small, LOSSES))
    came = data.draw(st.lists(rows(small), min_size=10, max_size=20))
    apply_valid(engine, [Insert(str(number), row) for number, row in enumerate(came)])
    for i, change in enumerate(data.draw(st.lists(steps, min_size=15, max_size=30)), start=1):
        apply_valid(engine, [change])
        if i % batch == 0:
            folded.fold(engine.drain())
            assert_boxes_are_tight(small, folded)
    folded.fold(engine.drain())
    assert_boxes_are_tight(small, folded)


def assert_boxes_are_tight(small: Table, folded: FoldedTable) -> None:
    for number, state in folded.qi_groups.items():
        codes = np.array([folded.records[key].row.codes for key in state.members])
        lo, hi = map(tuple, small.space.box_of_cells(small.space.cells(codes)))
        assert (state.lo, state.hi) == (lo, hi)
        assert (folded.published[number].lo, folded.published[number].hi) == (lo, hi)


@settings(max_examples=max(5, settings().max_examples // 20))  # of hundreds of changes each
@given(data=st.data())
def test_a_long_life_of_one_table_stays_with_its_twin(data: st.DataObject) -> None:
    small = TABLES["decimal, number, category"]
    secret = data.draw(SECRETS)
    engine, folded, twin = Engine(small, secret=secret), FoldedTable(), Twin(small, secret)
    for change in data.draw(st.lists(changes(small), min_size=150, max_size=300)):
        assert refusal(engine.apply, change) == refusal(twin.apply, change)
    folded.fold(engine.drain())
    assert_same(engine, folded, twin)


REPAIRED = {name: small for name, small in ALL_TABLES.items() if small.repair and small.repair.price < DEAR}


@pytest.mark.slow
@tables_of_the_gate("small", REPAIRED, [*PLAIN_TABLES, "distinct l, nulls count, repair"])
def test_local_repair_among_many_groups_stays_with_its_twin(small: Table) -> None:
    """The twin looks at every move: with most models that takes it as long as all plain tables together."""
    secret = b"sixteen letters."
    engine, folded, twin, lists = Engine(small, secret=secret), FoldedTable(), Twin(small, secret), 0
    plain = small.diversity == Diversity()
    for change in coming_and_going(small, seed=2, first=60 if plain else 40, then=140 if plain else 60):
        assert refusal(engine.apply, change) == refusal(twin.apply, change)
        drained = engine.drain()
        folded.fold(drained)
        assert_same(engine, folded, twin)
        lists += assert_degrees_are_true(drained.similarity, twin)
    assert lists > 10
    moves = {"adopt", "evict", "dissolve", "recut_with_neighbours", "2 groups cut afresh", "3 groups cut afresh"}
    assert set(twin.repaired) == moves


def assert_degrees_are_true(lists: Mapping[int, Degrees | None], twin: Twin) -> int:
    """Similarity lists are of groups whose next loss would merge them, and name others best first; returns how many."""
    found = {number: listed for number, listed in lists.items() if listed is not None}
    for number, listed in found.items():
        assert not any(holds_without(twin, key, number) for key in twin.groups[number].members)
        assert listed == tuple(sorted(listed, key=lambda one: (-one[1], one[0])))
        assert dict(listed) == {other: twin.qgssd(number, other) for other, _ in listed}
    return len(found)


@pytest.mark.parametrize("small", MODEL_TABLES.values(), ids=MODEL_TABLES.keys())
@settings(max_examples=max(2, settings().max_examples // 10))  # of a hundred changes each
@given(data=st.data())
def test_no_published_group_ever_breaks_the_model_and_rows_wait_only_while_all_of_them_do(
    small: Table, data: st.DataObject
) -> None:
    assert_holds_the_model(small, data)


@pytest.mark.slow
@pytest.mark.timeout(600)  # the twin looks at every move that local repair could make
@tables_of_the_gate("small", REPAIRED_MODELS, covering(REPAIRED_MODELS, parts_of))
@settings(max_examples=max(2, settings().max_examples // 50))
@given(data=st.data())
def test_neither_does_local_repair(small: Table, data: st.DataObject) -> None:
    assert_holds_the_model(small, data)


def assert_holds_the_model(small: Table, data: st.DataObject) -> None:
    secret, batch = data.draw(SECRETS), data.draw(st.sampled_from([1, 7, 1_000]))
    engine, folded, twin = Engine(small, secret=secret), FoldedTable(), Twin(small, secret)
    for i, change in enumerate(data.draw(st.lists(changes(small), min_size=60, max_size=120)), start=1):
        assert refusal(engine.apply, change) == refusal(twin.apply, change)
        if i % batch == 0:
            folded.fold(engine.drain())
            assert_same(engine, folded, twin)
            check_arrays(engine.arrays)
            if data.draw(st.integers(0, 20)) == 0:
                engine = Engine.load(small, 0, 1, folded.kept_table(), secret)
                check_arrays(engine.arrays)
            assert all(twin.holds(list(state.members)) for state in folded.qi_groups.values())
            waiting = [source_key for source_key, number in twin.group_of.items() if number == 0]
            assert not waiting or not (folded.qi_groups or twin.holds(waiting))
