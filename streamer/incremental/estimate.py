"""COUNT queries answered from what is published: an estimate, and bounds of the true number.

* A query is a condition as in statements: comparisons of a column with a value, joined by `and`. Two columns cannot be
  compared: what is published does not say which values go together.
* A box, or a vector of cells, that holds both values that match and values that do not matches by the share of its
  values, as if rows were spread evenly. It matches certainly if all its values match, and possibly if one does. A
  column without a step has no smallest value: its shares are of lengths, and a single point has the share 0.
* All forms of publication are answered alike: if rows or QI groups are published, a QI group is one box.

The estimate is that of Tong et al. 2010, section 4: a QI group publishes some vectors of cells and some sensitive rows,
and every pair of the two is equally likely. The bounds follow from the same figures; the paper gives none. Every vector
has at least one row, and the vectors of the other rows are not known.
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
from streamer.table.codes import (
    Attribute,
    CategoricalAttribute,
    NumericAttribute,
    TemporalAttribute,
    constant_of,
    from_code,
    is_stepless,
    moment_of,
    null_exact,
)
from streamer.table.published.groups import COUNT
from streamer.table.published.rows import QI_GROUP, all_box_columns, attribute_columns
from streamer.table.row import Values
from streamer.table.schema import Table


def estimated(st_hit: Ints, qi_hit: Floats | Ints, vectors: Ints) -> float:
    """The estimate over QI groups (g,): the sum of st_hit * qi_hit / vectors.

    st_hit: sensitive rows that match. qi_hit: vectors that match, in part too. vectors: above 0.
    """
    return float((st_hit * qi_hit / vectors).sum())


def bounds(st_hit: Ints, rows: Ints, certain: Ints, possible: Ints, vectors: Ints) -> tuple[int, int]:
    """The least and the most rows that can match, over QI groups (g,).

    rows: of each group. certain: vectors whose rows all match. possible: vectors that may have a matching row. If every
    vector matches whole or not at all (certain = possible), every number between the bounds can be the true one.
    """
    least = np.where(certain == vectors, rows, certain)
    most = np.where(possible > 0, rows - (vectors - possible), 0)
    low = np.maximum(0, st_hit + least - rows)
    high = np.minimum(st_hit, most)
    return int(low.sum()), int(high.sum())


class Answer(NamedTuple):
    """The number of rows that match."""

    estimate: float
    at_least: int
    at_most: int
    rows: int  # that are published


class Query:
    """A query over what a table publishes. Raises UsageError if the text is not a query."""

    def __init__(self, table: Table, text: str) -> None:
        self._table = table = table.as_published
        try:
            comparisons = read_condition(text)
            condition_of(comparisons, table)
            kept = {column.name for column in table.kept}
            values = [comparison for comparison in comparisons if comparison.left in kept]
            self._values = condition_of(values, table) if values else None
        except EventRefused as refused:
            raise UsageError(f"--query: {refused.detail}") from None
        if any(one.test in (IS_NULL, IS_NOT_NULL) and one.left not in kept for one in comparisons):
            raise UsageError(
                "--query: asks for nulls of a quasi-identifier, which are published as the value that they count as"
            )
        if any(comparison.right is not None for comparison in comparisons):
            raise UsageError(
                "--query: compares two columns, but what is published does not say which values go together"
            )
        self._comparisons = comparisons

    def answer(self, frames: Mapping[str, pd.DataFrame]) -> Answer:
        """The answer from a folded table (`release.frames`)."""
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
        """True for each row that has the kept values of the query."""
        if self._values is None or not len(rows):
            return np.ones(len(rows), dtype=bool)
        encode = msgspec.json.Encoder(decimal_format="number").encode
        kept = [[encode(value) for value in rows[column.name]] for column in self._table.kept]
        n, d = len(rows), self._table.space.d
        blank = np.zeros((n, d), np.int64), [()] * n, np.zeros((n, d), np.bool_)
        return self._values.matches(_ValuesOnly(list(zip(*kept, strict=True)), *blank))

    def _matches(self, vectors: pd.DataFrame) -> tuple[Floats, Bools, Bools]:
        """Of every vector: the share of its values that match; true if all match; true if any does."""
        share, certain, possible = np.ones(len(vectors)), np.ones(len(vectors), bool), np.ones(len(vectors), bool)
        for attribute in self._table.attributes:
            asked = [comparison for comparison in self._comparisons if comparison.left == attribute.name]
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
    """Rows with kept values alone (a `RowsView`)."""

    values: Sequence[Values] = field(repr=False)
    codes: Ints
    exact: Sequence[tuple[str, ...]]
    nulls: Bools


Bound = tuple[str, Fraction]
"""A comparison: its test, and the number on its right."""


class _Match(NamedTuple):
    share: float
    all: bool
    any: bool


def _matcher(attribute: Attribute, asked: Sequence[Comparison]) -> Callable[..., _Match]:
    """Matches one attribute's published columns."""
    if isinstance(attribute, CategoricalAttribute):
        return lambda label: _of_leaves(attribute, asked, str(label))
    exact = partial(_exact, attribute)
    if isinstance(attribute, TemporalAttribute):
        name, clock, end = attribute.name, attribute.calendar.clock, Fraction(attribute.calendar.last)
        bounds = [(one.test, Fraction(constant_of(str(one.constant), name, clock))) for one in asked]
        step = Fraction(1) if attribute.calendar.is_closed else None
    else:
        bounds, end = _numbers(asked), Fraction(attribute.domain[1])
        step = None if attribute.step is None else Fraction(attribute.step)
    if step is None:
        return lambda lo, hi: _of_lengths(attribute, bounds, exact(lo), exact(hi), end)
    return lambda lo, hi: _of_steps(attribute, bounds, exact(lo), exact(hi), step)


def _but_nulls(attribute: Attribute, match: Callable[..., _Match]) -> Callable[..., _Match]:
    """The matcher, but not certain if the value covers what a null counts as: a null matches nothing."""
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


def _foreign(attribute: Attribute) -> LawViolated:
    return LawViolated(f"column {attribute.name} holds a value that table.yaml does not know")


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
        steps = (bound - lo) / step
        if test in ("=", ">=", ">"):
            first = max(first, floor(steps) + 1 if test == ">" else ceil(steps))
        if test in ("=", "<=", "<"):
            last = min(last, ceil(steps) - 1 if test == "<" else floor(steps))
    found = max(0, last - first + 1)
    return _Match(found / n, found == n, found > 0)


def _of_lengths(attribute: Attribute, asked: Sequence[Bound], lo: Fraction, hi: Fraction, end: Fraction) -> _Match:
    """All numbers from lo to hi. hi itself certainly belongs to them only at the end of the domain."""
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
