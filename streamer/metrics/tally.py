"""How often each value occurs in each QI group: what measures of diversity, risk and entropy are made from.

The rules of this file
----------------------
* Suppressed rows count nowhere: they are not in the published table.
* Counting is sorting: n log n over whole columns, whatever the number of groups and values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.algorithms.recoding import Recoding

Ints = npt.NDArray[np.int64]

_NUMBERS_MAX = 2**62


class Tally(NamedTuple):
    """One entry for every value that occurs in a group, sorted by group; int64, all of one length.

    group: the group's number; value: which value; rows: how many rows of the group have it.
    """

    group: Ints
    value: Ints
    rows: Ints


def tally(recoding: Recoding, values: Ints) -> Tally:
    """Counts `values`, int64 (n,) from 0, in every QI group.

    >>> one, two = np.array([[0], [5]]), np.array([[4], [9]])
    >>> tally(Recoding(np.array([0, 0, 1, -1]), one, two), np.array([7, 7, 2, 2])).rows
    array([2, 1])
    """
    published = recoding.qi_group >= 0
    group, values = recoding.qi_group[published], values[published]
    width = int(values.max(initial=0)) + 1
    if width * (recoding.n_groups + 1) > _NUMBERS_MAX:
        distinct, values = np.unique(values, return_inverse=True)
        found = tally(Recoding(group, recoding.lo, recoding.hi), values)
        return found._replace(value=distinct[found.value])
    pairs, rows = np.unique(group * width + values, return_counts=True)
    return Tally(pairs // width, pairs % width, rows)


def row_numbers(columns: Ints) -> Ints:
    """A number from 0 for every row of columns (n, c), none negative: equal for equal rows alone; int64 (n,).

    >>> row_numbers(np.array([[3, 1], [0, 2], [3, 1]])).tolist()
    [10, 2, 10]
    """
    numbers, width = np.zeros(len(columns), dtype=np.int64), 1
    for column in columns.T:
        column_width = int(column.max(initial=0)) + 1
        if width * column_width > _NUMBERS_MAX:  # close the gaps: then neither has more values than there are rows
            numbers, width = _without_gaps(numbers)
            column, column_width = _without_gaps(column)
        numbers = numbers * column_width + column
        width *= column_width
    return numbers


def _without_gaps(column: Ints) -> tuple[Ints, int]:
    distinct, numbers = np.unique(column, return_inverse=True)
    return numbers.astype(np.int64), len(distinct)
