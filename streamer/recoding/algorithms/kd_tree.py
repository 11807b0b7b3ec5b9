"""A k-d tree over a table's rows, for compiled loops: the parts of the table, their distinct cells, and cuts of a part.

A `Layout` keeps the rows in the order of the tree's leaves, attribute by attribute. A part of the table is the
positions begin..end of every column; a cut sorts these positions alone, lower half first, and within a half the rows
keep their order. A cut (j, at) sends the rows whose cell of attribute j is at most `at` to the lower half, so rows of
one cell stay on one side (*strict* cuts). It is allowed where both halves hold the model: numbers of rows are compared
first, and subjects are counted only where the numbers allow the cut.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.jit import compiled
from streamer.privacy.compiled import Rules, Scratch, add, clear, holds, rules_of, scratch_for
from streamer.privacy.models import Model
from streamer.table.arrays import Ints

Cells = npt.NDArray[np.signedinteger[Any]]

SPARSE = 4
"""Cells per row of a part up to which its values are found by counting every cell between them, else by sorting."""


class Layout(NamedTuple):
    """columns: cells (d, n); rows: int64 (n,), whose they are; scratch_cells, scratch_rows: (n,), for one cut."""

    columns: Cells
    rows: Ints
    scratch_cells: Cells
    scratch_rows: Ints


class Leaves(NamedTuple):
    """begins (n,): where the leaves begin; waiting (n,): where the upper halves end that are still to do; n (2,): how
    many of both.
    """

    begins: Ints
    waiting: Ints
    n: Ints


class Demand(NamedTuple):
    """A model for the halves of a cut; rows_min: no half with fewer rows can hold."""

    rows_min: int
    rules: Rules
    scratch: Scratch


class Values(NamedTuple):
    """Scratch for the distinct cells of a part along one attribute, ascending, and how many rows have each; (n,)."""

    cells: Ints
    counts: Ints


class Tree(NamedTuple):
    """A table's rows while they are cut."""

    layout: Layout
    leaves: Leaves
    demand: Demand
    values: Values


def tree_of(cells: Ints, model: Model, subjects: Ints) -> Tree:
    """The rows cells (n, d), uncut; subjects: int64 (n, s), columns as in `model.subjects`."""
    n, rules = len(cells), rules_of(model, subjects)
    leaves = Leaves(np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.zeros(2, dtype=np.int64))
    values = Values(np.empty(n, dtype=np.int64), np.empty(max(SPARSE * n, 1), dtype=np.int64))
    return Tree(_layout_of(cells), leaves, Demand(model.rows_min, rules, scratch_for(rules)), values)


def _layout_of(cells: Ints) -> Layout:
    """In four bytes a cell if they fit."""
    n = len(cells)
    short = cells.max(initial=0) < np.iinfo(np.int32).max
    columns: Cells = np.ascontiguousarray(cells.T, dtype=np.int32 if short else np.int64)
    rows = np.arange(n, dtype=np.int64)
    return Layout(columns, rows, np.empty_like(columns[0]), np.empty_like(rows))


def leaf_numbers(tree: Tree) -> Ints:
    """The number of every row's leaf, counted from left to right; int64 (n,)."""
    n_leaves, n = tree.leaves.n[0], len(tree.layout.rows)
    number = np.empty(n, dtype=np.int64)
    number[tree.layout.rows] = np.repeat(np.arange(n_leaves), np.diff(tree.leaves.begins[:n_leaves], append=n))
    return number


@compiled
def after(leaves: Leaves, begin: int, middle: int, end: int) -> tuple[int, int]:
    """The part to do next, now that the positions begin..end (exclusive) were cut at middle: the lower half.

    middle = begin: they cannot be cut. They are a leaf, and the half beside it comes next; after the last leaf, a part
    without rows.
    """
    if middle > begin:
        leaves.waiting[leaves.n[1]] = end
        leaves.n[1] += 1
        return begin, middle
    leaves.begins[leaves.n[0]] = begin
    leaves.n[0] += 1
    if leaves.n[1] == 0:
        return end, end
    leaves.n[1] -= 1
    return end, leaves.waiting[leaves.n[1]]


@compiled
def ends(along: Cells) -> tuple[int, int]:
    """Lowest and highest cell along an attribute."""
    lo = hi = along[0]
    for cell in along:
        lo = min(lo, cell)
        hi = max(hi, cell)
    return lo, hi


@compiled
def distinct(along: Cells, values: Values) -> int:
    """Fills in the distinct cells of `along` and their counts; returns how many there are."""
    lo, hi = ends(along)
    if hi - lo < SPARSE * len(along):
        return _counted(along, lo, hi, values)
    return _sorted(along, values)


@compiled
def _counted(along: Cells, lo: int, hi: int, values: Values) -> int:
    values.counts[: hi - lo + 1] = 0
    for cell in along:
        values.counts[cell - lo] += 1
    n_values = 0
    for offset in range(hi - lo + 1):
        count = values.counts[offset]
        if count > 0:
            values.cells[n_values] = lo + offset
            values.counts[n_values] = count
            n_values += 1
    return n_values


@compiled
def _sorted(along: Cells, values: Values) -> int:
    n_values = 0
    for cell in np.sort(along):
        if n_values == 0 or values.cells[n_values - 1] != cell:
            values.cells[n_values] = cell
            values.counts[n_values] = 0
            n_values += 1
        values.counts[n_values - 1] += 1
    return n_values


@compiled
def allowed(demand: Demand, rows: Ints, along: Cells, at: int, n_below: int) -> bool:
    """Whether both halves of the rows hold when they are cut at `at`, which n_below of them do not exceed."""
    if n_below < demand.rows_min or len(rows) - n_below < demand.rows_min:
        return False
    if demand.rules.distinct.shape[0] == 0:
        return True
    return _half_holds(demand, rows, along, at, True) and _half_holds(demand, rows, along, at, False)


@compiled
def _half_holds(demand: Demand, rows: Ints, along: Cells, at: int, lower: bool) -> bool:
    for i in range(len(rows)):
        if (along[i] <= at) == lower:
            add(demand.rules, demand.scratch, rows[i])
    answer = holds(demand.rules, demand.scratch)
    clear(demand.rules, demand.scratch, rows)
    return answer


@compiled
def cut(layout: Layout, begin: int, end: int, j: int, at: int) -> int:
    """Cuts the positions begin..end (exclusive) along attribute j; returns where the upper half begins."""
    along = layout.columns[j, begin:end].copy()
    middle = begin + _sift(layout.rows[begin:end], layout.scratch_rows, along, at)
    for column in range(layout.columns.shape[0]):
        _sift(layout.columns[column, begin:end], layout.scratch_cells, along, at)
    return middle


@compiled
def _sift(what: Cells, scratch: Cells, along: Cells, at: int) -> int:
    """Moves to the front what belongs to cells up to `at`; without branches, as they would be guessed wrong half the
    time.
    """
    n_below, n_above = 0, 0
    for i in range(len(what)):
        is_below = along[i] <= at
        scratch[n_above] = what[i]
        what[n_below] = what[i]
        n_below += is_below
        n_above += not is_below
    what[n_below:] = scratch[:n_above]
    return n_below
