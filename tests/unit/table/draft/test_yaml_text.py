"""A drafted table as texts: what stands there is read back as it was meant."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.draft.columns import Drafted
from streamer.table.draft.numbers import Scale
from streamer.table.draft.yaml_text import hierarchy_names, hierarchy_text, quoted, table_text

SEX = Drafted(
    "sex", "quasi-identifier", "a value or nothing", hierarchy=(("F", "*"), ("M", "*")), nulls=True, na=("?",)
)
AGE = Drafted(
    "age", "quasi-identifier", "check it", scale=Scale(True, (Decimal(15), Decimal(94)), Decimal(1), Decimal(5))
)
BMI = Drafted(
    "bmi", "quasi-identifier", "check it", scale=Scale(False, (Decimal(10), Decimal(50)), Decimal("0.1"), Decimal(2))
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
    assert settings["publish"] == {"live": {"form": "rows"}}


def test_a_column_with_words_or_a_pattern_of_its_own_says_them_all() -> None:
    cost = Drafted("cost", "sensitive", "", type="integer", nulls=True, na=("-", "?"), written="1,234.5")
    settings = read(AGE, cost)
    assert settings["na"] == ["", "?"]
    assert settings["columns"] == read(AGE)["columns"] | {
        "cost": {"role": "sensitive", "type": "integer", "written": "1,234.5", "na": ["", "-", "?"]}
    }


def test_a_column_that_is_left_out_is_told_in_a_comment_and_is_no_setting() -> None:
    text = table_text("people", "rows.csv", 40, "id", 3, [AGE, NAME])
    assert "# left out: name: names people" in text
    assert read(AGE, NAME)["columns"] == read(AGE)["columns"]


@pytest.mark.parametrize(("columns", "said"), [([AGE], True), ([AGE, PROBLEM], False)])
def test_a_table_where_nothing_looks_sensitive_says_so(columns: list[Drafted], said: bool) -> None:
    assert ("no column looks sensitive" in table_text("people", "rows.csv", 40, "id", 3, columns)) is said


def test_no_two_hierarchies_share_a_file_whatever_the_columns_are_called() -> None:
    names = hierarchy_names([Drafted(name, "quasi-identifier", "", hierarchy=SEX.hierarchy) for name in "aA/?"])
    assert names == {
        "a": "hierarchies/a.csv", "A": "hierarchies/a-2.csv", "/": "hierarchies/column.csv",
        "?": "hierarchies/column-2.csv",
    }  # fmt: skip


def test_a_number_has_no_hierarchy_file() -> None:
    assert hierarchy_names([AGE, PROBLEM, NAME]) == {}


def test_a_hierarchy_is_written_leaf_first() -> None:
    assert hierarchy_text(SEX) == "F;*\nM;*\n"
