"""How often each value occurs in each QI group: what measures of diversity, risk and entropy are made from.

Suppressed rows count nowhere: they are not in the published table. Counting is sorting: n log n over whole columns,
whatever the number of groups and values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.recoding.algorithms.recoding import Recoding
from streamer.table.arrays import Ints
from streamer.table.vectors import NUMBERS_MAX


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
    if width * (recoding.n_groups + 1) > NUMBERS_MAX:
        distinct, values = np.unique(values, return_inverse=True)
        found = tally(Recoding(group, recoding.lo, recoding.hi), values)
        return found._replace(value=distinct[found.value])
    pairs, rows = np.unique(group * width + values, return_counts=True)
    return Tally(pairs // width, pairs % width, rows)
