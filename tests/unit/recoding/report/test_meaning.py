"""What measures mean to a layman: a sentence for every one that is measured, and for no other."""

from __future__ import annotations

import pytest

from streamer.recoding.metrics.measures import WHAT, WHAT_JOINED
from streamer.recoding.report.meaning import MEANING, meanings


@pytest.mark.parametrize("name", sorted({*WHAT, *WHAT_JOINED}))
def test_every_measure_has_a_plain_sentence(name: str) -> None:
    assert MEANING[name].endswith(".")


def test_nothing_is_explained_that_is_not_measured() -> None:
    assert set(MEANING) == {*WHAT, *WHAT_JOINED}


def test_of_rows_that_are_nobodys_nothing_is_said_of_people() -> None:
    for name in ("k_individuals", "vulnerable", "single_value"):
        assert meanings("rows", by_individual=True)[name] == MEANING[name]
        assert "table.yaml" in meanings("rows", by_individual=False)[name]


def test_a_lossy_join_hides_nobody() -> None:
    joined = meanings("lossy-join", by_individual=True)
    assert set(joined) == set(MEANING)
    assert "hidden" in MEANING["k"] and "hidden" not in joined["k"]
