"""Columns of numbers in table.yaml: what they mean, and that every fault is named with its place."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from streamer.errors import ConfigError
from streamer.table.attributes import NumericAttribute
from streamer.table.space import FINENESS
from streamer.table.yaml_loading import load_table
from streamer.table.yaml_numbers import numeric_with_null

TABLE = """
table: people
key: id
columns:
  x: {role: quasi-identifier, SETTINGS}
privacy: {k: 2}
publish: {live: {form: rows}}
"""


def number(folder: Path, settings: str) -> NumericAttribute:
    (folder / "table.yaml").write_text(TABLE.replace("SETTINGS", settings))
    found = load_table(folder).attributes[0]
    assert isinstance(found, NumericAttribute)
    return found


def faults(folder: Path, settings: str) -> list[str]:
    """The sentences of the refusal, without the file's name."""
    with pytest.raises(ConfigError) as caught:
        number(folder, settings)
    return str(caught.value).split("\n  ")[1:]


def test_numbers_are_read_from_the_text_and_never_as_binary_floats(tmp_path: Path) -> None:
    x = number(tmp_path, "type: decimal, domain: [0.1, 0.7], step: 0.1, grid: 0.3")
    assert (x.domain, x.grid, x.step) == ((Decimal("0.1"), Decimal("0.7")), Decimal("0.3"), Decimal("0.1"))
    assert x.n_cells == 3


def test_a_domain_that_ends_between_two_steps_is_taken_down_to_the_lower(tmp_path: Path) -> None:
    x = number(tmp_path, "type: integer, domain: [5, 99], step: 10, grid: 20")
    assert (x.domain, x.n_cells) == ((5, 95), 5)
    assert x.interval(4, 4) == (85, 95)


def test_a_domain_of_one_value_is_allowed(tmp_path: Path) -> None:
    for type_ in ("integer", "decimal"):
        x = number(tmp_path, f"type: {type_}, domain: [5, 5], grid: 2")
        assert (x.n_cells, x.unit) == (1, 2)


def test_a_number_may_have_a_hierarchy_that_fits_its_cells(tmp_path: Path) -> None:
    (tmp_path / "ages.csv").write_text("".join(f"{n};{n // 10}0s;*\n" for n in range(30)))
    assert number(tmp_path, "type: integer, domain: [0, 29], hierarchy: ages.csv").levels.n_levels == 3
    assert faults(tmp_path, "type: integer, domain: [0, 30], hierarchy: ages.csv") == [
        "columns.x.hierarchy: ages.csv: the domain's value 30 is no leaf"
    ]
    assert faults(tmp_path, "type: decimal, domain: [0, 9], grid: 1, hierarchy: ages.csv") == [
        "columns.x.hierarchy: ages.csv: a decimal without a step has no values to name in a hierarchy; give it a step"
    ]


def test_a_null_counts_as_the_code_of_a_value_of_the_domain(tmp_path: Path) -> None:
    whole = number(tmp_path, "type: integer, domain: [10, 20], step: 2")
    cut = number(tmp_path, "type: decimal, domain: [10, 20], grid: 2")
    wrong: list[str] = []
    found = [numeric_with_null("x.null_as", attribute, "14", wrong) for attribute in (whole, cut)]
    assert [attribute and attribute.null_code for attribute in found] == [2, 2 * FINENESS]
    assert wrong == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("type: integer", "columns.x.domain: is missing; give [lowest, highest]"),
        ("type: integer, domain: [5]", "columns.x.domain.1: is missing"),
        ("type: integer, domain: [9, 5]", "columns.x.domain: the lower end lies above the upper one"),
        ("type: integer, domain: [a, 5]", "columns.x.domain.0: must be a number"),
        ("type: integer, domain: [.nan, 5]", "columns.x.domain.0: must be a number"),
        (
            "type: integer, domain: [0, 1e18]",
            "columns.x.domain.1: must have at most 18 digits before the point, 9 after it",
        ),
        (
            "type: integer, domain: [0.5, 5]",
            "columns.x.domain: must be whole numbers, since the type is integer",
        ),
        ("type: integer, domain: [0, 5], grid: 0", "columns.x.grid: must be above 0"),
        ("type: integer, domain: [0, 5], unit: -1", "columns.x.unit: must be above 0"),
        (
            "type: integer, domain: [0, 9], step: 2, grid: 3",
            "columns.x.grid: must be a multiple of the step, 2",
        ),
        (
            "type: decimal, domain: [0, 9]",
            "columns.x.grid: is missing; a decimal without a step needs the width of its cells",
        ),
        (
            "type: decimal, domain: [0, 1e15], grid: 0.000001",
            "columns.x: too many distinct values for one column; make the domain smaller or the grid wider",
        ),
        (
            "type: integer, domain: [0, 2147483647]",
            "columns.x: more than 2,147,483,647 cells in one column; make the domain smaller or the grid wider",
        ),
        (
            "type: decimal, domain: [0, 9999999999], grid: 1",
            "columns.x: more than 2,147,483,647 cells in one column; make the domain smaller or the grid wider",
        ),
        (
            "type: decimal, domain: [0, 9], grid: 1, null_as: 0.5",
            "columns.x.null_as: must be the lower edge of a cell, since the column has no step",
        ),
        ("type: integer, domain: [0, 9], null_as: none", "columns.x.null_as: must be a number"),
        (
            "type: integer, domain: [0, 9], null_as: 10",
            "columns.x.null_as: column 'x': outside the domain of table.yaml",
        ),
    ],
)
def test_a_number_that_cannot_be_is_refused(tmp_path: Path, settings: str, sentence: str) -> None:
    assert faults(tmp_path, settings) == [sentence]
