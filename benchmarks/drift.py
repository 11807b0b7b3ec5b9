"""How far the incremental table drifts from a fresh one, what that publishes, and what an event costs.

Adult, 15,000 rows at first, then 75,000 changes (40 % inserts, 30 % deletes, 30 % modifies of one attribute), without
any rebuild, each change a batch of its own. Along the way, at every point: the information loss (NCP) of the
incremental table over that of fresh runs on the same rows, of `ordered`, the default algorithm, and of Median Mondrian;
and the records that were published per change since the point before. Once without local repair, and once for every
price (`engine: {repair: ...}`) that is asked for. At every point a worker's default trigger (`rebuild: {drift: 1.2}`)
is asked as well; where it is due somewhere, the same course is run once more with the rebuilds that it begins, and what
these publish is reported beside what the changes publish. `--plot` draws loss and records along the changes, as SVG.
`--model` takes the census with occupation as the sensitive column, and tables that ask for more than k; fresh runs ask
for the same.

    python benchmarks/drift.py [--events 75000] [--points 5] [--repair PRICE ...] [--model NAME ...] [--plot FILE]
        [--quick] [--json]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from rich.console import Console
from rich.table import Table as RichTable

import adult
import ready
from streamer.incremental.engine.engine import Engine
from streamer.incremental.engine.net_effect import Drained
from streamer.incremental.engine.stored_state import SimilarityList
from streamer.incremental.release.changelog import Changelog
from streamer.incremental.release.records import PublishedGroup
from streamer.privacy.models import model_of
from streamer.recoding.algorithms import catalog
from streamer.recoding.algorithms.catalog import initial_groups
from streamer.recoding.algorithms.mondrian import MONDRIAN
from streamer.recoding.algorithms.ordered import ORDERED
from streamer.recoding.metrics.utility import ncp
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.microdata import microdata_of
from streamer.table.row import Row
from streamer.table.schema import REPAIR, Table
from worker_rebuilds import Trigger

Result = dict[str, Any]

ROWS_AT_FIRST = 15_000
PLAIN = "adult"
MODELS = [name for asked in adult.MODELS_ASKED.values() for name in asked]


def main() -> None:
    options = ready.options(__doc__, "a tenth of the events, one setting, two points")
    options.add_argument("--events", type=int, default=75_000)
    options.add_argument("--points", type=int, default=5)
    options.add_argument("--repair", type=float, nargs="*", default=[float(REPAIR)], metavar="PRICE")
    options.add_argument("--k", type=int, nargs="+", default=[5, 10])
    options.add_argument("--grid", type=int, nargs="+", default=[1, 5])
    options.add_argument("--model", nargs="+", default=[PLAIN], choices=[PLAIN, *MODELS], metavar="NAME")
    options.add_argument("--plot", type=Path, metavar="FILE", help="draw loss and records along the changes, as SVG")
    chosen = options.parse_args()
    ready.compiled()
    grids = [1] if chosen.quick else chosen.grid
    settings = [
        (k, grid, model)
        for model in chosen.model
        for grid in (grids if model == PLAIN else [1])
        for k in ([5] if chosen.quick else chosen.k)
    ]
    events, points = (chosen.events // 10, 2) if chosen.quick else (chosen.events, chosen.points)
    results = []
    for k, grid, model in settings:
        result = run(k, grid, model, events, points, [0.0, *chosen.repair])
        results.append(result)
        if not chosen.json:
            show(result)
    if chosen.plot:
        chosen.plot.write_bytes(drawn(results))
    print(json.dumps({"benchmark": "drift", "events": events, "results": results}))


def run(k: int, grid: int, model: str, events: int, points: int, prices: list[float]) -> Result:
    """One setting: for every price what drifts, and what an event costs in batches of 1 and of 500."""
    fresh: list[dict[str, float]] = []
    people = adult.microdata(k, grid) if model == PLAIN else adult.asking(k, 2 * ROWS_AT_FIRST, model)
    pool = adult.rows_of(people)
    groups = first_groups(people.table, pool)
    courses = [
        {
            **course(table, pool, groups, events, points, fresh),
            "engine_us_per_event_batch_1": round(engine_time(table, pool, groups, events, 1), 1),
            "engine_us_per_event_batch_500": round(engine_time(table, pool, groups, events, 500), 1),
        }
        for table in (replace(people.table, repair=price) for price in prices)
    ]
    for one in courses:
        if any(point["due"] for point in one["along"]):
            table = replace(people.table, repair=one["repair"])
            one["triggered"] = course(table, pool, groups, events, points, fresh, rebuilds=True)
    return {"k": k, "grid": grid, "model": model, "fresh": fresh, "courses": courses}


def course(
    table: Table,
    pool: list[Row],
    groups: list[Ints],
    events: int,
    points: int,
    fresh: list[dict[str, float]],
    rebuilds: bool = False,
) -> Result:
    """The table along the changes; at a point that no course has come to before, fresh runs are added to `fresh`.

    rebuilds: whether those are done that the default trigger begins; points are what readers see before.
    """
    engine, readers = started(table, pool, groups)
    trigger, records, before, again = Trigger(), 0, 0, 0
    along: list[dict[str, Any]] = []
    for i in changes(engine, pool, events):
        records += readers.take(engine.drain())
        if (i + 1) * points // events > i * points // events:
            if len(fresh) == len(along):
                fresh.append({"events": i + 1, "rows": engine.n_rows, **losses_of_fresh(table, engine)})
            now_lost = readers.loss()
            along.append(
                {
                    "ncp": round(now_lost, 5),
                    "over_ordered": round(now_lost / fresh[len(along)]["ordered"], 3),
                    "over_mondrian": round(now_lost / fresh[len(along)]["mondrian"], 3),
                    "records_per_event": round((records - before) / (events / points), 2),
                    "due": trigger.is_due(engine),
                }
            )
            before = records
            if rebuilds and along[-1]["due"]:
                again += sum(map(readers.take, trigger.rebuilt(engine)))
    return {
        "repair": table.repair,
        "qi_groups": engine.n_qi_groups,
        "records_per_event": round(records / events, 3),
        "similarity_writes_per_event": round(readers.writes / events, 3),
        "drift_told_most": round(max(trigger.told), 3),
        "rebuilds": trigger.rebuilds,
        "rebuilds_over_changes": round(again / records, 4),
        "along": along,
    }


class Readers:
    """What is published of an engine's table and stands in its similarity lists; writes: of these, into Redis."""

    def __init__(self, table: Table, first: Drained) -> None:
        self.writes = 0
        self._table, self._changelog = table, Changelog(table, 0)
        self.published = {number: after for number, _, after in first.published}
        self._lists = {number: now for number, now in first.similarity.items() if now is not None}

    def take(self, drained: Drained) -> int:
        """Applies a net effect; how many records it is."""
        records = 0
        for number, was, after in drained.published:
            records += len(self._changelog.diff(number, was, after)[0])
            self.published[number] = after
        for number, now in drained.similarity.items():
            self.writes += written(self._lists.pop(number, None), now)
            if now is not None:
                self._lists[number] = now
        return records

    def loss(self) -> float:
        """Mean NCP per row and attribute."""
        return loss(self._table, [group for group in self.published.values() if group is not None])


