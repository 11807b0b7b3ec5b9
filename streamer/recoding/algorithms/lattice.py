"""Full-domain recoding: one level for every attribute, the best of all that hold, found by OLA or degree first.

A *node* is one level for every attribute (`attribute.levels`): all rows are recoded alike. QI groups are the distinct
recoded rows, numbered by their first row. A node is *good* if the QI groups that do not hold the model have together at
most floor(suppression x rows) rows; these rows are suppressed, and no others. Going up merges QI groups, and all models
are closed under union, so without suppression the ancestors of a good node are good. With suppression that needs a
growing model, because a group that does not hold may spoil the shares of one that did; so shares together with
suppression are an objection. The top node needs no test: before any algorithm runs, the whole table is found to hold.
Levels that `coarsest` forbids are not in the lattice; then its top is tested.

The loss of a node is the mean over the attributes, by their weights, of level / highest level (Hu et al. 2011, equation
1), compared exactly; an attribute of one level loses nothing. It grows with every step up, so the least loss is that of
a minimal node; of several the one with fewest suppressed rows, then the lexicographically lowest. So OLA and degree
first give the same table; they differ in the nodes they test.

**The lattice.** Nodes are numbered in mixed radix, so their numbers are in the lexicographic order of their levels. The
*ancestors* of a node are as high or higher in every attribute, its *descendants* as low or lower; *parents* and
*children* are one level away in one attribute. The ancestors of a good node are good, the descendants of a bad one bad,
so every test classifies a box of nodes. The *minimal* nodes are good nodes without a good child.

**A test** looks at distinct vectors of cells with their counts (`vectors`), or, above a node that left few QI groups,
at one vector of each of these (roll-up). A lattice asks for tens of thousands of tests, so each is a few calls of
compiled code. Both searches, roll-ups and ties: docs/explanation/algorithms.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import accumulate
from math import lcm, prod
from operator import mul
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamer.kernels.counts import CountTable, entry_of
from streamer.kernels.distributions import shortage
from streamer.kernels.shares import keeps_share
from streamer.native import compiled, inlined
from streamer.privacy.compiled import Rules, rules_of
from streamer.privacy.distributions import laws_of
from streamer.privacy.models import Model
from streamer.recoding.algorithms.contract import (
    LIMITED,
    STAYING,
    SUPPRESSED,
    Algorithm,
    Options,
    Recoding,
    require_narrow,
)
from streamer.recoding.algorithms.vectors import Pairs, VectorCounts, vector_counts
from streamer.table.arrays import NUMBERS_MAX, Bools, Ints
from streamer.table.codes import Attribute
from streamer.table.hierarchy import Levels, value_numbers
from streamer.table.microdata import IN_REFERENCE, Microdata, Subject
from streamer.table.schema import Table
from streamer.table.space import Space

Tags = npt.NDArray[np.int8]
LatticeLevels = npt.NDArray[np.int16]
Node = tuple[int, ...]
IsGood = Callable[[Node], bool]

UNKNOWN, GOOD, BAD = 0, 1, 2


class LatticeShape(NamedTuple):
    """The part of a lattice that never changes."""

    n_levels: Ints  # (d,)
    strides: Ints  # (d,) of the nodes' numbers
    levels: LatticeLevels  # (nodes, d)


class Marks(NamedTuple):
    """The knowledge of the nodes, and the memory of walks over them; (nodes,) each."""

    tags: Tags
    clear: Ints  # the other corner of a box around the node in which everything is classified; -1
    todo: Ints
    seen: Ints


class Lattice:
    """Which nodes are known to be good or bad; tested: how many were tested.

    >>> lattice = Lattice((2, 3), lambda node: sum(node) >= 2)
    >>> lattice.is_good(lattice.number((0, 2))), lattice.n_unknown
    (True, 4)
    """

    def __init__(self, n_levels: Node, test: IsGood) -> None:
        strides = [*accumulate(reversed(n_levels[1:]), mul, initial=1)][::-1]
        self.n_nodes = self.n_unknown = prod(n_levels)
        levels = np.indices(n_levels, dtype=np.int16).reshape(len(n_levels), -1).T.copy()
        self.shape = LatticeShape(np.array(n_levels, dtype=np.int64), np.array(strides, dtype=np.int64), levels)
        todo, seen = np.empty((2, self.n_nodes), dtype=np.int64)
        self.marks = Marks(np.zeros(self.n_nodes, dtype=np.int8), np.full(self.n_nodes, -1), todo, seen)
        self.tested = 0
        self._test = test
        self._mark(self.n_nodes - 1, True)

    @property
    def tags(self) -> Tags:
        """UNKNOWN, GOOD or BAD by number."""
        return self.marks.tags

    def number(self, node: Node) -> int:
        return int(np.dot(self.shape.strides, node))

    def node(self, number: int) -> Node:
        return tuple(self.shape.levels[number].tolist())

    def is_good(self, number: int) -> bool:
        """True if the node is good: by what is known, else by a test."""
        if self.tags[number] == UNKNOWN:
            self.tested += 1
            self._mark(number, self._test(self.node(number)))
        return bool(self.tags[number] == GOOD)

    def _mark(self, number: int, good: bool) -> None:
        """Classifies a node, and its ancestors if it is good, or its descendants if it is not."""
        self.n_unknown -= _classify(self.shape, self.marks, number, GOOD if good else BAD)

    def minimal(self) -> list[Node]:
        """The good nodes without a good child, in the order of their numbers."""
        numbers = np.flatnonzero(self.tags == GOOD)
        lowest = np.ones(len(numbers), dtype=np.bool_)
        for j, stride in enumerate(self.shape.strides):
            above = self.shape.levels[numbers, j] > 0
            lowest[above] &= self.tags[numbers[above] - stride] != GOOD
        return [self.node(number) for number in numbers[lowest].tolist()]


@compiled
def _classify(shape: LatticeShape, marks: Marks, number: int, tag: int) -> int:
    """Tags an unclassified node, and what is unclassified above it (GOOD) or below it (BAD); returns how many.

    All of that can be reached over unclassified nodes, because what lies between two of them is unclassified.
    """
    tags, todo, step = marks.tags, marks.todo, 1 if tag == GOOD else -1
    tags[number], todo[0] = tag, number
    waiting, count = 1, 0
    while waiting > 0:
        waiting -= 1
        count += 1
        node = todo[waiting]
        for j in range(shape.strides.shape[0]):
            end = shape.n_levels[j] - 1 if tag == GOOD else 0
            if shape.levels[node, j] != end:
                other = node + step * shape.strides[j]
                if tags[other] == UNKNOWN:
                    tags[other], todo[waiting] = tag, other
                    waiting += 1
    return count


ROLL_UP_MAX = 4
"""Rows kept for roll-ups, as a multiple of the table's distinct rows."""

