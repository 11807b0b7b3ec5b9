"""Whether the sink's table says the truth about the source's, decided by Postgres alone.

The private index says which QI group a person is in. It is a witness and not believed: it must name exactly the people
of the source; in each QI group the values of these people must be the published ones, each as often; and each of them
must be in the box that the QI group publishes. Where all that holds, published rows and people are matched perfectly.
"""

from __future__ import annotations

import csv
import threading
from dataclasses import dataclass
from pathlib import Path

import psycopg

from servers.pipeline.configurations import view_of
from streamer.table.codes import CategoricalAttribute, NumericAttribute
from streamer.table.published.rows import all_box_columns
from streamer.table.published.schemas import sink_table
from streamer.table.schema import Table

LOOK_SECONDS = 0.05


def faults(database: psycopg.Connection, table: Table, index: Path) -> dict[str, int]:
    """What is wrong, counted; empty where nothing is."""
    witness, boxes = f"{table.name}_witness", f"{table.name}_boxes"
    _load_witness(database, witness, index)
    _load_nodes(database, table)
    sink, key = sink_table(table), table.source_key[0]
    box = ", ".join(all_box_columns(table))
    database.execute(f"DROP TABLE IF EXISTS {boxes}")
    database.execute(f"CREATE TABLE {boxes} AS SELECT DISTINCT qi_group, {box} FROM {sink}")
    people = f"SELECT {key}::text FROM {table.name}"
    values = ", ".join(column.name for column in table.kept)
    meant = f"SELECT w.qi_group, {values} FROM {table.name} JOIN {witness} w ON w.source_key = {key}::text"
    told = f"SELECT qi_group, {values} FROM {sink}"
    joined = f"{table.name} p JOIN {witness} w ON w.source_key = p.{key}::text JOIN {boxes} b USING (qi_group)"
    inside = " AND ".join(_inside(table, attribute.name) for attribute in table.attributes)
    small = f"SELECT 1 FROM {sink} GROUP BY qi_group HAVING count(*) < {table.k}"
    questions = {
        "people who are missing": f"SELECT count(*) FROM ({people} EXCEPT SELECT source_key FROM {witness}) q",
        "people who are not there": f"SELECT count(*) FROM (SELECT source_key FROM {witness} EXCEPT {people}) q",
        "values missing in their QI group": f"SELECT count(*) FROM ({meant} EXCEPT ALL {told}) q",
        "values too many in their QI group": f"SELECT count(*) FROM ({told} EXCEPT ALL {meant}) q",
        "QI groups of several boxes": f"SELECT count(*) - count(DISTINCT qi_group) FROM {boxes}",
        "people outside their box": f"SELECT count(*) FROM {joined} WHERE ({inside}) IS NOT TRUE",
        "QI groups below k": f"SELECT count(*) FROM ({small}) q",
        "rows that the view hides": f"SELECT (SELECT count(*) FROM {sink}) - (SELECT count(*) FROM {view_of(table)})",
    }
    counted = {what: _count(database, question) for what, question in questions.items()}
    return {what: count for what, count in counted.items() if count}


def _inside(table: Table, name: str) -> str:
    """SQL's condition that a person's value of a column is in the published box."""
    attribute = next(one for one in table.attributes if one.name == name)
    if isinstance(attribute, NumericAttribute):
        return f"p.{name} BETWEEN b.{name}_lo::numeric AND b.{name}_hi::numeric"
    return (
        f"EXISTS (SELECT 1 FROM {table.name}_nodes n WHERE n.attribute = '{name}' AND n.node = b.{name} "
        f"AND n.leaf = p.{name})"
    )


def _load_witness(database: psycopg.Connection, name: str, index: Path) -> None:
    database.execute(f"DROP TABLE IF EXISTS {name}")
    database.execute(f"CREATE TABLE {name} (source_key text PRIMARY KEY, qi_group text)")
    with index.open(newline="") as file, database.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
        for source_key, qi_group in list(csv.reader(file))[1:]:
            copy.write_row((source_key, qi_group))


def _load_nodes(database: psycopg.Connection, table: Table) -> None:
    """Which leaves a published label stands for."""
    name = f"{table.name}_nodes"
    database.execute(f"DROP TABLE IF EXISTS {name}")
    database.execute(f"CREATE TABLE {name} (attribute text, node text, leaf text)")
    for attribute in table.attributes:
        if isinstance(attribute, CategoricalAttribute):
            hierarchy = attribute.hierarchy
            for node, (first, last) in hierarchy.interval_of.items():
                for leaf in range(first, last + 1):
                    row = (attribute.name, node, hierarchy.label(leaf, leaf))
                    database.execute(f"INSERT INTO {name} VALUES (%s, %s, %s)", row)


def _count(database: psycopg.Connection, question: str) -> int:
    row = database.execute(question).fetchone()
    assert row is not None
    return int(row[0])


@dataclass
class Seen:
    """What a reader saw of a table that is being changed.

    looks: how often it looked. broken: looks at which the view showed a QI group in a box with fewer than k rows.
    mixed: looks at which a QI group had several boxes in the sink. hidden: most rows that the view left out at a look.
    """

    looks: int = 0
    broken: int = 0
    mixed: int = 0
    hidden: int = 0


class Reader:
    """Someone who looks at the view all the time, in a thread of its own."""

    def __init__(self, database: psycopg.Connection, table: Table) -> None:
        self.seen = Seen()
        self._database = database
        box = ", ".join(all_box_columns(table))
        small = f"SELECT 1 FROM {view_of(table)} GROUP BY qi_group, {box} HAVING count(*) < {table.k}"
        several = f"SELECT 1 FROM {sink_table(table)} GROUP BY qi_group HAVING count(DISTINCT ({box})) > 1"
        self._question = (
            f"SELECT EXISTS ({small}), EXISTS ({several}), (SELECT count(*) FROM {sink_table(table)}) - "
            f"(SELECT count(*) FROM {view_of(table)})"
        )
        self._stopped = threading.Event()
        self._failure: psycopg.Error | None = None
        self._thread = threading.Thread(target=self._look, name="reader", daemon=True)
        self._thread.start()

    def stop(self) -> Seen:
        """Ends it; raises what ended it before."""
        self._stopped.set()
        self._thread.join()
        self._database.close()
        if self._failure is not None:
            raise self._failure
        return self.seen

    def _look(self) -> None:
        try:
            while not self._stopped.wait(LOOK_SECONDS):
                row = self._database.execute(self._question).fetchone()
                assert row is not None
                self.seen.looks += 1
                self.seen.broken += row[0]
                self.seen.mixed += row[1]
                self.seen.hidden = max(self.seen.hidden, row[2])
        except psycopg.Error as error:
            self._failure = error
