"""Where a QI group is cut in two: the allowed cut of least information loss.

All attributes and all positions are candidates. Along an attribute the rows stand in the order of its value, then of
the other attributes in table.yaml order, then of the source key. The cut is *relaxed*: equal values may fall on both
sides. A cut is allowed where both halves hold at least k: rows, or individuals where the table declares them. All
records of one individual with the same quasi-identifiers stay together: they stand side by side (ordered by the
smallest of their source keys), and no cut falls between them. So 2k individuals can always be cut: along any
attribute, behind the records with the same quasi-identifiers that complete the first k. The least total NCP wins (each
half's NCP times its rows); equal: the earlier attribute, then the lower position. Song et al. 2009 say "split into two
of k" and leave the rest open; these rules are this project's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamer.table.arrays import Bools, Floats, Ints
from streamer.table.space import Space


def best_cut(
    space: Space, codes: Ints, source_keys: Sequence[str], individuals: Sequence[str] | None, k: int
) -> tuple[Ints, Ints] | None:
    """The rows of the lower and the upper half, as indices into codes (n, d); None where no cut is allowed."""
    n = len(codes)
    if n < 2 * k:
        return None
    ranked, orders = _orders(codes, source_keys, individuals)
    if individuals is None:
        positions = np.arange(k, n - k + 1)
        total = _total_loss(space, space.cells(codes)[ranked][orders.T], positions)
    else:
        positions = np.arange(1, n)
        total = _total_loss(space, space.cells(codes)[ranked][orders.T], positions)
        total[~_allowed(codes[ranked], [individuals[i] for i in ranked], orders, k)] = np.inf
    best = int(np.argmin(total))  # the first of the least: the earlier attribute, then the lower position
    attribute, at = divmod(best, len(positions))
    if not np.isfinite(total[attribute, at]):
        return None
    along = ranked[orders[:, attribute]]
    position = int(positions[at])
    return along[:position], along[position:]


def _orders(codes: Ints, source_keys: Sequence[str], individuals: Sequence[str] | None) -> tuple[Ints, Ints]:
    """A first ranking of the rows (n,), and on top of it the order along each attribute, (n, d)."""
    by_key = sorted(range(len(codes)), key=source_keys.__getitem__)
    if individuals is not None:
        first_rank: dict[tuple[bytes, str], int] = {}
        rank = [0] * len(codes)
        for position, i in enumerate(by_key):
            rank[i] = first_rank.setdefault((codes[i].tobytes(), individuals[i]), position)
        by_key.sort(key=rank.__getitem__)
    ranked = np.array(by_key, dtype=np.int64)
    ranked = ranked[np.lexsort(codes[ranked].T[::-1])]  # stable: by all attributes in order, then as ranked
    return ranked, np.argsort(codes[ranked], axis=0, kind="stable")


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


def _allowed(codes: Ints, individuals: Sequence[str], orders: Ints, k: int) -> Bools:
    """Cuts that leave k individuals on both sides and no bundle of one individual torn; (d, n - 1)."""
    numbers = np.unique(np.array(individuals, dtype=object).astype(str), return_inverse=True)[1]
    allowed = np.empty((orders.shape[1], len(codes) - 1), dtype=bool)
    for j in range(orders.shape[1]):
        who, rows = numbers[orders[:, j]], codes[orders[:, j]]
        torn = (who[1:] == who[:-1]) & (rows[1:] == rows[:-1]).all(axis=1)
        below, above = _distinct_so_far(who), _distinct_so_far(who[::-1])[::-1]
        allowed[j] = (below[:-1] >= k) & (above[1:] >= k) & ~torn
    return allowed


def _distinct_so_far(numbers: Ints) -> Ints:
    """How many distinct numbers stand at or before each position."""
    fresh = np.zeros(len(numbers), dtype=np.int64)
    fresh[np.unique(numbers, return_index=True)[1]] = 1
    return np.cumsum(fresh)
