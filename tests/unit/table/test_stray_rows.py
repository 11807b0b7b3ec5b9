"""Rows of a file that are no data are noticed, and those of people are not."""

from __future__ import annotations

import pytest

from streamer.table.stray_rows import HEADER, NOTE, TOTAL, UNITS, said_of, stray_rows

PEOPLE = [[str(i), f"{20 + i}", "fm"[i % 2], f"{50 + i},5"] for i in range(40)]
NAMES = ("id", "Alter", "sex", "weight")


def found_in(rows: list[list[str]]) -> dict[int, str]:
    return stray_rows(dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True)))


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
