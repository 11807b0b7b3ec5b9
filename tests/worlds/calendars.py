"""Calendars of a few cells, and the same by plain loops over Python's own dates."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from hypothesis import strategies as st

from streamer.table.attributes import TemporalAttribute
from streamer.table.calendar import CalendarCells, Span, read_span
from streamer.table.scalars import DATE, Clock, limit_of

GRIDS = ("1 day", "2 days", "7 days", "1 month", "2 months", "3 months", "7 months", "1 year", "5 years")


def span(text: str) -> Span:
    found = read_span(text)
    assert found is not None
    return found


def calendar(first: str, last: str, grid: str, clock: Clock = DATE) -> CalendarCells:
    return CalendarCells(clock, limit_of(first, "x", clock), limit_of(last, "x", clock), span(grid))


def temporal(
    name: str, first: str, last: str, grid: str, clock: Clock = DATE, levels: tuple[str, ...] | None = None
) -> TemporalAttribute:
    cells = calendar(first, last, grid, clock)
    return TemporalAttribute(name, cells, Decimal(cells.n_cells) / 5, levels)


@st.composite
def calendars(draw: st.DrawFn) -> CalendarCells:
    """Dates of up to a year and a half, of years up to six, which begin where the grid may begin."""
    grid = span(draw(st.sampled_from(GRIDS)))
    day = draw(st.dates(max_value=date(9990, 1, 1)))
    if grid.months:
        day = day.replace(day=1, month=1 if grid.unit == "year" else day.month)
    first = day.toordinal() - 1
    return CalendarCells(DATE, first, first + draw(st.integers(0, 2_200 if grid.unit == "year" else 550)), grid)


def next_start(day: date, grid: Span) -> date:
    """Where the cell that begins with `day` ends, counted on the fingers."""
    if not grid.months:
        return date.fromordinal(day.toordinal() + grid.n)
    month = day.month - 1 + grid.months
    return day.replace(year=day.year + month // 12, month=month % 12 + 1)


def days_by_cell(cells: CalendarCells) -> list[list[date]]:
    """The days of every cell, the last one clipped."""
    day, found = date.fromordinal(cells.first + 1), []
    last = date.fromordinal(cells.last + 1)
    while day <= last:
        end = next_start(day, cells.grid)
        found.append([date.fromordinal(n) for n in range(day.toordinal(), min(end, last).toordinal() + (end > last))])
        day = end
    return found
