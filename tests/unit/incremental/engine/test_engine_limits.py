"""Rows that Kafka would not take are refused by the engine, with nothing changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from streamer.errors import ConfigError, EventRefused
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events.changes import Change, Insert, Modify, ModifyWhere, Upsert
from streamer.incremental.events.statements import parse_assignments, parse_condition
from streamer.table.codes import KeptColumn
from streamer.table.published.rows import frame_bytes
from streamer.table.row import Row
from streamer.table.schema import Limits, Table
from worlds.small_tables import CITY, YEARS, table

NOTES = (KeptColumn("note", sensitive=True), KeptColumn("remark", sensitive=False))
SMALL: Table = replace(table(YEARS, CITY), kept=NOTES)
VALUES_BYTES_MAX = 100
LIMITED = replace(SMALL, limits=Limits(row_bytes_max=frame_bytes(SMALL) + VALUES_BYTES_MAX))
HALF = b'"%b"' % (b"x" * 58)
EMPTY = b'""'


def row(note: bytes = EMPTY, remark: bytes = EMPTY, years: int = 3) -> Row:
    return Row((years, 0), (note, remark))


def engine(rows: Sequence[Row]) -> Engine:
    engine = Engine(LIMITED)
    for number, one in enumerate(rows):
        engine.apply(Insert(str(number), one))
    engine.drain()
    return engine


@pytest.mark.parametrize(
    "change",
    [
        Insert("7", row(HALF, HALF)),
        Upsert("7", row(HALF, HALF)),
        Upsert("7", row(HALF, HALF), former_key="1"),
        Modify("0", {}, {}, {1: HALF}, None),
        Modify("0", {0: 9}, {}, {1: HALF}, None),
    ],
    ids=["insert", "upsert", "upsert with another key", "modify", "modify that moves"],
)
def test_a_row_that_kafka_would_not_take_is_refused_and_nothing_changes(change: Change) -> None:
    """The first half alone fits: what counts is the row that would result."""
    shard = engine([row(HALF), row(), row()])
    with pytest.raises(EventRefused, match=r"limits\.row_bytes_max") as refusal:
        shard.apply(change)
    assert refusal.value.reason == "row-too-large"
    drained = shard.drain()
    assert (drained.records, drained.published) == ({}, [])


def test_a_row_of_the_largest_size_is_taken() -> None:
    shard = engine([row(), row()])
    shard.apply(Insert("7", row(b'"%b"' % (b"x" * (VALUES_BYTES_MAX - 4)), EMPTY)))
    assert shard.n_rows == 3


def test_a_statement_leaves_the_rows_as_they_are_that_would_become_too_large() -> None:
    shard = engine([row(HALF), row(years=4), row(years=5)])
    text = "x" * 58
    statement = ModifyWhere(
        parse_condition("years >= 0", LIMITED), parse_assignments({"remark": f"'{text}'"}, LIMITED), None
    )
    outcome = shard.apply(statement)
    assert (outcome.applied, outcome.left_unchanged) == (True, 1)
    records = shard.drain().records
    assert sorted(records) == ["1", "2"]


def test_an_initial_table_with_such_a_row_is_refused() -> None:
    rows = [row(HALF, HALF), row()]
    codes = np.array([one.codes for one in rows])
    with pytest.raises(ConfigError, match=r"limits\.row_bytes_max"):
        Engine(LIMITED).load_initial(["a", "b"], rows, codes, [np.array([0, 1])])
