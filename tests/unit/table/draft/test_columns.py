"""What a column of a data file could be: a guess, and the reason for it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from streamer.table.draft.columns import drafted
from streamer.table.schema import CategoricalAttribute, KeptColumn, NumericAttribute, TemporalAttribute
from worlds.drafting import begun


def test_types_follow_the_texts(tmp_path: Path) -> None:
    table, text = begun(
        tmp_path,
        age=["31", "44", "58", "62"],
        bmi=["21.5", "30", "27.5", "22"],
        measured=["0.123456", "0.5", "0.75", "0.9"],
        member=["true", "false", "true", "false"],
        city=["Bonn", "Ulm", "Bonn", "Ulm"],
        code=["0017", "0017", "0018", "0018"],
    )
    age, bmi, measured, *categories = table.attributes
    assert isinstance(age, NumericAttribute)
    assert age.integer
    assert isinstance(bmi, NumericAttribute)
    assert bmi.step == Decimal("0.1")
    assert isinstance(measured, NumericAttribute)
    assert measured.step is None
    assert [a.name for a in categories] == ["member", "city", "code"]
    assert all(isinstance(a, CategoricalAttribute) for a in categories)
    assert "no column looks sensitive by its name" in text


def test_empty_cells_are_counted_as_something_and_said(tmp_path: Path) -> None:
    table, text = begun(tmp_path, age=["31", "", "58", "62"], city=["Bonn", "", "Bonn", ""])
    age, city = table.attributes
    assert age.null_code == 0
    assert isinstance(city, CategoricalAttribute)
    assert city.hierarchy.leaves[city.null_code or 0] == "(none)"
    assert "1 empty cells count as null_as, which is true of nobody" in text
    assert "2 empty cells count as (none)" in text


def test_empty_cells_count_as_a_number_that_nobody_has() -> None:
    """0 is an end of its domain and somebody's value: then it is the other end."""
    for texts in (["0", "1", ""], ["1", "2", ""], ["-1", ""], ["0", ""]):
        null_as = drafted("member", texts).null_as
        assert null_as is not None
        assert null_as not in texts


def test_what_is_said_of_a_domain_is_true_of_it() -> None:
    assert "that of the values seen" in drafted("member", ["0", "1"]).why
    assert "rounded outward" in drafted("age", ["18", "22"]).why
    assert "rounded outward" in drafted("member", ["0", "1", ""]).why


def test_dates_and_timestamps_get_cells_of_the_calendar(tmp_path: Path) -> None:
    table, text = begun(
        tmp_path,
        born=["1971-03-09", "", "1999-12-31", "1952-01-01"],
        seen=["2020-05-01T08:00:00Z", "2020-05-01T09:30:00Z", "2020-05-02T10:00:00Z", "2020-05-01T08:00:01+02:00"],
        wall=["2020-05-01 08:00:00", "2020-05-01 08:07:00", "2020-05-01 08:09:00", "2020-05-01 08:03:00"],
        salary_since=["2020-01-01", "2020-01-02", "2020-01-01", "2020-01-03"],
        mixed=["2020-01-01", "soon", "2020-01-01", "soon"],
    )
    born, seen, wall, mixed = table.attributes
    assert [type(attribute) for attribute in (born, seen, wall)] == [TemporalAttribute] * 3
    assert "born: {role: quasi-identifier, type: date, domain: [1950-01-01, 2004-12-31], grid: 5 years" in text
    assert 'null_as: "1950-01-01"}  # the domain is rounded outward' in text
    assert "1 empty cells count as null_as, which is true of nobody" in text
    assert 'type: timestamp, domain: ["2020-05-01T06:00:00Z", "2020-05-02T12:00:00Z"], grid: 6 hours' in text
    assert 'local-timestamp, domain: ["2020-05-01T07:59:00", "2020-05-01T08:10:00"], grid: 1 minute' in text
    assert isinstance(mixed, CategoricalAttribute)
    assert table.kept == (KeptColumn("salary_since", sensitive=True, type="date"),)


def test_digit_codes_get_the_levels_of_their_texts() -> None:
    (code,) = drafted("zip", ["10085"]).hierarchy
    assert code == ("10085", "1008*", "100**", "10***", "1****", "*")


@pytest.mark.parametrize(
    ("name", "texts", "why"),
    [
        ("surname", ["x"] * 9, "names people"),
        ("home_address", ["x"] * 9, "names people"),
        ("customerId", ["7"] * 9, "an identifier"),
        ("remarks", [f"text {i}" for i in range(9)], "9 different texts in 9 cells"),
        ("essay", ["x" * 61] * 9, "1 different texts in 9 cells"),
        ("nothing", [""] * 9, "holds nothing"),
        ("code", [f"00{i}7" for i in range(9)], "9 different texts"),
        ("blanks", [" x", "y", "y"] * 3, "blanks at an end"),
        ("star", ["*", "y", "y"] * 3, "called *"),
        ("huge", [str(10**20)] * 9, "more digits"),
    ],
)
def test_what_could_name_people_or_cannot_be_generalized_is_left_out(name: str, texts: list[str], why: str) -> None:
    column = drafted(name, texts)
    assert column.role == ""
    assert why in column.why


def test_a_column_is_sensitive_by_its_name_alone_and_marked_as_a_guess(tmp_path: Path) -> None:
    table, text = begun(tmp_path, age=["31", "44", "58", "62"], income=["10", "20", "10", "30"])
    assert table.kept == (KeptColumn("income", sensitive=True, type="integer"),)
    assert "income: {role: sensitive, type: integer}  # a guess, by its name: published as it is" in text
