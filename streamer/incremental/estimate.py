"""A COUNT query answered from what is published: an estimate, and the bounds between which the truth lies.

The rules of this file
----------------------
* A query is a condition as statements have it: comparisons of a column with a value, joined by `and`. Two columns of
  one row cannot be compared: what is published does not say which values go together.
* A vector of cells, or a box, matches in part if it holds values that match and others: by their share, as if the
  rows lay evenly in it. It is certain where all of its values match, possible if one does. What has no step has no
  smallest value: there shares are of lengths, and what matches a single point has the share 0.
* All forms of publication are answered alike: where rows or QI groups are published, a QI group is one box.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from math import ceil, floor
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd

from streamer.errors import EventRefused, LawViolated, UsageError
from streamer.incremental.events.statement_syntax import IS_NOT_NULL, IS_NULL, Comparison, read_condition
from streamer.incremental.events.statements import condition_of
from streamer.table.arrays import Bools, Floats, Ints
from streamer.table.attributes import Attribute, CategoricalAttribute, NumericAttribute, TemporalAttribute
from streamer.table.column_codes import from_code, is_stepless, null_exact
from streamer.table.published.groups import COUNT
from streamer.table.published.rows import QI_GROUP, all_box_columns, attribute_columns
from streamer.table.row import Values
from streamer.table.scalars import limit_of, moment_of
from streamer.table.schema import Table

# How many rows match a query, from a table that publishes cells and values apart: an estimate, and its bounds.
#
# A QI group publishes some vectors of cells and some sensitive rows, and every pair of the two is as likely. So its
# answer is st_hit * qi_hit / vectors: st_hit counts the sensitive rows that match, qi_hit the vectors that do (Tong et
# al. 2010, section 4; a box is a vector that matches in part). How far that can be from the truth follows from the same
# figures: every vector stands for at least one row, and whose the other rows are is open. The paper gives no bound.


def estimated(st_hit: Ints, qi_hit: Floats | Ints, vectors: Ints) -> float:
    """The answer for all QI groups (g,): the sum of st_hit * qi_hit / vectors. vectors: above 0."""
    return float((st_hit * qi_hit / vectors).sum())


def bounds(st_hit: Ints, rows: Ints, certain: Ints, possible: Ints, vectors: Ints) -> tuple[int, int]:
    """The least and the most rows that can match, over QI groups (g,).

    rows: of each group. certain: vectors whose every row matches; possible: vectors some of whose rows may. Between the
    two bounds every number can be the true one, where vectors match whole or not at all (certain = possible).
    """
    least = np.where(certain == vectors, rows, certain)
    most = np.where(possible > 0, rows - (vectors - possible), 0)
    low = np.maximum(0, st_hit + least - rows)
    high = np.minimum(st_hit, most)
    return int(low.sum()), int(high.sum())


class Answer(NamedTuple):
    """How many rows match: about; at least and at most; and how many are published."""

    estimate: float
    at_least: int
    at_most: int
    rows: int


class Query:
    """A query over what a table publishes. Raises UsageError for a text that is none."""

    def __init__(self, table: Table, text: str) -> None:
        self._table = table
        try:
            comparisons = read_condition(text)
            condition_of(comparisons, table)
            kept = {column.name for column in table.kept}
            values = [comparison for comparison in comparisons if comparison.left in kept]
            self._values = condition_of(values, table) if values else None
        except EventRefused as refused:
            raise UsageError(f"--query: {refused.detail}") from None
        if any(one.test in (IS_NULL, IS_NOT_NULL) and one.left not in kept for one in comparisons):
            raise UsageError("--query: asks a quasi-identifier for nulls: what is published shows what they count as")
        if any(comparison.right is not None for comparison in comparisons):
            raise UsageError("--query: compares two columns: what is published does not say which values go together")
        self._wanted = {
            attribute.name: [comparison for comparison in comparisons if comparison.left == attribute.name]
            for attribute in table.attributes
        }

    def answer(self, frames: Mapping[str, pd.DataFrame]) -> Answer:
        """The answer of a folded table (`streamer.incremental.release.frames`)."""
        vectors = next(iter(frames.values()))
        rows = list(frames.values())[-1]
        vectors = vectors[[QI_GROUP, *all_box_columns(self._table)]].drop_duplicates()
        names = pd.Index(vectors[QI_GROUP].unique())
        own, of = names.get_indexer(vectors[QI_GROUP]), names.get_indexer(rows[QI_GROUP])
        share, certain, possible = self._matches(vectors)
        has_counts = str(rows.dtypes.get(COUNT)) == "int64"
        counts = rows[COUNT].to_numpy() if has_counts else np.ones(len(rows), np.int64)
        hit, n = self._hits(rows), len(names)
        of_group = [_summed(own, x.astype(np.int64), n) for x in (np.ones(len(own)), certain, possible)]
        n_vectors, n_certain, n_possible = (x.astype(np.int64) for x in of_group)
        n_rows, st_hit = (_summed(of, x, n).astype(np.int64) for x in (counts, counts * hit))
        about = estimated(st_hit, _summed(own, share, n), n_vectors) if n else 0.0
        return Answer(about, *bounds(st_hit, n_rows, n_certain, n_possible, n_vectors), int(counts.sum()))

    def _hits(self, rows: pd.DataFrame) -> Bools:
        """Which rows have the kept values that are asked for."""
        if self._values is None or not len(rows):
            return np.ones(len(rows), dtype=bool)
        encode = msgspec.json.Encoder(decimal_format="number").encode
        kept = [[encode(value) for value in rows[column.name]] for column in self._table.kept]
        return self._values.matches(_ValuesOnly(list(zip(*kept, strict=True)), self._table.space.d))

    def _matches(self, vectors: pd.DataFrame) -> tuple[Floats, Bools, Bools]:
        """Of every vector, the share of its values that match, whether all do, and whether any does."""
        share, certain, possible = np.ones(len(vectors)), np.ones(len(vectors), bool), np.ones(len(vectors), bool)
        for attribute in self._table.attributes:
            asked = self._wanted[attribute.name]
            if not asked:
                continue
            match = lru_cache(None)(_but_nulls(attribute, _matcher(attribute, asked)))
            found = [match(*ends) for ends in vectors[list(attribute_columns(attribute))].itertuples(index=False)]
            share *= np.array([one.share for one in found], dtype=np.float64)
            certain &= np.array([one.all for one in found], dtype=bool)
            possible &= np.array([one.any for one in found], dtype=bool)
        return share, certain, possible


def _summed(groups: Ints, weights: Floats | Ints, n: int) -> Floats:
    return np.bincount(groups, weights=weights, minlength=n).astype(np.float64, copy=False)


@dataclass(frozen=True)
class _ValuesOnly:
    """Rows of which nothing but the kept values is known (`RowsView`)."""

    values: Sequence[Values] = field(repr=False)
    d: int

    @property
    def codes(self) -> Ints:
        return np.zeros((len(self.values), self.d), dtype=np.int64)

    @property
    def exact(self) -> Sequence[tuple[str, ...]]:
        return [()] * len(self.values)

    @property
    def nulls(self) -> Bools:
        return np.zeros((len(self.values), self.d), dtype=np.bool_)


Bound = tuple[str, Fraction]
"""How a value is compared, and with what."""


class _Match(NamedTuple):
    share: float
    all: bool
    any: bool


def _matcher(attribute: Attribute, asked: Sequence[Comparison]) -> Callable[..., _Match]:
    """What of one attribute's published value matches; takes the published columns."""
    if isinstance(attribute, CategoricalAttribute):
        return lambda label: _of_leaves(attribute, asked, str(label))
    exact = partial(_exact, attribute)
    if isinstance(attribute, TemporalAttribute):
        bounds, end = _moments(attribute, asked), Fraction(attribute.calendar.last)
        step = Fraction(1) if attribute.calendar.is_closed else None
    else:
        bounds, end = _numbers(asked), Fraction(attribute.domain[1])
        step = None if attribute.step is None else Fraction(attribute.step)
    if step is None:
        return lambda lo, hi: _of_lengths(attribute, bounds, exact(lo), exact(hi), end)
    return lambda lo, hi: _of_steps(attribute, bounds, exact(lo), exact(hi), step)