NODES_KEPT_MAX = 4_096
"""Nodes whose rows are kept for roll-ups: each test looks through all of them."""


class _Recodings(NamedTuple):
    """The levels of d attributes over the cells that occur.

    Attribute j publishes of its cell number c at a level value[start[j, level] + c], a number below n_values[j, level].
    """

    value: Ints
    start: Ints  # (d, levels)
    n_values: Ints  # (d, levels)
    cells: Ints  # (d, m) the cell numbers of the vectors
    numbers_max: int


class _KeptNodes(NamedTuple):
    """Rows that stand for all rows at and above some nodes; those of node i are begins[i] to begins[i + 1]."""

    nodes: Ints  # (NODES_KEPT_MAX, d)
    begins: Ints
    first: Ints  # a vector
    weight: Ints  # of how many rows
    n: Ints  # (1,) how many nodes


class FullDomain:
    """A table, as its vectors, and a model, tested node by node; numbers_max: numbers of recoded rows stay below it.

    bounded: without the levels that `coarsest` forbids.
    """

    def __init__(
        self,
        table: Table,
        counts: VectorCounts,
        model: Model,
        numbers_max: int = NUMBERS_MAX,
        bounded: bool = False,
    ) -> None:
        self._counts, self._rows_min = counts, model.rows_min
        levels: Sequence[Levels] = [attribute.levels for attribute in table.attributes]
        self.n_levels: Node = tuple(each.n_levels for each in levels)
        if bounded:
            self.n_levels = tuple(
                _levels_allowed(table.space.of_one(j), each, counts.cells[:, j]) for j, each in enumerate(levels)
            )
        self.steps = _loss_of_steps(table.attributes)
        self._recodings = _recodings(levels, counts.cells, numbers_max)
        self._kept = _kept(len(levels), counts.rows)
        self._rules = rules_of(model, np.zeros((0, len(model.subjects)), dtype=np.int64))
        self._rules = self._rules._replace(laws=laws_of(model.laws, model.subjects, int(counts.rows.sum())))
        self._pairs = list(map(_numbered_codes, model.subjects, counts.subjects))

    def n_suppressed(self, node: Node, allowed: int) -> int:
        """Rows in QI groups that do not hold at the node; if these are more than `allowed`, any number above it."""
        small = _n_small(self._recodings, self._kept, np.array(node, dtype=np.int64), self._rows_min)
        if small > allowed or not self._pairs:
            return int(small)
        return self._fails(*self.qi_groups(node), allowed)[1]

    def qi_groups(self, node: Node) -> tuple[Ints, int]:
        """The QI group of every vector at the node, int64 (m,), and how many there are."""
        everything = np.arange(len(self._counts.rows))
        return _grouped(self._recodings, np.array(node, dtype=np.int64), everything)

    def fails(self, group: Ints, n_groups: int) -> Bools:
        """Which QI groups do not hold; bool (n_groups,)."""
        return self._fails(group, n_groups, int(self._counts.rows.sum()))[0]

    def _fails(self, group: Ints, n_groups: int, allowed: int) -> tuple[Bools, int]:
        """Which QI groups do not hold and how many rows they have, as far as these are at most `allowed`."""
        sizes = _tally(group, n_groups, self._counts.rows)[0]
        fails = sizes < self._rules.rows
        out = int(sizes[fails].sum())
        for i, pairs in enumerate(self._pairs):
            if out > allowed:
                break
            out = int(_counted_out(self._rules, i, pairs, group, sizes, fails, out, allowed))
        return fails, out


