"""What MySQL's and MariaDB's connectors need beside what every source of Debezium's does, and what no binlog tells.

Both read the binlog and are told the same; one system's connector may get along with the other system, but each is
meant for its own. `UNTOLD` stands in no configuration: it is printed with the SQL for the table's owner, and by
`check --connector`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

from streamer.incremental.connectors.database import MARIADB, MYSQL
from streamer.table.schema import Table

BINLOGS = {
    MYSQL: "io.debezium.connector.mysql.MySqlConnector",
    MARIADB: "io.debezium.connector.mariadb.MariaDbConnector",
}

UNTOLD = (
    "the binlog does not tell of rows that a foreign key changes by CASCADE or SET NULL (MariaDB, MySQL before 9.6), "
    "that a session writes with binlog_format=STATEMENT or without the log, or that go with a table or a part of one "
    "(DROP, RENAME, ALTER TABLE ... PARTITION): these stay published as they were",
    "values that come as others: a zero date in a column that is NOT NULL as 1970-01-01, BIGINT UNSIGNED from 2^63 on "
    "as negative; and a TIMESTAMP with a fraction is no part of a primary key: a snapshot and a change write it in two "
    "ways",
)
"""What is lost or misread in silence, whatever the connector's settings."""

SERVER_IDS = range(1 << 16, 1 << 31)
"""Small numbers are the servers' own."""

_BOOLEANS = "io.debezium.connector.binlog.converters.TinyIntOneToBooleanConverter"


def binlog_settings(table: Table, relation: str, kafka: str) -> dict[str, str]:
    """The settings of a connector that reads a binlog; kafka: bootstrap servers, where it keeps the table's history."""
    booleans = ",".join(re.escape(f"{relation}.{column.name}") for column in table.kept if column.type == "boolean")
    return {
        "database.server.id": str(server_id(table.name)),
        "database.include.list": re.escape(relation.rpartition(".")[0]),
        "schema.history.internal.kafka.bootstrap.servers": kafka,
        "schema.history.internal.kafka.topic": f"{table.name}.schema-history",
        "schema.history.internal.store.only.captured.tables.ddl": "true",
        "include.schema.changes": "false",
        **({"converters": "boolean", "boolean.type": _BOOLEANS, "boolean.selector": booleans} if booleans else {}),
    }


def server_id(table_name: str) -> int:
    """By what a server tells its replicas apart: of two with one number it sends the first one away."""
    return SERVER_IDS[zlib.crc32(table_name.encode()) % len(SERVER_IDS)]


def binlog_sql(relation: str, source: str, signals: str, signal_table: str) -> Iterator[str]:
    """What the owner of the source's table runs once; source, signals: names in quotes."""
    database, _, name = relation.rpartition(".")
    by_itself = "('CASCADE', 'SET NULL', 'SET DEFAULT')"
    yield "-- On a server with binlog_format = ROW, binlog_row_image = FULL. Whatever these say:"
    yield from (f"-- * {sentence}." for sentence in UNTOLD)
    yield "-- So this must show nothing, but on MySQL 9.6 and newer:"
    yield "SELECT constraint_name, update_rule, delete_rule FROM information_schema.referential_constraints"
    yield f"WHERE constraint_schema = {_text(database)} AND table_name = {_text(name)}"
    yield f"AND (update_rule IN {by_itself} OR delete_rule IN {by_itself});"
    yield "-- Asked for an incremental snapshot by a row in it:"
    yield signal_table
    yield "-- The connector's user needs:"
    yield "-- GRANT RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO ...;"
    yield f"-- GRANT SELECT ON {source} TO ...; GRANT SELECT, INSERT ON {signals} TO ...;"


def _text(name: str) -> str:
    """A name as a text of SQL."""
    escaped = name.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
