"""QI groups of a region that stay as they are, because what an algorithm has for them is not worth publishing again.

The rules of this file
----------------------
* The algorithm's answer is taken, and then QI groups as they stand are put back into it, one after the other, where the
  loss that this costs is at most a price for every row that is not published again: LOST_MORE_MAX of what a row of the
  answer loses, because a fixed price is most of the loss in a large table, and nothing in a small one. The one that
  costs least by the answer's boxes comes first; equal: the lower number. So a region ends near what the algorithm has
  reached, and a QI group that it has only shuffled about stays.
* A group that is put back takes its rows out of the answer's groups. What is left of those has to hold the model; where
  it does not, the groups that stand around its rows are put back as well, up to TOGETHER_MAX rows in all.
* A group whose box is larger than its rows is published again anyway, and is not put back: in `Region.standing` its
  rows stand nowhere.
* Boxes, models and public numbers decide. It is done beside the algorithm, never while changes wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

import numpy as np

from streamer.incremental.groups.replacing import NOWHERE
from streamer.privacy.models import model_of
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.microdata import microdata_of
from streamer.table.schema import Table

LOST_MORE_MAX = 0.05
"""What a row may lose more that is not published again for it, over what a row of the answer loses on average."""

TOGETHER_MAX = 60
"""Rows of groups that are put back together: larger sets gain little more, and take long to find."""

HOPELESS = 3.0
"""A group that by the answer's boxes costs so many times the price per row is not tried."""


def spared(table: Table, rows: EncodedRows, standing: Ints, groups: Sequence[Ints]) -> list[Ints]:
    """The answer's groups with those that stay as they are; arrays of row numbers, as `groups`.

    standing: of each row (n,) the number 0..g-1 of its group as it is now, or NOWHERE.
    """
    if not len(groups) or not (standing != NOWHERE).any():
        return list(groups)
    sparing = _Sparing(table, rows, standing, groups)
    for number in sparing.cheapest_first():
        sparing.put_back(number)
    return sparing.groups()


class _Sparing:
    """The answer while groups are put back: of every group its rows and its loss; of every row its group."""

    def __init__(self, table: Table, rows: EncodedRows, standing: Ints, groups: Sequence[Ints]) -> None:
        self._space, self._cells = table.space, table.space.cells(rows.codes)
        self._model, microdata = model_of(table), microdata_of(table, rows)
        self._subjects = microdata.subjects(self._model.subjects)
        self._standing: list[int] = standing.tolist()
        order = np.argsort(standing, kind="stable")[np.count_nonzero(standing == NOWHERE) :]
        sizes = np.bincount(standing[order])
        self._stands = [set(some.tolist()) for some in np.split(order, np.cumsum(sizes)[:-1])]
        self._stands_loss = [self._loss(some) for some in self._stands]
        self._rows = {number: set(members.tolist()) for number, members in enumerate(groups)}
        self._losses = {number: self._loss(some) for number, some in self._rows.items()}
        self._price = LOST_MORE_MAX * sum(self._losses.values()) / len(standing)
        self._group_of = [0] * len(standing)
        for number, some in self._rows.items():
            self._take(number, some)
        self._back: set[int] = set()

    def _loss(self, rows: Set[int]) -> float:
        """NCP times rows of the smallest box around some rows."""
        if not rows:
            return 0.0
        return float(self._space.ncp(*self._space.box_of_cells(self._cells[list(rows)]))) * len(rows)

    def _take(self, group: int, rows: Iterable[int]) -> None:
        for row in rows:
            self._group_of[row] = group

    def cheapest_first(self) -> list[int]:
        """The groups as they stand, as numbers, but those that are hopeless."""
        by_row = {number: loss / len(self._rows[number]) for number, loss in self._losses.items()}
        now = [by_row[group] for group in self._group_of]
        more = [
            (loss - sum(now[row] for row in rows)) / len(rows) if rows else np.inf
            for rows, loss in zip(self._stands, self._stands_loss, strict=True)
        ]
        return [i for i in sorted(range(len(more)), key=more.__getitem__) if more[i] <= HOPELESS * self._price]

    def put_back(self, number: int) -> None:
        """Puts a group back as it stands, with those that have to go with it, if that is worth it."""
        if number in self._back:
            return
        together = self._together(number)
        if together is None:
            return
        rows: set[int] = set().union(*(self._stands[one] for one in together))
        left = {group: self._rows[group] - rows for group in {self._group_of[row] for row in rows}}
        losses = {group: self._loss(some) for group, some in left.items()}
        before = sum(self._losses[group] for group in left)
        if sum(self._stands_loss[one] for one in together) + sum(losses.values()) - before > self._price * len(rows):
            return
        self._rows.update(left)
        self._losses.update(losses)
        for one in together:
            group = len(self._rows)
            self._rows[group], self._losses[group] = self._stands[one], self._stands_loss[one]
            self._take(group, self._stands[one])
        self._back |= together

    def _together(self, number: int) -> set[int] | None:
        """The groups that are to be put back with one, so that all others hold the model; None: too many, or none."""
        together, rows = {number}, set(self._stands[number])
        while True:
            broken: set[int] = set()
            for group in {self._group_of[row] for row in rows}:
                left = self._rows[group] - rows
                if left and not self._holds(left):
                    broken |= left
            if not broken:
                return together
            more = {self._standing[row] for row in broken}
            if NOWHERE in more or more & self._back:
                return None
            together |= more
            rows = rows.union(*(self._stands[one] for one in more))
            if len(rows) > TOGETHER_MAX:
                return None

    def _holds(self, rows: Set[int]) -> bool:
        return len(rows) >= self._model.rows_min and self._model.holds(self._subjects[list(rows)])

    def groups(self) -> list[Ints]:
        """All groups that have rows."""
        return [np.array(sorted(rows), dtype=np.int64) for rows in self._rows.values() if rows]
