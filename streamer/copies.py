"""Copies of the published table: a file, a folder of changes, or a DuckDB database, kept current release by release.

The rules of this file
----------------------
* A copy gets the whole table first, which replaces what it held, then every batch of complete releases.
* Readers of a copy see whole releases only: a file is replaced as a whole, a database changes in one transaction.
* A batch is netted: the last value of each record counts. Only a file needs the whole table again; the cost of the
  other copies depends on the releases, not on the table.
* One run at a time may keep a folder or a database; any other is refused.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import IO, Any, Protocol

import pandas as pd

from streamer.errors import ConfigError, StreamerError, UsageError
from streamer.incremental.release.fold import FoldedRelease
from streamer.incremental.release.frames import PUBLISHED, frame_names, frames, recorded_frames
from streamer.table.arrow_table import RECORD, require, to_arrow
from streamer.table.csv_files import KEEP, write_rows
from streamer.table.files import PARQUET, atomic_writer, atomic_writers, open_bytes, table_files
from streamer.table.schema import Table
from streamer.uninterrupted import uninterrupted

Frames = Mapping[str, pd.DataFrame]  # recorded frames, by name


@dataclass(frozen=True)
class Changed:
    """The changes of some releases, computed when a copy asks for them."""

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


def is_parquet(path: Path) -> bool:
    """True if the file's name says so."""
    return path.suffix.lower() == PARQUET


def write_published(table: Table, frame: pd.DataFrame, path: Path, file: Any, formulas: str = KEEP) -> None:
    """Writes a published frame to the opened text file of `path`: Parquet by its name, else CSV."""
    if is_parquet(path):
        write_parquet(to_arrow(table, frame), file)
    else:
        write_rows(frame, file, formulas)


def write_parquet(table: Any, file: Any) -> None:
    """Writes a pyarrow.Table to an opened text file."""
    require("pyarrow.parquet", "parquet").write_table(table, file.buffer)


@dataclass(frozen=True, slots=True)
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
    return [file for file, frame in files if file.is_file() and has_columns(file, frame)]


def has_columns(path: Path, frame: pd.DataFrame) -> bool:
    """True if a CSV or Parquet file has the frame's columns. Raises ConfigError if it cannot be read."""
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
NAME_DIGITS = 12  # of a file's name, so that names sort as numbers


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

    def __init__(self, table: Table, folder: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
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
        columns = {
            "seq": (self._seq, arrow.int64()),
            "at": (self._clock(), arrow.timestamp("ms", tz="UTC")),
            "op": (op, arrow.string()),
            "shard": (release and release.shard, arrow.int32()),
            "release": (release and release.number, arrow.int64()),
            "through": (release and release.through, arrow.int64()),
            "outside": (release and release.outside, arrow.bool_()),
        }
        said = {name: arrow.array([value] * n, kind) for name, (value, kind) in columns.items()}
        published = to_arrow(self._table, frame)
        return arrow.table(said | {name: published[name] for name in published.column_names})

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

GIVEN = "_given"  # the name of rows on their way into DuckDB; no table can have it
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


COPIES: Mapping[str, Callable[[Table, Path, str], Copy]] = {
    "csv": WholeFile,
    "parquet": lambda table, path, _: (WholeFile if is_parquet(path) else ChangesFolder)(table, path),
    "duckdb": lambda table, path, _: Duckdb(table, path),
}
"""Copies by the name of their option."""
