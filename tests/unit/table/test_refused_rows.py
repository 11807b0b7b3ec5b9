"""Rows that table.yaml refuses: told by number, reason and column, and left out."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from streamer.errors import ConfigError
from streamer.table.encode import Encoder
from streamer.table.refused_rows import RefusedRow, counted, refused_rows, without_refused
from worlds.small_tables import AGE, CITY, table

PEOPLE = replace(table(AGE, CITY), individual="who")


def frame(*rows: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["id", "who", "age", "city", "problem"])


MESSY = frame(
    ("1", "a", "7", "b1", "flu"),
    ("2", "b", "70", "b1", "flu"),
    ("3", "c", "7", "nowhere", "flu"),
    ("1", "d", "7", "b1", "flu"),
    ("", "e", "7", "b1", "flu"),
    ("6", "", "7", "b1", "flu"),
    ("7", "g", "", "b1", ""),
    ("8", "h", "8", "b1", ""),
)


def test_every_refused_row_is_told_by_its_number_reason_and_column() -> None:
    assert refused_rows(PEOPLE, MESSY) == [
        RefusedRow(2, "out-of-domain", "age"),
        RefusedRow(3, "unknown-category", "city"),
        RefusedRow(4, "key-exists", "id"),
        RefusedRow(5, "missing-key", "id"),
        RefusedRow(6, "missing-individual", "who"),
        RefusedRow(7, "null-not-allowed", "age"),
    ]


def test_what_is_left_is_read_as_it_stands() -> None:
    refused = refused_rows(PEOPLE, MESSY)
    left = Encoder(PEOPLE).frame(without_refused(MESSY, refused))
    assert left.source_keys == ["1", "8"]
    assert refused_rows(PEOPLE, without_refused(MESSY, refused)) == []


def test_a_key_whose_first_row_is_refused_is_free() -> None:
    rows = frame(("1", "a", "70", "b1", "flu"), ("1", "a", "7", "b1", "flu"))
    assert [row.data_row for row in refused_rows(PEOPLE, rows)] == [1]


def test_refusals_are_counted_by_reason_and_column() -> None:
    rows = [
        RefusedRow(1, "out-of-domain", "age"),
        RefusedRow(2, "missing-key", "id"),
        RefusedRow(3, "missing-key", "id"),
    ]
    assert counted(rows) == [("missing-key", "id", 2), ("out-of-domain", "age", 1)]


def test_a_file_without_a_named_column_is_refused_as_a_whole() -> None:
    with pytest.raises(ConfigError, match="no column 'age'"):
        refused_rows(PEOPLE, MESSY.drop(columns="age"))


def test_without_a_key_no_row_comes_twice() -> None:
    keyless = replace(PEOPLE, source_key=())
    assert [row.data_row for row in refused_rows(keyless, MESSY)] == [2, 3, 6, 7]
