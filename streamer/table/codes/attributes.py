"""The columns of a table: what the codes of a quasi-identifier mean, which are one cell, how a cell is published.

The rules of this file
----------------------
* A numeric quasi-identifier is kept as an int64 *code* and published as a run of *cells*, which start at domain[0]; the
  last one is clipped at domain[1]:
  - with a `step` (integers: 1) a code counts steps from domain[0], and a cell has grid / step codes. A cell is
    {lo, lo+step, ..., lo+grid-step}; a published interval is closed;
  - without a step (decimals) a cell is [lo, lo+grid), the last one closed; a code is the number of the cell times
    `FINENESS` plus the position within the cell, which only similarity and order use. The exact text of the value is
    kept besides. A published interval is given by its edges.
* A temporal quasi-identifier (a date, a timestamp) is kept as an int64 code, too, which gives the value back. Its cells
  are those of the calendar (`calendar.py`), and its published interval is a pair of ISO texts. Lengths are counted in
  cells: January is as long as February, and a clipped cell as long as the others. So NCP, similarities and
  the unit of a column with a grid of a month are in months: a month of a year is 1/12 of it, as for timestamps.
  A reader learns as much from February as from January, so neither may cost more.
* A categorical quasi-identifier is kept as the number of its leaf in the hierarchy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

from streamer.errors import ConfigError
from streamer.table.codes.calendar import CalendarCells, levels_of_calendar
from streamer.table.codes.disguise import Ancestor, Disguise
from streamer.table.codes.reference import EQUAL, Reference
from streamer.table.hierarchy import DoublingLevels, Hierarchy, Levels, TableLevels, levels_of_numbers, levels_of_tree
from streamer.table.space import FINENESS, NO_BOUND, Axis

NO_WEIGHT = Decimal(1)


def _places(numbers: Iterable[Decimal]) -> int:
    """The most digits after the point with which one of these is written."""
    return max(0, *(-int(number.as_tuple().exponent) for number in numbers))


@dataclass(frozen=True)
class NumericAttribute:
    """A numeric quasi-identifier."""

    name: str
    domain: tuple[Decimal, Decimal]  # both ends included
    grid: Decimal  # width of a cell
    step: Decimal | None
    unit: Decimal  # the length that counts as 1 in QGSSD
    integer: bool = True
    null_code: int | None = None  # what a null counts as; None: a null is a dead letter
    hierarchy: Hierarchy | None = None  # for full-domain recoding only
    width: int | None = None  # digits of a published code, with zeros in front, as text; None: ends are numbers
    ends_take_all: bool = False  # whether a number outside the domain counts as the nearer end
    weight: Decimal = NO_WEIGHT  # of its loss and similarity beside those of other attributes
    coarsest: Decimal | None = None  # the most by which the ends of a published interval differ

    @property
    def places(self) -> int:
        """Digits after the point that the ends of published intervals may have."""
        return _places([number.normalize() for number in self._numbers])

    @property
    def scale(self) -> int:
        """The same as the numbers are written: 0.50 has 2. Published schemas declare it."""
        return _places(self._numbers)

    @property
    def _numbers(self) -> tuple[Decimal, ...]:
        return (*self.domain, self.grid, self.step or self.grid)

    @property
    def whole_digits(self) -> int:
        """Digits before the point that they may have."""
        return max(len(str(int(abs(end)))) for end in self.domain)

    @property
    def codes_per_cell(self) -> int:
        return FINENESS if self.step is None else int(self.grid / self.step)

    @property
    def width_codes(self) -> Decimal:
        """Width of the domain in codes."""
        width = self.domain[1] - self.domain[0]
        return width / self.grid * FINENESS if self.step is None else width / self.step

    @property
    def n_cells(self) -> int:
        width = self.domain[1] - self.domain[0]
        if self.step is None:
            return max(1, -int(-width // self.grid) if width % self.grid == 0 else int(width // self.grid) + 1)
        return int(self.width_codes) // self.codes_per_cell + 1

    @property
    def cells_max(self) -> int:
        """The most cells of a published interval, all of full length."""
        if self.coarsest is None or self.coarsest >= self.domain[1] - self.domain[0]:
            return NO_BOUND
        return int((self.coarsest + (self.step or 0)) // self.grid)

    @property
    def axis(self) -> Axis:
        per_unit = self.grid / FINENESS if self.step is None else self.step
        return Axis(
            codes_per_cell=self.codes_per_cell,
            n_cells=self.n_cells,
            closed=self.step is not None,
            width_codes=float(self.width_codes),
            unit_codes=float(self.unit / per_unit),
            hierarchy=None,
            weight=float(self.weight),
            cells_max=self.cells_max,
        )

    @cached_property
    def levels(self) -> Levels:
        """The steps of full-domain recoding. Raises ConfigError for a hierarchy that does not fit domain and grid."""
        if self.hierarchy is None:
            return DoublingLevels(self.n_cells)
        if self.step is None:
            raise ConfigError("a decimal without a step has no values to name in a hierarchy; give it a step")
        return levels_of_numbers(self.hierarchy, self.domain, self.step, self.codes_per_cell)

    def interval(self, cell_lo: int, cell_hi: int) -> tuple[Decimal, Decimal]:
        """The published interval of the cells cell_lo..cell_hi, in the column's own measure."""
        end = self.domain[0] + (cell_hi + 1) * self.grid - (self.step or 0)
        return self.domain[0] + cell_lo * self.grid, min(end, self.domain[1])


