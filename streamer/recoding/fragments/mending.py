"""QI groups of several fragments, improved together where the fragments met (`plan`: regions).

A region is some whole QI groups. They are swept as `ordered` sweeps, from the QI groups as they stand, so a round never
loses, and every move keeps the model. In which fragment a group was, under which number and in which order its rows
came does not matter: rows enter in canonical form, groups in the order of the kinds of their rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streamer.privacy.models import Model
from streamer.recoding.algorithms.catalog import merged_by_box, numbered
from streamer.recoding.algorithms.contract import Options, Recoding, check
from streamer.recoding.algorithms.ordered import swept
from streamer.table.arrays import Ints, numbers_of
from streamer.table.microdata import Microdata, canonical, multiset_ranks

ROUNDS = 2


def centers(lo: Ints, hi: Ints) -> Ints:
    """The middle cell of each box, by which a QI group is sent to a region; int64, as lo."""
    return (lo + hi) // 2


def mended(microdata: Microdata, model: Model, qi_group: Ints, options: Options) -> Recoding:
    """Sweeps over the QI groups of a region; qi_group: int64 (n,), from 0 without gaps.

    QI groups are in the order of their boxes, those of one box as `options.chance` says. Raises LawViolated if the
    answer is wrong.
    """
    chance = np.random.default_rng(options.chance)
    seen = canonical(microdata, chance)
    recoding = swept(seen.microdata, model, _in_order_of_kinds(seen.microdata, qi_group[seen.rows]), options)
    if options.merge_equal_boxes:
        recoding = merged_by_box(recoding)
    recoding = numbered(recoding, chance)
    check(seen.microdata, model, recoding)
    by_row = np.empty(len(microdata), dtype=np.int64)
    by_row[seen.rows] = recoding.qi_group
    return replace(recoding, qi_group=by_row)


def _in_order_of_kinds(microdata: Microdata, qi_group: Ints) -> Ints:
    """The groups, numbered by what their rows are; rows in canonical form."""
    who = () if microdata.individuals is None else (microdata.individuals,)
    kind = numbers_of((*microdata.cells.T, *microdata.values.T, *who), len(microdata))
    rank = multiset_ranks(qi_group, kind)
    first = np.unique(qi_group, return_index=True)[1]
    number = np.empty(len(first), dtype=np.int64)
    number[np.lexsort((first, rank))] = np.arange(len(first))
    return number[qi_group]
