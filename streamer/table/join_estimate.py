"""How many rows match a query, from a table that publishes cells and values apart: an estimate, and its bounds.

A QI group publishes some vectors of cells and some sensitive rows, and every pair of the two is as likely. So its
answer is st_hit * qi_hit / vectors: st_hit counts the sensitive rows that match, qi_hit the vectors that do (Tong et
al. 2010, section 4; a box is a vector that matches in part). How far that can be from the truth follows from the same
figures: every vector stands for at least one row, and whose the other rows are is open. The paper gives no bound.
"""

from __future__ import annotations

import numpy as np

from streamer.table.arrays import Floats, Ints


def estimated(st_hit: Ints, qi_hit: Floats | Ints, vectors: Ints) -> float:
    """The answer for all QI groups (g,): the sum of st_hit * qi_hit / vectors. vectors: above 0."""
    return float((st_hit * qi_hit / vectors).sum())


def bounds(st_hit: Ints, rows: Ints, certain: Ints, possible: Ints, vectors: Ints) -> tuple[int, int]:
    """The least and the most rows that can match, over QI groups (g,).

    rows: of each group. certain: vectors whose every row matches; possible: vectors some of whose rows may. Between the
    two bounds every number can be the true one, where vectors match whole or not at all (certain = possible).
    """
    least = np.where(certain == vectors, rows, certain)
    most = np.where(possible > 0, rows - (vectors - possible), 0)
    low = np.maximum(0, st_hit + least - rows)
    high = np.minimum(st_hit, most)
    return int(low.sum()), int(high.sum())
