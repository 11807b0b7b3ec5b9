"""`streamer subscribe`: the published table, on the screen, as CSV, or as the changelog that it is."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
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
from streamer.incremental.estimate import Answer, Query
from streamer.incremental.release.fold import Release
from streamer.incremental.subscribe import Subscription
from streamer.table.files import atomic_writers, table_files, write_rows
from streamer.table.published import QI_GROUP
from streamer.table.published_group import COUNT
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
@click.option("--query", metavar="CONDITION", help="Estimate how many rows match, instead of printing the table.")
@json_option
def command(
    table: str, kafka: str, once: bool, csv: Path | None, live: Path | None, query: str | None, as_json: bool
) -> None:
    """Reads the published table from Kafka and prints it; with --follow, a line for every further release.

    What is shown is k-anonymous at every moment: each shard as of its last complete release. FILE.jsonl holds the
    records as they stand in the topic, in order per shard; where the topic has been compacted, `verify` cannot judge
    them. With --follow, the CSV file is replaced whenever the table has changed.

    CONDITION is like "age = 30 and problem = 'flu'". Its answer is an estimate, with the least and the most that the
    truth can be: which rows of a QI group match, nobody can tell from what is published. Where the table is a lossy
    join (publish.live.form), FILE becomes FILE-qit and FILE-stt.
    """
    schema = load_table(table)
    asked = None if query is None else Query(schema, query)
    with ExitStack() as files, Subscription(schema, kafka) as subscription:
        log = None if live is None else files.enter_context(_opened(live))
        while not subscription.caught_up:
            _write_live(log, subscription.poll())
        frames = subscription.frames()
        _write_csv(csv, frames)
        _print_tables(frames, as_json) if asked is None else _print_answer(asked.answer(frames), as_json)
        while not once:
            releases = subscription.poll()
            _write_live(log, releases)
            if asked is None:
                _print_releases(releases, as_json)
            if releases:
                frames = subscription.frames()
                _write_csv(csv, frames)
                if asked is not None:
                    _print_answer(asked.answer(frames), as_json)


def _opened(path: Path) -> IO[bytes]:
    try:
        return open(path, "wb")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def _write_live(log: IO[bytes] | None, releases: Iterable[Release]) -> None:
    if log is None:
        return
    for release in releases:
        announced = b'"outside":true,' if release.outside else b""
        where = release.shard, release.number, release.through, announced
        start = b'{"shard":%d,"release":%d,"through":%d,%b"key":' % where
        log.writelines(b'%b%b,"value":%b}\n' % (start, key, value or b"null") for key, value in release.records)
    log.flush()


def _write_csv(path: Path | None, frames: Mapping[str, pd.DataFrame]) -> None:
    if path is None:
        return
    with atomic_writers(table_files(path, list(frames)), text=True) as files:
        for frame, file in zip(frames.values(), files, strict=True):
            write_rows(frame, file)


def _print_tables(frames: Mapping[str, pd.DataFrame], as_json: bool) -> None:
    if as_json:
        click.echo(_ENCODE({"rows": _rows(frames), "qi_groups": _qi_groups(frames), **_as_lists(frames)}))
        return
    for name, frame in frames.items():
        _print_table(frame, name if len(frames) > 1 else "")


def _as_lists(frames: Mapping[str, pd.DataFrame]) -> dict[str, list[dict[Hashable, object]]]:
    """Rows as objects, under `table` where there is one frame, else under the frames' names."""
    lists = {name: frame.to_dict(orient="records") for name, frame in frames.items()}
    return {"table": next(iter(lists.values()))} if len(lists) == 1 else lists


def _rows(frames: Mapping[str, pd.DataFrame]) -> int:
    """People's rows: those of a frame that counts them are the sum of what it counts."""
    frame = list(frames.values())[-1]
    return int(frame[COUNT].sum()) if str(frame.dtypes.get(COUNT)) == "int64" else len(frame)


def _qi_groups(frames: Mapping[str, pd.DataFrame]) -> int:
    return int(list(frames.values())[-1][QI_GROUP].nunique())


def _print_table(frame: pd.DataFrame, name: str) -> None:
    frames = {name: frame}
    caption = f"{_rows(frames)} rows in {_qi_groups(frames)} QI groups"
    if len(frame) > ROWS_SHOWN_MAX:
        caption += f"; the first {ROWS_SHOWN_MAX} are shown"
    grid = Grid(*map(str, frame.columns), title=name or None, caption=caption)
    for row in frame.head(ROWS_SHOWN_MAX).itertuples(index=False):
        grid.add_row(*("" if value is None else str(value) for value in row))
    Console().print(grid)


def _print_answer(answer: Answer, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(answer._asdict()))
        return
    about = f"about {answer.estimate:,.2f} of {answer.rows:,} rows"
    click.echo(f"{about}; at least {answer.at_least:,}, at most {answer.at_most:,}")


def _print_releases(releases: Iterable[Release], as_json: bool) -> None:
    for release in releases:
        names = ("shard", "release", "through", "records")
        line = dict(zip(names, (*release[:3], len(release.records)), strict=True))
        click.echo(msgspec.json.encode(line) if as_json else "  ".join(f"{k} {v}" for k, v in line.items()))
