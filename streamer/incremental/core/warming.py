"""What the core is compiled for: its entries, with arguments of the types that they are called with."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from streamer.incremental.core.figures import tiny_shard
from streamer.incremental.core.record_types import OPERATION, records
from streamer.incremental.core.step import advance, restored

WarmingCall = tuple[Callable[..., object], tuple[object, ...]]
"""An entry and its arguments. It is compiled for their types, not called."""


def warming_calls(figures: str) -> Iterator[WarmingCall]:
    """All entries of the core, for tables whose figures are of this type; the longest to compile first."""
    shard = tiny_shard(figures)
    numbers, scores = np.zeros(1, np.int64), np.zeros(1)
    yield advance, (shard, records(1, OPERATION), np.zeros((1, 1), np.int32), 0, False)
    yield restored, (shard, 0, numbers, scores, numbers, numbers, scores)
