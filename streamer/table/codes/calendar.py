"""A domain of dates or times, cut into cells of the calendar.

The rules of this file
----------------------
* A cell is a number of months or years, as long as these are in the calendar; or of days, hours or minutes, by the
  clock, of which every day has 24 hours.
* Cells are counted from the domain's first moment, which is the start of a unit of the grid: the first of a month or of
  January, midnight, a full hour or minute. The last cell is clipped at the domain's end.
* A code is the cell's number times `codes_per_cell`, plus the moments since the start of the cell, so a code alone
  gives the value back. Every cell has room for the longest one, so some codes are no moment.
* Dates are published closed, by the first and the last day. Timestamps have no step that means anything, so their cells
  are [start, next start), the last one closed, published by these edges, like decimals without a step.
* Methods take an int, or an int64 array of any shape, and give the same back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from streamer.table.arrays import Ints
from streamer.table.codes.scalars import DATE, MICROSECONDS_PER_DAY, Clock, moment_text
from streamer.table.hierarchy import DoublingLevels, Levels

IntOrInts = TypeVar("IntOrInts", int, Ints)

MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1_200, "millennium": 12_000}
"""Units whose length the calendar decides, in months."""

MICROSECONDS = {"minute": 60_000_000, "hour": 3_600_000_000, "day": MICROSECONDS_PER_DAY}
"""Units whose length the clock decides."""

DAYS_OF_MONTH_MAX = 31
_EPOCH = 719_162
"""Days from the first of January of year 1 to numpy's day 0, in 1970."""
_EPOCH_MONTHS = 1_969 * 12
_SPAN = re.compile(r"([1-9][0-9]{0,5}) (minute|hour|day|month|year)(s?)")


@dataclass(frozen=True)
class Span:
    """A length of time: a number of one unit.

    >>> Span(3, "month").text, Span(3, "month").months, Span(1, "day").months
    ('3 months', 3, 0)
    """

    n: int
    unit: str

    @property
    def text(self) -> str:
        return f"{self.n} {self.unit}{'s' * (self.n > 1)}"

    @property
    def months(self) -> int:
        """Its length in months; 0 if the clock decides it."""
        return self.n * MONTHS.get(self.unit, 0)

    @property
    def microseconds(self) -> int:
        """Its length by the clock; 0 if the calendar decides it."""
        return self.n * MICROSECONDS.get(self.unit, 0)

    def moments(self, clock: Clock) -> int:
        """The same in moments; also 0 if it is shorter than one."""
        return self.microseconds * clock.per_day // MICROSECONDS_PER_DAY


def read_span(text: object) -> Span | None:
    """The length that a text of table.yaml stands for; None if it is not a length.

    >>> read_span("7 days"), read_span("1 month"), read_span("month"), read_span("0 days")
    (Span(n=7, unit='day'), Span(n=1, unit='month'), None, None)
    """
    found = _SPAN.fullmatch(text) if isinstance(text, str) else None
    return Span(int(found[1]), found[2]) if found and (int(found[1]) > 1 or not found[3]) else None


