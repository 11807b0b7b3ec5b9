"""Regions replaced between changes: the engine goes on as its brute-force twin does with the same QI groups.

A replacement is one event between others: where batches end, and whether the engine was loaded before or after,
makes no difference.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import Change
from streamer.table.schema import Table
from worlds.engine_tables import FoldedTable, drawn_groups
from worlds.small_tables import FEW_LONG, TABLES, changes
from worlds.twin import SECRETS, Twin, TwinGroup, assert_batches_leave_no_trace, assert_same, refusal

REPLACE = "replace a region"


def replace_some(engine: Engine, small: Table, seed: int) -> None:
    """Replaces one region, or several, by random groups."""
    chance = Random(seed)
    for numbers in engine.regions(seed % 7, chance.choice([4, 8, 1000])):
        if chance.random() < 0.7:
            region = engine.region(numbers)
            assert engine.replace(region, drawn_groups(small, region, chance)) is not None


def follow(twin: Twin, folded: FoldedTable) -> None:
    """The twin takes over the QI groups as they are published, with boxes of its own."""
    twin.groups = {}
    for number, state in folded.qi_groups.items():
        members = list(state.members)
        twin.groups[number] = TwinGroup(members, twin.box(members), list(state.slots))
        for key in members:
            twin.group_of[key] = number
    twin.next_number = folded.qi_group_next


@pytest.mark.parametrize("small", [t for t in TABLES.values() if t.shrink], ids=[n for n in TABLES if TABLES[n].shrink])
@FEW_LONG
@given(data=st.data())
def test_after_a_replacement_everything_goes_on_by_the_rules(small: Table, data: st.DataObject) -> None:
    secret = data.draw(SECRETS)
    engine, folded, twin = Engine(small, secret=secret), FoldedTable(), Twin(small, secret)
    for change in data.draw(
        st.lists(st.one_of(changes(small), changes(small), st.integers(0, 99)), min_size=20, max_size=40)
    ):
        note(f"{change!r}")
        if isinstance(change, int):
            replace_some(engine, small, change)
            folded.fold(engine.drain())
            follow(twin, folded)
        else:
            assert refusal(engine.apply, change) == refusal(twin.apply, change)
            folded.fold(engine.drain())
        assert_same(engine, folded, twin)


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@FEW_LONG
@given(data=st.data())
def test_batches_and_restarts_leave_no_trace_of_where_a_replacement_was(small: Table, data: st.DataObject) -> None:
    def take(engine: Engine, step: Change | int) -> str | None:
        if not isinstance(step, int):
            return refusal(engine.apply, step)
        replace_some(engine, small, step)
        return None

    steps = data.draw(st.lists(st.one_of(changes(small), changes(small), st.integers(0, 99)), min_size=15, max_size=30))
    assert_batches_leave_no_trace(small, data, steps, take)
