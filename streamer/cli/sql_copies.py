"""The published table in a database of its own file, SQLite or DuckDB, and a quick look at it in SQL.

The rules of this file
----------------------
* A table of the database is named as table.yaml names it (a lossy join: `<table>_qit` and `<table>_stt`). Its first
  column, `_record`, is the key of the record that a row came with. Beside it stand `streamer_releases`, the last
  release of every shard that the table shows and how far of the input that is, and `streamer_tables`: what was made.
* The whole table is put in place in one transaction, and so is every batch of releases: whoever reads the database
  meanwhile has the table before it or behind it.
* Only what `subscribe` made of this very table.yaml's table is ever dropped, also what another form of it made: any
  other table of a name that is wanted, in whatever case, is somebody else's.
* What has no type of its own in SQLite (Decimals, dates, timestamps) is text there. DuckDB has Arrow's types.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd

from streamer.cli.copies import Changed, Frames, check_columns
from streamer.errors import StreamerError, UsageError
from streamer.incremental.release.arrow import arrow_types, require, to_arrow
from streamer.incremental.release.fold import Release
from streamer.incremental.release.frames import PUBLISHED, RECORD
from streamer.table.published_group import COUNT
from streamer.table.scalars import decimal_text
from streamer.table.schema import Table
from streamer.table.typed_frame import column_types, with_iso_texts

RELEASES = "streamer_releases"
SQLITE_TYPES = {"int64": "INTEGER", "float64": "REAL"}
TABLES = "streamer_tables"
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


class Database:
    """What SQLite and DuckDB have in common; `connection` runs SQL, and nothing is committed by itself."""

    names_used = ""
    """Asks for the names of all tables and views."""

    def __init__(self, table: Table, connection: Any, error: type[Exception]) -> None:
        check_columns(table)
        self._table, self._connection, self._error = table, connection, error

    def begin(self, frames: Frames, releases: Sequence[Release]) -> None:
        with self._transaction():
            self._make_room([table_name(self._table, name) for name in frames])
            for name, frame in frames.items():
                made = table_name(self._table, name)
                self.make(quoted(made), frame)
                self.insert(quoted(made), frame)
                self._connection.execute(f"CREATE INDEX {quoted(made + RECORD)} ON {quoted(made)} ({RECORD})")
                self._connection.execute(f"INSERT INTO {TABLES} VALUES (?, ?)", (self._table.name, made))
            self._note(releases)

    def change(self, changed: Changed) -> None:
        with self._transaction():
            for name, frame in changed.frames.items():
                table = quoted(table_name(self._table, name))
                self.delete(table, changed.records)
                self.insert(table, frame)
            self._note(changed.releases)

    def make(self, table: str, frame: pd.DataFrame) -> None:
        columns = ", ".join(f"{quoted(name)} {self.type_of(name)}" for name in frame.columns)
        self._connection.execute(f"CREATE TABLE {table} ({columns})")

    def type_of(self, column: str) -> str:
        raise NotImplementedError

    def insert(self, table: str, frame: pd.DataFrame) -> None:
        raise NotImplementedError

    def delete(self, table: str, records: Sequence[str]) -> None:
        raise NotImplementedError

    def _make_room(self, wanted: Sequence[str]) -> None:
        """Drops what was made of the table before. Raises UsageError where a name is somebody else's."""
        for statement in _MAKE_OURS:
            self._connection.execute(statement)
        ours = self._connection.execute(f"SELECT made FROM {TABLES} WHERE table_name = ?", (self._table.name,))
        for (made,) in ours.fetchall():
            self._connection.execute(f"DROP TABLE IF EXISTS {quoted(made)}")
        for notes in (TABLES, RELEASES):
            self._connection.execute(f"DELETE FROM {notes} WHERE table_name = ?", (self._table.name,))
        used = {str(name).casefold() for (name,) in self._connection.execute(self.names_used).fetchall()}
        if foreign := [name for name in wanted if name.casefold() in used]:
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


class Sqlite(Database):
    """A table in a file of SQLite."""

    names_used = "SELECT name FROM sqlite_master"

    def __init__(self, table: Table, path: Path) -> None:
        with _opening(path, sqlite3.Error):
            connection = sqlite3.connect(path, isolation_level=None)
            connection.execute("PRAGMA journal_mode = WAL")  # readers see the table before, and are not waited for
        super().__init__(table, connection, sqlite3.Error)
        self._columns = column_types(table)

    def type_of(self, column: str) -> str:
        """A column without a type of its own keeps a value as it is given."""
        kept = {kept.name for kept in self._table.kept}
        return (
            ""
            if column in kept
            else SQLITE_TYPES.get(self._columns.get(column, ""), "TEXT" if column != COUNT else "INTEGER")
        )

    def insert(self, table: str, frame: pd.DataFrame) -> None:
        places = ", ".join("?" * len(frame.columns))
        rows = zip(*(map(_of_sqlite, with_iso_texts(frame[name]).tolist()) for name in frame.columns), strict=True)
        self._connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows)

    def delete(self, table: str, records: Sequence[str]) -> None:
        self._connection.executemany(f"DELETE FROM {table} WHERE {RECORD} = ?", ((record,) for record in records))


class Duckdb(Database):
    """A table in a file of DuckDB, which nobody else can open while it is kept current."""

    names_used = "SELECT table_name FROM information_schema.tables"

    def __init__(self, table: Table, path: Path) -> None:
        duckdb = require("duckdb", "duckdb")
        self._types = arrow_types(table)
        with _opening(path, duckdb.Error):
            super().__init__(table, duckdb.connect(str(path)), duckdb.Error)

    def make(self, table: str, frame: pd.DataFrame) -> None:
        self._with(frame.iloc[:0], f"CREATE TABLE {table} AS SELECT * FROM given")

    def insert(self, table: str, frame: pd.DataFrame) -> None:
        self._with(frame, f"INSERT INTO {table} SELECT * FROM given")

    def delete(self, table: str, records: Sequence[str]) -> None:
        self._connection.execute(f"DELETE FROM {table} WHERE {RECORD} IN (SELECT unnest(?))", (list(records),))

    def _with(self, frame: pd.DataFrame, statement: str) -> None:
        self._connection.register("given", to_arrow(self._table, frame))
        self._connection.execute(statement)
        self._connection.unregister("given")


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


def _of_sqlite(value: Any) -> Any:
    if isinstance(value, Decimal):
        return decimal_text(value)
    return str(value) if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63 else value


@contextmanager
def _opening(path: Path, error: type[Exception]) -> Iterator[None]:
    try:
        yield
    except error:
        raise UsageError(f"{path}: cannot be opened as a database: does another program hold it?") from None