def month_of(moment: IntOrInts, clock: Clock) -> IntOrInts:
    """The month of a moment, counted from January of year 1."""
    days = np.asarray(moment // clock.per_day - _EPOCH, dtype="datetime64[D]")
    return _like(moment, days.astype("datetime64[M]").astype(np.int64) + _EPOCH_MONTHS)


def start_of_month(month: IntOrInts, clock: Clock) -> IntOrInts:
    """The first moment of a month."""
    months = np.asarray(month - _EPOCH_MONTHS, dtype="datetime64[M]")
    return _like(month, (months.astype("datetime64[D]").astype(np.int64) + _EPOCH) * clock.per_day)


def _like(asked: IntOrInts, found: Ints) -> IntOrInts:
    return int(found) if isinstance(asked, int) else found


@dataclass(frozen=True)
class CalendarCells:
    """The moments first..last, both inclusive, in cells of `grid`; first must be the start of a unit of the grid."""

    clock: Clock
    first: int
    last: int
    grid: Span

    @property
    def is_closed(self) -> bool:
        """True if a published interval ends with its last moment (dates), not with the next cell's start."""
        return self.clock == DATE

    @cached_property
    def codes_per_cell(self) -> int:
        """Codes that every cell has room for; also the end of the last one's interval, if that is not closed."""
        months, moments = self.grid.months, self.grid.moments(self.clock)
        return (months * DAYS_OF_MONTH_MAX * self.clock.per_day if months else moments) + (not self.is_closed)

    @cached_property
    def n_cells(self) -> int:
        last = self.last if self.is_closed else max(self.first, self.last - 1)
        return self._counted(last) + 1

    @cached_property
    def _first_month(self) -> int:
        return month_of(self.first, self.clock)

    def start(self, cell: IntOrInts) -> IntOrInts:
        """The first moment of a cell; of the cell after the last one, too."""
        if self.grid.months:
            return start_of_month(self._first_month + cell * self.grid.months, self.clock)
        return self.first + cell * self.grid.moments(self.clock)

    def cell_of(self, moment: IntOrInts) -> IntOrInts:
        """The cell of a moment of the domain."""
        cell = self._counted(moment)
        if isinstance(cell, int):
            return min(cell, self.n_cells - 1)
        return np.minimum(cell, self.n_cells - 1)

    def _counted(self, moment: IntOrInts) -> IntOrInts:
        """The number of a moment's cell, not limited to the last cell."""
        if self.grid.months:
            return (month_of(moment, self.clock) - self._first_month) // self.grid.months
        return (moment - self.first) // self.grid.moments(self.clock)

    def code_of(self, moment: IntOrInts) -> IntOrInts:
        """The code of a moment of the domain."""
        cell = self.cell_of(moment)
        return cell * self.codes_per_cell + moment - self.start(cell)

    def code_or_beyond(self, moment: int) -> int:
        """The same of any moment: before the domain a code below all others, after it one above them."""
        if moment < self.first:
            return -1
        return self.code_of(moment) if moment <= self.last else self.n_cells * self.codes_per_cell

    def moment_of(self, code: IntOrInts) -> IntOrInts:
        """The moment that a code stands for."""
        return self.start(code // self.codes_per_cell) + code % self.codes_per_cell

    def interval(self, cell_lo: int, cell_hi: int) -> tuple[int, int]:
        """The published ends of the cells cell_lo..cell_hi."""
        end = self.start(cell_hi + 1) - self.is_closed
        return self.start(cell_lo), min(end, self.last)

    def texts(self, cell_lo: int, cell_hi: int) -> tuple[str, str]:
        """The same as texts."""
        lo, hi = self.interval(cell_lo, cell_hi)
        return moment_text(lo, self.clock), moment_text(hi, self.clock)

    def cells_between(self, lo: int, hi: int) -> tuple[int, int] | None:
        """The cells whose published interval has these ends; None if no cells have."""
        if not self.first <= lo <= hi <= self.last:
            return None
        cells = self.cell_of(lo), self.cell_of(hi if self.is_closed else max(lo, hi - 1))
        return cells if self.interval(*cells) == (lo, hi) else None

    @property
    def begins_on_a_border(self) -> bool:
        """True if the domain begins where the grid's unit does."""
        if not self.grid.months:
            return self.first % max(1, Span(1, self.grid.unit).moments(self.clock)) == 0
        return self.first == start_of_month(self._first_month, self.clock) and (
            self._first_month % MONTHS[self.grid.unit] == 0
        )


# The generalization levels of dates and times: the units of the calendar, as in ARX's date hierarchies.
#
# * Level 0 publishes the cell, the last level the whole domain, and each level between them a unit, the shortest first:
#   `1980-05-17` -> `1980-05` -> `1980` -> the decade of 1980 -> everything. Decades begin with a year that ends with 0.
# * A value of a level is a run of cells. So a unit can be a level only if it begins and ends with cells, wherever the
#   domain begins: months over days, years over quarters that begin in January, never months over weeks.
# * By default the levels are those of minute, hour, day, month, year and decade that are longer than the grid and can
#   be levels. If none can (cells of 7 days), they are runs of 2, 4, 8 ... cells, like those of numbers.
# * A unit that contains the whole domain is not a level: it would publish the same as the last one.
# * Nothing is kept per cell: a column of times may have hundreds of millions.

UNITS = (*MICROSECONDS, *MONTHS)
"""Units that can be levels, the shortest first: each consists of whole ones of those before it."""

USUAL = ("minute", "hour", "day", "month", "year", "decade")

_YEAR_0 = 12
"""Months of the year before year 1: counted from its start, decades begin at multiples of ten years."""


class CalendarLevels:
    """Levels by units of the calendar, all of which fit the cells."""

    def __init__(self, cells: CalendarCells, units: Sequence[str]) -> None:
        self._cells = cells
        spans = [Span(1, unit) for unit in units]
        self._units = [unit for unit in spans if ends_of_unit(cells.clock, unit, cells.first)[1] <= cells.last]
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
    """The starts of the unit that holds a moment and of the next one; either may lie outside the calendar."""
    if not unit.months:
        begin = moment - moment % unit.moments(clock)
        return begin, begin + unit.moments(clock)
    month = month_of(moment, clock) + _YEAR_0
    begin = month - month % unit.months - _YEAR_0
    return start_of_month(begin, clock), start_of_month(begin + unit.months, clock)


def is_wider(cells: CalendarCells, unit: str) -> bool:
    """True if a unit is longer than a cell."""
    grid, wide = cells.grid, Span(1, unit)
    if grid.months and wide.months:
        return wide.months > grid.months
    return bool(wide.months) or wide.microseconds > grid.microseconds > 0


def fits(cells: CalendarCells, unit: str) -> bool:
    """True if a unit that is longer than a cell always consists of whole cells."""
    grid, wide = cells.grid, Span(1, unit)
    if grid.months:
        first = month_of(cells.first, cells.clock) + _YEAR_0
        return wide.months > 0 and wide.months % grid.months == 0 and first % grid.months == 0
    of_days = MICROSECONDS_PER_DAY if wide.months else wide.microseconds  # months have any number of days
    length = grid.moments(cells.clock)
    return of_days % grid.microseconds == 0 and cells.first % length == 0


def levels_of_calendar(cells: CalendarCells, units: Sequence[str] | None) -> Levels:
    """The levels of a column; units: those that table.yaml names; None: the usual ones."""
    if units is not None:
        return CalendarLevels(cells, units)
    usual = [unit for unit in USUAL if is_wider(cells, unit) and fits(cells, unit)]
    return CalendarLevels(cells, usual) if usual else DoublingLevels(cells.n_cells)
