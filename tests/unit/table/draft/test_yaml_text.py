"""A drafted table as texts: what stands there is read back as it was meant."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.draft.columns import Drafted
from streamer.table.draft.kinds import DraftScale
from streamer.table.draft.yaml_text import NearKey, hierarchy_names, hierarchy_text, near_key_of, quoted, table_text
from worlds.people_files import init, write

# A column that is nearly a key is named, with the rows that are in the way and what helps.

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
    assert "# key: no column that can be a key is different in every row" in (text := _table(tmp_path))
    assert said in text
    assert "70001" not in result.stdout + text


def test_a_draft_without_such_a_column_says_only_that_there_is_no_key(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.csv", {"age": AGES, "sex": ["f", "m"] * 500})
    assert "nearly" not in init(rows, tmp_path / "out").stdout + _table(tmp_path)


def _table(folder: Path) -> str:
    return (folder / "out" / "table.yaml").read_text()


SEX = Drafted(
    "sex", "quasi-identifier", "a value or nothing", hierarchy=(("F", "*"), ("M", "*")), nulls=True, na=("?",)
)
AGE = Drafted(
    "age", "quasi-identifier", "check it", scale=DraftScale(True, (Decimal(15), Decimal(94)), Decimal(1), Decimal(5))
)
BMI = Drafted(
    "bmi",
    "quasi-identifier",
    "check it",
    scale=DraftScale(False, (Decimal(10), Decimal(50)), Decimal("0.1"), Decimal(2)),
)
PROBLEM = Drafted("problem", "sensitive", "a guess", type="text")
NAME = Drafted("name", "", "names people")


def read(*columns: Drafted) -> dict[str, Any]:
    text = table_text("people", "rows.csv", 40, "id", 3, columns)
    settings = yaml.safe_load(text)
    assert isinstance(settings, dict)
    return settings


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_a_name_is_read_back_as_it_was_and_takes_one_line(name: str) -> None:
    assert "\n" not in quoted(name)
    assert yaml.load(quoted(name), Loader=yaml.BaseLoader) == name


def test_every_column_stands_with_its_settings() -> None:
    settings = read(AGE, BMI, SEX, PROBLEM)
    assert settings["columns"] == {
        "age": {"role": "quasi-identifier", "type": "integer", "domain": [15, 94], "grid": 5},
        "bmi": {"role": "quasi-identifier", "type": "decimal", "domain": [10, 50], "step": 0.1, "grid": 2},
        "sex": {"role": "quasi-identifier", "hierarchy": "hierarchies/sex.csv", None: "own-category", "other": "*"},
        "problem": {"role": "sensitive", "type": "text"},
    }
    assert (settings["table"], settings["key"], settings["privacy"]) == ("people", "id", {"k": 3})
    assert settings["na"] == ["", "?"]
    assert settings["publish"] == {"sealed": {"epoch": "10min"}}


def test_a_draft_publishes_cohorts_unless_they_hide_nothing_and_says_why() -> None:
    lines = table_text("people", "rows.csv", 40, "id", 3, (AGE, PROBLEM)).splitlines()
    assert lines[-1] == "  # live: {form: rows}"
    assert sum(line.startswith("  #") for line in lines[lines.index("publish:") :]) == 4
    most = replace(PROBLEM, largest=Decimal("0.612"))
    assert read(AGE, most)["publish"] == {"live": {"form": "rows"}}
    lines = table_text("people", "rows.csv", 40, "id", 3, (AGE, most)).splitlines()
    assert "  # sealed protects nothing here: 61.2 % of the rows have one value, and nothing hides that." in lines


def test_a_column_with_words_or_a_pattern_of_its_own_says_them_all() -> None:
    cost = Drafted("cost", "sensitive", "", type="integer", nulls=True, na=("-", "?"), written="1,234.5")
    settings = read(AGE, cost)
    assert settings["na"] == ["", "?"]
    assert settings["columns"] == read(AGE)["columns"] | {
        "cost": {"role": "sensitive", "type": "integer", "written": "1,234.5", "na": ["", "-", "?"]}
    }


def test_a_column_that_is_left_out_is_a_comment_and_not_a_setting() -> None:
    text = table_text("people", "rows.csv", 40, "id", 3, [AGE, NAME])
    assert "# left out: name: names people" in text
    assert read(AGE, NAME)["columns"] == read(AGE)["columns"]


@pytest.mark.parametrize(("columns", "said"), [([AGE], True), ([AGE, PROBLEM], False)])
def test_a_table_where_nothing_looks_sensitive_says_so(columns: list[Drafted], said: bool) -> None:
    assert ("no column looks sensitive" in table_text("people", "rows.csv", 40, "id", 3, columns)) is said


def test_no_two_hierarchies_share_a_file_whatever_the_columns_are_called() -> None:
    names = hierarchy_names("aA/?")
    assert names == {
        "a": "hierarchies/a.csv", "A": "hierarchies/a-2.csv", "/": "hierarchies/column.csv",
        "?": "hierarchies/column-2.csv",
    }  # fmt: skip


def test_a_number_has_no_hierarchy_file() -> None:
    assert "hierarchies/" not in table_text("people", "rows.csv", 40, "id", 3, [AGE, PROBLEM, NAME])


def test_a_hierarchy_is_written_leaf_first() -> None:
    assert hierarchy_text(SEX.hierarchy) == "F;*\nM;*\n"


def test_a_column_of_days_that_differ_in_every_row_is_not_called_nearly_a_key() -> None:
    """Seen: "date nearly is: ; number these rows", without a row in the way."""
    days = [f"2012-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)]
    assert near_key_of({"date": days, "wind": ["1"] * len(days)}) is None
    assert near_key_of({"date": days, "code": ["c1", *(f"c{n}" for n in range(1, len(days)))]}) == NearKey("code", 0, 1)
