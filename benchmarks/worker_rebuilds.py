"""Drift and rebuilds as a worker has them, while nothing else happens: for other benchmarks.

What is compared, when a rebuild is due, how large a region is and whether it is replaced: all of it is asked of the
modules that a worker asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streamer.grouping import groups_by, regrouped_region
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.net_effect import Drained
from streamer.incremental.engine.replacing import Region, Replaced
from streamer.incremental.shard.rebuild import (
    SAMPLE_ROWS,
    Situation,
    drawn,
    due,
    gains,
    loss,
    ratio,
    region_rows,
    region_seed,
)
from streamer.table.arrays import Ints

ALGORITHM = "ordered"


def estimated(engine: Engine, turn: int, rows_max: int = SAMPLE_ROWS) -> float:
    """The loss over that of a fresh table, from samples."""
    now = fresh = 0.0
    for numbers in drawn(engine.regions(turn, rows_max), turn):
        region = engine.region(numbers)
        now += region.ncp
        fresh += loss(engine.table.space, region.rows.codes, groups_by(engine.table, region.rows, ALGORITHM, turn))
    return ratio(now, fresh)


def replaced(engine: Engine, region: Region, groups: Sequence[Ints]) -> Replaced | None:
    """Replaces a region if that gains; None where it stays."""
    return engine.replace(region, groups) if gains(engine.table.space, region, groups, ALGORITHM) else None


class Trigger:
    """The trigger of a table's `rebuild: {drift: ...}`; rebuilds: how many it began; told: every estimate."""

    def __init__(self) -> None:
        self.rebuilds = 0
        self.told: list[float] = []
        self._reached = 1.0

    def is_due(self, engine: Engine) -> bool:
        """Looks how far the table has drifted, and whether a rebuild is due."""
        self.told.append(estimated(engine, len(self.told) + 1))
        return due(engine.table.rebuilding, 0, Situation(0, 0, self.told[-1], self._reached)) is not None

    def rebuilt(self, engine: Engine) -> Iterator[Drained]:
        """A whole rebuild: what each region that is replaced changes."""
        self.rebuilds += 1
        rows_max, before, now = region_rows(engine.table, ALGORITHM, engine.n_rows), 0.0, 0.0
        for numbers in engine.regions(self.rebuilds, rows_max):
            region = engine.region(numbers)
            seed = region_seed(b"", self.rebuilds, numbers)
            done = replaced(
                engine, region, regrouped_region(engine.table, region.rows, region.standing, ALGORITHM, seed)
            )
            before += region.ncp
            now += region.ncp if done is None else done.ncp_now
            yield engine.drain()
        self._reached = self.told[-1] * now / before
