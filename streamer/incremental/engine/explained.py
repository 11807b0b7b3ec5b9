"""Explains why a row is in its QI group, and what happens to the group next: from a store, without an engine.

The rules of this file
----------------------
* A row joins the QI group that contains it, else the most similar one (T-QGSSD); ties: the smallest box (NCP), then
  fewer members, then the lower number. Boxes have moved since the row came, so by the present boxes its own group need
  not be the first.
* The group to merge with follows from the present boxes, too. A loss may shrink a group's box first, and then another
  one may be nearer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from streamer.incremental.engine.stored_state import QIGroupState
from streamer.privacy.models import Margin, margins, model_of
from streamer.table.arrays import Floats, Ints
from streamer.table.encode import EncodedRows
from streamer.table.microdata import microdata_of
from streamer.table.row import Row
from streamer.table.schema import Table
from streamer.table.space import Space, in_order

# The two similarities, attribute by attribute, over all QI groups at once: the same float64 operations as in
# `streamer.incremental.core.scores`, which sums these terms.

HALF_CODE = HALF_UNIT = 0.5


def t_qgssd_terms(space: Space, cells: Ints, lo: Ints, hi: Ints) -> Floats:
    """SSD (definition 6) of a row with cells (d,) to the boxes lo, hi (g, d), per attribute; float64 (g, d)."""
    first, last = space.edges(lo, hi)
    center = (first + last) / 2
    half = np.maximum(np.maximum(last - center, center - first), HALF_CODE)
    terms = half / np.maximum(np.abs(space.middles(cells) - center), half)
    for j, tree in space.trees:
        node = tree.cover_many(np.minimum(lo[:, j], cells[j]), np.maximum(hi[:, j], cells[j]))
        terms[:, j] = (hi[:, j] - lo[:, j] + 1) / (tree.node_hi[node] - tree.node_lo[node] + 1)
    return np.asarray(space.weight * terms)


def qgssd_terms(space: Space, own_lo: Ints, own_hi: Ints, lo: Ints, hi: Ints) -> Floats:
    """QGSSD (definition 7) of one box, (d,) and (d,), to the boxes lo, hi (g, d), per attribute; float64 (g, d)."""
    middle = sum(space.edges(own_lo, own_hi)) / 2
    distance = np.abs(sum(space.edges(lo, hi)) / 2 - middle)
    for j, tree in space.trees:
        node = tree.cover_many(np.minimum(lo[:, j], own_lo[j]), np.maximum(hi[:, j], own_hi[j]))
        leaves = tree.node_hi[node] - tree.node_lo[node] + 1
        distance[:, j] = leaves - (hi[:, j] - lo[:, j] + own_hi[j] - own_lo[j] + 2) / 2
    return np.asarray(space.weight * (1.0 / np.maximum(distance / space.unit_codes, HALF_UNIT)))


@dataclass(frozen=True, slots=True)
class Similar:
    """The similarity of one QI group to a row or another group."""

    number: int
    place: int  # among all QI groups, from 1, by the rule that decides
    terms: tuple[float, ...]  # by attribute
    total: float  # their sum
    contains: bool = False  # the row lies in its box


def similar_to_row(
    table: Table, row: Row, own: int, qi_groups: Mapping[int, QIGroupState], count: int
) -> list[Similar]:
    """A row's own QI group, then the `count` others that it would join first. own: 0 for a pending row."""
    if not qi_groups:
        return []
    space = table.space
    numbers, lo, hi = _boxes(qi_groups)
    cells = space.cells(np.array(row.codes, dtype=np.int64))
    terms = t_qgssd_terms(space, cells, lo, hi)
    contains, ncp = space.contains(lo, hi, cells), space.ncp(lo, hi)
    sizes = np.array([len(state.members) for state in qi_groups.values()])
    total = in_order(terms)
    score = np.where(contains, np.inf, total)  # containment decides, never a sum
    order = np.lexsort((numbers, sizes, ncp, -score))
    places = (order.argsort() + 1).tolist()
    wanted = [*order[numbers[order] == own], *order[numbers[order] != own][:count]]
    return [
        Similar(int(numbers[i]), places[i], tuple(terms[i].tolist()), float(total[i]), bool(contains[i]))
        for i in wanted
    ]


def nearest_to(table: Table, own: int, qi_groups: Mapping[int, QIGroupState], count: int) -> list[Similar]:
    """The `count` other QI groups of highest QGSSD, in the order in which a merge takes them."""
    others = {number: state for number, state in qi_groups.items() if number != own}
    if not others:
        return []
    space, state = table.space, qi_groups[own]
    numbers, lo, hi = _boxes(others)
    terms = qgssd_terms(space, np.array(state.lo), np.array(state.hi), lo, hi)
    total: Floats = in_order(terms)
    sizes = np.array([len(other.members) for other in others.values()])
    order = np.lexsort((numbers, sizes, space.ncp(lo, hi), -total))
    return [
        Similar(int(numbers[i]), place, tuple(terms[i].tolist()), float(total[i]))
        for place, i in enumerate(order[:count].tolist(), start=1)
    ]


def slack(table: Table, rows: Sequence[Row]) -> list[Margin]:
    """The rows that a QI group can spare, for each constraint of the table's model."""
    model, named = model_of(table), {str(i): row for i, row in enumerate(rows)}
    members = microdata_of(table, EncodedRows.of_rows(named, table.space.d))
    return list(margins(table, model, members.subjects(model.subjects)))


def _boxes(qi_groups: Mapping[int, QIGroupState]) -> tuple[Ints, Ints, Ints]:
    """Numbers (g,) and boxes (g, d), (g, d) of QI groups."""
    numbers = np.fromiter(qi_groups, np.int64, len(qi_groups))
    box = np.array([(state.lo, state.hi) for state in qi_groups.values()], dtype=np.int64)
    return numbers, box[:, 0], box[:, 1]
