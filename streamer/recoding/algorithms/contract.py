"""The contract of an algorithm: its options, its recoding, and the laws of both.

The rules of this file
----------------------
* `run(microdata, model, options) -> Recoding`. The table comes in canonical form (`streamer.table.microdata`) and holds
  the model as a whole; an algorithm that draws uses `options.seed`. So the same people give the same QI groups, in any
  order and under any names, except for which of several interchangeable rows is where.
* Ties between rows, individuals or QI groups that are alike are broken by `options.chance`, outside of all algorithms
  (`algorithms.catalog`). A publisher draws it from the operating system and keeps it secret: a reader who knew it could
  undo the numbering of QI groups that share a box.
* QI groups are numbered from 0 without gaps. Each publishes one box, in cells, that contains all its rows and is
  publishable: on the grid, and for categories the leaves of a node. Local recoding publishes the smallest such box
  (`smallest_boxes`); full-domain recoding publishes what its levels say, and then no two QI groups have equal boxes.
* A reader who knows a person's box cannot tell which of the QI groups with this box is hers. So what a reader learns
  is counted by box (`by_box`), and whole tables publish one QI group for each.
* `check` raises if any of this or the privacy model does not hold. It runs on every answer before it leaves.
* `objections` says from table.yaml, the model and the options what the algorithm cannot do: at `check`, not in the
  middle of a run.
* Work that takes minutes calls `options.on_progress`. Its compiled loops are called for part of the work at a time
  (`options.rows_per_call`), so that it can report in between and Ctrl-C is heard. The answer does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor

import numpy as np

from streamer.errors import ConfigError, LawViolated
from streamer.native import compiled
from streamer.privacy.models import Model
from streamer.progress import OnProgress, unheard
from streamer.recoding.algorithms.vectors import VectorCounts
from streamer.table.arrays import Ints, row_numbers
from streamer.table.microdata import Microdata
from streamer.table.schema import Table
from streamer.table.space import Space

SUPPRESSED = -1  # the QI group of a row that is left out


@dataclass(frozen=True)
class Recoding:
    """Which QI group each of n rows is in, and the boxes that the g QI groups publish."""

    qi_group: Ints = field(repr=False)  # int64 (n,), 0..g-1 or SUPPRESSED
    lo: Ints = field(repr=False)  # int64 (g, d), cells, inclusive
    hi: Ints = field(repr=False)  # the same
    levels: tuple[int, ...] | None = None  # of every attribute, if all rows are recoded alike
    details: Mapping[str, int | float] = field(default_factory=dict)  # counts of its work; never a value

    @property
    def n_groups(self) -> int:
        return len(self.lo)

    @property
    def sizes(self) -> Ints:
        """Rows of every QI group; int64 (g,)."""
        return np.bincount(self.qi_group[self.qi_group >= 0], minlength=self.n_groups)

    @property
    def n_suppressed(self) -> int:
        return int((self.qi_group == SUPPRESSED).sum())


def box_numbers(recoding: Recoding) -> Ints:
    """A number for each QI group's box, int64 (g,): in the order of first cells, then of last cells."""
    return row_numbers(np.concatenate([recoding.lo, recoding.hi], axis=1))


def by_box(recoding: Recoding) -> Recoding:
    """The same recoding with QI groups that publish one box made one."""
    _, first, number = np.unique(box_numbers(recoding), return_index=True, return_inverse=True)
    qi_group = np.append(number, SUPPRESSED)[recoding.qi_group]
    return replace(recoding, qi_group=qi_group, lo=recoding.lo[first], hi=recoding.hi[first])


def smallest_boxes(space: Space, cells: Ints, qi_group: Ints, n_groups: int) -> tuple[Ints, Ints]:
    """The smallest publishable box of every QI group; cells (n, d), no group empty. Two int64 (g, d)."""
    lo = np.full((n_groups, space.d), np.iinfo(np.int64).max)
    hi = np.full((n_groups, space.d), -1, dtype=np.int64)
    _stretch(cells, qi_group, lo, hi)
    return space.generalize(lo, hi)


@compiled
def _stretch(cells: Ints, qi_group: Ints, lo: Ints, hi: Ints) -> None:
    """Widens each group's box to contain its rows."""
    for i in range(cells.shape[0]):
        group = qi_group[i]
        if group >= 0:
            for j in range(cells.shape[1]):
                lo[group, j] = min(lo[group, j], cells[i, j])
                hi[group, j] = max(hi[group, j], cells[i, j])


@compiled
def _all_inside(cells: Ints, qi_group: Ints, lo: Ints, hi: Ints) -> bool:
    """True if every row that is not suppressed lies in its group's box."""
    for i in range(cells.shape[0]):
        group = qi_group[i]
        if group >= 0:
            for j in range(cells.shape[1]):
                if cells[i, j] < lo[group, j] or cells[i, j] > hi[group, j]:
                    return False
    return True


def local_recoding(microdata: Microdata, qi_group: Ints, **details: int | float) -> Recoding:
    """The recoding that publishes the smallest box of every QI group; gaps in the numbers are closed."""
    kept = qi_group >= 0
    used, numbers = np.unique(qi_group[kept], return_inverse=True)
    numbered = np.full(len(qi_group), SUPPRESSED, dtype=np.int64)
    numbered[kept] = numbers
    lo, hi = smallest_boxes(microdata.space, microdata.cells, numbered, len(used))
    return Recoding(numbered, lo, hi, details=details)


