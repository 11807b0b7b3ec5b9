"""The steps of a large table, each a function of rows and arrays: what one process, or one task of an engine, does.

Rows are pyarrow.Tables as `fragments.rows` makes them. A *piece* is a fragment or region with its QI groups: its rows
stand group by group, and the column `g` says which.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from typing import Any, NamedTuple

import numpy as np

from streamer.errors import ConfigError, UsageError
from streamer.privacy.distributions import AtMostDistance
from streamer.privacy.models import Model
from streamer.recoding.algorithms.catalog import ALGORITHMS, algorithm_named, run, run_on_vectors
from streamer.recoding.algorithms.contract import LIMITED, STAYING, SUPPRESSED, Options, Recoding, check
from streamer.recoding.algorithms.lattice import Node, boxes_at
from streamer.recoding.algorithms.vectors import VectorCounts, united, vector_counts
from streamer.recoding.fragments.layout import FilePart, PieceGroups
from streamer.recoding.fragments.mending import centers, mended
from streamer.recoding.fragments.plan import (
    DEALT,
    Bins,
    FragmentPlan,
    binned,
    compact,
    counted_values,
    dealt,
    united_by_attribute,
)
from streamer.recoding.fragments.rows import Texts, cells_of_rows, individual_codes, microdata_of_rows
from streamer.recoding.metrics.utility import rank_terms
from streamer.table.arrays import Counted, Ints, counted, numbers_of, row_numbers
from streamer.table.arrow_table import require
from streamer.table.microdata import Microdata, codes_in_reference
from streamer.table.schema import Table
from streamer.table.space import Space

GROUP_COLUMN = "g"
FRAGMENT_ROWS_MIN = 1_000  # below, there would be more fragments than rows pay for


@dataclass(frozen=True)
class Recipe:
    """The knowledge of every step of one job; the chance in `options` never leaves the job."""

    table: Table
    model: Model
    algorithm: str
    options: Options = field(repr=False)
    fragment_rows: int

    def __post_init__(self) -> None:
        """Raises UsageError: which rows a table does best without, and its distributions, no fragment knows.

        Raises ConfigError for `t` without a distribution.
        """
        for law in self.model.laws:
            if isinstance(law, AtMostDistance):
                codes_in_reference(self.table.kept[law.subject.column])
        if self.options.suppression and not algorithm_named(self.algorithm).full_domain:
            able = " or ".join(name for name, one in ALGORITHMS.items() if one.full_domain and one.suppresses)
            raise UsageError(
                f"{self.algorithm} leaves rows out of a table in one run only: with fragments, take {able}, or no"
                " suppression"
            )


class Piece(NamedTuple):
    """A fragment or region after its QI groups were made, groups in the order of their boxes."""

    rows: Any
    groups: PieceGroups


# -- counts for a plan ------------------------------------------------------------------------------------------------


def cells_of_leaves(recipe: Recipe, rows: Any, plan: FragmentPlan, leaves: Iterable[int]) -> dict[int, list[Counted]]:
    """By leaf, how many rows have which cell, by attribute."""
    cells = cells_of_rows(recipe.table, rows)
    leaf = plan.route(cells)
    return {one: [counted(cells[leaf == one][:, [j]]) for j in range(cells.shape[1])] for one in leaves}


def vectors_of_leaves(
    recipe: Recipe, rows: Any, plan: FragmentPlan, bins: Mapping[int, Sequence[Bins]], texts: Texts
) -> dict[int, Counted]:
    """By leaf, how many rows have which bins and, as far as the model counts them, which values."""
    microdata = microdata_of_rows(recipe.table, rows, texts)
    leaf = plan.route(microdata.cells)
    values = microdata.subjects(counted_values(recipe.model))
    found = {}
    for one, of_leaf in bins.items():
        here = leaf == one
        found[one] = compact(counted(np.concatenate([binned(microdata.cells[here], of_leaf), values[here]], axis=1)))
    return found


def rows_of_leaf(recipe: Recipe, rows: Any, plan: FragmentPlan, leaf: int) -> Any:
    """The rows of a leaf, in their order."""
    return rows.take(np.flatnonzero(plan.route(cells_of_rows(recipe.table, rows)) == leaf))


def dealt_rows(recipe: Recipe, rows: Any, fragments: int) -> Ints:
    """The fragment to which each row of a leaf goes (`plan.dealt`); int64 (n,)."""
    microdata = microdata_of_rows(recipe.table, rows)
    kind = numbers_of((*microdata.cells.T, *microdata.values.T), len(microdata))
    return dealt(kind, microdata.individuals, fragments)


def leaves_of_rows(recipe: Recipe, rows: Any, plan: FragmentPlan, dealt_to: Mapping[int, Ints]) -> Ints:
    """The leaf of each row; dealt_to: by dealt node, to which of its leaves its rows go, in their order."""
    leaf = plan.route(cells_of_rows(recipe.table, rows))
    for node, goes in dealt_to.items():
        leaf[leaf == node] = plan.lower[node] + goes
    return leaf


def holds_of(recipe: Recipe, rows: Any) -> bool:
    """True if rows hold the model as one QI group."""
    microdata = microdata_of_rows(recipe.table, rows)
    return recipe.model.holds(microdata.subjects(recipe.model.subjects))


# -- QI groups --------------------------------------------------------------------------------------------------------


def chance_of(recipe: Recipe, turn: int, number: int) -> int:
    """The chance of one fragment (turn 0) or region of a mending round."""
    return int(np.random.default_rng([recipe.options.chance, turn, number]).integers(np.iinfo(np.int64).max))


def anonymized(recipe: Recipe, rows: Any, chance: int) -> Piece:
    """A fragment's QI groups by the algorithm of the catalog; `layout.numbers` merges those of one box, if at all."""
    microdata = microdata_of_rows(recipe.table, rows)
    algorithm = algorithm_named(recipe.algorithm)
    too_wide = LIMITED if algorithm.full_domain else STAYING  # mending may still make them narrow; `recoded` asks
    options = replace(recipe.options, chance=chance, merge_equal_boxes=False, too_wide=too_wide)
    return _piece_of(rows, run(algorithm, microdata, recipe.model, options))