def _but_nulls(attribute: Attribute, match: Callable[..., _Match]) -> Callable[..., _Match]:
    """The same, but nothing is certain where a published value holds what a null counts as: a null matches nothing."""
    code = attribute.null_code
    if code is None:
        return match
    stands_for = from_code(attribute, code, null_exact(attribute) if is_stepless(attribute) else None)
    value = stands_for if isinstance(stands_for, str) else Fraction(stands_for)
    holds_it = _matcher(attribute, [Comparison(attribute.name, "=", None, value)])

    def but_nulls(*ends: object) -> _Match:
        found = match(*ends)
        return found._replace(all=found.all and not holds_it(*ends).any)

    return but_nulls


def _exact(attribute: NumericAttribute | TemporalAttribute, end: object) -> Fraction:
    """A published end as a number; a moment is one."""
    if isinstance(attribute, TemporalAttribute):
        try:
            return Fraction(moment_of(end, attribute.name, attribute.calendar.clock))
        except EventRefused:
            raise _foreign(attribute) from None
    return Fraction(Decimal(str(end)))


def _numbers(asked: Sequence[Comparison]) -> list[Bound]:
    bounds: list[Bound] = []
    for comparison in asked:
        if isinstance(comparison.constant, bool) or not isinstance(comparison.constant, int | Fraction):
            raise UsageError(f"--query: column {comparison.left!r} holds numbers")
        bounds.append((comparison.test, Fraction(comparison.constant)))
    return bounds


