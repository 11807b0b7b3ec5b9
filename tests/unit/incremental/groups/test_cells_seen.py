"""Which cells readers of a lossy join have seen of every QI group, against a count of all rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.errors import EventRefused
from streamer.incremental.groups.cells_seen import CellsSeen
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.kept import PENDING
from streamer.table.schema import LOSSY_JOIN
from worlds.folded_table import FoldedTable
from worlds.small_tables import TABLES, changes


def cells_by_group(kept: FoldedTable, per_cell: list[int]) -> dict[int, tuple[tuple[int, ...], ...]]:
    """The distinct cells of every QI group, row by row."""
    found: dict[int, set[tuple[int, ...]]] = {}
    for record in kept.records.values():
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
        for change in batch:
            try:
                engine.apply(change)
            except EventRefused:
                continue
        kept.fold(engine.drain())
        assert {number: group.cells for number, group in kept.published.items()} == cells_by_group(kept, per_cell)
        if data.draw(st.booleans()):
            engine = Engine.load(small, 0, 1, kept.kept_table())


def test_other_forms_publish_no_cells() -> None:
    engine, kept = Engine(TABLES["one number"]), FoldedTable()
    kept.fold(engine.drain())
    assert not kept.published
    assert CellsSeen(1).completed([], {}, lambda keys: engine.source_rows()[1]) == []
