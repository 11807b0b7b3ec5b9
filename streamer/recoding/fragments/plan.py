"""Where a table is cut into fragments: a tree of cuts between cells, made from exact counts alone.

The rules of this file
----------------------
* Nothing is sampled. A plan follows from how many rows have which cells, and which of the values that the model counts.
  So it does not depend on the order of the rows, on files, names or workers.
* Rows with the same cells are in one fragment, if they fit. A part that no cut makes small enough is *dealt* (`dealt`).
* A vector of cells is counted by *bins*: runs of cells of about equally many rows, at most COARSE_BINS_MAX of each
  attribute.
  A part that stays too large gets finer bins of its own, round after round, until these do not help either.
* A cut is the one after which rows times NCP, of both parts, is least. Each part keeps a quarter of the rows, else a
  tenth, else any; each part holds the model, as far as rows and values can tell. (Whether a fragment holds enough
  individuals is asked of its rows; if not, its node of the tree becomes the fragment: `holding`.)
* Regions, whose borders should lie elsewhere than those of an earlier plan, are cut along the attributes along which
  that plan cut least often: a region that is not cut along an attribute reaches over all borders along it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from streamer.privacy.models import Model, shown_by_rows
from streamer.table.arrays import Bools, Counted, Floats, Ints, counted, inverse_of
from streamer.table.microdata import INDIVIDUAL, NULL, Subject, multiset_ranks
from streamer.table.space import Space

COARSE_BINS_MAX = 32

LEAF, DEALT = -1, -2
"""Nodes that are not cut: a fragment; rows that are dealt to several fragments."""

SHARES_MIN = (0.25, 0.1, 0.0)
"""The least share of the rows that a part may have; the first with which there is a cut counts."""


UNITED_AT_ONCE = 8


def compact(part: Counted) -> Counted:
    """The same counts, with numbers as narrow as they can be: many parts wait for each other."""
    return part._replace(numbers=part.numbers.astype(np.min_scalar_type(-1 - int(part.numbers.max(initial=0)))))


def united(parts: Sequence[Counted]) -> Counted:
    """Counts of several parts of a table, at least one, as counts of the whole; int64. A few parts at a time."""
    found = parts[0]
    for i in range(1, len(parts), UNITED_AT_ONCE):
        numbers, rows = zip(found, *parts[i : i + UNITED_AT_ONCE], strict=True)
        found = counted(np.concatenate(numbers), np.concatenate(rows))
    return found._replace(numbers=found.numbers.astype(np.int64))


def united_by_attribute(parts: Sequence[list[Counted]]) -> list[Counted]:
    """The same of counts that each part has by attribute."""
    return [united(column) for column in zip(*parts, strict=True)]


class Bins(NamedTuple):
    """Runs of one attribute's cells; int64 (b,)."""

    first: Ints
    last: Ints


