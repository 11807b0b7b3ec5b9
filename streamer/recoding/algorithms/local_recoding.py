"""Bottom-up local recoding: what holds the model as it is keeps its values, the rest is generalized step by step.

Every QI group that holds the model is *labelled*: it keeps the values that it has. Of the unlabelled rows, and of them
alone, one attribute is generalized by one level (`attribute.levels`); groups that now hold are labelled; and so on. So
all unlabelled rows stand at the same levels, and a labelled group publishes the values of the levels at which it was
labelled, not shrunk to its members. The values of a late group may contain those of an early one. Groups of one step
never publish equal values, and of two steps only where a ragged hierarchy gives one value at two levels. QI groups are
numbered as they
are labelled, those of one step in the order of their cells. It ends when no row is left, when every attribute is at
its top, or when what is left as one group would not hold even if no share were asked: then no part of it could. What
is left are *orphans* (`streamer.recoding.algorithms.orphans`).

Source: Tong et al. 2010, algorithm 1. The paper does not say which attribute is generalized. Here: the one whose next
level labels most rows for the NCP that it adds to all unlabelled rows; where none labels a row, the one that adds
least; ties go to the earlier attribute. A level that adds nothing is taken at once. Rows of equal values are one
*pile* with a count, so that a step costs what the distinct values cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from streamer.jit import compiled
from streamer.privacy.compiled import Rules, Scratch, add, clear, holds, rules_of, scratch_for
from streamer.privacy.models import AtMostShare, Model
from streamer.recoding.algorithms.contract import Algorithm, Options, no_objections
from streamer.recoding.algorithms.orphans import settled
from streamer.recoding.algorithms.recoding import SUPPRESSED, Recoding
from streamer.table.arrays import Bools, Floats, Ints
from streamer.table.levels import value_numbers
from streamer.table.microdata import Microdata
from streamer.table.space import Space, in_order
from streamer.table.vectors import row_numbers

UNLABELLED = SUPPRESSED


class _Piles(NamedTuple):
    """Unlabelled rows by their values: boxes lo, hi (b, d), cells; rows (u,), those of pile i from begins[i] on.

    at (b, d): the cells of one row of each pile, numbered among those that occur: they tell what a level makes of all.
    values (b, d): the boxes' sides as numbers, equal for equal sides alone, in the order of lo and then hi.
    """

    at: Ints
    values: Ints
    lo: Ints
    hi: Ints
    rows: Ints
    begins: Ints  # (b + 1,)


class _Step(NamedTuple):
    """Attribute j one level up: values, lo, hi (b,); the number of the pile that each becomes (b,); which hold."""

    j: int
    values: Ints
    lo: Ints
    hi: Ints
    becomes: Ints
    holding: Bools
    labels: int  # rows
    adds: float  # NCP over all unlabelled rows


class Labelling:
    """Steps 2 and 3 of algorithm 1. qi_group: int64 (n,), UNLABELLED or a number; lo, hi: boxes by number, in parts."""

    def __init__(self, microdata: Microdata, model: Model) -> None:
        self._model, self._space = model, microdata.space
        self._axes = [Space([axis]) for axis in microdata.space.axes]
        self._levels = [attribute.levels for attribute in microdata.table.attributes]
        self._level = [0] * self._space.d
        self._rules = rules_of(model, microdata.subjects(model.subjects))
        self._scratch = scratch_for(self._rules)
        self._growing = Model([part for part in model.constraints if not isinstance(part, AtMostShare)])
        self._grows = microdata.subjects(self._growing.subjects)
        self.qi_group = np.full(len(microdata), UNLABELLED, dtype=np.int64)
        self.lo, self.hi = list[Ints](), list[Ints]()
        self._n_groups = 0
        self._start(microdata.cells)

    def _start(self, cells: Ints) -> None:
        rows, begins = runs(numbered(list(cells.T)))
        lo = cells[rows[begins[:-1]]]
        used = [np.unique(column, return_inverse=True) for column in lo.T]
        self._used = [distinct for distinct, _ in used]
        at = np.stack([numbers for _, numbers in used], axis=1)
        self._piles = _Piles(at, at.copy(), lo, lo.copy(), rows, begins)
        self._label(self._holding(np.arange(len(lo))))

    @property
    def n_unlabelled(self) -> int:
        return len(self._piles.rows)

    def goes_on(self) -> bool:
        """Whether a further step could label a row."""
        rows = self._piles.rows
        if len(rows) < self._model.rows_min or not any(map(self._rises, range(self._space.d))):
            return False
        return self._growing.holds(self._grows[rows])

    def _rises(self, j: int) -> bool:
        return self._level[j] + 1 < self._levels[j].n_levels

    def step(self) -> None:
        """Generalizes one attribute of the unlabelled rows by one level, and labels what then holds."""
        best = max(self._steps(), key=lambda step: (step.labels / step.adds if step.adds else np.inf, -step.adds))
        self._level[best.j] += 1
        piles, (order, first) = self._piles, runs(best.becomes)
        piles.values[:, best.j], piles.lo[:, best.j], piles.hi[:, best.j] = best.values, best.lo, best.hi
        sizes = np.diff(piles.begins)[order]
        begins = np.concatenate([[0], np.cumsum(sizes)])
        rows = piles.rows[_ranges(piles.begins[order], sizes, begins)]
        one = order[first[:-1]]
        self._piles = _taken(piles, one, rows, begins[first])
        self._label(best.holding)

    def _steps(self) -> Iterator[_Step]:
        """What can be done next, attribute by attribute."""
        piles = self._piles
        sizes = np.diff(piles.begins)
        columns = list(piles.values.T)
        for j in filter(self._rises, range(self._space.d)):
            values, lo, hi = self._recoded(j, self._level[j] + 1)
            becomes = numbered([*columns[:j], values, *columns[j + 1 :]])
            holding = self._holding(becomes)
            adds = in_order(sizes * (self._ncp(j, lo, hi) - self._ncp(j, piles.lo[:, j], piles.hi[:, j])))
            yield _Step(j, values, lo, hi, becomes, holding, int(sizes[holding[becomes]].sum()), float(adds))

    def _recoded(self, j: int, level: int) -> tuple[Ints, Ints, Ints]:
        """Values, lo and hi of every pile with attribute j at the level; three int64 (b,)."""
        levels, used, at = self._levels[j], self._used[j], self._piles.at[:, j]
        lo, hi = levels.recode(level, used)
        return value_numbers(levels, level, used)[at], lo[at], hi[at]

    def _ncp(self, j: int, lo: Ints, hi: Ints) -> Floats:
        return self._axes[j].ncp(lo[:, None], hi[:, None])

    def _holding(self, becomes: Ints) -> Bools:
        """Which of the piles that the present ones become hold; becomes: int64 (b,), from 0 without gaps."""
        piles = self._piles
        enough = np.asarray(np.bincount(becomes, weights=np.diff(piles.begins)) >= self._model.rows_min)
        if self._model.subjects:
            _ask(self._rules, self._scratch, *runs(becomes), piles.rows, piles.begins, enough)
        return enough

    def _label(self, holding: Bools) -> None:
        """Labels the piles that hold; the others stay."""
        piles = self._piles
        sizes = np.diff(piles.begins)
        number = np.where(holding, self._n_groups + np.cumsum(holding) - 1, UNLABELLED)
        of_row = np.repeat(number, sizes)
        self.qi_group[piles.rows] = of_row
        self._n_groups += int(holding.sum())
        self.lo.append(piles.lo[holding])
        self.hi.append(piles.hi[holding])
        begins = np.concatenate([[0], np.cumsum(sizes[~holding])])
        rows = piles.rows[of_row == UNLABELLED]
        self._piles = _taken(piles, ~holding, rows, begins)


def _taken(piles: _Piles, which: Ints | Bools, rows: Ints, begins: Ints) -> _Piles:
    """Some of the piles, with other rows."""
    return _Piles(piles.at[which], piles.values[which], piles.lo[which], piles.hi[which], rows, begins)


def numbered(columns: Sequence[Ints]) -> Ints:
    """Vectors of cells as numbers from 0 without gaps, in the vectors' own order; columns: d of int64 (m,). (m,)."""
    return np.unique(row_numbers(np.stack(columns, axis=1)), return_inverse=True)[1]


