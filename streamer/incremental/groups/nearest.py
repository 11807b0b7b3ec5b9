"""The nearest QI groups of one, by a scan of all: for a question about QI groups as a store has them.

The scores are the core's own (`streamer.incremental.core.scores`), over the same arrays; no index is built, for nobody
asks twice.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from streamer.incremental.core.geometry import take_shape
from streamer.incremental.core.layout import Groups, figures_dtype, geometry
from streamer.incremental.core.record_types import GROUP, ROOMS, records
from streamer.incremental.core.scores import qgssd_from
from streamer.incremental.groups.kept import QIGroupState, SimilarityList
from streamer.table.space import Space


def nearest_qi_groups(space: Space, qi_groups: Mapping[int, QIGroupState], number: int, count: int) -> SimilarityList:
    """The `count` other QI groups of highest QGSSD (Song et al. 2009, definition 7), and the best of the rest.

    Best first and equal ones by number. Where there are no more QI groups the floor is 0, below every QGSSD.
    """
    axes, groups, numbers = geometry(space), _as_groups(space, qi_groups), list(qi_groups)
    own = numbers.index(number)
    for g in range(len(numbers)):
        take_shape(axes, groups, g)
    scores = [(other, float(qgssd_from(axes, groups, own, g))) for g, other in enumerate(numbers) if g != own]
    scores.sort(key=lambda scored: (-scored[1], scored[0]))
    return SimilarityList(tuple(scores[:count]), scores[count][1] if len(scores) > count else 0.0)


def _as_groups(space: Space, qi_groups: Mapping[int, QIGroupState]) -> Groups:
    """The boxes as the core has them, without members."""
    n, d = len(qi_groups), space.d
    box = np.array([(state.lo, state.hi) for state in qi_groups.values()], dtype=np.int32).reshape(n, 2, d)
    shape = np.zeros((n, 2, d), figures_dtype(space))
    return Groups(records(n, GROUP), box, shape, np.zeros((2, 0), np.int32), np.zeros(ROOMS, np.int32))
