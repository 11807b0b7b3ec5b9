"""`streamer subscribe`: reads the published table; prints it, or keeps it in files or a database, or its changelog."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import click
import msgspec
import pandas as pd
from pandas.api.types import is_numeric_dtype
from rich.table import Table as Grid

from streamer.cli.support.options import (
    chosen_shards,
    examples,
    formulas_option,
    json_option,
    kafka_option,
    shards_option,
    table_option,
)
from streamer.cli.support.outputs import (
    CSV,
    OutputPath,
    force_option,
    is_parquet,
    require_writable,
    write_published,
)
from streamer.cli.support.progress import stages
from streamer.cli.support.tables import interval, plural, print_table, say
from streamer.errors import ConfigError, StreamerError, UsageError
from streamer.incremental.estimate import Answer, Query
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.release.frames import PUBLISHED, frame_names, frames, recorded_frames
from streamer.incremental.sealed.fold import COHORT, SealedFold
from streamer.progress import OnProgress
from streamer.reader import SealedEpoch, SealedSubscription, Subscription
from streamer.table.arrow_table import RECORD, require, to_arrow
from streamer.table.csv_files import KEEP, write_rows
from streamer.table.files import PARQUET, atomic_writer, atomic_writers, open_bytes, table_files
from streamer.table.published.groups import COUNT
from streamer.table.published.rows import QI_GROUP
from streamer.table.schema import Table
from streamer.table.typed_frame import with_iso_texts
from streamer.table.yaml.loading import load_table
from streamer.uninterrupted import uninterrupted

# -- copies -----------------------------------------------------------------------------------------------------------
#
# * A copy gets the whole table first, which replaces what it held, then every batch of complete releases.
# * Readers of a copy see whole releases only: a file is replaced as a whole, a database changes in one transaction.
# * A batch is netted: the last value of each record counts. Only a file needs the whole table again; the cost of the
#   other copies depends on the releases, not on the table.
# * One run at a time may keep a folder or a database; any other is refused.

Frames = Mapping[str, pd.DataFrame]
"""Recorded frames, by name."""


@dataclass(frozen=True)
class Changed:
    """What some releases changed, computed when a copy asks for it."""

    table: Table
    releases: Sequence[FoldedRelease]  # in their order
    whole: Callable[[], Frames]  # the table after them

    @cached_property
    def records(self) -> tuple[str, ...]:
        """The keys of the records that are removed or replaced, each once."""
        return tuple(key.decode() for key in self._last)

    @cached_property
    def frames(self) -> Frames:
        """The rows that replace them. Raises LawViolated."""
        return recorded_frames(self.table, [(key, value) for key, value in self._last.items() if value is not None])

    @cached_property
    def _last(self) -> dict[bytes, bytes | None]:
        return {key: value for release in self.releases for key, value in release.records}


class Copy(Protocol):
    """A copy of the table that is kept current."""

    def begin(self, frames: Frames, releases: Sequence[FoldedRelease]) -> None:
        """Replaces the content by the whole table; releases: the last one of each shard."""

    def change(self, changed: Changed) -> None:
        """Applies some releases."""

    def close(self) -> None:
        """Releases the lock of a folder or a database."""


def check_columns(table: Table) -> None:
    """Raises ConfigError if a column has the name under which copies keep the record's key."""
    if RECORD in {column.name for column in (*table.attributes, *table.kept)}:
        raise ConfigError(f"column {RECORD!r}: a database or a folder uses this name itself: rename the column")


@dataclass(frozen=True)
class WholeFile:
    """A CSV or Parquet file, or one for each of several tables, rewritten whenever the table has changed.

    CSV: numbers as shortest decimals, a null as an empty cell. Parquet: the types of `release.frames`.
    """

    table: Table
    path: Path
    formulas: str = KEEP

    def begin(self, frames: Frames, releases: Sequence[FoldedRelease]) -> None:
        paths = table_files(self.path, list(frames))
        with atomic_writers(paths, text=True) as files:
            for frame, path, file in zip(frames.values(), paths, files, strict=True):
                write_published(self.table, frame.iloc[:, 1:], path, file, self.formulas)

    def change(self, changed: Changed) -> None:
        self.begin(changed.whole(), changed.releases)

    def close(self) -> None: ...