def first_rows(table: Table, pool: list[Row]) -> EncodedRows:
    """The rows that are there at first."""
    return EncodedRows.of_rows({f"old-{i}": row for i, row in enumerate(pool[:ROWS_AT_FIRST])}, table.space.d)


def first_groups(table: Table, pool: list[Row]) -> list[Ints]:
    """The QI groups of the initial load."""
    return initial_groups(microdata_of(table, first_rows(table, pool)), model_of(table), seed=0)


def started(table: Table, pool: list[Row], groups: list[Ints] | None = None) -> tuple[Engine, Readers]:
    """An engine with the first rows in these QI groups, those of the initial load; what it has published."""
    rows, engine = first_rows(table, pool), Engine(table)
    groups = first_groups(table, pool) if groups is None else groups
    engine.load_initial(rows.source_keys, rows.rows(), rows.codes, groups)
    return engine, Readers(table, engine.drain())


def written(was: SimilarityList | None, now: SimilarityList | None) -> int:
    """Entries that Redis has to write to turn one list into the other; a list that goes counts as one."""
    if now is None:
        return 1
    old, new = dict(was.neighbours) if was else {}, dict(now.neighbours)
    floor_moved = was is None or was.floor != now.floor
    return floor_moved + sum(old.get(n) != score for n, score in new.items()) + len(old.keys() - new.keys())


