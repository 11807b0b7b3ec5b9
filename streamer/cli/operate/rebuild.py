"""`streamer rebuild`: the shards of a table are anonymized again as a whole, while changes are applied.

The rules of this file
----------------------
* A request is a record in the control topic. The worker that holds the shard acts on it once, within seconds; a request
  that is older than an hour is ignored.
* A shard that does not exist, or an algorithm that cannot do the table, is refused before anything is written.
  The worker refuses what it alone can know (a rebuild is running already), with the reason.
* Progress and result are read from the shard's meta in Redis; `status` shows them, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import starmap
from secrets import token_hex
from time import monotonic, perf_counter, sleep, time
from typing import Any

import click

from streamer.cli.operate.send_requests import ask_shards, shards_asked
from streamer.cli.support.next_call import KAFKA, REDIS, say_next
from streamer.cli.support.options import command_named, json_option, kafka_option, redis_option, table_option
from streamer.cli.support.progress import Stages, stages
from streamer.cli.support.tables import plural, show
from streamer.errors import EXIT_LAW, UsageError
from streamer.grouping import regrouped_region
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.tie_break import seed
from streamer.incremental.shard import rebuild
from streamer.incremental.shard.preflight import check_written_for
from streamer.incremental.shard.requests import CancelRebuild, FullRebuild
from streamer.incremental.store.base import ANSWERED, DONE, Meta, Progress, State
from streamer.incremental.store.redis_lookups import RedisLookups
from streamer.incremental.store.redis_server import connect_now
from streamer.privacy.models import model_of
from streamer.progress import OnProgress
from streamer.recoding.algorithms.catalog import algorithm_named, objections
from streamer.table.schema import Table
from streamer.table.space import Space
from streamer.table.yaml.loading import load_table
from streamer.table.yaml.shape import REBUILD_ALGORITHMS


@dataclass(frozen=True, slots=True)
class DryRun:
    """The effect that a rebuild of one shard would have."""

    shard: int
    rows: int
    regions: int
    rows_published_again: int
    ncp_before: float | None  # mean loss of the rows (`Space.mean_loss`)
    ncp_now: float | None
    seconds: float  # of the trial


def tried(table: Table, shard: int, state: State | None, algorithm: str, on_progress: OnProgress) -> DryRun:
    """Rebuilds a copy of a shard in this process as a worker would; a worker draws other random numbers.

    Raises UsageError, ConfigError if the algorithm cannot do it; ShardRefused if a worker would refuse the shard.
    """
    began = perf_counter()
    if state is None:
        return DryRun(shard, 0, 0, 0, None, None, 0.0)
    meta = state.meta
    check_written_for(table, shard, meta)
    engine = Engine.load(table, shard, meta.shards, state.kept, meta.secret)
    trial = rebuild.next_rebuild(meta, "", algorithm, seed(meta.secret))
    regions = engine.regions(trial.turn, rebuild.region_rows(table, algorithm, engine.n_rows))
    rebuilding = rebuild.Rebuilding(Progress(trial, len(regions)), tuple(regions), meta.secret)
    while (task := rebuilding.task) is not None:
        region = engine.region(task.numbers)
        groups = regrouped_region(table, region.rows, region.standing, algorithm, task.seed)
        gains = rebuild.gains(table.space, region, groups, algorithm)
        replaced = engine.replace(region, groups) if gains else None
        progress = rebuilding.progress
        rebuilding = rebuilding.replaced(progress.after(replaced) if replaced else progress.left_alone(region))
        on_progress(rebuilding.progress.done / len(regions))
    done, seconds = rebuilding.progress, round(perf_counter() - began, 3)
    losses = rebuild.losses(done, table.space)
    return DryRun(shard, engine.n_rows, done.total, done.rows_published_again, *losses, seconds)


PROGRESS_SECONDS = 0.5
TAKEN_UP_SECONDS_MAX = 60.0  # how long --wait waits for a worker to begin

NO_WORKER_REBUILDS = "no worker has begun it; is one running? A worker that is started within the hour will"


@command_named(
    "rebuild",
    "streamer rebuild --table mine --dry-run",
    "streamer rebuild --table mine --wait",
    "streamer rebuild --table mine --shard 2 --algorithm mondrian",
)
@table_option
@kafka_option
@redis_option
@click.option("--shard", type=click.IntRange(min=0), help="Only this shard [default: all].")
@click.option(
    "--algorithm", type=click.Choice(REBUILD_ALGORITHMS), help="Use this instead of `rebuild.algorithm` of table.yaml."
)
@click.option("--wait", is_flag=True, help="Wait for the end, and print what was gained.")
@click.option("--dry-run", is_flag=True, help="Change nothing; print what a rebuild of the stored table would gain.")
@click.option("--cancel", is_flag=True, help="Stop the running rebuild; replaced regions stay replaced.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, table: str, kafka: str, redis: str, shard: int | None, algorithm: str | None, wait: bool,
    dry_run: bool, cancel: bool,
) -> None:  # fmt: skip
    """Anonymizes the whole table again while changes are applied.

    The worker that holds a shard replaces its QI groups region by region, between changes, each region in one release.
    QI groups that do not change are not published again; a region that would not improve is left as it is. A rebuild
    that is stopped, or fails, has replaced whole regions only.

    Workers do this by themselves if the table has drifted (`rebuild` in table.yaml). With --wait, it ends with 1 if the
    rebuild is refused, fails or is stopped.
    """
    if sum((wait, dry_run)) > 1 or (cancel and (dry_run or algorithm)):
        raise UsageError("--dry-run goes with neither --wait nor --cancel, and --cancel with no --algorithm")
    schema = load_table(table)
    used = algorithm or schema.rebuilding.algorithm
    if found := objections(algorithm_named(used), schema, model_of(schema)):
        raise UsageError(f"{used} cannot do this: {found[0]}")
    numbers = shards_asked(kafka, schema.name, shard)
    client = connect_now(redis)
    stores = {number: RedisLookups(client, schema.name, number) for number in numbers}
    if dry_run:
        trials = _trials(schema, stores, used)
        show({"ok": True, "dry_run": True, "shards": [asdict(trial) for trial in trials]}, map(_trial_line, trials))
        chosen = [] if algorithm is None else ["--algorithm", algorithm]
        say_next(["rebuild", "--table", table, KAFKA, REDIS, *chosen, "--wait"])
        return
    before = {number: store.meta() for number, store in stores.items()}  # fails now if Redis cannot be reached
    id_ = ask(kafka, schema.name, numbers, algorithm, cancel)
    if not wait:
        sent = {"ok": True, "table": schema.name, "id": id_, "shards": numbers}
        show(sent, _sent_lines(schema.name, numbers, id_, cancel, any(before.values())))
        say_next(["status", "--table", table, KAFKA, REDIS])
        return
    with stages() as progress:
        ended = dict(sorted(_ended(stores, id_, progress).items()))
    ok = all(one is not None and one.state in (DONE, ANSWERED) for one in ended.values())
    shards = [{"shard": number, **_described(one, schema.space)} for number, one in ended.items()]
    show({"ok": ok, "table": schema.name, "id": id_, "shards": shards}, starmap(_ended_line, ended.items()))
    if not ok:
        ctx.exit(EXIT_LAW)


def ask(kafka: str, table_name: str, numbers: Sequence[int], algorithm: str | None, cancel: bool) -> str:
    """Asks shards for a rebuild, or to stop the running one; returns the request's id."""
    id_, now = token_hex(8), int(time())
    requests = [
        CancelRebuild(number, id_, now) if cancel else FullRebuild(number, id_, now, algorithm or "")
        for number in numbers
    ]
    ask_shards(kafka, table_name, "rebuild", requests)
    return id_


