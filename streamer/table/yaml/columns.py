"""The columns of table.yaml as attributes: categories, numbers, dates and times, and how their texts are written.

Every fault is one sentence: its place in table.yaml, what is wrong, what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

from streamer.errors import ConfigError, EventRefused
from streamer.table.codes import (
    CLOCKS,
    DATE,
    TIMESTAMP,
    Attribute,
    CategoricalAttribute,
    Clock,
    KeptColumn,
    NumericAttribute,
    SourceText,
    Span,
    TemporalAttribute,
    decimal_text,
    limit_of,
    read_decimal,
)
from streamer.table.codes.calendar import MONTHS, UNITS, CalendarCells, fits, is_wider
from streamer.table.codes.column_codes import to_code
from streamer.table.codes.disguise import Ancestor, Pseudonym, ShiftedDays
from streamer.table.codes.source_texts import DIGITS_ALONE, NUMBER_SPELLINGS, fault_of_pattern, number_parts
from streamer.table.hierarchy import Hierarchy, paths_from
from streamer.table.key_files import KeyFile
from streamer.table.space import CELLS_MAX, CODES_MAX, FINENESS, UNIT_SHARE
from streamer.table.yaml.shape import (
    ColumnSettings,
    DisguiseSettings,
    KeepSettings,
    QuasiIdentifierSettings,
    SensitiveSettings,
    TableSettings,
    TemporalSettings,
)

# Categories. Nulls and unknown categories may get a leaf that no file has, which is published like any other: `(none)`
# for nulls, below the root, because nothing is known of them; `(other)` for unknown categories, below the node that
# table.yaml names. If that node is a leaf of the file, they count as this leaf.

NULL_LABEL, OTHER_LABEL = "(none)", "(other)"

Rows = list[list[str]]
"""The rows of a hierarchy file."""


def categorical_attribute(
    place: str, name: str, column: QuasiIdentifierSettings, rows: Rows | None, faults: list[str]
) -> CategoricalAttribute | None:
    """The attribute without its `null_as`; None if it has faults, which are added to `faults`.

    rows: None if there is no hierarchy file that can be read.
    """
    if column.hierarchy is None:
        faults.append(f"{place}: needs a type (integer, decimal, date, timestamp) with a domain, or a hierarchy")
        return None
    numeric_only = [
        setting for setting in ("domain", "grid", "step", "outside") if getattr(column, setting) is not None
    ]
    if column.width is not None:
        faults.append(f"{place}.width: is only for `type: integer`")
    faults += [f"{place}.{setting}: is only for `type: integer` and `type: decimal`" for setting in numeric_only]
    if column.unit is not None and column.unit <= 0:
        faults.append(f"{place}.unit: must be above 0; it counts leaves")
    own_null = column.null is not None
    if own_null and column.null_as is not None:
        faults.append(f"{place}.null: cannot be combined with null_as; remove one of the two")
    hierarchy, other = hierarchy_of(
        place, column.hierarchy, rows, faults, column.other, own_null=own_null, published=True
    )
    if hierarchy is None:
        return None
    unit, level = column.unit or hierarchy.n_leaves * UNIT_SHARE, column.coarsest
    if level is not None and (level != int(level) or level >= hierarchy.n_levels):
        faults.append(f"{place}.coarsest: must be a level of the hierarchy, 0 (a leaf) to {hierarchy.n_levels - 1}")
        level = None
    return CategoricalAttribute(
        name,
        hierarchy,
        _shortest(unit),
        null_code=hierarchy.code_of.get(NULL_LABEL) if own_null else None,  # a node may have that name: a fault
        other_code=None if other is None else hierarchy.code_of[other],
        weight=_shortest(column.weight),
        coarsest=None if level is None else int(level),
    )


def _without_hierarchy(
    place: str, name: str, column: SensitiveSettings | KeepSettings, faults: list[str]
) -> KeptColumn:
    """The column; what is wrong with its grid and domain is added to `faults`."""
    coarse = {"grid": [column.grid] if column.grid else [], "domain": list(column.domain or ())}
    for setting, numbers in coarse.items():
        if numbers and column.type not in ("integer", "decimal"):
            faults.append(f"{place}.{setting}: is only for `type: integer` and `type: decimal`")
        elif column.type == "integer" and any(n != n.to_integral_value() for n in numbers):
            faults.append(f"{place}.{setting}: must be whole numbers, because the type is integer")
    if column.domain and column.domain[0] > column.domain[1]:
        faults.append(f"{place}.domain: the lower end is above the upper end")
    if column.grid and any(end % column.grid for end in column.domain or ()):
        faults.append(f"{place}.domain: its ends must be multiples of the grid, {decimal_text(column.grid)}")
    return KeptColumn(name, isinstance(column, SensitiveSettings), column.type, grid=column.grid, domain=column.domain)


def kept_column(
    place: str, name: str, column: SensitiveSettings | KeepSettings, rows: Rows | None, faults: list[str]
) -> KeptColumn | None:
    """The column with its hierarchy, if it has one; None if that cannot be read. rows: become those of its tree."""
    kept = _without_hierarchy(place, name, column, faults)
    if column.hierarchy is None:
        if column.other is not None:
            faults.append(f"{place}.other: names a node of a hierarchy, but the column has no hierarchy")
        return kept
    if column.type not in (None, "text"):
        faults.append(f"{place}.type: the leaves of a hierarchy are text; remove type or hierarchy")
    hierarchy, other = hierarchy_of(place, column.hierarchy, rows, faults, column.other)
    return None if hierarchy is None else replace(kept, type="text", hierarchy=hierarchy, other=other)


def disguised(
    place: str, source: KeptColumn, said: DisguiseSettings, key: KeyFile | None, rows: Rows | None, faults: list[str]
) -> KeptColumn:
    """The column as it is published, if that is not as the source has it; key: None if it is no key or not needed."""
    column = KeptColumn(source.name, source.sensitive, source.type, disguised=source)
    if said.level is not None:
        return _with_ancestors(f"{place}.publish.level", column, said.level, rows, faults)
    if said.shift_days is None:
        return replace(column, type="text", disguise=Pseudonym(key) if key else None)
    if source.type not in CLOCKS:
        faults.append(f"{place}.publish.shift_days: is only for the types {', '.join(CLOCKS)}")
    return replace(column, disguise=ShiftedDays(said.shift_days, key) if key else None)


def _with_ancestors(place: str, column: KeptColumn, level: int, rows: Rows | None, faults: list[str]) -> KeptColumn:
    tree = column.source.hierarchy
    if tree is None or rows is None:
        faults.append(f"{place}: needs a hierarchy, whose ancestors are published")
    elif level >= tree.n_levels:
        faults.append(f"{place}: the hierarchy of {column.name} ends at level {tree.n_levels - 1}")
    else:
        paths = paths_from(rows, level)
        try:
            above = Hierarchy.from_rows(paths.values(), published=False)
            return replace(column, hierarchy=above, disguise=Ancestor(level, {leaf: paths[leaf][0] for leaf in paths}))
        except ConfigError:
            faults.append(f"{place}: two different nodes have one label at this level; rename one in the hierarchy")
    return column


def hierarchy_of(
    place: str,
    file: str,
    rows: Rows | None,
    faults: list[str],
    other: str | None = None,
    *,
    own_null: bool = False,
    published: bool = False,
) -> tuple[Hierarchy | None, str | None]:
    """The hierarchy of a file's rows, and the leaf of unknown categories; both None if there are faults.

    other: the node that takes unknown categories; own_null: whether nulls have a leaf of their own; published: whether
    labels are, of inner nodes too.
    """
    if rows is None:
        return None, None
    of_nulls: list[str] | None = None  # the path above an empty leaf
    if own_null or not published:
        of_nulls = next((row[1:] for row in rows if row and not row[0] and any(row)), None)
        rows[:] = [row if not row or row[0] else [] for row in rows]
    try:
        tree = Hierarchy.from_rows(rows, published)
        leaf = None if other is None else _leaf_of_others(place, tree, other, rows, faults)
        if own_null and _is_free(f"{place}.null", NULL_LABEL, tree, faults):
            rows.append([NULL_LABEL, *(_root(rows) if of_nulls is None else of_nulls)])
        return Hierarchy.from_rows(rows, published), leaf
    except ConfigError as error:
        said = str(error).removeprefix("hierarchy: ")
        faults.append(f"{place}.hierarchy: {file}: {said}")
    return None, None


def _leaf_of_others(place: str, tree: Hierarchy, node: str, rows: Rows, faults: list[str]) -> str | None:
    """The leaf of unknown categories, which is added to the rows if they do not have it."""
    if node in tree.code_of:
        return node
    if node not in tree.interval_of:
        faults.append(f"{place}.other: must be a node of the column's hierarchy, such as {tree.labels[0]!r}")
        return None
    if tree.is_ambiguous(node):
        faults.append(
            f"{place}.other: {node!r} names several nodes of the column's hierarchy; rename one of them there"
        )
        return None
    if not _is_free(f"{place}.other", OTHER_LABEL, tree, faults):
        return None
    above = next((row[row.index(node) :] for row in rows if node in row), [])  # none: the common root of several
    rows.append([OTHER_LABEL, *above])
    return OTHER_LABEL


def _is_free(place: str, label: str, tree: Hierarchy, faults: list[str]) -> bool:
    if label in tree.interval_of:
        faults.append(f"{place}: adds the category {label!r}, but the hierarchy already has it; rename it there")
    return label not in tree.interval_of


def _root(rows: Rows) -> list[str]:
    """The one root of the rows, as the path above a leaf; empty if there are several."""
    paths = [path for path in ([cell for cell in row if cell] for row in rows) if path]
    roots, leaves = {path[-1] for path in paths}, {path[0] for path in paths}
    return list(roots) if len(roots) == 1 and not roots & leaves else []


# Numbers: exact decimals from the text, kept in their shortest form, so that 5 and 5.0 are one table.

_ONLY_FOR_CATEGORIES = {
    "null": "is only for categories. A number cannot say that nothing is known: leave out null_as, so that nulls are"
    " refused, or set it to a number in a cell without values, such as the first one of a domain that begins one cell"
    " below all values",
    "other": "is only for categories; make the domain wider for numbers that are not in it",
}


def numeric_attribute(
    place: str, name: str, column: QuasiIdentifierSettings, rows: Rows | None, faults: list[str]
) -> NumericAttribute | None:
    """The attribute without its `null_as`; None if it has faults, which are added to `faults`.

    The domain of a column with a step ends on a step: an end between two steps becomes the lower one. rows: None if
    there is no hierarchy file that can be read.
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
    faults += [f"{place}.{setting}: {why}" for setting, why in _ONLY_FOR_CATEGORIES.items() if getattr(column, setting)]
    wrong = _numeric_faults(place, column, column.domain, grid, step)
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
        width=column.width,
        hierarchy=hierarchy,
        ends_take_all=column.outside is not None,
        weight=_shortest(column.weight),
        coarsest=None if column.coarsest is None else _shortest(column.coarsest),
    )
    if attribute.cells_max < 1:
        faults.append(f"{place}.coarsest: a cell of the grid, {decimal_text(attribute.grid)}, is wider; raise coarsest")
        return None
    remedy = "make the domain smaller or the step larger"
    if too_many := _too_many(place, attribute.n_cells, attribute.codes_per_cell, remedy):
        faults += too_many
        return None
    try:
        _ = attribute.levels
    except ConfigError as error:
        faults.append(f"{place}.hierarchy: {column.hierarchy}: {error}")
        return None
    return attribute


