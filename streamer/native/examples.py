"""Calls of every function that Python calls: the types of their arguments are those that it is compiled for."""

from __future__ import annotations

import numpy as np

from streamer.incremental.core import layout, step
from streamer.incremental.core.model import fill_tally
from streamer.incremental.core.scores import qgssd_to_all
from streamer.table.space import Axis, Space


def run() -> None:
    """Calls all of them."""
    run_core()


def run_core() -> None:
    """The entries of the incremental wing, on a shard without rows."""
    shard = layout.empty_shard(Space([Axis(1, 2, True, 1.0, 1.0, None)]), 2, True, True, False)
    numbers, scores = np.zeros(1, np.int64), np.zeros(1)
    step.advance(shard, layout.records(0, layout.OPERATION), np.zeros((0, 1), np.int32), 0, False)
    fill_tally(shard.work.tally, numbers, numbers)
    qgssd_to_all(shard.space, shard.groups, 0, scores)
    step.restore(shard, 0, numbers, scores, numbers, numbers, scores)
