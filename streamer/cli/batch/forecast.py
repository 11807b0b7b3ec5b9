"""`streamer forecast`: what a live table of these rows would cost: records, bytes, memory, time, shards, loss.

Every figure is measured on this machine, with as many of the rows as fit into a minute. What is foreseen from fewer
rows than there are says so. No value of a row is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any

import click
import numpy as np
import pandas as pd

from streamer.cli.support.options import command_named, json_option, reads_rows, rows_argument, table_option
from streamer.cli.support.progress import Stages, stages
from streamer.cli.support.skip_refused import refused_among, require_some_left
from streamer.cli.support.tables import Line, figure, plural, show
from streamer.errors import UsageError
from streamer.grouping import cohort_formation, first_groups
from streamer.incremental.events.key_form import default_form, shard_of
from streamer.incremental.forecast import (
    CHANGES_PER_BATCH,
    DELETE,
    INSERT,
    LEAST,
    MIX,
    MODIFY,
    MOST,
    Added,
    ChangeTally,
    Forecast,
    TriedShard,
    try_changes,
)
from streamer.incremental.topics import POSITIONS, SEALED, published_kinds
from streamer.native import library
from streamer.progress import OnProgress, part_of
from streamer.recoding.costs import cost_of_shards
from streamer.shown import Grid
from streamer.table import data_warnings
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedColumns, Encoder
from streamer.table.microdata import microdata_of_columns
from streamer.table.schema import NO_REPAIR, REPAIR, Table
from streamer.table.sources import RowSource
from streamer.table.yaml.loading import load_table

SHARD_ROWS_MAX = 20_000  # a shard of more rows is foreseen from two samples; the larger one has this many
LOSS_ROWS_MAX = 40_000  # the same, for the loss of a fresh table
SMALLER = 4  # times fewer rows in the smaller sample

SHARDS_MAX = 1024
MORE = 10  # times as many shards, whose loss is shown, too
HEADROOM = 2  # a shard is given half of the changes that it can take, so that it catches up after a pause

CHANGES_SEED = 1
MEGA = 1e6

ALONE, IN_BATCHES = "alone", "together"
NAMES = {INSERT: "insertions", DELETE: "deletions", MODIFY: "modifications"}
WHY_RANGES = (
    f"bytes are ranges: Kafka adds {LEAST.record} to {MOST.record} to each record, by its lengths, and Redis"
    f" {LEAST.entry} to {MOST.entry} to each entry, as it rounds up"
)
Range = dict[str, float]  # from `min` to `max`

WAYS: Mapping[str, Callable[[TriedShard], ChangeTally]] = {
    **{kind: partial(lambda kind, one: one.costs[kind], kind) for kind in MIX},
    ALONE: lambda one: one.alone,
    IN_BATCHES: lambda one: one.together,
}
"""The counts of the changes that were tried, by name."""


@command_named(
    "forecast",
    "streamer forecast --table mine mine/rows.csv",
    "streamer forecast --table mine mine/rows.csv --events-per-second 2000",
    "streamer forecast --table mine mine/rows.csv --shards 8 --json",
)
@table_option
@rows_argument
@click.option(
    "--events-per-second",
    "pace",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Changes of the whole table: says how many shards take them.",
)
@click.option(
    "--shards",
    type=click.IntRange(1, SHARDS_MAX),
    help="How many shards there are [default: as many as N events per second need, else 1].",
)
@json_option
@reads_rows("data")
def command(table: str, data: RowSource, pace: float | None, shards: int | None) -> None:
    """Says what a live table of these rows costs, before there is one: records and bytes per change, with local repair
    and without; memory in Redis and in a worker; how long a take-over lasts; how many shards N events per second need,
    and what these shards lose.

    It runs a shard in memory over changes that are made of the rows themselves: some of them wait and are inserted,
    some are deleted, some get another row's value in one column. If a shard has more than 20,000 rows, two samples
    are tried, and what they let expect is called foreseen. Time is that of this machine. Refused rows are left out and
    counted.
    """
    schema = load_table(table, needs_key=False)
    with stages() as progress:
        report = forecast(schema, data, pace, shards, progress)
    show(report, _lines(report))


def forecast(
    table: Table, source: RowSource, pace: float | None, shards: int | None, progress: Stages
) -> dict[str, Any]:
    """Tries the rows; returns the report as plain values."""
    with progress.stage("read"):
        frame = _with_key(table, source.rows(table.named))
    refused = refused_among(table, frame, progress)
    require_some_left(refused, len(frame))
    rows = data_warnings.without_refused(frame, refused)
    if len(rows) < 2:
        raise UsageError(f"{plural(len(rows), 'row')} found: a forecast needs two at least")
    with progress.stage("try") as on_progress:
        tried = _tried(table, rows, ceil(len(rows) / (shards or 1)), on_progress)
    of_one = Forecast(ceil(len(rows) / (shards or 1)), tried[str(table.repair)])
    capacity = 1e6 / max(1.0, of_one.of_each(WAYS[IN_BATCHES], lambda one: one.microseconds))
    needed = None if pace is None else ceil(pace * HEADROOM / capacity)
    chosen = shards or min(needed or 1, SHARDS_MAX, len(rows))
    size = ceil(len(rows) / chosen)
    by_repair = {repair: Forecast(size, some) for repair, some in tried.items()}
    used = by_repair[str(table.repair)]
    with progress.stage("shards") as on_progress:
        losses = _losses(table, rows, chosen, on_progress)
    return {
        "table": table.name,
        "rows": len(frame),
        "accepted": len(rows),
        "refused": data_warnings.by_reason(refused),
        "shards": chosen,
        "rows_of_a_shard": size,
        "rows_tried": [one.rows for one in used.tried],
        "foreseen": used.is_foreseen,
        "mix": MIX,
        "together": CHANGES_PER_BATCH,
        "changes": [_costs(table, repair, one) for repair, one in by_repair.items()],
        "input_bytes_of_a_change": _range(lambda added: used.of_change(lambda one: one.input_bytes) + added.record),
        **_kept(table, used, chosen),
        "events_per_second": {"of_a_shard": capacity, "wanted": pace, "shards": needed},
        "losses": losses,
        "warnings": list(_warnings(table, used)),
    }


def _range(figure: Callable[[Added], float]) -> Range:
    return {"min": figure(LEAST), "max": figure(MOST)}


def _by_topic(kinds: Iterable[str], figure: Callable[[str, Added], float]) -> dict[str, Range]:
    return {kind: _range(partial(figure, kind)) for kind in kinds}


def _with_key(table: Table, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows, numbered if the data has none of the key's columns."""
    if not set(table.source_key).isdisjoint(frame.columns):
        return frame
    numbers = [str(number) for number in range(1, len(frame) + 1)]
    return frame.assign(**{name: numbers for name in table.source_key})  # noqa: C420 - a column is no shared list


