"""How a column's texts are written, told by all of them."""

from __future__ import annotations

import pytest

from streamer.table.draft.written import moments_written, numbers_written


@pytest.mark.parametrize(
    ("texts", "written"),
    [
        (["31.12.1980", "1.2.1990"], "DD.MM.YYYY"),
        (["31/12/1980"], "DD/MM/YYYY"),
        (["12/31/1980"], "MM/DD/YYYY"),
        (["1980/12/31"], "YYYY/MM/DD"),
        (["31.12.1980 00:00", "1.2.1990 00:00"], "DD.MM.YYYY 00:00"),
        (["31.12.1980 00:00", "1.2.1990 08:15"], "DD.MM.YYYY hh:mm"),
        (["31-12-1980 08:15:30"], "DD-MM-YYYY hh:mm:ss"),
        (["1980-12-31"], None),
    ],
)
def test_dates_and_times_have_the_pattern_of_all_their_texts(texts: list[str], written: str | None) -> None:
    found = moments_written(texts)
    assert found is not None
    assert (found.written, found.doubtful) == (written, False)


def test_day_and_month_that_could_change_places_are_doubtful() -> None:
    found = moments_written(["01/02/1980"])
    assert found is not None
    assert (found.written, found.texts, found.doubtful) == ("DD/MM/YYYY", ["1980-02-01"], True)


@pytest.mark.parametrize(
    "texts", [[], ["31.12.1980", "soon"], ["31.13.1980"], ["31.12.1980", "12/31/1980"], ["31.12.80"]]
)
def test_texts_that_are_not_all_dates_of_one_pattern_are_none(texts: list[str]) -> None:
    assert moments_written(texts) is None


@pytest.mark.parametrize(
    ("texts", "written"),
    [
        (["1,234", "7"], "1,234.5"),
        (["1,234.75"], "1,234.5"),
        (["1.234,75"], "1.234,5"),
        (["38,5", "40"], "1.234,5"),
        (["1 234", "12 345,5"], "1 234,5"),
        (["1'234"], "1'234.5"),
    ],
)
def test_numbers_have_the_pattern_of_all_their_texts(texts: list[str], written: str) -> None:
    found = numbers_written(texts)
    assert found is not None
    assert found[0] == written


@pytest.mark.parametrize("texts", [[], ["1,234", "soon"], ["1,2,3"], ["1,234.5", "1.234,5"]])
def test_texts_that_are_not_all_numbers_of_one_pattern_are_none(texts: list[str]) -> None:
    assert numbers_written(texts) is None