@dataclass(frozen=True)
class CategoricalAttribute:
    """A categorical quasi-identifier."""

    name: str
    hierarchy: Hierarchy
    unit: Decimal  # leaves that count as 1 in QGSSD
    null_code: int | None = None
    other_code: int | None = None  # what an unknown category counts as; None: it is a dead letter
    weight: Decimal = NO_WEIGHT  # as in `NumericAttribute`
    coarsest: int | None = None  # the highest level of a published node, from the leaf

    @cached_property
    def levels(self) -> TableLevels:
        """The steps of full-domain recoding."""
        return levels_of_tree(self.hierarchy)

    @property
    def axis(self) -> Axis:
        n_leaves = self.hierarchy.n_leaves
        return Axis(
            codes_per_cell=1,
            n_cells=n_leaves,
            closed=True,
            width_codes=float(n_leaves),
            unit_codes=float(self.unit),
            hierarchy=self.hierarchy,
            weight=float(self.weight),
            level_max=self.coarsest,
        )


@dataclass(frozen=True)
class TemporalAttribute:
    """A quasi-identifier of dates or timestamps."""

    name: str
    calendar: CalendarCells
    unit: Decimal  # cells that count as 1 in QGSSD
    level_units: tuple[str, ...] | None = None  # of full-domain recoding; None: the usual ones
    null_code: int | None = None
    ends_take_all: bool = False  # as in `NumericAttribute`, and `weight`
    weight: Decimal = NO_WEIGHT
    coarsest: Decimal | None = None  # the most cells of a published interval

    @property
    def codes_per_cell(self) -> int:
        return self.calendar.codes_per_cell

    @property
    def width_codes(self) -> Decimal:
        """Width of the domain in codes, all cells of one length."""
        return Decimal(self.n_cells * self.codes_per_cell - self._ends_with_its_last_day)

    @property
    def _ends_with_its_last_day(self) -> bool:
        """True if a length goes from the first day to the last: not in cells of months, whose days are not counted."""
        return self.calendar.is_closed and not self.calendar.grid.months

    @property
    def n_cells(self) -> int:
        return self.calendar.n_cells

    @property
    def cells_max(self) -> int:
        """The most cells of a published interval."""
        return NO_BOUND if self.coarsest is None else int(self.coarsest)

    @property
    def axis(self) -> Axis:
        return Axis(
            codes_per_cell=self.codes_per_cell,
            n_cells=self.n_cells,
            closed=self._ends_with_its_last_day,
            width_codes=float(self.width_codes),
            unit_codes=float(self.unit * self.codes_per_cell),
            hierarchy=None,
            weight=float(self.weight),
            cells_max=self.cells_max,
        )

    @cached_property
    def levels(self) -> Levels:
        """The steps of full-domain recoding."""
        return levels_of_calendar(self.calendar, self.level_units)


Attribute = NumericAttribute | TemporalAttribute | CategoricalAttribute


@dataclass(frozen=True)
class Diversity:
    """The demands on a QI group in addition to k, for one sensitive column or each by itself; None: no demand."""

    l: int | None = None  # noqa: E741 - l-diversity: the least number of distinct sensitive values
    alpha: Decimal | None = None  # the largest share of one individual's rows
    beta: Decimal | None = None  # the largest share of one sensitive value
    r: Decimal | None = None  # the largest share of sensitive values with one ancestor at `level` of the hierarchy
    level: int = 1
    null_counts: bool = False  # whether a null is one of the `l` values

    def __bool__(self) -> bool:
        return any(demand is not None for demand in (self.l, self.alpha, self.beta, self.r))


@dataclass(frozen=True)
class DistributionDemands:
    """The demands on how one sensitive column's values are distributed in a QI group; None: no demand."""

    entropy_l: Decimal | None = None  # as much entropy as this number of equally frequent values have
    recursive: tuple[Decimal, int] | None = None  # c and l of recursive (c, l)-diversity
    t: Decimal | None = None  # the largest distance from the distribution of the whole table
    distance: str = EQUAL
    reference: Reference | None = None  # what `t` compares with; None: the rows of a whole table themselves
    null_counts: bool = False  # whether a null makes a group diverse

    @property
    def hashed(self) -> str:
        """All that decides, as text."""
        compared = None if self.reference is None else (self.reference.values, self.reference.rows)
        return f"{self} {compared}"


@dataclass(frozen=True)
class KeptColumn:
    """A column that is published value by value: a sensitive one, or one that the operator declared linkable.

    It is the column as it is published, also if that is not as the source has it.
    """

    name: str
    sensitive: bool
    type: str | None = None  # "text", "integer", "decimal", "boolean", or the name of a clock; None: any JSON scalar
    hierarchy: Hierarchy | None = None
    other: str | None = None  # the leaf that an unknown category counts as; None: it is a dead letter
    grid: Decimal | None = None  # numbers are rounded to a multiple of it
    domain: tuple[Decimal, Decimal] | None = None  # numbers outside become the nearer end
    diversity: Diversity | None = None  # demands on this column in addition to the table's; `alpha` is of none
    distribution: DistributionDemands | None = None
    disguise: Disguise | None = None  # what is published instead of the source's values
    disguised: KeptColumn | None = None  # the column as the source has it, if that is not as it is published

    @property
    def source(self) -> KeptColumn:
        """The column as the source has it."""
        return self.disguised or self

    @property
    def is_true(self) -> bool:
        """True if what is published is true of a person, so that others may know it."""
        return self.disguise is None or isinstance(self.disguise, Ancestor)

    @property
    def is_coarse(self) -> bool:
        """True if other values than those of the source are kept."""
        return self.grid is not None or self.domain is not None


@dataclass(frozen=True)
class SourceText:
    """How the texts of one column of the source are written (`streamer.table.codes.source_texts`)."""

    column: str
    na: tuple[str, ...] = field(default=(), repr=False)  # words that are nulls, sorted
    written: str | None = None  # the pattern of dates or numbers; None: that of ISO or JSON
