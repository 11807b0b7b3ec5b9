"""What an officer has to know before a table leaves: figures of one run as plain values, for the page and for programs.

The European data protection authorities ask three things of an anonymous table (Article 29 Working Party, Opinion
05/2014): can a person be singled out, can records about one person be linked, can something be inferred about a person.
The figures answer them for what is published, and the first one for the input too, so that both can be compared. They
are counts, shares, roles and what table.yaml says, never a value of a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import fsum
from typing import Any

import numpy as np

from streamer.recoding.algorithms.contract import Recoding
from streamer.recoding.metrics.risk import grouped, individuals_by_group, rows_of_one, silent, tally
from streamer.table.arrays import Bools, Ints, row_numbers
from streamer.table.attributes import Attribute, CategoricalAttribute, TemporalAttribute
from streamer.table.microdata import Microdata
from streamer.table.published.rows import box_columns
from streamer.table.scalars import decimal_text
from streamer.table.schema import LOSSY_JOIN, Table

Figures = dict[str, Any]

CROWDS = (2, 3, 5, 10, 20)
"""Numbers of people: a row with fewer around it is counted as at risk."""

KEY, WHOSE, QUASI_IDENTIFIER, SENSITIVE, KEPT, STAYS = (
    "key", "individual", "quasi-identifier", "sensitive", "keep", "stays behind"
)  # fmt: skip


def findings(microdata: Microdata, recoding: Recoding, form: str, header: Iterable[str]) -> Figures:
    """All figures of one run. form: how it is published; header: all columns of the input."""
    left = np.flatnonzero(recoding.qi_group >= 0)
    published = microdata.rows(left)
    exact = _exact(published, recoding, form, recoding.qi_group[left])
    table = microdata.table
    return {
        "by_individual": microdata.individuals is not None,
        "declared": table.individual is not None,
        "columns": list(_columns(table, header, exact)),
        "values_of_one": [
            {"column": column.name, "sensitive": column.sensitive, "rows": rows, "share": rows / len(published)}
            for i, column in enumerate(table.kept)
            if (rows := rows_of_one(published, i))
        ],
        "together_of_one": crowds(published, _alike(published.values)) if len(table.kept) > 1 else None,
        "before": crowds(microdata, _alike(microdata.codes)),
        "after": crowds(published, _alike(published.cells) if form == LOSSY_JOIN else _regrouped(recoding, left)),
        "inference": [_inferred(published, recoding.qi_group[left], i) for i in table.sensitive if len(left)],
        "as_they_are": [column.name for column in table.kept if not column.sensitive],
    }


# Singling out: how many people are alike in their quasi-identifiers.


def crowds(microdata: Microdata, alike: Recoding) -> Figures | None:
    """How many people rows that are alike have among them, and how often one is picked right; None without rows."""
    sizes, people = alike.sizes, individuals_by_group(microdata, alike)
    rows = int(sizes.sum())
    if not rows:
        return None
    counted = [(crowd, int(sizes[people < crowd].sum())) for crowd in CROWDS]
    alone = int(sizes[people == 1].sum())
    return {
        "rows": rows,
        "smallest": int(people.min()),
        "alone": alone,
        "alone_share": alone / rows,
        "chance_max": 1 / int(people.min()),
        "chance_mean": fsum(sizes / people) / rows,
        "at_risk": [{"chance": 1 / crowd, "rows": few, "share": few / rows} for crowd, few in counted],
    }


def _alike(numbers: Ints) -> Recoding:
    """The rows with equal numbers, int64 (n, d), as groups."""
    different, group = np.unique(row_numbers(numbers), return_inverse=True)
    return grouped(group.astype(np.int64), len(different))


def _regrouped(recoding: Recoding, left: Ints) -> Recoding:
    return grouped(recoding.qi_group[left], recoding.n_groups)


# Inference: what is learned of everybody in a QI group. What is no answer is nobody's secret, so it is told apart.


def _inferred(published: Microdata, qi_group: Ints, column: int) -> Figures:
    """What QI groups tell of a sensitive column; qi_group: of the published rows."""
    mute = silent(published.texts[column])
    values = published.values[:, column]
    answers = np.where(mute[values], 0, values + 1)
    groups = grouped(qi_group, int(qi_group.max()) + 1)
    found = tally(groups, answers)
    share, says = found.rows / groups.sizes[found.group], found.value > 0
    known, unanswered = (share == 1) & says, (share == 1) & ~says
    different = np.bincount(found.group[says], minlength=groups.n_groups)[found.group]
    agreed = says & (different == 1) & ~known
    whole = np.bincount(answers)[1:]
    return {
        "column": published.table.kept[column].name,
        "groups": groups.n_groups,
        "worst": float(share[says].max()) if says.any() else None,
        "usual": int(whole.max()) / len(published) if says.any() else None,
        **_counted("known", known, found.rows),
        **_counted("unanswered", unanswered, found.rows),
        **_counted("agreed", agreed, found.rows),
    }


def _counted(name: str, which: Bools, rows: Ints) -> Figures:
    return {f"{name}_groups": int(which.sum()), f"{name}_rows": int(rows[which].sum())}


# Columns: what each is, and how exactly it is published.


def _columns(table: Table, header: Iterable[str], exact: dict[str, float]) -> Iterator[Figures]:
    """Every column of the input: its roles, what it may hold, and the share of rows that show its exact value."""
    attributes = {attribute.name: attribute for attribute in table.attributes}
    kept = {column.name: column for column in table.kept}
    for name in header:
        roles = [KEY] * (name in table.source_key) + [WHOSE] * (name == table.individual)
        roles += [QUASI_IDENTIFIER] * (name in attributes)
        if name in kept:
            roles.append(SENSITIVE if kept[name].sensitive else KEPT)
        yield {
            "name": name,
            "roles": roles or [STAYS],
            "range": range_of(attributes[name]) if name in attributes else None,
            "exact": exact.get(name),
        }


def range_of(attribute: Attribute) -> str:
    """What values a quasi-identifier may have and how they are cut, as table.yaml says."""
    if isinstance(attribute, CategoricalAttribute):
        tree = attribute.hierarchy
        return f"{tree.n_leaves:,} categories in {tree.n_levels} levels"
    whole = box_columns(attribute, 0, attribute.axis.n_cells - 1).values()
    ends = " to ".join(end if isinstance(end, str) else decimal_text(end) for end in whole)
    grid = attribute.calendar.grid.text if isinstance(attribute, TemporalAttribute) else decimal_text(attribute.grid)
    return f"{ends}, in steps of {grid}"


def _exact(published: Microdata, recoding: Recoding, form: str, qi_group: Ints) -> dict[str, float]:
    """By published column, the share of the published rows whose value can be read exactly."""
    if not len(published):
        return {}
    shares = {column.name: 1.0 for column in published.table.kept}
    for j, attribute in enumerate(published.table.attributes):
        lo, hi = (ends[qi_group, j] for ends in (recoding.lo, recoding.hi))
        if form == LOSSY_JOIN:
            lo = hi = published.cells[:, j]
        runs = np.stack([lo, hi], axis=1)
        _, first, rows = np.unique(row_numbers(runs), return_index=True, return_counts=True)
        is_exact = np.array([_is_one_value(attribute, *run) for run in runs[first].tolist()])
        shares[attribute.name] = int(rows[is_exact].sum()) / len(published)
    return shares


def _is_one_value(attribute: Attribute, lo: int, hi: int) -> bool:
    """Whether the cells lo..hi are published as a single value."""
    if isinstance(attribute, CategoricalAttribute):
        return lo == hi
    first, last = box_columns(attribute, lo, hi).values()
    return first == last
