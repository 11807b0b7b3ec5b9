"""Rows of a file that are no data are noticed, and those of people are not."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from streamer.errors import ConfigError
from streamer.table.csv_files import csv_chunks, csv_header, read_csv
from streamer.table.stray_rows import (
    ENDS_LOOKED_AT,
    HEADER,
    NOTE,
    TITLES,
    TOTAL,
    TOTALS_MAX,
    UNITS,
    judged,
    said_of,
    stray_among,
    stray_rows,
    suspects_among,
)

PEOPLE = [[str(i), f"{20 + i}", "fm"[i % 2], f"{50 + i},5"] for i in range(40)]
NAMES = ("id", "Alter", "sex", "weight")


def found_in(rows: list[list[str]]) -> dict[int, str]:
    found = stray_rows(dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True)))
    assert stray_among(pd.DataFrame(rows, columns=NAMES, dtype=str)) == found
    return found


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (["id", "Alter", "sex", "weight"], HEADER),
        (["ID", "ALTER", "Sex ", "Weight"], HEADER),
        (["", "Jahre", "", "kg"], UNITS),
        (["-", "[years]", "", "[kg]"], UNITS),
        (["number of the person", "age at the visit", "sex of the person", "weight at the visit"], UNITS),
        (["", "", "", "(kg)"], UNITS),
    ],
)
def test_a_second_header_and_units_are_noticed(first: list[str], what: str) -> None:
    assert found_in([first, *PEOPLE]) == {0: what}


@pytest.mark.parametrize(
    "last",
    [["Summe", "812", "", "2.100,5"], ["", "Total", "", "2100"], ["RAZEM:", "", "", "9"], ["Ogółem", "", "", "1"]],
)
def test_totals_are_noticed(last: list[str]) -> None:
    assert found_in([*PEOPLE, last]) == {40: TOTAL}
    assert found_in([*PEOPLE[:20], last, *PEOPLE[20:]]) == {20: TOTAL}


def test_a_header_between_two_files_and_notes_at_the_end_are_noticed() -> None:
    rows = [*PEOPLE[:9], [*NAMES], *PEOPLE[9:], ["Summe", "1", "", "2"], ["Quelle: Amt", "", "", ""]]
    assert found_in(rows) == {9: HEADER, 41: TOTAL, 42: NOTE}
    assert said_of(found_in(rows)) == (
        "data rows 10 (the header again), 42 (a total), 43 (a note) seem to be no data: remove them from the source"
    )


@pytest.mark.parametrize(
    "row",
    [
        ["40", "k. A.", "f", "k. A."],
        ["40", "", "", ""],
        ["A-40", "", "", ""],
        ["40", "31", "sex", "50"],
        ["40", "31", "total", "50"],
    ],
)
@pytest.mark.parametrize("at", [0, 40])
def test_rows_of_people_are_not(row: list[str], at: int) -> None:
    others = [*PEOPLE, ["41", "k. A.", "m", "k. A."]] if "k. A." in row else PEOPLE
    assert found_in([*others[:at], row, *others[at:]]) == {}


def test_a_label_that_many_rows_have_is_a_category() -> None:
    assert stray_rows({"area": ["total", "part"] * 20, "age": ["30", "40"] * 20}) == {}
    assert said_of({}) == ""


HEAD, BODY = "id;age;sex", "1;30;f\n2;31;m\n"


@pytest.mark.parametrize(
    ("above", "encoding"),
    [
        ("Patients 2024\n", "utf-8"),
        ("Patients, 2024\n\n", "utf-8-sig"),
        ("All patients;;\nWard 7;;\n", "cp1252"),
        ('"All patients";"";""\n', "utf-16"),
        ("\n\n", "utf-8"),
        ('"All patients, 2024"\n', "utf-8"),
        ("sep=;\nPatients 2024\n", "utf-8"),
    ],
)
def test_titles_above_the_header_are_not_read(tmp_path: Path, above: str, encoding: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(f"{above}{HEAD}\n{BODY}".encode(encoding))
    frame = read_csv(path, "cp1252" if encoding == "cp1252" else None)
    assert frame.to_dict("list") == {"id": ["1", "2"], "age": ["30", "31"], "sex": ["f", "m"]}
    assert csv_header(path) == HEAD.split(";")
    assert [len(part) for part in csv_chunks(path, 1)][:2] == [1, 1]
    path.write_bytes(f"{above}{HEAD}\n{BODY}1;2\n".encode(encoding))
    with pytest.raises(ConfigError, match=f"line {above.count(chr(10)) + 4}: has 2 cells"):
        read_csv(path)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ('"a\nb",c,d\n1,2,3\n', {"a\nb": ["1"], "c": ["2"], "d": ["3"]}),
        ("id;note\n1;x\n", {"id": ["1"], "note": ["x"]}),
        ('id;a;b\n1;"x\ny;z";3\n4;5;6\n', {"id": ["1", "4"], "a": ["x\ny;z", "5"], "b": ["3", "6"]}),
        ("note\nyes; no\n", {"note": ["yes; no"]}),
        ("id;a;b\n1;2;3\nSource: ward\nTotal\n", {"id": ["1", "Source: ward", "Total"], "a": ["2", "", ""],
                                                 "b": ["3", "", ""]}),
    ],
)  # fmt: skip
def test_what_is_no_title_is_read_and_a_note_below_is_a_row(
    tmp_path: Path, text: str, columns: dict[str, list[str]]
) -> None:
    (tmp_path / "rows.csv").write_text(text)
    assert read_csv(tmp_path / "rows.csv").to_dict("list") == columns


@pytest.mark.parametrize(
    "text",
    ["diagnosis\nflu, b, y\ncold\n", "name,,\nAnna,30,f\nBob,40,m\n", "ill today\nflu, b, y\ncold, c, n\n"],
    ids=["a column of texts", "a header with empty names", "no names above digits"],
)
def test_no_row_ever_becomes_the_header(tmp_path: Path, text: str) -> None:
    """Before: the first person's values were the names of the columns, and were published."""
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(ConfigError):
        read_csv(tmp_path / "rows.csv")


