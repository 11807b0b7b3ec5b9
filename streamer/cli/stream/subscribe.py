"""`streamer subscribe`: reads the published table; prints it, or keeps it in files or a database, or its changelog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import click
import msgspec
import pandas as pd
from pandas.api.types import is_numeric_dtype
from rich.table import Table as Grid

from streamer.cli.support import options
from streamer.cli.support.outputs import CSV, OutputPath, force_option, require_writable
from streamer.cli.support.progress import stages
from streamer.cli.support.tables import as_json, filled, interval, plural, show
from streamer.copies import (
    COPIES,
    Changed,
    Copy,
    Duckdb,
    Frames,
    WholeFile,
    copied_before,
    has_columns,
    is_parquet,
    looked_up,
)
from streamer.errors import UsageError
from streamer.incremental.estimate import Query
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.release.frames import PUBLISHED, frame_names
from streamer.incremental.sealed.fold import COHORT, SealedFold
from streamer.progress import OnProgress
from streamer.reader import SealedEpoch, SealedSubscription, Subscription
from streamer.table.arrow_table import RECORD
from streamer.table.csv_files import KEEP
from streamer.table.files import PARQUET, table_files
from streamer.table.published.groups import COUNT
from streamer.table.published.rows import QI_GROUP
from streamer.table.schema import Table
from streamer.table.typed_frame import with_iso_texts
from streamer.table.yaml.loading import load_table

ROWS_SHOWN_MAX = 20


def _file(name: str, metavar: str, text: str, *endings: str, folder: bool = False) -> Callable[[Any], Any]:
    return click.option(name, metavar=metavar, type=OutputPath(*endings, folder=folder), help=text)


@options.command_named(
    "subscribe",
    "streamer subscribe --table mine --follow --csv published.csv",
    "streamer subscribe --table mine --sealed --csv cohorts.csv",
    "streamer subscribe --table mine --query \"age = 30 and problem = 'flu'\"",
)
@options.table_option
@options.kafka_option
@click.option("--once/--follow", default=True, help="Stop at the end of the topic, or go on.  [default: once]")
@_file("--csv", "FILE.csv", "Write the table to a CSV file.", *CSV)
@options.formulas_option(KEEP, "the CSV file")
@_file(
    "--parquet",
    "FILE.parquet|DIR",
    "Write the table to a file; or every change to a folder, in files by day.",
    PARQUET,
    folder=True,
)
@_file("--duckdb", "FILE.duckdb", "Keep a table of this DuckDB database current.", ".duckdb", ".db")
@_file("--live", "FILE.jsonl", "Write the changelog, for `verify`.", ".jsonl")
@click.option("--sealed", is_flag=True, help="Read the sealed changelog instead of the live one.")
@_file("--log", "FILE.jsonl", "Write the records of the sealed changelog, for `audit`.", ".jsonl")
@options.shards_option("Read only these shards, such as 0-15: what is written is their part of the table.")
@force_option
@click.option("--sql", metavar="QUERY", help="Print DuckDB's answer to a query instead of the table.")
@click.option("--query", metavar="CONDITION", help="Print an estimate of how many rows match, instead of the table.")
@options.json_option
def command(**given: Any) -> None:
    """Reads the published table from Kafka and prints it; with --follow, prints a line for every further release.

    What it shows is k-anonymous at every moment: each shard as of its last complete release. FILE.jsonl holds the
    records of the topic, in order per shard; `verify` cannot judge them if the topic has been compacted. With --follow,
    files are replaced whenever the table has changed, and a database is changed in transactions. DIR/ gets a file of
    changes for every poll that found some (`op`: upsert or removal; start: earlier files no longer count).

    QUERY is DuckDB's SQL over the table's name, or over <table>_qit and <table>_stt:
    --sql 'SELECT problem, count(*) FROM patients GROUP BY 1'.

    CONDITION is like "age = 30 and problem = 'flu'". The answer is an estimate with a lower and an upper bound: the
    published table does not say which rows of a QI group match. If the table is a lossy join (publish.live.form), FILE
    becomes FILE-qit and FILE-stt.

    A CSV or Parquet file that has the columns of the published table is replaced, whether an earlier run wrote it or
    `anonymize`. Any other file, and FILE.jsonl, is replaced only with --force. In a database and in DIR/, what others
    made stays.

    With --sealed the table is that of the sealed changelog, as of the last whole epoch of each shard: a row for every
    person who was ever published in a cohort that stands. `_rows` and `_left` say how many a cohort has and how many of
    its people are left; withheld values are null. In DuckDB its name is <table>_sealed.
    """
    asked = SubscribeOptions(**given)
    asked.check()
    schema = load_table(asked.table)
    if asked.sealed:
        _read_sealed(schema, asked)
        return
    printed = _printer(schema, asked)
    chosen = None if asked.shards is None else options.chosen_shards(asked.shards)
    require_writable(_new_files(schema, asked), asked.force)
    with ExitStack() as files, Subscription(schema, asked.kafka, shards=chosen) as subscription:
        lines = None if asked.live is None else files.enter_context(_opened(asked.live))
        made = [COPIES[name](schema, path, asked.formulas) for name, path in asked.copies.items()]
        for copy in made:
            files.callback(copy.close)
        with stages() as progress:
            with progress.stage("read") as on_progress:
                past = _caught_up(subscription, lines, on_progress)
            with progress.stage("write"):
                frames = subscription.recorded_frames()
                for copy in made:
                    copy.begin(frames, past)
        printed(frames)
        while not asked.once:
            releases = subscription.poll()
            _write_live(lines, releases)
            if not asked.asks:
                for release in releases:
                    names = ("shard", "release", "through", "records")
                    _print_line(dict(zip(names, (*release[:3], len(release.records)), strict=True)))
            if releases:
                changed = Changed(schema, releases, subscription.recorded_frames)
                for copy in made:
                    copy.change(changed)
                if asked.asks:
                    printed(subscription.recorded_frames())


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """The options of the command."""

    table: str
    kafka: str
    once: bool
    csv: Path | None
    formulas: str
    parquet: Path | None
    duckdb: Path | None
    live: Path | None
    sealed: bool
    log: Path | None
    shards: str | None
    force: bool
    sql: str | None
    query: str | None

    @property
    def asks(self) -> bool:
        """True if an answer is printed instead of the table."""
        return self.sql is not None or self.query is not None

    @property
    def copies(self) -> dict[str, Path]:
        """The copies that are asked for, by the name of their option."""
        copies = {"csv": self.csv, "parquet": self.parquet, "duckdb": self.duckdb}
        return {name: path for name, path in copies.items() if path is not None}

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        if not self.sealed and self.log is not None:
            raise UsageError("--log: goes with --sealed only; --live writes the live changelog")
        is_folder = self.parquet is not None and not is_parquet(self.parquet)
        refused = {
            "--shards": self.shards is not None and "not with --sealed, which holds little; it is read whole",
            "--live": self.live is not None and "writes the live changelog; --log writes the sealed one",
            "--query": self.query is not None and "estimates from QI groups; --sql answers from cohorts",
            "--parquet": is_folder and "with --sealed it names a FILE.parquet",
        }
        for option, why in refused.items() if self.sealed else ():
            if why:
                raise UsageError(f"{option}: {why}")


def _read_sealed(schema: Table, asked: SubscribeOptions) -> None:
    """Reads the sealed changelog; writes its log and its copies, and prints it or its epochs."""
    empty = SealedFold(schema).frame() if schema.sealed is not None else pd.DataFrame()
    files = [path for path in (asked.csv, asked.parquet) if path is not None]
    new = [path for path in files if not (path.is_file() and has_columns(path, empty))]
    require_writable([*new, *([asked.log] if asked.log else [])], asked.force)
    with ExitStack() as opened, SealedSubscription(schema, asked.kafka) as subscription:
        log = None if asked.log is None else opened.enter_context(_opened(asked.log))
        copies: list[Copy] = [WholeFile(schema, path, asked.formulas) for path in files]
        if asked.duckdb is not None:
            copies.append(Duckdb(replace(schema, name=f"{schema.name}_sealed"), asked.duckdb))
            opened.callback(copies[-1].close)
        with stages() as progress, progress.stage("read") as on_progress:
            for epochs in subscription.catching_up(on_progress):
                _write_epochs(log, epochs)
        _show_sealed(schema, _copied(subscription, copies), asked.sql)
        while not asked.once:
            epochs = subscription.poll()
            _write_epochs(log, epochs)
            if epochs:
                frame = _copied(subscription, copies)
                if asked.sql is not None:
                    _show_sealed(schema, frame, asked.sql)
            for epoch in () if asked.sql is not None else epochs:
                _print_epoch(epoch)


def _copied(subscription: SealedSubscription, copies: Iterable[Copy]) -> pd.DataFrame:
    """The table of cohorts, which every copy has now."""
    frame = subscription.frame()
    frame.insert(0, RECORD, frame[COHORT])
    for copy in copies:
        copy.begin({PUBLISHED: frame}, ())
    return frame


def _show_sealed(schema: Table, frame: pd.DataFrame, sql: str | None) -> None:
    if sql is not None:
        print_found(looked_up(schema, {PUBLISHED: frame}, sql))
        return
    shown, cohorts = _shown({PUBLISHED: frame})[PUBLISHED], int(frame[COHORT].nunique())
    caption = f"{plural(len(shown), 'row')} in {plural(cohorts, 'cohort')}"

    def values() -> dict[str, object]:
        return {"rows": len(shown), "cohorts": cohorts, "table": shown.to_dict(orient="records")}

    show(values, [_grid(_with_intervals(shown), None, caption)])


def _write_epochs(log: IO[bytes] | None, epochs: Iterable[SealedEpoch]) -> None:
    if log is not None:
        log.writelines(line for epoch in epochs for line in epoch.lines)
        log.flush()


def _print_epoch(epoch: SealedEpoch) -> None:
    end = epoch.end
    line = {"shard": epoch.shard, "epoch": end.epoch, "time": end.time}
    _print_line(line | {"published": end.adds, "retired": end.retires, "counted": end.lives})


def _print_line(line: Mapping[str, object]) -> None:
    click.echo(msgspec.json.encode(line) if as_json() else "  ".join(f"{k} {v}" for k, v in line.items()))


def _new_files(schema: Table, asked: SubscribeOptions) -> list[Path]:
    """The files that no earlier run made; a folder and a database are looked at when they are opened."""
    new = [] if asked.live is None else [asked.live]
    for path in filter(None, (asked.csv, asked.parquet)):
        if path.suffix:
            new += {*table_files(path, frame_names(schema))} - {*copied_before(schema, path)}
    return new


def _caught_up(subscription: Subscription, log: IO[bytes] | None, on_progress: OnProgress) -> list[FoldedRelease]:
    """Reads up to the end as of the start; returns the last release of every shard."""
    past: dict[int, FoldedRelease] = {}
    for releases in subscription.catching_up(on_progress):
        _write_live(log, releases)
        past |= {release.shard: release for release in releases}
    return list(past.values())


def _printer(schema: Table, asked: SubscribeOptions) -> Callable[[Frames], None]:
    """Prints the table, or an answer about it. Raises UsageError."""
    sql, query = asked.sql, asked.query
    if sql is not None and query is not None:
        raise UsageError("--sql and --query: give only one of them")
    if sql is not None:
        return lambda frames: print_found(looked_up(schema, frames, sql))
    if query is not None:
        return partial(_print_answer, Query(schema, query))
    return print_tables


def _opened(path: Path) -> IO[bytes]:
    try:
        return open(path, "wb")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def _write_live(log: IO[bytes] | None, releases: Iterable[FoldedRelease]) -> None:
    if log is None:
        return
    for release in releases:
        announced = b'"outside":true,' if release.outside else b""
        announced += b'"whole":%d,' % release.whole if release.whole else b""
        where = release.shard, release.number, release.through, announced
        start = b'{"shard":%d,"release":%d,"through":%d,%b"key":' % where
        log.writelines(b'%b%b,"value":%b}\n' % (start, key, value or b"null") for key, value in release.records)
    log.flush()


def _bare(frames: Frames) -> dict[str, pd.DataFrame]:
    return {name: frame.iloc[:, 1:] for name, frame in frames.items()}


def _shown(frames: Frames) -> dict[str, pd.DataFrame]:
    """The frames without record keys, dates and timestamps as published texts."""
    return {
        name: pd.DataFrame({column: with_iso_texts(frame[column]) for column in frame.columns}, columns=frame.columns)
        for name, frame in _bare(frames).items()
    }


def print_tables(frames: Frames) -> None:
    shown = _shown(frames)

    def values() -> dict[str, object]:
        lists = {name: frame.to_dict(orient="records") for name, frame in shown.items()}
        named = {"table": next(iter(lists.values()))} if len(lists) == 1 else lists
        return {"rows": _rows(shown), "qi_groups": _qi_groups(shown), **named}

    show(values, _grids(shown))


def _grids(frames: Frames) -> Iterator[Grid]:
    for name, frame in frames.items():
        caption = f"{plural(_rows({name: frame}), 'row')} in {plural(_qi_groups({name: frame}), 'QI group')}"
        yield _grid(_with_intervals(frame), name if len(frames) > 1 else None, caption)


def _with_intervals(frame: pd.DataFrame) -> pd.DataFrame:
    """Both ends of an interval in one column, so that lines fit a terminal."""
    shown: dict[str, object] = {}
    for name in map(str, frame.columns):
        attribute = name.removesuffix("_lo")
        if name.endswith("_lo") and f"{attribute}_hi" in frame.columns:
            ends = zip(frame[name], frame[f"{attribute}_hi"], strict=True)
            shown[attribute] = [interval(str(lo), str(hi), not isinstance(lo, str)) for lo, hi in ends]
        elif not (name.endswith("_hi") and f"{name.removesuffix('_hi')}_lo" in frame.columns):
            shown[name] = list(frame[name])
    return pd.DataFrame(shown)


def print_found(frame: pd.DataFrame) -> None:
    show(lambda: {"rows": frame.to_dict(orient="records")}, [_grid(frame, None, plural(len(frame), "row"))])


def _rows(frames: Mapping[str, pd.DataFrame]) -> int:
    """The number of people's rows; a frame with a column of counts has fewer lines."""
    frame = list(frames.values())[-1]
    return int(frame[COUNT].sum()) if str(frame.dtypes.get(COUNT)) == "int64" else len(frame)


def _qi_groups(frames: Mapping[str, pd.DataFrame]) -> int:
    return int(list(frames.values())[-1][QI_GROUP].nunique())


def _grid(frame: pd.DataFrame, name: str | None, caption: str) -> Grid:
    if len(frame) > ROWS_SHOWN_MAX:
        caption += f"; the first {ROWS_SHOWN_MAX} are shown"
    grid = Grid(title=name, caption=caption)
    for column in frame.columns:
        grid.add_column(str(column), justify="right" if is_numeric_dtype(frame[column].dtype) else "left")
    shown = frame.head(ROWS_SHOWN_MAX)
    rows = shown.astype(object).where(shown.notna(), "").itertuples(index=False)
    return filled(grid, (map(str, row) for row in rows))


def _print_answer(query: Query, frames: Frames) -> None:
    answer = query.answer(_bare(frames))
    about = f"about {answer.estimate:,.2f} of {plural(answer.rows, 'row')}"
    show(answer._asdict(), [f"{about}; at least {answer.at_least:,}, at most {answer.at_most:,}"])
