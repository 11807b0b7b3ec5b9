"""Copies of the published table that `subscribe` keeps current: CSV, Parquet, a folder of changes, DuckDB.

The rules of this file
----------------------
* A copy is told the whole table first, then every batch of complete releases. A reader of the topic always begins at
  its beginning, so a copy needs no memory of where it stood: what it held before is replaced, at once.
* Whoever looks at a copy sees whole releases only: a file appears as a whole, a database changes in one transaction.
* What a batch of releases changed is netted: of each record the last value counts. The whole table is made only for a
  copy that asks for it: a file, which is written anew. What the others do costs what the releases are, not the table.
* One run at a time keeps a folder or a database; any other is refused.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol

import pandas as pd

from streamer.errors import ConfigError, StreamerError, UsageError
from streamer.incremental.release.arrow import require, to_arrow
from streamer.incremental.release.fold import Release
from streamer.incremental.release.frames import PUBLISHED, RECORD, frame_names, recorded_frames
from streamer.table.schema import Table
from streamer.table.written_files import atomic_writer, atomic_writers, table_files, write_rows

Frames = Mapping[str, pd.DataFrame]
"""Recorded frames, by name."""


@dataclass(frozen=True)
class Changed:
    """What some releases did, given in their order; whole: makes the table as it is after them.

    What a copy does not ask for is not made.
    """

    table: Table
    releases: Sequence[Release]
    whole: Callable[[], Frames]

    @cached_property
    def records(self) -> tuple[str, ...]:
        """The keys of the records that are gone or replaced, each once."""
        return tuple(key.decode() for key in self._last)

    @cached_property
    def frames(self) -> Frames:
        """The rows that replace them. Raises LawViolated."""
        return recorded_frames(self.table, [(key, value) for key, value in self._last.items() if value is not None])

    @cached_property
    def _last(self) -> dict[bytes, bytes | None]:
        return {key: value for release in self.releases for key, value in release.records}


class Copy(Protocol):
    """Where the table is kept current."""

    def begin(self, frames: Frames, releases: Sequence[Release]) -> None:
        """Replaces whatever was there by the whole table; releases: the last ones that it shows."""

    def change(self, changed: Changed) -> None:
        """Follows some releases."""

    def close(self) -> None:
        """Lets another run have it."""


def check_columns(table: Table) -> None:
    """Raises ConfigError if the table has a column of the name that copies keep records under."""
    if RECORD in {column.name for column in (*table.attributes, *table.kept)}:
        raise ConfigError(f"column {RECORD!r}: a database or a folder needs this name for itself: rename the column")


# -- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WholeFile:
    """A CSV or Parquet file, or one for each of several tables, written anew whenever the table has changed.

    CSV: numbers as shortest decimals, a null as an empty cell. Parquet: the types of `release.arrow`.
    """

    table: Table
    path: Path
    is_text: bool

    def begin(self, frames: Frames, releases: Sequence[Release]) -> None:
        with atomic_writers(table_files(self.path, list(frames)), text=self.is_text) as files:
            for frame, file in zip(frames.values(), files, strict=True):
                if self.is_text:
                    write_rows(frame.iloc[:, 1:], file)
                else:
                    arrow_table = to_arrow(self.table, frame.iloc[:, 1:])
                    require("pyarrow.parquet", "parquet").write_table(arrow_table, file)

    def change(self, changed: Changed) -> None:
        self.begin(changed.whole(), changed.releases)

    def close(self) -> None: ...


# -- a folder of changes ----------------------------------------------------------------------------------------------

START, UPSERT, REMOVAL = "start", "upsert", "removal"
WHERE = ("shard", "release", "through", "outside")
DIGITS = 12
"""Of a file's name: names sort as numbers."""


def _now() -> datetime:
    return datetime.now(UTC)


class ChangesFolder:
    """A folder of Parquet files, one for every look at the topic that found changes; clock: the time beside them.

    * Files lie by day, as Hive has it: `<folder>/date=2026-11-22/000000000042.parquet`. The number is that of the
      file's first change, `seq`, which grows over the whole folder; a release is one number.
    * Every run of `subscribe` begins with a file whose first row says `op` = start, followed by the whole table: what
      has a lower `seq` counts no more. Then `upsert` and `removal`: of each `_record` the rows of the highest `seq`
      count. So the table as it is now is, in DuckDB's SQL:

          WITH seen AS (FROM read_parquet('folder/**/*.parquet')),
               run  AS (FROM seen WHERE seq >= (SELECT max(seq) FROM seen WHERE op = 'start'))
          FROM run WHERE op = 'upsert' AND (_record, seq) IN (SELECT (_record, max(seq)) FROM run GROUP BY _record)

    * A lossy join has a folder for each of its tables in it, `qit` and `stt`.
    * A lock that goes with the process (`.lock`) and the table's name (`.table`) shut any other out.
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

    def begin(self, frames: Frames, releases: Sequence[Release]) -> None:
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

    def _rows(self, frame: pd.DataFrame, op: str, release: Release | None = None) -> Any:
        """Rows of a recorded frame after the columns that say what happened to them, and when."""
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
        with atomic_writer(folder / f"{seq:0{DIGITS}}.parquet") as file:
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
                f"{files[-1]}: is no file of changes: name an empty folder, or one of this command"
            ) from None


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made: {error.strerror}") from None


def _locked(folder: Path, table_name: str) -> IO[bytes]:
    """The folder for this process and this table alone, for as long as the file is open. Raises UsageError."""
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
        raise UsageError(f"{folder}: another `subscribe` keeps this folder: only one may write into it") from None
    except UsageError:
        lock.close()
        raise
    return lock


# -- DuckDB -----------------------------------------------------------------------------------------------------------

GIVEN = "_given"
"""What rows are called on their way into DuckDB: no table of table.yaml is called so."""

RELEASES, TABLES = "streamer_releases", "streamer_tables"
_MAKE_OURS = (
    f"CREATE TABLE IF NOT EXISTS {RELEASES} (table_name TEXT, shard INTEGER, release BIGINT, through BIGINT)",
    f"CREATE TABLE IF NOT EXISTS {TABLES} (table_name TEXT, made TEXT)",
)


def table_name(table: Table, frame: str) -> str:
    """What the table of a frame is called in a database."""
    return table.name if frame == PUBLISHED else f"{table.name}_{frame}"


def quoted(name: str) -> str:
    """An identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


