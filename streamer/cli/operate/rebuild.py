"""`streamer rebuild`: has the shards of a table anonymized anew as a whole, behind the running stream.

The rules of this file
----------------------
* A request is a record in the control topic; the worker that holds the shard acts on it within seconds. It acts on it
  once, and not at all where it waited for longer than an hour.
* What cannot be right is refused here, before anything is written: a shard that does not exist, an algorithm that
  objects to the table. What only the worker can know (a rebuild is running already), it refuses, with the reason.
* How far it is and how it ended stands in the shard's meta in Redis, and is read there; `status` shows it, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from secrets import token_hex
from time import monotonic, perf_counter, sleep, time
from typing import Any

import click
import msgspec

from streamer.cli.operate.send_requests import ask_shards
from streamer.cli.support.options import examples, json_option, kafka_option, redis_option, table_option
from streamer.cli.support.progress import Stages, stages
from streamer.cli.support.tables import plural, say
from streamer.errors import EXIT_LAW, UsageError
from streamer.grouping import groups_anew
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.tie_break import seed
from streamer.incremental.shard.preflight import check_written_for
from streamer.incremental.shard.rebuild import (
    Rebuilding,
    described,
    gains,
    how_it_ended,
    next_rebuild,
    region_rows,
    told,
)
from streamer.incremental.shard.requests import CancelRebuild, FullRebuild
from streamer.incremental.store.base import ANSWERED, DONE, Meta, Progress, State
from streamer.incremental.store.redis_lookups import RedisLookups
from streamer.incremental.store.redis_server import connect
from streamer.incremental.topics import CHANGES, topic_name
from streamer.kafka.clients import open_consumer
from streamer.kafka.reading import shards_in
from streamer.progress import OnProgress
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table
from streamer.table.yaml.shape import REBUILD_ALGORITHMS

# What a rebuild of a shard would gain, without one: the shard as Redis holds it, rebuilt in this process's memory.
#
# The same regions, the same algorithm and the same replacement as a worker's, on a copy that is thrown away. So the
# figures are those of a rebuild of this very state; a worker's has other chances, and the table will have moved on.


@dataclass(frozen=True, slots=True)
class DryRun:
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


def tried(table: Table, shard: int, state: State | None, algorithm: str, on_progress: OnProgress) -> DryRun:
    """Rebuilds a copy of a shard.

    Raises UsageError, ConfigError where the algorithm cannot do it; ShardRefused where a worker would refuse the shard.
    """
    began = perf_counter()
    if state is None:
        return DryRun(shard, 0, 0, 0, 0.0, 0.0, 0.0)
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


def _trial(shard: int, rows: int, progress: Progress, seconds: float) -> DryRun:
    return DryRun(
        shard,
        rows,
        progress.total,
        progress.rows_published_again,
        progress.ncp_before,
        progress.ncp_now,
        round(seconds, 3),
    )


PROGRESS_SECONDS = 0.5
TAKEN_UP_SECONDS_MAX = 60.0
"""How long --wait waits for a worker to take a request up."""

NO_WORKER_REBUILDS = "no worker has taken it up; is one running? It will within the hour, if one is started"


@click.command(
    name="rebuild",
    epilog=examples(
        "streamer rebuild --table mine --dry-run",
        "streamer rebuild --table mine --wait",
        "streamer rebuild --table mine --shard 2 --algorithm mondrian",
    ),
)
@table_option
@kafka_option
@redis_option
@click.option("--shard", type=click.IntRange(min=0), help="Only this shard [default: all].")
@click.option(
    "--algorithm", type=click.Choice(REBUILD_ALGORITHMS), help="Another one than `rebuild.algorithm` of table.yaml."
)
@click.option("--wait", is_flag=True, help="Wait until it is over, and say what it gained.")
@click.option("--dry-run", is_flag=True, help="Change nothing; say what a rebuild of the stored table would gain.")
@click.option("--cancel", is_flag=True, help="Stop the rebuild that is running; regions that are done stay so.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    table: str,
    kafka: str,
    redis: str,
    shard: int | None,
    algorithm: str | None,
    wait: bool,
    dry_run: bool,
    cancel: bool,
    as_json: bool,
) -> None:
    """Has the table anonymized anew as a whole, behind the running stream.

    The worker that holds a shard replaces its QI groups region by region, between the changes that go on meanwhile,
    each region in one release. QI groups that come out as they were are not published again; a region that would not
    get better is left as it is. A rebuild that is stopped, or fails, has replaced whole regions only.

    Workers do this by themselves when the table has drifted (`rebuild` in table.yaml). Ends with 1 where --wait sees it
    refused, failed or stopped.
    """
    if sum((wait, dry_run)) > 1 or (cancel and (dry_run or algorithm)):
        raise UsageError("--dry-run goes with neither --wait nor --cancel, and --cancel with no --algorithm")
    schema = load_table(table)
    numbers = shards_to_ask(schema, kafka, shard, algorithm)
    client = connect(redis)
    stores = {number: RedisLookups(client, schema.name, number) for number in numbers}
    if dry_run:
        _print_trials(_trials(schema, stores, algorithm or schema.rebuilding.algorithm, as_json), as_json)
        return
    before = {number: store.meta() for number, store in stores.items()}  # says now if Redis cannot be reached
    id_ = ask(kafka, schema.name, numbers, algorithm, cancel)
    if not wait:
        _print_sent(schema.name, numbers, id_, cancel, any(before.values()), as_json)
        return
    with stages(as_json) as progress:
        ended = _ended(stores, id_, progress)
    if not _print_ended(schema.name, ended, id_, as_json):
        ctx.exit(EXIT_LAW)


def shards_to_ask(table: Table, kafka: str, shard: int | None, algorithm: str | None) -> list[int]:
    """The shards that a request is for; shard None: all of them. Raises UsageError where it cannot be right."""
    _check_algorithm(table, algorithm or table.rebuilding.algorithm)
    with open_consumer(kafka) as consumer:
        n_shards = len(shards_in(consumer, topic_name(table.name, CHANGES)))
    if shard is not None and shard >= n_shards:
        raise UsageError(f"shard {shard}: {topic_name(table.name, CHANGES)} has the shards 0 to {n_shards - 1}")
    return list(range(n_shards)) if shard is None else [shard]


def _check_algorithm(table: Table, algorithm: str) -> None:
    """Raises UsageError where the algorithm objects to the table."""
    from streamer.privacy.models import model_of
    from streamer.recoding.algorithms.catalog import algorithm_named, objections

    if said := objections(algorithm_named(algorithm), table, model_of(table)):
        raise UsageError(f"{algorithm} cannot do this: {said[0]}")


def ask(kafka: str, table_name: str, numbers: Sequence[int], algorithm: str | None, cancel: bool) -> str:
    """Asks shards for a rebuild, or for the end of the one that is running; returns the request's id."""
    id_, now = token_hex(8), int(time())
    requests = [
        CancelRebuild(number, id_, now) if cancel else FullRebuild(number, id_, now, algorithm or "")
        for number in numbers
    ]
    ask_shards(kafka, table_name, "rebuild", requests)
    return id_


