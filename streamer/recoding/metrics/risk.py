"""The remaining risk of a recoding: how many individuals hide each other, and how much a group gives away.

A table is as safe as its worst group: minima of counts, maxima of shares, and of several sensitive columns the worst
one. If table.yaml declares no individuals, each row is one of its own. A null is a sensitive value like any other in
shares, and one of the l distinct ones only if table.yaml says so (`null_counts`; `streamer.privacy.models`). Suppressed
rows are not published and risk nothing. If there is nothing to measure (no QI groups, no sensitive column) the answer
is None, never 0 and never NaN.

Sources: risk R(c) and R(T): Gui et al. 2020, definition 1, equations 1 and 2; vulnerable and single-value groups: Tong
et al. 2010, section 4; prosecutor risk: El Emam and Dankar 2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import fsum
from typing import NamedTuple

import msgspec
import numpy as np

from streamer.privacy.models import Model
from streamer.recoding.algorithms.contract import Recoding
from streamer.table.arrays import NUMBERS_MAX, Bools, Floats, Ints
from streamer.table.draft.kinds import SURE
from streamer.table.microdata import INDIVIDUAL, NULL, Microdata, Subject
from streamer.table.schema import Table


class Tally(NamedTuple):
    """One entry for every value that occurs in a QI group, sorted by group; int64, all of one length."""

    group: Ints
    value: Ints
    rows: Ints  # how many rows of the group have the value


def tally(recoding: Recoding, values: Ints) -> Tally:
    """Counts `values`, int64 (n,) from 0, in every QI group; suppressed rows do not count.

    >>> one, two = np.array([[0], [5]]), np.array([[4], [9]])
    >>> tally(Recoding(np.array([0, 0, 1, -1]), one, two), np.array([7, 7, 2, 2])).rows
    array([2, 1])
    """
    published = recoding.qi_group >= 0
    group, values = recoding.qi_group[published], values[published]
    width = int(values.max(initial=0)) + 1
    if width * (recoding.n_groups + 1) > NUMBERS_MAX:
        distinct, values = np.unique(values, return_inverse=True)
        found = tally(Recoding(group, recoding.lo, recoding.hi), values)
        return found._replace(value=distinct[found.value])
    pairs, rows = np.unique(group * width + values, return_counts=True)
    return Tally(pairs // width, pairs % width, rows)


def distinct_by_group(microdata: Microdata, recoding: Recoding, subject: Subject) -> Ints:
    """The number of distinct subjects of every QI group; int64 (g,)."""
    found = tally(recoding, microdata.subject(subject))
    counted = subject.null_counts | (found.value != NULL)
    return np.bincount(found.group[counted], minlength=recoding.n_groups)


def share_by_group(microdata: Microdata, recoding: Recoding, subject: Subject) -> Floats:
    """The largest share of one subject in every QI group; float64 (g,), above 0 up to 1.

    If the subject is a column's ancestors, this is R(c) of Gui et al. 2020, equation 1.
    """
    found = tally(recoding, microdata.subject(subject))
    top = np.zeros(recoding.n_groups, dtype=np.int64)
    np.maximum.at(top, found.group, found.rows)
    return top / recoding.sizes


def individuals_by_group(microdata: Microdata, recoding: Recoding) -> Ints:
    """Distinct individuals of every QI group; int64 (g,)."""
    if microdata.individuals is None:
        return recoding.sizes
    return distinct_by_group(microdata, recoding, INDIVIDUAL)


def k_rows(recoding: Recoding) -> int | None:
    """The k that the table achieves: rows of the smallest QI group."""
    return _least([recoding.sizes])


def k_individuals(microdata: Microdata, recoding: Recoding) -> int | None:
    """The k of identity-reserved k-anonymity that the table achieves (Tong et al. 2010, definition 2)."""
    return _least([individuals_by_group(microdata, recoding)])


def l_distinct(microdata: Microdata, recoding: Recoding) -> int | None:
    """The l of distinct l-diversity that the table achieves (Machanavajjhala et al. 2006), over sensitive columns."""
    null_counts = microdata.table.diversity.null_counts
    subjects = [replace(subject, null_counts=null_counts) for subject in _values(microdata.table)]
    return _least([distinct_by_group(microdata, recoding, subject) for subject in subjects])


def alpha(microdata: Microdata, recoding: Recoding) -> float | None:
    """The largest share of one individual's rows in a QI group (Tong et al. 2010, definition 4)."""
    if microdata.individuals is None:
        return _greatest([1 / recoding.sizes])
    return _greatest([share_by_group(microdata, recoding, INDIVIDUAL)])


