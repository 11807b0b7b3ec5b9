"""How far the incremental table drifts from a fresh one, and what an event costs.

Adult, 15,000 rows at first, then 75,000 changes (40 % inserts, 30 % deletes, 30 % modifies of one attribute), without
any rebuild; then the information loss (NCP) of the incremental table over that of a fresh Median Mondrian on the same
rows.

    python benchmarks/drift.py [--events 75000] [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from rich.console import Console
from rich.table import Table as RichTable

import adult
from streamer.incremental.groups.engine import Engine
from streamer.incremental.release.changelog import Changelog, PublishedGroup
from streamer.privacy.models import k_anonymity
from streamer.recoding.algorithms import catalog
from streamer.recoding.algorithms.initial import initial_groups
from streamer.recoding.algorithms.mondrian import MONDRIAN
from streamer.recoding.metrics.utility import ncp
from streamer.table.arrays import Ints
from streamer.table.microdata import Microdata
from streamer.table.row import Row
from streamer.table.schema import Table

ROWS_AT_FIRST = 15_000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--events", type=int, default=75_000)
    options.add_argument("--quick", action="store_true", help="a tenth of the events, one setting")
    options.add_argument("--json", action="store_true", help="print the JSON object alone")
    chosen = options.parse_args()
    settings = [(5, 1)] if chosen.quick else [(5, 1), (10, 1), (5, 5), (10, 5)]
    events = chosen.events // 10 if chosen.quick else chosen.events
    results = [run(k, grid, events) for k, grid in settings]
    if not chosen.json:
        show(results)
    print(json.dumps({"benchmark": "drift", "events": events, "results": results}))


def run(k: int, grid: int, events: int) -> dict[str, float]:
    """One setting: drift and records per event with batches of 1, then engine time with batches of 1 and of 500."""
    table = adult.table(k, grid)
    pool = adult.encoded(table)
    engine, published = started(table, pool)
    changelog, records = Changelog(table, 0), 0
    writes = engine.similarity_writes
    for _ in changes(engine, pool, events):
        for number, before, after in engine.drain().published:
            records += len(changelog.diff(number, before, after)[0])
            published[number] = after
    incremental = loss(table, [group for group in published.values() if group is not None])
    fresh = loss_of_fresh(table, engine)
    return {
        "k": k,
        "grid": grid,
        "rows": engine.n_rows,
        "qi_groups": engine.n_qi_groups,
        "ncp": round(incremental, 4),
        "ncp_fresh_mondrian": round(fresh, 4),
        "ncp_ratio": round(incremental / fresh, 3),
        "records_per_event": round(records / events, 3),
        "similarity_writes_per_event": round((engine.similarity_writes - writes) / events, 3),
        "engine_us_per_event_batch_1": round(engine_time(table, pool, events, 1), 1),
        "engine_us_per_event_batch_500": round(engine_time(table, pool, events, 500), 1),
    }


def started(table: Table, pool: list[Row]) -> tuple[Engine, dict[int, PublishedGroup | None]]:
    """An engine that holds the first rows, in the QI groups of the initial load, and what it has published."""
    first = pool[:ROWS_AT_FIRST]
    codes, keys = adult.codes_of(first), [f"old-{i}" for i in range(len(first))]
    engine = Engine(table)
    engine.load_initial(keys, first, codes, initial_groups(people(table, codes), k_anonymity(table.k), seed=0))
    return engine, {number: after for number, _, after in engine.drain().published}


def changes(engine: Engine, pool: list[Row], events: int) -> Iterator[int]:
    for i, change in enumerate(adult.mixed_changes(pool, [f"old-{n}" for n in range(ROWS_AT_FIRST)], events, seed=1)):
        engine.apply(change)
        yield i


def engine_time(table: Table, pool: list[Row], events: int, batch: int) -> float:
    """Microseconds per event to apply and drain, without encoding and without I/O."""
    engine, _ = started(table, pool)
    todo = list(adult.mixed_changes(pool, [f"old-{n}" for n in range(ROWS_AT_FIRST)], events, seed=1))
    begun = perf_counter()
    for i, change in enumerate(todo, start=1):
        engine.apply(change)
        if i % batch == 0:
            engine.drain()
    engine.drain()
    return (perf_counter() - begun) / events * 1e6


def loss(table: Table, groups: list[PublishedGroup]) -> float:
    """Mean NCP per row and attribute."""
    lo, hi = np.array([group.lo for group in groups]), np.array([group.hi for group in groups])
    rows = np.array([len(group.slots) for group in groups])
    return float((table.space.ncp(lo, hi) * rows).sum() / rows.sum() / table.space.d)


def loss_of_fresh(table: Table, engine: Engine) -> float:
    """The same of a Median Mondrian with strict cuts, made anew from the same rows."""
    _, codes = engine.source_rows()
    rows = people(table, codes)
    return ncp(rows, catalog.run(MONDRIAN, rows, k_anonymity(table.k)))


def people(table: Table, codes: Ints) -> Microdata:
    """Rows of quasi-identifiers alone: sensitive values play no part."""
    nothing = np.zeros((len(codes), len(table.kept)), dtype=np.int64)
    return Microdata(table, codes, None, nothing, ((b"null",),) * len(table.kept))


def show(results: list[dict[str, float]]) -> None:
    grid = RichTable(title="Adult: incremental table against a fresh Median Mondrian")
    for name in results[0]:
        grid.add_column(name.replace("_", " "), justify="right")
    for result in results:
        grid.add_row(*map(str, result.values()))
    Console(width=160).print(grid)


if __name__ == "__main__":
    main()