def copied_before(table: Table, path: Path) -> list[Path]:
    """The files of a WholeFile that may be replaced: they have the published columns, as after an earlier run."""
    empty = frames(table, [])
    files = zip(table_files(path, list(empty)), empty.values(), strict=True)
    return [file for file, frame in files if file.is_file() and _has_columns(file, frame)]


def _has_columns(path: Path, frame: pd.DataFrame) -> bool:
    """Whether a CSV or Parquet file has the frame's columns. Raises ConfigError if it cannot be read."""
    if is_parquet(path):
        with suppress(OSError, ValueError):
            return bool(require("pyarrow.parquet", "parquet").read_schema(path).names == list(frame.columns))
        return False
    write_rows(frame, header := StringIO())
    wanted = header.getvalue().encode()
    with open_bytes(path) as file:
        return file.read(len(wanted)) == wanted


# -- a folder of changes ----------------------------------------------------------------------------------------------

START, UPSERT, REMOVAL = "start", "upsert", "removal"
WHERE = ("shard", "release", "through", "outside")
NAME_DIGITS = 12
"""In a file's name, so that names sort as numbers."""


def _now() -> datetime:
    return datetime.now(UTC)


class ChangesFolder:
    """A folder of Parquet files, one for every poll that found changes; clock: gives the time in `at`.

    * Files are partitioned by day as in Hive: `<folder>/date=2026-11-22/000000000042.parquet`. The number is the lowest
      `seq` in the file. `seq` grows over the whole folder; a release has one number.
    * Every run of `subscribe` begins with a file whose first row has `op` = start, followed by the whole table: rows
      with a lower `seq` no longer count. Then follow `upsert` and `removal`: of each `_record`, the rows with the
      highest `seq` count. So the present table is, in DuckDB's SQL:

          WITH seen AS (FROM read_parquet('folder/**/*.parquet')),
               run  AS (FROM seen WHERE seq >= (SELECT max(seq) FROM seen WHERE op = 'start'))
          FROM run WHERE op = 'upsert' AND (_record, seq) IN (SELECT (_record, max(seq)) FROM run GROUP BY _record)

    * A lossy join has a subfolder for each of its tables, `qit` and `stt`.
    * `.lock` is locked while the process lives, `.table` holds the table's name: another run or table is refused.
    """

    def __init__(self, table: Table, folder: Path, clock: Callable[[], datetime] = _now) -> None:
        check_columns(table)
        self._table, self._folder, self._clock = table, folder, clock
        self._parquet = require("pyarrow.parquet", "parquet")
        self._lock = _locked(folder, table.name)
        try:
            self._seq = self._last_seq() + 1
        except UsageError:
            self.close()
            raise

    def begin(self, frames: Frames, releases: Sequence[FoldedRelease]) -> None:
        for name, frame in frames.items():
            marker = self._rows(frame.iloc[:0].reindex(range(1)), START)
            self._write(name, self._seq, [marker, self._rows(frame, UPSERT)])
        self._seq += 1

    def change(self, changed: Changed) -> None:
        first = self._seq
        files: dict[str, list[Any]] = {name: [] for name in frame_names(self._table)}
        for release in changed.releases:
            alone = Changed(self._table, [release], changed.whole)
            for name, frame in alone.frames.items():
                there = set(frame[RECORD])
                gone = [record for record in alone.records if record not in there]
                removed = frame.iloc[:0].reindex(range(len(gone))).assign(**{RECORD: gone})
                files[name] += [self._rows(frame, UPSERT, release), self._rows(removed, REMOVAL, release)]
            self._seq += 1
        for name, parts in files.items():
            self._write(name, first, parts)

    def close(self) -> None:
        self._lock.close()

    def _rows(self, frame: pd.DataFrame, op: str, release: FoldedRelease | None = None) -> Any:
        """The rows of a recorded frame, after columns that say what happened to them and when."""
        arrow, n = require("pyarrow", "parquet"), len(frame)
        where = (None,) * 4 if release is None else (release.shard, release.number, release.through, release.outside)
        kinds = (arrow.int32(), arrow.int64(), arrow.int64(), arrow.bool_())
        columns = {
            "seq": arrow.array([self._seq] * n, arrow.int64()),
            "at": arrow.array([self._clock()] * n, arrow.timestamp("ms", tz="UTC")),
            "op": arrow.array([op] * n, arrow.string()),
        }
        for name, value, kind in zip(WHERE, where, kinds, strict=True):
            columns[name] = arrow.array([value] * n, kind)
        published = to_arrow(self._table, frame)
        return arrow.table({**columns, **{name: published[name] for name in published.column_names}})

    def _write(self, name: str, seq: int, parts: Sequence[Any]) -> None:
        folder = (self._folder if name == PUBLISHED else self._folder / name) / f"date={self._clock():%Y-%m-%d}"
        _make(folder)
        with atomic_writer(folder / f"{seq:0{NAME_DIGITS}}.parquet") as file:
            self._parquet.write_table(require("pyarrow", "parquet").concat_tables(parts), file)

    def _last_seq(self) -> int:
        """The highest number of a change in the folder; 0 if there is none."""
        files = sorted(self._folder.glob("**/date=*/*.parquet"), key=lambda path: path.stem)
        if not files:
            return 0
        try:
            return int(max(self._parquet.read_table(files[-1], columns=["seq"])["seq"].to_pylist()))
        except (OSError, ValueError, KeyError):
            raise UsageError(
                f"{files[-1]}: is not a file of changes: name an empty folder, or one written by this command"
            ) from None


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be created: {error.strerror}") from None


