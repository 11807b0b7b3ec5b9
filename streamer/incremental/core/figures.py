"""The two types of figures, and the set of machine code for each.

Nothing in the core is specialised to a table but the type of its figures. Nearly every table has them in float32;
float64's set is made where a table needs it.
"""

from __future__ import annotations

import numpy as np

from streamer.incremental.core.layout import Shard, empty_shard
from streamer.table.space import Axis, Space

FLOAT32, FLOAT64 = "float32", "float64"
FIGURES = (FLOAT32, FLOAT64)


def set_of_figures(figures: str) -> str:
    """The name of the set of machine code that tables run on whose figures are of this type."""
    return f"core-{figures}"


def set_of(shard: Shard, *_others: object) -> str:
    """The same, by an entry's arguments."""
    return set_of_figures(shard.groups.shape.dtype.name)


def tiny_shard(figures: str) -> Shard:
    """An empty shard whose figures are of this type."""
    width = 1.0 if figures == FLOAT32 else 0.1
    shard = empty_shard(Space([Axis(1, 2, True, width, 1.0, None)]), 2, True, True, False)
    if shard.groups.shape.dtype != np.dtype(figures):
        raise ValueError(f"figures of a domain of {width} codes are no longer {figures}: choose another one here")
    return shard
