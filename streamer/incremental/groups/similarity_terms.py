"""The two similarities of Song et al. 2009, attribute by attribute: for people who want to know why.

The same float64 operations as the core's (`streamer.incremental.core.scores`), whose sums they are; over all QI groups
at once, because nobody asks twice.
"""

from __future__ import annotations

import numpy as np

from streamer.table.arrays import Floats, Ints
from streamer.table.space import Space

HALF_CODE = HALF_UNIT = 0.5


def t_qgssd_terms(space: Space, cells: Ints, lo: Ints, hi: Ints) -> Floats:
    """SSD (definition 6) of a row with cells (d,) to the boxes lo, hi (g, d), per attribute; float64 (g, d)."""
    first, last = space.edges(lo, hi)
    center = (first + last) / 2
    half = np.maximum(np.maximum(last - center, center - first), HALF_CODE)
    terms = half / np.maximum(np.abs(space.middles(cells) - center), half)
    for j, tree in space.trees:
        node = tree.cover_many(np.minimum(lo[:, j], cells[j]), np.maximum(hi[:, j], cells[j]))
        terms[:, j] = (hi[:, j] - lo[:, j] + 1) / (tree.node_hi[node] - tree.node_lo[node] + 1)
    return terms


def qgssd_terms(space: Space, own_lo: Ints, own_hi: Ints, lo: Ints, hi: Ints) -> Floats:
    """QGSSD (definition 7) of one box, (d,) and (d,), to the boxes lo, hi (g, d), per attribute; float64 (g, d)."""
    middle = sum(space.edges(own_lo, own_hi)) / 2
    distance = np.abs(sum(space.edges(lo, hi)) / 2 - middle)
    for j, tree in space.trees:
        node = tree.cover_many(np.minimum(lo[:, j], own_lo[j]), np.maximum(hi[:, j], own_hi[j]))
        leaves = tree.node_hi[node] - tree.node_lo[node] + 1
        distance[:, j] = leaves - (hi[:, j] - lo[:, j] + own_hi[j] - own_lo[j] + 2) / 2
    return np.asarray(1.0 / np.maximum(distance / space.unit_codes, HALF_UNIT))
