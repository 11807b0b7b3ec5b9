"""Laws about how the rows of a QI group are distributed over the values of one subject, for compiled functions.

The rules of this file
----------------------
* A law is about counts by code. It is closed under union: a union is short of it by no more than its parts together.
* ENTROPY: the entropy of the shares is at least log l. So the sum of c log c over the counts c of n rows is at most
  n log(n / l). RECURSIVE: the largest count is less than c times the sum of all counts but the l - 1 largest.
* NODES and CHAIN: the distance from the distribution of a reference is at most t. Both sum, over sets of codes, by how
  much the rows of a set differ from those that the reference expects there. The sets of NODES form a forest in which
  each code is a node: a code's rows are in it and in all nodes above. The sets of CHAIN are all codes up to one, so the
  distance is that of values in order.
* Whole numbers decide. Logarithms are multiples of 1 / BITS, and a law of entropy forgives one such unit for each row,
  and one more: no group fails because of rounding, and the order of rows never matters.

Sources: Machanavajjhala et al. 2007, definitions 4.1 and 4.2; Li, Li and Venkatasubramanian 2007, section 4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamer.kernels.sorting import sort_stably
from streamer.native import compiled, inlined
from streamer.table.arrays import Ints

ENTROPY, RECURSIVE, NODES, CHAIN = range(4)

BITS = 1 << 30
"""Sums of logarithms then fit into 63 bits up to 300 million rows."""

PER_ROW = 1 << 10
"""Shortages are told in this part of a row."""


FEW_CODES = 16
"""A chain is summed run by run if it has more nodes than this for each code that is there."""


class Laws(NamedTuple):
    """p laws, each about one subject."""

    subject: Ints  # (p,) by column of the subjects
    kind: Ints  # (p,)
    whole: Ints  # (p,) ENTROPY: log2 l; of distances: the most that a row may add, whole + part / of
    part: Ints  # (p,) RECURSIVE: c = part / of
    of: Ints
    l: Ints  # noqa: E741 - (p,) RECURSIVE
    unit: Ints  # (p,) of distances: the distance 1 of one row
    total: Ints  # (p,) the rows of the reference
    base: Ints  # (p,) NODES: the distance of one row that is nowhere
    first: Ints  # (p + 1,) where the nodes of a law begin; the node of a code comes as many after
    above: Ints  # (nodes,) the next node above, counted from `first`; -1: none
    weight: Ints  # (nodes,) CHAIN: the sum of `expected` of the nodes before
    expected: Ints  # (nodes,) rows of the reference in the set
    found: Ints  # (nodes,) scratch, zero between calls
    order: Ints  # (nodes,) scratch
    spare: Ints  # (nodes,) scratch
    largest: Ints  # (l,) scratch
    weights: Ints  # (n + 1,) c log2 c of the counts c


def weights_up_to(n: int, one: int) -> Ints:
    """c * log2(c) in multiples of 1 / one for the counts c = 0..n; int64 (n + 1,).

    >>> (weights_up_to(4, 1 << 20) / (1 << 20)).tolist()[2:]
    [2.0, 4.754887580871582, 8.0]
    """
    count = np.arange(n + 1, dtype=np.float64)
    return np.rint(count * np.log2(np.maximum(count, 1)) * one).astype(np.int64)


@inlined
def whole_rows(short: int) -> int:
    """The rows of a shortage, or a part of one."""
    return -(-short // PER_ROW)


def shortage(laws: Laws, law: int, counts: Ints, present: Ints, n: int, size: int) -> int:
    """By how much a group misses a law, in parts of a row (PER_ROW); 0: it holds.

    counts: by code; present: the first n are the codes that are there, each once; size: the group's rows, also those
    with a code that does not count.
    """
    kind = laws.kind[law]
    if kind == ENTROPY:
        return _short_of_entropy(laws, law, counts, present, n)
    if kind == RECURSIVE:
        return _short_of_others(laws, law, counts, present, n)
    too_far, unit = _too_far(laws, law, counts, present, n, size), laws.unit[law]
    if too_far <= 0:
        return 0
    return int(too_far // (unit // PER_ROW) + 1 if unit >= PER_ROW else too_far * PER_ROW // unit + 1)


def _too_far(laws: Laws, law: int, counts: Ints, present: Ints, n: int, size: int) -> int:
    """By how much a distance, times rows and rows of the reference, is above what is allowed; negative: below."""
    if laws.kind[law] == NODES:
        away = _away_in_forest(laws, law, counts, present, n, size)
    else:
        away = _away_in_order(laws, law, counts, present, n, size)
    return int(away - size * laws.whole[law] - size * laws.part[law] // laws.of[law])


def settled(laws: Laws, law: int, counts: Ints, present: Ints, n: int, size: int) -> int:
    """How many rows, whatever they are, a group must get before it may no longer hold a law, or, negative, may hold it.

    The arguments are those of `shortage`; never 0. A row adds to a distance at most what one row adds in every set of a
    CHAIN, `unit` to others, and takes away no more than that and what it is allowed.
    """
    if laws.kind[law] == ENTROPY or laws.kind[law] == RECURSIVE:
        return 1 if shortage(laws, law, counts, present, n, size) == 0 else -1
    too_far, most = _too_far(laws, law, counts, present, n, size), laws.unit[law]
    if laws.kind[law] == CHAIN:  # a null may add more than `unit`, if the reference has none
        most = max(most, (laws.first[law + 1] - laws.first[law]) * laws.total[law])
    return int(1 + -too_far // most if too_far <= 0 else -1 - (too_far - 1) // (most + laws.whole[law] + 1))


def _short_of_entropy(laws: Laws, law: int, counts: Ints, present: Ints, n: int) -> int:
    rows, weight = 0, 0
    for at in range(n):
        rows += counts[present[at]]
        weight += laws.weights[counts[present[at]]]
    if rows == 0:
        return PER_ROW
    short = weight + rows * laws.whole[law] - laws.weights[rows] - rows - 1
    return int(short // max(1, laws.whole[law] // PER_ROW) + 1 if short > 0 else 0)


def _short_of_others(laws: Laws, law: int, counts: Ints, present: Ints, n: int) -> int:
    rows, kept, most = 0, 0, laws.l[law] - 1
    for at in range(n):
        count, place = counts[present[at]], kept
        rows += count
        while place > 0 and laws.largest[place - 1] < count:
            laws.largest[place] = laws.largest[place - 1]
            place -= 1
        laws.largest[place] = count
        kept = min(kept + 1, most)
    for place in range(kept):
        rows -= laws.largest[place]
    needed = laws.largest[0] * laws.of[law] // laws.part[law] + 1 if kept > 0 else 1
    return int(max(needed - rows, 0) * PER_ROW)


def _away_in_forest(laws: Laws, law: int, counts: Ints, present: Ints, n: int, size: int) -> int:
    """The distance, times rows and rows of the reference; nodes without rows are in `base` and looked at by none."""
    first, total, away = laws.first[law], laws.total[law], size * laws.base[law]
    for at in range(n):
        node = present[at]
        count = counts[node]
        while node >= 0:
            laws.found[first + node] += count
            node = laws.above[first + node]
    for at in range(n):
        node = present[at]
        while node >= 0 and laws.found[first + node] > 0:
            expected = size * laws.expected[first + node]
            away += laws.weight[first + node] * (abs(laws.found[first + node] * total - expected) - expected)
            laws.found[first + node] = 0
            node = laws.above[first + node]
    return int(away)


def _away_in_order(laws: Laws, law: int, counts: Ints, present: Ints, n: int, size: int) -> int:
    """The same of values in order: node by node, or run by run between the codes that are there if these are few."""
    first, away, below, at = laws.first[law], 0, 0, 0
    nodes = laws.first[law + 1] - first
    if n * FEW_CODES > nodes:
        for node in range(nodes):
            if node < counts.shape[0]:
                below += counts[node]
            away += abs(below * laws.total[law] - size * laws.expected[first + node])
        return int(away)
    sort_stably(present[:n], laws.order[:n], laws.spare)
    for i in range(n):
        code = present[laws.order[i]]
        end = min(code, nodes)
        away += _away_in_run(laws, law, below * laws.total[law], at, end, size)
        below += counts[code]
        at = end
    return int(away + _away_in_run(laws, law, below * laws.total[law], at, nodes, size))


def _away_in_run(laws: Laws, law: int, has: int, begin: int, end: int, size: int) -> int:
    """The distance in the nodes begin..end - 1, which have the same rows; has: these times those of the reference."""
    first, low, high = laws.first[law], begin, end
    while low < high:  # expected rows grow along the chain: from `low` on they are as many as there are, or more
        middle = (low + high) // 2
        if size * laws.expected[first + middle] >= has:
            high = middle
        else:
            low = middle + 1
    more = (low - begin) * has - size * (_expected_before(laws, law, low) - _expected_before(laws, law, begin))
    fewer = size * (_expected_before(laws, law, end) - _expected_before(laws, law, low)) - (end - low) * has
    return int(more + fewer)


def _expected_before(laws: Laws, law: int, node: int) -> int:
    """The sum of the expected rows of all nodes of a chain before one."""
    if node == 0:
        return 0
    at = laws.first[law] + node - 1
    return int(laws.weight[at] + laws.expected[at])


@compiled
def shortage_by_group(laws: Laws, law: int, begins: Ints, codes: Ints, rows: Ints, sizes: Ints) -> Ints:
    """By how much each of g groups misses a law, (g,); its codes and rows (e,) begin at begins[i]."""
    counts, found = np.zeros(_n_codes(codes), np.int64), np.zeros(sizes.shape[0], np.int64)
    for g in range(sizes.shape[0]):
        here = codes[begins[g] : begins[g + 1]]
        for at in range(here.shape[0]):
            counts[here[at]] = rows[begins[g] + at]
        found[g] = shortage(laws, law, counts, here, here.shape[0], sizes[g])
        for code in here:
            counts[code] = 0
    return found


def _n_codes(codes: Ints) -> int:
    n = 1
    for code in codes:
        n = max(n, code + 1)
    return n
