"""Where nulls are published, and which values stand there, too."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from streamer.table.null_cells import beside_nulls, null_text
from streamer.table.schema import SourceText
from worlds.small_tables import AGE, CITY, table


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
