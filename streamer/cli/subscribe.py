"""`streamer subscribe`: the published table, on the screen, as CSV, or as the changelog that it is."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import click
import msgspec
import pandas as pd
from rich.console import Console
from rich.table import Table as Grid

from streamer.cli.options import json_option, kafka_option, table_option
from streamer.errors import UsageError
from streamer.incremental.release.fold import Release
from streamer.incremental.subscribe import Subscription
from streamer.table.files import atomic_writer, write_rows
from streamer.table.yaml_loading import load_table

ROWS_SHOWN_MAX = 20

_ENCODE = msgspec.json.Encoder(decimal_format="number").encode


@click.command(name="subscribe")
@table_option
@kafka_option
@click.option("--once/--follow", default=True, help="Stop at the present end, or go on.  [default: once]")
@click.option("--csv", metavar="FILE", type=click.Path(path_type=Path), help="Write the table there.")
@click.option(
    "--live", metavar="FILE.jsonl", type=click.Path(path_type=Path), help="Write the changelog there, for `verify`."
)
@json_option
def command(table: str, kafka: str, once: bool, csv: Path | None, live: Path | None, as_json: bool) -> None:
    """Reads the published table from Kafka and prints it; with --follow, a line for every further release.

    What is shown is k-anonymous at every moment: each shard as of its last complete release. FILE.jsonl holds the
    records as they stand in the topic, in order per shard; where the topic has been compacted, `verify` cannot judge
    them. With --follow, the CSV file is replaced whenever the table has changed.
    """
    with ExitStack() as files, Subscription(load_table(table), kafka) as subscription:
        log = None if live is None else files.enter_context(_opened(live))
        while not subscription.caught_up:
            _write_live(log, subscription.poll())
        frame = subscription.frame()
        _write_csv(csv, frame)
        _print_table(frame, as_json)
        while not once:
            releases = subscription.poll()
            _write_live(log, releases)
            _print_releases(releases, as_json)
            if releases:
                _write_csv(csv, subscription.frame())


def _opened(path: Path) -> IO[bytes]:
    try:
        return open(path, "wb")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def _write_live(log: IO[bytes] | None, releases: Iterable[Release]) -> None:
    if log is None:
        return
    for release in releases:
        start = b'{"shard":%d,"release":%d,"through":%d,"key":' % (release.shard, release.number, release.through)
        log.writelines(b'%b%b,"value":%b}\n' % (start, key, value or b"null") for key, value in release.records)
    log.flush()


def _write_csv(path: Path | None, frame: pd.DataFrame) -> None:
    if path is not None:
        with atomic_writer(path, text=True) as file:
            write_rows(frame, file)


def _print_table(frame: pd.DataFrame, as_json: bool) -> None:
    n_qi_groups = int(frame["qi_group"].nunique())
    if as_json:
        rows = frame.to_dict(orient="records")
        click.echo(_ENCODE({"rows": len(frame), "qi_groups": n_qi_groups, "table": rows}))
        return
    caption = f"{len(frame)} rows in {n_qi_groups} QI groups"
    if len(frame) > ROWS_SHOWN_MAX:
        caption += f"; the first {ROWS_SHOWN_MAX} are shown"
    grid = Grid(*map(str, frame.columns), caption=caption)
    for row in frame.head(ROWS_SHOWN_MAX).itertuples(index=False):
        grid.add_row(*("" if value is None else str(value) for value in row))
    Console().print(grid)


def _print_releases(releases: Iterable[Release], as_json: bool) -> None:
    for release in releases:
        names = ("shard", "release", "through", "records")
        line = dict(zip(names, (*release[:3], len(release.records)), strict=True))
        click.echo(msgspec.json.encode(line) if as_json else "  ".join(f"{k} {v}" for k, v in line.items()))
