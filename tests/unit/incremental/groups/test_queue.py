"""Operations wait until they are run, many at a time; how they are cut into runs leaves no trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.core.record_types import DISSOLVE, INSERT, TAKE
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.held import Held
from streamer.incremental.groups.queue import Queue
from streamer.incremental.groups.rows import Rows
from streamer.table.schema import Table
from worlds.checked_arrays import check_arrays
from worlds.shard_tables import OF_TWO, row_of
from worlds.small_tables import TABLES, changes


@pytest.fixture
def rows() -> Rows:
    return Rows(OF_TWO, Held(OF_TWO))


def queue_of(rows: Rows) -> Queue:
    return Queue(rows, rows._held, b"")


def test_what_waits_is_run_once(rows: Rows) -> None:
    queue = queue_of(rows)
    assert not queue.run()
    row = row_of(3)
    queue.add(INSERT, rows.add("a", row), row)
    queue.end()
    assert len(queue) == 1
    assert queue.run()
    assert (len(queue), rows._held.say("n_pending")) == (0, 1)
    assert not queue.run()


def test_a_change_without_operations_ends_nothing_anew(rows: Rows) -> None:
    queue = queue_of(rows)
    queue.end()
    for key in "ab":
        row = row_of(3)
        queue.add(INSERT, rows.add(key, row), row)
    queue.end()
    queue.end()
    queue.run()
    assert (rows._held.say("n_groups"), len(queue)) == (1, 0)


def test_source_keys_are_told_to_one_batch(rows: Rows) -> None:
    queue = queue_of(rows)
    row = row_of(3)
    queue.add(INSERT, rows.add("a", row), row)
    queue.add(DISSOLVE)
    queue.run()
    queue.add(TAKE, 0)
    assert list(queue.take_touched()) == ["a"]
    assert list(queue.take_touched()) == []


@pytest.mark.parametrize("small", TABLES.values(), ids=TABLES.keys())
@given(data=st.data())
def test_how_changes_are_cut_into_runs_leaves_no_trace_and_all_arrays_agree(small: Table, data: st.DataObject) -> None:
    at_once, in_runs = Engine(small), Engine(small)
    for change in data.draw(st.lists(changes(small), max_size=40)):
        for engine in (at_once, in_runs):
            try:
                engine.apply(change)
            except EventRefused:
                continue
        if data.draw(st.booleans()):
            in_runs.run()
            check_arrays(in_runs._held.arrays)
    assert at_once.drain().published == in_runs.drain().published
    assert dict(at_once.index_table()) == dict(in_runs.index_table())
