"""What the texts of a source mean: words that are nulls, and dates and numbers as people write them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamer.errors import EventRefused
from streamer.table.codes import KeptColumn, SourceText, cell_text, source_cells
from streamer.table.codes.source_texts import fault_of_pattern, meaning_of, reader_of_pattern
from streamer.table.encode import Encoder
from streamer.table.schema import Table
from worlds.small_tables import AGE, CITY


def meaning(written: str | None, value: object, na: tuple[str, ...] = ()) -> object:
    return meaning_of(SourceText("x", na, written))(value)


@pytest.mark.parametrize(
    ("text", "month"),
    [
        ("15. \u010derven 2023", 6),
        ("15. \u010dervenec 2023", 7),
        ("15. \u010dervna 2023", 6),
        ("15. \u010dervence 2023", 7),
        ("15. Lipiec 2023", 7),
    ],
)
def test_a_month_whose_name_begins_another_ones_is_itself(text: str, month: int) -> None:
    """Before: the Czech June was read as July, of whose name it is the beginning."""
    assert reader_of_pattern("DD. MMM YYYY")(text) == f"2023-{month:02}-15"


@pytest.mark.parametrize(
    ("written", "text", "number"),
    [
        ("1,234.5", "1,234", "1234"),
        ("1,234.5", "-1,234,567.25", "-1234567.25"),
        ("1,234.5", "1234.5", "1234.5"),
        ("1.234,5", "1.234", "1234"),
        ("1.234,5", "0,75", "0.75"),
        ("1 234,5", "12 345,5", "12345.5"),
        ("1 234,5", "12\u00a0345", "12345"),
        ("1'234.5", "1'234", "1234"),
        ("digits", "007", "7"),
    ],
)
def test_a_number_is_read_as_it_is_written(written: str, text: str, number: str) -> None:
    assert meaning(written, text) == Decimal(number)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("1.234,5", "1.5"),
        ("1,234.5", "2,23"),
        ("1,234.5", "12345,678"),
        ("1,234.5", "1e3"),
        ("digits", "-7"),
        ("digits", "7.0"),
        ("1,234.5", "soon"),
    ],
)
def test_a_text_that_is_no_such_number_is_refused_without_its_value(written: str, text: str) -> None:
    with pytest.raises(EventRefused) as caught:
        meaning(written, text)
    assert (caught.value.reason, caught.value.column) == ("wrong-type", "x")
    assert text not in caught.value.detail


@pytest.mark.parametrize(
    ("written", "text", "iso"),
    [
        ("DD.MM.YYYY", "31.12.1980", "1980-12-31"),
        ("DD.MM.YYYY", "1.2.1980", "1980-02-01"),
        ("MM/DD/YYYY", "12/31/1980", "1980-12-31"),
        ("YYYYMMDD", "19801231", "1980-12-31"),
        ("DD.MM.YYYY 00:00", "31.12.1980 00:00", "1980-12-31"),
        ("DD.MM.YYYY hh:mm", "31.12.1980 8:05", "1980-12-31T08:05:00"),
        ("DD.MM.YYYY hh:mm:ss", "31.12.1980 08:05:09", "1980-12-31T08:05:09"),
    ],
)
def test_a_date_is_read_as_it_is_written(written: str, text: str, iso: str) -> None:
    assert meaning(written, text) == iso


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("DDMMYYYY", "1121980"),
        ("MMDDYYYY", "1121980"),
        ("YYYYMMDD", "1980111"),
        ("DD.MMYYYY", "1.11980"),
        ("DD.MM.YYYYhh:mm", "1.1.19801:30"),
    ],
)
def test_parts_of_a_date_that_touch_have_all_their_digits(written: str, text: str) -> None:
    assert meaning(written, text) == text


def test_a_part_that_touches_no_other_may_lack_its_zero() -> None:
    assert meaning("YYYYMM/DD", "198001/2") == "1980-01-02"
    assert meaning("DDMMYYYY", "01121980") == "1980-12-01"


def test_an_iso_date_that_is_a_word_is_a_null_however_it_is_written() -> None:
    words = ("01.01.1901", "1900-01-01")
    texts = ("01.01.1900", "1900-01-01", "01.01.1901", "2.1.1900")
    once = [meaning("DD.MM.YYYY", text, words) for text in texts]
    assert once == [None, None, None, "1900-01-02"]
    assert [meaning("DD.MM.YYYY", value, words) for value in once] == once


@pytest.mark.parametrize("text", ["1980-12-31", "31/12/1980", "soon", ""])
def test_a_text_that_is_no_such_date_stays_as_it_is(text: str) -> None:
    assert meaning("DD.MM.YYYY", text) == text


def test_a_word_for_nothing_known_is_a_null_and_only_as_it_stands() -> None:
    assert [meaning(None, text, ("", "?", "N/A")) for text in ("?", "N/A", "", "n/a", " ?", "? x")] == [
        None,
        None,
        None,
        "n/a",
        None,
        "? x",
    ]
    assert meaning("1,234.5", "?", ("?",)) is None


@pytest.mark.parametrize("value", [7, Decimal("1.5"), True, None])
def test_what_is_no_text_is_not_written_in_any_way(value: object) -> None:
    assert meaning("1.234,5", value, ("9", "?")) is value


@pytest.mark.parametrize("value", [7, Decimal("7.0"), "7", "7.00", "+7"])
def test_a_word_that_is_a_number_is_that_number_however_it_comes(value: object) -> None:
    assert meaning_of(SourceText("x", ("7",)), "decimal")(value) is None


def test_a_word_is_read_as_the_texts_of_its_column_are_and_in_no_second_way() -> None:
    thousands = meaning_of(SourceText("x", ("1.234",), "1.234,5"), "decimal")
    assert [thousands(value) for value in (1234, "1.234", "1234,0", Decimal("1.234"))] == [
        None,
        None,
        None,
        Decimal("1.234"),
    ]


def test_one_is_a_word_and_true_is_none() -> None:
    ones = meaning_of(SourceText("x", ("1",)), "integer")
    assert [ones(1), ones(True)] == [None, True]


def test_texts_of_whole_numbers_are_numbers_where_a_column_holds_words() -> None:
    numbers = meaning_of(SourceText("x", ("?",)), "integer")
    assert [numbers(text) for text in ("41", "-1.0", "soon", "?")] == [Decimal(41), Decimal("-1.0"), "soon", None]
    assert meaning(None, "41", ("?",)) == "41"


def test_texts_of_booleans_are_booleans_where_a_column_holds_words() -> None:
    flags = meaning_of(SourceText("x", ("?",)), "boolean")
    assert [flags(text) for text in ("true", "false", "Yes", "?")] == [True, False, "Yes", None]


def test_a_pattern_of_dates_has_a_whole_day_and_a_time_only_where_there_is_one() -> None:
    assert fault_of_pattern("DD.MM.YYYY", with_time=False) is None
    assert fault_of_pattern("DD.MM.YYYY hh:mm:ss", with_time=True) is None
    assert "once each" in (fault_of_pattern("DD.MM", with_time=False) or "")
    assert "once each" in (fault_of_pattern("DD.MM.YYYY YYYY", with_time=False) or "")
    assert "hh:mm" in (fault_of_pattern("DD.MM.YYYY", with_time=True) or "")
    assert "the type is date" in (fault_of_pattern("DD.MM.YYYY hh:mm", with_time=False) or "")


@pytest.mark.parametrize("written", ["YYYY-DD-MM", "YYYY-DD-MM 00:00"])
def test_a_pattern_that_would_read_iso_dates_in_another_way_is_none(written: str) -> None:
    assert "cannot be told from ISO's" in (fault_of_pattern(written, with_time=False) or "")
    assert fault_of_pattern("YYYY-MM-DD", with_time=False) is None


# What a cell of a file, or a value of a DataFrame, stands for in its column.

KEPT = (KeptColumn("cost", True, "decimal"), KeptColumn("smokes", True, "boolean"), KeptColumn("note", True))
WRITTEN = (SourceText("cost", na=("n/a",), written="1,234.5"),)
PEOPLE = Table("people", ("id",), (AGE, CITY), KEPT, k=2, source_texts=WRITTEN)


def value(column: str, cell: object) -> object:
    return Encoder(PEOPLE).fields({column: cell})[column]


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
    cells = source_cells(pd.Series([True, 1, "x"], dtype=object))
    assert cells.tolist() == ["true", 1, "x"]
    assert [cell_text(cell) for cell in (True, 1)] == ["true", "1"]