def bins_of(cells: Counted) -> Bins:
    """At most COARSE_BINS_MAX bins of about equally many rows; cells: of one attribute, (m, 1)."""
    cell, rows = cells.numbers[:, 0], cells.rows
    if len(cell) <= COARSE_BINS_MAX:
        return Bins(cell, cell)
    middle = np.cumsum(rows) - rows / 2
    begins = np.flatnonzero(np.diff(middle * COARSE_BINS_MAX // rows.sum(), prepend=-1) > 0)
    return Bins(cell[begins], cell[np.append(begins[1:], len(cell)) - 1])


def binned(cells: Ints, bins: Sequence[Bins]) -> Ints:
    """The bin of each cell, by attribute; (n, d), as cells."""
    columns = [np.searchsorted(of.first, cells[:, j], side="right") - 1 for j, of in enumerate(bins)]
    return np.stack(columns, axis=1)


@dataclass(frozen=True)
class FragmentPlan:
    """A tree of cuts. Node 0 is the whole table; a leaf is a fragment."""

    attribute: Ints = field(default_factory=lambda: np.array([LEAF]))  # (nodes,) along which it is cut; LEAF; DEALT
    border: Ints = field(default_factory=lambda: np.zeros(1, np.int64))  # the first cell of the upper part
    lower: Ints = field(default_factory=lambda: np.full(1, LEAF))  # the node below the border; the first one dealt to
    upper: Ints = field(default_factory=lambda: np.full(1, LEAF))  # the node above it; the last one dealt to

    @property
    def leaves(self) -> Ints:
        """The numbers of the leaves, ascending."""
        return np.flatnonzero(self.attribute == LEAF)

    def route(self, cells: Ints) -> Ints:
        """The node of each vector of cells (n, d), a leaf or one whose rows are dealt; int64 (n,)."""
        node = np.zeros(len(cells), dtype=np.int64)
        going = np.arange(len(cells))
        while len(going := going[self.attribute[node[going]] >= 0]):
            at = node[going]
            above = cells[going, self.attribute[at]] >= self.border[at]
            node[going] = np.where(above, self.upper[at], self.lower[at])
        return node

    def parts_of(self, node: int) -> range | tuple[int, ...]:
        """The nodes into which a node is cut, or to which its rows are dealt; none if it is a leaf."""
        lower, upper = int(self.lower[node]), int(self.upper[node])
        if self.attribute[node] == LEAF:
            return ()
        return range(lower, upper + 1) if self.attribute[node] == DEALT else (lower, upper)

    def leaves_below(self, node: int) -> list[int]:
        """The leaves of a node, from the lowest part on."""
        parts = self.parts_of(node)
        return [leaf for part in parts for leaf in self.leaves_below(part)] if parts else [node]

    def with_dealt(self, leaf: int, parts: int) -> FragmentPlan:
        """The plan with a leaf whose rows are dealt to `parts` new ones."""
        first = len(self.attribute)
        fresh = np.full(parts, LEAF)
        attribute, lower, upper = (np.append(old, fresh) for old in (self.attribute, self.lower, self.upper))
        attribute[leaf], lower[leaf], upper[leaf] = DEALT, first, first + parts - 1
        return FragmentPlan(attribute, np.append(self.border, np.zeros(parts, np.int64)), lower, upper)


class Cut(NamedTuple):
    """Where a node may be cut; `below`: of its entries, which are below."""

    loss: float
    rows_below: int
    attribute: int
    border: int
    below: Bools


class Planner:
    """Grows a plan, leaf by leaf. model None: all parts hold; elsewhere_than: its borders should lie inside regions."""

    def __init__(
        self, space: Space, model: Model | None, rows_max: int, elsewhere_than: FragmentPlan | None = None
    ) -> None:
        self._space, self._model, self._rows_max = space, model, rows_max
        self._subjects = [] if model is None else counted_values(model)
        self._shown, self._names = None if model is None else shown_by_rows(model), dict.fromkeys(self._subjects, "")
        self._cut_before = np.zeros(space.d, dtype=np.int64)
        if elsewhere_than is not None:
            cut = elsewhere_than.attribute[elsewhere_than.attribute >= 0]
            self._cut_before += np.bincount(cut, minlength=space.d)

    def grown(
        self, plan: FragmentPlan, leaf: int, found: Counted, bins: Sequence[Bins]
    ) -> tuple[FragmentPlan, list[int]]:
        """The plan with a leaf cut until its parts have at most rows_max rows, and the parts that are larger still.

        found: the leaf's rows by bins, then by what `counted_values` of the model says; bins: of every attribute. A
        part is larger if one vector of bins fills it, or if no cut leaves two parts that hold.
        """
        nodes = [list(column.tolist()) for column in (plan.attribute, plan.border, plan.lower, plan.upper)]
        first = np.stack([of.first[found.numbers[:, j]] for j, of in enumerate(bins)], axis=1)
        last = np.stack([of.last[found.numbers[:, j]] for j, of in enumerate(bins)], axis=1)
        waiting, heavy = [(leaf, np.arange(len(found.rows)))], list[int]()
        while waiting:
            node, entries = waiting.pop()
            if found.rows[entries].sum() <= self._rows_max:
                continue
            part = Counted(found.numbers[entries], found.rows[entries])
            cut = self._best(part, first[entries], last[entries])
            if cut is None:
                heavy.append(node)
                continue
            lower = len(nodes[0])
            nodes[0][node], nodes[1][node], nodes[2][node], nodes[3][node] = cut.attribute, cut.border, lower, lower + 1
            for column, value in zip(nodes, (LEAF, 0, LEAF, LEAF), strict=True):
                column += [value, value]
            waiting += [(lower + 1, entries[~cut.below]), (lower, entries[cut.below])]
        return FragmentPlan(*(np.array(column, dtype=np.int64) for column in nodes)), heavy

    def _best(self, part: Counted, first: Ints, last: Ints) -> Cut | None:
        """The best cut that leaves two parts that hold; None if there is none."""
        cuts = [cut for j in range(self._space.d) for cut in self._cuts(part, first, last, j)]
        cuts.sort(key=lambda cut: (self._cut_before[cut.attribute], cut.loss))
        rows = int(part.rows.sum())
        for share in SHARES_MIN:
            for cut in cuts:
                fewer = min(cut.rows_below, rows - cut.rows_below)
                if fewer >= share * rows and self._holds(part, cut.below) and self._holds(part, ~cut.below):
                    return cut
        return None

    def _cuts(self, part: Counted, first: Ints, last: Ints, j: int) -> Iterator[Cut]:
        """All cuts along one attribute, from below."""
        order = np.argsort(first[:, j], kind="stable")
        starts = np.flatnonzero(np.diff(first[order, j], prepend=-1))
        rows = np.add.reduceat(part.rows[order], starts)
        lo, hi = np.minimum.reduceat(first[order], starts, axis=0), np.maximum.reduceat(last[order], starts, axis=0)
        below = np.cumsum(rows)
        loss = below[:-1] * self._ncp(np.minimum.accumulate(lo)[:-1], np.maximum.accumulate(hi)[:-1])
        up_lo, up_hi = np.minimum.accumulate(lo[::-1])[::-1][1:], np.maximum.accumulate(hi[::-1])[::-1][1:]
        loss += (below[-1] - below[:-1]) * self._ncp(up_lo, up_hi)
        for i, border in enumerate(lo[1:, j].tolist()):
            yield Cut(float(loss[i]), int(below[i]), j, border, first[:, j] < border)

    def _ncp(self, lo: Ints, hi: Ints) -> Floats:
        return self._space.ncp(*self._space.generalize(lo.copy(), hi.copy()))

    def _holds(self, part: Counted, chosen: Bools) -> bool:
        """True if a part of a node holds the model, by its rows and values."""
        if self._model is None or self._shown is None:
            return True
        rows = part.rows[chosen]
        size = int(rows.sum())
        if size < self._model.rows_min:
            return False
        counts = list[Ints]()
        for column, subject in enumerate(self._subjects, start=self._space.d):
            count = np.bincount(part.numbers[chosen, column], rows).astype(np.int64)
            if not subject.null_counts:
                count[NULL] = 0
            counts.append(count)
        return not self._shown.shortfall_of_counts(size, counts, self._names)


def counted_values(model: Model) -> list[Subject]:
    """The subjects of a model other than individuals."""
    return [subject for subject in model.subjects if subject != INDIVIDUAL]


def holding(plan: FragmentPlan, holds: Callable[[list[int]], bool]) -> list[list[int]]:
    """The leaves of every fragment: single leaves that hold, else those of the lowest node above that can be cut so.

    holds: whether the rows of these leaves together hold. The whole table must.
    """
    found: list[list[int]] = []
    waiting = [0]
    while waiting:
        node = waiting.pop()
        parts = plan.parts_of(node)
        if parts and all(holds(plan.leaves_below(part)) for part in parts):
            waiting += reversed(parts)
        else:
            found.append(plan.leaves_below(node))
    return found


def dealt(kind: Ints, who: Ints | None, parts: int) -> Ints:
    """Deals rows to several fragments; int64 (n,), 0..parts-1.

    Rows, or individuals with all their rows, are dealt in turn in the order of their kinds, so that every fragment has
    about the shares of the whole. kind: (n,) of the rows, by cells, then values; who: (n,) individuals from 0 without
    gaps.

    >>> dealt(np.array([0, 1, 0, 1]), None, 2).tolist()
    [0, 0, 1, 1]
    """
    if who is None:
        return inverse_of(np.argsort(kind, kind="stable")) % parts
    return (inverse_of(np.argsort(multiset_ranks(who, kind), kind="stable")) % parts)[who]
