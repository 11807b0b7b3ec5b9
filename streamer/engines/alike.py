"""Rows of a table of any size that are alike in something, found by hashes in sorted files.

Every part of the table leaves a file: for each row a line with two hashes, of 63 bits, of the values that may be alike,
and facts of the row. A range of the first hash is then looked at by itself. Two hashes together tell any two values
apart; the values themselves are never read again. Of a published value the first one is of its counted text, so it is
the same for all its spellings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from streamer.engines.pool import CallPool, whole_file
from streamer.recoding.algorithms.contract import Recoding, by_box
from streamer.recoding.metrics.risk import silent
from streamer.recoding.report.findings import (
    Alike,
    Drawn,
    PublishedPart,
    alike_rows,
    drawn_of_parts,
    findings_of_parts,
    open_rows,
    united_alike,
)
from streamer.table.arrays import Counted, Ints, Objects, counted, row_numbers
from streamer.table.microdata import Microdata
from streamer.table.schema import Table

COMPARED_AT_ONCE = 2_000_000
"""Rows that are compared at the same time."""

BEFORE, ALL_KEPT, OPEN = "before", "all-kept", -1

HASH_KEYS = ("0123456789abcdef", "fedcba9876543210")


def hashes_of_texts(texts: Objects) -> Ints:
    """Two hashes of each text or each bytes (n,); int64 (n, 2), from 0."""
    both = [pd.util.hash_array(texts, hash_key=key, categorize=False) >> 1 for key in HASH_KEYS]
    return np.stack(both, axis=1).astype(np.int64)


def hashes_of_numbers(columns: Ints) -> Ints:
    """Two hashes of each row of columns (n, c); int64 (n, 2), from 0."""
    found = []
    for begin in range(1, 3):
        mixed = np.full(len(columns), begin, dtype=np.uint64)
        for column in columns.T:
            mixed = pd.util.hash_array(mixed * np.uint64(31) + column.astype(np.uint64))
        found.append(mixed >> 1)
    return np.stack(found, axis=1).astype(np.int64)


def leave(path: Path, lines: Ints) -> None:
    """Writes a part's file: lines of two hashes, then facts of the rows; int64 (n, c)."""
    with whole_file(path) as draft, open(draft, "wb") as file:
        np.save(file, lines[np.argsort(lines[:, 0], kind="stable")])


def ranges(rows: int) -> Iterator[tuple[int, int]]:
    """The ends of ranges of the first hash, each of which has few enough of the rows."""
    some = max(1, -(-rows // COMPARED_AT_ONCE))
    return pairwise((i << 63) // some for i in range(some + 1))


def lines_between(paths: Sequence[Path], low: int, high: int) -> Iterator[Ints]:
    """The lines of each part whose first hash is from low up to high; int64 (m, c)."""
    for path in paths:
        lines = np.load(path, mmap_mode="r")
        yield lines[slice(*np.searchsorted(lines[:, 0].astype(np.uint64), np.array([low, high], np.uint64)))]


def repeated(paths: Sequence[Path], low: int, high: int) -> Ints:
    """The rows, named by the column after the hashes, that are alike an earlier one."""
    lines = np.concatenate([*lines_between(paths, low, high)])
    lines = lines[np.lexsort(lines.T[::-1])]
    same = (lines[1:, :2] == lines[:-1, :2]).all(axis=1)
    return np.sort(lines[1:][same][:, 2])


def crowds_between(table: Table, paths: Sequence[Path], low: int, high: int, dropped: Ints) -> Alike:
    """Crowds of rows that are alike; after the hashes, the columns are the row's number (of a published row: OPEN if
    its value is open, else 0), and its individual, if any.

    dropped: numbers of rows that do not count. Rows of a part that are alike are one line with their number, unless
    individuals are counted: half of a large table may have one value.
    """
    counts = []
    for lines in lines_between(paths, low, high):
        facts = lines[~np.isin(lines[:, 2], dropped)]
        facts[:, 2] = facts[:, 2] == OPEN
        counts.append(counted(facts) if table.individual is None else Counted(facts, np.ones(len(facts), np.int64)))
    facts, rows = (np.concatenate(column) for column in zip(*counts, strict=True))
    who = None if table.individual is None else np.unique(facts[:, 3], return_inverse=True)[1].astype(np.int64)
    return alike_rows(table, row_numbers(facts[:, :2]), facts[:, 0], facts[:, 2] > 0, who, rows)


# -- what a report counts ---------------------------------------------------------------------------------------------


class ReportFigures(NamedTuple):
    """The figures of the report of a table in fragments."""

    parts: list[PublishedPart]
    table: Table
    before: Alike | None
    together: Alike | None
    by_value: list[Alike]
    drawn: Drawn

    def findings(self, columns: Sequence[str]) -> dict[str, Any]:
        """The figures; columns: all of the source."""
        return findings_of_parts(self.table, columns, self.parts, self.before, self.together, self.by_value)


def path_of(folder: Path, name: object, part: int) -> Path:
    """The file of a part, by the name of what may be alike: the number of a kept column, BEFORE or ALL_KEPT."""
    return folder / f"{name}-{part:06}.npy"


def leave_published(microdata: Microdata, recoding: Recoding, who: Sequence[Ints], paths: Sequence[Path]) -> None:
    """Leaves what published rows may be alike in: each kept column, as far as it is an answer; then, if there is one
    path more, all together.

    who: the column of individuals, if there is one.
    """
    together, boxes = list[Ints](), by_box(recoding)
    for i, texts in enumerate(microdata.texts):
        number = OPEN * open_rows(microdata, boxes, i)
        value = microdata.values[:, i]
        same = [microdata.table.counted_value(text) or "" for text in texts]
        hashes = hashes_of_texts(np.array(texts, dtype=object))
        hashes[:, 0] = hashes_of_texts(np.array(same, dtype=object))[:, 0]
        hashes, says = hashes[value], ~silent(texts)[value]
        if microdata.table.kept[i].is_true:
            together.append(hashes[:, 1])
        leave(paths[i], np.column_stack([hashes, number, *who])[says])
    if together and len(paths) > len(microdata.texts):
        leave(paths[-1], np.column_stack([hashes_of_numbers(np.stack(together, axis=1)), number, *who]))


def figures_of(
    pool: CallPool, folder: Path, table: Table, parts: list[PublishedPart], dropped: Ints, suppressed: int, report: bool
) -> ReportFigures:
    """The figures of the whole table; dropped: rows of the source that do not count; suppressed: how many rows are.

    report: also those that only a report has.
    """
    rows, nothing = sum(part.rows for part in parts) + suppressed, np.zeros(0, dtype=np.int64)

    def alike(name: object, dropped: Ints = nothing) -> Alike:
        paths = sorted(folder.glob(f"{name}-*.npy"))
        calls = [(table, paths, low, high, dropped) for low, high in ranges(rows)]
        return united_alike(pool.map(f"alike-{name}", crowds_between, calls))

    by_value = [alike(i) for i in range(len(table.kept))]
    together = alike(ALL_KEPT) if report and sum(column.is_true for column in table.kept) > 1 else None
    before = alike(BEFORE, dropped) if report else None
    return ReportFigures(parts, table, before, together, by_value, drawn_of_parts(parts, suppressed))
