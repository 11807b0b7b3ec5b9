"""How much more a shard's table loses than a fresh one would, estimated from a few neighbourhoods.

The rules of this file
----------------------
* Nothing is replaced to find out. SAMPLE_REGIONS regions of at most SAMPLE_ROWS rows, whole QI groups that lie near
  each other, are drawn; each is anonymized afresh by itself, and the two losses are compared. What is sampled is whole
  neighbourhoods, because a fresh table of rows drawn one by one would be that of a thinner table.
* A region pays for its border, so that the estimate is too small, and the more the smaller it is: regions of 2,000 rows
  tell a drift of 1.23 as 1.12 to 1.14. So regions are as large as those of a rebuild, and a small shard is one.
  How far the estimate is from the truth, `benchmarks/rebuild.py` measures, `--region-rows` for other sizes.
* A ratio of sums, not a mean of ratios: a region weighs as much as it loses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from streamer.table.arrays import Ints
from streamer.table.space import Space

SAMPLE_ROWS, SAMPLE_REGIONS = 20_000, 2

T = TypeVar("T")


def drawn(regions: Sequence[T], seed: int) -> list[T]:
    """SAMPLE_REGIONS of the regions, or all where there are no more, by chance."""
    if len(regions) <= SAMPLE_REGIONS:
        return list(regions)
    chosen = np.random.default_rng(seed).choice(len(regions), SAMPLE_REGIONS, replace=False)
    return [regions[i] for i in sorted(chosen.tolist())]


def loss(space: Space, codes: Ints, groups: Sequence[Ints]) -> float:
    """Rows times NCP of the smallest boxes around the groups, arrays of numbers of the rows whose codes are (n, d)."""
    if not len(groups):
        return 0.0
    sizes = np.array([len(group) for group in groups], dtype=np.int64)
    cells = space.cells(codes[np.concatenate(groups)])
    begins = np.cumsum(sizes) - sizes
    lo, hi = np.minimum.reduceat(cells, begins, axis=0), np.maximum.reduceat(cells, begins, axis=0)
    return float((space.ncp(*space.generalize(lo, hi)) * sizes).sum())


def ratio(now: float, fresh: float) -> float:
    """The loss now over that of a fresh table; where nothing need be lost, 1 or infinite."""
    if fresh > 0:
        return now / fresh
    return 1.0 if now <= 0 else float("inf")
