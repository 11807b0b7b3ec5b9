"""The columns of table.yaml, made into attributes: categories, numbers, dates and times, spellings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

from streamer.errors import ConfigError, EventRefused
from streamer.table.attributes import Attribute, CategoricalAttribute, NumericAttribute, TemporalAttribute
from streamer.table.calendar import MONTHS, UNITS, CalendarCells, Span, fits, is_wider
from streamer.table.column_codes import to_code
from streamer.table.hierarchy import Hierarchy
from streamer.table.scalars import CLOCKS, DATE, TIMESTAMP, Clock, decimal_text, limit_of, read_decimal
from streamer.table.schema import KeptColumn, SourceText
from streamer.table.source_texts import DIGITS_ALONE, NUMBER_SPELLINGS, fault_of_pattern
from streamer.table.space import CELLS_MAX, CODES_MAX, FINENESS, UNIT_SHARE
from streamer.table.yaml.shape import (
    ColumnSettings,
    QuasiIdentifierSettings,
    SensitiveSettings,
    TableSettings,
    TemporalSettings,
)

# Hierarchy files and what table.yaml says of the categories that they do not have: nulls and unknown ones.
#
# Every fault is one sentence: place, what is wrong, what is allowed. A leaf that is added stands in no file and is
# published like any other: `(none)` for nulls, below the root, because nothing is known of them; `(other)` for unknown
# categories, below the node that table.yaml names. Where that is a leaf of the file, they count as this one.

NULL_LABEL, OTHER_LABEL = "(none)", "(other)"

Rows = list[list[str]]


def categorical_attribute(
    place: str, name: str, column: QuasiIdentifierSettings, rows: Rows | None, faults: list[str]
) -> CategoricalAttribute | None:
    """The attribute, without what `null_as` says; None where there are faults, which are added to `faults`.

    rows: those of its hierarchy file; None: there is none that can be read.
    """
    if column.hierarchy is None:
        faults.append(f"{place}: needs a type (integer, decimal, date, timestamp) with a domain, or a hierarchy")
        return None
    numeric_only = [setting for setting in ("domain", "grid", "step") if getattr(column, setting) is not None]
    faults += [f"{place}.{setting}: is for `type: integer` and `type: decimal` only" for setting in numeric_only]
    if column.unit is not None and column.unit <= 0:
        faults.append(f"{place}.unit: must be above 0; it counts leaves")
    own_null = column.null is not None
    if own_null and column.null_as is not None:
        faults.append(f"{place}.null: a null counts as one thing; remove this setting, or null_as")
    hierarchy, other = hierarchy_of(place, column.hierarchy, rows, faults, column.other, own_null=own_null)
    if hierarchy is None:
        return None
    unit = column.unit or hierarchy.n_leaves * UNIT_SHARE
    return CategoricalAttribute(
        name,
        hierarchy,
        type(unit)(decimal_text(unit)),
        null_code=hierarchy.code_of.get(NULL_LABEL) if own_null else None,  # a node may have that name: a fault
        other_code=None if other is None else hierarchy.code_of[other],
    )


def categorical_with_null(
    place: str, attribute: CategoricalAttribute, null_as: str, faults: list[str]
) -> CategoricalAttribute | None:
    """The attribute with the leaf that a null counts as; None if its hierarchy has no such leaf."""
    code = attribute.hierarchy.code_of.get(null_as)
    if code is None:
        faults.append(f"{place}: must be a leaf of the column's hierarchy, or say `null: own-category` instead")
        return None
    return replace(attribute, null_code=code)


def sensitive_categories(
    place: str, name: str, column: SensitiveSettings, rows: Rows | None, faults: list[str]
) -> KeptColumn | None:
    """The sensitive column with its hierarchy, if it has one; None if that cannot be read."""
    kept = KeptColumn(name, sensitive=True, type=column.type)
    if column.hierarchy is None:
        if column.other is not None:
            faults.append(f"{place}.other: names a node of a hierarchy, and the column has none")
        return kept
    if column.type not in (None, "text"):
        faults.append(f"{place}.type: the leaves of a hierarchy are text; remove one of the two settings")
    hierarchy, other = hierarchy_of(place, column.hierarchy, rows, faults, column.other)
    return None if hierarchy is None else replace(kept, type="text", hierarchy=hierarchy, other=other)


def hierarchy_of(
    place: str, file: str, rows: Rows | None, faults: list[str], other: str | None = None, *, own_null: bool = False
) -> tuple[Hierarchy | None, str | None]:
    """The hierarchy of a file's rows, and the leaf of unknown categories.

    other: the node that takes them; own_null: whether nulls have a leaf of their own. Both are None if there are
    faults, which are added to `faults`.
    """
    if rows is None:
        return None, None
    rows = [[cell.strip() for cell in row] for row in rows]
    try:
        tree = Hierarchy.from_rows(rows)
        leaf = None if other is None else _leaf_of_others(place, tree, other, rows, faults)
        if own_null and _is_free(f"{place}.null", NULL_LABEL, tree, faults):
            rows.append([NULL_LABEL, *_root(rows)])
        return Hierarchy.from_rows(rows), leaf
    except ConfigError as error:
        faults.append(f"{place}.hierarchy: {file}: {error}")
    return None, None


def _leaf_of_others(place: str, tree: Hierarchy, node: str, rows: Rows, faults: list[str]) -> str | None:
    """The leaf of unknown categories; one that the file does not have is added to the rows."""
    if node in tree.code_of:
        return node
    if node not in tree.interval_of:
        faults.append(f"{place}.other: must be a node of the column's hierarchy, such as {tree.labels[0]!r}")
        return None
    if not _is_free(f"{place}.other", OTHER_LABEL, tree, faults):
        return None
    above = next((row[row.index(node) :] for row in rows if node in row), [])  # the root that several roots got
    rows.append([OTHER_LABEL, *above])
    return OTHER_LABEL


def _is_free(place: str, label: str, tree: Hierarchy, faults: list[str]) -> bool:
    if label in tree.interval_of:
        faults.append(f"{place}: adds the category {label!r}, which the hierarchy has already; rename that one")
    return label not in tree.interval_of


def _root(rows: Rows) -> list[str]:
    """The one root of the rows, as the path of what stands below it; empty if there are several."""
    paths = [path for path in ([cell for cell in row if cell] for row in rows) if path]
    roots, leaves = {path[-1] for path in paths}, {path[0] for path in paths}
    return list(roots) if len(roots) == 1 and not roots & leaves else []


# A column of numbers in table.yaml -> `NumericAttribute`.
#
# Every fault is one sentence: place, what is wrong, what is allowed. Numbers are exact decimals from the text, and are
# kept in their shortest form, so that 5 and 5.0 are one table. The domain of a column with a step ends on a step: an
# end between two steps is taken down to the lower one.

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
    """The attribute with the code that a null counts as; None if that is no number of its domain."""
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


# A column of dates or timestamps in table.yaml -> `TemporalAttribute`.
#
# Every fault is one sentence: place, what is wrong, what is allowed. An end of a domain is an ISO text as rows have
# them; of a timestamp a day alone means its first moment.


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
    """The attribute with the code that a null counts as; None if that is no moment of its domain."""
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


# How the source's texts are written, as table.yaml says it: words that are nulls, patterns of dates and numbers.
#
# Every fault is one sentence: place, what is wrong, what is allowed. A column's own `na` stands instead of the table's,
# and the table's holds for the key and the individual, too.


def source_texts(settings: TableSettings) -> tuple[SourceText, ...]:
    """How the texts of each column are written, of those that say anything of their own."""
    texts = [
        SourceText(name, _sorted(settings.na)) for name in (*settings.key, settings.individual) if name is not None
    ]
    for name, column in settings.columns.items():
        texts.append(SourceText(name, _words(settings, column), column.written))
    return tuple(text for text in dict.fromkeys(texts) if text.na or text.written)


def faults_of_texts(settings: TableSettings, columns: list[Attribute | KeptColumn]) -> Iterator[str]:
    """Patterns that are none of the column's type, and words that would hide a category."""
    for name, column in settings.columns.items():
        if column.written is not None and (fault := _fault_of_written(column.written, column.type)):
            yield f"columns.{name}.written: {fault}"
    for built in columns:
        tree = built.hierarchy if isinstance(built, CategoricalAttribute | KeptColumn) else None
        null_code = built.null_code if isinstance(built, CategoricalAttribute) else None
        for word in _words(settings, settings.columns[built.name]):
            if tree is not None and tree.code_of.get(word, null_code) != null_code:
                yield (
                    f"columns.{built.name}.na: {word!r} is a category of its hierarchy, and would be a null; remove one"
                    " of the two, or give the column an `na` of its own"
                )


def _words(settings: TableSettings, column: ColumnSettings) -> tuple[str, ...]:
    return _sorted(settings.na if column.na is None else column.na)


def _sorted(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(words)))


def _fault_of_written(written: str, type_: str | None) -> str | None:
    if type_ in ("integer", "decimal"):
        allowed = [*NUMBER_SPELLINGS, *([DIGITS_ALONE] if type_ == "integer" else [])]
        return None if written in allowed else f"must be one of {'; '.join(allowed)}"
    if type_ == TIMESTAMP.name:
        return "a timestamp comes as ISO text with its offset from UTC; what has none is a local-timestamp"
    if type_ in CLOCKS:
        return fault_of_pattern(written, with_time=type_ != DATE.name)
    return "is for numbers, dates and local timestamps"
