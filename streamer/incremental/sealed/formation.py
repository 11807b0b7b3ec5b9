"""The formation of cohorts, by the cells of the rows' quasi-identifiers and by nothing else.

A `Formation` gets cells, k and a seed. It sees no sensitive value, no source key and no individual, so that no one can
infer from a cohort what its people's values are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from streamer.table.arrays import Ints
from streamer.table.space import Space

Formation = Callable[[Ints, int], Sequence[Ints]]
"""Cohorts of rows by their cells (n, d), n >= k, and a seed: arrays of row numbers; every row is in one."""

ALIKE_MAX = 1_000
"""Rows that are alike are one cohort up to about here: one message has to hold its values."""


def median_cuts(space: Space, k: int) -> Formation:
    """Cohorts by halving at medians, where both halves have k rows, along the attribute that is widest there."""

    def form(cells: Ints, seed: int) -> list[Ints]:
        formed, waiting = [], [np.arange(len(cells))]
        while waiting:
            rows = waiting.pop()
            halves = _halves(space, cells, rows, k)
            if halves is None:
                formed += _parts(rows, max(k, ALIKE_MAX), seed)
            else:
                waiting += reversed(halves)
        return formed

    return form


def _parts(rows: Ints, most: int, seed: int) -> list[Ints]:
    """Rows that no cut divides, in parts of at least `most` if they are twice as many: by chance."""
    if len(rows) < 2 * most:
        return [rows]
    return np.array_split(np.random.default_rng(seed).permutation(rows), len(rows) // most)


def _halves(space: Space, cells: Ints, rows: Ints, k: int) -> tuple[Ints, Ints] | None:
    """The rows up to the median and those above it, along the widest attribute that allows it; else None.

    Rows in one cell stay together. If too few lie above the median, those in its cell are above, too.
    """
    if len(rows) < 2 * k:
        return None
    here = cells[rows]
    widths = space.ncp_terms(*space.generalize(here.min(axis=0), here.max(axis=0)))
    for j in np.argsort(-widths, kind="stable").tolist():
        if widths[j] <= 0:
            break
        column = here[:, j]
        median = np.sort(column)[(len(rows) - 1) // 2]
        for lower in (column <= median, column < median):
            if k <= int(lower.sum()) <= len(rows) - k:
                return rows[lower], rows[~lower]
    return None