def _numeric_faults(
    place: str, column: QuasiIdentifierSettings, domain: tuple[Decimal, Decimal], grid: Decimal, step: Decimal | None
) -> list[str]:
    lengths = {"grid": grid, "step": step, "unit": column.unit}
    faults = [f"{place}.{name}: must be above 0" for name, n in lengths.items() if n is not None and n <= 0]
    if domain[0] > domain[1]:
        faults.append(f"{place}.domain: the lower end is above the upper end")
    if column.type == "integer":
        whole = {"domain": domain, "grid": (grid,), "step": (step or Decimal(1),)}
        broken = [name for name, numbers in whole.items() if any(n != n.to_integral_value() for n in numbers)]
        faults += [f"{place}.{name}: must be whole numbers, because the type is integer" for name in broken]
    faults += [f"{place}.width: {why}" for why in _faults_of_width(column, domain)]
    if not faults and step is not None and grid % step:
        faults.append(f"{place}.grid: must be a multiple of the step, {decimal_text(step)}")
    return faults


def _faults_of_width(column: QuasiIdentifierSettings, domain: tuple[Decimal, Decimal]) -> Iterator[str]:
    if column.width is None:
        return
    if column.type != "integer":
        yield "is only for `type: integer`: a fraction is no code"
    elif max(map(abs, domain)) >= 10**column.width:
        digits = len(str(int(max(map(abs, domain)))))
        yield f"is less than the digits of the domain's ends; at least {digits} are needed"


