"""Bundles, which `ordered` puts in order and never separates: single rows, or an individual's rows in one cell.

If the table declares individuals, the rows of one individual with the same cells are one *bundle*: they go into one QI
group. Every other row is a bundle of its own. Bundles with the same cells stand side by side. If the model counts
sensitive values, the first column that it counts is spread evenly among them: the i-th of m bundles with one value
stands at (i + 1/2) / m; of those at one place the lower value is first, then the earlier row. So any few neighbours
have about the shares that all of them have.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.kernels.boxes import Geometry, geometry
from streamer.kernels.shares import rows_for_share
from streamer.native import inlined
from streamer.privacy.compiled import Rules, Scratch, add, holds, remove, rules_of, scratch_for
from streamer.privacy.models import Model
from streamer.recoding.algorithms.contract import ROWS_PER_CALL
from streamer.table.arrays import Bools, Ints
from streamer.table.microdata import INDIVIDUAL, Microdata

EMPTY_LO, EMPTY_HI = np.iinfo(np.int64).max, -1
"""The box of no rows, in every attribute: `widen` starts from it."""


class Bundles(NamedTuple):
    """m bundles; bundle i is the rows begin[i]..end[i] - 1 of a table sorted by bundles."""

    cells: Ints  # (m, d)
    begin: Ints  # (m,)
    end: Ints


class Task(NamedTuple):
    """The knowledge of every step: the space, the bundles and the model."""

    shape: Geometry
    bundles: Bundles
    rules: Rules
    scratch: Scratch
    aside: Scratch  # of laws about distributions, where they are asked while `scratch` is in use
    rows_min: int  # no group with fewer rows can hold
    rows_per_call: int  # about how many rows one call of a compiled loop looks at


def bundled(microdata: Microdata, model: Model) -> tuple[Ints, Bundles]:
    """The rows' numbers in the order of the bundles, int64 (n,), and the bundles."""
    n = len(microdata)
    columns = list(microdata.cells.T)
    if microdata.individuals is not None:
        columns.append(microdata.individuals)
    rows = np.lexsort(columns[::-1])
    inside = np.zeros(n - 1, dtype=bool)
    if microdata.individuals is not None:
        inside = _same_as_next([column[rows] for column in columns])
    begin = np.flatnonzero(np.concatenate([[True], ~inside]))
    end = np.append(begin[1:], n)
    counted = [subject for subject in model.subjects if subject != INDIVIDUAL]
    if counted:
        spread = _spread(microdata.cells[rows[begin]], microdata.subject(counted[0])[rows[begin]])
        begin, end = begin[spread], end[spread]
        size = end - begin
        last = np.cumsum(size)
        rows = rows[np.arange(n) + np.repeat(begin - (last - size), size)]
        begin, end = last - size, last
    first = rows[begin]
    cells = microdata.cells if _is_range(first, n) else np.take(microdata.cells, first, axis=0)
    return rows, Bundles(np.ascontiguousarray(cells), begin, end)


def _is_range(numbers: Ints, n: int) -> bool:
    """True if these are all the numbers from 0 to n - 1, in order: of a table in canonical form, mostly."""
    return len(numbers) == n and bool((numbers == np.arange(n)).all())


def _same_as_next(columns: list[Ints]) -> Bools:
    """True for each row that equals the next one; (n - 1,)."""
    return np.asarray(np.logical_and.reduce([column[1:] == column[:-1] for column in columns]), dtype=bool)


def _spread(cells: Ints, value: Ints) -> Ints:
    """An order (m,) of bundles, which are sorted by cells: it keeps that and spreads each value among equal cells."""
    m = len(value)
    vector = np.concatenate([[0], np.cumsum(~_same_as_next(list(cells.T)))])
    order = np.lexsort((value, vector))
    runs = np.flatnonzero(np.concatenate([[True], ~_same_as_next([vector[order], value[order]])]))
    size = np.diff(np.append(runs, m))
    at = np.empty(m)
    at[order] = (np.arange(m) - np.repeat(runs, size) + 0.5) / np.repeat(size, size)
    return np.lexsort((value, at, vector))


def task_of(microdata: Microdata, model: Model, rows_per_call: int = ROWS_PER_CALL) -> tuple[Ints, Task]:
    """The rows' numbers in the order of the bundles, int64 (n,), and the task."""
    rows, bundles = bundled(microdata, model)
    rules = rules_of(model, microdata.rows(rows).subjects(model.subjects))
    scratch, aside = scratch_for(rules), scratch_for(rules)
    return rows, Task(geometry(microdata.space), bundles, rules, scratch, aside, model.rows_min, rows_per_call)


@inlined
def add_bundle(task: Task, bundle: int) -> None:
    """Counts the rows of a bundle."""
    for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
        add(task.rules, task.scratch, row)


@inlined
def remove_bundle(task: Task, bundle: int) -> None:
    """Takes back the rows of a bundle."""
    for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
        remove(task.rules, task.scratch, row)


def clear_bundles(task: Task, counted: Ints) -> None:
    """Empties the counts of these bundles, which are all that was counted; cheaper than removing each."""
    rules, scratch = task.rules, task.scratch
    scratch.size[0] = 0
    for i in range(rules.distinct.shape[0]):
        for bundle in counted:
            for row in range(task.bundles.begin[bundle], task.bundles.end[bundle]):
                scratch.counts[i, rules.subjects[row, i]] = 0
        scratch.at[i, : scratch.top[i] + 1] = 0
        scratch.top[i] = 0
        scratch.n_distinct[i] = 0


def rows_in(bundles: Bundles, chosen: Ints) -> int:
    """The number of rows of the chosen bundles."""
    rows = 0
    for bundle in chosen:
        rows += bundles.end[bundle] - bundles.begin[bundle]
    return rows


def bundles_hold(task: Task, chosen: Ints) -> bool:
    """True if the chosen bundles are together a QI group that holds; the counts are empty before and after."""
    if rows_in(task.bundles, chosen) < task.rules.rows:
        return False
    if task.rules.distinct.shape[0] == 0:
        return True
    for bundle in chosen:
        add_bundle(task, bundle)
    answer = holds(task.rules, task.scratch)
    clear_bundles(task, chosen)
    return answer


def rows_lacking(rules: Rules, size: int, top: Ints, n_distinct: Ints) -> int:
    """The least number of rows that a group still needs to hold: the most that one of its constraints asks for.

    size, top, n_distinct: as in `Scratch`. 0: it holds.
    """
    most = rules.rows - size
    for i in range(rules.distinct.shape[0]):
        most = max(most, rules.distinct[i] - n_distinct[i])
        most = max(most, rows_for_share(top[i], rules.numerator[i], rules.denominator[i]) - size)
    return int(max(most, 0))
