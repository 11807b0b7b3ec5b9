"""Where rows come from: one door to files of every kind, and to tables and queries of databases.

* A place is a file, "-", the URL of a database, or env:NAME, a variable that holds such a URL. Whatever it is,
  `RowSource.rows` gives what `read_rows` does: a DataFrame whose n-th row is data row n.
* A secret comes from the environment and stays there: a URL with a password is refused unless a variable holds it, no
  `RowSource` holds one, and what is printed of a URL is system, host and database.
* Drivers' errors may quote a query, a value or a setting: they are told by their codes alone.
* A database is read as a stream, in a transaction that only reads, and instants are read in UTC. A value that a driver
  cannot hold, such as the date `infinity`, is the database's own text.
* If a caller says which columns are wanted, no others of a table are read: they are there, and hold nothing. A query
  says itself what it reads.
* Libraries are imported when they are needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from streamer.errors import ConfigError, ServerUnreachable, UsageError, needs_extra
from streamer.table.csv_files import (
    LINES_AT_ONCE,
    TEXTS_REMEMBERED,
    checked_encoding,
    csv_chunks,
    csv_header,
    read_csv,
)
from streamer.table.files import PARQUET, STDIN, require_header
from streamer.table.parquet_files import (
    frame_of_arrow,
    is_parquet_source,
    parquet_names,
    parquet_parts,
    read_parquet,
    read_part,
)
from streamer.table.stray_rows import TITLES
from streamer.table.workbooks import rows_of_workbook

EXCEL = ".xlsx"
VARIABLE = "env:"
"""Before the name of a variable that holds the URL of a database."""

POSTGRESQL, MYSQL, SQLITE, DUCKDB = "postgresql", "mysql", "sqlite", "duckdb"
SYSTEMS = {one: one for one in (POSTGRESQL, MYSQL, SQLITE, DUCKDB)} | {"postgres": POSTGRESQL, "mariadb": MYSQL}
"""The databases by how a URL may begin."""

DRIVERS = {POSTGRESQL: "psycopg", MYSQL: "pymysql"}
PASSWORDS = {POSTGRESQL: "PGPASSWORD", MYSQL: "MYSQL_PWD"}
"""The variable of each system's own clients."""

IN_UTC = {
    POSTGRESQL: "SET TIME ZONE 'UTC'; SET DateStyle = 'ISO, YMD'",
    MYSQL: "SET time_zone = '+00:00'",
    DUCKDB: "SET TimeZone = 'UTC'",
}
READS_ONLY = {POSTGRESQL: "SET TRANSACTION READ ONLY", MYSQL: "SET SESSION TRANSACTION READ ONLY"}
"""MySQL's is of the session: MariaDB's DROP and CREATE end a transaction that only reads, and are done."""

CLOSED: dict[str, Any] = {"enable_external_access": "false"}
"""A query of DuckDB reads and writes no other file."""

_NO_ROWS = "the query gives no rows: write a SELECT"
_URL = re.compile(r"([A-Za-z][\w.+-]*)://")
_WHAT_STATES_MEAN = {
    "28": "it refuses the user or the password",
    "3D000": "there is no such database",
    "42501": "the user may not read this",
    "42P01": "there is no such table",
    "42703": "there is no such column",
    "42601": "the query is not valid SQL",
    "25006": "the query would change something; only reading is allowed",
}
"""By how an SQLSTATE begins."""

_STATES_OF_MYSQL = {
    1044: "28", 1045: "28", 1698: "28", 1049: "3D000", 1142: "42501", 1143: "42501", 1146: "42P01", 1054: "42703",
    1064: "42601", 1792: "25006",
}  # fmt: skip
_STATES_OF_DUCKDB = {"CatalogException": "42P01", "BinderException": "42703", "ParserException": "42601"}


def read_rows(path: str | Path, encoding: str | None = None, wanted: Collection[str] | None = None) -> pd.DataFrame:
    """A file of rows: Parquet, as Arrow columns by their types, or CSV as a table of texts (`csv_files.py`).

    wanted: the columns of Parquet that are read; None: all. Raises ConfigError if it cannot be read, and if Parquet is
    given and pyarrow is not installed.
    """
    return read_parquet(path, wanted) if is_parquet_source(path) else read_csv(path, encoding)


def column_names(path: str | Path, encoding: str | None = None) -> list[str]:
    """The names of the columns of a file of rows. Raises ConfigError as `read_rows` does."""
    return parquet_names(path) if is_parquet_source(path) else csv_header(path, encoding)


