"""Lossy join: a recoding published as two tables that only the number of the QI group joins.

The quasi-identifier table (QIT) says which cells occur in which QI group, ungeneralized and each once: repeated rows
would tell which of the individuals have several records. The sensitive table (STT) has one row for every published
row: QI group, individual, kept values. Without declared individuals every row is one of its own. Nothing but the QI
group joins the two. Each is sorted by what it publishes: QIT by group and cells, STT by group and kept values.
Individuals are numbered as they first occur there; rows that are alike stand by all the published rows of their
individuals, then one individual after the other. Individuals who agree in all of these are interchangeable, so a
number says nothing about the source, its order or anybody's name. A privacy model speaks of what a QI group holds, not
of its box; it holds for the join as it does for the recoding. Suppressed rows are in neither table.

Source: Tong et al. 2010, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from streamer.recoding.algorithms.recoding import Recoding
from streamer.table.arrays import Ints
from streamer.table.microdata import INDIVIDUAL, Microdata


@dataclass(frozen=True)
class LossyJoin:
    """The two tables. Groups are numbered as in the recoding, individuals from 0, kept values as in the microdata.

    QIT, sorted by group and cells, no row twice: qit_group int64 (m,), qit_cells int64 (m, d).
    STT, sorted by group and values: stt_group int64 (p,), stt_individual int64 (p,), stt_values int64 (p, kept).
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
    who = np.unique(microdata.subject(INDIVIDUAL)[rows], return_inverse=True)[1]
    order = np.lexsort((who, _by_what_is_published(who, kind)[who], kind))
    return LossyJoin(qit[:, 0], qit[:, 1:], group[order], _by_first(who[order]), stt[kind[order], 1:])


def _distinct(rows: Ints) -> tuple[Ints, Ints]:
    """Distinct rows in their order, and the place of each among them; rows int64 (n, c) -> (m, c), (n,)."""
    order = np.lexsort(rows.T[::-1])
    along = rows[order]
    is_new = np.ones(len(rows), dtype=np.bool_)
    is_new[1:] = (along[1:] != along[:-1]).any(axis=1)
    place = np.empty(len(rows), dtype=np.int64)
    place[order] = np.cumsum(is_new) - 1
    return along[is_new], place


def _by_what_is_published(who: Ints, kind: Ints) -> Ints:
    """A number for every individual, equal for those whose rows are of equal kinds: an order made of kinds alone.

    who: int64 (n,), from 0 without gaps; kind: int64 (n,). By the number of rows, then by their kinds, sorted.
    """
    along = kind[np.lexsort((kind, who))]
    n_rows = np.bincount(who)
    begins = np.cumsum(n_rows) - n_rows
    number = np.zeros(len(n_rows), dtype=np.int64)
    having, at = np.arange(len(n_rows)), 0
    while len(having):  # the row after those that were looked at, of all who have one more
        pairs = np.column_stack([number[having], along[begins[having] + at]])
        number[having] = _distinct(pairs)[1]
        at += 1
        having = having[n_rows[having] > at]
    return _distinct(np.column_stack([n_rows, number]))[1]


def _by_first(who: Ints) -> Ints:
    """The individuals numbered from 0 as they first occur."""
    _, first, number = np.unique(who, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[number]
