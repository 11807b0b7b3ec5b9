"""QI groups founded on rare values: who has them chooses first; the others join where the loss rises least.

Every bundle begins as a group of its own. Groups are merged that *fit* (`agglomeration`), those with the rarest
subjects first, each with the one with which the total loss rises least. What then does not hold is taken apart, and
every bundle goes to the group that takes it and holds (`placement`). What no group takes is merged until it holds.
"""

from __future__ import annotations

import numpy as np

from streamer.progress import OnProgress, unheard
from streamer.recoding.algorithms.agglomeration import agglomerated
from streamer.recoding.algorithms.bundles import Task
from streamer.recoding.algorithms.cut_tree import order_of
from streamer.recoding.algorithms.placement import placed
from streamer.table.arrays import Floats, Ints

SHARPNESS = 7


def founded(task: Task, on_progress: OnProgress = unheard) -> Ints:
    """Each bundle's QI group, int64 (m,); all of them hold."""
    order, _ = order_of(task, SHARPNESS)
    seat = np.empty(len(order), dtype=np.int64)
    seat[order] = np.arange(len(order))
    rarity = _rarity(task)
    qi_group = agglomerated(task, seat, len(order), rarity, True, on_progress)
    left, qi_group = placed(task, qi_group, int(qi_group.max()) + 1, np.arange(len(order)))
    if left:
        qi_group = agglomerated(task, qi_group, int(qi_group.max()) + 1, np.zeros_like(rarity), False)
    return qi_group


def _rarity(task: Task) -> Floats:
    """How common the rarest row of each bundle is, (m,): the product over subjects of how many rows have its code."""
    common = np.ones(len(task.rules.subjects))
    for codes in task.rules.subjects.T:
        common *= np.bincount(codes)[codes]
    return np.minimum.reduceat(common, task.bundles.begin)
