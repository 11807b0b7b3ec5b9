"""Drift of a table that is kept change by change from a fresh one, on tables of many kinds, and its published records.

Each table of `shapes.py` is anonymized at first, then sees as many changes as it has rows, of each of these
streams: mixed, growing, shrinking, changing (modifies only), drifting (the population of newcomers moves, the oldest
rows go). Each change is published by itself, or `--batch` of them together, and nothing is rebuilt. At every point: the
information loss (NCP) over that of a fresh run of `ordered` on the same rows; in all, records published and
microseconds of CPU in the engine per change. The worst case comes first. `--model` makes tables ask for more than k, of
rows or of people with 1.25 rows each, or for boxes no wider than `coarsest`; fresh runs ask for the same. A row that is
withheld has lost everything. With several `--repair`, also by that: the median and the worst of these losses over all
tables and streams, and in the mean records and microseconds.

    python benchmarks/drift.py [--table NAME ...] [--stream NAME ...] [--k K ...] [--repair WAY ...] [--model NAME ...]
        [--rows N] [--events N] [--points 4] [--batch 1] [--quick] [--json]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import mean, median
from time import process_time
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from rich.console import Console
from rich.table import Table as RichTable

import adult
import ready
import shapes
from benchmarks.losses import LEAVING_OUT, with_coarsest
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.net_effect import Drained
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import PublishedGroup
from streamer.privacy.models import model_of
from streamer.recoding.algorithms import catalog
from streamer.recoding.algorithms.catalog import initial_groups
from streamer.recoding.algorithms.ordered import ORDERED
from streamer.recoding.metrics.utility import ncp
from streamer.table.arrays import Ints
from streamer.table.codes import DistributionDemands, Diversity
from streamer.table.encode import EncodedRows
from streamer.table.microdata import Microdata, microdata_of
from streamer.table.row import Row
from streamer.table.schema import NO_REPAIR, REPAIR, Table
from streamer.table.yaml.shape import read_repair

Result = dict[str, Any]

PLAIN, COARSEST = "k", "coarsest"
MODELS: dict[str, Diversity | DistributionDemands] = {
    PLAIN: Diversity(),
    COARSEST: Diversity(),
    **adult.MODELS_ASKED["rows"],
    **adult.MODELS_ASKED["individuals"],
}
TABLES = (*shapes.SYNTHETIC, *shapes.PUBLIC, shapes.ADULT)


def main() -> None:
    options = ready.options(__doc__, "300 changes of 1,000 rows of each synthetic table, k = 5, two points")
    options.add_argument(
        "--table", nargs="+", default=[*filter(shapes.is_there, TABLES)], choices=TABLES, metavar="NAME",
        help="by default all that are there: two need `pip install --no-deps statsmodels`",
    )  # fmt: skip
    options.add_argument("--stream", nargs="+", default=list(shapes.STREAMS), choices=shapes.STREAMS, metavar="NAME")
    options.add_argument("--k", type=int, nargs="+", default=[5, 10])
    options.add_argument(
        "--repair", type=read_repair, nargs="+", default=[REPAIR], metavar="WAY", help="5%%, 0.05, off"
    )
    options.add_argument("--model", nargs="+", default=[PLAIN], choices=MODELS, metavar="NAME")
    options.add_argument("--rows", type=int, help="rows at first, instead of each table's own number")
    options.add_argument("--events", type=int, help="changes, instead of as many as rows at first")
    options.add_argument("--points", type=int, default=4)
    options.add_argument("--batch", type=int, default=1, help="changes that are published together")
    chosen = options.parse_args()
    ready.compiled()
    if chosen.quick:
        chosen.table, chosen.k, chosen.repair = list(shapes.SYNTHETIC), [5], [NO_REPAIR, REPAIR]
        chosen.rows, chosen.events, chosen.points = 1_000, 300, 2
    results = []
    for name, stream in product(chosen.table, chosen.stream):
        pool, first = drawn(name, stream, chosen.rows, chosen.events)
        for model, k in product(chosen.model, chosen.k):
            results += courses(name, stream, asking(pool, model, k), first, model, chosen)
            if not chosen.json:
                print(f"{name}, {stream}, {model} = {k}: " + said(results[-1]), file=sys.stderr)
    by_price = prices(results)
    if not chosen.json:
        show(results)
        if len(by_price) > 1:
            show_prices(by_price)
    print(json.dumps({"benchmark": "drift", "looked_at": shapes.LOOKED_AT, "results": results, "by_price": by_price}))


def drawn(name: str, stream: str, rows: int | None, events: int | None) -> tuple[Microdata, int]:
    """The rows that are there at first and those that come, and how many the first are."""
    _, first = shapes.pool(name, rows)
    coming = events or first
    moved = np.linspace(0, 1, coming) if shapes.STREAMS[stream].moves else np.zeros(coming)
    return shapes.pool(name, rows, moved)


def asking(people: Microdata, model: str, k: int) -> Microdata:
    """The same people in a table that asks for a model; individuals, if they are counted, by chance."""
    counted = model in adult.MODELS_ASKED["individuals"]
    owner = np.random.default_rng(0).integers(0, len(people) * 4 // 5, len(people)) if counted else None
    people = adult.with_demands(with_coarsest(people) if model == COARSEST else people, MODELS[model])
    table = replace(people.table, k=k, individual="name" if counted else None)
    return replace(people, table=table, individuals=owner)


def courses(name: str, stream: str, people: Microdata, first: int, model: str, chosen: Any) -> list[Result]:
    """The table along the changes, for each way of local repair."""
    pool, fresh = adult.rows_of(people), list[float]()
    groups = first_groups(people.table, pool[:first])
    return [
        {
            "table": name,
            "stream": stream,
            "k": people.table.k,
            "model": model,
            "rows": first,
            "repair": str(way),
            **course(replace(people.table, repair=way), pool, first, groups, stream, chosen, fresh),
        }
        for way in chosen.repair
    ]


def course(
    table: Table,
    pool: Sequence[Row],
    first: int,
    groups: list[Ints],
    stream: str,
    chosen: Any,
    fresh: list[float],
) -> Result:
    """The table along the changes; at a point that no course has come to before, a fresh run is added to `fresh`."""
    events, points = chosen.events or first, chosen.points
    engine = started(table, pool[:first], groups)
    readers = Readers(table, engine.drain())
    over, records, seconds = list[float](), 0, 0.0
    for i, change in enumerate(shapes.stream(stream, list(pool), first, events), start=1):
        began = process_time()
        engine.apply(change)
        is_point = i * points // events > (i - 1) * points // events
        drained = engine.drain() if is_point or i % chosen.batch == 0 else None
        seconds += process_time() - began
        records += readers.take(drained) if drained else 0
        if is_point:
            if len(fresh) == len(over):
                fresh.append(loss_of_fresh(engine))
            over.append(round(readers.loss() / fresh[len(over)], 3))
    return {
        "over_fresh": over,
        "fresh": round(fresh[-1], 6),
        "records_per_event": round(records / events, 2),
        "engine_us_per_event": round(seconds / events * 1e6, 1),
    }


class Readers:
    """The published rows of an engine's table."""

    def __init__(self, table: Table, first: Drained) -> None:
        self._table, self._changelog = table, Changelog(table, 0)
        self.published = {number: after for number, _, after in first.published}

    def take(self, drained: Drained) -> int:
        """Applies a net effect; how many records it is."""
        records = 0
        for number, was, after in drained.published:
            records += len(self._changelog.diff(number, was, after)[0])
            self.published[number] = after
        return records

    def loss(self) -> float:
        """Mean NCP per row and attribute."""
        return loss(self._table, [group for group in self.published.values() if group is not None])


