"""The engine beside its brute-force twin: the same refusals, the same QI group for every row, the same table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import Change
from streamer.table.schema import Table
from worlds.folded_table import FoldedTable
from worlds.twin import Twin

SECRETS = st.binary(min_size=16, max_size=16)


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


def assert_batches_leave_no_trace(
    small: Table, data: st.DataObject, steps: Iterable[Any], take: Callable[[Engine, Any], object]
) -> None:
    """One engine drains after every step; the other now and then, and is now and then loaded from what was stored."""
    secret = data.draw(SECRETS)
    steady, folded_steady = Engine(small, secret=secret), FoldedTable()
    jumpy, folded_jumpy = Engine(small, secret=secret), FoldedTable()
    for step in steps:
        assert take(steady, step) == take(jumpy, step)
        folded_steady.fold(steady.drain())
        what = data.draw(st.sampled_from(["go on", "go on", "drain", "restart"]))
        if what != "go on":
            folded_jumpy.fold(jumpy.drain())
        if what == "restart":
            jumpy = Engine.load(small, 0, 1, folded_jumpy.kept_table(), secret)
    folded_jumpy.fold(jumpy.drain())
    assert dict(steady.index_table()) == dict(jumpy.index_table())
    assert folded_steady.published == folded_jumpy.published
    assert folded_steady.records == folded_jumpy.records
    assert folded_steady.qi_group_next == folded_jumpy.qi_group_next
