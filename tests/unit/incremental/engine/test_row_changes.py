"""What the engine says of rows, change by change, to who publishes a sealed changelog."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.errors import EventRefused
from streamer.incremental.engine.engine import Engine
from streamer.incremental.events import changes
from streamer.incremental.events.changes import Change, RowChange
from streamer.table.schema import EpochLength, SealedRules
from worlds.engine_tables import OF_PEOPLE, row_of

TABLE = replace(OF_PEOPLE, sealed=SealedRules(EpochLength(events=10)))
ANN, BOB = row_of(1, "flu", "ann"), row_of(2, "cold", "bob")


def told(*some: Change) -> list[RowChange]:
    engine = Engine(TABLE)
    for at, change in enumerate(some, start=1):
        engine.at = at
        engine.apply(change)
    return list(engine.drain().row_changes)


def test_each_change_is_told_with_its_time_and_nothing_is_netted() -> None:
    moved, healed = row_of(9, "flu", "ann"), row_of(9, "none", "ann")
    assert told(
        changes.Insert("a", ANN),
        changes.Modify("a", codes={0: 9}),
        changes.Modify("a", values={0: b'"none"'}),
        changes.Modify("a", values={0: b'"flu"'}),
        changes.Delete("a"),
    ) == [
        RowChange("a", None, ANN, 1),
        RowChange("a", ANN.values, moved, 2),
        RowChange("a", ANN.values, healed, 3),
        RowChange("a", healed.values, moved, 4),
        RowChange("a", ANN.values, None, 5),
    ]


def test_a_repetition_changes_no_row() -> None:
    again = changes.Upsert("a", ANN), changes.Upsert("a", ANN), changes.Remove("b"), changes.Nothing()
    assert told(*again) == [RowChange("a", None, ANN, 1)]


def test_another_key_and_another_individual_are_another_row() -> None:
    assert told(
        changes.Insert("a", ANN), changes.Upsert("b", ANN, former_key="a"), changes.Upsert("b", BOB)
    ) == [
        RowChange("a", None, ANN, 1),
        RowChange("a", ANN.values, None, 2),
        RowChange("b", None, ANN, 2),
        RowChange("b", ANN.values, None, 3),
        RowChange("b", None, BOB, 3),
    ]  # fmt: skip


def test_a_truncation_removes_rows_one_by_one() -> None:
    some = told(changes.Insert("a", ANN), changes.Insert("b", BOB), changes.Truncate())
    assert {one.source_key: one for one in some[2:]} == {
        "a": RowChange("a", ANN.values, None, 3),
        "b": RowChange("b", BOB.values, None, 3),
    }


def test_what_is_refused_is_not_told() -> None:
    engine = Engine(TABLE)
    engine.apply(changes.Insert("a", ANN))
    for wrong in (changes.Insert("a", ANN), changes.Delete("b"), changes.Modify("b", codes={0: 3})):
        with pytest.raises(EventRefused):
            engine.apply(wrong)
    assert len(engine.drain().row_changes) == 1


def test_nothing_is_kept_for_a_table_without_a_sealed_changelog() -> None:
    engine = Engine(OF_PEOPLE)
    engine.apply(changes.Insert("a", ANN))
    assert list(engine.drain().row_changes) == []