# -- waiting ----------------------------------------------------------------------------------------------------------


def _ended(stores: Mapping[int, RedisLookups], id_: str, progress: Stages) -> dict[int, Progress | None]:
    """How the request ended in every shard; None: no worker has taken it up in time."""
    ended: dict[int, Progress | None] = {}
    until = monotonic() + TAKEN_UP_SECONDS_MAX
    with progress.stage("rebuild") as on_progress:
        while len(ended) < len(stores):
            metas = {number: store.meta() or Meta() for number, store in stores.items()}
            on_progress(sum(_share(meta, id_) for meta in metas.values()) / len(stores))
            for number, meta in metas.items():
                answer = how_it_ended(meta, id_)
                if answer is not None or (monotonic() > until and _share(meta, id_) == 0 and not _runs(meta, id_)):
                    ended.setdefault(number, answer)
            if len(ended) < len(stores):
                sleep(PROGRESS_SECONDS)
    return ended


def _runs(meta: Meta, id_: str) -> bool:
    return meta.rebuild is not None and meta.rebuild.rebuild.id == id_


def _share(meta: Meta, id_: str) -> float:
    """How much of a shard's rebuild is done."""
    if how_it_ended(meta, id_) is not None:
        return 1.0
    running = meta.rebuild
    return running.done / max(1, running.total) if running is not None and running.rebuild.id == id_ else 0.0


# -- trying it out ----------------------------------------------------------------------------------------------------


def _trials(table: Table, stores: Mapping[int, RedisLookups], algorithm: str, as_json: bool) -> list[DryRun]:

    with stages(as_json) as progress:
        trials = []
        for number, store in stores.items():
            with progress.stage(f"shard {number}") as on_progress:
                trials.append(tried(table, number, store.snapshot(), algorithm, on_progress))
    return trials


# -- for people and programs ------------------------------------------------------------------------------------------


def _print_sent(
    table_name: str, numbers: Sequence[int], id_: str, cancel: bool, has_begun: bool, as_json: bool
) -> None:
    if as_json:
        click.echo(msgspec.json.encode({"ok": True, "table": table_name, "id": id_, "shards": numbers}))
        return
    what = "the end of its rebuild" if cancel else "a rebuild"
    of = f"shard {numbers[0]}" if len(numbers) == 1 else f"all {len(numbers)} shards"
    say(f"{what} is asked of {of} of {table_name} (request {id_}); `streamer status` shows how far it is")
    if not has_begun:
        say("no shard has a row yet: the request waits for the first, for an hour")


def _print_ended(table_name: str, ended: Mapping[int, Progress | None], id_: str, as_json: bool) -> bool:
    """Whether all went well."""
    ok = all(one is not None and one.state in (DONE, ANSWERED) for one in ended.values())
    if as_json:
        shards = [{"shard": number, **_described(one)} for number, one in sorted(ended.items())]
        click.echo(msgspec.json.encode({"ok": ok, "table": table_name, "id": id_, "shards": shards}))
        return ok
    for number, one in sorted(ended.items()):
        say(f"shard {number}: {NO_WORKER_REBUILDS if one is None else told(one)}")
    return ok


def _described(one: Progress | None) -> dict[str, Any]:
    return {"state": "waiting", "said": NO_WORKER_REBUILDS} if one is None else described(one)


def _print_trials(trials: Sequence[DryRun], as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode({"ok": True, "dry_run": True, "shards": [trial.as_dict() for trial in trials]}))
        return
    for line in _trial_lines(trials):
        say(line)


def _trial_lines(trials: Sequence[DryRun]) -> Iterator[str]:
    for trial in trials:
        if not trial.rows:
            yield f"shard {trial.shard}: has no row"
            continue
        change = trial.ncp_now / trial.ncp_before - 1 if trial.ncp_before else 0.0
        yield (
            f"shard {trial.shard}: loss per row {trial.ncp_before / trial.rows:.4f}, after a rebuild "
            f"{trial.ncp_now / trial.rows:.4f} ({change:+.1%}); {trial.rows_published_again:,} of "
            f"{plural(trial.rows, 'row')} would be published again, in "
            f"{plural(trial.regions, 'release')} at most; about {trial.seconds:.0f} s"
        )
