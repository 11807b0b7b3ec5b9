"""A constant of a statement means in a column what the same text means in a row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamer.errors import EventRefused
from streamer.incremental.events.statement_columns import columns_of
from streamer.incremental.events.statement_constants import known, meant, moment_in_statement
from streamer.table.moments import CLOCKS
from streamer.table.schema import SourceText
from worlds.small_tables import YEARS, table

PEOPLE = replace(table(replace(YEARS, null_code=0)), source_texts=(SourceText("years", ("n/a",)),))
COLUMN = columns_of(PEOPLE)["years"]


def test_a_number_is_itself() -> None:
    assert meant(COLUMN, 4) == 4


def test_a_word_for_null_is_null_which_nothing_is_compared_with() -> None:
    assert meant(COLUMN, "n/a") is None
    with pytest.raises(EventRefused, match="say `is null`") as refused:
        known(meant(COLUMN, "n/a"), COLUMN)
    assert refused.value.reason == "bad-statement"
    assert known(4, COLUMN) == 4


def test_a_day_alone_is_its_first_moment_and_what_is_none_is_told_without_its_text() -> None:
    clock = CLOCKS["timestamp"]
    day, midnight = (moment_in_statement(text, "seen", clock) for text in ("2024-01-31", "2024-01-31T00:00:00Z"))
    assert day == midnight
    with pytest.raises(EventRefused) as refused:
        moment_in_statement("thirteenth of May", "seen", clock)
    assert refused.value.reason == "bad-statement"
    assert "May" not in str(refused.value)
