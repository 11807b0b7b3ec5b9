"""Constraints on how a sensitive column's values are distributed in a QI group: entropy, recursive, t-closeness.

The rules of this file
----------------------
* All three are closed under union. The entropy of a mixture is at least the mean of its parts' (it is concave), and a
  distance at most the mean of its parts' (it is convex). For recursive diversity: the largest count of a union is at
  most the sum of its parts' largest, and the rows that its l - 1 largest leave at least the sum of what theirs leave.
* None is growing: one more row of a frequent value can break each.
* A null is a value like any other in t-closeness. It never makes a group diverse: entropy and recursive diversity must
  hold with nulls as a value and without them, unless table.yaml says `null_counts` (then with them only).

Sources: Machanavajjhala et al. 2007 (theorems 4.1 and 4.2: monotony); Li, Li and Venkatasubramanian 2007 (properties 1
and 2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, log2

import numpy as np

from streamer.errors import ConfigError
from streamer.kernels import distributions as kernel
from streamer.kernels.distributions import BITS, Laws, shortage_by_group, weights_up_to
from streamer.table.arrays import Bools, Ints
from streamer.table.codes import HIERARCHICAL, NO_REFERENCE, ORDERED, Reference
from streamer.table.microdata import Subject

SUM_MAX, ROWS_AT_LEAST = 1 << 60, 1 << 21
"""A reference of so many rows that sums over groups of this size, or of the whole table, would not fit is divided."""

ROWS_MIN_TRIED = 10_000
"""Up to this many rows it is tried from which number on a group can be as close to its reference as it has to."""


@dataclass(frozen=True)
class AtLeastEntropy:
    """Entropy l-diversity: as much entropy as l equally frequent values have (definition 4.1)."""

    subject: Subject
    l: Decimal  # noqa: E741 - the field writes it so

    @property
    def rows_min(self) -> int:
        return ceil(self.l)

    measure, bound = "the entropy of this number of equally frequent ones:", "at least"

    def words(self, names: str) -> str:
        return f"{names} with at least the entropy of {self.l} equally frequent ones"


@dataclass(frozen=True)
class Recursive:
    """Recursive (c, l)-diversity: the most frequent value has less than c times the rows that the l - 1 most frequent
    leave (definition 4.2)."""

    subject: Subject
    c: Decimal
    l: int  # noqa: E741 - the field writes it so

    @property
    def rows_min(self) -> int:
        return self.l + int(1 / Fraction(self.c))

    measure, bound = "a most frequent one with this multiple of the rows that are left:", "less than"

    def words(self, names: str) -> str:
        most = "most frequent one" if self.l == 2 else f"{self.l - 1} most frequent ones"
        return f"{names} of which none has {self.c} times the rows, or more, that the {most} leave"


@dataclass(frozen=True)
class AtMostDistance:
    """t-closeness: at most a distance of t from the distribution of the whole table (definition 2)."""

    subject: Subject
    t: Decimal
    distance: str
    reference: Reference | None  # None: the whole table, which is not known yet

    @property
    def rows_min(self) -> int:
        """Of fewer rows not even the best choice is as close: each set of values has a whole number of rows."""
        if self.reference is None:
            return 1
        _, weight, expected, unit = _sets(self.reference)
        shares = np.array(expected, dtype=np.float64) / max(1, self.reference.total)
        for n in range(1, ROWS_MIN_TRIED):
            least = float((np.array(weight) * np.abs(np.rint(n * shares) - n * shares)).sum())
            if least <= float(self.t) * unit * n + 1e-9:
                return n
        return ROWS_MIN_TRIED

    measure, bound = "a distance from the whole table of", "at most"

    def words(self, names: str) -> str:
        return f"{names} at a distance of at most {self.t} ({self.distance}) from the whole table"


Law = AtLeastEntropy | Recursive | AtMostDistance


def by_subject(laws: Sequence[Law]) -> tuple[Law, ...]:
    """The laws in order, each once; of two entropies of one subject, or two distances from one reference, the larger
    demand."""
    strongest: dict[object, Law] = {}
    for law in laws:
        match law:
            case AtLeastEntropy(subject, l):
                key: object = (subject, 0)
                known = strongest.get(key)
                strongest[key] = known if isinstance(known, AtLeastEntropy) and known.l >= l else law
            case Recursive(subject, c, l):
                strongest[subject, 1, c, l] = law
            case AtMostDistance(subject, t, _, reference):
                key = (subject, 2, reference)
                known = strongest.get(key)
                strongest[key] = known if isinstance(known, AtMostDistance) and known.t <= t else law
    return tuple(sorted(strongest.values(), key=lambda law: (law.subject, type(law).__name__, str(law))))


def _sets(reference: Reference) -> tuple[list[int], list[int], list[int], int]:
    """Of each set of codes whose shares are compared: the next one around it, its weight, its rows in the reference.

    Last, the sum that is a distance of 1.
    """
    rows = [*reference.rows, 0]
    if reference.distance == ORDERED:
        expected = np.cumsum(reference.rows[:-1]).tolist()
        return [-1] * len(expected), [1] * len(expected), expected, len(expected) - (reference.rows[0] == 0)
    if reference.distance != HIERARCHICAL:
        return [-1] * len(rows), [1] * len(rows), rows, 2
    above, levels = list(reference.above), reference.levels
    rows += [0] * (len(above) - len(rows))
    for code in range(1, len(reference.rows)):
        node = above[code]
        while node >= 0:
            rows[node] += rows[code]
            node = above[node]
    weight = [1] * len(rows)
    weight[0] = weight[reference.unknown] = levels
    return above, weight, rows, 2 * levels


def laws_of(laws: Sequence[Law], subjects: Sequence[Subject], n: int) -> Laws:
    """The laws for compiled functions, over groups of at most n rows; subjects: the columns of their codes."""
    nodes, first = list[tuple[int, int, int]](), [0]
    numbers = np.zeros((9, len(laws)), dtype=np.int64)
    subject, kind, whole, part, of, least, unit, total, base = numbers
    of[:] = least[:] = unit[:] = total[:] = 1
    for i, law in enumerate(laws):
        subject[i] = subjects.index(law.subject)
        match law:
            case AtLeastEntropy():
                kind[i], whole[i] = kernel.ENTROPY, max(1, round(log2(law.l) * BITS))
            case Recursive():
                kind[i], (part[i], of[i]), least[i] = kernel.RECURSIVE, law.c.as_integer_ratio(), law.l
            case AtMostDistance(_, t, _, reference):
                if reference is None:
                    raise ConfigError(f"`t` of a column: {NO_REFERENCE}")
                above, weight, expected, one = _sets(reference)
                kind[i] = kernel.CHAIN if reference.distance == ORDERED else kernel.NODES
                most = max(1, SUM_MAX // max(1, one * max(n, ROWS_AT_LEAST)))  # rows of the reference
                parts = -(-reference.total // most)
                total[i] = max(1, reference.total // max(1, parts))
                unit[i] = max(1, one * int(total[i]))
                bound = Fraction(t)
                if parts > 1:  # in parts, each rounded: the bound gives way by as much
                    expected = [(rows + parts // 2) // parts for rows in expected]
                    bound = max(Fraction(0), bound - Fraction(2, int(total[i])))
                numerator, of[i] = (bound * int(unit[i])).as_integer_ratio()
                whole[i], part[i] = divmod(numerator, int(of[i]))
                base[i] = sum(w * rows for w, rows in zip(weight, expected, strict=True))
                if reference.distance == ORDERED:
                    weight = [0, *np.cumsum(expected)[:-1].tolist()][: len(expected)]
                nodes += zip(above, weight, expected, strict=True)
        first.append(len(nodes))
    above_of, weight_of, expected_of = np.array(nodes, dtype=np.int64).reshape(-1, 3).T.copy()
    found, order, spare = np.zeros((3, len(nodes)), dtype=np.int64)
    largest = np.zeros(int(least.max(initial=1)), dtype=np.int64)
    weights = weights_up_to(n if (kind == kernel.ENTROPY).any() else 0, BITS)
    return Laws(subject, kind, whole, part, of, least, unit, total, base, np.array(first), above_of, weight_of,
        expected_of, found, order, spare, largest, weights)  # fmt: skip


def law_held(law: Law, begins: Ints, codes: Ints, rows: Ints, sizes: Ints) -> Bools:
    """True for each of g groups that holds a law, (g,); the codes and rows (e,) of one begin at begins[i], (g + 1,).

    sizes (g,): of the groups, also of rows with a code that does not count.
    """
    laws = laws_of((law,), (law.subject,), int(sizes.max(initial=0)))
    return np.asarray(shortage_by_group(laws, 0, begins, codes, rows, sizes) == 0)


def measured(law: Law, counts: Ints) -> Iterator[float]:
    """What a group has of what a law asks for, and how much that is, for messages; counts: its rows by code."""
    rows = counts[counts > 0]
    n = int(rows.sum())
    match law:
        case AtLeastEntropy():
            yield 2 ** -float((rows / n * np.log2(rows / n)).sum()) if n else 0.0
            yield float(law.l)
        case Recursive():
            least = np.sort(rows)[::-1]
            left = int(least[law.l - 1 :].sum())
            yield int(least[0]) / left if left else float("inf")
            yield float(law.c)
        case AtMostDistance():
            yield distance(law.reference, counts) if law.reference else 1.0
            yield float(law.t)


def distance(reference: Reference, counts: Ints) -> float:
    """The distance of a group from a reference, 0 to 1; counts: its rows by code, (c,)."""
    above, weight, expected, unit = _sets(reference)
    found, n = np.zeros(max(len(counts), len(expected)), dtype=np.int64), max(1, int(counts.sum()))
    if reference.distance == ORDERED:
        found[: len(counts)] = np.cumsum(counts)
        found[len(counts) :] = n
    else:
        found[: len(counts)] = counts
        for code in np.flatnonzero(counts).tolist():
            node = above[code]
            while node >= 0:
                found[node] += counts[code]
                node = above[node]
    away = np.abs(found[: len(expected)] / n - np.array(expected) / max(1, reference.total))
    return float((np.array(weight) * away).sum() / max(1, unit))
