"""A table of which no QI group is made: the engine gathers its rows, by all its rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.incremental.events.changes import Delete, Insert
from streamer.incremental.groups.all_pending import ENDLESS, NEVER, all_pending
from streamer.incremental.groups.engine import Engine
from streamer.table.row import Row
from streamer.table.schema import Diversity
from worlds.small_tables import CITY, YEARS, table

PEOPLE = table(YEARS, CITY, k=2)


def test_only_k_is_another_and_what_a_batch_may_publish_which_it_never_does() -> None:
    limits = replace(PEOPLE.limits, transaction_rows_max=ENDLESS)
    assert all_pending(PEOPLE) == replace(PEOPLE, k=NEVER, limits=limits)


@pytest.mark.parametrize("diversity", [Diversity(), Diversity(l=2)], ids=str)
def test_an_engine_that_gathers_makes_no_qi_group(diversity: Diversity) -> None:
    engine = Engine(replace(PEOPLE, diversity=diversity), gathers=True)
    for i in range(12):
        engine.apply(Insert(f"p{i}", Row((i % 10, i % 6), (b'"flu"' if i % 2 else b'"cough"',))))
    engine.apply(Delete("p3"))
    drained = engine.drain()
    assert (engine.n_rows, engine.n_pending, engine.n_qi_groups) == (11, 11, 0)
    assert (drained.published, drained.qi_group_next) == ([], 1)