def _locked(folder: Path, table_name: str) -> IO[bytes]:
    """The open lock file of the folder, which reserves it for this process and table. Raises UsageError."""
    _make(folder)
    lock = open(folder / ".lock", "ab")  # noqa: SIM115 - closed by the copy, or with the process
    owner = folder / ".table"
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if owner.exists() and owner.read_text() != table_name:
            raise UsageError(f"{folder}: holds changes of another table: name another folder")
        owner.write_text(table_name)
    except BlockingIOError:
        lock.close()
        raise UsageError(f"{folder}: another `subscribe` writes to this folder, and only one may") from None
    except UsageError:
        lock.close()
        raise
    return lock


# -- DuckDB -----------------------------------------------------------------------------------------------------------

GIVEN = "_given"
"""The name of rows on their way into DuckDB; no table can have it."""

RELEASES, TABLES_TABLE = "streamer_releases", "streamer_tables"
_MAKE_OURS = (
    f"CREATE TABLE IF NOT EXISTS {RELEASES} (table_name TEXT, shard INTEGER, release BIGINT, through BIGINT)",
    f"CREATE TABLE IF NOT EXISTS {TABLES_TABLE} (table_name TEXT, made TEXT)",
)


def table_name(table: Table, frame: str) -> str:
    """The name of a frame's table in a database."""
    return table.name if frame == PUBLISHED else f"{table.name}_{frame}"