def beta(microdata: Microdata, recoding: Recoding) -> float | None:
    """The largest share of one sensitive value in a QI group (Tong et al. 2010, definition 4)."""
    return _greatest([share_by_group(microdata, recoding, subject) for subject in _values(microdata.table)])


def risk(microdata: Microdata, recoding: Recoding, model: Model) -> float | None:
    """R(T): the largest share of semantically close sensitive values in a QI group (Gui et al. 2020, equation 2).

    Close are values with the same ancestor, at the level of `close_subjects`.
    """
    close = close_subjects(microdata.table, model)
    return _greatest([share_by_group(microdata, recoding, subject) for subject in close])


def close_subjects(table: Table, model: Model) -> tuple[Subject, ...]:
    """The subjects whose values count as semantically close, one for each sensitive column.

    It has the lowest level above 0 at which the model bounds the column's shares; else the table's `privacy.level` (by
    default 1); for a column without a hierarchy it is the values themselves.
    """
    close = []
    for column in table.sensitive:
        bounded = [s.level for s in model.shares if s != INDIVIDUAL and s.column == column and s.level]
        tree = table.kept[column].hierarchy
        level = 0 if tree is None else min(table.diversity.level, len(tree.levels) - 1)
        close.append(Subject(column, min(bounded, default=level)))
    return tuple(close)


def vulnerable(microdata: Microdata, recoding: Recoding, k: int) -> float | None:
    """Share of the QI groups with at least k rows but fewer than k individuals (Tong et al. 2010, section 4)."""
    few = individuals_by_group(microdata, recoding) < k
    return _share_of((recoding.sizes >= k) & few)


def single_value(microdata: Microdata, recoding: Recoding) -> float | None:
    """Share of the QI groups that hold exactly one individual (Tong et al. 2010, section 4)."""
    return _share_of(individuals_by_group(microdata, recoding) == 1)


def prosecutor_max(microdata: Microdata, recoding: Recoding) -> float | None:
    """The best chance to pick a person who is known to be in the table: 1 / individuals of the smallest group."""
    smallest = k_individuals(microdata, recoding)
    return None if smallest is None else 1 / smallest


def prosecutor_mean(microdata: Microdata, recoding: Recoding) -> float | None:
    """That chance on average over the published rows; 1 / AES if every row is its own individual."""
    if not recoding.n_groups:
        return None
    sizes = recoding.sizes
    return fsum(sizes / individuals_by_group(microdata, recoding)) / int(sizes.sum())


NO_ANSWER = {word.casefold() for word in SURE} | {"", "missing", "no answer", "not known", "not stated", "unknown"}
"""Texts that say nothing of a person, in lower case; those that table.yaml lists as `na` are nulls."""


def silent(texts: Sequence[bytes]) -> Bools:
    """Which JSON texts of a kept column are no answer: a null, or a word that stands for one; bool (texts,).

    >>> silent([b"null", b'"N/A"', b'"flu"', b"0"]).tolist()
    [True, True, False, False]
    """
    values = map(msgspec.json.decode, texts)
    said = (value is None or (isinstance(value, str) and value.strip().casefold() in NO_ANSWER) for value in values)
    return np.fromiter(said, dtype=bool, count=len(texts))


def grouped(number: Ints, n_groups: int) -> Recoding:
    """Rows grouped by a number of their own, int64 (n,), not by what is published: there are no boxes."""
    none = np.empty((n_groups, 0), dtype=np.int64)
    return Recoding(number, none, none)


def rows_of_one(microdata: Microdata, column: int) -> int:
    """Rows whose value of a kept column nobody else has, in no row; what is no answer does not count."""
    texts = microdata.texts[column]
    by_value = grouped(microdata.values[:, column], len(texts))
    return int(by_value.sizes[(individuals_by_group(microdata, by_value) == 1) & ~silent(texts)].sum())


def _values(table: Table) -> list[Subject]:
    return [Subject(column) for column in table.sensitive]


def _least(by_group: Sequence[Ints]) -> int | None:
    return min((int(counts.min()) for counts in by_group if len(counts)), default=None)


def _greatest(by_group: Sequence[Floats]) -> float | None:
    return max((float(shares.max()) for shares in by_group if len(shares)), default=None)


def _share_of(groups: Bools) -> float | None:
    return int(groups.sum()) / len(groups) if len(groups) else None
