"""Where a QI group is cut in two: the allowed cut of least information loss.

All attributes and all positions are candidates. Along an attribute the rows stand in the order of its cell, then of the
other attributes' cells in table.yaml order, then of their lots, shuffled for this cut (`lots`): nothing finer than a
cell decides, and no source key and no name. The cut is *relaxed*: equal cells may fall on both sides. A cut is allowed
where both halves hold at least k: rows, or individuals where the table declares them. All records of one individual in
the same cells stay together: they stand side by side (ordered by the smallest of their lots), and no cut falls between
them. So 2k individuals can always be cut: along any attribute, behind the records in the same cells that complete the
first k. The least total NCP wins (each half's NCP times its rows); equal: the earlier attribute, then the lower
position. Song et al. 2009 say "split into two of k" and leave the rest open; these rules are this project's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamer.table.arrays import Bools, Floats, Ints
from streamer.table.space import Space


def best_cut(
    space: Space, cells: Ints, lots: Ints, individuals: Sequence[str] | None, k: int
) -> tuple[Ints, Ints] | None:
    """The rows of the lower and the upper half, as indices into cells (n, d) and lots (n,); None: no cut is allowed."""
    n = len(cells)
    if n < 2 * k:
        return None
    who = None if individuals is None else _numbers_of(individuals)
    ranked, orders = _orders(cells, lots, who)
    along = cells[ranked][orders.T]
    if who is None:
        positions = np.arange(k, n - k + 1)
        total = _total_loss(space, along, positions)
    else:
        positions = np.arange(1, n)
        total = _total_loss(space, along, positions)
        total[~_allowed(along, who[ranked][orders.T], k)] = np.inf
    best = int(np.argmin(total))  # the first of the least: the earlier attribute, then the lower position
    attribute, at = divmod(best, len(positions))
    if not np.isfinite(total[attribute, at]):
        return None
    order = ranked[orders[:, attribute]]
    position = int(positions[at])
    return order[:position], order[position:]


def _numbers_of(individuals: Sequence[str]) -> Ints:
    """A number for each individual, (n,): only whether two are equal means anything."""
    number_of: dict[str, int] = {}
    return np.array([number_of.setdefault(name, len(number_of)) for name in individuals], dtype=np.int64)


def _orders(cells: Ints, lots: Ints, who: Ints | None) -> tuple[Ints, Ints]:
    """A first ranking of the rows (n,), and on top of it the order along each attribute, (n, d)."""
    finest = [lots] if who is None else [lots, _least_of_bundle(cells, lots, who)]
    ranked = np.lexsort([*finest, *cells.T[::-1]])  # by the last first: cells in order, then bundles, then lots
    return ranked, np.argsort(cells[ranked], axis=0, kind="stable")


def _least_of_bundle(cells: Ints, lots: Ints, who: Ints) -> Ints:
    """For each row the smallest lot among the records of its individual in its cells, (n,)."""
    bundle = np.unique(np.column_stack([who, cells]), axis=0, return_inverse=True)[1].ravel()
    least = np.full(len(lots), np.iinfo(np.int64).max)
    np.minimum.at(least, bundle, lots)
    return np.asarray(least[bundle])


def _total_loss(space: Space, along: Ints, positions: Ints) -> Floats:
    """Loss of cutting before `positions` (P,) along each attribute; along: cells (d, n, d) -> (d, P)."""
    n = along.shape[1]
    lower_lo, lower_hi = np.minimum.accumulate(along, axis=1), np.maximum.accumulate(along, axis=1)
    back = along[:, ::-1]
    upper_lo, upper_hi = np.minimum.accumulate(back, axis=1), np.maximum.accumulate(back, axis=1)
    lower, upper = positions - 1, n - 1 - positions
    lo = np.stack([lower_lo[:, lower], upper_lo[:, upper]])
    hi = np.stack([lower_hi[:, lower], upper_hi[:, upper]])
    loss = space.ncp(*space.generalize(lo, hi))
    return np.asarray(positions * loss[0] + (n - positions) * loss[1])


def _allowed(along: Ints, who: Ints, k: int) -> Bools:
    """Cuts that leave k individuals on both sides and tear no bundle; along (d, n, d), who (d, n) -> (d, n - 1)."""
    torn = (who[:, 1:] == who[:, :-1]) & (along[:, 1:] == along[:, :-1]).all(axis=2)
    below = np.array([_distinct_so_far(one) for one in who])
    above = np.array([_distinct_so_far(one[::-1])[::-1] for one in who])
    return np.asarray((below[:, :-1] >= k) & (above[:, 1:] >= k) & ~torn)


def _distinct_so_far(numbers: Ints) -> Ints:
    """How many distinct numbers stand at or before each position."""
    fresh = np.zeros(len(numbers), dtype=np.int64)
    fresh[np.unique(numbers, return_index=True)[1]] = 1
    return np.cumsum(fresh)
