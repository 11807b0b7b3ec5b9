"""One table recoded at any node of its lattice: how many rows would have to be suppressed there, and what it publishes.

A *node* is one level for every attribute (`attribute.levels`): all rows are recoded alike. QI groups are the distinct
recoded rows, numbered by their first row; the rows of those that do not hold the model are suppressed, and no others.

Rows that agree in all cells agree at every node, so nodes are tested on distinct rows with their counts. Higher nodes
go further: where a node left few QI groups, the nodes above it are tested on one row of each of them (the roll-up of
LeFevre et al. 2005), and such rows are kept as long as they come to no more than ROLL_UP_MAX times the table. A
recoded row is one number in mixed radix; where 62 bits are too few for it, the attributes so far are renumbered by the
combinations that occur, so that nothing ever wraps around.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamer.jit import compiled
from streamer.privacy.compiled import Rules, Scratch, holds_together, rules_of, scratch_for
from streamer.privacy.models import Model
from streamer.recoding.algorithms.lattice_search import Node
from streamer.table.arrays import Ints
from streamer.table.levels import Levels, value_numbers
from streamer.table.microdata import Microdata
from streamer.table.vectors import NUMBERS_MAX

ROLL_UP_MAX = 4
"""Rows kept for roll-ups, as a multiple of the table's distinct rows."""


class _Rows(NamedTuple):
    """Rows that stand for all rows at and above a node: first int64 (m,), numbers of distinct rows; weight (m,)."""

    first: Ints
    weight: Ints


class FullDomain:
    """A table and a model, asked node by node; n_levels: of every attribute."""

    def __init__(self, microdata: Microdata, model: Model) -> None:
        self._cells, self._model = microdata.cells, model
        self._levels: Sequence[Levels] = [attribute.levels for attribute in microdata.table.attributes]
        self.n_levels: Node = tuple(levels.n_levels for levels in self._levels)
        self._recodings, cell_numbers = _recodings(self._levels, self._cells)
        everyone = np.arange(len(microdata), dtype=np.int64)
        bottom = (0,) * len(self.n_levels)
        self._distinct, n_distinct = self._groups(bottom, cell_numbers, everyone)
        weight, first = _tally(self._distinct, n_distinct, np.ones_like(everyone))
        self._cell_numbers = np.take(cell_numbers, first, axis=1)
        self._kept = [_Rows(np.arange(n_distinct), weight)]
        self._nodes = np.array([bottom], dtype=np.int64)  # of those kept
        self._rows_left = ROLL_UP_MAX * n_distinct
        self._rules = rules_of(model, microdata.subjects(model.subjects))
        self._scratch = scratch_for(self._rules)

    def n_suppressed(self, node: Node, allowed: int) -> int:
        """Rows in QI groups that do not hold at the node; where these are more than `allowed`, any number above it."""
        rows = self._rows_below(node)
        group, n_groups = self._groups(node, self._cell_numbers, rows.first)
        size, first = _tally(group, n_groups, rows.weight)
        if 2 * n_groups <= len(rows.first) and n_groups <= self._rows_left:
            self._keep(node, _Rows(rows.first[first], size))
        small = int(size[size < self._model.rows_min].sum())
        if small > allowed or not self._model.subjects:
            return small
        return _suppressed(self._rules, self._scratch, *self.qi_groups(node), allowed)

    def qi_groups(self, node: Node) -> tuple[Ints, int]:
        """The QI group of every row at the node, int64 (n,), and how many there are."""
        group, n_groups = self._groups(node, self._cell_numbers, np.arange(self._cell_numbers.shape[1]))
        return group[self._distinct], n_groups

    def boxes(self, node: Node, rows: Ints) -> tuple[Ints, Ints]:
        """What the node publishes for the rows with these numbers, int64 (m,); two int64 (m, d), cells."""
        cells = self._cells[rows].T
        ends = [levels.recode(level, column) for levels, level, column in zip(self._levels, node, cells, strict=True)]
        return np.stack([lo for lo, _ in ends], axis=1), np.stack([hi for _, hi in ends], axis=1)

    def _rows_below(self, node: Node) -> _Rows:
        """The fewest kept rows that stand for all at the node; of equally many the first kept."""
        below = np.flatnonzero((self._nodes <= np.array(node)).all(axis=1))
        return min((self._kept[i] for i in below.tolist()), key=lambda rows: len(rows.first))

    def _keep(self, node: Node, rows: _Rows) -> None:
        self._kept.append(rows)
        self._nodes = np.concatenate([self._nodes, np.array([node])])
        self._rows_left -= len(rows.first)

    def _groups(self, node: Node, cell_numbers: Ints, rows: Ints) -> tuple[Ints, int]:
        """Groups, by first row, of rows that are equal at the node, and how many; cell_numbers (d, n), rows (m,)."""
        group, n_groups = np.zeros(len(rows), dtype=np.int64), 1
        for j, level in enumerate(node):
            numbers, count = self._recodings[j][level]
            if count == 1:
                continue
            if n_groups * count > NUMBERS_MAX:
                group, n_groups = _renumbered(group, n_groups)
            _refine(group, count, numbers, cell_numbers[j], rows)
            n_groups *= count
        return _renumbered(group, n_groups)


def _recodings(levels: Sequence[Levels], cells: Ints) -> tuple[list[list[tuple[Ints, int]]], Ints]:
    """By attribute and level: numbers of what is published for the cells that occur, and how many these are.

    And every row's cell as its number among those that occur; int64 (d, n).
    """
    recodings, cell_numbers = [], np.empty(cells.T.shape, dtype=np.int64)
    for j, of_attribute in enumerate(levels):
        used, cell_numbers[j] = np.unique(cells[:, j], return_inverse=True)
        numbers = [value_numbers(of_attribute, level, used) for level in range(of_attribute.n_levels)]
        recodings.append([(of_level, int(of_level.max(initial=-1)) + 1) for of_level in numbers])
    return recodings, cell_numbers


@compiled
def _refine(group: Ints, count: int, numbers: Ints, cell_numbers: Ints, rows: Ints) -> None:
    """Appends one attribute's digit, one of `count`, to the number of every row's group, in place."""
    for i in range(rows.shape[0]):
        group[i] = group[i] * count + numbers[cell_numbers[rows[i]]]


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
    for i in range(m):
        number = numbers[i]
        if n_numbers <= size:
            bucket = number
        else:  # Fibonacci hashing, then linear probing
            bucket = np.int64((np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits))
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