def _ended(stores: Mapping[int, RedisLookups], id_: str, progress: Stages) -> dict[int, Progress | None]:
    """Waits; returns how the request ended in every shard, None if no worker has begun it in time."""
    ended: dict[int, Progress | None] = {}
    until = monotonic() + TAKEN_UP_SECONDS_MAX
    with progress.stage("rebuild") as on_progress:
        while len(ended) < len(stores):
            metas = {number: store.meta() or Meta() for number, store in stores.items()}
            on_progress(sum(_share(meta, id_) for meta in metas.values()) / len(stores))
            for number, meta in metas.items():
                answer = rebuild.how_it_ended(meta, id_)
                if answer is not None or (monotonic() > until and _running(meta, id_) is None):
                    ended.setdefault(number, answer)
            if len(ended) < len(stores):
                sleep(PROGRESS_SECONDS)
    return ended


def _running(meta: Meta, id_: str) -> Progress | None:
    return meta.rebuild if meta.rebuild is not None and meta.rebuild.rebuild.id == id_ else None


def _share(meta: Meta, id_: str) -> float:
    if rebuild.how_it_ended(meta, id_) is not None:
        return 1.0
    running = _running(meta, id_)
    return 0.0 if running is None else running.done / max(1, running.total)


def _trials(table: Table, stores: Mapping[int, RedisLookups], algorithm: str) -> list[DryRun]:
    with stages() as progress:
        trials = []
        for number, store in stores.items():
            with progress.stage(f"shard {number}") as on_progress:
                trials.append(tried(table, number, store.snapshot(), algorithm, on_progress))
    return trials


def _sent_lines(table_name: str, numbers: Sequence[int], id_: str, cancel: bool, has_begun: bool) -> Iterator[str]:
    what = "asked to stop the rebuild" if cancel else "asked for a rebuild"
    of = f"shard {numbers[0]}" if len(numbers) == 1 else f"all {len(numbers)} shards"
    yield f"{of} of {table_name}: {what} (request {id_}); `streamer status` shows the progress"
    if not has_begun:
        yield "no shard has a row yet: the request waits an hour for the first one"


def _ended_line(number: int, one: Progress | None) -> str:
    return f"shard {number}: {NO_WORKER_REBUILDS if one is None else rebuild.told(one)}"


def _described(one: Progress | None, space: Space) -> dict[str, Any]:
    return {"state": "waiting", "said": NO_WORKER_REBUILDS} if one is None else rebuild.described(one, space)


def _trial_line(trial: DryRun) -> str:
    if not trial.rows:
        return f"shard {trial.shard}: has no row"
    before, now = trial.ncp_before or 0.0, trial.ncp_now or 0.0
    change = now / before - 1 if before else 0.0
    return (
        f"shard {trial.shard}: loss {before:.4f}, after a rebuild {now:.4f} ({change:+.1%}); "
        f"{trial.rows_published_again:,} of {plural(trial.rows, 'row')} would be published again, in at most "
        f"{plural(trial.regions, 'release')}; about {trial.seconds:.0f} s"
    )