def _too_many(place: str, n_cells: int, codes_per_cell: int, remedy: str) -> list[str]:
    """The fault of a column with more cells, or codes, than fit."""
    if n_cells > CELLS_MAX:
        return [f"{place}: more than {CELLS_MAX:,} cells in one column; make the domain smaller or the grid wider"]
    if n_cells * codes_per_cell > CODES_MAX:
        return [f"{place}: too many distinct values for one column; {remedy}"]
    return []


def _shortest(number: Decimal) -> Decimal:
    return Decimal(decimal_text(number))


# Dates and timestamps. The ends of a domain are ISO texts, as in rows; a day alone means the first moment of a
# timestamp.


def temporal_attribute(place: str, name: str, column: TemporalSettings, faults: list[str]) -> TemporalAttribute | None:
    """The attribute without its `null_as`; None if it has faults, which are added to `faults`."""
    clock = CLOCKS[column.type]
    wrong = list(_faults_of_lengths(place, column, clock))
    first, last = (_moment_said(f"{place}.domain", text, clock, wrong) for text in column.domain)
    if not wrong and first is not None and last is not None:
        calendar = CalendarCells(clock, first, last, column.grid)
        wrong += _faults_of_cells(place, calendar) or _faults_of_levels(place, calendar, column.levels or ())
        if not wrong:
            made = TemporalAttribute(
                name,
                calendar,
                _in_cells(column.unit, column.grid) if column.unit else calendar.n_cells * UNIT_SHARE,
                column.levels,
                ends_take_all=column.outside is not None,
                weight=_shortest(column.weight),
                coarsest=_in_cells(column.coarsest, column.grid) if column.coarsest else None,
            )
            if made.cells_max >= 1:
                return made
            wrong.append(f"{place}.coarsest: a cell of the grid, {column.grid.text}, is longer; raise coarsest")
    faults += wrong
    return None


