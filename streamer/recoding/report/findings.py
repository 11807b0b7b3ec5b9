"""Figures of one run for the officer who lets a table leave: plain values, for the page and for programs.

The European data protection authorities ask three things of an anonymous table (Article 29 Working Party, Opinion
05/2014): can a person be singled out, can records about one person be linked, can something be inferred about a person.
The figures answer them for what is published, and the first one for the input too, so that both can be compared. They
are counts, shares, roles and what table.yaml says, never a value of a row.

What is published is counted by box (`contract.by_box`), that of a lossy join by QI group. `cautions` says in words what
to look at first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from math import fsum
from typing import Any, NamedTuple

import numpy as np

from streamer.recoding.algorithms.contract import Recoding, by_box
from streamer.recoding.metrics.risk import (
    Tally,
    grouped,
    individuals_by_group,
    rows_of_one,
    share_by_group,
    silent,
    tally,
)
from streamer.recoding.metrics.utility import ncp_by_attribute
from streamer.table.arrays import Bools, Floats, Ints, row_numbers
from streamer.table.codes import Attribute, CategoricalAttribute, TemporalAttribute, decimal_text
from streamer.table.microdata import Microdata, Subject
from streamer.table.published.rows import box_columns
from streamer.table.schema import LOSSY_JOIN, ROWS, Table

Figures = dict[str, Any]

SHARE_EDGES = tuple(i / 20 for i in range(21))


class Drawn(NamedTuple):
    """The figures in the pictures of a report."""

    losses: list[float] | None  # by attribute
    sizes: Ints  # rows of the QI groups (g,)
    shares: list[list[int]]  # by sensitive column, boxes by the share of their most frequent value: SHARE_EDGES


CROWDS = (2, 3, 5, 10, 20)
"""Numbers of people: a row with fewer around it is counted as at risk."""

KEY, WHOSE, QUASI_IDENTIFIER, SENSITIVE, KEPT, STAYS = (
    "key", "individual", "quasi-identifier", "sensitive", "keep", "stays behind"
)  # fmt: skip


def findings(microdata: Microdata, recoding: Recoding, form: str, header: Iterable[str]) -> Figures:
    """All figures of one run. form: how it is published; header: all columns of the input."""
    left = np.flatnonzero(recoding.qi_group >= 0)
    published, table = microdata.rows(left), microdata.table
    true = [i for i, column in enumerate(table.kept) if column.is_true]
    exact = _exact(published, recoding, form, recoding.qi_group[left])
    crowd = _regrouped(recoding if form == LOSSY_JOIN else by_box(recoding), left)
    return {
        "by_individual": microdata.individuals is not None,
        "declared": table.individual is not None,
        "columns": list(_columns(table, header, {name: rows / len(left) for name, rows in exact.items()})),
        "values_of_one": _values_of_one(table, [rows_of_one(published, i) for i in range(len(table.kept))], len(left)),
        "together_of_one": crowds(published, _alike(published.values[:, true])) if len(true) > 1 else None,
        "before": crowds(microdata, _alike(microdata.codes)),
        "after": crowds(published, _alike(published.cells) if form == LOSSY_JOIN else crowd),
        "with_kept": crowds(published, _with_kept(published, crowd)) if _as_they_are(table) else None,
        "inference": [_inferred(published, crowd, i) for i in table.sensitive if len(left)],
        "kept": [{"column": column.name, **_held(published, i)} for i, column in enumerate(table.kept)],
        "beside_nulls": _beside_nulls(published, recoding, form, recoding.qi_group[left]),
        "as_they_are": [table.kept[i].name for i in _as_they_are(table)],
        **_disguised(table),
    }


def _as_they_are(table: Table) -> list[int]:
    """The numbers of the kept columns that others may know."""
    return [i for i, column in enumerate(table.kept) if not column.sensitive and column.is_true]


def _disguised(table: Table) -> Figures:
    """What is said of columns that are not published as they are; nothing if there is none."""
    words = {column.name: column.disguise.words for column in table.kept if column.disguise is not None}
    return {"disguised": words, "linked": bool(table.pseudonyms)} if words else {}


def _values_of_one(table: Table, rows_by_column: Sequence[int], published: int) -> list[Figures]:
    return [
        {"column": column.name, "sensitive": column.sensitive, "rows": rows, "share": rows / published}
        for column, rows in zip(table.kept, rows_by_column, strict=True)
        if rows and column.is_true
    ]


def drawn_of(microdata: Microdata, recoding: Recoding) -> Drawn:
    """The figures in the pictures of one run."""
    losses, boxes = ncp_by_attribute(microdata, recoding), by_box(recoding)
    shares = [share_bins(share_by_group(microdata, boxes, Subject(column))) for column in microdata.table.sensitive]
    return Drawn(None if losses is None else losses.tolist(), recoding.sizes, shares)


def share_bins(shares: Floats) -> list[int]:
    """The number of boxes whose shares (g,) lie between two of SHARE_EDGES."""
    return np.histogram(shares, SHARE_EDGES)[0].tolist()  # type: ignore[no-any-return]


# A table in fragments: the same figures, as sums over the published files, and over ranges of what may be alike.


class PublishedPart(NamedTuple):
    """Figures of some whole boxes, from which those of all follow."""

    rows: int
    exact: dict[str, int]
    after: Figures
    with_kept: Figures | None
    inference: list[Figures]
    kept: list[dict[str, int]]
    beside_nulls: dict[str, int]
    drawn: Drawn


class Alike(NamedTuple):
    """Rows that are alike in something, all of them, from which the figures of all rows follow."""

    crowds: Figures | None
    most: int  # rows of the most frequent value, however it is written
    usual: int  # its open rows; 0 if several are as frequent


def published_part(microdata: Microdata, recoding: Recoding) -> PublishedPart:
    """The figures of some whole boxes; no row is suppressed."""
    everybody, table = np.arange(len(microdata)), microdata.table
    boxes = _regrouped(by_box(recoding), everybody)
    return PublishedPart(
        len(microdata),
        _exact(microdata, recoding, ROWS, recoding.qi_group),
        crowds(microdata, boxes) or {},
        crowds(microdata, _with_kept(microdata, boxes)) if _as_they_are(table) else None,
        [_inferred(microdata, boxes, i) for i in table.sensitive],
        [_held(microdata, i) for i in range(len(table.kept))],
        _beside_nulls(microdata, recoding, ROWS, recoding.qi_group),
        drawn_of(microdata, recoding),
    )


def alike_rows(
    table: Table, number: Ints, same: Ints, is_open: Bools, who: Ints | None, rows: Ints | None = None
) -> Alike:
    """Crowds of rows with equal numbers, int64 (n,); same: equal if the rows' values count as one; is_open: of
    `open_rows`; who: their individuals, from 0; rows: how many each stands for, one if None or there are individuals.
    """
    group, of_value = (np.unique(of, return_inverse=True)[1] for of in (number, same))
    if who is None:
        sizes = np.bincount(group, rows).astype(np.int64)
        found = _crowds_of(sizes, sizes)
    else:
        n = len(number)
        people = Microdata(table, np.zeros((n, 0), np.int64), who, np.zeros((n, 0), np.int64), ())
        found = crowds(people, grouped(group.astype(np.int64), int(group.max(initial=-1)) + 1))
    by_value, open_ones = (np.bincount(of_value, of) for of in (rows, is_open if rows is None else is_open * rows))
    return Alike(found, *_usual(by_value.astype(np.int64), open_ones.astype(np.int64)))


def _usual(rows: Ints, open_ones: Ints) -> tuple[int, int]:
    """The rows of the most frequent value, and its open ones; of each value."""
    most = int(rows.max(initial=0))
    is_one = most and (rows == most).sum() == 1
    return most, int(open_ones[rows.argmax()]) if is_one else 0


def united_alike(parts: Iterable[Alike]) -> Alike:
    """The figures of all rows from those of parts of which no row is alike one of another."""
    some = list(parts)
    first, *others = sorted(some, key=lambda part: -part.most)
    is_one = not others or others[0].most < first.most
    return Alike(_united_crowds([part.crowds for part in some if part.crowds]), first.most, is_one * first.usual)


def findings_of_parts(
    table: Table,
    header: Iterable[str],
    parts: Sequence[PublishedPart],
    before: Alike | None,
    together: Alike | None,
    by_value: Sequence[Alike],
) -> Figures:
    """The figures that `findings` finds, of the whole.

    before: rows of the input alike in their quasi-identifiers, and together: published rows alike in all kept columns,
    if there are several; None if nobody asked for them. by_value: by kept column, rows with an answer that are alike in
    it.
    """  # fmt: skip
    rows = sum(part.rows for part in parts)
    exact = {name: sum(part.exact[name] for part in parts) / rows for name in parts[0].exact}
    alone = [one.crowds["alone"] if one.crowds else 0 for one in by_value]
    inferred = []
    for number, column in enumerate(table.sensitive):
        some = [part.inference[number] for part in parts]
        summed = {name: sum(one[name] for one in some) for name in some[0] if name not in ("column", "worst", "usual")}
        worst = [one["worst"] for one in some if one["worst"] is not None]
        usual = {"usual": by_value[column].most / rows if worst else None, "usual_rows": by_value[column].usual}
        inferred.append({"column": some[0]["column"], **summed, "worst": max(worst, default=None), **usual})
    return {
        "by_individual": table.individual is not None,
        "declared": table.individual is not None,
        "columns": list(_columns(table, header, exact)),
        "values_of_one": _values_of_one(table, alone, rows),
        "together_of_one": together and together.crowds,
        "before": before and before.crowds,
        "after": _united_crowds([part.after for part in parts]),
        "with_kept": _united_crowds([part.with_kept for part in parts if part.with_kept]),
        "inference": inferred,
        "kept": [
            {"column": column.name} | {name: sum(part.kept[i][name] for part in parts) for name in parts[0].kept[i]}
            for i, column in enumerate(table.kept)
        ],
        "beside_nulls": {name: sum(part.beside_nulls[name] for part in parts) for name in parts[0].beside_nulls},
        "as_they_are": [table.kept[i].name for i in _as_they_are(table)],
        **_disguised(table),
    }


def drawn_of_parts(parts: Sequence[PublishedPart], suppressed: int) -> Drawn:
    """The figures in the pictures of the whole; suppressed: rows that no part has."""
    rows = sum(part.rows for part in parts)
    lost = np.array([np.array(part.drawn.losses) * part.rows for part in parts])
    losses = [(fsum(column) + suppressed) / (rows + suppressed) for column in lost.T]
    columns = range(len(parts[0].drawn.shares))
    shares = [np.sum([part.drawn.shares[i] for part in parts], axis=0).tolist() for i in columns]
    return Drawn(losses, np.concatenate([part.drawn.sizes for part in parts]), shares)


# Singling out: how many people are alike in their quasi-identifiers.


def crowds(microdata: Microdata, alike: Recoding) -> Figures | None:
    """The number of people among rows that are alike, and how often one is picked right; None without rows."""
    return _crowds_of(alike.sizes, individuals_by_group(microdata, alike))


def _crowds_of(sizes: Ints, people: Ints) -> Figures | None:
    """The same of their rows and people, (g,) each."""
    rows = int(sizes.sum())
    if not rows:
        return None
    at_risk = [int(sizes[people < crowd].sum()) for crowd in CROWDS]
    return _crowds(rows, int(people.min()), int(sizes[people == 1].sum()), fsum(sizes / people), at_risk)


def _crowds(rows: int, smallest: int, alone: int, chances: float, at_risk: Sequence[int]) -> Figures:
    return {
        "rows": rows,
        "smallest": smallest,
        "alone": alone,
        "alone_share": alone / rows,
        "chance_max": 1 / smallest,
        "chance_mean": chances / rows,
        "at_risk": [
            {"chance": 1 / crowd, "rows": few, "share": few / rows} for crowd, few in zip(CROWDS, at_risk, strict=True)
        ],
    }


def _united_crowds(parts: Sequence[Figures]) -> Figures | None:
    """The crowds of all rows from those of parts that tear none; equal to `crowds` of the whole up to rounding."""
    if not parts:
        return None
    return _crowds(
        sum(part["rows"] for part in parts),
        min(part["smallest"] for part in parts),
        sum(part["alone"] for part in parts),
        fsum(part["chance_mean"] * part["rows"] for part in parts),
        [sum(part["at_risk"][i]["rows"] for part in parts) for i in range(len(CROWDS))],
    )


def _alike(numbers: Ints) -> Recoding:
    """The rows with equal numbers, int64 (n, d), as groups."""
    different, group = np.unique(row_numbers(numbers), return_inverse=True)
    return grouped(group.astype(np.int64), len(different))


def _regrouped(recoding: Recoding, left: Ints) -> Recoding:
    return grouped(recoding.qi_group[left], recoding.n_groups)


def _with_kept(published: Microdata, crowd: Recoding) -> Recoding:
    """The rows of a crowd that are alike in what is published as it is and others may know."""
    kept = published.values[:, _as_they_are(published.table)]
    return _alike(np.concatenate([crowd.qi_group[:, None], kept], axis=1))


# Inference: what is learned of everybody in a box. A missing answer is nobody's secret, so it is counted apart.


def _inferred(published: Microdata, crowd: Recoding, column: int) -> Figures:
    """The values of a sensitive column that boxes give away; crowd: the published rows by box."""
    answers = _answers(published, column)
    found, says, different = _told(crowd, answers)
    share = found.rows / crowd.sizes[found.group]
    known, unanswered = (share == 1) & says, (share == 1) & ~says
    agreed = says & (different[found.group] == 1) & ~known
    whole = np.bincount(answers)
    whole[:1] = 0
    open_ones = np.bincount(answers[open_rows(published, crowd, column)], minlength=len(whole))
    most, usual = _usual(whole, open_ones)
    return {
        "column": published.table.kept[column].name,
        "groups": crowd.n_groups,
        "worst": float(share[says].max()) if says.any() else None,
        "usual": most / len(published) if says.any() else None,
        "usual_rows": usual,
        **_counted("known", known, found.rows),
        **_counted("unanswered", unanswered, found.rows),
        **_counted("agreed", agreed, found.rows),
    }


def open_rows(published: Microdata, crowd: Recoding, column: int) -> Bools:
    """Which rows have a value that all in their box share who have one; bool (n,)."""
    answers = _answers(published, column)
    is_one: Bools = _told(crowd, answers)[2] == 1
    return is_one[crowd.qi_group] & (answers > 0)


def _answers(published: Microdata, column: int) -> Ints:
    """The value of each row, however it is written, from 1; 0: no answer."""
    mute = silent(published.texts[column])
    return np.where(mute[published.values[:, column]], 0, published.subject(Subject(column)))


def _told(crowd: Recoding, answers: Ints) -> tuple[Tally, Bools, Ints]:
    """The answers of each box, which of them say something, and how many different ones a box has; int64 (g,)."""
    found = tally(crowd, answers)
    says = found.value > 0
    return found, says, np.bincount(found.group[says], minlength=crowd.n_groups)


def _counted(name: str, which: Bools, rows: Ints) -> Figures:
    return {f"{name}_groups": int(which.sum()), f"{name}_rows": int(rows[which].sum())}


# Columns: what each is, how much of it there is, and how exactly it is published.


_is_number = re.compile(rb'"?[-+]?[0-9][0-9.,]*"?').fullmatch


def _held(published: Microdata, column: int) -> dict[str, int]:
    """In how many rows a kept column has no answer, and in how many a number."""
    texts = published.texts[column]
    rows = np.bincount(published.values[:, column], minlength=len(texts))
    is_number = np.fromiter((_is_number(text) is not None for text in texts), dtype=bool, count=len(texts))
    return {"empty": int(rows[silent(texts)].sum()), "numbers": int(rows[is_number].sum())}


def _beside_nulls(published: Microdata, recoding: Recoding, form: str, qi_group: Ints) -> dict[str, int]:
    """By attribute with nulls, how many rows are published as what a null counts as, or as more that holds it."""
    found = {}
    for j in published.table.nullable:
        attribute = published.table.attributes[j]
        cell = (attribute.null_code or 0) // attribute.axis.codes_per_cell
        lo, hi = (
            (published.cells[:, j],) * 2 if form == LOSSY_JOIN else (recoding.lo[qi_group, j], recoding.hi[qi_group, j])
        )
        found[attribute.name] = int(((lo <= cell) & (cell <= hi)).sum())
    return found


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
    """The values that a quasi-identifier may have and how they are cut, as table.yaml says."""
    if isinstance(attribute, CategoricalAttribute):
        tree = attribute.hierarchy
        return f"{tree.n_leaves:,} categories in {tree.n_levels} levels"
    whole = box_columns(attribute, 0, attribute.axis.n_cells - 1).values()
    ends = " to ".join(end if isinstance(end, str) else decimal_text(end) for end in whole)
    grid = attribute.calendar.grid.text if isinstance(attribute, TemporalAttribute) else decimal_text(attribute.grid)
    return f"{ends}, in steps of {grid}"


def _exact(published: Microdata, recoding: Recoding, form: str, qi_group: Ints) -> dict[str, int]:
    """By published column, how many of the published rows have a value that can be read exactly."""
    if not len(published):
        return {}
    found = {column.name: 0 if column.disguise else len(published) for column in published.table.kept}
    for j, attribute in enumerate(published.table.attributes):
        lo, hi = (ends[qi_group, j] for ends in (recoding.lo, recoding.hi))
        if form == LOSSY_JOIN:
            lo = hi = published.cells[:, j]
        runs = np.stack([lo, hi], axis=1)
        _, first, rows = np.unique(row_numbers(runs), return_index=True, return_counts=True)
        is_exact = np.array([_is_one_value(attribute, *run) for run in runs[first].tolist()])
        found[attribute.name] = int(rows[is_exact].sum())
    return found


def _is_one_value(attribute: Attribute, lo: int, hi: int) -> bool:
    """True if the cells lo..hi are published as a single value."""
    if isinstance(attribute, CategoricalAttribute):
        return lo == hi
    first, last = box_columns(attribute, lo, hi).values()
    return first == last