def improved(recipe: Recipe, rows: Any, chance: int) -> Piece:
    """A region's QI groups, swept once more; the column `g` says which rows are together."""
    microdata = microdata_of_rows(recipe.table, rows)
    together = np.unique(rows[GROUP_COLUMN].to_numpy(), return_inverse=True)[1].astype(np.int64)
    return _piece_of(rows, mended(microdata, recipe.model, together, replace(recipe.options, chance=chance)))


def _piece_of(rows: Any, recoding: Recoding) -> Piece:
    order = np.argsort(recoding.qi_group, kind="stable")
    groups = PieceGroups(recoding.lo.astype(np.int32), recoding.hi.astype(np.int32), recoding.sizes)
    bare = rows.drop_columns([GROUP_COLUMN]) if GROUP_COLUMN in rows.column_names else rows
    numbers = require("pyarrow", "parquet").array(recoding.qi_group[order])
    return Piece(bare.take(order).append_column(GROUP_COLUMN, numbers), groups)


def with_source(rows: Any, source: int) -> Any:
    """Rows of a piece whose groups' numbers differ from those of every other piece."""
    at = rows.column_names.index(GROUP_COLUMN)
    numbers = rows[GROUP_COLUMN].to_numpy() + (source << 32)
    return rows.set_column(at, GROUP_COLUMN, require("pyarrow", "parquet").array(numbers))


def cells_of_centers(groups: PieceGroups) -> list[Counted]:
    """The number of rows by the center of their QI group, by attribute."""
    center = centers(groups.lo, groups.hi).astype(np.int64)
    return [counted(center[:, [j]], groups.rows) for j in range(center.shape[1])]


def vectors_of_centers(groups: PieceGroups, bins: Sequence[Bins]) -> Counted:
    """The same by bins of all attributes."""
    return compact(counted(binned(centers(groups.lo, groups.hi).astype(np.int64), bins), groups.rows))


def regions_of(groups: PieceGroups, plan: FragmentPlan, source: int) -> Ints:
    """The region of each row of a piece; source: the number of the piece, to which dealt groups go."""
    region = plan.route(centers(groups.lo, groups.hi).astype(np.int64))
    region = np.where(plan.attribute[region] == DEALT, plan.lower[region] + source, region)
    return np.repeat(region, groups.rows)


# -- one level for every attribute ------------------------------------------------------------------------------------

COUNTS_PER_ROW, COUNTS_MIN = 2, 500_000
"""Vectors, and pairs of a vector and whom it has, that a search may hold: by row of a fragment; at least."""


class AlikeGroups(NamedTuple):
    """The full-domain recoding of a table: its QI groups in order, and the number of rows in none."""

    groups: PieceGroups
    node: Node
    details: Mapping[str, int | float]
    suppressed: int


def vectors_of_rows(recipe: Recipe, rows: Any, texts: Texts) -> VectorCounts:
    """The counts of a part of a table; texts: of all parts."""
    microdata = microdata_of_rows(recipe.table, rows, texts)
    who = None if recipe.table.individual is None else individual_codes(rows)
    return vector_counts(microdata, recipe.model, who)[0]


def united_vectors(recipe: Recipe, parts: Iterable[VectorCounts]) -> VectorCounts:
    """The counts of all parts, which come one by one; those of about one size are united first.

    Raises ConfigError if they are more than the memory of a fragment holds.
    """
    waiting: list[VectorCounts] = []
    for part in parts:
        waiting.append(part)
        while len(waiting) > 1 and waiting[-2].size <= 2 * waiting[-1].size:
            waiting[-2:] = [_small_enough(recipe, united(waiting[-2:], recipe.model))]
    return _small_enough(recipe, united(waiting, recipe.model))


