"""What kind of values a column of texts holds: numbers, dates, times, or categories."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import product

from streamer.errors import EventRefused
from streamer.table.calendar import Span, ends_of_unit
from streamer.table.scalars import (
    CLOCKS,
    DATE,
    LOCAL_TIMESTAMP,
    MICROSECONDS_PER_DAY,
    Clock,
    limit_of,
    moment_of,
    moment_text,
)
from streamer.table.source_texts import NUMBER_SPELLINGS, reader_of_pattern
from streamer.table.yaml.shape import FRACTION_DIGITS_MAX, WHOLE_DIGITS_MAX

# Words of a column that say that nothing is known, told by the words alone and by what else the column holds.
#
# Some words are that in every column. Others are somebody's value elsewhere (`none` of a medication, `-` of a blood
# group, `NA` of a country), and are nulls only where all else is numbers or dates.

SURE = frozenset(("N/A", "n/a", "#N/A", "#NV", "<NA>", "NULL", "null", "(null)", "\\N", "?", "??", "n.a."))
DOUBTFUL = frozenset(("NA", "na", "NaN", "nan", "None", "none", "-", "--", "---", "."))


def words_for_nulls(texts: Collection[str], counts: bool) -> tuple[str, ...]:
    """The words among the texts that are nulls, sorted; counts: what else there is are numbers or dates.

    >>> words_for_nulls(["f", "?", "none"], counts=False), words_for_nulls(["7", "?", "none"], counts=True)
    (('?',), ('?', 'none'))
    """
    words = SURE | DOUBTFUL if counts else SURE
    return tuple(sorted(words.intersection(texts)))


# Domain, step and grid of a column of numbers, from the numbers that are there.
#
# The domain is rounded outward to whole cells, so that its ends are nobody's value; 0 is an end by itself where nothing
# lies below it. Codes and counts are an exception: numbers in a row without a gap, each with a cell of its own, such as
# 0 and 1, end where they end. A domain wider than that would make every loss look smaller than it is. There are about
# `CELLS` cells, of a width that people count in: 1, 2, 2.5 or 5 times a power of ten. The step is that of the digits
# seen; with more than `STEP_DIGITS_MAX` digits behind the point a column is measured, not counted, and has no step.

DRAFT_CELLS = 25
STEP_DIGITS_MAX = 4
_WIDTHS = (Decimal(1), Decimal(2), Decimal("2.5"), Decimal(5), Decimal(10))


@dataclass(frozen=True)
class DraftScale:
    """How a numeric quasi-identifier is published; step None: a decimal that is measured."""

    integer: bool
    domain: tuple[Decimal, Decimal]
    step: Decimal | None
    grid: Decimal


def scale_of(numbers: Sequence[Decimal]) -> DraftScale | None:
    """A scale that holds all the numbers; None if table.yaml could not write it.

    >>> scale_of([Decimal(17), Decimal(39), Decimal(90)])
    DraftScale(integer=True, domain=(Decimal('15'), Decimal('94')), step=Decimal('1'), grid=Decimal('5'))
    >>> scale_of([Decimal(0), Decimal(1)])
    DraftScale(integer=True, domain=(Decimal('0'), Decimal('1')), step=Decimal('1'), grid=Decimal('1'))
    """
    digits = max(0, *(-int(number.as_tuple().exponent) for number in numbers))
    step = None if digits > STEP_DIGITS_MAX else Decimal(1).scaleb(-digits)
    first, last = min(numbers), max(numbers)
    if max(abs(first), abs(last)) >= Decimal(10) ** (WHOLE_DIGITS_MAX - 2):
        return None
    grid = _grid(last - first, step)
    without_gap = step == grid and len(set(numbers)) == (last - first) / grid + 1 > 1
    lo, hi = (first, last) if without_gap else _numbers_outward(first, last, grid, step)
    if any(number != round(number, FRACTION_DIGITS_MAX) for number in (lo, hi, grid)):
        return None
    return DraftScale(digits == 0, (lo, hi), step, grid)


def with_null_cell(scale: DraftScale) -> DraftScale:
    """The same with one cell more, below all values, for rows of which nothing is known.

    Where no value is negative, that cell is, so that it says of nobody what could be true; unless most of the domain
    would then be empty.

    >>> with_null_cell(DraftScale(True, (Decimal(16), Decimal(67)), Decimal(1), Decimal(2))).domain
    (Decimal('-2'), Decimal('67'))
    """
    lo, hi = scale.domain
    first = Decimal(0) if 0 <= lo <= hi - lo and not lo % scale.grid else lo
    return replace(scale, domain=(first - scale.grid, hi))


def _numbers_outward(first: Decimal, last: Decimal, grid: Decimal, step: Decimal | None) -> tuple[Decimal, Decimal]:
    """The ends of whole cells around the numbers, neither of them one of the numbers, but for a 0."""
    lo = (first / grid).to_integral_value(ROUND_FLOOR) * grid
    if lo == first != 0:
        lo -= grid
    if first >= 0:
        lo = max(lo, Decimal(0))
    hi = lo + ((last - lo) / grid).to_integral_value(ROUND_CEILING) * grid - (step or 0)
    while hi <= last:
        hi += grid
    return lo, hi


def _grid(width: Decimal, step: Decimal | None) -> Decimal:
    """The least counting width that cuts `width` into at most `CELLS` cells, and that is a multiple of the step."""
    wanted = width / DRAFT_CELLS
    if step is not None and wanted <= step:
        return step
    if not wanted:
        return Decimal(1)
    power = Decimal(1).scaleb(wanted.adjusted())
    grids = (power * times for times in _WIDTHS)
    return next(grid for grid in grids if grid >= wanted and (step is None or grid % step == 0))


# Type, domain and grid of a column of dates or timestamps, from the texts that are there.
#
# Time goes on, and rows with it: the domain has room on both sides, as long as what is there and ten years at most. It
# is rounded outward to whole cells. There are at most about `CELLS` cells, of a width that people count in, and as
# borders have it: weeks begin on Mondays, quarters in January, April, July and October, five years with a year that 5
# divides.

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
    """The type that all the texts have; None if there is none.

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
    wanted = (last - first) / DRAFT_CELLS
    grids = [grid for grid in GRIDS if grid.months or grid.moments(clock)]
    grid = next((grid for grid in grids if _length(grid, clock) >= wanted), grids[-1])
    room = min(last - first, ROOM_DAYS_MAX * clock.per_day)
    lo, hi = _moments_outward(max(0, first - room), min(last + room, clock.last), grid, clock)
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