def test_a_last_row_that_is_cut_off_is_no_note(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("name;a;b\nAnna Lee;2;3\nAnna Mar")
    with pytest.raises(ConfigError, match="end in the middle of a row"):
        read_csv(tmp_path / "rows.csv")


@pytest.mark.parametrize("text", ["id;a;b\n1,5;2;3;4\n1;2;3\n", "id;a;b\n1;2;3\n44\n", "id;a\n1;2;3\n4;5;6\n"])
def test_a_ragged_file_is_still_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(ConfigError, match=r"line [23]: has \d cells"):
        read_csv(tmp_path / "rows.csv")


@pytest.mark.parametrize(
    ("above", "what"),
    [
        ("Patients of 2025\n", "line 1 was skipped as a title, and line 2 was taken for the header"),
        ("Patients of 2025\n\n", "lines 1 to 2 were skipped as titles, and line 3 was taken for the header"),
        ("sep=;\nWard 7, all\n", "line 2 was skipped as a title, and line 3 was taken for the header"),
        ("\n\n", ""),
        ("", ""),
    ],
)
def test_a_table_says_which_lines_are_titles(tmp_path: Path, above: str, what: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{above}{HEAD}\n{BODY}")
    assert read_csv(path).attrs.get(TITLES, "") == what
    assert [part.attrs.get(TITLES, "") for part in csv_chunks(path, 1)][:2] == [what, ""]


TEN = [["1", "20", "f"]] * 10
IN_PARTS = {
    "units below the first part": [*TEN, ["", "Jahre", "[kg]"], *TEN],
    "a note in the middle": [*TEN, ["Source: ward 7", "", ""], *TEN, *TEN, ["Source: ward 8", "", ""]],
    "notes over two parts": [*TEN, *(["Source: ward 7", "", ""] for _ in range(4))],
    "totals that are a category": [["total", "20", "f"], *TEN, *TEN, ["total", "20", "f"], *TEN],
    "two totals among fifty": [*TEN, ["total", "1", "f"], *TEN * 4, ["total", "1", "f"]],
    "one row": [["Source: ward 7", "", ""]],
    "no rows": [],
}


@pytest.mark.parametrize("rows", IN_PARTS.values(), ids=IN_PARTS)
@pytest.mark.parametrize("size", [1, 4, 11, 13])
def test_a_table_in_parts_has_the_same_rows_that_are_no_data(rows: list[list[str]], size: int) -> None:
    """Before: units below each part, notes at the end of each part, and totals counted part by part were named."""
    whole = pd.DataFrame(rows, columns=["id", "age", "sex"], dtype=object)
    suspects: dict[int, str] = {}
    for first in range(0, len(rows), size):
        suspects |= suspects_among(whole[first : first + size], first)
    assert judged(suspects, len(rows)) == stray_among(whole)


def test_what_very_many_rows_have_is_a_category_and_is_not_kept() -> None:
    many = pd.DataFrame({"id": ["total"] * TOTALS_MAX * 3, "age": ["1", "2", "3"] * TOTALS_MAX}, dtype=object)
    assert len(suspects_among(many)) <= TOTALS_MAX + 1 + ENDS_LOOKED_AT
    assert stray_among(many) == {}
