"""Domain and grid of dates and timestamps, from the texts that are there."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.calendar_cells import CalendarCells
from streamer.table.draft.numbers import CELLS
from streamer.table.draft.times import clock_of, time_scale_of, with_null_moment
from streamer.table.moments import CLOCKS, DATE, LOCAL_TIMESTAMP, TIMESTAMP, Clock, limit_of, moment_of


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
    assert cells.n_cells <= max(4 * CELLS, 101)
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