def _levels_allowed(space: Space, levels: Levels, cells: Ints) -> int:
    """How many levels, from the lowest, publish nothing of an attribute's cells (m,) that `coarsest` forbids."""
    used = np.unique(cells)[:, None]
    too_wide = (space.too_wide(*levels.recode(level, used)).any() for level in range(levels.n_levels))
    return next((level for level, wide in enumerate(too_wide) if wide), levels.n_levels)


def _loss_of_steps(attributes: Sequence[Attribute]) -> list[int]:
    """The loss of one step up in every attribute, in whole numbers: its weight / its highest level."""
    steps = [Fraction(attribute.weight) / max(attribute.levels.n_levels - 1, 1) for attribute in attributes]
    scale = lcm(*(step.denominator for step in steps))
    return [int(step * scale) for step in steps]


def _numbered_codes(subject: Subject, pairs: Pairs) -> Pairs:
    """The pairs with codes without gaps, unless a reference gives the codes."""
    if subject.level == IN_REFERENCE:
        return pairs
    return pairs._replace(code=np.unique(pairs.code, return_inverse=True)[1].astype(np.int64))


def boxes_at(table: Table, node: Node, cells: Ints) -> tuple[Ints, Ints]:
    """The boxes that the node publishes for vectors of cells, int64 (n, d); two int64 (n, d)."""
    ends = [
        attribute.levels.recode(level, column)
        for attribute, level, column in zip(table.attributes, node, cells.T, strict=True)
    ]
    return np.stack([lo for lo, _ in ends], axis=1), np.stack([hi for _, hi in ends], axis=1)


def _recodings(levels: Sequence[Levels], cells: Ints, numbers_max: int) -> _Recodings:
    """The recodings of all vectors; cells int64 (m, d)."""
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
    return _Recodings(np.concatenate(values), start, n_values, numbers, numbers_max)


