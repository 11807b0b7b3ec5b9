"""QI groups of several fragments, improved together where the fragments met (`plan`: regions).

A region is some whole QI groups. They are swept as `ordered` sweeps, from the QI groups as they stand, so a round never
loses, and every move keeps the model. In which fragment a group was, under which number and in which order its rows
came does not matter: rows enter in canonical form, groups in the order of the kinds of their rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from streamer.privacy.models import Model
from streamer.recoding.algorithms.catalog import numbered
from streamer.recoding.algorithms.contract import Options, Recoding, check
from streamer.recoding.algorithms.ordered import swept
from streamer.table.arrays import Ints, numbers_of
from streamer.table.microdata import Canonical, Microdata, canonical, multiset_ranks, numbered_by_rank

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
    seen = _as_grouped(canonical(microdata, chance), qi_group)
    recoding = swept(seen.microdata, model, seen.qi_group, options)
    recoding = numbered(recoding, chance)
    check(seen.microdata, model, recoding)
    by_row = np.empty(len(microdata), dtype=np.int64)
    by_row[seen.rows] = recoding.qi_group
    return replace(recoding, qi_group=by_row)


class _Grouped(NamedTuple):
    """A region in canonical form; rows: the number of each of its rows in the region as it came."""

    microdata: Microdata
    qi_group: Ints
    rows: Ints


def _as_grouped(seen: Canonical, qi_group: Ints) -> _Grouped:
    """Individuals who are alike but for their groups are told apart by these, and groups by what their rows are."""
    microdata, group = seen.microdata, qi_group[seen.rows]
    kind = numbers_of((*microdata.cells.T, *microdata.values.T), len(group))
    rank = multiset_ranks(group, kind)
    if microdata.individuals is None:
        return _Grouped(microdata, _in_order(rank, group)[group], seen.rows)
    who = microdata.individuals
    who = _in_order(multiset_ranks(who, numbers_of((kind, rank[group]), len(group))), who)[who]
    order = np.lexsort((who, kind))
    microdata = replace(microdata.rows(order), individuals=who[order])
    group, kind, who = group[order], kind[order], who[order]
    finer = multiset_ranks(group, numbers_of((kind, who), len(group)))
    return _Grouped(microdata, _in_order(numbers_of((rank, finer), len(rank)), group)[group], seen.rows[order])


def _in_order(rank: Ints, of_row: Ints) -> Ints:
    """New numbers for groups or individuals (g,) by their ranks, those of one rank by their first rows."""
    return numbered_by_rank(rank, np.unique(of_row, return_index=True)[1])
