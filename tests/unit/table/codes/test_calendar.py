"""Cells of the calendar, against plain loops over Python's own dates."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.table.codes import DATE, LOCAL_TIMESTAMP, TIMESTAMP, Clock, Span, limit_of, moment_of, moment_text
from streamer.table.codes.calendar import (
    CalendarCells,
    CalendarLevels,
    fits,
    is_wider,
    levels_of_calendar,
    month_of,
    read_span,
    start_of_month,
)
from streamer.table.hierarchy import DoublingLevels
from worlds.dates import calendar, calendars, days_by_cell


@given(calendars())
def test_every_day_of_the_domain_lies_in_exactly_one_cell_which_publishes_its_days(cells: CalendarCells) -> None:
    by_cell = days_by_cell(cells)
    assert cells.n_cells == len(by_cell)
    for number, days in enumerate(by_cell):
        assert {cells.cell_of(moment_of(day, "x", DATE)) for day in days} == {number}
        assert cells.texts(number, number) == (days[0].isoformat(), days[-1].isoformat())
        assert len(days) <= cells.codes_per_cell


@given(calendars())
def test_codes_are_as_many_as_days_in_their_order_and_give_them_back(cells: CalendarCells) -> None:
    moments = list(range(cells.first, cells.last + 1))
    codes = [cells.code_of(moment) for moment in moments]
    assert codes == sorted(set(codes))
    assert [cells.moment_of(code) for code in codes] == moments
    assert [code // cells.codes_per_cell for code in codes] == [cells.cell_of(moment) for moment in moments]
    beyond = cells.code_or_beyond(cells.first - 1), cells.code_or_beyond(cells.last + 1)
    assert beyond[0] < codes[0] <= codes[-1] < beyond[1]


@given(calendars(), st.data())
def test_what_runs_of_cells_publish_is_read_back_and_nothing_else_is(cells: CalendarCells, data: st.DataObject) -> None:
    lo = data.draw(st.integers(0, cells.n_cells - 1))
    hi = data.draw(st.integers(lo, cells.n_cells - 1))
    first, last = cells.interval(lo, hi)
    assert cells.cells_between(first, last) == (lo, hi)
    days = [day for some in days_by_cell(cells)[lo : hi + 1] for day in some]
    assert (moment_text(first, DATE), moment_text(last, DATE)) == (days[0].isoformat(), days[-1].isoformat())
    other = data.draw(st.integers(cells.first - 1, cells.last + 1))
    published = {cells.interval(lo, number)[1] for number in range(lo, cells.n_cells)}
    assert (cells.cells_between(first, other) is not None) == (other in published)


@given(st.lists(st.dates(), min_size=1, max_size=5))
def test_months_are_those_of_the_calendar_one_by_one_and_as_arrays(days: list[date]) -> None:
    moments = np.array([day.toordinal() - 1 for day in days])
    months = month_of(moments, DATE)
    assert months.tolist() == [(day.year - 1) * 12 + day.month - 1 for day in days]
    assert months.tolist() == [month_of(moment, DATE) for moment in moments.tolist()]
    starts = start_of_month(months, DATE)
    assert starts.tolist() == [day.replace(day=1).toordinal() - 1 for day in days]
    assert starts.tolist() == [start_of_month(month, DATE) for month in months.tolist()]


# -- timestamps -------------------------------------------------------------------------------------------------------


@given(
    st.sampled_from(["15 minutes", "6 hours", "1 day", "7 days", "1 month", "1 year"]),
    st.timedeltas(timedelta(0), timedelta(days=2 * 365)),
    st.data(),
)
def test_cells_of_timestamps_are_half_open_and_the_last_one_is_closed(
    grid: str, length: timedelta, data: st.DataObject
) -> None:
    wall = datetime(2019, 1, 1)
    cells = calendar("2019-01-01", (wall + length).isoformat(), grid, LOCAL_TIMESTAMP)
    last = (wall + length).isoformat()
    assert cells.texts(0, cells.n_cells - 1) == ("2019-01-01T00:00:00", last)
    assert cells.cell_of(cells.last) == cells.n_cells - 1
    assert cells.moment_of(cells.code_of(cells.last)) == cells.last
    number = data.draw(st.integers(0, cells.n_cells - 1))
    lo, hi = cells.interval(number, number)
    assert cells.cells_between(lo, hi) == (number, number)
    assert cells.cell_of(lo) == number
    assert number == cells.n_cells - 1 or cells.cell_of(hi) == number + 1
    moment = data.draw(st.integers(lo, max(lo, hi - 1)))
    assert cells.cell_of(moment) == number
    assert cells.moment_of(cells.code_of(moment)) == moment


def test_a_domain_of_whole_cells_has_no_cell_for_its_end_alone() -> None:
    day = calendar("2020-01-01", "2020-01-03", "1 day", TIMESTAMP)
    assert day.n_cells == 2
    assert day.texts(1, 1) == ("2020-01-02T00:00:00Z", "2020-01-03T00:00:00Z")
    assert calendar("2020-01-01", "2020-01-03", "1 day").n_cells == 3
    assert calendar("2020-01-01", "2020-01-01", "1 day", TIMESTAMP).n_cells == 1


def test_months_of_leap_years_are_as_long_as_they_are() -> None:
    months = calendar("2019-12-01", "2024-04-15", "1 month")
    assert months.texts(2, 2) == ("2020-02-01", "2020-02-29")
    assert months.texts(14, 14) == ("2021-02-01", "2021-02-28")
    assert months.texts(52, 52) == ("2024-04-01", "2024-04-15")  # clipped
    assert calendar("1900-01-01", "2100-12-31", "1 year").interval(0, 0)[1] == limit_of("1900-12-31", "x", DATE)


def test_the_whole_calendar_is_a_domain() -> None:
    for clock in (DATE, LOCAL_TIMESTAMP):
        whole = CalendarCells(clock, 0, clock.last, Span(1, "month"))
        assert whole.n_cells == 9999 * 12
        assert whole.texts(9999 * 12 - 1, 9999 * 12 - 1)[1] == moment_text(clock.last, clock)
        assert whole.moment_of(whole.code_of(clock.last)) == clock.last


# -- what table.yaml may say ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "grid", "fits"),
    [
        ("1980-05-17", "7 days", True),
        ("1980-05-01", "3 months", True),
        ("1980-05-17", "1 month", False),
        ("1980-05-01", "1 year", False),
        ("1980-01-01", "5 years", True),
    ],
)
def test_a_domain_begins_where_a_unit_of_its_grid_does(first: str, grid: str, fits: bool) -> None:
    assert calendar(first, "2000-12-31", grid).begins_on_a_border is fits


@pytest.mark.parametrize(
    ("first", "grid", "fits"),
    [("2020-01-01T00:30", "15 minutes", True), ("2020-01-01T00:30", "6 hours", False), ("2020-01-01", "1 year", True)],
)
def test_a_domain_of_times_does_so_too(first: str, grid: str, fits: bool) -> None:
    assert calendar(first, "2021-01-01", grid, LOCAL_TIMESTAMP).begins_on_a_border is fits


def test_lengths_are_read_as_they_are_written() -> None:
    for text in ("1 day", "7 days", "12 months", "1 year", "90 minutes"):
        span = read_span(text)
        assert span is not None
        assert span.text == text
    for wrong in ("1 days", "0 days", "-1 days", "1.5 days", "2 weeks", "month", "1 decade", "", None, "1  day"):
        assert read_span(wrong) is None


# Levels of dates by units of the calendar, against the texts that ARX's formats give them.

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