def runs(numbers: Ints) -> tuple[Ints, Ints]:
    """Positions sorted by number, and where each number's run begins, with the end; numbers from 0 without gaps."""
    order = np.argsort(numbers, kind="stable")
    return order, np.concatenate([[0], np.cumsum(np.bincount(numbers))])


def _ranges(begins: Ints, sizes: Ints, offsets: Ints) -> Ints:
    """The positions begins[i], begins[i] + 1, ... of every range one after the other; offsets: where range i is put."""
    return np.arange(int(sizes.sum())) + np.repeat(begins - offsets[:-1], sizes)


@compiled
def _ask(rules: Rules, scratch: Scratch, order: Ints, first: Ints, rows: Ints, begins: Ints, enough: Bools) -> None:
    """Strikes out of `enough` what does not hold: union i of piles is order[first[i]:first[i + 1]]."""
    for union in range(len(enough)):
        if not enough[union]:
            continue
        piles = order[first[union] : first[union + 1]]
        for pile in piles:
            for row in rows[begins[pile] : begins[pile + 1]]:
                add(rules, scratch, row)
        enough[union] = holds(rules, scratch)
        for pile in piles:
            clear(rules, scratch, rows[begins[pile] : begins[pile + 1]])


def run(microdata: Microdata, model: Model, options: Options) -> Recoding:
    """Algorithm 1 under any model."""
    labelling = Labelling(microdata, model)
    while labelling.goes_on():
        labelling.step()
    lo, hi = np.concatenate(labelling.lo), np.concatenate(labelling.hi)
    return settled(microdata, model, labelling.qi_group, lo, hi)


BOTTOM_UP = Algorithm(
    "bottom-up",
    "generalizes, level by level, only the rows that do not hold yet",
    "Tong et al. 2010, algorithm 1",
    run,
    no_objections,
)