def first_groups(table: Table, rows: Sequence[Row]) -> list[Ints]:
    """The QI groups of the initial load."""
    return initial_groups(microdata_of(table, encoded(table, rows)), model_of(table), seed=0)


def encoded(table: Table, rows: Sequence[Row]) -> EncodedRows:
    return EncodedRows.of_rows({shapes.key_of_first(i): row for i, row in enumerate(rows)}, table.space.d)


def started(table: Table, rows: Sequence[Row], groups: list[Ints] | None = None) -> Engine:
    """An engine with these rows, in these QI groups or those of the initial load."""
    first, engine = encoded(table, rows), Engine(table)
    groups = first_groups(table, rows) if groups is None else groups
    engine.load_initial(first.source_keys, first.rows(), first.codes, groups)
    return engine


def loss(table: Table, groups: list[PublishedGroup]) -> float:
    """Mean NCP per row and attribute; 1 for rows that are withheld."""
    space, lo, hi = table.space, np.array([group.lo for group in groups]), np.array([group.hi for group in groups])
    rows = np.array([len(group.slots) for group in groups])
    lost = np.where(space.too_wide(lo, hi), space.d, space.width_loss(lo, hi))
    return float((lost * rows).sum() / rows.sum() / space.d)


def loss_of_fresh(engine: Engine) -> float:
    """The same of a fresh run on the rows of an engine."""
    numbers = [number for some in engine.regions(0, engine.n_rows) for number in some]
    rows, model = microdata_of(engine.table, engine.region(numbers).rows), model_of(engine.table)
    return ncp(rows, catalog.run(ORDERED, rows, model, LEAVING_OUT)) or 0.0


def prices(results: list[Result]) -> list[Result]:
    """For each way of local repair the loss at the worst point, over a fresh run, and in the mean records and time."""
    by_way: dict[str, list[Result]] = {}
    for one in results:
        by_way.setdefault(one["repair"], []).append(one)
    return [
        {
            "repair": way,
            "over_fresh_median": round(median(max(one["over_fresh"]) for one in of), 3),
            "over_fresh_worst": max(max(one["over_fresh"]) for one in of),
            "records_per_event": round(mean(one["records_per_event"] for one in of), 2),
            "engine_us_per_event": round(mean(one["engine_us_per_event"] for one in of), 1),
        }
        for way, of in by_way.items()
    ]


def show_prices(by_price: list[Result]) -> None:
    grid = RichTable(*by_price[0], title="by the price of local repair, over all tables and streams")
    for one in by_price:
        grid.add_row(*map(str, one.values()))
    Console(width=160).print(grid)


def said(result: Result) -> str:
    losses = " ".join(f"{over:.3f}" for over in result["over_fresh"])
    return f"{losses} x fresh, {result['records_per_event']} records, {result['engine_us_per_event']} us"


def show(results: list[Result]) -> None:
    grid = RichTable(title="loss over a fresh run, the worst first; * = the defaults were chosen by this table")
    for column in ("table", "rows", "stream", "model", "k", "repair", "at each point", "worst", "records", "us"):
        grid.add_column(column, justify="right")
    for one in sorted(results, key=lambda one: -max(one["over_fresh"])):
        star = " *" if one["table"] in shapes.LOOKED_AT else ""
        losses = " ".join(f"{over:.2f}" for over in one["over_fresh"])
        grid.add_row(
            f"{one['table']}{star}",
            f"{one['rows']:,}",
            *(str(one[name]) for name in ("stream", "model", "k", "repair")),
            losses,
            f"{max(one['over_fresh']):.3f}",
            f"{one['records_per_event']:.2f}",
            f"{one['engine_us_per_event']:.0f}",
        )
    Console(width=160).print(grid)


if __name__ == "__main__":
    main()
