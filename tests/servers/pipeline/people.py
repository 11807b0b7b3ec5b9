"""A table of people in Postgres, and random changes to it as applications make them: in transactions, keys too."""

from __future__ import annotations

import random

import psycopg
from psycopg import sql

from servers.pipeline.configurations import SIGNALS
from worlds.patients import PROBLEMS

NAME = "Canary-7318"
"""Stands in a column that table.yaml does not name."""

TRANSACTION_CHANGES_MAX = 40


class People:
    """One table; its content is the truth."""

    def __init__(self, database: psycopg.Connection, name: str, seed: int = 3) -> None:
        self.name = name
        self._database = database
        self._rng = random.Random(seed)
        self._alive: list[int] = []
        self._born = 0
        self._run(
            "CREATE TABLE {} (id integer PRIMARY KEY, name text, age integer, zip integer, bmi numeric(4, 1), "
            "sex text, problem text)"
        )

    def load(self, count: int) -> None:
        """New rows, all at once."""
        columns = sql.SQL("COPY {} (id, name, age, zip, bmi, sex, problem) FROM STDIN").format(
            sql.Identifier(self.name)
        )
        with self._database.cursor() as cursor, cursor.copy(columns) as copy:
            for _ in range(count):
                copy.write_row((self._new_id(), *self._person()))

    def change(self, count: int) -> None:
        """So many random changes: half of them change a row, a tenth its primary key, the rest come and go."""
        while count > 0:
            size = min(count, self._rng.randint(1, TRANSACTION_CHANGES_MAX))
            with self._database.transaction():
                for _ in range(size):
                    self._change_one()
            count -= size

    def add_column(self) -> None:
        """What a new version of an application does; the column has a value in every row that comes."""
        self._run("ALTER TABLE {} ADD COLUMN note text DEFAULT 'none'")

    def truncate(self) -> None:
        self._run("TRUNCATE {}")
        self._alive.clear()

    def read_again(self) -> None:
        """Asks Debezium for an incremental snapshot."""
        data = f'{{"data-collections": ["public.{self.name}"], "type": "incremental"}}'
        self._database.execute(
            f"INSERT INTO {SIGNALS} VALUES (%s, 'execute-snapshot', %s)", (f"{self.name}-{self._rng.random()}", data)
        )

    def _change_one(self) -> None:
        draw = self._rng.random()
        if draw < 0.20 or len(self._alive) < 10:
            places = b", ".join([b"%s"] * 7).decode()
            columns = "(id, name, age, zip, bmi, sex, problem)"
            self._run(f"INSERT INTO {{}} {columns} VALUES ({places})", (self._new_id(), *self._person()))
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
            _, age, zip_code, bmi, _, problem = self._person()
            changed = "UPDATE {} SET age = %s, zip = %s, bmi = %s, problem = %s WHERE id = %s"
            self._run(changed, (age, zip_code, bmi, problem, source_key))

    def _new_id(self) -> int:
        self._born += 1
        self._alive.append(self._born)
        return self._born

    def _person(self) -> tuple[str, int, int, str, str, str]:
        rng = self._rng
        return (
            NAME,
            rng.randrange(120),
            rng.randrange(10000, 20000),
            f"{rng.randrange(150, 450) / 10}",
            rng.choice(["Female", "Male"]),
            rng.choice(PROBLEMS),
        )

    def _run(self, statement: str, values: tuple[object, ...] = ()) -> None:
        self._database.execute(sql.SQL(statement).format(sql.Identifier(self.name)), values or None)
