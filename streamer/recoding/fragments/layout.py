"""The published files of a large table: one order of all QI groups, their numbers, and which rows are in which file.

The order is that of the boxes; QI groups that publish one box stand in an order of chance (`tokens`). All files have
about the same number of rows, and are cut between boxes. So numbers, order and files say nothing that the boxes do not
say: not in which fragment or region a QI group was made. `check_written` judges a file by what a reader sees.
"""

from __future__ import annotations

from bisect import bisect_left
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


RANGE_GROUPS, SAMPLES_PER_RANGE = 1 << 17, 64
"""The boxes of about how many QI groups are in memory at a time, and how many of these say where boxes are."""


class NumberedGroups(NamedTuple):
    """By region, of its g QI groups, (g,) each: numbers and boxes from 0, both ascending, and rows."""

    number: list[Ints]
    box: list[Ints]
    rows: list[Ints]


def numbers(
    regions: Sequence[PieceGroups], chance: int, merge_equal_boxes: bool, range_groups: int = RANGE_GROUPS
) -> NumberedGroups:
    """Numbers all QI groups in the order of their boxes. With merge_equal_boxes, one box has one number.

    The boxes are put in order range by range, so that few are in memory at a time: regions may be a sequence that reads
    a region when it is asked for.
    """
    token, rows, sampled = list[Ints](), list[Ints](), list[tuple[int, ...]]()
    every = max(1, range_groups // SAMPLES_PER_RANGE)
    for region, groups in enumerate(regions):
        token.append(tokens(chance, region, groups))
        rows.append(groups.rows)
        sampled += [_box(groups, i) for i in range(0, len(groups.rows), every)]
    if len(token) == 1:
        token = [np.arange(len(token[0]))]  # as they stand, like one run
    ends = [*dict.fromkeys(sorted(sampled)[range_groups // every :: range_groups // every])]
    cuts = [_cuts(groups, ends) for groups in regions]
    found = NumberedGroups([np.empty_like(of) for of in token], [np.empty_like(of) for of in token], rows)
    n_boxes = n_numbers = 0
    for begin in range(len(ends) + 1):
        parts = [slice(cut[begin], cut[begin + 1]) for cut in cuts]
        some = [PieceGroups(*(of[part].copy() for of in regions[i])) for i, part in enumerate(parts)]
        lo, hi = (np.concatenate([groups[end] for groups in some]) for end in (0, 1))
        tie = np.concatenate([of[part] for of, part in zip(token, parts, strict=True)])
        order = np.lexsort((tie, *hi.T[::-1], *lo.T[::-1]))
        box = np.empty(len(order), dtype=np.int64)
        box[order] = n_boxes + np.cumsum(_differs(lo[order], hi[order])) - 1
        number = box if merge_equal_boxes else n_numbers + inverse_of(order)
        n_boxes, n_numbers = int(box.max(initial=n_boxes - 1)) + 1, n_numbers + len(order)
        split = np.cumsum([len(groups.rows) for groups in some])[:-1]
        for into, values in ((found.box, box), (found.number, number)):
            for of, part, here in zip(into, parts, np.split(values, split), strict=True):
                of[part] = here
    return found


def _box(groups: PieceGroups, i: int) -> tuple[int, ...]:
    return *groups.lo[i].tolist(), *groups.hi[i].tolist()


def _cuts(groups: PieceGroups, ends: Sequence[tuple[int, ...]]) -> list[int]:
    """Where each range of boxes begins in a region, and where the last one ends; ends: the first box of all but one."""
    n = len(groups.rows)
    return [0, *(bisect_left(range(n), end, key=lambda i: _box(groups, i)) for end in ends), n]


def files_of(rows: Ints, rows_per_file: int) -> Ints:
    """The first box of each file, ascending; rows: of the boxes in order (b,)."""
    file = (np.cumsum(rows) - rows).astype(np.int64) // rows_per_file
    return np.flatnonzero(np.diff(file, prepend=-1))


def parts_of(numbered: NumberedGroups, rows_per_file: int) -> list[FilePart]:
    """The published files in order.

    No file tears a box: what a reader learns is counted by box, file by file.
    """
    number, every = numbered.number, np.concatenate(numbered.number)
    n_numbers = int(every.max()) + 1
    rows = np.bincount(every, np.concatenate(numbered.rows), n_numbers)
    box = np.empty(n_numbers, dtype=np.int64)
    box[every] = np.concatenate(numbered.box)
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