def quoted(name: str) -> str:
    """An identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


class Duckdb:
    """The published table in a DuckDB file, which no other process can open at the same time.

    * The database's table has the name in table.yaml (of a lossy join: `<table>_qit` and `<table>_stt`). Its first
      column, `_record`, is the key of a row's record; its types are Arrow's.
    * `streamer_releases` has the last release of every shard in the table, and its `through` in the input;
      `streamer_tables` lists what was created. Only tables that `subscribe` created for this table, also in another
      form, are dropped; any other table with a wanted name, in any case, is refused.
    """

    def __init__(self, table: Table, path: Path) -> None:
        check_columns(table)
        duckdb = require("duckdb", "duckdb")
        self._table, self._error = table, duckdb.Error
        try:
            with uninterrupted():
                self._connection = duckdb.connect(str(path))
        except duckdb.Error:
            raise UsageError(f"{path}: cannot be opened as a database: does another program use it?") from None

    def begin(self, frames: Frames, releases: Sequence[FoldedRelease]) -> None:
        names = {name: table_name(self._table, name) for name in frames}
        with self._transaction():
            self._make_room(list(names.values()))
            for name, made in names.items():
                self._with(frames[name], f"CREATE TABLE {quoted(made)} AS SELECT * FROM {GIVEN}")
                self._connection.execute(f"CREATE INDEX {quoted(f'_{made}{RECORD}')} ON {quoted(made)} ({RECORD})")
                self._connection.execute(f"INSERT INTO {TABLES_TABLE} VALUES (?, ?)", (self._table.name, made))
            self._note(releases)

    def change(self, changed: Changed) -> None:
        with self._transaction():
            for name, frame in changed.frames.items():
                table = quoted(table_name(self._table, name))
                gone = list(changed.records)
                self._connection.execute(f"DELETE FROM {table} WHERE {RECORD} IN (SELECT unnest(?))", (gone,))
                self._with(frame, f"INSERT INTO {table} SELECT * FROM {GIVEN}")
            self._note(changed.releases)

    def close(self) -> None:
        self._connection.close()

    def _with(self, frame: pd.DataFrame, statement: str) -> None:
        self._connection.register(GIVEN, to_arrow(self._table, frame))
        self._connection.execute(statement)
        self._connection.unregister(GIVEN)

    def _make_room(self, wanted: Sequence[str]) -> None:
        """Drops what was created for the table before. Raises UsageError if a name belongs to something else."""
        for statement in _MAKE_OURS:
            self._connection.execute(statement)
        ours = self._connection.execute(f"SELECT made FROM {TABLES_TABLE} WHERE table_name = ?", (self._table.name,))
        for (made,) in ours.fetchall():
            self._connection.execute(f"DROP TABLE IF EXISTS {quoted(made)}")
        for notes in (TABLES_TABLE, RELEASES):
            self._connection.execute(f"DELETE FROM {notes} WHERE table_name = ?", (self._table.name,))
        used = self._connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
        names = {str(name).casefold() for (name,) in used}
        if foreign := [name for name in wanted if name.casefold() in names]:
            raise UsageError(
                f"the database has a table {foreign[0]!r} that `subscribe` did not create: name another database"
            )

    def _note(self, releases: Sequence[FoldedRelease]) -> None:
        for release in {release.shard: release for release in releases}.values():
            where = (self._table.name, release.shard)
            self._connection.execute(f"DELETE FROM {RELEASES} WHERE table_name = ? AND shard = ?", where)
            row = (*where, release.number, release.through)
            self._connection.execute(f"INSERT INTO {RELEASES} VALUES (?, ?, ?, ?)", row)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """One transaction. Raises StreamerError without the database's own text, which may quote values."""
        try:
            with uninterrupted():
                self._connection.execute("BEGIN")
                try:
                    yield
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
        except self._error as error:
            raise StreamerError(
                f"the database cannot be written ({type(error).__name__}): is it locked, or its disk full?"
            ) from None


def looked_up(table: Table, frames: Frames, query: str) -> pd.DataFrame:
    """The answer to a query in DuckDB's SQL, which can read only the published table. Raises UsageError."""
    duckdb = require("duckdb", "duckdb")
    with duckdb.connect(config={"enable_external_access": False}) as connection:
        for name, frame in frames.items():
            connection.register(table_name(table, name), to_arrow(table, frame.iloc[:, 1:]))
        try:
            answer = connection.execute(query)
            if answer.description is None:
                raise UsageError("--sql: is not a query")
            return pd.DataFrame(answer.fetchall(), columns=[column[0] for column in answer.description], dtype=object)
        except duckdb.Error as error:
            raise UsageError(f"--sql: {str(error).splitlines()[0]}") from None