@dataclass(frozen=True)
class RowSource:
    """A place that rows are read from, and how. Raises UsageError for what does not go together."""

    place: str
    encoding: str | None = None
    sheet: str | None = None
    query: str | None = None

    def __post_init__(self) -> None:
        if self.encoding is not None:
            checked_encoding(self.encoding)
            if self.is_database or self._is_excel or is_parquet_source(self.place):
                raise UsageError("--encoding: is for CSV; these rows have none")
        if self.sheet is not None and not self._is_excel:
            raise UsageError(f"--sheet: is for a workbook of Excel, whose name ends with {EXCEL}")
        if self.query is not None and not self.is_database:
            raise UsageError("--query: is for a database; its URL is given instead of a file")
        if _URL.match(self.place):
            _without_secret(_parsed(self.place, "the URL"))

    @property
    def is_database(self) -> bool:
        """True if rows come from a database."""
        return self.place.startswith(VARIABLE) or _URL.match(self.place) is not None

    @property
    def _is_excel(self) -> bool:
        return not self.is_database and self.place.lower().endswith(EXCEL)

    def __str__(self) -> str:
        return self.place

    @property
    def words(self) -> list[str]:
        """The place and the options again, for a call that is shown; a query may hold values, and is left out."""
        options = {"--encoding": self.encoding, "--sheet": self.sheet, "--query": self.query and "…"}
        return [self.place, *(word for name, value in options.items() if value for word in (name, value))]

    @property
    def name(self) -> str:
        """The place in words that a reader may see."""
        if not self.is_database:
            return "standard input" if self.place == STDIN else Path(self.place).name
        url = self._url()
        table = url.query.get("table")
        return " ".join(filter(None, (_shown(url), f"table {table}" if table else "a query")))

    @property
    def stem(self) -> str:
        """A name for the table of these rows."""
        if not self.is_database:
            return self.sheet or Path(self.place).stem
        url = self._url()
        return str(url.query.get("table") or Path(url.database or "table").stem)

    @property
    def files(self) -> list[Path]:
        """The files that are read: outputs must not be written over them."""
        if not self.is_database:
            return [Path(self.place)]
        url = self._url()
        return [Path(url.database)] if _system(url) in (SQLITE, DUCKDB) and url.database else []

    def file(self, why: str) -> Path:
        """The place as a file of CSV or Parquet. Raises UsageError, which begins with `why`, for any other."""
        if self.is_database or self._is_excel:
            raise UsageError(f"{why} reads CSV and Parquet: write these rows into a {PARQUET} file first")
        return Path(self.place)

    def rows(self, wanted: Collection[str] | None = None) -> pd.DataFrame:
        """All rows; wanted: the columns that are read, None: all.

        Raises ConfigError, UsageError, LibraryMissing, ServerUnreachable.
        """
        if self.is_database:
            return next(_rows_of_database(self._url(), self.query, None, wanted))
        if self._is_excel:
            return _frame_of_workbook(self.place, self.sheet, wanted)
        return read_rows(self.place, self.encoding, wanted)

    def parts(self, rows_max: int, wanted: Collection[str] | None = None) -> Iterator[pd.DataFrame]:
        """The same, at most rows_max rows at a time, one part in memory; a workbook is read whole.

        If there are no rows, there may be one part without any, or none.
        """
        if self.is_database:
            yield from _rows_of_database(self._url(), self.query, rows_max, wanted)
        elif self._is_excel:
            yield _frame_of_workbook(self.place, self.sheet, wanted)
        elif is_parquet_source(self.place):
            for part in parquet_parts(self.place, rows_max):
                yield from (frame for _, frame in read_part(part, rows_max, wanted))
        else:
            yield from csv_chunks(self.place, rows_max, self.encoding)

    def _url(self) -> Any:
        name = self.place.removeprefix(VARIABLE)
        if name == self.place:
            return _parsed(self.place, "the URL")
        if not (text := os.environ.get(name)):
            raise UsageError(f"{self.place}: this variable is not set; give it the URL of a database")
        return _parsed(text, f"the URL in {name}")


# -- URLs -------------------------------------------------------------------------------------------------------------


def _parsed(text: str, what: str) -> Any:
    """A sqlalchemy.URL. Raises UsageError, which quotes nothing of a text that may hold a password."""
    with needs_extra("database"):
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError
    begin = _URL.match(text)
    if begin is None or begin[1].partition("+")[0].lower() not in SYSTEMS:
        raise UsageError(f"{what}: must begin with one of {', '.join(f'{system}://' for system in SYSTEMS)}")
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise UsageError(f"{what}: is not a URL such as postgresql://user@host:5432/database?table=people") from None
    if _system(url) in DRIVERS and "@" in f"{url.host}{url.database}{dict(url.query)}":
        raise UsageError(f"{what}: holds a mark in a name or a password that must be escaped: @ as %40, / as %2F")
    if not all(isinstance(value, str) for value in url.query.values()):
        raise UsageError(f"{what}: gives a setting twice")
    return url


