"""The judge of the pipeline finds each fault that is put in by hand, and nothing if there is none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from servers.pipeline.configurations import view_sql
from servers.pipeline.judge import faults
from servers.pipeline.people import People
from servers.pipeline.pipeline import Parts
from streamer.table.published.schemas import sink_table
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table
from worlds.kafka_and_redis import fresh_name
from worlds.patients import write_table

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]


@dataclass
class Published:
    """Four people in a QI group of their own, published rightly."""

    database: psycopg.Connection
    table: Table
    index: Path

    def change(self, statement: str) -> None:
        self.database.execute(statement.format(people=self.table.name, sink=sink_table(self.table)).encode())

    def faults(self) -> set[str]:
        return set(faults(self.database, self.table, self.index))


@pytest.fixture
def published(parts: Parts, tmp_path: Path) -> Iterator[Published]:
    parts.start()
    table = load_table(write_table(tmp_path, fresh_name()))
    with parts.postgres.connect() as database:
        People(database, table.name)
        database.execute(view_sql(table).encode())
        found = Published(database, table, tmp_path / "index.csv")
        people = "(1, 'n', 21, 10100, 20.1, 'Male', 'flu'), (2, 'n', 24, 10200, 22.4, 'Male', 'flu'), "
        people += "(3, 'n', 20, 10499, 20.0, 'Female', 'burn'), (4, 'n', 22, 10000, 21.0, 'Male', 'ulcer')"
        found.change(f"INSERT INTO {{people}} (id, name, age, zip, bmi, sex, problem) VALUES {people}")
        box = "age_lo, age_hi, zip_lo, zip_hi, bmi_lo, bmi_hi, sex"
        for slot, problem in enumerate(("burn", "flu", "flu", "ulcer")):
            row = f"('0-1', {slot}, 20, 24, 10000, 10499, 20, 22.4, '*', '{problem}')"
            found.change(f"INSERT INTO {{sink}} (qi_group, slot, {box}, problem) VALUES {row}")
        found.index.write_text("key,qi_group\n1,0-1\n2,0-1\n3,0-1\n4,0-1\n")
        yield found


def test_nothing_is_wrong_where_all_is_right(published: Published) -> None:
    assert published.faults() == set()


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DELETE FROM {people} WHERE id = 1", "people who are not there"),
        ("UPDATE {people} SET id = 7 WHERE id = 1", "people who are missing"),
        ("DELETE FROM {sink} WHERE slot = 0", "values missing in their QI group"),
        ("UPDATE {sink} SET slot = 9, problem = 'flu' WHERE slot = 0", "values too many in their QI group"),
        ("UPDATE {people} SET age = 25 WHERE id = 1", "people outside their box"),
        ("UPDATE {people} SET bmi = 22.5 WHERE id = 2", "people outside their box"),
        ("UPDATE {sink} SET sex = 'Male'", "people outside their box"),
        ("UPDATE {sink} SET age_hi = 29 WHERE slot = 0", "QI groups of several boxes"),
        ("UPDATE {sink} SET age_hi = 29 WHERE slot = 0", "rows that the view hides"),
        ("DELETE FROM {sink} WHERE slot < 2", "QI groups below k"),
    ],
)
def test_what_is_wrong_is_told(published: Published, statement: str, told: str) -> None:
    published.change(statement)
    assert told in published.faults()
