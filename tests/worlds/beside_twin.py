"""The engine beside its brute-force twin: the same refusals, the same QI group for every row, the same table."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import Change
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