def _small_enough(recipe: Recipe, counts: VectorCounts) -> VectorCounts:
    most = max(COUNTS_MIN, COUNTS_PER_ROW * recipe.fragment_rows)
    if counts.size > most:
        raise ConfigError(
            f"{recipe.algorithm} counts different rows of quasi-identifiers, and whom the model counts of each:"
            f" {counts.size:,} or more, and with --fragment-rows {recipe.fragment_rows} a process holds {most:,};"
            " ask for more --fragment-rows, if there is memory, or give columns a wider grid in table.yaml"
        )
    return counts


def alike_groups(recipe: Recipe, counts: VectorCounts) -> AlikeGroups:
    """The best levels for a whole table."""
    found = run_on_vectors(algorithm_named(recipe.algorithm), recipe.table, counts, recipe.model, recipe.options)
    inside = found.qi_group != SUPPRESSED
    rows = np.bincount(found.qi_group[inside], counts.rows[inside], found.n_groups).astype(np.int64)
    groups = PieceGroups(found.lo.astype(np.int32), found.hi.astype(np.int32), rows)
    return AlikeGroups(groups, found.levels or (), found.details, int(counts.rows[~inside].sum()))


def groups_of_rows(recipe: Recipe, rows: Any, found: AlikeGroups) -> Ints:
    """The QI group of each row, or SUPPRESSED; int64 (n,)."""
    groups = found.groups
    boxes = boxes_at(recipe.table, found.node, cells_of_rows(recipe.table, rows))
    every = [np.concatenate([ends, of_rows]) for ends, of_rows in zip((groups.lo, groups.hi), boxes, strict=True)]
    number = row_numbers(np.concatenate(every, axis=1).astype(np.int64))
    of_groups, of_rows = number[: len(groups.rows)], number[len(groups.rows) :]
    at = np.minimum(np.searchsorted(of_groups, of_rows), len(of_groups) - 1)
    return np.where(of_groups[at] == of_rows, at, SUPPRESSED)


def with_groups(rows: Any, number: Ints) -> Any:
    """Rows with the numbers of their QI groups."""
    return rows.append_column(GROUP_COLUMN, require("pyarrow", "parquet").array(number))


def recoded_alike(recipe: Recipe, rows: Any, groups: PieceGroups, first: int) -> Piece:
    """A piece of rows whose QI groups are known; groups: those with the numbers from `first` on, and no others.

    Raises LawViolated if they do not hold.
    """
    number = rows[GROUP_COLUMN].to_numpy() - first
    recoding = Recoding(number, groups.lo.astype(np.int64), groups.hi.astype(np.int64))
    check(microdata_of_rows(recipe.table, rows), recipe.model, recoding)
    return _piece_of(rows, recoding)


# -- what is published ------------------------------------------------------------------------------------------------


def recoded(recipe: Recipe, part: FilePart, pieces: Sequence[Piece]) -> tuple[Microdata, Recoding]:
    """The content of a published file; pieces: the rows and QI groups of each of the part's slices."""
    number = np.concatenate([of.number for of in part.slices]) - part.first
    lo, hi = (np.empty((part.groups, recipe.table.space.d), dtype=np.int64) for _ in range(2))
    lo[number] = np.concatenate([piece.groups.lo for piece in pieces])
    hi[number] = np.concatenate([piece.groups.hi for piece in pieces])
    qi_group = np.repeat(number, np.concatenate([piece.groups.rows for piece in pieces]))
    if too_wide := int(recipe.table.space.too_wide(lo, hi)[qi_group].sum()):
        raise ConfigError(
            f"{too_wide} rows of a part are in no QI group that is as narrow as `coarsest` asks, and with fragments no"
            " rows are left out but by ola and degree-first: take one of these with --suppression, leave out"
            " --fragment-rows, or raise `coarsest`"
        )
    rows = require("pyarrow", "parquet").concat_tables([piece.rows for piece in pieces])
    return microdata_of_rows(recipe.table, rows), Recoding(qi_group, lo, hi)


def rank_loss(space: Space, groups: Iterable[PieceGroups], parts: Sequence[list[Counted]]) -> float:
    """`metrics.utility.rank_loss` of the published rows; parts: of each file, how many rows have which cell."""
    counts, lost, rows = united_by_attribute(parts), list[float](), 0
    for some in groups:
        terms = rank_terms(space, counts, some.lo.astype(np.int64), some.hi.astype(np.int64))
        lost.append(fsum((some.rows[:, None] * terms * space.weight).ravel()))
        rows += int(some.rows.sum())
    return fsum(lost) / (rows * space.d)
