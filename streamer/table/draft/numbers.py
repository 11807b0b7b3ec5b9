"""Domain, step and grid of a column of numbers, from the numbers that are there.

The domain is rounded outward to whole cells, so that its ends are nobody's value; 0 is an end by itself where nothing
lies below it. Codes and counts are an exception: numbers in a row without a gap, each with a cell of its own, such as 0
and 1, end where they end. A domain wider than that would make every loss look smaller than it is. There are about
`CELLS` cells, of a width that people count in: 1, 2, 2.5 or 5 times a power of ten. The step is that of the digits
seen; with more than `STEP_DIGITS_MAX` digits behind the point a column is measured, not counted, and has no step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from streamer.table.yaml_values import FRACTION_DIGITS_MAX, WHOLE_DIGITS_MAX

CELLS = 25
STEP_DIGITS_MAX = 4
_WIDTHS = (Decimal(1), Decimal(2), Decimal("2.5"), Decimal(5), Decimal(10))


@dataclass(frozen=True)
class Scale:
    """How a numeric quasi-identifier is published; step None: a decimal that is measured."""

    integer: bool
    domain: tuple[Decimal, Decimal]
    step: Decimal | None
    grid: Decimal


def scale_of(numbers: Sequence[Decimal]) -> Scale | None:
    """A scale that holds all the numbers; None where table.yaml could not write it.

    >>> scale_of([Decimal(17), Decimal(39), Decimal(90)])
    Scale(integer=True, domain=(Decimal('15'), Decimal('94')), step=Decimal('1'), grid=Decimal('5'))
    >>> scale_of([Decimal(0), Decimal(1)])
    Scale(integer=True, domain=(Decimal('0'), Decimal('1')), step=Decimal('1'), grid=Decimal('1'))
    """
    digits = max(0, *(-int(number.as_tuple().exponent) for number in numbers))
    step = None if digits > STEP_DIGITS_MAX else Decimal(1).scaleb(-digits)
    first, last = min(numbers), max(numbers)
    if max(abs(first), abs(last)) >= Decimal(10) ** (WHOLE_DIGITS_MAX - 2):
        return None
    grid = _grid(last - first, step)
    without_gap = step == grid and len(set(numbers)) == (last - first) / grid + 1 > 1
    lo, hi = (first, last) if without_gap else _outward(first, last, grid, step)
    if any(number != round(number, FRACTION_DIGITS_MAX) for number in (lo, hi, grid)):
        return None
    return Scale(digits == 0, (lo, hi), step, grid)


def with_null_cell(scale: Scale) -> Scale:
    """The same with one cell more, below all values, for rows of which nothing is known.

    Where no value is negative, that cell is, so that it says of nobody what could be true; unless most of the domain
    would then be empty.

    >>> with_null_cell(Scale(True, (Decimal(16), Decimal(67)), Decimal(1), Decimal(2))).domain
    (Decimal('-2'), Decimal('67'))
    """
    lo, hi = scale.domain
    first = Decimal(0) if 0 <= lo <= hi - lo and not lo % scale.grid else lo
    return replace(scale, domain=(first - scale.grid, hi))


def _outward(first: Decimal, last: Decimal, grid: Decimal, step: Decimal | None) -> tuple[Decimal, Decimal]:
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
    wanted = width / CELLS
    if step is not None and wanted <= step:
        return step
    if not wanted:
        return Decimal(1)
    power = Decimal(1).scaleb(wanted.adjusted())
    grids = (power * times for times in _WIDTHS)
    return next(grid for grid in grids if grid >= wanted and (step is None or grid % step == 0))
