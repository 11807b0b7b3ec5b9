"""Type, domain and grid of a column of dates or timestamps, from the texts that are there.

Time goes on, and rows with it: the domain has room on both sides, as long as what is there and ten years at most. It is
rounded outward to whole cells. There are at most about `CELLS`
cells, of a width that people count in, and as borders have it: weeks begin on Mondays, quarters in January, April, July
and October, five years with a year that 5 divides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from streamer.errors import EventRefused
from streamer.table.calendar_cells import Span
from streamer.table.calendar_levels import ends_of_unit
from streamer.table.draft.numbers import CELLS
from streamer.table.moments import CLOCKS, DATE, MICROSECONDS_PER_DAY, Clock, limit_of, moment_of, moment_text

GRIDS = (
    Span(1, "minute"), Span(15, "minute"), Span(1, "hour"), Span(6, "hour"), Span(1, "day"), Span(7, "day"),
    Span(1, "month"), Span(3, "month"), Span(1, "year"), Span(5, "year"), Span(10, "year"), Span(100, "year"),
)  # fmt: skip

ROOM_DAYS_MAX = 3_650

_DAYS_OF_400_YEARS, _MONTHS_OF_400_YEARS = 146_097, 4_800


@dataclass(frozen=True)
class TimeScale:
    """How a quasi-identifier of moments is published; the domain in texts, an end at midnight as its day."""

    clock: Clock
    domain: tuple[str, str]
    grid: Span


def clock_of(texts: Sequence[str]) -> Clock | None:
    """The type that all the texts have; None where there is none.

    >>> clock_of(["1980-01-31"]) is DATE, clock_of(["1980-01-31", "1980-02-30"])
    (True, None)
    """
    return next((clock for clock in CLOCKS.values() if texts and _all_are(texts, clock)), None)


def _all_are(texts: Sequence[str], clock: Clock) -> bool:
    try:
        for text in texts:
            moment_of(text, "", clock)
    except EventRefused:
        return False
    return True


def time_scale_of(texts: Sequence[str], clock: Clock) -> TimeScale:
    """A scale that holds all the texts, which are of the clock, with room on both sides.

    >>> scale = time_scale_of(["1950-05-17", "1999-12-30"], DATE)
    >>> scale.domain, scale.grid.text
    (('1940-01-01', '2009-12-31'), '5 years')
    """
    moments = [moment_of(text, "", clock) for text in texts]
    first, last = min(moments), max(moments)
    wanted = (last - first) / CELLS
    grids = [grid for grid in GRIDS if grid.months or grid.moments(clock)]
    grid = next((grid for grid in grids if _length(grid, clock) >= wanted), grids[-1])
    room = min(last - first, ROOM_DAYS_MAX * clock.per_day)
    lo, hi = _outward(max(0, first - room), min(last + room, clock.last), grid, clock)
    return TimeScale(clock, (_text(lo, clock), _text(hi, clock)), grid)


def with_null_moment(scale: TimeScale) -> TimeScale | None:
    """The same with one cell more before the first one, for rows of which nothing is known; None: there is none.

    >>> with_null_moment(TimeScale(DATE, ("1940-01-01", "2009-12-31"), Span(5, "year"))).domain
    ('1935-01-01', '2009-12-31')
    """
    lo = limit_of(scale.domain[0], "", scale.clock)
    if not lo:
        return None
    earlier, _ = ends_of_unit(scale.clock, scale.grid, lo - 1)
    return replace(scale, domain=(_text(earlier, scale.clock), scale.domain[1]))


def _length(grid: Span, clock: Clock) -> float:
    """Moments of a cell, of a month in the mean."""
    if grid.months:
        return grid.months * _DAYS_OF_400_YEARS / _MONTHS_OF_400_YEARS * clock.per_day
    return grid.microseconds * clock.per_day / MICROSECONDS_PER_DAY


def _outward(first: int, last: int, grid: Span, clock: Clock) -> tuple[int, int]:
    """The ends of whole cells around the moments, neither of them one of these while the calendar has others."""
    lo, _ = ends_of_unit(clock, grid, first)
    if lo == first > 0:
        lo, _ = ends_of_unit(clock, grid, first - 1)
    _, end = ends_of_unit(clock, grid, last)
    if clock is DATE and end - 1 == last < clock.last:
        _, end = ends_of_unit(clock, grid, last + 1)
    return max(lo, 0), min(end - (clock is DATE), clock.last)


def _text(moment: int, clock: Clock) -> str:
    return moment_text(moment // clock.per_day, DATE) if moment % clock.per_day == 0 else moment_text(moment, clock)
