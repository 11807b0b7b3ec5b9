"""`streamer replay`: the engine over files or stdin, with no server at all."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from streamer.cli.background import warm_in_background
from streamer.cli.first_groups import first_groups
from streamer.cli.options import examples, json_option, table_option
from streamer.incremental.message_files import read_messages
from streamer.incremental.replay import ReplayReport, replay_files
from streamer.table.files import read_rows
from streamer.table.yaml_loading import load_table


@click.command(
    name="replay", epilog=examples("streamer replay --table mine events.jsonl --initial rows.csv --out replayed")
)
@table_option
@click.argument("events", metavar="EVENTS.jsonl")
@click.option("--initial", metavar="ROWS.csv", help="The table to start with; published as release 0.")
@click.option("--batch", type=click.IntRange(min=1), help="Events per release [default: limits.batch_events_max].")
@click.option(
    "--out", metavar="DIR", type=click.Path(path_type=Path), help="Where to write the changelog and the table."
)
@json_option
def command(table: str, events: str, initial: str | None, batch: int | None, out: Path | None, as_json: bool) -> None:
    """Replays EVENTS.jsonl ("-": stdin) through the engine and writes what would have been published.

    DIR/live.jsonl holds the changelog, DIR/table.csv the anonymous table at the end, DIR/dead-letters.jsonl what was
    refused and why, DIR/index.csv (private) which source row is in which QI group, DIR/secret.txt (private) by what
    chance: a replay into the same DIR draws the same lots again, and `verify --events` needs it.

    What table.yaml says of rebuilds is left aside: a file has no clock, and no worker looks for drift.
    """
    schema = load_table(table)
    warm_in_background(schema)
    rows = None if initial is None else partial(read_rows, initial)
    steps = replay_files(schema, read_messages(events), rows, first_groups, batch, out)
    report = _with_progress(steps, None if as_json or not sys.stderr.isatty() else _count_lines(events))
    if as_json:
        click.echo(msgspec.json.encode(report.as_dict()))
        return
    for name, value in report.as_dict().items():
        click.echo(f"{name.replace('_', ' '):>14}  {value}")
    if out is not None:
        click.echo(f"{'written to':>14}  {out}")


def _with_progress(steps, total: int | None) -> ReplayReport:  # type: ignore[no-untyped-def]
    columns = (TextColumn("replay"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=total is None) as progress:
        task = progress.add_task("replay", total=total)
        for step in steps:
            if isinstance(step, ReplayReport):
                return step
            progress.advance(task, step)
    raise RuntimeError("a replay ends with its report")


def _count_lines(events: str) -> int | None:
    if events == "-":
        return None
    with open(events, "rb") as file:
        return sum(1 for line in file if line.strip())