def _moment_said(place: str, text: str, clock: Clock, faults: list[str]) -> int | None:
    try:
        return limit_of(text, place, clock)
    except EventRefused as refused:
        faults.append(f"{place}: {refused.detail.removeprefix(f'column {place!r}: ')}")
        return None


def _faults_of_lengths(place: str, column: TemporalSettings, clock: Clock) -> Iterator[str]:
    for setting, span in (("grid", column.grid), ("unit", column.unit), ("coarsest", column.coarsest)):
        if span is not None and not span.months and span.microseconds * clock.per_day % Span(1, "day").microseconds:
            yield f"{place}.{setting}: must be whole days, because the type is date; {span.text} is not"
        if span is not None and bool(span.months) != bool(column.grid.months):
            yield (
                f"{place}.{setting}: {span.text} cannot be compared with the grid, {column.grid.text}: give both in"
                " months and years, or both in days, hours and minutes"
            )


def _faults_of_cells(place: str, calendar: CalendarCells) -> list[str]:
    if calendar.first > calendar.last:
        return [f"{place}.domain: the lower end is above the upper end"]
    if not calendar.begins_on_a_border:
        unit = calendar.grid.unit
        where = "on the first of January" if unit == "year" else "on the first of a month"
        where = where if unit in MONTHS else f"at a full {unit}"
        return [f"{place}.domain: must begin {where}, because cells of {calendar.grid.text} are counted from there"]
    return _too_many(place, calendar.n_cells, calendar.codes_per_cell, "make the grid shorter")


