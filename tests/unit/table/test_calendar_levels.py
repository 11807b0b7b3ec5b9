"""Levels of dates by units of the calendar, against the texts that ARX's formats give them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.calendar_cells import CalendarCells
from streamer.table.calendar_levels import CalendarLevels, fits, is_wider, levels_of_calendar
from streamer.table.levels import DoublingLevels
from streamer.table.moments import DATE, LOCAL_TIMESTAMP, Clock
from worlds.calendars import calendar, calendars, days_by_cell

FORMATS: dict[str, Callable[[date], object]] = {
    "month": lambda day: f"{day:%m}-{day.year}",
    "quarter": lambda day: f"Q{(day.month - 1) // 3} {day.year}",
    "year": lambda day: day.year,
    "decade": lambda day: day.year // 10,
    "century": lambda day: day.year // 100,
    "millennium": lambda day: day.year // 1000,
}


@given(calendars(), st.sampled_from(sorted(FORMATS)))
def test_a_unit_publishes_the_cells_whose_days_are_written_alike(cells: CalendarCells, unit: str) -> None:
    """And it is a level where all days of every cell are, however the domain goes on."""
    by_cell = days_by_cell(cells)
    written = [{FORMATS[unit](day) for day in days} for days in by_cell]
    if not (is_wider(cells, unit) and fits(cells, unit)):
        return
    assert {len(said) for said in written} == {1}
    if len({FORMATS[unit](day) for days in by_cell for day in days}) == 1:
        return  # it would say the same as the whole domain
    levels = CalendarLevels(cells, [unit])
    assert levels.n_levels == 3
    numbers = np.arange(cells.n_cells)
    lo, hi = levels.recode(1, numbers)
    alike = [[i for i, said in enumerate(written) if said == own] for own in written]
    assert lo.tolist() == [same[0] for same in alike]
    assert hi.tolist() == levels.reach(1, numbers).tolist() == [same[-1] for same in alike]


@given(calendars())
def test_what_one_level_makes_one_value_every_higher_level_does_too(cells: CalendarCells) -> None:
    levels, numbers = levels_of_calendar(cells, None), np.arange(cells.n_cells)
    assert [end.tolist() for end in levels.recode(0, numbers)] == [numbers.tolist()] * 2
    for level in range(levels.n_levels - 1):
        lo, hi = levels.recode(level, numbers)
        wide_lo, wide_hi = levels.recode(level + 1, numbers)
        assert (wide_lo <= lo).all()
        assert (hi <= wide_hi).all()
        assert (wide_lo == levels.recode(level + 1, lo)[0]).all()
    lo, hi = levels.recode(levels.n_levels - 1, numbers)
    assert (set(lo.tolist()), set(hi.tolist())) == ({0}, {cells.n_cells - 1})


@pytest.mark.parametrize(
    ("first", "last", "grid", "clock", "n_levels"),
    [
        ("1900-01-01", "2029-12-31", "1 day", DATE, 5),  # day, month, year, decade, all
        ("1900-01-01", "2029-12-31", "1 month", DATE, 4),
        ("1900-01-01", "2029-12-31", "5 years", DATE, 3),
        ("1900-01-01", "1909-12-31", "1 year", DATE, 2),  # one decade: all
        ("1900-01-01", "1900-01-31", "1 month", DATE, 1),
        ("2020-01-01", "2039-12-31", "15 minutes", LOCAL_TIMESTAMP, 7),  # hour, day, month, year, decade
    ],
)
def test_usual_levels(first: str, last: str, grid: str, clock: Clock, n_levels: int) -> None:
    assert levels_of_calendar(calendar(first, last, grid, clock), None).n_levels == n_levels


@pytest.mark.parametrize(
    ("first", "grid"), [("1900-01-01", "7 days"), ("1903-01-01", "5 years"), ("1900-02-01", "7 months")]
)
def test_where_no_unit_is_a_run_of_cells_runs_of_cells_are_the_levels(first: str, grid: str) -> None:
    cells = calendar(first, "1999-12-31", grid)
    assert isinstance(levels_of_calendar(cells, None), DoublingLevels)


def test_a_day_goes_up_as_arx_writes_it() -> None:
    """`1980-05-17` -> `1980-05` -> `1980` -> `[1980, 1990[` -> `*`."""
    cells = calendar("1975-03-01", "2004-02-29", "1 day")
    levels = levels_of_calendar(cells, None)
    cell = np.array([cells.cell_of(date(1980, 5, 17).toordinal() - 1)])
    published = [cells.texts(*(int(end[0]) for end in levels.recode(level, cell))) for level in range(levels.n_levels)]
    assert published == [
        ("1980-05-17", "1980-05-17"),
        ("1980-05-01", "1980-05-31"),
        ("1980-01-01", "1980-12-31"),
        ("1980-01-01", "1989-12-31"),
        ("1975-03-01", "2004-02-29"),
    ]


def test_many_cells_take_no_memory() -> None:
    cells = calendar("0001-01-01", "2001-01-01", "1 minute", LOCAL_TIMESTAMP)
    assert cells.n_cells > 10**9
    lo, hi = levels_of_calendar(cells, None).recode(1, np.array([cells.n_cells - 1]))
    assert (hi - lo + 1).tolist() == [60]