def _kept(n_attributes: int, weight: Ints) -> _KeptNodes:
    """The vectors, which stand for all rows at the bottom, and room for more."""
    n_distinct = len(weight)
    first, weights = np.zeros((2, (1 + ROLL_UP_MAX) * n_distinct), dtype=np.int64)
    first[:n_distinct], weights[:n_distinct] = np.arange(n_distinct), weight
    nodes = np.zeros((NODES_KEPT_MAX, n_attributes), dtype=np.int64)
    begins = np.zeros(NODES_KEPT_MAX + 1, dtype=np.int64)
    begins[1] = n_distinct
    return _KeptNodes(nodes, begins, first, weights, np.ones(1, dtype=np.int64))


@compiled
def _n_small(recodings: _Recodings, kept: _KeptNodes, node: Ints, rows_min: int) -> int:
    """Rows in QI groups of fewer than rows_min rows at the node; keeps the groups if they are few."""
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


def _is_below(node: Ints, other: Ints) -> bool:
    """True if a node is as low as another in every attribute, or lower."""
    for j in range(len(node)):  # noqa: SIM110 - compiled
        if node[j] > other[j]:
            return False
    return True


def _fewest_below(kept: _KeptNodes, node: Ints) -> int:
    """Of the kept nodes at or below this one, the one of fewest rows; of equals the first kept."""
    best, fewest = 0, kept.begins[1]
    for i in range(1, kept.n[0]):
        n_rows = kept.begins[i + 1] - kept.begins[i]
        if n_rows < fewest and _is_below(kept.nodes[i], node):
            best, fewest = i, n_rows
    return best


@compiled
def _grouped(recodings: _Recodings, node: Ints, rows: Ints) -> tuple[Ints, int]:
    """The group of each of some vectors (m,) at the node, numbered by its first one, int64 (m,); and how many."""
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


def _renumbered(numbers: Ints, n_numbers: int) -> tuple[Ints, int]:
    """The numbers (m,), all below n_numbers, renumbered from 0 by first occurrence; and how many distinct ones."""
    m = numbers.shape[0]
    out, count, size = np.empty(m, np.int64), 0, 2 * m + 1
    if n_numbers <= size:
        known = np.zeros(n_numbers, np.int32)  # the new number, from 1
        for i in range(m):
            if known[numbers[i]] == 0:
                count += 1
                known[numbers[i]] = count
            out[i] = known[numbers[i]] - 1
        return out, count
    table = CountTable(np.zeros(size, np.int64), np.zeros(size, np.int32))
    for i in range(m):
        at = entry_of(table, numbers[i])
        if table.n[at] == 0:
            count += 1
            table.key[at], table.n[at] = numbers[i], count
        out[i] = table.n[at] - 1
    return out, count


@compiled
def _tally(group: Ints, n_groups: int, weight: Ints) -> tuple[Ints, Ints]:
    """Total weight and first vector of every group; two int64 (n_groups,)."""
    total = np.zeros(n_groups, dtype=np.int64)
    first = np.empty(n_groups, dtype=np.int64)
    for i in range(group.shape[0] - 1, -1, -1):
        total[group[i]] += weight[i]
        first[group[i]] = i
    return total, first


