"""What a rebuild of a shard would gain, without one: the shard as Redis holds it, rebuilt in this process's memory.

The same regions, the same algorithm and the same replacement as a worker's, on a copy that is thrown away. So the
figures are those of a rebuild of this very state; a worker's has other chances, and the table will have moved on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from time import perf_counter

from streamer.grouping import groups_anew
from streamer.incremental.groups.engine import Engine
from streamer.incremental.groups.lots import seed
from streamer.incremental.shard.rebuild_regions import gains, region_rows
from streamer.incremental.shard.rebuilding import Rebuilding, next_rebuild
from streamer.incremental.shard.standing import check_written_for
from streamer.incremental.store.base import State
from streamer.incremental.store.rebuild import Progress
from streamer.progress import OnProgress
from streamer.table.schema import Table


@dataclass(frozen=True, slots=True)
class Trial:
    """What a rebuild of one shard would do; NCP times rows, summed; seconds: of this trial."""

    shard: int
    rows: int
    regions: int
    rows_published_again: int
    ncp_before: float
    ncp_now: float
    seconds: float

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def tried(table: Table, shard: int, state: State | None, algorithm: str, on_progress: OnProgress) -> Trial:
    """Rebuilds a copy of a shard.

    Raises UsageError, ConfigError where the algorithm cannot do it; ShardRefused where a worker would refuse the shard.
    """
    began = perf_counter()
    if state is None:
        return Trial(shard, 0, 0, 0, 0.0, 0.0, 0.0)
    meta = state.meta
    check_written_for(table, shard, meta)
    engine = Engine.load(table, shard, meta.shards, state.kept, meta.secret)
    rebuild = next_rebuild(meta, "", algorithm, seed(meta.secret))
    regions = engine.regions(rebuild.turn, region_rows(table, algorithm, engine.n_rows))
    rebuilding = Rebuilding(rebuild, regions, meta.secret)
    while (task := rebuilding.task) is not None:
        region = engine.region(task.numbers)
        groups = groups_anew(table, region.rows, region.standing, algorithm, task.seed)
        replaced = engine.replace(region, groups) if gains(table.space, region, groups, algorithm) else None
        progress = rebuilding.progress
        rebuilding.replaced(progress.after(replaced) if replaced else progress.left_alone(region.ncp))
        on_progress(rebuilding.progress.done / len(regions))
    return _trial(shard, engine.n_rows, rebuilding.progress, perf_counter() - began)


def _trial(shard: int, rows: int, progress: Progress, seconds: float) -> Trial:
    return Trial(
        shard,
        rows,
        progress.total,
        progress.rows_published_again,
        progress.ncp_before,
        progress.ncp_now,
        round(seconds, 3),
    )
