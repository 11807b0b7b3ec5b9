"""`streamer subscribe`: the published table, on the screen, in files or a database, or as the changelog that it is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import click
import msgspec
import pandas as pd
from pandas.api.types import is_numeric_dtype
from rich.table import Table as Grid

from streamer.cli.copies import COPIES, Changed, Frames, looked_up
from streamer.cli.options import examples, json_option, kafka_option, table_option
from streamer.cli.progress import stages
from streamer.cli.tables import interval, print_table, say, so_many
from streamer.errors import UsageError
from streamer.incremental.estimate import Answer, Query
from streamer.incremental.reader import Subscription
from streamer.incremental.release.fold import Release
from streamer.progress import OnProgress
from streamer.table.published import QI_GROUP
from streamer.table.published_group import COUNT
from streamer.table.schema import Table
from streamer.table.typed_frame import with_iso_texts
from streamer.table.yaml_loading import load_table

ROWS_SHOWN_MAX = 20


def _file(name: str, metavar: str, text: str) -> Callable[[Any], Any]:
    return click.option(name, metavar=metavar, type=click.Path(path_type=Path), help=text)


_ENCODE = msgspec.json.Encoder(decimal_format="number").encode


@click.command(
    name="subscribe",
    epilog=examples(
        "streamer subscribe --table mine --follow --csv published.csv",
        "streamer subscribe --table mine --live live.jsonl",
        "streamer subscribe --table mine --query \"age = 30 and problem = 'flu'\"",
    ),
)
@table_option
@kafka_option
@click.option("--once/--follow", default=True, help="Stop at the present end, or go on.  [default: once]")
@_file("--csv", "FILE", "Write the table there.")
@_file("--parquet", "FILE.parquet|DIR", "Write the table there; to a folder: every change, in files by day.")
@_file("--duckdb", "FILE", "Keep a table of this DuckDB database current.")
@_file("--live", "FILE.jsonl", "Write the changelog there, for `verify`.")
@click.option("--sql", metavar="QUERY", help="Print what DuckDB answers about the table, instead of the table.")
@click.option("--query", metavar="CONDITION", help="Estimate how many rows match, instead of printing the table.")
@json_option
def command(
    table: str,
    kafka: str,
    once: bool,
    live: Path | None,
    sql: str | None,
    query: str | None,
    as_json: bool,
    **copies: Path | None,
) -> None:
    """Reads the published table from Kafka and prints it; with --follow, a line for every further release.

    What is shown is k-anonymous at every moment: each shard as of its last complete release. FILE.jsonl holds the
    records as they stand in the topic, in order per shard; where the topic has been compacted, `verify` cannot judge
    them. With --follow, files are replaced whenever the table has changed, and a database follows it in transactions.
    DIR/ gets a file of changes for every look that found some (`op`: upsert, removal; start: what was before is void).

    QUERY is DuckDB's SQL over the table's name, or over <table>_qit and <table>_stt:
    --sql 'SELECT problem, count(*) FROM patients GROUP BY 1'.

    CONDITION is like "age = 30 and problem = 'flu'". Its answer is an estimate, with the least and the most that the
    truth can be: which rows of a QI group match, nobody can tell from what is published. Where the table is a lossy
    join (publish.live.form), FILE becomes FILE-qit and FILE-stt.
    """
    schema = load_table(table)
    look = _look(schema, sql, query)
    with ExitStack() as files, Subscription(schema, kafka) as subscription:
        log = None if live is None else files.enter_context(_opened(live))
        kept = [COPIES[name](schema, path) for name, path in copies.items() if path is not None]
        for copy in kept:
            files.callback(copy.close)
        with stages(as_json) as progress:
            with progress.stage("read") as on_progress:
                past = _caught_up(subscription, log, on_progress)
            with progress.stage("write"):
                frames = subscription.recorded_frames()
                for copy in kept:
                    copy.begin(frames, past)
        look(frames, as_json)
        while not once:
            releases = subscription.poll()
            _write_live(log, releases)
            if look is _print_tables:
                _print_releases(releases, as_json)
            if releases:
                changed = Changed(schema, releases, subscription.recorded_frames)
                for copy in kept:
                    copy.change(changed)
                if look is not _print_tables:
                    look(subscription.recorded_frames(), as_json)


def _caught_up(subscription: Subscription, log: IO[bytes] | None, on_progress: OnProgress) -> list[Release]:
    """Reads up to the end that there was at the start; the last release of every shard."""
    past: list[Release] = []
    while not subscription.caught_up:
        past += (last := subscription.poll())
        _write_live(log, last)
        past = list({release.shard: release for release in past}.values())
        on_progress(subscription.share_read)
    return past


def _look(schema: Table, sql: str | None, query: str | None) -> Callable[[Frames, bool], None]:
    """What is printed of the table whenever it has changed. Raises UsageError."""
    if sql is not None and query is not None:
        raise UsageError("--sql and --query: which one is meant?")
    if sql is not None:
        return lambda frames, as_json: _print_found(looked_up(schema, frames, sql), as_json)
    if query is not None:
        asked = Query(schema, query)
        return lambda frames, as_json: _print_answer(asked.answer(_bare(frames)), as_json)
    return _print_tables


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


def _bare(frames: Frames) -> dict[str, pd.DataFrame]:
    """Frames without the column of their records."""
    return {name: frame.iloc[:, 1:] for name, frame in frames.items()}


def _shown(frames: Frames) -> dict[str, pd.DataFrame]:
    """The same with dates and timestamps as they are published."""
    return {
        name: pd.DataFrame({column: with_iso_texts(frame[column]) for column in frame.columns}, columns=frame.columns)
        for name, frame in _bare(frames).items()
    }


def _print_tables(frames: Frames, as_json: bool) -> None:
    frames = _shown(frames)
    if as_json:
        click.echo(_ENCODE({"rows": _rows(frames), "qi_groups": _qi_groups(frames), **_as_lists(frames)}))
        return
    for name, frame in frames.items():
        _print_grid(
            _with_intervals(frame),
            name if len(frames) > 1 else None,
            f"{so_many(_rows({name: frame}), 'row')} in {so_many(_qi_groups({name: frame}), 'QI group')}",
        )


def _with_intervals(frame: pd.DataFrame) -> pd.DataFrame:
    """One column for both ends of an interval: what a line of a terminal has room for."""
    shown: dict[str, object] = {}
    for name in map(str, frame.columns):
        attribute = name.removesuffix("_lo")
        if name.endswith("_lo") and f"{attribute}_hi" in frame.columns:
            ends = zip(frame[name], frame[f"{attribute}_hi"], strict=True)
            shown[attribute] = [interval(str(lo), str(hi), not isinstance(lo, str)) for lo, hi in ends]
        elif not (name.endswith("_hi") and f"{name.removesuffix('_hi')}_lo" in frame.columns):
            shown[name] = list(frame[name])
    return pd.DataFrame(shown)


def _print_found(frame: pd.DataFrame, as_json: bool) -> None:
    if as_json:
        click.echo(_ENCODE({"rows": frame.to_dict(orient="records")}))
        return
    _print_grid(frame, None, so_many(len(frame), "row"))


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


def _print_grid(frame: pd.DataFrame, name: str | None, caption: str) -> None:
    if len(frame) > ROWS_SHOWN_MAX:
        caption += f"; the first {ROWS_SHOWN_MAX} are shown"
    grid = Grid(title=name, caption=caption)
    for column in frame.columns:
        grid.add_column(str(column), justify="right" if is_numeric_dtype(frame[column].dtype) else "left")
    for row in frame.head(ROWS_SHOWN_MAX).itertuples(index=False):
        grid.add_row(*("" if value is None else str(value) for value in row))
    print_table(grid)


def _print_answer(answer: Answer, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(answer._asdict()))
        return
    about = f"about {answer.estimate:,.2f} of {so_many(answer.rows, 'row')}"
    say(f"{about}; at least {answer.at_least:,}, at most {answer.at_most:,}")


def _print_releases(releases: Iterable[Release], as_json: bool) -> None:
    for release in releases:
        names = ("shard", "release", "through", "records")
        line = dict(zip(names, (*release[:3], len(release.records)), strict=True))
        click.echo(msgspec.json.encode(line) if as_json else "  ".join(f"{k} {v}" for k, v in line.items()))
