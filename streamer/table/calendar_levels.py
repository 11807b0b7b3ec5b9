"""The generalization levels of dates and times: the units of the calendar, as ARX's date hierarchies have them.

The rules of this file
----------------------
* Level 0 publishes the cell, the last level the whole domain, and between them stands a unit for each level, the
  finest first: `1980-05-17` -> `1980-05` -> `1980` -> the decade of 1980 -> everything. A unit is what ISO texts
  begin with, so decades begin with a year that ends with 0.
* A value of a level is a run of cells, so a unit is a level only where it begins and ends with cells, wherever the
  domain begins: months over days, years over quarters that begin in January, never months over weeks.
* Without a word of table.yaml the levels are those of minute, hour, day, month, year and decade that are wider than the
  grid and can be. Where none can (cells of 7 days), they are runs of 2, 4, 8 ... cells, as those of numbers are.
* What lies in one unit altogether has no level for it: it would say the same as the last one.
* Nothing is kept per cell: a column of times may have hundreds of millions of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamer.table.arrays import Ints
from streamer.table.calendar_cells import (
    MICROSECONDS,
    MONTHS,
    CalendarCells,
    IntOrInts,
    Span,
    month_of,
    start_of_month,
)
from streamer.table.levels import DoublingLevels, Levels
from streamer.table.moments import MICROSECONDS_PER_DAY, Clock

UNITS = (*MICROSECONDS, *MONTHS)
"""Units that can be levels, the finest first: each is made of whole ones of those before it."""

USUAL = ("minute", "hour", "day", "month", "year", "decade")

_YEAR_0 = 12
"""Months of the year before year 1: counted from there, decades begin with a multiple of ten years."""


class CalendarLevels:
    """Levels of cells by units of the calendar, which have to fit them."""

    def __init__(self, cells: CalendarCells, units: Sequence[str]) -> None:
        self._cells = cells
        self._units = tuple(Span(1, unit) for unit in units if not _holds_all(cells, Span(1, unit)))
        self.n_levels = 1 if cells.n_cells == 1 else len(self._units) + 2

    def recode(self, level: int, cells: Ints) -> tuple[Ints, Ints]:
        if level == 0:
            return cells, cells.copy()
        if level > len(self._units):
            return np.zeros_like(cells), np.full_like(cells, self._cells.n_cells - 1)
        begin, end = ends_of_unit(self._cells.clock, self._units[level - 1], self._cells.start(cells))
        lo = self._cells.cell_of(np.maximum(begin, self._cells.first))
        return lo, self._cells.cell_of(np.minimum(end - 1, self._cells.last))

    def reach(self, level: int, cells: Ints) -> Ints:
        return self.recode(level, cells)[1]


def ends_of_unit(clock: Clock, unit: Span, moment: IntOrInts) -> tuple[IntOrInts, IntOrInts]:
    """Where the unit that holds a moment begins, and where the next one does; neither need lie in the calendar."""
    if not unit.months:
        begin = moment - moment % unit.moments(clock)
        return begin, begin + unit.moments(clock)
    month = month_of(moment, clock) + _YEAR_0
    begin = month - month % unit.months - _YEAR_0
    return start_of_month(begin, clock), start_of_month(begin + unit.months, clock)


def _holds_all(cells: CalendarCells, unit: Span) -> bool:
    """Whether the whole domain lies in one of the units."""
    _, end = ends_of_unit(cells.clock, unit, cells.first)
    return cells.last < end


def is_wider(cells: CalendarCells, unit: str) -> bool:
    """Whether a unit is longer than a cell."""
    grid, wide = cells.grid, Span(1, unit)
    if grid.months and wide.months:
        return wide.months > grid.months
    return bool(wide.months) or wide.microseconds > grid.microseconds > 0


def fits(cells: CalendarCells, unit: str) -> bool:
    """Whether a unit that is longer than a cell is a run of cells, wherever it begins."""
    grid, wide = cells.grid, Span(1, unit)
    if grid.months:
        first = month_of(cells.first, cells.clock) + _YEAR_0
        return wide.months > 0 and wide.months % grid.months == 0 and first % grid.months == 0
    of_days = MICROSECONDS_PER_DAY if wide.months else wide.microseconds  # months are of days of any number
    length = grid.moments(cells.clock)
    return of_days % grid.microseconds == 0 and cells.first % length == 0


def levels_of_calendar(cells: CalendarCells, units: Sequence[str] | None) -> Levels:
    """The levels of a column; units: those that table.yaml names, None where it names none."""
    if units is not None:
        return CalendarLevels(cells, units)
    usual = [unit for unit in USUAL if is_wider(cells, unit) and fits(cells, unit)]
    return CalendarLevels(cells, usual) if usual else DoublingLevels(cells.n_cells)
