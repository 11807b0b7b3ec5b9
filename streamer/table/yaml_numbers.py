"""A column of numbers in table.yaml -> `NumericAttribute`.

Every fault is one sentence: place, what is wrong, what is allowed. Numbers are exact decimals from the text, and are
kept in their shortest form, so that 5 and 5.0 are one table. The domain of a column with a step ends on a step: an end
between two steps is taken down to the lower one.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from streamer.errors import ConfigError, EventRefused
from streamer.table.attributes import NumericAttribute
from streamer.table.column_codes import to_code
from streamer.table.scalars import decimal_text, read_decimal
from streamer.table.space import CELLS_MAX, CODES_MAX, FINENESS, UNIT_SHARE
from streamer.table.yaml_categories import Rows, hierarchy_of
from streamer.table.yaml_shape import QuasiIdentifierSettings

_FOR_CATEGORIES = {
    "null": "is for categories. A number cannot say that nothing is known: leave nulls refused, or let null_as be a"
    " number in a cell of its own, such as the first one of a domain that begins one cell below all values",
    "other": "is for categories; a number that is not in the domain needs a wider domain",
}
"""Settings of a quasi-identifier that numbers have not, with what they have instead."""


def numeric_attribute(
    place: str, name: str, column: QuasiIdentifierSettings, rows: Rows | None, faults: list[str]
) -> NumericAttribute | None:
    """The attribute, without what `null_as` says; None where there are faults, which are added to `faults`.

    rows: those of its hierarchy file; None: there is none, or none that can be read.
    """
    integer = column.type == "integer"
    step = column.step if column.step is not None else Decimal(1) if integer else None
    grid = column.grid if column.grid is not None else step
    if column.domain is None or grid is None:
        if column.domain is None:
            faults.append(f"{place}.domain: is missing; give [lowest, highest]")
        if grid is None:
            faults.append(f"{place}.grid: is missing; a decimal without a step needs the width of its cells")
        return None
    faults += [
        f"{place}.{name}: {_FOR_CATEGORIES[name]}" for name in _FOR_CATEGORIES if getattr(column, name) is not None
    ]
    wrong = _numeric_faults(place, column.domain, grid, step, column.unit, integer)
    hierarchy = hierarchy_of(place, column.hierarchy, rows, faults)[0] if column.hierarchy else None
    if wrong:
        faults += wrong
        return None
    lo, hi = column.domain
    if step is not None:
        hi = lo + (hi - lo) // step * step
    attribute = NumericAttribute(
        name=name,
        domain=(_shortest(lo), _shortest(hi)),
        grid=_shortest(grid),
        step=None if step is None else _shortest(step),
        unit=_shortest(column.unit or (hi - lo) * UNIT_SHARE or grid),
        integer=integer,
        hierarchy=hierarchy,
    )
    if attribute.n_cells * attribute.codes_per_cell > CODES_MAX:
        faults.append(f"{place}: too many distinct values for one column; make the domain smaller or the grid wider")
        return None
    if attribute.n_cells > CELLS_MAX:
        faults.append(
            f"{place}: more than {CELLS_MAX:,} cells in one column; make the domain smaller or the grid wider"
        )
        return None
    try:
        _ = attribute.levels
    except ConfigError as error:
        faults.append(f"{place}.hierarchy: {column.hierarchy}: {error}")
        return None
    return attribute


def _numeric_faults(
    place: str,
    domain: tuple[Decimal, Decimal],
    grid: Decimal,
    step: Decimal | None,
    unit: Decimal | None,
    integer: bool,
) -> list[str]:
    lengths = {"grid": grid, "step": step, "unit": unit}
    faults = [f"{place}.{name}: must be above 0" for name, n in lengths.items() if n is not None and n <= 0]
    if domain[0] > domain[1]:
        faults.append(f"{place}.domain: the lower end lies above the upper one")
    if integer:
        whole = {"domain": domain, "grid": (grid,), "step": (step or Decimal(1),)}
        broken = [name for name, numbers in whole.items() if any(n != n.to_integral_value() for n in numbers)]
        faults += [f"{place}.{name}: must be whole numbers, since the type is integer" for name in broken]
    if not faults and step is not None and grid % step:
        faults.append(f"{place}.grid: must be a multiple of the step, {decimal_text(step)}")
    return faults


def numeric_with_null(
    place: str, attribute: NumericAttribute, null_as: str, faults: list[str]
) -> NumericAttribute | None:
    """The attribute with the code that a null counts as; None where that is no number of its domain."""
    value = read_decimal(null_as)
    if value is None:
        faults.append(f"{place}: must be a number")
        return None
    try:
        code = to_code(attribute)(value)
    except EventRefused as refused:
        faults.append(f"{place}: {refused.detail}")
        return None
    if attribute.step is None and code % FINENESS:
        faults.append(f"{place}: must be the lower edge of a cell, since the column has no step")
        return None
    return replace(attribute, null_code=code)


def _shortest(number: Decimal) -> Decimal:
    return Decimal(decimal_text(number))
