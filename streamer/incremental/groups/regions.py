"""How a shard's QI groups are cut into regions, each small enough to be replaced in one release.

The rules of this file
----------------------
* QI groups are cut in two by the centers of their boxes along one attribute, again and again, as in a kd-tree (Bentley
  1975), never through a QI group. What a border costs is that rows on its two sides cannot come together: so among all
  attributes and positions the cut is taken over which the boxes of fewest rows reach, and not along the attribute along
  which the centers reach furthest. What regions cost, `benchmarks/regions.py` measures.
* The lower side has a share of the rows that `turn` says, between a third and two thirds, give or take a sixth: so
  the borders of one rebuild lie inside the regions of the next, which mends what they cost.
* Equal: the earlier attribute, then the lower position. Groups with one center stand in the order of their numbers.
* A QI group that alone has more rows than a region may is a region by itself, and does not break up others.
* Boxes, sizes and numbers of QI groups decide, all of them public; nothing else, and no chance.
"""

from __future__ import annotations

import numpy as np

from streamer.table.arrays import Ints

STRIDE = (5**0.5 - 1) / 2
"""Multiples of the golden ratio, modulo 1, never come close to an earlier one (Weyl 1916)."""

SLACK = 1 / 6
"""Of the rows, how far a cut may be from where `turn` wants it."""


def cut_regions(lo: Ints, hi: Ints, sizes: Ints, rows_max: int, turn: int) -> list[Ints]:
    """QI groups as regions of at most rows_max rows; each an int64 array of group numbers 0..g-1, ascending.

    lo, hi: (g, d) int64, boxes in cells; sizes: (g,) int64, rows. One region where all fits.
    """
    everything = np.arange(len(sizes))
    if sizes.sum() <= rows_max:
        return [everything] if len(sizes) else []
    large = sizes > rows_max
    share = (1 + turn * STRIDE % 1) / 3
    regions: list[Ints] = []
    waiting = [everything[~large]]
    while waiting:
        some = waiting.pop()
        if sizes[some].sum() > rows_max:
            waiting += _halves(some, lo[some], hi[some], sizes[some], share)
        elif len(some):
            regions.append(np.sort(some))
    return regions + [everything[i : i + 1] for i in np.flatnonzero(large).tolist()]


def _halves(some: Ints, lo: Ints, hi: Ints, sizes: Ints, share: float) -> tuple[Ints, Ints]:
    """Two QI groups and more in two halves, the upper one first, each in the order of the numbers."""
    cuts = [_cut_along(lo[:, j], hi[:, j], sizes, share) for j in range(lo.shape[1])]
    _, below, order = min(cuts, key=lambda cut: cut[0])
    return np.sort(some[order[below:]]), np.sort(some[order[:below]])


def _cut_along(lo: Ints, hi: Ints, sizes: Ints, share: float) -> tuple[int, int, Ints]:
    """The best cut along one attribute: rows whose boxes reach over it, groups below it, order of all groups (g,)."""
    order = np.argsort(lo + hi, kind="stable")
    twice = (lo + hi)[order]
    border = twice[:-1] + twice[1:]  # four times where it lies, so that all is in whole numbers
    over = _rows_until(4 * lo, sizes, border + 1) - _rows_until(4 * hi, sizes, border)
    below = np.cumsum(sizes[order])[:-1]
    off = np.abs(below - share * sizes.sum())
    allowed = np.flatnonzero(off <= max(off.min(), SLACK * sizes.sum()))
    best = int(allowed[np.argmin(over[allowed])])
    return int(over[best]), best + 1, order


def _rows_until(ends: Ints, sizes: Ints, border: Ints) -> Ints:
    """Rows of the groups that end below each border."""
    order = np.argsort(ends)
    rows = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes[order])])
    found: Ints = rows[np.searchsorted(ends[order], border)]
    return found