def _parquet(table: Table, path: Path) -> Copy:
    return WholeFile(table, path) if is_parquet(path) else ChangesFolder(table, path)


COPIES: Mapping[str, Callable[[Table, Path, str], Copy]] = {
    "csv": WholeFile,
    "parquet": lambda table, path, _: _parquet(table, path),
    "duckdb": lambda table, path, _: Duckdb(table, path),
}
"""Copies by the name of their option."""

# -- the command ------------------------------------------------------------------------------------------------------

ROWS_SHOWN_MAX = 20


def _file(name: str, metavar: str, text: str, *endings: str, folder: bool = False) -> Callable[[Any], Any]:
    return click.option(name, metavar=metavar, type=OutputPath(*endings, folder=folder), help=text)


_ENCODE = msgspec.json.Encoder(decimal_format="number").encode


@click.command(
    name="subscribe",
    epilog=examples(
        "streamer subscribe --table mine --follow --csv published.csv",
        "streamer subscribe --table mine --sealed --csv cohorts.csv",
        "streamer subscribe --table mine --query \"age = 30 and problem = 'flu'\"",
    ),
)
@table_option
@kafka_option
@click.option("--once/--follow", default=True, help="Stop at the end of the topic, or go on.  [default: once]")
@_file("--csv", "FILE.csv", "Write the table to a CSV file.", *CSV)
@formulas_option(KEEP, "the CSV file")
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
@shards_option("Read only these shards, such as 0-15: what is written is their part of the table.")
@force_option
@click.option("--sql", metavar="QUERY", help="Print DuckDB's answer to a query instead of the table.")
@click.option("--query", metavar="CONDITION", help="Print an estimate of how many rows match, instead of the table.")
@json_option
def command(
    table: str,
    kafka: str,
    once: bool,
    formulas: str,
    live: Path | None,
    sealed: bool,
    log: Path | None,
    shards: str | None,
    force: bool,
    sql: str | None,
    query: str | None,
    as_json: bool,
    **copies: Path | None,
) -> None:
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
    schema = load_table(table)
    chosen = None if shards is None else chosen_shards(shards)
    if sealed:
        if chosen is not None:
            raise UsageError("--shards: not with --sealed, which holds little; it is read whole")
        _read_sealed(schema, kafka, once, SealedOutputs(formulas, log, force, sql, live, query, copies), as_json)
        return
    if log is not None:
        raise UsageError("--log: goes with --sealed only; --live writes the live changelog")
    show = _shower(schema, sql, query)
    require_writable(_new_files(schema, live, copies), force)
    with ExitStack() as files, Subscription(schema, kafka, shards=chosen) as subscription:
        lines = None if live is None else files.enter_context(_opened(live))
        made = [COPIES[name](schema, path, formulas) for name, path in copies.items() if path is not None]
        for copy in made:
            files.callback(copy.close)
        with stages(as_json) as progress:
            with progress.stage("read") as on_progress:
                past = _caught_up(subscription, lines, on_progress)
            with progress.stage("write"):
                frames = subscription.recorded_frames()
                for copy in made:
                    copy.begin(frames, past)
        show(frames, as_json)
        while not once:
            _follow(schema, subscription, lines, made, show, as_json)


def _follow(
    schema: Table,
    subscription: Subscription,
    lines: IO[bytes] | None,
    copies: Sequence[Copy],
    show: Callable[[Frames, bool], None],
    as_json: bool,
) -> None:
    """Reads what has come, and writes and prints it."""
    releases = subscription.poll()
    _write_live(lines, releases)
    if show is print_tables:
        _print_releases(releases, as_json)
    if releases:
        changed = Changed(schema, releases, subscription.recorded_frames)
        for copy in copies:
            copy.change(changed)
        if show is not print_tables:
            show(subscription.recorded_frames(), as_json)


