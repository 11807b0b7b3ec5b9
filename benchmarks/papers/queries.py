"""COUNT queries: how well a published table answers what was asked of the source table (Tong et al. 2010, section 4).

A query counts the rows with one of several values in each of qd quasi-identifiers *and* one of several values in a
sensitive column: `A = x1 or A = x2 or ...`, joined by `and`. Values of quasi-identifiers are cells of the grid,
because the published table knows nothing finer. How many values a query wants, the paper leaves open. Here as in Xiao
and Tao 2006 (Anatomy), whose form of queries it is: of m values m * s ^ (1 / (qd + 1)), rounded up, so that a query
matches about a fraction s of the rows, s = 0.05. Attributes and values are drawn evenly, the values from those that
occur in the table.

An estimate uses published things only. Generalized tables: a row is spread evenly over its box. Lossy join: every pair
of a group's two tables is as likely. Suppressed rows are in neither. Queries that no source row matches are skipped:
relative correctness divides by their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from streamer.errors import UsageError
from streamer.incremental.estimate import estimated
from streamer.recoding.algorithms.contract import Recoding
from streamer.recoding.algorithms.lossy_join import LossyJoin
from streamer.recoding.metrics.risk import tally
from streamer.table.arrays import Bools, Floats, Ints
from streamer.table.microdata import Microdata

SELECTIVITY = 0.05


@dataclass(frozen=True)
class Query:
    """attributes: numbers of the quasi-identifiers asked about; cells: for each of them the values, sorted int64.

    column: the sensitive column, by its number among the kept ones; values: numbers of its texts, sorted int64.
    """

    attributes: tuple[int, ...]
    cells: tuple[Ints, ...] = field(repr=False)
    column: int
    values: Ints = field(repr=False)


def random_queries(microdata: Microdata, n: int, qd: int, column: int, seed: int) -> list[Query]:
    """n queries about qd of the d quasi-identifiers and the sensitive `column` (its number among the kept ones).

    Raises UsageError where there are not so many quasi-identifiers, or no rows to ask about.
    """
    d = microdata.space.d
    if not 0 <= qd <= d:
        raise UsageError(f"queries about {qd} quasi-identifiers: the table has {d}")
    if not len(microdata):
        raise UsageError("queries about a table without rows")
    rng = np.random.default_rng(seed)
    domains, sensitive = [np.unique(cells) for cells in microdata.cells.T], np.unique(microdata.values[:, column])
    queries = []
    for _ in range(n):
        attributes = np.sort(rng.choice(d, qd, replace=False)).tolist()
        cells = tuple(_drawn(rng, domains[j], qd) for j in attributes)
        queries.append(Query(tuple(attributes), cells, column, _drawn(rng, sensitive, qd)))
    return queries


def _drawn(rng: np.random.Generator, domain: Ints, qd: int) -> Ints:
    n_values = ceil(len(domain) * SELECTIVITY ** (1 / (qd + 1)))
    return np.sort(rng.choice(domain, n_values, replace=False))


def actual(microdata: Microdata, queries: Sequence[Query]) -> Ints:
    """The answers of the source table, `act`; int64 (q,)."""
    rows = _Rows(microdata.cells)
    answers = [np.count_nonzero(rows.matching(query) & _among(query, microdata.values)) for query in queries]
    return np.array(answers, dtype=np.int64)


def from_boxes(microdata: Microdata, recoding: Recoding, queries: Sequence[Query]) -> Floats:
    """The answers of the generalized table, `apr`; float64 (q,).

    A published row with a wanted sensitive value counts the part of its box that the query covers: the product over
    the attributes asked about of |wanted cells in the box| / |cells of the box|. From microdata only what is published
    is used: the values of the kept columns.
    """
    d = recoding.lo.shape[1]
    domains = [_wanted_cells(queries, j) for j in range(d)]
    first = [np.searchsorted(domains[j], recoding.lo[:, j], side="left") for j in range(d)]
    after = [np.searchsorted(domains[j], recoding.hi[:, j], side="right") for j in range(d)]
    width = recoding.hi - recoding.lo + 1
    found = {column: tally(recoding, microdata.values[:, column]) for column in {q.column for q in queries}}
    answers = np.zeros(len(queries))
    for i, query in enumerate(queries):
        covered = np.ones(recoding.n_groups)
        for j, cells in zip(query.attributes, query.cells, strict=True):
            upto = np.concatenate([[0], np.cumsum(_wanted_in(domains[j], cells))])
            covered *= (upto[after[j]] - upto[first[j]]) / width[:, j]
        group, value, rows = found[query.column]
        hit = np.isin(value, query.values)
        answers[i] = (covered[group[hit]] * rows[hit]).sum()
    return answers


def from_lossy_join(join: LossyJoin, queries: Sequence[Query]) -> Floats:
    """The answers of the two tables of a lossy join, `apr` = sum of st_hit * qi_hit / group size; float64 (q,).

    qi_hit and group size count rows of the QIT, st_hit rows of the STT (Tong et al. 2010, section 4).
    """
    rows = _Rows(join.qit_cells)
    size = np.bincount(join.qit_group)  # every group has a row here
    n_groups = len(size)
    answers = np.zeros(len(queries))
    for i, query in enumerate(queries):
        qi_hit = np.bincount(join.qit_group[rows.matching(query)], minlength=n_groups)
        st_hit = np.bincount(join.stt_group[_among(query, join.stt_values)], minlength=n_groups)
        answers[i] = estimated(st_hit, qi_hit, size)
    return answers


def relative_correctness(act: Ints, apr: Floats) -> float | None:
    """Mean of 2 ** (-|act - apr| / act) over the queries with act > 0; above 0 up to 1 (Tong et al. 2010, section 4).

    None where no query has a row that it matches.

    >>> relative_correctness(np.array([4, 2, 0]), np.array([4.0, 4.0, 9.0]))
    0.75
    """
    asked = act > 0
    if not asked.any():
        return None
    return float(np.exp2(-np.abs(act[asked] - apr[asked]) / act[asked]).mean())


class _Rows:
    """Rows of cells (n, d) with every attribute's cells numbered, so that a predicate is one look-up for each row."""

    def __init__(self, cells: Ints) -> None:
        self._n = len(cells)
        self._columns = [np.unique(column, return_inverse=True) for column in cells.T]

    def matching(self, query: Query) -> Bools:
        """Which rows have a wanted cell in every attribute that is asked about; bool (n,)."""
        matching = np.ones(self._n, dtype=bool)
        for j, cells in zip(query.attributes, query.cells, strict=True):
            domain, number = self._columns[j]
            matching &= _wanted_in(domain, cells)[number]
        return matching


def _wanted_cells(queries: Sequence[Query], attribute: int) -> Ints:
    """All cells that any query wants of an attribute, sorted; int64."""
    wanted = [c for q in queries for j, c in zip(q.attributes, q.cells, strict=True) if j == attribute]
    return np.unique(np.concatenate(wanted)) if wanted else np.empty(0, dtype=np.int64)


def _wanted_in(domain: Ints, wanted: Ints) -> Bools:
    return np.isin(domain, wanted, assume_unique=True)


def _among(query: Query, values: Ints) -> Bools:
    """Which rows have a wanted value in the query's sensitive column; values (n, kept), bool (n,)."""
    return np.isin(values[:, query.column], query.values)