def _tried(table: Table, rows: pd.DataFrame, n: int, on_progress: OnProgress) -> dict[str, list[TriedShard]]:
    """A shard of n rows, or two smaller ones, by way of local repair: table.yaml's, then the other one."""
    sizes = [n] if n <= SHARD_ROWS_MAX else [SHARD_ROWS_MAX // SMALLER, SHARD_ROWS_MAX]
    form = None if table.sealed is None else cohort_formation(table)
    order, found = np.random.default_rng(CHANGES_SEED).permutation(len(rows)), dict[str, list[TriedShard]]()
    steps = [(way, size) for way in (table.repair, NO_REPAIR if table.repair else REPAIR) for size in sizes]
    for done, (way, size) in enumerate(steps):
        some = rows.iloc[np.sort(order[:size])]
        part = part_of(on_progress, done / len(steps), (done + 1) / len(steps))
        one = try_changes(replace(table, repair=way), some, first_groups, form, CHANGES_SEED, part)
        found.setdefault(str(way), []).append(one)
    return found


def _losses(table: Table, rows: pd.DataFrame, shards: int, on_progress: OnProgress) -> list[dict[str, Any]]:
    """The loss of a fresh table in one shard, in the chosen number of shards, and in ten times as many."""
    encoded = Encoder(table).columns(rows)
    whole, counts = microdata_of_columns(table, encoded), sorted({1, shards, MORE * shards})
    parts = [part_of(on_progress, done / len(counts), (done + 1) / len(counts)) for done in range(len(counts))]
    return [
        cost_of_shards(whole, _shards_of(table, encoded, count), count, part, LOSS_ROWS_MAX)
        for count, part in zip(counts, parts, strict=True)
    ]


def _shards_of(table: Table, rows: EncodedColumns, shards: int) -> Ints:
    """The shard of each row, int64 (n,), if producers write message keys as the default form does."""
    form = default_form(table.source_key or ("row",))
    keys = (form.written(source_key) for source_key in rows.source_keys.by_row())
    return np.array([shard_of(message_key or b"", shards) for message_key in keys], dtype=np.int64)


def _costs(table: Table, repair: str, shard: Forecast) -> dict[str, Any]:
    return {
        "repair": repair,
        "chosen": repair == str(table.repair),
        "ncp_of_sample": shard.tried[-1].ncp,
        **{name: _cost(table, shard, of) for name, of in WAYS.items()},
    }


def _cost(table: Table, shard: Forecast, of: Callable[[TriedShard], ChangeTally]) -> dict[str, Any]:
    kinds = published_kinds(table)
    return {
        "records": shard.of_each(of, lambda one: sum(map(one.records_of_each, kinds))),
        "bytes": _by_topic(
            (*kinds, POSITIONS), lambda kind, added: shard.of_each(of, lambda one: one.bytes_of_each(kind, added))
        ),
        "microseconds": shard.of_each(of, lambda one: one.microseconds),
    }


def _kept(table: Table, shard: Forecast, shards: int) -> dict[str, Any]:
    redis = _range(lambda added: shard.kept(lambda one: one.redis_bytes(added)))
    worker = shard.tried[-1].empty_bytes + shard.kept(lambda one: one.worker_bytes - one.empty_bytes)
    return {
        "first_bytes": _by_topic(
            published_kinds(table),
            lambda kind, added: shards * shard.kept(lambda one: one.first.bytes_on(kind, added)),
        ),
        "redis": {
            "bytes": {end: size * shards for end, size in redis.items()},
            "bytes_of_a_row": {end: size / shard.rows for end, size in redis.items()},
        },
        "worker": {"bytes_of_a_shard": worker, "bytes_of_a_row": worker / shard.rows},
        "takeover_seconds": shard.kept(lambda one: one.takeover_seconds),
    }


def _warnings(table: Table, shard: Forecast) -> Iterator[str]:
    last = shard.tried[-1]
    if not last.published:
        yield f"{plural(last.rows, 'row')} of a shard do not hold the model: nothing would be published"
    elif table.sealed is not None and not last.together.records[SEALED]:
        yield "no cohort was formed of the changes that were tried"
    if last.refused:
        yield f"{plural(last.refused, 'change')} of those that were tried became dead letters: figures are too low"
    if not library.ready():
        yield "there is no machine code here: times are some hundred times those of a worker"


def _lines(report: dict[str, Any]) -> Iterator[Line]:
    shards, rows, size = report["shards"], plural(report["accepted"], "row"), plural(report["rows_of_a_shard"], "row")
    yield f"table {report['table']}: {rows} in {plural(shards, 'shard')}" + (f" of about {size}" if shards > 1 else "")
    for line in report["refused"]:
        of = f", {line['column']}" if line["column"] else ""
        yield f"left out: {plural(line['rows'], 'refused row')} ({line['reason']}{of})"
    yield from (f"warning: {warning}" for warning in report["warnings"])
    if report["foreseen"]:
        samples = " and ".join(f"{n:,}" for n in report["rows_tried"])
        yield f"foreseen for a shard of {size} from samples of {samples}"
    of_kinds = ", ".join(f"{share} {NAMES[kind]}" for kind, share in report["mix"].items())
    repair = next(way["repair"] for way in report["changes"] if way["chosen"])
    yield f"records of a change in the mean, and MB per million changes (of a hundred: {of_kinds})"
    yield f"local repair is {repair} in table.yaml"
    yield _changes(report)
    yield _facts(report)
    yield WHY_RANGES
    yield "what shards lose (NCP of a fresh table; 0: exact values, 1: nothing left)"
    yield _losses_grid(report["losses"])
    yield "choose the number of shards by events per second, not by rows: with fewer people in each, boxes are wider"


def _changes(report: dict[str, Any]) -> Grid:
    topics = list(report["changes"][0][ALONE]["bytes"])
    said = {**NAMES, ALONE: "one by one", IN_BATCHES: f"{report['together']} together"}
    grid = Grid("repair", "changes", "records", *(f"MB on {topic}" for topic in topics))
    for way in report["changes"]:
        for name, text in said.items():
            cost = way[name]
            grid.add_row(way["repair"], text, f"{cost['records']:.2f}", *map(_between, cost["bytes"].values()))
    return grid


def _facts(report: dict[str, Any]) -> dict[str, object]:
    redis, worker, pace = report["redis"], report["worker"], report["events_per_second"]
    first = ", ".join(f"{_between(sizes, _megabytes)} on {kind}" for kind, sizes in report["first_bytes"].items())
    facts: dict[str, object] = {
        "input": f"{_between(report['input_bytes_of_a_change'])} MB per million changes, as `produce` writes them",
        "first table": first,
        "Redis": f"{_between(redis['bytes'], _megabytes)}, {_between(redis['bytes_of_a_row'])} bytes per row",
        "worker": f"{_megabytes(worker['bytes_of_a_shard'])} for a shard, beside the process",
        "take-over": f"{report['takeover_seconds']:.2f} s of a processor, and the time to read from Redis",
    }
    for one in report["changes"]:
        alone, together = (one[name]["microseconds"] for name in (ALONE, IN_BATCHES))
        said = f"{alone:,.0f} µs of a processor by itself, {together:,.0f} µs in a batch"
        facts[f"a change, repair {one['repair']}"] = said
    facts["a shard takes"] = f"{pace['of_a_shard']:,.0f} events/s here, without waiting for servers"
    if pace["shards"] is not None:
        facts["shards needed"] = f"{pace['shards']:,} for {pace['wanted']:,g} events/s, to be half busy"
    return facts


def _between(sizes: Range, said: Callable[[float], str] = "{:,.0f}".format) -> str:
    """A range as people say it; of one number if both ends are said alike."""
    return " to ".join(dict.fromkeys(map(said, sizes.values())))


def _megabytes(size: float) -> str:
    return f"{size / MEGA:,.0f} MB" if size >= 10 * MEGA else f"{size / MEGA:.2g} MB"


def _losses_grid(losses: list[dict[str, Any]]) -> Grid:
    grid, of_one = Grid("shards", "rows of each", "NCP", "over one shard", "rows that wait"), losses[0]["ncp"]
    for line in losses:
        sizes, loss = line["rows"], line["ncp"]
        text = f"{figure(loss)}{' foreseen' * line['foreseen']}"
        over = f"{loss / of_one:.2f} x" if loss is not None and of_one else "-"
        each = f"{sizes['min']:,} to {sizes['max']:,}"
        grid.add_row(f"{line['shards']:,}", each, text, over, f"{line['waiting']['rows']:,}")
    return grid