class Duckdb:
    """The published table in a file of DuckDB, which nobody else can open while it is kept current.

    * A table of the database is named as table.yaml names it (a lossy join: `<table>_qit` and `<table>_stt`). Its
      first column, `_record`, is the key of the record that a row came with; its types are Arrow's.
    * `streamer_releases` says the last release of every shard that the table shows, and how far of the input that is;
      `streamer_tables` what was made. Only what `subscribe` made of this very table is ever dropped, also what another
      form of it made: any other table of a name that is wanted, in whatever case, is somebody else's.
    """

    def __init__(self, table: Table, path: Path) -> None:
        check_columns(table)
        duckdb = require("duckdb", "duckdb")
        self._table, self._error = table, duckdb.Error
        try:
            self._connection = duckdb.connect(str(path))
        except duckdb.Error:
            raise UsageError(f"{path}: cannot be opened as a database: does another program hold it?") from None

    def begin(self, frames: Frames, releases: Sequence[Release]) -> None:
        names = {name: table_name(self._table, name) for name in frames}
        with self._transaction():
            self._make_room(list(names.values()))
            for name, made in names.items():
                self._with(frames[name], f"CREATE TABLE {quoted(made)} AS SELECT * FROM {GIVEN}")
                self._connection.execute(f"CREATE INDEX {quoted(f'_{made}{RECORD}')} ON {quoted(made)} ({RECORD})")
                self._connection.execute(f"INSERT INTO {TABLES} VALUES (?, ?)", (self._table.name, made))
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
        """Drops what was made of the table before. Raises UsageError if a name is somebody else's."""
        for statement in _MAKE_OURS:
            self._connection.execute(statement)
        ours = self._connection.execute(f"SELECT made FROM {TABLES} WHERE table_name = ?", (self._table.name,))
        for (made,) in ours.fetchall():
            self._connection.execute(f"DROP TABLE IF EXISTS {quoted(made)}")
        for notes in (TABLES, RELEASES):
            self._connection.execute(f"DELETE FROM {notes} WHERE table_name = ?", (self._table.name,))
        used = self._connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
        names = {str(name).casefold() for (name,) in used}
        if foreign := [name for name in wanted if name.casefold() in names]:
            raise UsageError(f"the database has a {foreign[0]!r} that this table did not make: name another database")

    def _note(self, releases: Sequence[Release]) -> None:
        for release in {release.shard: release for release in releases}.values():
            where = (self._table.name, release.shard)
            self._connection.execute(f"DELETE FROM {RELEASES} WHERE table_name = ? AND shard = ?", where)
            row = (*where, release.number, release.through)
            self._connection.execute(f"INSERT INTO {RELEASES} VALUES (?, ?, ?, ?)", row)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing. Raises StreamerError for what the database says, without its text, which may quote values."""
        try:
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
    """The answer to a query in DuckDB's SQL over the published table, which can reach nothing else.

    Raises UsageError for what DuckDB cannot run.
    """
    duckdb = require("duckdb", "duckdb")
    with duckdb.connect(config={"enable_external_access": False}) as connection:
        for name, frame in frames.items():
            connection.register(table_name(table, name), to_arrow(table, frame.iloc[:, 1:]))
        try:
            answer = connection.execute(query)
            if answer.description is None:
                raise UsageError("--sql: is no query")
            return pd.DataFrame(answer.fetchall(), columns=[column[0] for column in answer.description], dtype=object)
        except duckdb.Error as error:
            raise UsageError(f"--sql: {str(error).splitlines()[0]}") from None


# -- what `subscribe` offers ------------------------------------------------------------------------------------------


def _parquet(table: Table, path: Path) -> Copy:
    return WholeFile(table, path, is_text=False) if path.suffix == ".parquet" else ChangesFolder(table, path)


COPIES: Mapping[str, Callable[[Table, Path], Copy]] = {
    "csv": lambda table, path: WholeFile(table, path, is_text=True),
    "parquet": _parquet,
    "duckdb": Duckdb,
}
"""Copies by the option that names them."""
