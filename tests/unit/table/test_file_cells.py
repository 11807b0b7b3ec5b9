"""What a cell of a file, or a value of a DataFrame, stands for in its column."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamer.table.file_cells import CellReader, cell_text, told_apart
from streamer.table.schema import KeptColumn, SourceText, Table
from streamer.table.source_texts import meanings_of
from worlds.small_tables import AGE, CITY

KEPT = (KeptColumn("cost", True, "decimal"), KeptColumn("smokes", True, "boolean"), KeptColumn("note", True))
WRITTEN = (SourceText("cost", na=("n/a",), written="1,234.5"),)
PEOPLE = Table("people", ("id",), (AGE, CITY), KEPT, k=2, source_texts=WRITTEN)


def value(column: str, cell: object) -> object:
    return CellReader(PEOPLE, meanings_of(PEOPLE)).value(column, cell)


@pytest.mark.parametrize(
    ("column", "cell", "stands_for"),
    [
        ("age", "21.0", Decimal(21)),
        ("age", "x", "x"),
        ("age", "", None),
        ("age", 21, Decimal(21)),
        ("age", np.nan, None),
        ("city", "7", "7"),
        ("city", 7.0, "7"),
        ("smokes", "true", True),
        ("smokes", False, False),
        ("note", "true", "true"),
        ("note", "", None),
        ("id", "7", "7"),
    ],
)
def test_a_cell_stands_for_what_the_type_of_its_column_says(column: str, cell: object, stands_for: object) -> None:
    found = value(column, cell)
    assert (found, type(found)) == (stands_for, type(stands_for))


def test_a_text_means_what_its_column_writes_and_a_typed_number_is_written_in_no_way() -> None:
    assert value("cost", "1,234.50") == Decimal("1234.5")
    assert value("cost", "n/a") is None
    assert value("cost", 1234.5) == Decimal("1234.5")


@pytest.mark.parametrize("cell", [b"flu", (1, 2), pd.Timedelta(1)])
def test_what_no_file_could_have_stays_for_the_encoder_to_refuse(cell: Any) -> None:
    assert value("note", cell) is cell


def test_true_and_one_are_two_cells() -> None:
    cells = told_apart(pd.Series([True, 1, "x"], dtype=object))
    assert cells.tolist() == ["true", 1, "x"]
    assert [cell_text(cell) for cell in (True, 1)] == ["true", "1"]