@compiled
def _counted_out(
    rules: Rules, i: int, pairs: Pairs, group: Ints, sizes: Ints, fails: Bools, out: int, allowed: int
) -> int:
    """Marks the QI groups that subject i makes fail; rows of all that fail, counted until they are more than allowed.

    out: rows of those that are marked already; group: int64 (m,), of each vector.
    """
    n_groups, n_pairs = sizes.shape[0], pairs.vector.shape[0]
    ends = np.zeros(n_groups + 1, dtype=np.int64)
    for vector in pairs.vector:
        ends[group[vector] + 1] += 1
    for g in range(n_groups):
        ends[g + 1] += ends[g]
    members = np.empty(n_pairs, dtype=np.int64)
    at = ends[:-1].copy()
    for e in range(n_pairs):
        g = group[pairs.vector[e]]
        members[at[g]] = e
        at[g] += 1
    n_codes = 0
    for code in pairs.code:
        n_codes = max(n_codes, code + 1)
    counts, present = np.zeros(n_codes, dtype=np.int64), np.empty(n_codes + 1, np.int64)
    for g in range(n_groups):
        if fails[g]:
            continue
        distinct, top = 0, 0
        for e in members[ends[g] : ends[g + 1]]:
            before = counts[pairs.code[e]]
            counts[pairs.code[e]] = before + pairs.rows[e]
            present[distinct] = pairs.code[e]
            distinct += int(before == 0)
            top = max(top, before + pairs.rows[e])
        held = keeps_share(top, sizes[g], rules.numerator[i], rules.denominator[i])
        for law in range(rules.laws.kind.shape[0]):
            if rules.laws.subject[law] == i:
                held = held and shortage(rules.laws, law, counts, present, distinct, sizes[g]) == 0
        for e in members[ends[g] : ends[g + 1]]:
            counts[pairs.code[e]] = 0
        if distinct < rules.distinct[i] or not held:
            fails[g] = True
            out += sizes[g]
            if out > allowed:
                break
    return out


DEPTH_MAX = 64
"""Sublattices inside one another; each has half the height of the one around it."""


def ola_search(lattice: Lattice) -> None:
    """Classifies all nodes by binary search in sublattices (El Emam et al. 2009, figure 3)."""
    bottom, top, at = np.zeros((3, DEPTH_MAX), dtype=np.int64)
    stack = _Stack(bottom, top, at, np.zeros(1, dtype=np.int64))
    if lattice.n_unknown:
        _push(lattice.shape, stack, 0, lattice.n_nodes - 1)
    while (number := _next_of_ola(lattice.shape, lattice.marks, stack)) >= 0:
        lattice.is_good(number)


def degree_first_search(lattice: Lattice) -> None:
    """Classifies all nodes, always the unclassified one of highest degree product next (Hu et al. 2011, section 3)."""
    queue = _queue(lattice.shape)
    while (number := _highest(lattice.shape, lattice.tags, queue)) >= 0:
        lattice.is_good(number)


class _Stack(NamedTuple):
    """The sublattices that are being searched, the innermost last."""

    bottom: Ints
    top: Ints
    at: Ints  # the node that comes next; -1: the sublattice is done
    depth: Ints  # (1,)


@compiled
def _next_of_ola(shape: LatticeShape, marks: Marks, stack: _Stack) -> int:
    """Continues the search as far as what is known allows; the node to test, or -1 at the end."""
    while stack.depth[0] > 0:
        i = stack.depth[0] - 1
        bottom, top, number = stack.bottom[i], stack.top[i], stack.at[i]
        if number < 0:
            stack.depth[0] = i
            continue
        if marks.tags[number] == UNKNOWN:
            return int(number)
        stack.at[i] = _next_at_height(shape, bottom, top, number)
        if marks.tags[number] == GOOD:
            top, end = number, bottom
        else:
            bottom, end = number, top
        if _has_unknown(shape, marks, number, end):
            _push(shape, stack, bottom, top)
    return -1