def changes(engine: Engine, pool: list[Row], events: int) -> Iterator[int]:
    for i, change in enumerate(adult.mixed_changes(pool, [f"old-{n}" for n in range(ROWS_AT_FIRST)], events, seed=1)):
        engine.apply(change)
        yield i


def engine_time(table: Table, pool: list[Row], groups: list[Ints], events: int, batch: int) -> float:
    """Microseconds per event to apply and drain, without encoding and without I/O."""
    engine, *_ = started(table, pool, groups)
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


def losses_of_fresh(table: Table, engine: Engine) -> dict[str, float]:
    """The same of whole-table algorithms on the same rows."""
    numbers = [number for some in engine.regions(0, engine.n_rows) for number in some]
    rows, model = microdata_of(table, engine.region(numbers).rows), model_of(table)
    return {
        algorithm.name: round(ncp(rows, catalog.run(algorithm, rows, model)), 5) for algorithm in (ORDERED, MONDRIAN)
    }


FIGURES = {"over_ordered": "NCP over that of a fresh run", "records_per_event": "records published per change"}
"""What is drawn of every setting, side by side."""


def drawn(results: list[Result]) -> bytes:
    """The courses of every setting, as SVG."""
    sys.path.append(str(Path(__file__).parents[1]))
    from benchmarks.papers.figures import Curve, Panel
    from benchmarks.papers.plots import svg_of

    return svg_of(
        [
            Panel(
                titled(result),
                "changes",
                tuple(at["events"] for at in result["fresh"]),
                y_label,
                tuple(Curve(named(one), tuple(point[figure] for point in one["along"])) for one in result["courses"]),
            )
            for result in results
            for figure, y_label in FIGURES.items()
        ]
    )


def titled(result: Result) -> str:
    asked = "" if result["model"] == PLAIN else f", {result['model'].replace('_', ' ')}"
    return f"k = {result['k']}, age in steps of {result['grid']}{asked}"


def named(course: Result) -> str:
    return f"repair {course['repair']:g}" if course["repair"] else "no repair"


def show(result: Result) -> None:
    courses = result["courses"]
    grid = RichTable(title=f"Adult, {titled(result)}")
    grid.add_column("changes", justify="right")
    for one in courses:
        for figure in ("NCP over ordered", "over mondrian", "records per change"):
            grid.add_column(f"{named(one)}: {figure}", justify="right")
    for i, at in enumerate(result["fresh"]):
        cells = [f"{at['events']:,}"]
        for one in courses:
            point = one["along"][i]
            cells += [
                f"{point['over_ordered']:.3f}",
                f"{point['over_mondrian']:.3f}",
                f"{point['records_per_event']:.2f}",
            ]
        grid.add_row(*cells)
    for figure in ("records_per_event", "engine_us_per_event_batch_1", "engine_us_per_event_batch_500"):
        grid.add_row(figure.replace("_", " "), *(text for one in courses for text in ("", "", str(one[figure]))))
    Console(width=160).print(grid)
    for one in courses:
        Console(width=160).print(f"{named(one)}, default trigger: {triggered(one)}")


def triggered(course: Result) -> str:
    """What the default trigger did, in words."""
    if "triggered" not in course:
        return f"drift told at most {course['drift_told_most']}, no rebuild, 0 % of what the changes publish"
    found = course["triggered"]
    losses = ", ".join(str(point["over_ordered"]) for point in found["along"])
    return (
        f"{found['rebuilds']} rebuilds publish {found['rebuilds_over_changes']:.1%} of what the changes publish; "
        f"NCP over ordered at the points, before a rebuild: {losses}"
    )


if __name__ == "__main__":
    main()