def _faults_of_levels(place: str, calendar: CalendarCells, units: tuple[str, ...]) -> list[str]:
    """Units that cannot be levels above the cells, or are in the wrong order."""
    grid = calendar.grid.text
    faults = [
        f"{place}.levels: {unit} is not longer than the grid, {grid}, which is always a level"
        for unit in units
        if not is_wider(calendar, unit)
    ]
    faults += [
        f"{place}.levels: not every {unit} ends where a cell of {grid} ends; leave it out, or change the grid or the"
        " start of the domain"
        for unit in units
        if is_wider(calendar, unit) and not fits(calendar, unit)
    ]
    if any(UNITS.index(below) >= UNITS.index(above) for below, above in pairwise(units)):
        faults.append(f"{place}.levels: must go from the shortest unit to the longest, each once")
    return faults


def _in_cells(length: Span, grid: Span) -> Decimal:
    """How many cells are as long."""
    return Decimal(length.months) / grid.months if length.months else Decimal(length.microseconds) / grid.microseconds


def with_null(place: str, attribute: Attribute, null_as: str, faults: list[str]) -> Attribute | None:
    """The attribute with the code that a null counts as; None if `null_as` is no value of the column."""
    code: int | None = None
    if isinstance(attribute, CategoricalAttribute):
        code = attribute.hierarchy.code_of.get(null_as)
        fault = "must be a leaf of the column's hierarchy; or write `null: own-category` instead"
    elif isinstance(attribute, TemporalAttribute):
        calendar = attribute.calendar
        moment = _moment_said(place, null_as, calendar.clock, faults)
        if moment is None:
            return None
        code = calendar.code_of(moment) if calendar.first <= moment <= calendar.last else None
        fault = "lies outside the domain"
    elif (value := read_decimal(null_as)) is None:
        fault = "must be a number"
    else:
        fault = "must be the lower edge of a cell, because the column has no step"
        try:
            found = to_code(attribute)(value)
            code = found if attribute.step is not None or found % FINENESS == 0 else None
        except EventRefused as refused:
            fault = refused.detail
    if code is None:
        faults.append(f"{place}: {fault}")
        return None
    return replace(attribute, null_code=code)


# How the source's texts are written. A column's own `na` replaces the table's, which holds for key and individual, too.


def source_texts(settings: TableSettings) -> tuple[SourceText, ...]:
    """How the texts of each column are written that has words for nulls or a pattern."""
    texts = [
        SourceText(name, _sorted(settings.na))
        for name in (*settings.key, settings.individual)
        if name is not None and name not in settings.columns
    ]
    for name, column in settings.columns.items():
        texts.append(SourceText(name, _words(settings, column), column.written))
    return tuple(text for text in dict.fromkeys(texts) if text.na or text.written)


def faults_of_texts(settings: TableSettings, columns: list[Attribute | KeptColumn]) -> Iterator[str]:
    """Patterns that do not suit the column's type, and words that would hide a category."""
    for name, column in settings.columns.items():
        if column.written is not None and (fault := _fault_of_written(column.written, column.type)):
            yield f"columns.{name}.written: {fault}"
    for built in columns:
        source = built.source if isinstance(built, KeptColumn) else built
        tree = source.hierarchy if isinstance(source, CategoricalAttribute | KeptColumn) else None
        null_code = built.null_code if isinstance(built, CategoricalAttribute) else None
        for word in _words(settings, settings.columns[built.name]):
            if tree is not None and tree.code_of.get(word, null_code) != null_code:
                yield (
                    f"columns.{built.name}.na: {word!r} is a category of its hierarchy, but would be read as a null;"
                    " remove one of the two, or give the column an `na` of its own"
                )


def _words(settings: TableSettings, column: ColumnSettings) -> tuple[str, ...]:
    return _sorted(settings.na if column.na is None else column.na)


def _sorted(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(words)))


def _fault_of_written(written: str, type_: str | None) -> str | None:
    if type_ in ("integer", "decimal"):
        allowed = [*NUMBER_SPELLINGS, *([DIGITS_ALONE] if type_ == "integer" else [])]
        is_one = written in allowed or number_parts(written) is not None
        return None if is_one else f"must be one of {'; '.join(allowed)}"
    if type_ == TIMESTAMP.name:
        return "a timestamp is always ISO text with an offset from UTC; for text without one, use local-timestamp"
    if type_ in CLOCKS:
        return fault_of_pattern(written, with_time=type_ != DATE.name)
    return "is only for numbers, dates and local timestamps"
