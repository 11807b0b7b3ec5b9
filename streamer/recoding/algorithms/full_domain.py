"""One table recoded at any node of its lattice: how many rows would have to be suppressed there, and what it publishes.

A *node* is one level for every attribute (`attribute.levels`): all rows are recoded alike. QI groups are the distinct
recoded rows, numbered by their first row; the rows of those that do not hold the model are suppressed, and no others.

Rows that agree in all cells agree at every node, so nodes are tested on distinct rows with their counts. Higher nodes
go further: where a node left few QI groups, the nodes above it are tested on one row of each of them (the roll-up of
LeFevre et al. 2005), and such rows are kept as long as they come to no more than ROLL_UP_MAX times the table and
NODES_KEPT_MAX nodes. A recoded row is one number in mixed radix; where 62 bits are too few for it, the attributes so
far are renumbered by the combinations that occur, so that nothing ever wraps around. A lattice asks for tens of
thousands of nodes: a test is one call of compiled code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamer.jit import compiled
from streamer.privacy.compiled import Rules, Scratch, holds_together, rules_of, scratch_for
from streamer.privacy.models import Model
from streamer.recoding.algorithms.lattice_nodes import Node
from streamer.table.arrays import Ints
from streamer.table.levels import Levels, value_numbers
from streamer.table.microdata import Microdata
from streamer.table.vectors import NUMBERS_MAX

ROLL_UP_MAX = 4
"""Rows kept for roll-ups, as a multiple of the table's distinct rows."""


NODES_KEPT_MAX = 4_096
"""Nodes whose rows are kept for roll-ups: each test looks through them."""


class _Recodings(NamedTuple):
    """The levels of d attributes over the cells that occur.

    What attribute j says at a level of its cell number c stands at start[j, level] + c of `value`, a number below
    n_values[j, level]; start, n_values: int64 (d, levels). cells: int64 (d, m), the cell numbers of the distinct rows.
    """

    value: Ints
    start: Ints
    n_values: Ints
    cells: Ints
    numbers_max: int


class _Kept(NamedTuple):
    """Rows that stand for all rows at and above some nodes.

    nodes int64 (NODES_KEPT_MAX, d); rows begins[i] to begins[i + 1] are those of node i: first, a distinct row, and
    weight, of how many rows; n (1,): how many nodes.
    """

    nodes: Ints
    begins: Ints
    first: Ints
    weight: Ints
    n: Ints


class FullDomain:
    """A table and a model, asked node by node; n_levels: of every attribute."""

    def __init__(self, microdata: Microdata, model: Model) -> None:
        self._cells, self._model = microdata.cells, model
        self._levels: Sequence[Levels] = [attribute.levels for attribute in microdata.table.attributes]
        self.n_levels: Node = tuple(levels.n_levels for levels in self._levels)
        everyone = np.arange(len(microdata), dtype=np.int64)
        bottom = np.zeros(len(self.n_levels), dtype=np.int64)
        of_all = _recodings(self._levels, self._cells)
        self._distinct, n_distinct = _grouped(of_all, bottom, everyone)
        weight, first = _tally(self._distinct, n_distinct, np.ones_like(everyone))
        self._recodings = of_all._replace(cells=np.take(of_all.cells, first, axis=1))
        self._kept = _kept(bottom, weight)
        self._rules = rules_of(model, microdata.subjects(model.subjects))
        self._scratch = scratch_for(self._rules)

    def n_suppressed(self, node: Node, allowed: int) -> int:
        """Rows in QI groups that do not hold at the node; where these are more than `allowed`, any number above it."""
        small = _n_small(self._recodings, self._kept, np.array(node, dtype=np.int64), self._model.rows_min)
        if small > allowed or not self._model.subjects:
            return int(small)
        return _suppressed(self._rules, self._scratch, *self.qi_groups(node), allowed)

    def qi_groups(self, node: Node) -> tuple[Ints, int]:
        """The QI group of every row at the node, int64 (n,), and how many there are."""
        everyone = np.arange(self._recodings.cells.shape[1])
        group, n_groups = _grouped(self._recodings, np.array(node, dtype=np.int64), everyone)
        return group[self._distinct], n_groups

    def boxes(self, node: Node, rows: Ints) -> tuple[Ints, Ints]:
        """What the node publishes for the rows with these numbers, int64 (m,); two int64 (m, d), cells."""
        cells = self._cells[rows].T
        ends = [levels.recode(level, column) for levels, level, column in zip(self._levels, node, cells, strict=True)]
        return np.stack([lo for lo, _ in ends], axis=1), np.stack([hi for _, hi in ends], axis=1)


def _recodings(levels: Sequence[Levels], cells: Ints) -> _Recodings:
    """The recodings of all rows; cells int64 (n, d)."""
    values, at = [], 0
    start, n_values = np.zeros((2, len(levels), max(each.n_levels for each in levels)), dtype=np.int64)
    numbers = np.empty(cells.T.shape, dtype=np.int64)
    for j, of_attribute in enumerate(levels):
        used, numbers[j] = np.unique(cells[:, j], return_inverse=True)
        for level in range(of_attribute.n_levels):
            value = value_numbers(of_attribute, level, used)
            values.append(value)
            start[j, level], n_values[j, level] = at, value.max(initial=-1) + 1
            at += len(used)
    return _Recodings(np.concatenate(values), start, n_values, numbers, NUMBERS_MAX)


