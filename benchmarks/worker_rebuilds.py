"""Drift and rebuilds as a worker has them, while nothing else happens: for other benchmarks.

The modules of a worker decide what is compared, how large a region is and whether it is replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamer.grouping import groups_by
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.replacing import Region, Replaced
from streamer.incremental.shard.rebuild import SAMPLE_ROWS, drawn, gains, ratio
from streamer.table.arrays import Ints

ALGORITHM = "ordered"


def estimated(engine: Engine, turn: int, rows_max: int = SAMPLE_ROWS) -> float:
    """The loss over that of a fresh table, from samples."""
    now = fresh = 0.0
    for numbers in drawn(engine.regions(turn, rows_max), turn):
        region = engine.region(numbers)
        now += region.ncp
        groups, space = groups_by(engine.table, region.rows, ALGORITHM, turn), engine.table.space
        fresh += space.loss_of(space.cells(region.rows.codes), groups)
    return ratio(now, fresh)


def replaced(engine: Engine, region: Region, groups: Sequence[Ints]) -> Replaced | None:
    """Replaces a region if that gains; None where it stays."""
    return engine.replace(region, groups) if gains(engine.table.space, region, groups, ALGORITHM) else None
