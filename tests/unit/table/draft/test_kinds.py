"""Nulls, scales and patterns, guessed from the texts of a column."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.codes import CLOCKS, DATE, LOCAL_TIMESTAMP, TIMESTAMP, Clock, NumericAttribute, limit_of, moment_of
from streamer.table.codes.calendar import CalendarCells
from streamer.table.draft.kinds import (
    DOUBTFUL,
    DRAFT_CELLS,
    SURE,
    clock_of,
    could_be_thousands,
    moments_written,
    numbers_written,
    scale_of,
    time_scale_of,
    with_null_cell,
    with_null_moment,
    words_for_nulls,
)


def test_doubtful_words_are_nulls_only_among_numbers_and_dates() -> None:
    texts = ["7", *SURE, *DOUBTFUL]
    assert set(words_for_nulls(texts, counts=True)) == SURE | DOUBTFUL
    assert set(words_for_nulls(texts, counts=False)) == SURE


def test_only_words_that_occur_are_listed() -> None:
    assert words_for_nulls(["7", "N/A", "N/A "], counts=True) == ("N/A",)


# Domain, step and grid, guessed from the numbers of a column.


@given(st.lists(st.decimals(-(10**6), 10**6, places=3), min_size=1, max_size=9))
def test_a_domain_holds_every_number_and_its_ends_are_nobodys(numbers: list[Decimal]) -> None:
    scale = scale_of(numbers)
    assert scale is not None
    lo, hi = scale.domain
    assert lo <= min(numbers)
    assert max(numbers) <= hi
    without_gap = len(set(numbers)) == (hi - lo) / scale.grid + 1 > 1
    assert without_gap or (max(numbers) < hi and (lo != min(numbers) or lo == 0))
    attribute = NumericAttribute("x", scale.domain, scale.grid, scale.step, Decimal(1), scale.integer)
    assert attribute.n_cells <= 28


@given(st.integers(-50, 50), st.integers(2, 26))
def test_codes_without_a_gap_end_where_they_end(first: int, n: int) -> None:
    """A wider domain would count the loss of everything as less than everything."""
    numbers = [Decimal(number) for number in range(first, first + n)]
    scale = scale_of(numbers)
    assert scale is not None
    assert scale.domain == (numbers[0], numbers[-1])


@given(st.lists(st.decimals(-(10**6), 10**6, places=3), min_size=1, max_size=9))
def test_the_cell_of_the_nulls_is_one_and_lies_below_all_numbers(numbers: list[Decimal]) -> None:
    scale = scale_of(numbers)
    assert scale is not None
    wider = with_null_cell(scale)
    attribute = NumericAttribute("x", wider.domain, wider.grid, wider.step, Decimal(1), wider.integer)
    _, end = attribute.interval(0, 0)
    assert end < min(numbers) or (scale.step is None and end == min(numbers))
    assert (wider.domain[0] - scale.domain[0]) % scale.grid == 0


@pytest.mark.parametrize(
    ("texts", "domain", "step", "grid"),
    [
        (["17", "39", "90"], (15, 94), 1, 5),
        (["0", "1"], (0, 1), 1, 1),
        (["1", "2"], (1, 2), 1, 1),
        (["4", "1", "3", "2"], (1, 4), 1, 1),
        (["-1", "0", "1"], (-1, 1), 1, 1),
        (["0.2", "0.1"], ("0.1", "0.2"), "0.1", "0.1"),
        (["0"], (0, 1), 1, 1),
        (["7"], (6, 8), 1, 1),
        (["-7"], (-8, -6), 1, 1),
        (["1", "2", "4"], (0, 5), 1, 1),
        (["1949", "1950", "2019"], (1945, 2024), 1, 5),
        (["900000001", "900000002"], (900000001, 900000002), 1, 1),
        (["900000001", "900000002", "900100002"], (900000000, 900104999), 1, 5000),
        (["18", "22"], (17, 23), 1, 1),
        (["-5", "5"], (-6, 6), 1, 1),
        (["16.5", "42.9"], (16, "43.9"), "0.1", "2"),
        (["1200", "98000"], (0, 99999), 1, 5000),
        (["0.12345", "0.98765"], ("0.1", "1"), None, "0.05"),
    ],
)
def test_scales_are_what_people_count_in(
    texts: list[str], domain: tuple[object, ...], step: object, grid: object
) -> None:
    scale = scale_of([Decimal(text) for text in texts])
    assert scale is not None
    assert (scale.domain, scale.step, scale.grid) == (
        tuple(Decimal(str(end)) for end in domain),
        None if step is None else Decimal(str(step)),
        Decimal(str(grid)),
    )


# Domain and grid of dates and timestamps, from the texts that are there.


@pytest.mark.parametrize(
    ("texts", "clock"),
    [
        (["1980-01-31", "1980-02-01 00:00:00"], DATE),
        (["1980-01-31T00:00Z", "1980-01-31T01:00+01:00"], TIMESTAMP),
        (["1980-01-31 00:00:00", "1980-01-31 01:00:00"], LOCAL_TIMESTAMP),
        (["1980-01-31T00:00Z", "1980-01-31T01:00"], None),
        (["1980-01-31", "31.01.1980"], None),
        ([], None),
    ],
)
def test_a_column_has_the_type_that_all_its_texts_have(texts: list[str], clock: Clock | None) -> None:
    assert clock_of(texts) is clock


@given(st.lists(st.datetimes(), min_size=1, max_size=5), st.sampled_from([*CLOCKS.values()]))
def test_a_scale_holds_every_moment_in_whole_cells_and_its_ends_are_nobodys(
    walls: list[datetime], clock: Clock
) -> None:
    texts = [wall.date().isoformat() if clock is DATE else wall.isoformat() + "Z" * clock.zoned for wall in walls]
    scale = time_scale_of(texts, clock)
    lo, hi = (limit_of(end, "x", clock) for end in scale.domain)
    cells = CalendarCells(clock, lo, hi, scale.grid)
    moments = [moment_of(text, "x", clock) for text in texts]
    assert lo <= min(moments) <= max(moments) <= hi
    assert cells.begins_on_a_border
    assert cells.n_cells <= max(4 * DRAFT_CELLS, 101)
    assert lo not in moments or lo == 0
    assert hi not in moments or hi == clock.last
    assert cells.start(cells.n_cells) - (clock is DATE) == hi or hi == clock.last or lo == 0


@pytest.mark.parametrize(
    ("texts", "domain", "grid"),
    [
        (["1980-05-17"], ("1980-05-16", "1980-05-18"), "1 day"),
        (["2024-01-01", "2024-04-15"], ("2023-09-11", "2024-08-04"), "7 days"),  # Mondays to a Sunday
        (["2023-06-01", "2024-11-30"], ("2021-11-01", "2026-06-30"), "1 month"),
        (["1931-05-17", "2008-12-30"], ("1920-01-01", "2019-12-31"), "5 years"),
    ],
)
def test_widths_and_borders_are_those_that_people_count_in(
    texts: list[str], domain: tuple[str, str], grid: str
) -> None:
    scale = time_scale_of(texts, DATE)
    assert (scale.domain, scale.grid.text) == (domain, grid)


def test_rows_of_tomorrow_fit_in_and_those_of_which_nothing_is_known_have_a_cell_before_all() -> None:
    scale = time_scale_of(["2020-03-05", "2024-03-05"], DATE)
    assert scale.domain[1] > "2028"
    wider = with_null_moment(scale)
    assert wider is not None
    assert wider.domain[0] < scale.domain[0] < "2020-03-05"


def test_before_the_first_year_there_is_no_cell() -> None:
    assert with_null_moment(time_scale_of(["0001-01-01", "0001-01-09"], DATE)) is None


# How a column's texts are written.


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
        (["31-Dec-1980", "1-mar-1990"], "DD-MMM-YYYY"),
        (["31 d\u00e9cembre 1980", "1er janvier 1990"], "DD MMM YYYY"),
        (["3. M\u00e4rz 1980", "12. Dez. 1990"], "DD MMM YYYY"),
        (["3 de enero de 1980"], "DD de MMM de YYYY"),
        (["3 gennaio 1980"], "DD MMM YYYY"),
        (["January 3, 1980"], "MMM DD, YYYY"),
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
        (["1.234,50 \u20ac", "7 \u20ac"], "1.234,5 \u20ac"),
        (["$1,234.50", "$7.00"], "$ 1,234.5"),
        (["EUR 1 234,50"], "EUR 1 234,5"),
        (["34 years", "7"], "1234.5 years"),
    ],
)
def test_numbers_have_the_pattern_of_all_their_texts(texts: list[str], written: str) -> None:
    found = numbers_written(texts)
    assert found is not None
    assert found[0] == written


@pytest.mark.parametrize("texts", [[], ["1,234", "soon"], ["1,2,3"], ["1,234.5", "1.234,5"]])
def test_texts_that_are_not_all_numbers_of_one_pattern_are_none(texts: list[str]) -> None:
    assert numbers_written(texts) is None


@pytest.mark.parametrize("texts", [["1.234"], ["1,234", "980"], ["-12.500", "7"]])
def test_three_digits_after_every_mark_could_be_thousands_or_fractions(texts: list[str]) -> None:
    assert could_be_thousands(texts)


@pytest.mark.parametrize(
    "texts", [[], ["7"], ["1.25", "1.234"], ["0.125"], ["1,234,567", "1,234"], ["1.234", "1234"], ["1,234.5", "1,234"]]
)
def test_what_else_a_column_holds_may_tell_thousands_from_fractions(texts: list[str]) -> None:
    assert not could_be_thousands(texts)