def _moments_outward(first: int, last: int, grid: Span, clock: Clock) -> tuple[int, int]:
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


# How a column's numbers, dates and times are written, told by the patterns that all of its texts have.
#
# ISO texts and plain numbers come first, so a pattern is only found where it is needed. Of `1,234` alone nobody could
# tell whether the comma stands between thousands: with exactly three digits behind it, it does, and a point does not.
# Where day and month could change places in every text, the day stands first. Where nothing but a guess decided, that
# is said.

_EITHER = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
_BELOW_THOUSAND = re.compile(r"[+-]?\d{1,3}", re.ASCII)

DAYS = ("DD.MM.YYYY", "DD/MM/YYYY", "MM/DD/YYYY", "DD-MM-YYYY", "MM-DD-YYYY", "YYYY/MM/DD", "YYYY.MM.DD")
TIMES_WRITTEN = (" 00:00", " 00:00:00", "", " hh:mm", " hh:mm:ss")


@dataclass(frozen=True)
class WrittenMoments:
    """Texts of one clock, as ISO has them; written: their pattern, None: they come so. doubtful: day and month could
    change places."""

    clock: Clock
    texts: list[str]
    written: str | None = None
    doubtful: bool = False


def moments_written(texts: Sequence[str]) -> WrittenMoments | None:
    """How the texts are dates or times; None if they are not.

    >>> found = moments_written(["31.12.1980", "1.2.1981"])
    >>> found.written, found.texts
    ('DD.MM.YYYY', ['1980-12-31', '1981-02-01'])
    """
    if (clock := clock_of(texts)) is not None:
        return WrittenMoments(clock, list(texts))
    found: list[WrittenMoments] = []
    for time, day in product(TIMES_WRITTEN, DAYS):
        written, clock = day + time, LOCAL_TIMESTAMP if "hh" in time else DATE
        read = reader_of_pattern(written)
        if texts and read(texts[0]) == texts[0]:
            continue  # of a million texts, one look is enough
        iso = [str(read(text)) for text in texts]
        if all(said != text for said, text in zip(iso, texts, strict=True)) and clock_of(iso) is clock:
            found.append(WrittenMoments(clock, iso, written))
    if not found:
        return None
    return WrittenMoments(found[0].clock, found[0].texts, found[0].written, doubtful=len(found) > 1)


def numbers_written(texts: Sequence[str]) -> tuple[str, list[Decimal]] | None:
    """The pattern of texts that are no plain numbers, and the numbers; None if they are none.

    >>> numbers_written(["1,234", "12"]), numbers_written(["38,5"])
    (('1,234.5', [Decimal('1234'), Decimal('12')]), ('1.234,5', [Decimal('38.5')]))
    """
    for written in NUMBER_SPELLINGS:
        read = reader_of_pattern(written)
        try:
            numbers = [number for number in map(read, texts) if isinstance(number, Decimal)]
        except ValueError:
            continue
        if texts and len(numbers) == len(texts):
            return written, numbers
    return None


def could_be_thousands(texts: Sequence[str]) -> bool:
    """Whether the mark in numbers could as well stand between thousands as before a fraction.

    >>> could_be_thousands(["1.234", "980"]), could_be_thousands(["1.234", "1234"]), could_be_thousands(["0.125"])
    (True, False, False)
    """
    either = [bool(_EITHER.fullmatch(text)) for text in texts]
    others = (text for text, is_either in zip(texts, either, strict=True) if not is_either)
    return any(either) and all(map(_BELOW_THOUSAND.fullmatch, others))
