"""Lossy join: a recoding published as two tables that only the number of the QI group joins.

The quasi-identifier table (QIT) says which cells occur in which QI group, ungeneralized and each once: the rows of a
group that agree in all their cells are one row of it, whether they are one individual's or several individuals'; else
repeated rows would tell which of the individuals have several records. The sensitive table (STT) has one row for every
published row: QI group, individual, kept values. Without declared individuals every row is one of its own.

Individuals are numbered within their QI group, and a number says nothing outside of it: a person with rows in several
groups has another number in each. Were they one number over the whole table, then of two groups where somebody is known
to be (by two ages, say) hardly anybody else would be in both, and all this individual's sensitive values would be
known. (Tong et al. keep an individual's quasi-identifiers constant; there one number is one group.)

Nothing but the QI group joins the two. Each is sorted by what it publishes: QIT by group and cells, STT by group and
kept values. Individuals are numbered as they first occur there; rows that are alike stand by all that their individuals
publish in the group, then one individual after the other. Individuals who agree in all of these are interchangeable, so
a number says nothing about the source, its order or anybody's name. A privacy model speaks of what a QI group holds,
not of its box; it holds for the join as it does for the recoding. Suppressed rows are in neither table.

Source: Tong et al. 2010, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from streamer.recoding.algorithms.contract import Recoding
from streamer.table.arrays import Ints, row_numbers
from streamer.table.microdata import INDIVIDUAL, Microdata, multiset_ranks


@dataclass(frozen=True)
class LossyJoin:
    """The two tables. Groups are numbered as in the recoding, kept values as in the microdata.

    QIT, sorted by group and cells, no row twice: qit_group int64 (m,), qit_cells int64 (m, d).
    STT, sorted by group and values: stt_group int64 (p,), stt_individual int64 (p,), from 0 in every group,
    stt_values int64 (p, kept).
    """

    qit_group: Ints = field(repr=False)
    qit_cells: Ints = field(repr=False)
    stt_group: Ints = field(repr=False)
    stt_individual: Ints = field(repr=False)
    stt_values: Ints = field(repr=False)


def lossy_join(microdata: Microdata, recoding: Recoding) -> LossyJoin:
    """Publishes the rows of a recoding without generalizing them."""
    rows = np.flatnonzero(recoding.qi_group >= 0)
    group = recoding.qi_group[rows]
    qit, _ = _distinct(np.column_stack([group, microdata.cells[rows]]))
    stt, kind = _distinct(np.column_stack([group, microdata.values[rows]]))
    who = _distinct(np.column_stack([group, microdata.subject(INDIVIDUAL)[rows]]))[1]
    order = np.lexsort((who, multiset_ranks(who, kind)[who], kind))
    individual = _numbered_by_group(who[order], group[order])
    return LossyJoin(qit[:, 0], qit[:, 1:], group[order], individual, stt[kind[order], 1:])


def _distinct(rows: Ints) -> tuple[Ints, Ints]:
    """Distinct rows in their order, and the place of each among them; rows int64 (n, c) -> (m, c), (n,)."""
    _, first, place = np.unique(row_numbers(rows), return_index=True, return_inverse=True)
    return rows[first], place.astype(np.int64)


def _numbered_by_group(who: Ints, group: Ints) -> Ints:
    """Individuals numbered from 0 in every group as they first occur; group: int64 (n,), sorted, nobody in two."""
    _, first, place = np.unique(who, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    begins = np.searchsorted(group, group)
    return rank[place] - rank[place[begins]]