class SealedOutputs(NamedTuple):
    """What `--sealed` is asked to write, and options that do not go with it."""

    formulas: str
    log: Path | None
    force: bool
    sql: str | None
    live: Path | None
    query: str | None
    copies: Mapping[str, Path | None]

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        parquet = self.copies["parquet"]
        refused = {
            "--live": self.live is not None and "writes the live changelog; --log writes the sealed one",
            "--query": self.query is not None and "estimates from QI groups; --sql answers from cohorts",
            "--parquet": parquet is not None and not is_parquet(parquet) and "with --sealed it names a FILE.parquet",
        }
        for option, why in refused.items():
            if why:
                raise UsageError(f"{option}: {why}")


def _read_sealed(schema: Table, kafka: str, once: bool, out: SealedOutputs, as_json: bool) -> None:
    """Reads the sealed changelog; writes its log and its copies, and prints it or its epochs."""
    out.check()
    empty = SealedFold(schema).frame() if schema.sealed is not None else pd.DataFrame()
    files = [path for path in (out.copies["csv"], out.copies["parquet"]) if path is not None]
    new = [path for path in files if not (path.is_file() and _has_columns(path, empty))]
    require_writable([*new, *([out.log] if out.log else [])], out.force)
    with ExitStack() as opened, SealedSubscription(schema, kafka) as subscription:
        log = None if out.log is None else opened.enter_context(_opened(out.log))
        copies: list[Copy] = [WholeFile(schema, path, out.formulas) for path in files]
        if (database := out.copies["duckdb"]) is not None:
            copies.append(Duckdb(replace(schema, name=f"{schema.name}_sealed"), database))
            opened.callback(copies[-1].close)
        with stages(as_json) as progress, progress.stage("read") as on_progress:
            while not subscription.caught_up:
                _write_epochs(log, subscription.poll())
                on_progress(subscription.share_read)
        frame = _copied(subscription, copies)
        _show_sealed(schema, frame, out.sql, as_json)
        while not once:
            epochs = subscription.poll()
            _write_epochs(log, epochs)
            if epochs:
                frame = _copied(subscription, copies)
                if out.sql is not None:
                    _show_sealed(schema, frame, out.sql, as_json)
            for epoch in () if out.sql is not None else epochs:
                _print_epoch(epoch, as_json)


def _copied(subscription: SealedSubscription, copies: Iterable[Copy]) -> pd.DataFrame:
    """The table of cohorts, which every copy has now."""
    frame = subscription.frame()
    frame.insert(0, RECORD, frame[COHORT])
    for copy in copies:
        copy.begin({PUBLISHED: frame}, ())
    return frame


def _show_sealed(schema: Table, frame: pd.DataFrame, sql: str | None, as_json: bool) -> None:
    if sql is not None:
        print_found(looked_up(schema, {PUBLISHED: frame}, sql), as_json)
        return
    shown, cohorts = _shown({PUBLISHED: frame})[PUBLISHED], int(frame[COHORT].nunique())
    if as_json:
        table = shown.to_dict(orient="records")
        click.echo(_ENCODE({"rows": len(shown), "cohorts": cohorts, "table": table}))
        return
    _print_grid(_with_intervals(shown), None, f"{plural(len(shown), 'row')} in {plural(cohorts, 'cohort')}")


def _write_epochs(log: IO[bytes] | None, epochs: Iterable[SealedEpoch]) -> None:
    if log is not None:
        log.writelines(line for epoch in epochs for line in epoch.lines)
        log.flush()


def _print_epoch(epoch: SealedEpoch, as_json: bool) -> None:
    end = epoch.end
    line = {
        "shard": epoch.shard,
        "epoch": end.epoch,
        "time": end.time,
        "published": end.adds,
        "retired": end.retires,
        "counted": end.lives,
    }
    click.echo(msgspec.json.encode(line) if as_json else "  ".join(f"{k} {v}" for k, v in line.items()))


