"""A table of people, and random changes to it as applications make them: in transactions, keys too.

What SQL of Postgres' and of a binlog's servers have in common is said here; `binlog_source` says the rest of the other.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from psycopg import sql

from streamer.incremental.connect.connectors import SIGNALS
from worlds.patients import PROBLEMS

NAME = "Canary-7318"
"""Stands in a column that table.yaml does not name."""

TRANSACTION_CHANGES_MAX = 40


Row = tuple[object, ...]


class People:
    """One table in Postgres; its content is the truth."""

    MADE = (
        "CREATE TABLE {} (id integer PRIMARY KEY, name text, age integer, zip integer, bmi numeric(4, 1), sex text, "
        "problem text)"
    )
    COLUMNS = "id, name, age, zip, bmi, sex, problem"

    SCHEMA = "public"

    def __init__(self, database: Any, name: str, seed: int = 3) -> None:
        self.name = name
        self._database = database
        self._rng = random.Random(seed)
        self._alive: list[int] = []
        self._born = 0
        self._run(self.MADE)

    def load(self, count: int) -> None:
        """New rows, all at once."""
        self._write([(self._new_id(), *self._person()) for _ in range(count)])

    def change(self, count: int) -> None:
        """So many random changes: half of them change a row, a tenth its primary key, the rest come and go."""
        while count > 0:
            size = min(count, self._rng.randint(1, TRANSACTION_CHANGES_MAX))
            with self._transaction():
                for _ in range(size):
                    self._change_one()
            count -= size

    def add_column(self) -> None:
        """What a new version of an application does; the column has a value in every row that comes."""
        self._run("ALTER TABLE {} ADD COLUMN note varchar(20) DEFAULT 'none'")

    def truncate(self) -> None:
        self._run("TRUNCATE {}")
        self._alive.clear()

    def read_again(self) -> None:
        """Asks Debezium for an incremental snapshot."""
        data = f'{{"data-collections": ["{self.SCHEMA}.{self.name}"], "type": "incremental"}}'
        told = (f"{self.name}-{self._rng.random()}", data)
        self._run(f"INSERT INTO {SIGNALS} VALUES (%s, 'execute-snapshot', %s)", told)

    def _change_one(self) -> None:
        draw = self._rng.random()
        if draw < 0.20 or len(self._alive) < 10:
            row = (self._new_id(), *self._person())
            self._run(f"INSERT INTO {{}} ({self.COLUMNS}) VALUES ({', '.join(['%s'] * len(row))})", row)
            return
        place = self._rng.randrange(len(self._alive))
        source_key = self._alive[place]
        if draw < 0.40:
            self._alive[place] = self._alive[-1]
            self._alive.pop()
            self._run("DELETE FROM {} WHERE id = %s", (source_key,))
        elif draw < 0.50:
            self._alive[place] = self._alive[-1]
            self._alive.pop()
            self._run("UPDATE {} SET id = %s WHERE id = %s", (self._new_id(), source_key))
        elif draw < 0.75:
            self._run("UPDATE {} SET age = %s WHERE id = %s", (self._rng.randrange(120), source_key))
        else:
            _, age, zip_code, bmi, _, problem, *_ = self._person()
            changed = "UPDATE {} SET age = %s, zip = %s, bmi = %s, problem = %s WHERE id = %s"
            self._run(changed, (age, zip_code, bmi, problem, source_key))

    def _new_id(self) -> int:
        self._born += 1
        self._alive.append(self._born)
        return self._born

    def _person(self) -> Row:
        rng = self._rng
        return (
            NAME,
            rng.randrange(120),
            rng.randrange(10000, 20000),
            f"{rng.randrange(150, 450) / 10}",
            rng.choice(["Female", "Male"]),
            rng.choice(PROBLEMS),
        )

    # -- what is Postgres' own ---------------------------------------------------------------------------------------

    def count(self) -> int:
        """How many there are."""
        row = self._database.execute(f"SELECT count(*) FROM {self.name}").fetchone()
        return int(row[0])

    def _run(self, statement: str, values: Row = ()) -> None:
        self._database.execute(sql.SQL(statement).format(sql.Identifier(self.name)), values or None)

    def _write(self, rows: Iterable[Row]) -> None:
        copied = sql.SQL(f"COPY {{}} ({self.COLUMNS}) FROM STDIN").format(sql.Identifier(self.name))
        with self._database.cursor() as cursor, cursor.copy(copied) as copy:
            for row in rows:
                copy.write_row(row)

    def _transaction(self) -> AbstractContextManager[Any]:
        transaction: AbstractContextManager[Any] = self._database.transaction()
        return transaction


class PayingPeople(People):
    """The same with a number of more digits than a binary float has."""

    MADE = People.MADE.removesuffix(")") + ", fee numeric DEFAULT 12345678901234567890.123456789)"


class PartitionedPeople(People):
    """The same in three partitions by the primary key, which a tenth of the changes gives a row anew."""

    MADE = People.MADE + " PARTITION BY RANGE (id)"

    def __init__(self, database: Any, name: str, seed: int = 3) -> None:
        super().__init__(database, name, seed)
        for number, (begin, end) in enumerate([("MINVALUE", "150"), ("150", "350"), ("350", "MAXVALUE")]):
            part = f"{name}_{number}"
            self._database.execute(f"CREATE TABLE {part} PARTITION OF {name} FOR VALUES FROM ({begin}) TO ({end})")
