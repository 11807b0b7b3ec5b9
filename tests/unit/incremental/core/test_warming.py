"""What the core is compiled for: all that an engine calls, so that nothing is left to be compiled while it runs."""

from __future__ import annotations

from typing import cast

import pytest

from streamer.incremental.core.figures import FIGURES, FLOAT32, set_of, set_of_figures
from streamer.incremental.core.layout import Shard, figures_dtype
from streamer.incremental.core.warming import warming_calls
from streamer.incremental.events.changes import Delete, Insert
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.kept import KeptTable
from streamer.jit import Entry
from streamer.machine_code import never_compiled
from streamer.table.row import Row
from worlds.small_tables import AGE, CITY, table


@pytest.mark.parametrize("figures", FIGURES)
def test_every_entry_is_compiled_for_a_shard_of_these_figures(figures: str) -> None:
    calls = list(warming_calls(figures))
    assert calls
    for _entry, arguments in calls:
        assert set_of(cast(Shard, arguments[0])) == set_of_figures(figures)


@pytest.mark.skipif(never_compiled(), reason="nothing is compiled")
def test_what_an_engine_calls_is_loaded_from_the_disk() -> None:
    people = table(AGE, CITY, k=2)
    assert figures_dtype(people.space).name == FLOAT32
    engine = Engine(people)
    for i in range(9):
        engine.apply(Insert(f"{i}", Row((i, i % 6), (b'"flu"',))))
    engine.apply(Delete("3"))
    engine.drain()
    Engine.load(people, 0, 1, KeptTable(1, [], [], [], []))
    for entry, _arguments in warming_calls(FLOAT32):
        assert isinstance(entry, Entry)
        said = entry.dispatcher().stats
        of_these = [hits for types, hits in said.cache_hits.items() if FLOAT32 in str(types)]
        assert of_these == [1], f"{entry.function.__name__} does not run compiled"
        assert not said.cache_misses, (
            f"{entry.function.__name__} was compiled while it ran: warming_calls has other types"
        )