def _moments(attribute: TemporalAttribute, asked: Sequence[Comparison]) -> list[Bound]:
    name, clock = attribute.name, attribute.calendar.clock
    return [(comparison.test, Fraction(limit_of(str(comparison.constant), name, clock))) for comparison in asked]


def _foreign(attribute: Attribute) -> LawViolated:
    return LawViolated(f"column {attribute.name} holds what table.yaml does not know")


def _of_leaves(attribute: CategoricalAttribute, asked: Sequence[Comparison], label: str) -> _Match:
    if label not in attribute.hierarchy.interval_of:
        raise _foreign(attribute)
    first, last = attribute.hierarchy.interval_of[label]
    wanted = {attribute.hierarchy.code_of[str(comparison.constant)] for comparison in asked}
    n = len(wanted) == 1 and all(first <= leaf <= last for leaf in wanted)
    return _Match(n / (last - first + 1), n and first == last, bool(n))


def _of_steps(attribute: Attribute, asked: Sequence[Bound], lo: Fraction, hi: Fraction, step: Fraction) -> _Match:
    """The numbers lo, lo + step, ..., hi."""
    if lo > hi:
        raise _foreign(attribute)
    n = int((hi - lo) / step) + 1
    first, last = 0, n - 1
    for test, bound in asked:
        place = (bound - lo) / step
        if test in ("=", ">=", ">"):
            first = max(first, floor(place) + 1 if test == ">" else ceil(place))
        if test in ("=", "<=", "<"):
            last = min(last, ceil(place) - 1 if test == "<" else floor(place))
    found = max(0, last - first + 1)
    return _Match(found / n, found == n, found > 0)


def _of_lengths(attribute: Attribute, asked: Sequence[Bound], lo: Fraction, hi: Fraction, end: Fraction) -> _Match:
    """All numbers from lo to hi; hi itself is one of them at the end of the domain only, else it may be."""
    if lo > hi:
        raise _foreign(attribute)
    first, last, is_all = lo, hi, True
    for test, bound in asked:
        if test in ("=", ">=", ">"):
            first = max(first, bound)
            is_all = is_all and (lo > bound or (lo == bound and test != ">"))
        if test in ("=", "<=", "<"):
            last = min(last, bound)
            is_all = is_all and (hi < bound or (hi == bound and (test == "<=" or hi != end)))
        is_all = is_all and (test != "=" or lo == hi)
    length = max(Fraction(0), last - first)
    share = float(length / (hi - lo)) if hi > lo else float(is_all)
    return _Match(share, is_all, first <= last)
