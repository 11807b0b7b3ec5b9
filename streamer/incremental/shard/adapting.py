"""New QI groups for a region as it was, made those of the region as it is: what changed meanwhile is fitted in.

While an algorithm is at a region, the shard's changes go on. To begin anew because of each would never end, and to keep
them waiting would stop the stream for as long as an algorithm takes. So the algorithm's answer is kept for all rows
that are still in their places, and the others are fitted in as an insertion would be:

1. A row that has gone is left out. A row that came, or lies in other cells now, joins the group that loses least by it.
2. A group that does not hold the model any more is joined with the one by which least is lost, lowest number first,
   until all hold: all models are closed under union.

The answer holds the model wherever the region as a whole does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamer.incremental.groups.replacing import NOWHERE, Region
from streamer.privacy.models import model_of
from streamer.table.arrays import Ints
from streamer.table.microdata import microdata_of
from streamer.table.schema import Table
from streamer.table.space import Space

FITTED_MOST = 2_000
"""Rows that are fitted in: for more the region is done again, because the shard's changes wait for the fitting."""


def adapted(table: Table, was: Region, groups: Sequence[Ints], now: Region) -> list[Ints] | None:
    """QI groups of the rows of `now`, arrays of their numbers; groups: those of `was`, arrays of its rows' numbers.

    Where not even the whole region holds the model, it is one group. None where too much has changed.
    """
    cells = table.space.cells(now.rows.codes)
    label = _labels(table.space, was, groups, now)
    if np.count_nonzero(label == NOWHERE) > FITTED_MOST:
        return None
    fitting = _Fitting(table.space, cells, label, max(1, len(groups)))
    for row in np.flatnonzero(label == NOWHERE).tolist():
        fitting.fit(row)
    microdata, model = microdata_of(table, now.rows), model_of(table)
    subjects = microdata.subjects(model.subjects)
    holds = model.holds_by_group(fitting.label, len(fitting.sizes), subjects)
    broken = [i for i in np.flatnonzero(~holds).tolist() if fitting.sizes[i]]
    while broken:
        i = broken.pop(0)
        if (other := fitting.joined(i)) is None:
            break
        broken = [one for one in broken if one != other]
        if not model.holds(subjects[fitting.label == other]):
            broken.insert(0, other)
    return fitting.groups()


def _labels(space: Space, was: Region, groups: Sequence[Ints], now: Region) -> Ints:
    """The group of every row that still lies in the cells that it lay in; int64 (n,), NOWHERE for the others."""
    former = np.full(len(was.rows.codes), NOWHERE, dtype=np.int64)
    for number, members in enumerate(groups):
        former[members] = number
    place_of = {source_key: i for i, source_key in enumerate(was.rows.source_keys)}
    places = np.array([place_of.get(key, NOWHERE) for key in now.rows.source_keys], dtype=np.int64)
    label = np.full(len(places), NOWHERE, dtype=np.int64)
    there = np.flatnonzero(places != NOWHERE)
    same = (space.cells(was.rows.codes[places[there]]) == space.cells(now.rows.codes[there])).all(axis=1)
    label[there[same]] = former[places[there[same]]]
    return label


class _Fitting:
    """Groups whose boxes grow: of each row its group (n,), of each group its rows, and its box (g, d)."""

    def __init__(self, space: Space, cells: Ints, label: Ints, n_groups: int) -> None:
        self.label = label.copy()
        placed = label != NOWHERE
        self.sizes: Ints = np.bincount(label[placed], minlength=n_groups)
        self._space, self._cells = space, cells
        self._lo = np.full((n_groups, space.d), np.iinfo(np.int64).max, dtype=np.int64)
        self._hi = np.full((n_groups, space.d), -1, dtype=np.int64)
        np.minimum.at(self._lo, label[placed], cells[placed])
        np.maximum.at(self._hi, label[placed], cells[placed])
        self._own = np.zeros(n_groups)
        some = self.sizes > 0
        self._lo[some], self._hi[some] = space.generalize(self._lo[some], self._hi[some])
        self._own[some] = space.ncp(self._lo[some], self._hi[some])

    def fit(self, row: int) -> None:
        """Gives a row to the group that loses least by it."""
        cells = self._cells[row]
        best = self._best(cells, cells, 1)
        self.label[row] = best = 0 if best is None else best
        self._grow(best, cells, cells, 1)

    def joined(self, i: int) -> int | None:
        """Joins a group with the one by which least is lost, and returns that; None where there is no other."""
        rows, self.sizes[i] = int(self.sizes[i]), 0  # it is not the one to join
        other = self._best(self._lo[i], self._hi[i], rows)
        if other is None:
            self.sizes[i] = rows
        else:
            self.label[self.label == i] = other
            self._grow(other, self._lo[i], self._hi[i], rows)
        return other

    def groups(self) -> list[Ints]:
        """The rows of every group that has any."""
        order = np.argsort(self.label, kind="stable")
        sizes = self.sizes[self.sizes > 0]
        return np.split(order, np.cumsum(sizes)[:-1]) if len(sizes) else []

    def _best(self, lo: Ints, hi: Ints, rows: int) -> int | None:
        """The group whose loss grows least by so many rows in a box; equal: the lowest number. None: there is none."""
        least = np.where(self.sizes > 0, self._own * rows, np.inf)  # so much it grows where its box contains the other
        inside = (self._lo <= lo).all(axis=1) & (self._hi >= hi).all(axis=1) & (self.sizes > 0)
        among = np.flatnonzero(least <= least[inside].min() if inside.any() else self.sizes > 0)
        if len(among) < 2:
            return int(among[0]) if len(among) else None
        wide = self._space.ncp(
            *self._space.generalize(np.minimum(self._lo[among], lo), np.maximum(self._hi[among], hi))
        )
        grown = wide * (self.sizes[among] + rows) - self._own[among] * self.sizes[among]
        return int(among[np.argmin(grown)])

    def _grow(self, i: int, lo: Ints, hi: Ints, rows: int) -> None:
        wide = self._space.generalize(np.minimum(self._lo[i], lo), np.maximum(self._hi[i], hi))
        self._lo[i], self._hi[i] = wide
        self._own[i] = self._space.ncp(*wide)
        self.sizes[i] += rows
