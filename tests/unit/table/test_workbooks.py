"""Values of workbooks by their types, and the texts that cells show: what streamer.table.workbooks reads."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from streamer.errors import ConfigError, UsageError
from streamer.table.sources import RowSource
from worlds.calls import streamer
from worlds.workbooks import cells, workbook


def test_a_sheet_of_a_workbook_is_read_by_types(tmp_path: Path) -> None:
    people = (
        cells(1, "'id", "'born", "'cost", "'town")
        + cells(2, "7", "d43832", "1.5", "'Köln")
        + cells(3, "8", "", "!N/A", "'0123")
    )
    source = RowSource(workbook(tmp_path / "clinic.xlsx", people=people))
    frame = source.rows()
    assert frame.to_dict("list") == {
        "id": [7, 8], "born": [date(2020, 1, 2), None], "cost": [1.5, "#N/A"], "town": ["Köln", "0123"],
    }  # fmt: skip
    assert source.stem == "clinic"


def test_titles_of_a_sheet_are_said_and_an_empty_cell_of_one_column_is_a_null(tmp_path: Path) -> None:
    rows = cells(3, "'Patients of 2025") + cells(5, "'id", "'age", "'sex") + cells(6, "1", "30", "'f")
    frame = RowSource(workbook(tmp_path / "titled.xlsx", s=rows)).rows()
    assert list(frame.columns) == ["id", "age", "sex"]
    assert frame.attrs["titles"] == "rows 3 to 4 were skipped as titles, and row 5 was taken for the header"
    ages = workbook(tmp_path / "one.xlsx", s=cells(1, "'age") + cells(2, "30") + cells(4, "31"))
    assert RowSource(ages).rows()["age"].tolist() == [30, None, 31]


def test_of_several_sheets_one_must_be_named(tmp_path: Path) -> None:
    place = workbook(tmp_path / "clinic.xlsx", old=cells(1, "'id") + cells(2, "1"), new=cells(1, "'id") + cells(2, "2"))
    with pytest.raises(UsageError, match="say which sheet by --sheet: 'old', 'new'"):
        RowSource(place).rows()
    assert RowSource(place, sheet="new").rows().to_dict("list") == {"id": [2]}
    with pytest.raises(ConfigError, match="cannot be read as a workbook"):
        (tmp_path / "none.xlsx").write_bytes(b"PK")
        RowSource(str(tmp_path / "none.xlsx"), sheet="new").rows()


def test_the_name_of_a_column_is_what_its_cell_shows(tmp_path: Path) -> None:
    header = cells(1, "2019", "2:7", "?1", "1.5", "'sex", "3:43831", "d43831")
    place = workbook(tmp_path / "years.xlsx", ("000", "yyyy"), s=header + cells(2, *"1234567"))
    assert list(RowSource(place).rows().columns) == ["2019", "007", "TRUE", "1.5", "sex", "2020", "2020-01-01"]


@pytest.mark.parametrize(
    ("code", "number", "shown"),
    [
        ("00000", "1067", "01067"),
        ("00000", "123456", "123456"),
        ("[$-407]00000;@", "1067", "01067"),
        (r"000\-00\-0000", "12345678", "012-34-5678"),
        (r"00000\-0000", "10671234", "01067-1234"),
        ('"P-"0000', "12", "P-0012"),
        (r"\(###\)\ ###\-####", "5551234567", "(555) 123-4567"),
        ("000 000 000", "1234567", "001 234 567"),
        ("0000", "-7", "-0007"),
        ("0.00", "1.5", 1.5),
        ("#,##0.00", "1067", 1067),
        ("0%", "0.25", 0.25),
        ('0" years"', "21", 21),
        ("00000", "1067.5", 1067.5),
        ("General", "0.30000000000000004", 0.3),
        ("General", "4111111111111111", 4111111111111111),
    ],
)
def test_a_number_with_zeros_in_front_or_in_groups_is_the_text_that_it_shows(
    tmp_path: Path, code: str, number: str, shown: object
) -> None:
    place = workbook(tmp_path / "codes.xlsx", (code,), s=cells(3, "'id", "'code") + cells(4, "1", f"2:{number}"))
    assert RowSource(place).rows()["code"].tolist() == [shown]


def test_errors_are_their_texts_which_na_can_name(tmp_path: Path) -> None:
    (tmp_path / "table.yaml").write_text(
        "table: people\nkey: id\nna: ['#DIV/0!']\ncolumns:\n"
        "  age: {role: quasi-identifier, type: integer, domain: [0, 119], grid: 5, null_as: 0}\n"
        "privacy: {k: 2}\npublish: {live: {form: rows}}\n"
    )
    rows = cells(2, "1", "!DIV/0!") + cells(3, "2", "0")
    named = workbook(tmp_path / "named.xlsx", s=cells(1, "'id", "'age") + rows)
    assert streamer("anonymize", "--table", tmp_path, named, "-o", "-").exit_code == 0
    other = workbook(tmp_path / "other.xlsx", s=cells(1, "'id", "'age") + rows + cells(4, "3", "!REF!"))
    refused = streamer("anonymize", "--table", tmp_path, other, "-o", "-")
    assert (refused.exit_code, "data row 3: column 'age': not an integer" in refused.stderr) == (2, True)


def test_a_formula_without_its_result_is_no_null(tmp_path: Path) -> None:
    place = workbook(tmp_path / "new.xlsx", s=cells(1, "'id", "'age", "'sum") + cells(2, "1", "40", "=A2+B2"))
    assert RowSource(place).rows(["id", "age"])["age"].tolist() == [40]
    with pytest.raises(ConfigError, match=r"row 2: column 'sum' holds a formula without its result: open the workbook"):
        RowSource(place).rows(["id", "sum"])