def _without_secret(url: Any) -> None:
    """Raises UsageError if a URL of the command line holds a password, which every user of the machine could see."""
    if url.password is not None or any(re.search("pass|pwd|secret|token", name, re.I) for name in url.query):
        ways = f"{VARIABLE}NAME reads the whole URL from a variable"
        if variable := PASSWORDS.get(_system(url)):
            ways = f"give it in the variable {variable}; or {ways}"
        raise UsageError(f"the URL: holds a password, which other users of this machine can see: {ways}")


def _system(url: Any) -> str:
    return SYSTEMS[url.get_backend_name().lower()]


def _shown(url: Any) -> str:
    """System, host and database: nothing by which one could log in."""
    place = url.database or ""
    if _system(url) in DRIVERS:
        place = "/".join(filter(None, ((url.host or "") + (f":{url.port}" if url.port else ""), place)))
    return f"{_system(url)}://{place}"


# -- databases --------------------------------------------------------------------------------------------------------


def _rows_of_database(
    url: Any, query: str | None, rows_max: int | None, wanted: Collection[str] | None
) -> Iterator[pd.DataFrame]:
    """All rows in one frame, or at most rows_max at a time; at least one frame."""
    table, settings = url.query.get("table"), {name: value for name, value in url.query.items() if name != "table"}
    if (table is None) == (query is None):
        raise UsageError(f"{_shown(url)}: say what to read: ?table=NAME at the end of the URL, or --query, not both")
    system = _system(url)
    if system in (SQLITE, DUCKDB) and not os.path.isfile(url.database or ""):
        raise ConfigError(f"{_shown(url)}: cannot be read: {os.strerror(2)}")
    if system == DUCKDB:
        yield from _rows_of_duckdb(url, rows_max, partial(_asked, table, query, system, wanted))
        return
    with _connection(url.set(query=settings), system, _shown(url)) as connection:
        sql = _asked(table, query, system, wanted, lambda sql: connection.exec_driver_sql(sql).keys())
        found = connection.execution_options(stream_results=True, max_row_buffer=LINES_AT_ONCE).exec_driver_sql(sql)
        if not found.returns_rows:
            raise ConfigError(f"{_shown(url)}: {_NO_ROWS}")
        rows = map(tuple, found.yield_per(LINES_AT_ONCE))
        yield from _frames(_shown(url), list(found.keys()), rows, rows_max)


def _asked(
    table: str | None, query: str | None, system: str, wanted: Collection[str] | None,
    header_of: Callable[[str], Iterable[str]],
) -> str:  # fmt: skip
    """The query, or that of the table, `name` or `schema.name`, in which the columns that are not wanted are null."""
    if table is None:
        return query or ""
    place = _quoted(table, system)
    columns = {name: _quoted(name, system, whole=True) for name in header_of(f"SELECT * FROM {place} WHERE 1 = 0")}
    shown = (own if wanted is None or name in wanted else f"NULL AS {own}" for name, own in columns.items())
    return f"SELECT {', '.join(shown) or '*'} FROM {place}"


def _quoted(name: str, system: str, *, whole: bool = False) -> str:
    """A name in SQL; if it is not whole, `schema.name` are two."""
    mark = "`" if system == MYSQL else '"'
    return ".".join(mark + part.replace(mark, 2 * mark) + mark for part in ([name] if whole else name.split(".")))


@contextmanager
def _connection(url: Any, system: str, shown: str) -> Iterator[Any]:
    """A connection of SQLAlchemy that only reads."""
    with needs_extra("database"):
        from sqlalchemy import create_engine, text
        from sqlalchemy.exc import DBAPIError
        from sqlalchemy.pool import NullPool

        if system == SQLITE:
            place = f"file:{Path(url.database).resolve().as_uri().removeprefix('file:')}"
            url = url.set(database=place, query={"mode": "ro", "uri": "true"})
        else:
            password = url.password or os.environ.get(PASSWORDS[system])
            url = url.set(drivername=f"{system}+{DRIVERS[system]}", password=password)
        engine = create_engine(url, poolclass=NullPool, hide_parameters=True)
    is_open = False
    try:
        with engine.connect() as connection:
            is_open = True
            if system == POSTGRESQL:
                _take_texts_for_unreadable(connection.connection.dbapi_connection)
            for statement in filter(None, (IN_UTC.get(system), READS_ONLY.get(system))):
                connection.execute(text(statement))
            yield connection
    except DBAPIError as error:
        raise _told(shown, error.orig, is_open) from None
    except TypeError:  # a setting that the driver does not know
        if is_open:
            raise
        raise UsageError(f"{shown}: the URL has a setting that {DRIVERS.get(system, system)} has not") from None


