"""`streamer replay`: runs the engine over files or stdin, without a server."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
import pandas as pd

from streamer.cli.support.next_call import say_next
from streamer.cli.support.options import command_named, json_option, table_option
from streamer.cli.support.outputs import OutputPath, force_option, require_writable
from streamer.cli.support.progress import Stages, is_hidden, stages
from streamer.cli.support.tables import as_json, named, say, show
from streamer.grouping import cohort_formation, first_groups
from streamer.incremental.message_files import count_lines, read_messages
from streamer.incremental.replay import LIVE_FILE, NAME, ReplayReport, replay_files, replayed_files, secret_of_seed
from streamer.table.arrays import Ints
from streamer.table.encode import EncodedRows
from streamer.table.files import STDIN
from streamer.table.schema import Table
from streamer.table.sources import read_rows
from streamer.table.yaml.loading import load_table


@command_named("replay", "streamer replay --table mine events.jsonl --initial rows.csv --out replayed")
@table_option
@click.argument("events", metavar="EVENTS.jsonl")
@click.option(
    "--initial", metavar="ROWS.csv|ROWS.parquet", help="The table before the first event; published as release 0."
)
@click.option("--batch", type=click.IntRange(min=1), help="Events per release [default: limits.batch_events_max].")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Fixes all chance: the same events and N give the same files anywhere [default: the secret of DIR].",
)
@click.option("--out", metavar="DIR", type=OutputPath(folder=True), help="Where to write the changelog and the table.")
@force_option
@json_option
def command(
    table: str, events: str, initial: str | None, batch: int | None, seed: int | None, out: Path | None, force: bool
) -> None:
    """Replays EVENTS.jsonl ("-": stdin) through the engine and writes what would have been published.

    DIR/live.jsonl holds the changelog, DIR/table.csv the anonymous table at the end, DIR/dead-letters.jsonl what was
    refused and why. If table.yaml has `publish: {sealed: ...}`, DIR/sealed.jsonl holds the sealed changelog, and
    DIR/sealed.csv its table at the end. Two files are private: DIR/index.csv has the QI group of each source row,
    DIR/secret.txt the secret that breaks ties; another replay into the same DIR uses it again, and `verify --events`
    needs it.

    `rebuild` in table.yaml is ignored.
    """
    schema = load_table(table)
    if out is not None:
        written = [path for path in replayed_files(schema, out) if path.name != NAME]  # a secret is used again
        require_writable(written, force, map(Path, filter(None, (events, initial))))
    with stages() as progress:
        initially = None if initial is None else Initially(initial, progress, schema)
        total = None if is_hidden() or not Path(events).is_file() else count_lines(events)
        with progress.stage("replay"):
            rows, groups = (None, first_groups) if initially is None else (initially.rows, initially.groups)
            form, secret = cohort_formation(schema), None if seed is None else secret_of_seed(seed)
            given = schema, read_messages(events), rows, groups, batch, out
            steps = replay_files(*given, progress.next, form=form, secret=secret)
            report = _followed(steps, total, progress)
    for warning in () if as_json() else report.warnings:
        say(warning, err=True)
    unlisted = ", ".join(f"{column} {count:,}" for column, count in report.unlisted.items()) or 0
    counts = {name: fact for name, fact in report.as_dict().items() if name != "warnings"}
    facts = named(counts | {"unlisted": unlisted})
    show(report.as_dict(), [facts | ({} if out is None else {"written to": out})])
    if out is not None and events != STDIN and (out / LIVE_FILE).exists():
        first = [] if initial is None else ["--initial", initial]
        say_next(["verify", "--table", table, str(out / LIVE_FILE), "--events", events, *first])


class Initially:
    """The table before the first event: read and put into QI groups, with progress, when the replay asks for it."""

    def __init__(self, path: str, progress: Stages, table: Table) -> None:
        self._path, self._progress, self._table = path, progress, table

    def rows(self) -> pd.DataFrame:
        self._progress.next("read")
        return read_rows(self._path, wanted=self._table.named)

    def groups(self, table: Table, rows: EncodedRows, seed: int) -> list[Ints]:
        return first_groups(table, rows, seed, self._progress.next("anonymize"))


def _followed(steps: Iterable[int | ReplayReport], total: int | None, progress: Stages) -> ReplayReport:
    """The report at the end; until then shows the fraction replayed, if the total is known."""
    done, on_progress = 0, None
    for step in steps:
        if isinstance(step, ReplayReport):
            return step
        on_progress, done = on_progress or progress.next("replay"), done + step
        if total:
            on_progress(min(1.0, done / total))
    raise RuntimeError("a replay ends with its report")
