"""The engine against its brute-force twin: the same QI group for every row, the same table, at every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.events.changes import Change
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.kept import KeptTable, QIGroupState, Record, SimilarityList
from streamer.incremental.groups.net_effect import Drained
from streamer.incremental.release.changelog import PublishedGroup
from streamer.table.schema import Table
from worlds.small_tables import TABLES, changes
from worlds.twin import Twin

Name = TypeVar("Name")
Value = TypeVar("Value")


def overwrite(stored: dict[Name, Value], changed: Mapping[Name, Value | None]) -> None:
    """Puts what changed in the place of what was there; None removes it."""
    for name, value in changed.items():
        if value is None:
            stored.pop(name, None)
        else:
            stored[name] = value


class FoldedTable:
    """What a store would hold: all that was drained, one after the other."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.qi_groups: dict[int, QIGroupState] = {}
        self.similarity: dict[int, SimilarityList] = {}
        self.published: dict[int, PublishedGroup] = {}
        self.qi_group_next = 1

    def fold(self, drained: Drained) -> None:
        overwrite(self.records, drained.records)
        overwrite(self.qi_groups, drained.qi_groups)
        overwrite(self.similarity, drained.similarity)
        for number, before, after in drained.published:
            assert self.published.get(number) == before
            if after is None:
                del self.published[number]
            else:
                self.published[number] = after
        self.qi_group_next = drained.qi_group_next

    def kept_table(self) -> KeptTable:
        lists = dict(self.similarity)
        return KeptTable(self.qi_group_next, list(self.records.items()), dict(self.qi_groups), lists, ())


def refusal(apply: Callable[[Change], object], change: Change) -> str | None:
    try:
        apply(change)
    except EventRefused as error:
        return error.reason
    return None


def assert_same(engine: Engine, folded: FoldedTable, twin: Twin) -> None:
    assert dict(engine.index_table()) == twin.group_of
    assert {n: (g.lo, g.hi, g.slots) for n, g in folded.published.items()} == {
        n: (tuple(lo for lo, _ in g.box), tuple(hi for _, hi in g.box), tuple(g.slots)) for n, g in twin.groups.items()
    }
    assert {key: record.qi_group for key, record in folded.records.items()} == twin.group_of
    assert {n: sorted(state.members) for n, state in folded.qi_groups.items()} == {
        n: sorted(group.members) for n, group in twin.groups.items()
    }
    assert engine.n_pending == sum(number == 0 for number in twin.group_of.values())
    assert folded.qi_group_next == twin.next_number


SECRETS = st.binary(min_size=16, max_size=16)


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@given(data=st.data())
def test_every_row_is_in_the_group_that_a_scan_of_all_groups_finds(small: Table, data: st.DataObject) -> None:
    secret = data.draw(SECRETS)
    engine, folded, twin = Engine(small, secret=secret), FoldedTable(), Twin(small, secret)
    for change in data.draw(st.lists(changes(small), max_size=40)):
        note(f"{change!r}")
        assert refusal(engine.apply, change) == refusal(twin.apply, change)
        folded.fold(engine.drain())
        assert_same(engine, folded, twin)


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@given(data=st.data())
def test_batches_and_restarts_leave_no_trace_in_the_state(small: Table, data: st.DataObject) -> None:
    """One engine drains after every change; one drains, and is loaded anew from what it kept, at random places."""
    secret = data.draw(SECRETS)
    steady, folded_steady = Engine(small, secret=secret), FoldedTable()
    jumpy, folded_jumpy = Engine(small, secret=secret), FoldedTable()
    for change in data.draw(st.lists(changes(small), max_size=40)):
        assert refusal(steady.apply, change) == refusal(jumpy.apply, change)
        folded_steady.fold(steady.drain())
        match data.draw(st.sampled_from(["go on", "go on", "drain", "restart"])):
            case "drain":
                folded_jumpy.fold(jumpy.drain())
            case "restart":
                folded_jumpy.fold(jumpy.drain())
                jumpy = Engine.load(small, 0, 1, folded_jumpy.kept_table(), secret)
    folded_jumpy.fold(jumpy.drain())
    assert dict(steady.index_table()) == dict(jumpy.index_table())
    assert folded_steady.published == folded_jumpy.published
    assert folded_steady.records == folded_jumpy.records
    assert folded_steady.qi_group_next == folded_jumpy.qi_group_next


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
