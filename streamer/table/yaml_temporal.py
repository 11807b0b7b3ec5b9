"""A column of dates or timestamps in table.yaml -> `TemporalAttribute`.

Every fault is one sentence: place, what is wrong, what is allowed. An end of a domain is an ISO text as rows have them;
of a timestamp a day alone means its first moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

from streamer.errors import EventRefused
from streamer.table.attributes import TemporalAttribute
from streamer.table.calendar_cells import MONTHS, CalendarCells, Span
from streamer.table.calendar_levels import UNITS, fits, is_wider
from streamer.table.moments import CLOCKS, Clock, limit_of
from streamer.table.space import CELLS_MAX, CODES_MAX, UNIT_SHARE
from streamer.table.yaml_shape import TemporalSettings


def temporal_attribute(place: str, name: str, column: TemporalSettings, faults: list[str]) -> TemporalAttribute | None:
    """The attribute, without its null; None where there are faults, which are added to `faults`."""
    clock = CLOCKS[column.type]
    wrong = list(_faults_of_lengths(place, column, clock))
    first, last = (_read(f"{place}.domain", text, clock, wrong) for text in column.domain)
    if not wrong and first is not None and last is not None:
        calendar = CalendarCells(clock, first, last, column.grid)
        wrong += _faults_of_cells(place, calendar) or _faults_of_levels(place, calendar, column.levels or ())
        if not wrong:
            return TemporalAttribute(name, calendar, _unit(column, calendar), column.levels)
    faults += wrong
    return None


def temporal_with_null(
    place: str, attribute: TemporalAttribute, null_as: str, faults: list[str]
) -> TemporalAttribute | None:
    """The attribute with the code that a null counts as; None where that is no moment of its domain."""
    calendar = attribute.calendar
    moment = _read(place, null_as, calendar.clock, faults)
    if moment is None:
        return None
    if not calendar.first <= moment <= calendar.last:
        faults.append(f"{place}: lies outside the domain")
        return None
    return replace(attribute, null_code=calendar.code_of(moment))


def _read(place: str, text: str, clock: Clock, faults: list[str]) -> int | None:
    """The moment that a text says."""
    try:
        return limit_of(text, place, clock)
    except EventRefused as refused:
        faults.append(f"{place}: {refused.detail.removeprefix(f'column {place!r}: ')}")
        return None


def _faults_of_lengths(place: str, column: TemporalSettings, clock: Clock) -> Iterator[str]:
    for setting, span in (("grid", column.grid), ("unit", column.unit)):
        if span is not None and not span.months and span.microseconds * clock.per_day % Span(1, "day").microseconds:
            yield f"{place}.{setting}: {span.text} is no number of whole days, as a date counts them"
    if column.unit is not None and bool(column.unit.months) != bool(column.grid.months):
        yield (
            f"{place}.unit: is measured by the {'calendar' if column.unit.months else 'clock'} and the grid is not:"
            f" give both in months and years, or both in days, hours and minutes"
        )


def _faults_of_cells(place: str, calendar: CalendarCells) -> list[str]:
    if calendar.first > calendar.last:
        return [f"{place}.domain: the lower end lies above the upper one"]
    if not calendar.begins_on_a_border:
        unit = calendar.grid.unit
        where = "in January, on the first" if unit == "year" else "on the first of a month"
        where = where if unit in MONTHS else f"with a full {unit}"
        return [f"{place}.domain: must begin {where}, since cells of {calendar.grid.text} are counted from there"]
    if calendar.n_cells > CELLS_MAX:
        return [f"{place}: more than {CELLS_MAX:,} cells in one column; make the domain smaller or the grid wider"]
    if calendar.n_cells * calendar.codes_per_cell > CODES_MAX:
        return [f"{place}: too many distinct values for one column; make the grid narrower"]
    return []


def _faults_of_levels(place: str, calendar: CalendarCells, units: tuple[str, ...]) -> list[str]:
    """Units that are no levels above the cells, or stand in no order."""
    grid = calendar.grid.text
    faults = [
        f"{place}.levels: {unit} is not wider than the grid, {grid}, which is a level by itself"
        for unit in units
        if not is_wider(calendar, unit)
    ]
    faults += [
        f"{place}.levels: not every {unit} ends where a cell of {grid} ends; leave it out, or choose another grid or"
        " beginning of the domain"
        for unit in units
        if is_wider(calendar, unit) and not fits(calendar, unit)
    ]
    if any(UNITS.index(below) >= UNITS.index(above) for below, above in pairwise(units)):
        faults.append(f"{place}.levels: must stand from the finest to the widest, each once")
    return faults


def _unit(column: TemporalSettings, calendar: CalendarCells) -> Decimal:
    """How many cells count as 1 in QGSSD."""
    if column.unit is None:
        return calendar.n_cells * UNIT_SHARE
    unit, grid = column.unit, column.grid
    if unit.months:
        return Decimal(unit.months) / grid.months
    return Decimal(unit.microseconds) / grid.microseconds
