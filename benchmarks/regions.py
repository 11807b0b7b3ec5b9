"""What a rebuild gains when it goes by regions, and what it publishes again.

Adult, 15,000 rows at first, then 15,000 changes; then three rebuilds by `ordered`, one after the other, with regions of
at most so many rows: the information loss (NCP, a mean per row and attribute) before and after each, published rows and
records, QI groups of which readers see nothing, seconds of the algorithm and of all the rest. Changes are held still
meanwhile.

    python benchmarks/regions.py [--events 15000] [--quick] [--json]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent))

from rich.console import Console
from rich.table import Table as RichTable

import adult
import drift
import ready
from streamer.grouping import regrouped_region
from streamer.incremental.engine.engine import Engine
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.shard.rebuild import region_seed

K, GRID, TURNS = 5, 1, 3
ROWS_MAX = (20_000, 5_000, 2_500, 1_000)


def main() -> None:
    options = ready.options(__doc__, "a tenth of the events, two sizes, one rebuild")
    options.add_argument("--events", type=int, default=15_000)
    chosen = options.parse_args()
    ready.compiled()
    sizes, turns = (ROWS_MAX[:2], 1) if chosen.quick else (ROWS_MAX, TURNS)
    events = chosen.events // 10 if chosen.quick else chosen.events
    results = [figures for rows_max in sizes for figures in rebuilds(rows_max, turns, events)]
    if not chosen.json:
        show(results)
    print(json.dumps({"benchmark": "regions", "events": events, "results": results}))


def rebuilds(rows_max: int, turns: int, events: int) -> list[dict[str, float]]:
    """Rebuilds of one table in regions of at most so many rows."""
    table = adult.table(K, GRID)
    pool = adult.encoded(table)
    engine = drift.started(table, pool[: adult.ROWS_AT_FIRST])
    for change in adult.first_changes(pool, events):
        engine.apply(change)
    engine.drain()
    return [rebuild(engine, rows_max, turn) for turn in range(turns)]


def rebuild(engine: Engine, rows_max: int, turn: int) -> dict[str, float]:
    """One rebuild, region by region."""
    table, changelog = engine.table, Changelog(engine.table, 0)
    regions = engine.regions(turn, rows_max)
    records, algorithm, begun, done = 0, 0.0, perf_counter(), []
    for numbers in regions:
        region = engine.region(numbers)
        since = perf_counter()
        groups = regrouped_region(table, region.rows, region.standing, "ordered", region_seed(b"", turn, numbers))
        algorithm += perf_counter() - since
        replaced = engine.replace(region, groups)
        if replaced is None:
            raise SystemExit("a region changed while nothing else went on")
        done.append(replaced)
        records += sum(len(changelog.diff(*seen)[0]) for seen in engine.drain().published)
    cells = engine.n_rows * table.space.d
    return {
        "rows_max": rows_max,
        "turn": turn,
        "regions": len(regions),
        "rows": engine.n_rows,
        "ncp_before": round(sum(one.ncp_before for one in done) / cells, 4),
        "ncp_now": round(sum(one.ncp_now for one in done) / cells, 4),
        "rows_published_again": sum(one.rows_published_again for one in done),
        "records": records,
        "groups": sum(one.groups_now for one in done),
        "groups_unseen": sum(one.kept for one in done),
        "algorithm_s": round(algorithm, 2),
        "replacing_s": round(perf_counter() - begun - algorithm, 2),
    }


def show(results: list[dict[str, float]]) -> None:
    grid = RichTable(title="Adult: rebuilds in regions")
    for name in results[0]:
        grid.add_column(name.replace("_", " "), justify="right")
    for result in results:
        grid.add_row(*map(str, result.values()))
    Console(width=160).print(grid)


if __name__ == "__main__":
    main()
