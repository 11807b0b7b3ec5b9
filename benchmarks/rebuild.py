"""What a rebuild gains and costs: loss, rows published again, time, how well drift is estimated, and what changes wait.

    python benchmarks/rebuild.py [--rows 30000 100000] [--repair 0 0.02] [--region-rows N] [--seconds 20] [--quick]
                                 [--json]

For every size, without local repair and with it, a table of Adult's people begins fresh, goes through half as many
changes as it has rows, and is then rebuilt by regions, as a worker does it; beside that, `ordered` over the whole table
at once. The drift is estimated from samples, as a worker does, TURNS times (twice where there are MANY_ROWS). Then, on
a real Kafka and Redis, a worker of 4 shards with 30,162 rows gets 500 changes a second, and in the middle of it the
request to rebuild all shards; and once more while it works off a backlog of changes as fast as it can.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from secrets import token_hex
from time import monotonic, perf_counter, sleep, time
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

import adult
import ready
from end_to_end import WARM_UP_SECONDS, loaded, placed, streamer_worker
from streamer.grouping import groups_by, regrouped_region
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.replacing import Region
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.shard.rebuild import SAMPLE_ROWS, gain, ratio, region_rows
from streamer.incremental.shard.requests import FullRebuild
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.table.encode import EncodedRows
from streamer.table.row import Row
from streamer.table.schema import NO_REPAIR, REPAIR, Repair, Table
from streamer.table.yaml.shape import read_repair
from worker_rebuilds import ALGORITHM, estimated, replaced
from workers import EVENTS_PER_SECOND, SHARDS, Committed, World
from worlds import adult_people
from worlds.kafka_and_redis import write

TURNS = 5
TURNS_OF_MANY_ROWS, MANY_ROWS = 2, 500_000
BACKLOG = 60_000
K = 5


def main() -> None:
    options = ready.options(__doc__, "3,000 rows, 3 seconds")
    options.add_argument("--rows", type=int, nargs="*", default=[30_000, 100_000], help="rows of a shard")
    options.add_argument("--repair", type=read_repair, nargs="+", default=[NO_REPAIR, REPAIR], help="5%%, 0.05, off")
    options.add_argument(
        "--seconds", type=float, default=20.0, help="how long changes come before the rebuild; 0: none"
    )
    options.add_argument("--region-rows", type=int, help="of a region, rebuilt or sampled [default: as a worker does]")
    chosen = options.parse_args()
    ready.compiled()
    if chosen.quick:
        chosen.rows, chosen.repair, chosen.seconds = [3_000], [NO_REPAIR], 3.0
    sizes = [of_size(n, repair, chosen.region_rows) for n in chosen.rows for repair in chosen.repair]
    waited, worked = behind_a_stream(chosen.seconds, chosen.quick) if chosen.seconds else (None, None)
    if not chosen.json:
        show(sizes, waited, worked)
    print(json.dumps({"benchmark": "rebuild", "sizes": sizes, "latency": waited, "speed": worked}))


# -- gain, cost, and how well drift is told ---------------------------------------------------------------------------


def of_size(n: int, repair: Repair, region_rows_max: int | None) -> dict[str, Any]:
    """One table: drifted, told how far, and rebuilt; price: of local repair."""
    engine, records = drifted(replace(adult.table(K), repair=repair), n)
    now = sum(engine.region(numbers).ncp for numbers in engine.regions(0, n))
    began = perf_counter()
    rows = everything(engine)
    fresh = engine.table.space.loss_of(
        engine.table.space.cells(rows.codes), groups_by(engine.table, rows, ALGORITHM, 1)
    )
    alone = perf_counter() - began
    truth = ratio(now, fresh)
    turns = TURNS_OF_MANY_ROWS if n >= MANY_ROWS else TURNS
    told = [estimated(engine, turn, region_rows_max or SAMPLE_ROWS) for turn in range(turns)]
    rebuilt = rebuild(engine, region_rows_max or region_rows(engine.table, ALGORITHM, engine.n_rows))
    cells = engine.n_rows * engine.table.space.d
    return {
        "rows": engine.n_rows,
        "repair": str(repair),
        "drift": round(truth, 3),
        "drift_estimated": [round(one, 3) for one in told],
        "drift_error_most": round(max(abs(one / truth - 1) for one in told), 3),
        "ncp_before": round(now / cells, 4),
        "ncp_after": round(rebuilt["loss"] / cells, 4),
        "ncp_one_run": round(fresh / cells, 4),
        "regions_cost": round(rebuilt["loss"] / fresh - 1, 4),
        "published_again": round(rebuilt["again"] / engine.n_rows, 3),
        "of_what_changes_published": round(rebuilt["again"] / records, 3),
        "regions": rebuilt["regions"],
        "seconds": round(rebuilt["seconds"], 2),
        "seconds_algorithm_alone": round(alone, 2),
        "seconds_over_algorithm_alone": round(rebuilt["seconds"] / alone, 2),
        "region_ms_most": round(1000 * rebuilt["most"], 1),
        "region_ms_in_the_shard_most": round(1000 * rebuilt["in_shard_most"], 1),
    }


def drifted(table: Table, n: int) -> tuple[Engine, int]:
    """A fresh table of n rows after n / 2 changes, and the records that these published, each a batch of its own."""
    people = adult.many(adult.microdata(K), n + n // 2)
    texts = people.texts[0]
    pool = [Row(tuple(codes), (texts[v],)) for codes, v in zip(people.codes.tolist(), people.values[:, 0], strict=True)]
    keys, first = [f"old-{i}" for i in range(n)], pool[:n]
    engine = Engine(table, secret=b"benchmark")
    codes = adult.codes_of(first)
    rows = EncodedRows(keys, codes, [row.values for row in first], [()] * n, [None] * n)
    engine.load_initial(keys, first, codes, groups_by(table, rows, ALGORITHM, 0))
    engine.drain()
    changelog, records = Changelog(table, 0), 0
    for change in adult.mixed_changes(pool, keys, n // 2, seed=1):
        engine.apply(change)
        records += sum(len(changelog.diff(*seen)[0]) for seen in engine.drain().published)
    return engine, records


def everything(engine: Engine) -> EncodedRows:
    (numbers,) = engine.regions(0, engine.n_rows)
    return engine.region(numbers).rows


def rebuild(engine: Engine, rows_max: int) -> dict[str, float]:
    """The whole of it, region by region; seconds of the longest region, and of what a shard itself does for one."""
    table, began = engine.table, perf_counter()
    again, spent, in_shard = 0, [], []
    regions = engine.regions(1, rows_max)
    for seed, numbers in enumerate(regions):
        started = perf_counter()
        region = engine.region(numbers)
        looked = perf_counter()
        groups = regrouped_region(table, region.rows, region.standing, ALGORITHM, seed)
        found = perf_counter()
        again += replaced_rows(engine, region, groups)
        ended = perf_counter()
        spent.append(ended - started)
        in_shard.append(looked - started + ended - found)
    seconds = perf_counter() - began
    after = sum(engine.region(numbers).ncp for numbers in engine.regions(0, engine.n_rows))
    return {
        "loss": after, "again": again, "regions": len(regions), "seconds": seconds,
        "most": max(spent), "in_shard_most": max(in_shard),
    }  # fmt: skip


def replaced_rows(engine: Engine, region: Region, groups: Sequence[np.ndarray[Any, Any]]) -> int:
    """Rows that are published again for a region, with all that its commit takes but the servers."""
    done = replaced(engine, region, groups)
    engine.drain()
    return done.rows_published_again if done else 0


# -- what changes wait ------------------------------------------------------------------------------------------------


def behind_a_stream(seconds: float, quick: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Waiting times of changes during a rebuild of all shards, and their speed meanwhile."""
    people = dict(islice(adult_people.read_people(adult.folder()).items(), 3_000 if quick else None))
    with ready.servers() as (servers, directory):
        world = World(servers.kafka_bootstrap, servers.redis_url, directory, people)
        return waited(world, seconds), worked(world, 6_000 if quick else BACKLOG)