@compiled
def _push(shape: LatticeShape, stack: _Stack, bottom: int, top: int) -> None:
    """Begins with a sublattice, at the lexicographically first node of half its height, rounded down."""
    rise, i = 0, stack.depth[0]
    for j in range(shape.strides.shape[0]):
        rise += shape.levels[top, j] - shape.levels[bottom, j]
    stack.bottom[i], stack.top[i] = bottom, top
    stack.at[i] = _raised(shape, bottom, top, bottom, 0, rise // 2)
    stack.depth[0] = i + 1


@inlined
def _raised(shape: LatticeShape, bottom: int, top: int, number: int, first: int, rise: int) -> int:
    """The lowest number `rise` steps above a node that is at the bottom in the attributes from `first` on."""
    for j in range(shape.strides.shape[0] - 1, first - 1, -1):
        steps = min(rise, shape.levels[top, j] - shape.levels[bottom, j])
        number += steps * shape.strides[j]
        rise -= steps
    return number


@inlined
def _next_at_height(shape: LatticeShape, bottom: int, top: int, number: int) -> int:
    """The next node of the same height in the sublattice, in the order of numbers; -1 after the last."""
    levels, rise, node = shape.levels, 0, number
    for j in range(shape.strides.shape[0] - 1, -1, -1):
        if rise > 0 and levels[node, j] < levels[top, j]:
            return int(_raised(shape, bottom, top, number + shape.strides[j], j + 1, rise - 1))
        steps = levels[node, j] - levels[bottom, j]
        number -= steps * shape.strides[j]
        rise += steps
    return -1


@inlined
def _has_unknown(shape: LatticeShape, marks: Marks, start: int, end: int) -> bool:
    """True if there is an unclassified node between a classified one and `end`, above it (if bad) or below it.

    If there is, a walk from `start` over nodes of its tag gets next to it. Else all that were seen are clear.
    """
    if marks.tags[end] == UNKNOWN:
        return True
    if marks.clear[start] == end:
        return False
    tag, step = marks.tags[start], 1 if end > start else -1
    marks.clear[start], marks.todo[0], marks.seen[0] = end, start, start
    waiting, n_seen = 1, 1
    while waiting > 0:
        waiting -= 1
        node = marks.todo[waiting]
        for j in range(shape.strides.shape[0]):
            if shape.levels[node, j] == shape.levels[end, j]:
                continue
            other = node + step * shape.strides[j]
            if marks.tags[other] == UNKNOWN:
                for i in range(n_seen):
                    marks.clear[marks.seen[i]] = -1
                return True
            if marks.tags[other] == tag and marks.clear[other] != end:
                marks.clear[other], marks.todo[waiting], marks.seen[n_seen] = end, other, other
                waiting += 1
                n_seen += 1
    return False


class _Queue(NamedTuple):
    """A heap of nodes by priority, highest first.

    A key is product x nodes + n; its node is order[nodes - 1 - n]. Degrees only fall, so a key may be too high; it is
    corrected when it comes first.
    """

    keys: Ints  # (nodes,)
    size: Ints  # (1,) how many of the keys count
    order: Ints  # most ancestors x descendants first, then the lowest number


def _queue(shape: LatticeShape) -> _Queue:
    levels, tops = shape.levels.astype(np.int64), shape.n_levels - 1
    order = np.argsort(-((tops - levels + 1) * (levels + 1)).prod(axis=1), kind="stable")
    n_nodes = len(order)
    product = (levels < tops).sum(axis=1) * (levels > 0).sum(axis=1)
    keys = np.sort(product[order] * n_nodes + np.arange(n_nodes)[::-1])[::-1]
    return _Queue(np.ascontiguousarray(keys), np.array([n_nodes]), order)


@compiled
def _highest(shape: LatticeShape, tags: Tags, queue: _Queue) -> int:
    """The unclassified node that comes next, or -1 if there is none."""
    n_nodes = tags.shape[0]
    while queue.size[0] > 0:
        product, n = queue.keys[0] // n_nodes, queue.keys[0] % n_nodes
        number = queue.order[n_nodes - 1 - n]
        here = _degree_product(shape, tags, number) if tags[number] == UNKNOWN else -1
        if here == product:
            return int(number)
        if here < 0:
            queue.size[0] -= 1
            _sink(queue, queue.keys[queue.size[0]])
        else:
            _sink(queue, here * n_nodes + n)
    return -1


def _degree_product(shape: LatticeShape, tags: Tags, number: int) -> int:
    """Unclassified parents x unclassified children."""
    parents, children = 0, 0
    for j in range(shape.strides.shape[0]):
        level, stride = shape.levels[number, j], shape.strides[j]
        parents += int(level < shape.n_levels[j] - 1 and tags[number + stride] == UNKNOWN)
        children += int(level > 0 and tags[number - stride] == UNKNOWN)
    return parents * children


def _sink(queue: _Queue, key: int) -> None:
    """Replaces the first key of the heap."""
    keys, size, at = queue.keys, queue.size[0], 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and keys[child + 1] > keys[child]:
            child += 1
        if keys[child] <= key:
            break
        keys[at] = keys[child]
        at = child
    keys[at] = key


NODES_MAX = 1_000_000
"""A lattice of more nodes is an objection."""


def lattice_nodes(table: Table) -> int:
    """The number of nodes of the table's lattice; it may be more than any array could hold."""
    return prod(attribute.levels.n_levels for attribute in table.attributes)


def objections(table: Table, model: Model, options: Options) -> Sequence[str]:
    """Shares with suppression, and a lattice that is too large."""
    said = []
    if options.suppression and not model.is_growing:
        said.append(
            "if the model limits shares or distributions and rows are suppressed, a coarser recoding than one that"
            " holds may not hold;"
            " ask for no suppression, or for a model without alpha, beta, r, entropy_l, recursive and t"
        )
    n_levels = {attribute.name: attribute.levels.n_levels for attribute in table.attributes}
    if (n_nodes := lattice_nodes(table)) > NODES_MAX:
        widest = max(n_levels, key=lambda name: n_levels[name])
        said.append(
            f"its lattice would have {n_nodes:,} nodes and {NODES_MAX:,} are allowed; give {widest}, with"
            f" {n_levels[widest]} levels, or other columns a hierarchy with fewer levels or a wider grid"
        )
    return said


def _run(search: Callable[[Lattice], None], microdata: Microdata, model: Model, options: Options) -> Recoding:
    """Full-domain recoding whose lattice is classified by `search`."""
    counts, vector = vector_counts(microdata, model)
    found = _of_vectors(search, microdata.table, counts, model, options)
    return replace(found, qi_group=found.qi_group[vector])


def _of_vectors(
    search: Callable[[Lattice], None], table: Table, counts: VectorCounts, model: Model, options: Options
) -> Recoding:
    """The same of a table that is known by its counts: the QI group of each vector."""
    rows = int(counts.rows.sum())
    allowed, bounded = options.suppressed_max(rows), table.space.is_bounded and options.too_wide != STAYING
    recoded = FullDomain(table, counts, model, bounded=bounded)
    if bounded:
        least = recoded.n_suppressed(tuple(n - 1 for n in recoded.n_levels), rows)
        if options.too_wide == LIMITED:
            require_narrow(least, rows, options, model.is_growing)
        allowed = max(allowed, least)
    lattice = Lattice(recoded.n_levels, lambda node: recoded.n_suppressed(node, allowed) <= allowed)
    search(lattice)
    minimal = lattice.minimal()
    node = _best(recoded, minimal, allowed)
    group, n_groups = recoded.qi_groups(node)
    holds = ~recoded.fails(group, n_groups)
    number = np.where(holds, np.cumsum(holds) - 1, SUPPRESSED)
    first = np.unique(group, return_index=True)[1]
    details = {"nodes": lattice.n_nodes, "nodes_tested": lattice.tested, "k_minimal": len(minimal)}
    return Recoding(number[group], *boxes_at(table, node, counts.cells[first[holds]]), node, details)


def _best(recoded: FullDomain, minimal: Sequence[Node], allowed: int) -> Node:
    """The node of least loss, then fewest suppressed rows, then lowest levels; minimal: in lexicographic order."""
    losses = [sum(map(mul, node, recoded.steps)) for node in minimal]
    least = min(losses)
    tied = [node for node, loss in zip(minimal, losses, strict=True) if loss == least]
    return tied[0] if len(tied) == 1 else min(tied, key=lambda node: recoded.n_suppressed(node, allowed))


def _algorithm(name: str, order: str, source: str, search: Callable[[Lattice], None]) -> Algorithm:
    what = f"one level per attribute, the best of all; {order}"
    of_vectors = partial(_of_vectors, search)
    return Algorithm(name, what, source, partial(_run, search), objections, suppresses=True, of_vectors=of_vectors)


OLA = _algorithm("ola", "binary search in the lattice", "El Emam et al. 2009", ola_search)
DEGREE_FIRST = _algorithm("degree-first", "nodes with most neighbours first", "Hu et al. 2011", degree_first_search)
