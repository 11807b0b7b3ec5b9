"""Rows in columns: the mapping that they are, without an object for each."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from numpy.dtypes import StringDType

from streamer.errors import ShardRefused
from streamer.incremental.core.layout import LINKS, NONE
from streamer.incremental.engine import stored_state
from streamer.incremental.engine.stored_state import (
    PENDING,
    Record,
    RecordColumns,
    SimilarityList,
    indexes_of_numbers,
    stored_lists,
)
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


# What streamer.incremental.engine.stored_state promises: sound lists by indexes; of any other a refusal.

NAMES = np.array([3, 5, 8, 9])


def test_lists_come_by_the_indexes_of_their_qi_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_state, "LISTS_AT_ONCE", 2)
    lists = {
        8: SimilarityList(((3, 2.0), (9, 0.5)), 0.25),
        3: SimilarityList((), 0.0),
        9: SimilarityList(((5, 0.5), (8, 0.5)), 0.5),
    }
    restored = stored_lists(iter(lists.items()), NAMES)
    assert [column.tolist() for column in restored] == [
        [2, 0, 3], [0.25, 0.0, 0.5], [2, 2, 4], [0, 3, 1, 2], [2.0, 0.5, 0.5, 0.5]
    ]  # fmt: skip


def test_no_lists_are_empty_arrays() -> None:
    assert [len(column) for column in stored_lists([], NAMES)] == [0] * 5
    assert [len(column) for column in stored_lists([], NAMES[:0])] == [0] * 5


DAMAGED = {
    "of nobody": ([(4, SimilarityList((), 0.0))], "names a QI group that is not stored"),
    "that names nobody": ([(3, SimilarityList(((4, 0.5),), 0.0))], "names a QI group that is not stored"),
    "that names what no array holds": (
        [(3, SimilarityList(((2**70, 0.5),), 0.0))], "names a QI group that is not stored"
    ),
    "too long": ([(3, SimilarityList(((5, 0.5),) * (LINKS + 1), 0.0))], "too many entries"),
    "that names one twice": ([(3, SimilarityList(((5, 0.5), (5, 0.5)), 0.0))], "twice, or its own"),
    "that names its own": ([(3, SimilarityList(((3, 0.5),), 0.0))], "twice, or its own"),
    "without a score": ([(3, SimilarityList(((5, nan),), 0.0))], "not a finite number"),
    "of an endless score": ([(3, SimilarityList(((5, inf),), 0.0))], "not a finite number"),
    "without a floor": ([(3, SimilarityList((), nan))], "not a finite number"),
    "with an endless floor": ([(3, SimilarityList((), inf))], "not a finite number"),
    "in no order": ([(3, SimilarityList(((5, 0.5), (8, 1.0)), 0.0))], "is not sorted"),
    "below its floor": ([(3, SimilarityList(((5, 0.5),), 0.75))], "a floor above its entries"),
    "given twice": ([(3, SimilarityList((), 0.0)), (3, SimilarityList((), 0.5))], "two similarity lists"),
}  # fmt: skip


@pytest.mark.parametrize(("lists", "said"), DAMAGED.values(), ids=DAMAGED.keys())
def test_a_list_that_cannot_be_is_refused_and_the_remedy_is_named(
    lists: list[tuple[int, SimilarityList]], said: str
) -> None:
    with pytest.raises(ShardRefused, match=f"the store is damaged: a .*{said}.*; reload <table> from"):
        stored_lists(lists, NAMES)


def test_a_number_that_is_not_there_has_no_index() -> None:
    assert indexes_of_numbers(NAMES, [9, 1, 3, 4, 10]).tolist() == [3, NONE, 0, NONE, NONE]
    assert indexes_of_numbers(NAMES[:0], [9]).tolist() == [NONE]