def _new_files(schema: Table, live: Path | None, copies: Mapping[str, Path | None]) -> list[Path]:
    """The files that no earlier run made; a folder and a database are looked at when they are opened."""
    new = [] if live is None else [live]
    for path in filter(None, (copies["csv"], copies["parquet"])):
        if path.suffix:
            new += {*table_files(path, frame_names(schema))} - {*copied_before(schema, path)}
    return new


def _caught_up(subscription: Subscription, log: IO[bytes] | None, on_progress: OnProgress) -> list[FoldedRelease]:
    """Reads up to the end as of the start; returns the last release of every shard."""
    past: list[FoldedRelease] = []
    while not subscription.caught_up:
        past += (last := subscription.poll())
        _write_live(log, last)
        past = list({release.shard: release for release in past}.values())
        on_progress(subscription.share_read)
    return past


def _shower(schema: Table, sql: str | None, query: str | None) -> Callable[[Frames, bool], None]:
    """What prints the table, or an answer about it. Raises UsageError."""
    if sql is not None and query is not None:
        raise UsageError("--sql and --query: give only one of them")
    if sql is not None:
        return lambda frames, as_json: print_found(looked_up(schema, frames, sql), as_json)
    if query is not None:
        asked = Query(schema, query)
        return lambda frames, as_json: _print_answer(asked.answer(_bare(frames)), as_json)
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
    """The frames without the column of record keys."""
    return {name: frame.iloc[:, 1:] for name, frame in frames.items()}


def _shown(frames: Frames) -> dict[str, pd.DataFrame]:
    """The frames without record keys, dates and timestamps as published texts."""
    return {
        name: pd.DataFrame({column: with_iso_texts(frame[column]) for column in frame.columns}, columns=frame.columns)
        for name, frame in _bare(frames).items()
    }


def print_tables(frames: Frames, as_json: bool) -> None:
    frames = _shown(frames)
    if as_json:
        click.echo(_ENCODE({"rows": _rows(frames), "qi_groups": _qi_groups(frames), **_as_lists(frames)}))
        return
    for name, frame in frames.items():
        _print_grid(
            _with_intervals(frame),
            name if len(frames) > 1 else None,
            f"{plural(_rows({name: frame}), 'row')} in {plural(_qi_groups({name: frame}), 'QI group')}",
        )


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


def print_found(frame: pd.DataFrame, as_json: bool) -> None:
    if as_json:
        click.echo(_ENCODE({"rows": frame.to_dict(orient="records")}))
        return
    _print_grid(frame, None, plural(len(frame), "row"))


def _as_lists(frames: Mapping[str, pd.DataFrame]) -> dict[str, list[dict[Hashable, object]]]:
    """Rows as objects, under `table` if there is one frame, else under the frames' names."""
    lists = {name: frame.to_dict(orient="records") for name, frame in frames.items()}
    return {"table": next(iter(lists.values()))} if len(lists) == 1 else lists


def _rows(frames: Mapping[str, pd.DataFrame]) -> int:
    """The number of people's rows; a frame with a column of counts has fewer lines."""
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
    shown = frame.head(ROWS_SHOWN_MAX)
    for row in shown.astype(object).where(shown.notna(), "").itertuples(index=False):
        grid.add_row(*map(str, row))
    print_table(grid)


def _print_answer(answer: Answer, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(answer._asdict()))
        return
    about = f"about {answer.estimate:,.2f} of {plural(answer.rows, 'row')}"
    say(f"{about}; at least {answer.at_least:,}, at most {answer.at_most:,}")


def _print_releases(releases: Iterable[FoldedRelease], as_json: bool) -> None:
    for release in releases:
        names = ("shard", "release", "through", "records")
        line = dict(zip(names, (*release[:3], len(release.records)), strict=True))
        click.echo(msgspec.json.encode(line) if as_json else "  ".join(f"{k} {v}" for k, v in line.items()))