def _kept(bottom: Ints, weight: Ints) -> _Kept:
    """The distinct rows, which stand for all at the bottom, and room for more."""
    n_distinct = len(weight)
    first, weights = np.zeros((2, (1 + ROLL_UP_MAX) * n_distinct), dtype=np.int64)
    first[:n_distinct], weights[:n_distinct] = np.arange(n_distinct), weight
    nodes, begins = (
        np.zeros((NODES_KEPT_MAX, len(bottom)), dtype=np.int64),
        np.zeros(NODES_KEPT_MAX + 1, dtype=np.int64),
    )
    nodes[0], begins[1] = bottom, n_distinct
    return _Kept(nodes, begins, first, weights, np.ones(1, dtype=np.int64))


@compiled
def _n_small(recodings: _Recodings, kept: _Kept, node: Ints, rows_min: int) -> int:
    """Rows in QI groups of fewer than rows_min rows at the node; keeps the groups where they are few."""
    i = _fewest_below(kept, node)
    rows, weight = kept.first[kept.begins[i] : kept.begins[i + 1]], kept.weight[kept.begins[i] : kept.begins[i + 1]]
    group, n_groups = _grouped(recodings, node, rows)
    size, first = _tally(group, n_groups, weight)
    n, begin = kept.n[0], kept.begins[kept.n[0]]
    if 2 * n_groups <= len(rows) and n < len(kept.nodes) and begin + n_groups <= len(kept.first):
        kept.nodes[n] = node
        kept.first[begin : begin + n_groups] = rows[first]
        kept.weight[begin : begin + n_groups] = size
        kept.begins[n + 1], kept.n[0] = begin + n_groups, n + 1
    small = 0
    for rows_of_group in size:
        if rows_of_group < rows_min:
            small += rows_of_group
    return small


@compiled
def _fewest_below(kept: _Kept, node: Ints) -> int:
    """Of the nodes kept at or below this one that with the fewest rows; of equally many the first kept."""
    best, fewest = 0, kept.begins[1]
    for i in range(1, kept.n[0]):
        n_rows = kept.begins[i + 1] - kept.begins[i]
        if n_rows < fewest and (kept.nodes[i] <= node).all():
            best, fewest = i, n_rows
    return best


@compiled
def _grouped(recodings: _Recodings, node: Ints, rows: Ints) -> tuple[Ints, int]:
    """Groups, by first row, of distinct rows (m,) that are equal at the node, and how many; int64 (m,)."""
    group, n_groups = np.zeros(len(rows), dtype=np.int64), 1
    for j in range(len(node)):
        count, start = recodings.n_values[j, node[j]], recodings.start[j, node[j]]
        if count == 1:
            continue
        if n_groups > recodings.numbers_max // count:
            group, n_groups = _renumbered(group, n_groups)
        for i in range(len(rows)):
            group[i] = group[i] * count + recodings.value[start + recodings.cells[j, rows[i]]]
        n_groups *= count
    return _renumbered(group, n_groups)


@compiled
def _renumbered(numbers: Ints, n_numbers: int) -> tuple[Ints, int]:
    """The same classes numbered from 0 by first occurrence, and how many; numbers int64 (m,), below n_numbers."""
    m = numbers.shape[0]
    bits = 1
    while (1 << bits) < 2 * m:
        bits += 1
    size = 1 << bits
    buckets = np.full(size, -1, dtype=np.int32)
    known = np.empty(m, dtype=np.int64)
    out = np.empty(m, dtype=np.int64)
    count = 0
    homes = numbers
    if n_numbers > size:  # Fibonacci hashing, then linear probing; arrays of numbers may wrap around, single ones not
        homes = ((numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits)).astype(np.int64)
    for i in range(m):
        number, bucket = numbers[i], homes[i]
        while buckets[bucket] >= 0 and known[buckets[bucket]] != number:
            bucket = (bucket + 1) & (size - 1)
        if buckets[bucket] < 0:
            buckets[bucket] = count
            known[count] = number
            count += 1
        out[i] = buckets[bucket]
    return out, count


@compiled
def _tally(group: Ints, n_groups: int, weight: Ints) -> tuple[Ints, Ints]:
    """Total weight and first row of every group; two int64 (n_groups,)."""
    total = np.zeros(n_groups, dtype=np.int64)
    first = np.empty(n_groups, dtype=np.int64)
    for i in range(group.shape[0] - 1, -1, -1):
        total[group[i]] += weight[i]
        first[group[i]] = i
    return total, first


@compiled
def _suppressed(rules: Rules, scratch: Scratch, group: Ints, n_groups: int, allowed: int) -> int:
    """Rows in groups that do not hold; stops once they are more than allowed."""
    ends = np.zeros(n_groups + 1, dtype=np.int64)
    for g in group:
        ends[g + 1] += 1
    ends = np.cumsum(ends)
    members = np.empty(group.shape[0], dtype=np.int64)
    at = ends[:-1].copy()
    for i in range(group.shape[0]):
        members[at[group[i]]] = i
        at[group[i]] += 1
    out = 0
    for g in range(n_groups):
        if not holds_together(rules, scratch, members[ends[g] : ends[g + 1]]):
            out += ends[g + 1] - ends[g]
            if out > allowed:
                break
    return out
