"""Rows in columns: the mapping that they are, without an object for each."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.dtypes import StringDType

from streamer.incremental.engine import stored_state
from streamer.incremental.engine.stored_state import PENDING, Record, RecordColumns
from streamer.table.row import Row

FLU, COUGH = (b'"flu"',), (b'"cough"',)
ROWS = {
    "ann": Record(Row((1, 2), FLU, ("1.5",), "p1"), 7),
    "bob": Record(Row((3, 4), COUGH, ("2.5",), None), 9),
    "cyd": Record(Row((5, 6), FLU, ("3.5",), "p2", (0, 1)), PENDING),
}


def columns(*gone: str) -> RecordColumns:
    rows = [record.row for record in ROWS.values()]
    return RecordColumns(
        np.array(list(ROWS), StringDType()),
        np.array([row.codes for row in rows]),
        [row.values for row in rows],
        [row.exact for row in rows],
        [row.individual for row in rows],
        [row.nulls for row in rows],
        np.array([record.qi_group for record in ROWS.values()]),
        gone,
    )


def test_columns_are_the_mapping_of_their_rows_and_of_those_that_are_gone() -> None:
    assert columns() == ROWS
    assert columns("dan") == {**ROWS, "dan": None}
    assert dict(columns("dan").items()) == {**ROWS, "dan": None}
    assert (len(columns("dan")), list(columns("dan"))) == (4, [*ROWS, "dan"])


def test_one_row_is_found_by_its_source_key() -> None:
    assert columns("dan")["bob"] == ROWS["bob"]
    assert columns("dan")["dan"] is None
    assert "eve" not in columns()


def test_more_rows_than_are_objects_at_once_come_all_and_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored_state, "RECORDS_AT_ONCE", 2)
    assert list(columns("dan").items()) == [*ROWS.items(), ("dan", None)]
    assert list(columns("dan")) == [*ROWS, "dan"]


def test_some_rows_are_put_into_other_qi_groups() -> None:
    moved = columns().in_groups(["cyd", "ann"], np.array([30, 31]))
    assert list(moved.items()) == [("cyd", Record(ROWS["cyd"].row, 30)), ("ann", Record(ROWS["ann"].row, 31))]
    assert columns().in_groups([], np.zeros(0, np.int64)) == {}


def test_contents_of_columns_are_not_shown() -> None:
    assert "ann" not in repr(columns("dan"))
    assert "dan" not in repr(columns("dan"))
