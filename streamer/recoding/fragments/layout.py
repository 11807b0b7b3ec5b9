"""The published files of a large table: one order of all QI groups, their numbers, and which rows are in which file.

The order is that of the boxes; QI groups that publish one box stand in an order of chance (`tokens`). All files have
about the same number of rows, and are cut between boxes. So numbers, order and files say nothing that the boxes do not
say: not in which fragment or region a QI group was made. `check_written` judges a file by what a reader sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamer.errors import LawViolated
from streamer.privacy.models import Model, shown_by_rows
from streamer.recoding.publication import FIRST_NUMBER
from streamer.table.arrays import Bools, Ints, inverse_of
from streamer.table.microdata import Microdata
from streamer.table.published.rows import QI_GROUP, all_box_columns, parse_qi_group
from streamer.table.schema import Table


class PieceGroups(NamedTuple):
    """The g QI groups of a fragment or region, in the order of their boxes."""

    lo: Ints  # (g, d) cells, int32
    hi: Ints
    rows: Ints  # (g,)


class Slice(NamedTuple):
    """Some QI groups of a region, begin to end - 1, that a file publishes; `number`: of each, from 0."""

    region: int
    begin: int
    end: int
    number: Ints


class FilePart(NamedTuple):
    """One published file: the QI groups with the numbers first to first + groups - 1."""

    first: int
    groups: int
    rows: int
    slices: list[Slice]


def tokens(chance: int, region: int, groups: PieceGroups) -> Ints:
    """Numbers of chance that order QI groups with one box; int64 (g,), ascending among equal boxes of a region."""
    drawn = np.random.default_rng([chance, region]).integers(0, np.iinfo(np.int64).max, len(groups.rows))
    run = np.cumsum(_differs(groups.lo, groups.hi)) - 1
    return drawn[np.lexsort((drawn, run))]


def _differs(lo: Ints, hi: Ints) -> Bools:
    """True for each box that differs from the one before, and for the first one; bool (g,)."""
    differs = np.ones(len(lo), dtype=bool)
    differs[1:] = (lo[1:] != lo[:-1]).any(axis=1) | (hi[1:] != hi[:-1]).any(axis=1)
    return differs


def numbers(regions: Sequence[PieceGroups], chance: int, merge_equal_boxes: bool) -> list[Ints]:
    """By region, the numbers of its QI groups, from 0, ascending. With merge_equal_boxes, one box has one number."""
    lo, hi = (np.concatenate([groups[end] for groups in regions]) for end in (0, 1))
    token = np.concatenate([tokens(chance, region, groups) for region, groups in enumerate(regions)])
    if len(regions) == 1:
        token = np.arange(len(token))  # as they stand, like one run
    order = np.lexsort((token, *hi.T[::-1], *lo.T[::-1]))
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(_differs(lo[order], hi[order])) - 1 if merge_equal_boxes else np.arange(len(order))
    return np.split(number, np.cumsum([len(groups.rows) for groups in regions])[:-1])


def files_of(rows: Ints, rows_per_file: int) -> Ints:
    """The first box of each file, ascending; rows: of the boxes in order (b,)."""
    file = (np.cumsum(rows) - rows).astype(np.int64) // rows_per_file
    return np.flatnonzero(np.diff(file, prepend=-1))


def parts_of(regions: Sequence[PieceGroups], number: Sequence[Ints], rows_per_file: int) -> list[FilePart]:
    """The published files in order; number: as `numbers` gives them.

    No file tears a box: what a reader learns is counted by box, file by file.
    """
    n_numbers = max(int(of[-1]) for of in number) + 1
    every = np.concatenate([groups.rows for groups in regions])
    rows = np.bincount(np.concatenate(number), every, n_numbers)
    box = np.empty(n_numbers, dtype=np.int64)
    box[np.concatenate(number)] = np.concatenate(numbers(regions, 0, merge_equal_boxes=True))
    begins = np.unique(box, return_index=True)[1][files_of(np.bincount(box, rows), rows_per_file)]
    found = []
    for first, end in zip(begins.tolist(), [*begins[1:].tolist(), n_numbers], strict=True):
        ranges = [(i, *np.searchsorted(of, (first, end)).tolist()) for i, of in enumerate(number)]
        slices = [Slice(i, begin, last, number[i][begin:last]) for i, begin, last in ranges if begin < last]
        found.append(FilePart(first, end - first, int(rows[first:end].sum()), slices))
    return found


def check_written(table: Table, model: Model, published: Any, part: FilePart) -> None:
    """Raises LawViolated if a published file, a pyarrow.Table, is not what `part` says, or breaks the model."""
    names = published[QI_GROUP].to_pylist()
    number = np.array([parse_qi_group(name)[1] for name in names], dtype=np.int64) - FIRST_NUMBER - part.first
    if len(number) != part.rows or not (np.diff(number, prepend=0) >= 0).all():
        raise LawViolated("a published file has rows too many or too few, or QI groups out of order")
    if not len(number) or number[0] != 0 or number[-1] != part.groups - 1 or (np.diff(number) > 1).any():
        raise LawViolated("a published file lacks a QI group, or holds one of another file")
    begins = np.flatnonzero(np.diff(number, prepend=-1))
    for name in all_box_columns(table):
        code = published[name].combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy()
        if (code != code[begins][number]).any():
            raise LawViolated(f"a published QI group has two values of {name}")
    holds = shown_by_rows(model).holds_by_group(number, part.groups, _subjects(table, model, published))
    if not holds.all():
        raise LawViolated(f"{int((~holds).sum())} of {part.groups} published QI groups do not hold the privacy model")


def _subjects(table: Table, model: Model, published: Any) -> Ints:
    """The subjects of published rows that the model counts; int64 (n, s)."""
    values, texts = np.zeros((published.num_rows, len(table.kept)), dtype=np.int64), list[tuple[bytes, ...]]()
    for i, column in enumerate(table.kept):
        coded = published[column.name].combine_chunks().dictionary_encode()
        different = [msgspec.json.encode(value) for value in (*coded.dictionary.to_pylist(), None)]
        order = sorted(range(len(different)), key=different.__getitem__)
        values[:, i] = inverse_of(np.array(order))[coded.indices.fill_null(len(different) - 1).to_numpy()]
        texts.append(tuple(different[k] for k in order))
    rows = Microdata(table, np.zeros((published.num_rows, table.space.d), np.int64), None, values, tuple(texts))
    return rows.subjects(shown_by_rows(model).subjects)