def _take_texts_for_unreadable(connection: Any) -> None:
    """Lets psycopg give Postgres' text for a date or a time that Python has not: `infinity`, B.C., 24:00."""
    from psycopg import DataError
    from psycopg.adapt import Loader
    from psycopg.pq import Format

    def tolerant(strict: Any) -> type[Loader]:
        class Tolerant(Loader):
            def __init__(self, oid: int, context: Any = None) -> None:
                super().__init__(oid, context)
                self._strict = strict(oid, context).load

            def load(self, data: Any) -> Any:
                try:
                    return self._strict(data)
                except DataError:
                    return bytes(data).decode()

        return Tolerant

    for name in ("date", "time", "timetz", "timestamp", "timestamptz", "interval"):
        oid = connection.adapters.types[name].oid
        strict = connection.adapters.get_loader(oid, Format.TEXT)
        connection.adapters.register_loader(oid, tolerant(strict))


def _told(shown: str, error: Any, is_open: bool) -> Exception:
    """A driver's error by its code alone."""
    code = _STATES_OF_MYSQL.get((*error.args, None)[0]) or getattr(error, "sqlstate", None) or ""
    if not is_open and "password" in str(error):  # Postgres says it in words, before there is any code
        code = "28"
    name = code or type(error).__name__
    what = next((words for begin, words in _WHAT_STATES_MEAN.items() if code.startswith(begin)), None)
    if what is not None:
        return ConfigError(f"{shown}: cannot be read: {what}")
    if not is_open:
        return ServerUnreachable(f"{shown}: the database cannot be reached ({name})")
    return ConfigError(f"{shown}: cannot be read: the database refuses the query ({name})")


def _rows_of_duckdb(
    url: Any, rows_max: int | None, asked: Callable[[Callable[[str], Iterable[str]]], str]
) -> Iterator[pd.DataFrame]:
    """asked: makes the query; is called with what tells the columns of one."""
    with needs_extra("database"):
        import duckdb
        import pyarrow as arrow
    shown = _shown(url)
    try:
        with duckdb.connect(url.database, read_only=True, config=CLOSED) as connection:
            connection.execute(IN_UTC[DUCKDB])
            if (query := connection.sql(asked(lambda sql: connection.sql(sql).columns))) is None:
                raise ConfigError(f"{shown}: {_NO_ROWS}")
            if rows_max is None:
                yield frame_of_arrow(shown, query.to_arrow_table())
                return
            reader = getattr(query, "to_arrow_reader", None) or query.fetch_arrow_reader  # its name before DuckDB 1.5
            for batch in reader(rows_max):
                yield frame_of_arrow(shown, arrow.Table.from_batches([batch]))
    except (duckdb.Error, OSError, arrow.ArrowException) as error:  # Arrow's are DuckDB's, in Arrow's stream
        name = type(error).__name__
        what = _WHAT_STATES_MEAN.get(_STATES_OF_DUCKDB.get(name, ""), f"the database refuses the query ({name})")
        raise ConfigError(f"{shown}: cannot be read: {what}") from None


# -- workbooks --------------------------------------------------------------------------------------------------------


def _frame_of_workbook(path: str, sheet: str | None, wanted: Collection[str] | None) -> pd.DataFrame:
    header, rows, titles = rows_of_workbook(path, sheet, wanted)
    frame = next(_frames(path, header, rows, None))
    frame = frame.apply(_with_times) if len(frame) else frame
    frame.attrs[TITLES] = titles
    return frame


def _with_times(cells: pd.Series[Any]) -> pd.Series[Any]:
    """A column with a time of day has one in each cell: midnight, which Excel writes as a date."""
    if not any(isinstance(cell, datetime) for cell in cells):
        return cells
    return cells.map(lambda cell: datetime.combine(cell, time()) if type(cell) is date else cell).astype(object)


def _frames(
    what: str, header: list[str], rows: Iterable[tuple[Any, ...]], rows_max: int | None
) -> Iterator[pd.DataFrame]:
    """Rows of values as columns of objects, at least one frame; equal texts of a column are one in memory."""
    require_header(what, header)
    known: list[dict[str, str]] = [{} for _ in header]
    rows = iter(rows)
    while True:
        columns: list[list[Any]] = [[] for _ in header]
        part = rows if rows_max is None else islice(rows, rows_max)
        while some := list(islice(part, LINES_AT_ONCE)):
            for column, texts, cells in zip(columns, known, zip(*some, strict=True), strict=True):
                keep = texts.setdefault if len(texts) < TEXTS_REMEMBERED else texts.get
                column.extend(keep(cell, cell) if type(cell) is str else cell for cell in cells)
        named = zip(header, columns, strict=True)
        yield (frame := pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in named}, columns=header))
        if rows_max is None or len(frame) < rows_max:
            return
