"""A column that is nearly a key is named, with the rows that are in the way and what helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.table.draft.near_keys import NearKey, near_key_of
from worlds.drafting import init, write

AGES = [str(20 + i % 40) for i in range(1000)]


def numbers(n: int, *others: str) -> list[str]:
    return [*(str(70_000 + i) for i in range(n)), *others]


@pytest.mark.parametrize(
    ("name", "cells", "near"),
    [
        ("customer_no", numbers(999, "70001"), NearKey("customer_no", 0, 1)),
        ("PatientID", numbers(984, *[""] * 15, "?"), NearKey("PatientID", 16, 0)),
        ("PatientID", numbers(984, *["", "70003"] * 8), NearKey("PatientID", 8, 8)),
        ("customer", numbers(998, "70003", ""), NearKey("customer", 1, 1)),
        ("customer", numbers(980, *["70003"] * 20), None),
        ("PatientID", numbers(800, *["70003"] * 200), None),
        ("email", numbers(999, "70001"), None),
        ("pay", [f"{i}.5" for i in range(999)] + ["1.5"], None),
    ],
)
def test_a_column_is_nearly_a_key_where_few_rows_are_in_the_way(
    name: str, cells: list[str], near: NearKey | None
) -> None:
    assert near_key_of({"age": AGES, name: cells}) == near


def test_of_ids_that_with_the_fewest_rows_in_the_way_is_named() -> None:
    columns = {"visit_no": numbers(990, *["70001"] * 10), "case_id": numbers(999, "")}
    assert near_key_of(columns) == NearKey("case_id", 1, 0)


def test_a_draft_names_it_with_the_rows_in_the_way_and_none_of_their_values(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", {"age": AGES, "Patient ID": numbers(983, *[""] * 16, "70001")})
    result = init(rows, tmp_path / "out")
    said = '"Patient ID" nearly is: 16 rows have no value in it and 1 row has the value of another row'
    assert said in result.stdout
    assert "# key: no column that can be named is different in every row" in (text := _table(tmp_path))
    assert said in text
    assert "70001" not in result.stdout + text


def test_a_draft_without_such_a_column_says_only_that_there_is_no_key(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", {"age": AGES, "sex": ["f", "m"] * 500})
    assert "nearly" not in init(rows, tmp_path / "out").stdout + _table(tmp_path)


def _table(folder: Path) -> str:
    return (folder / "out" / "table.yaml").read_text()
