"""Lossy join: a recoding published as two tables that only the number of the QI group joins.

The quasi-identifier table (QIT) says which cells occur in which QI group, ungeneralized and each once. Rows of a group
that agree in all cells are one row of it, of one individual or of several; else repeated rows would tell which
individuals have several records. The sensitive table (STT) has one row for every published row: QI group, individual,
kept values. Without declared individuals every row is one of its own.

Individuals are numbered within their QI group, and a number means nothing outside of it: a person with rows in several
groups has another number in each. With one number for the whole table, somebody known to be in two groups (by two ages,
say) would be almost the only one with a number in both, and all her sensitive values would be known. (Tong et al. keep
an individual's quasi-identifiers constant; there one number is one group.)

Each table is sorted by what it publishes: QIT by group and cells, STT by group and kept values. Individuals are
numbered as they first occur there. Rows that are alike are sorted by all that their individuals publish in the group,
then one individual after the other. Individuals who agree in all of these are interchangeable, so a number says nothing
about the source, its order or anybody's name. A privacy model speaks of what a QI group holds, not of its box, so it
holds for the join as it does for the recoding. Suppressed rows are in neither table.

Source: Tong et al. 2010, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from streamer.recoding.algorithms.contract import Recoding
from streamer.table.arrays import Ints, inverse_of, row_numbers
from streamer.table.microdata import INDIVIDUAL, Microdata, multiset_ranks


@dataclass(frozen=True)
class LossyJoin:
    """The two tables, of m and p rows. Groups are numbered as in the recoding, kept values as in the microdata."""

    # sorted by group and cells, no row twice
    qit_group: Ints = field(repr=False)  # int64 (m,)
    qit_cells: Ints = field(repr=False)  # int64 (m, d)
    # sorted by group and values
    stt_group: Ints = field(repr=False)  # int64 (p,)
    stt_individual: Ints = field(repr=False)  # int64 (p,), from 0 in every group
    stt_values: Ints = field(repr=False)  # int64 (p, kept)


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
    """Distinct rows in their order, int64 (m, c), and the number of each row (n, c) among them, (n,)."""
    _, first, number = np.unique(row_numbers(rows), return_index=True, return_inverse=True)
    return rows[first], number.astype(np.int64)


def _numbered_by_group(who: Ints, group: Ints) -> Ints:
    """Individuals numbered from 0 in every group as they first occur; group (n,): sorted, no individual is in two."""
    _, first, number = np.unique(who, return_index=True, return_inverse=True)
    rank = inverse_of(np.argsort(first))
    begins = np.searchsorted(group, group)
    return rank[number] - rank[number[begins]]