def check(microdata: Microdata, model: Model, recoding: Recoding) -> None:
    """Raises LawViolated for a row outside its box, a number out of range, or a QI group that does not hold."""
    group, n_groups = recoding.qi_group, recoding.n_groups
    if group.shape != (len(microdata),) or not ((group >= SUPPRESSED) & (group < n_groups)).all():
        raise LawViolated("recoding: a row has no QI group that exists")
    if not recoding.lo.shape == recoding.hi.shape == (n_groups, microdata.space.d):
        raise LawViolated("recoding: there is not one box for each QI group")
    if not _all_inside(microdata.cells, group, recoding.lo, recoding.hi):
        raise LawViolated("recoding: a row lies outside the box that its QI group publishes")
    lo, hi = microdata.space.generalize(recoding.lo.copy(), recoding.hi.copy())
    if not ((lo == recoding.lo) & (hi == recoding.hi)).all():
        raise LawViolated("recoding: a QI group publishes a category that is no node of its hierarchy")
    holds = model.holds_by_group(group, n_groups, microdata.subjects(model.subjects))
    if not holds.all():
        raise LawViolated(f"recoding: {int((~holds).sum())} of {n_groups} QI groups do not hold the privacy model")


def narrow_only(space: Space, recoding: Recoding) -> Recoding:
    """The same recoding without the QI groups that publish what `coarsest` forbids: their rows are suppressed."""
    if not space.is_bounded:
        return recoding
    stays = ~space.too_wide(recoding.lo, recoding.hi)
    number = np.append(np.where(stays, np.cumsum(stays) - 1, SUPPRESSED), SUPPRESSED)
    return replace(recoding, qi_group=number[recoding.qi_group], lo=recoding.lo[stays], hi=recoding.hi[stays])


def apart_by_bounds(space: Space, cells: Ints) -> Ints:
    """Numbers for rows of cells (n, d) that differ if `coarsest` lets no QI group hold both; int64 (n,).

    Rows are apart if a gap between cells, or a node of the highest level, is between them in one attribute; then those
    left together are looked at again in the others.
    """
    apart, n_before, nodes = np.zeros(len(cells), dtype=np.int64), 0, dict(space.nodes_max)
    while (n := int(apart.max(initial=-1)) + 1) != n_before:
        n_before = n
        for j in range(space.d):
            order = np.lexsort((cells[:, j], apart))
            along, group = cells[order, j], apart[order]
            gap = np.diff(along) >= space.cells_max[j]
            if j in nodes:
                gap = nodes[j][along[1:]] != nodes[j][along[:-1]]
            apart[order] = np.cumsum(np.append(0, gap | (np.diff(group) > 0)))
    return apart


def require_narrow(too_wide: int, rows: int, options: Options, may_leave_out: bool = True) -> None:
    """Raises ConfigError if `coarsest` leaves out more of the rows than the caller allows."""
    if too_wide > options.suppressed_max(rows):
        share = ceil(10_000 * too_wide / rows) / 10_000
        way = f"leave them out with --suppression {share:g} or more, " if may_leave_out and share < 1 else ""
        raise ConfigError(
            f"{too_wide} of {rows} rows are in no QI group that is as narrow as `coarsest` asks: {way}raise `coarsest`"
            " in table.yaml, or ask for less privacy"
        )


ROWS_PER_CALL = 1 << 18
"""About how many rows one call of a compiled loop looks at: some hundredths of a second."""


LIMITED, LEFT_OUT, STAYING = "limited", "left out", "staying"
"""QI groups that `coarsest` forbids: left out as far as `suppression` allows, or all; kept by a stream, which does not
publish them."""


@dataclass(frozen=True)
class Options:
    """The choices of a caller."""

    seed: int = 0  # of an algorithm that draws
    suppression: float = 0.0  # largest share of the rows to leave out
    refine: int = 0  # sweeps beyond the algorithm's own
    merge_equal_boxes: bool = (
        False  # QI groups that publish one box become one: not in a stream, or by --keep-equal-boxes
    )
    chance: int = 0  # breaks ties, see above
    too_wide: str = LIMITED  # what becomes of QI groups that `coarsest` forbids
    rows_per_call: int = ROWS_PER_CALL
    on_progress: OnProgress = field(default=unheard, repr=False, compare=False)

    def suppressed_max(self, n: int) -> int:
        """The most of n rows that may be left out; the share counts as the decimal that it was written as.

        >>> Options(suppression=0.29).suppressed_max(100)
        29
        """
        return floor(Fraction(str(self.suppression)) * n)


PLAIN = Options()


def no_objections(table: Table, model: Model, options: Options) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class Algorithm:
    """One way to anonymize a whole table."""

    name: str
    what: str  # one line
    source: str  # where it comes from
    run: Callable[[Microdata, Model, Options], Recoding]
    objections: Callable[[Table, Model, Options], Sequence[str]] = no_objections
    suppresses: bool = False
    refines: bool = False
    of_vectors: Callable[[Table, VectorCounts, Model, Options], Recoding] | None = None
    """The same for a table that is known by its counts, if all rows are recoded alike; QI groups are of vectors."""

    @property
    def full_domain(self) -> bool:
        """True if all rows are recoded alike: then a part of the table cannot stand for the whole."""
        return self.of_vectors is not None
