"""The numbers of QI groups: what stands in public beside every row must say nothing that the boxes do not say.

QI groups are numbered in the order of their boxes; groups that publish one box by chance. An algorithm numbers them as
it makes them, along the cells of their rows, and those are hidden where the box is wider: so its numbers never leave.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamer.recoding.algorithms.recoding import SUPPRESSED, Recoding
from streamer.table.arrays import Ints
from streamer.table.vectors import row_numbers


def numbered(recoding: Recoding, chance: np.random.Generator) -> Recoding:
    """The same QI groups, numbered by their boxes (first cells, then last ones), those of one box by chance."""
    order = np.lexsort((chance.permutation(recoding.n_groups), _boxes(recoding)))
    number = np.empty(recoding.n_groups, dtype=np.int64)
    number[order] = np.arange(recoding.n_groups)
    return replace(recoding, qi_group=_renumbered(recoding, number), lo=recoding.lo[order], hi=recoding.hi[order])


def merged_by_box(recoding: Recoding) -> Recoding:
    """The QI groups that publish one box as one; numbered by their boxes."""
    _, first, number = np.unique(_boxes(recoding), return_index=True, return_inverse=True)
    return replace(recoding, qi_group=_renumbered(recoding, number), lo=recoding.lo[first], hi=recoding.hi[first])


def _boxes(recoding: Recoding) -> Ints:
    """Numbers of the boxes in the order of their first cells, then of their last ones; int64 (g,)."""
    return row_numbers(np.concatenate([recoding.lo, recoding.hi], axis=1))


def _renumbered(recoding: Recoding, number: Ints) -> Ints:
    """Each row's QI group under its new number; number: int64 (g,)."""
    return np.append(number, SUPPRESSED)[recoding.qi_group]
