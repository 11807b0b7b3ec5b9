"""Words of a column that say that nothing is known."""

from __future__ import annotations

from streamer.table.draft.nulls import DOUBTFUL, SURE, words_for_nulls


def test_what_may_be_somebodys_value_is_a_null_beside_numbers_and_dates_alone() -> None:
    texts = ["7", *SURE, *DOUBTFUL]
    assert set(words_for_nulls(texts, counts=True)) == SURE | DOUBTFUL
    assert set(words_for_nulls(texts, counts=False)) == SURE


def test_only_words_that_are_there_are_told() -> None:
    assert words_for_nulls(["7", "N/A", "N/A "], counts=True) == ("N/A",)
