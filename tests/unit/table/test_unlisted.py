"""Categories that table.yaml does not list: counted by row and column, and never told."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from streamer.table.encode import Encoder
from streamer.table.schema import KeptColumn, SourceText, Table
from streamer.table.unlisted import leaves_of_others, unlisted_rows, unlisted_sentences
from worlds.small_tables import AGE, CITIES, CITY, table

ILLNESS = KeptColumn("illness", True, "text", CITIES, other="d1")
PEOPLE = replace(table(AGE, replace(CITY, other_code=CITIES.code_of["c1"])), kept=(ILLNESS,))
CITIES_SEEN = ["a1", "nowhere", "c1", "elsewhere", "nowhere", "?", ""]


def people(of: Table = PEOPLE) -> tuple[Table, pd.DataFrame]:
    n = len(CITIES_SEEN)
    frame = pd.DataFrame({"id": range(n), "age": ["7"] * n, "city": CITIES_SEEN, "illness": ["flu", *["a1"] * (n - 1)]})
    return of, frame


def test_rows_are_counted_by_column_and_a_leaf_that_is_listed_is_none_though_other_names_it() -> None:
    table_, frame = people()
    assert unlisted_rows(table_, frame) == {"city": 4, "illness": 1}
    assert unlisted_rows(table_, frame[frame["city"].isin(["a1", "c1"])].iloc[1:]) == {}


def test_words_for_nulls_and_columns_without_other_count_nothing() -> None:
    table_, frame = people(replace(PEOPLE, source_texts=(SourceText("city", ("?", "nowhere")),)))
    assert unlisted_rows(table_, frame) == {"city": 1, "illness": 1}
    assert unlisted_rows(table(AGE, CITY), frame) == {}


def test_typed_cells_and_cells_that_are_refused_do_no_harm() -> None:
    frame = pd.DataFrame({"city": pd.Series([7, b"a1", "a1", None, 7.0], dtype=object)})
    assert unlisted_rows(PEOPLE, frame) == {"city": 2}


def test_a_row_tells_its_own_until_it_is_cleared() -> None:
    encoder = Encoder(PEOPLE)
    encoder.row({"age": 7, "city": "nowhere", "illness": "flu"})
    assert encoder.unlisted == {"city": 1, "illness": 1}
    encoder.unlisted.clear()
    encoder.row({"age": 7, "city": "c1", "illness": "d1"})
    assert not encoder.unlisted


def test_the_sentence_names_column_counts_and_leaf_and_no_category() -> None:
    assert leaves_of_others(PEOPLE) == {"city": "c1", "illness": "d1"}
    (said,) = unlisted_sentences(PEOPLE, {"city": 1204}, 300_000, "rows")
    assert said == (
        "1,204 of 300,000 rows have a city that its hierarchy does not list: `other` takes it as 'c1'; where these are"
        " no strays, add them to the hierarchy"
    )
