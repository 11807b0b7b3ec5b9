"""Where the people of a pipeline are: Postgres, which is the sink's too, or a server with a binlog."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import psycopg

from servers.pipeline.binlog_people import COLUMNS, BinlogPeople
from servers.pipeline.binlog_servers import CLINIC, CONNECTOR, BinlogServer
from servers.pipeline.configurations import Shape, shaped, source_config, source_sql
from servers.pipeline.people import PartitionedPeople, PayingPeople, People
from streamer.incremental.connect import connectors
from streamer.incremental.connect.connectors import Database
from streamer.table.schema import Table


class Source(Protocol):
    """One table's source; judged: the connection to Postgres, where the judge looks at it."""

    def add_columns(self, path: Path) -> None:
        """Says in table.yaml what the source has beside the example's columns."""

    def people(self, judged: psycopg.Connection, name: str) -> People:
        """Makes the table."""

    def prepare(self, judged: psycopg.Connection, table: Table) -> None:
        """Does what the SQL for the table's owner says."""

    def config(self, table: Table, shape: Shape) -> Mapping[str, str]:
        """Of the connector."""

    def show(self, judged: psycopg.Connection, people: People) -> None:
        """Lets the judge see the table as it is now."""


class PostgresSource:
    """The table lies where the judge looks."""

    def __init__(self, place: Database) -> None:
        self._place = place

    def add_columns(self, path: Path) -> None:
        pass

    def people(self, judged: psycopg.Connection, name: str) -> People:
        return People(judged, name)

    def prepare(self, judged: psycopg.Connection, table: Table) -> None:
        judged.execute(source_sql(table).encode())

    def config(self, table: Table, shape: Shape) -> Mapping[str, str]:
        return source_config(table, shape, self._place)

    def show(self, judged: psycopg.Connection, people: People) -> None:
        pass


class PayingSource(PostgresSource):
    """Its table has a long number."""

    def add_columns(self, path: Path) -> None:
        fee = "\n  fee: {role: keep, acknowledge_linkable: true, type: decimal}\nprivacy:"
        path.write_text(path.read_text().replace("\nprivacy:", fee))

    def people(self, judged: psycopg.Connection, name: str) -> People:
        return PayingPeople(judged, name)


class PartitionedSource(PostgresSource):
    """Its table has partitions."""

    def people(self, judged: psycopg.Connection, name: str) -> People:
        return PartitionedPeople(judged, name)


class BinlogSource:
    """The connector's user has the rights that are printed, and no others."""

    def __init__(self, server: BinlogServer, bootstrap: str) -> None:
        self._server = server
        self._bootstrap = bootstrap

    def add_columns(self, path: Path) -> None:
        path.write_text(path.read_text().replace("\nprivacy:", f"{COLUMNS}privacy:"))

    def people(self, judged: psycopg.Connection, name: str) -> People:
        return BinlogPeople(self._server.connect(), name)

    def prepare(self, judged: psycopg.Connection, table: Table) -> None:
        printed = connectors.source_sql(table, self._server.system, f"{CLINIC}.{table.name}")
        granted = re.findall(r"GRANT .+? TO", printed)
        said = re.sub(r"(?m)^--.*$", "", printed).split(";")
        with self._server.connect() as connection, connection.cursor() as cursor:
            for statement in [*filter(str.strip, said), *(f"{grant} '{CONNECTOR}'@'%'" for grant in granted)]:
                assert cursor.execute(statement) == 0, "the question for foreign keys has no answer"

    def config(self, table: Table, shape: Shape) -> Mapping[str, str]:
        place = Database("127.0.0.1", self._server.port, CLINIC)
        made = connectors.source_config(
            table, self._server.system, schemas=shape.schemas, database=place, kafka=self._bootstrap
        )
        return {**made, **shaped(made["transforms"], shape)}

    def show(self, judged: psycopg.Connection, people: People) -> None:
        assert isinstance(people, BinlogPeople)
        people.copy(judged)