def worked(world: World, backlog: int) -> dict[str, Any]:
    """Changes per second out of a backlog, before a rebuild of all shards and during it, in one run."""
    name, table = world.new_table(SHARDS)
    changes, positions = loaded(world, name, table)
    base = list(changes.ends)
    changes.write(placed(adult_people.Changes(world.people, seed=3).more(backlog)))
    first = [one + (end - one) // 4 for one, end in zip(base, changes.ends, strict=True)]
    with world.running(name, streamer_worker(table)) as worker, ThreadPoolExecutor(1) as thread:
        seen = positions.until(first, worker)
        rebuilding = thread.submit(rebuilt, world, name, monotonic())
        seen += positions.until(changes.ends, worker)
        asked, ended, progress = rebuilding.result()
    before = changes_per_second(seen, base, seen[0].at, asked)
    during = changes_per_second(seen, base, asked, min(ended, seen[-1].at))
    return {
        "rebuild_seconds": round(ended - asked, 1),
        "before": round(before),
        "during": round(during),
        "ratio": round(during / before, 2),
        "left": sum(one.left for one in progress),
    }


def changes_per_second(seen: Sequence[Committed], base: Sequence[int], since: float, until: float) -> float:
    """Of all shards, between two moments; base: the offset of the first change of each shard."""
    done, count = list(base), 0
    for committed in seen:
        count += (committed.next - done[committed.shard]) * (since < committed.at <= until)
        done[committed.shard] = max(done[committed.shard], committed.next)
    return count / (until - since)


def waited(world: World, seconds: float) -> dict[str, Any]:
    """Milliseconds to the changelog before and during a rebuild of all shards, in one run."""
    name, table = world.new_table(SHARDS)
    changes, positions = loaded(world, name, table)
    warm_up = WARM_UP_SECONDS * EVENTS_PER_SECOND
    count = warm_up + int(EVENTS_PER_SECOND * seconds * 4)
    messages = iter(placed(adult_people.Changes(world.people, seed=2).more(count)))
    with world.running(name, streamer_worker(table)) as worker, ThreadPoolExecutor(2) as thread:
        changes.write(list(islice(messages, warm_up)))
        positions.until(changes.ends, worker)
        base, paced = list(changes.ends), list(messages)
        ends = [end + sum(shard == s for s, _, _ in paced) for shard, end in enumerate(base)]
        began = monotonic()
        sending = thread.submit(changes.write_paced, paced)
        rebuilding = thread.submit(rebuilt, world, name, began + seconds)
        seen = positions.until(ends, worker)
        asked, ended, progress = rebuilding.result()
        sent = sending.result()
    waits = spans(sent, base, seen)
    before = sorted(wait for at, wait in waits if began < at < asked)
    during = sorted(wait for at, wait in waits if asked <= at < ended)
    return {
        "rebuild_seconds": round(ended - asked, 1),
        "before": quantiles(before),
        "during": quantiles(during),
        "p99_ratio": round(quantile(during, 99) / quantile(before, 99), 2),
        "gain": [round(gain(one), 3) for one in progress],
        "left": sum(one.left for one in progress),
    }


def rebuilt(world: World, name: str, at: float) -> tuple[float, float, list[Any]]:
    """Asks for a rebuild of all shards; when that was, when the last one was over, and what each came to."""
    sleep(max(0.0, at - monotonic()))
    id_ = token_hex(4)
    asked = monotonic()
    write(
        world.bootstrap,
        f"{name}.control",
        [(s, None, FullRebuild(s, id_, int(time())).to_json()) for s in range(SHARDS)],
    )
    client = connect(world.redis_url)
    stores = [RedisStore(client, name, shard) for shard in range(SHARDS)]
    while True:
        metas = [store.meta() for store in stores]
        ended = [one for meta in metas if meta for one in meta.rebuilds if one.rebuild.id == id_]
        if len(ended) == SHARDS:
            return asked, monotonic(), ended
        sleep(0.05)


def spans(sent: Sequence[Sequence[float]], base: Sequence[int], seen: Sequence[Committed]) -> list[tuple[float, float]]:
    """Of every message when it was produced, and how long it took until it was read as committed."""
    done, found = list(base), []
    for committed in seen:
        for offset in range(done[committed.shard], committed.next):
            at = sent[committed.shard][offset - base[committed.shard]]
            found.append((at, committed.at - at))
        done[committed.shard] = max(done[committed.shard], committed.next)
    return found


def quantile(waits: Sequence[float], percent: int) -> float:
    return 1000 * waits[len(waits) * percent // 100] if waits else float("nan")


def quantiles(waits: Sequence[float]) -> dict[str, float]:
    return {"changes": len(waits), **{f"p{n}": round(quantile(waits, n), 1) for n in (50, 99)}}


# -- for people -------------------------------------------------------------------------------------------------------


def show(sizes: Sequence[dict[str, Any]], waited: dict[str, Any] | None, worked: dict[str, Any] | None) -> None:
    if sizes:
        table = RichTable("", *(f"{one['rows']:,} rows" for one in sizes), title="A rebuild by regions")
        for name in sizes[0]:
            table.add_row(name.replace("_", " "), *(str(one[name]) for one in sizes))
        Console().print(table)
    if waited:
        table = RichTable("", *waited["before"], title=f"Milliseconds to the changelog, {EVENTS_PER_SECOND} changes/s")
        for name in ("before", "during"):
            table.add_row(name, *map(str, waited[name].values()))
        Console().print(table)
        Console().print(f"p99 during a rebuild: {waited['p99_ratio']} x; it took {waited['rebuild_seconds']} s")
    if worked:
        table = RichTable(*worked, title="Changes per second out of a backlog")
        table.add_row(*map(str, worked.values()))
        Console().print(table)


if __name__ == "__main__":
    main()
