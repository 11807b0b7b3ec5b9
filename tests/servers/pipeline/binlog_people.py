"""People in a database with a binlog: a column of every type that such a database writes in a way of its own.

The judge asks Postgres alone. So what stands in the source is copied there as it is: numbers and texts, and what is a
date, a time or a clock as the ISO text that a reader of the published table expects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import Any

import psycopg

from servers.pipeline.binlog_servers import CLINIC
from servers.pipeline.people import People, Row

COLUMNS = """
  born:    {role: keep, acknowledge_linkable: true, type: date}
  seen:    {role: keep, acknowledge_linkable: true, type: local-timestamp}
  stamp:   {role: keep, acknowledge_linkable: true, type: timestamp}
  insured: {role: keep, acknowledge_linkable: true, type: boolean}
  since:   {role: keep, acknowledge_linkable: true, type: integer}
  late:    {role: keep, acknowledge_linkable: true, type: text}
"""
"""What table.yaml says of the columns beside those of the example."""

MICROSECOND = timedelta(microseconds=1)


class BinlogPeople(People):
    """One table in MySQL or MariaDB."""

    MADE = (
        "CREATE TABLE {} (id integer PRIMARY KEY, name text, age smallint unsigned, zip mediumint, bmi decimal(4, 1), "
        "sex enum('Female', 'Male'), problem varchar(20), born date, seen datetime(6), stamp timestamp(3) NULL, "
        "insured tinyint(1), since year, late time(2))"
    )
    COLUMNS = f"{People.COLUMNS}, born, seen, stamp, insured, since, late"
    SCHEMA = CLINIC

    def copy(self, judged: psycopg.Connection) -> None:
        """Puts the table as it is now where the judge looks for it."""
        judged.execute(
            f"CREATE TABLE IF NOT EXISTS {self.name} (id integer PRIMARY KEY, name text, age integer, zip integer, "
            "bmi numeric, sex text, problem text, born text, seen text, stamp text, insured boolean, since bigint, "
            "late text)"
        )
        judged.execute(f"TRUNCATE {self.name}")
        with self._database.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(f"SELECT {self.COLUMNS} FROM {self.name}")
            rows = cursor.fetchall()
        with judged.cursor() as into, into.copy(f"COPY {self.name} ({self.COLUMNS}) FROM STDIN") as copy:
            for *plain, born, seen, stamp, insured, since, late in rows:
                instant = None if stamp is None else f"{_text(stamp)}Z"
                copy.write_row((*plain, _text(born), _text(seen), instant, bool(insured), since, _text(late)))

    def count(self) -> int:
        with self._database.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {self.name}")
            return int(cursor.fetchone()[0])

    def _person(self) -> Row:
        rng = self._rng
        seen = datetime(1960, 1, 1) + rng.randrange(10**15) * MICROSECOND
        stamp = datetime(1980, 1, 1) + rng.randrange(10**12) * timedelta(milliseconds=1)
        late = timedelta(milliseconds=10 * rng.randrange(-(10**7), 10**7))
        born = date(1000 + rng.randrange(1000), 2, 28)
        return (*super()._person(), born, seen, stamp, rng.randrange(2), rng.randrange(1901, 2156), late)

    def _run(self, statement: str, values: Row = ()) -> None:
        with self._database.cursor() as cursor:
            cursor.execute(statement.format(f"`{self.name}`"), values or None)

    def _write(self, rows: Iterable[Row]) -> None:
        with self._transaction():
            for row in rows:
                self._run(f"INSERT INTO {{}} ({self.COLUMNS}) VALUES ({', '.join(['%s'] * len(row))})", row)

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        self._database.begin()
        yield
        self._database.commit()


def _text(value: date | datetime | timedelta | None) -> str | None:
    """In ISO's form. A moment's fraction has six digits, where there is one; a time of day's those that it needs."""
    if value is None or isinstance(value, date):  # a datetime is a date, too
        return None if value is None else value.isoformat()
    sign, value = ("-" if value < timedelta(0) else ""), abs(value)
    seconds, micros = divmod(value // MICROSECOND, 10**6)
    clock = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{clock}.{micros:06}".rstrip("0").rstrip(".")
