"""Warnings about data: refused rows, nulls beside values, unknown categories, several spellings."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from streamer.table.codes import KeptColumn, SourceText, Spellings
from streamer.table.data_warnings import (
    RefusedRow,
    beside_nulls,
    counted,
    leaves_of_others,
    most_spellings,
    null_text,
    refused_rows,
    several_spellings,
    spelling_warnings,
    unknown_category_rows,
    unknown_category_warnings,
    warning_of_keys,
    warnings_of_writing,
    without_refused,
    writing_of_keys,
)
from streamer.table.encode import Encoder
from streamer.table.schema import Table
from worlds.small_tables import AGE, CITIES, CITY, table

PEOPLE = replace(table(AGE, CITY), individual="who")


def frame(*rows: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["id", "who", "age", "city", "problem"])


MESSY = frame(
    ("1", "a", "7", "b1", "flu"),
    ("2", "b", "70", "b1", "flu"),
    ("3", "c", "7", "nowhere", "flu"),
    ("1", "d", "7", "b1", "flu"),
    ("", "e", "7", "b1", "flu"),
    ("6", "", "7", "b1", "flu"),
    ("7", "g", "", "b1", ""),
    ("8", "h", "8", "b1", ""),
)


def test_every_refused_row_has_its_number_reason_and_column() -> None:
    assert refused_rows(PEOPLE, MESSY) == [
        RefusedRow(2, "out-of-domain", "age"),
        RefusedRow(3, "unknown-category", "city"),
        RefusedRow(4, "key-exists", "id"),
        RefusedRow(5, "missing-key", "id"),
        RefusedRow(6, "missing-individual", "who"),
        RefusedRow(7, "null-not-allowed", "age"),
    ]


def test_what_is_left_is_read_as_it_stands() -> None:
    refused = refused_rows(PEOPLE, MESSY)
    left = Encoder(PEOPLE).frame(without_refused(MESSY, refused))
    assert left.source_keys == ["1", "8"]
    assert refused_rows(PEOPLE, without_refused(MESSY, refused)) == []


def test_a_key_whose_first_row_is_refused_is_free() -> None:
    rows = frame(("1", "a", "70", "b1", "flu"), ("1", "a", "7", "b1", "flu"))
    assert [row.data_row for row in refused_rows(PEOPLE, rows)] == [1]


def test_an_upsert_of_a_key_that_came_before_is_not_refused() -> None:
    assert [row.data_row for row in refused_rows(PEOPLE, MESSY, upserts=True)] == [2, 3, 5, 6, 7]


def test_refusals_are_counted_by_reason_and_column() -> None:
    rows = [
        RefusedRow(1, "out-of-domain", "age"),
        RefusedRow(2, "missing-key", "id"),
        RefusedRow(3, "missing-key", "id"),
    ]
    assert counted(rows) == [("missing-key", "id", 2), ("out-of-domain", "age", 1)]


def test_without_a_key_no_row_comes_twice() -> None:
    keyless = replace(PEOPLE, source_key=())
    assert [row.data_row for row in refused_rows(keyless, MESSY)] == [2, 3, 6, 7]


# Nulls, and values in their cell.


def test_a_null_is_published_as_the_cell_or_category_that_it_counts_as() -> None:
    assert null_text(AGE) is None
    assert null_text(replace(AGE, null_code=0)) == "1 to 5"
    assert null_text(replace(CITY, null_code=0)) == CITY.hierarchy.leaves[0]


def test_values_in_the_cell_of_the_nulls_are_counted_and_nulls_are_not() -> None:
    people = replace(table(replace(AGE, null_code=0), CITY), source_texts=(SourceText("age", ("?",)),))
    frame = pd.DataFrame({"age": ["", "?", "1", "5", "5", "6"], "city": ["b1"] * 6})
    assert beside_nulls(people, frame) == {"age": 3}
    assert beside_nulls(people, frame[frame["age"] == "6"]) == {}
    assert beside_nulls(table(AGE, CITY), frame) == {}


# Unknown categories: counted, and never shown.

ILLNESS = KeptColumn("illness", True, "text", CITIES, other="d1")
UNLISTED_PEOPLE = replace(table(AGE, replace(CITY, other_code=CITIES.code_of["c1"])), kept=(ILLNESS,))
CITIES_SEEN = ["a1", "nowhere", "c1", "elsewhere", "nowhere", "?", ""]


def people(of: Table = UNLISTED_PEOPLE) -> tuple[Table, pd.DataFrame]:
    n = len(CITIES_SEEN)
    frame = pd.DataFrame({"id": range(n), "age": ["7"] * n, "city": CITIES_SEEN, "illness": ["flu", *["a1"] * (n - 1)]})
    return of, frame


def test_rows_are_counted_by_column_and_a_leaf_that_is_listed_is_none_though_other_names_it() -> None:
    table_, frame = people()
    assert unknown_category_rows(table_, frame) == {"city": 4, "illness": 1}
    assert unknown_category_rows(table_, frame[frame["city"].isin(["a1", "c1"])].iloc[1:]) == {}


def test_words_for_nulls_and_columns_without_other_count_nothing() -> None:
    table_, frame = people(replace(UNLISTED_PEOPLE, source_texts=(SourceText("city", ("?", "nowhere")),)))
    assert unknown_category_rows(table_, frame) == {"city": 1, "illness": 1}
    assert unknown_category_rows(table(AGE, CITY), frame) == {}


def test_typed_cells_and_cells_that_are_refused_do_no_harm() -> None:
    frame = pd.DataFrame({"city": pd.Series([7, b"a1", "a1", None, 7.0], dtype=object)})
    assert unknown_category_rows(UNLISTED_PEOPLE, frame) == {"city": 2}


def test_a_row_tells_its_own_until_it_is_cleared() -> None:
    encoder = Encoder(UNLISTED_PEOPLE)
    encoder.row({"age": 7, "city": "nowhere", "illness": "flu"})
    assert encoder.unlisted == {"city": 1, "illness": 1}
    encoder.unlisted.clear()
    encoder.row({"age": 7, "city": "c1", "illness": "d1"})
    assert not encoder.unlisted


def test_the_sentence_names_column_counts_and_leaf_and_no_category() -> None:
    assert leaves_of_others(UNLISTED_PEOPLE) == {"city": "c1", "illness": "d1"}
    (said,) = unknown_category_warnings(UNLISTED_PEOPLE, {"city": 1204}, 300_000, "rows")
    assert said == (
        "1,204 of 300,000 rows have a city that its hierarchy does not list: `other` takes it as 'c1'; if these are"
        " not mistakes, add them to the hierarchy"
    )
    (said,) = unknown_category_warnings(UNLISTED_PEOPLE, {"city": 300_000}, 300_000, "rows")
    assert said.endswith("as 'c1'; none is a leaf of it: is that the hierarchy of another column?")


# Texts in several spellings: counted, and never shown.


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        (["7", "7.0"], 2),
        (["7", " 7", "7 ", "007", "7.00"], 5),
        (["7", "8", "a", "a b"], 0),
        (["a", " a"], 2),
        (["A", "a"], 2),
        (["a-1", "a\u20131", "a\u200b-1"], 3),
        (["7", "7"], 0),
        (["1e999999", "1"], 0),
        ([], 0),
    ],
)
def test_keys_that_look_alike_stay_several_rows_and_are_warned_of(keys: list[str], count: int) -> None:
    said = warning_of_keys(keys, PEOPLE)
    assert [f"key column id: {count} keys look like another one" in line for line in said] == [True] * bool(count)


def test_a_warning_of_keys_shows_none_of_them_and_parts_of_a_key_may_be_alike() -> None:
    assert "4711" not in str(warning_of_keys(["4711", "4711.0"], PEOPLE))
    assert warning_of_keys(["4711", "4711.0"], replace(PEOPLE, source_key=("id", "visit"))) == []


SPELT = frame(
    ("1", "Anna M\u00fcller", "7", "b1", "HIV"),
    ("2", "anna  mu\u0308ller", "7", "b1", "HIV "),
    ("3", "Bea", "7", "b1", "hiv"),
    ("4", "Carl", "7", "b1", "0"),
    ("5", "?", "7", "b1", "-0"),
    ("6", " ?", "7", "b1", ""),
)


def test_individuals_and_sensitive_values_in_several_spellings_are_counted_by_column() -> None:
    assert several_spellings(PEOPLE, SPELT) == {"who": (4, 2), "problem": (5, 2)}


def test_a_word_for_nulls_is_no_spelling_and_capitals_are_none_if_they_count() -> None:
    words = replace(PEOPLE, source_texts=(SourceText("who", ("?",)),), capitals_count=True)
    assert several_spellings(words, SPELT) == {"problem": (4, 2)}


def test_of_a_typed_column_every_value_has_one_text() -> None:
    typed = replace(PEOPLE, kept=(KeptColumn("problem", sensitive=True, type="decimal"),))
    assert several_spellings(typed, frame(("1", "a", "7", "b1", "0"), ("2", "b", "7", "b1", "-0.0"))) == {}


def test_of_a_table_in_parts_the_figures_of_the_part_with_most_are_said() -> None:
    found = most_spellings({"who": Spellings(4, 2)}, {"who": Spellings(2, 1), "problem": Spellings(2, 1)}, {})
    assert found == {"problem": (2, 1), "who": (4, 2)}


def test_a_warning_of_spellings_names_column_counts_and_remedy_and_no_value() -> None:
    of_people, of_values = spelling_warnings(PEOPLE, several_spellings(PEOPLE, SPELT))
    assert "individual column who: 4 texts are 2 in several spellings" in of_people
    assert "sensitive column problem: 5 texts are 2 in several spellings" in of_values
    assert "`capitals_count: true`" in of_people
    assert not any(value in of_people + of_values for value in ("ller", "hiv", "HIV"))


# Key columns that the messages of a stream may write otherwise.


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["1.0", "2.0"], "keys end with a point, as 1.0 for 1"),
        (["00017", "00023"], "keys have zeros in front"),
        (["A-1  ", "A-12 "], "keys have blanks at an end"),
        (["1.23E+11", "4.5E+12"], "keys are rounded"),
    ],
)
def test_of_keys_that_messages_may_write_otherwise_the_column_and_the_way_are_said(keys: list[str], said: str) -> None:
    rows = frame(*((key, "a", "7", "b1", "flu") for key in keys))
    (warning,) = warnings_of_writing(writing_of_keys(PEOPLE, rows))
    assert warning.startswith(f"key column id: {said}")
    assert keys[1] not in warning


@pytest.mark.parametrize("keys", [[1.0, 2.0], ["1", "2"], ["7", "007"], [None, "x"]])
def test_other_keys_are_not_warned_of_and_numbers_have_no_point(keys: list[object]) -> None:
    rows = pd.DataFrame({"id": keys})
    assert writing_of_keys(PEOPLE, rows) == {}
    assert writing_of_keys(replace(PEOPLE, source_key=("clinic", "id")), rows.assign(clinic="01")) == {
        "clinic": "zeros"
    }
