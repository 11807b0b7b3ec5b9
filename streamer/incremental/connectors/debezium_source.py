"""Debezium's side of a table: the configuration of its source connector, and the SQL that the database needs first.

The rules of this file
----------------------
* Everything is derived from table.yaml; where the database is, the operator says. Secrets are references that Connect
  resolves (`${env:...}`), never values.
* Settings stand here for one of three reasons: without them rows are lost or misread (`skipped.operations`,
  `decimal.handling.mode`, `replace.null.with.default`, `message.key.columns`, the router); more than table.yaml names
  would come to Kafka (`column.include.list`); or a topic that is missing would make the connector hang
  (`topic.creation`). What Debezium does rightly by default is left to it.
* Messages carry their schemas, unless the operator wants them small: times and exact decimals say what they are by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamer.errors import ConfigError
from streamer.incremental.connectors.binlog_source import BINLOGS, binlog_settings, binlog_sql
from streamer.incremental.connectors.converters import JSON_CONVERTER
from streamer.incremental.connectors.database import POSTGRES, Database
from streamer.incremental.topics import CHANGES, REQUIRED_CONFIGS, SHARDS_DEFAULT, topic_name
from streamer.table.published_types import plain_name
from streamer.table.schema import Table

CLASSES = {POSTGRES: "io.debezium.connector.postgresql.PostgresConnector", **BINLOGS}
_NO_KEY_COLUMN = re.compile(r"[\s:;,]")
"""What a name in `message.key.columns` may not have."""

NAME_CHARS_MAX = 63
"""Postgres' limit of the name of a replication slot."""

HEARTBEAT_MS = 10_000
SIGNALS = "debezium_signal"
SIGNAL_COLUMNS = ("id", "type", "data")
USER, PASSWORD = "${env:SOURCE_USER}", "${env:SOURCE_PASSWORD}"


def source_config(
    table: Table,
    connector: str,
    *,
    schemas: bool = True,
    database: Database | None = None,
    relation: str | None = None,
    kafka: str = "HOST:PORT",
) -> dict[str, str]:
    """The configuration of a source connector, `connector` out of CLASSES.

    schemas: whether messages carry Connect's schema. relation: the table's name in the database, with its schema (in
    MySQL, its database); None: that of table.yaml. kafka: bootstrap servers, which readers of a binlog are told. Raises
    ConfigError for a column of the key that Debezium cannot be told.
    """
    if any(_NO_KEY_COLUMN.search(column) for column in table.source_key):
        raise ConfigError("key: Debezium's message.key.columns takes no name with a space, colon, comma or semicolon")
    place = database or Database()
    relation = relation or default_relation(table, connector, place)
    return {
        "connector.class": CLASSES[connector],
        "tasks.max": "1",
        "database.hostname": place.host,
        "database.port": str(place.port_of(connector)),
        "database.user": USER,
        "database.password": PASSWORD,
        **(_of_postgres(table, place) if connector == POSTGRES else binlog_settings(table, relation, kafka)),
        "topic.prefix": table.name,
        **_captured(table, relation),
        "snapshot.mode": "initial",
        "skipped.operations": "none",
        "tombstones.on.delete": "true",
        "decimal.handling.mode": "string",
        "heartbeat.interval.ms": str(HEARTBEAT_MS),
        "signal.enabled.channels": "source",
        "signal.data.collection": signals_beside(relation),
        **_converter("key", schemas),
        **_converter("value", schemas),
        **_routed(table, relation),
        **_made_topics(table),
    }


def default_relation(table: Table, connector: str, database: Database) -> str:
    """The table's name in the database where nobody says another one."""
    return f"{'public' if connector == POSTGRES else database.name}.{table.name}"


def signals_beside(relation: str) -> str:
    """The table of signals, in the schema of the table."""
    return f"{relation.rpartition('.')[0]}.{SIGNALS}"


def named_columns(table: Table) -> tuple[str, ...]:
    """The columns of the source that table.yaml names, each once: all that has to come."""
    individual = () if table.individual is None else (table.individual,)
    columns = (*table.source_key, *individual, *(a.name for a in table.attributes), *(c.name for c in table.kept))
    return tuple(dict.fromkeys(columns))


def source_sql(table: Table, connector: str, relation: str) -> str:
    """What the owner of the source's table runs once, before the connector starts."""
    quote = '"' if connector == POSTGRES else "`"
    source, signals = (_quoted(name, quote) for name in (relation, signals_beside(relation)))
    if connector == POSTGRES:
        lines = _postgres_sql(table, source, signals)
    else:
        lines = binlog_sql(relation, source, signals, _signal_table(signals))
    return "\n".join(lines) + "\n"


def _of_postgres(table: Table, database: Database) -> dict[str, str]:
    return {
        "database.dbname": database.name,
        "plugin.name": "pgoutput",
        "slot.name": _slot(table),
        "publication.name": _slot(table),
        "publication.autocreate.mode": "disabled",  # a connector that may make one would need to own the table
    }


def _slot(table: Table) -> str:
    return f"streamer_{plain_name(table).lower()}"[:NAME_CHARS_MAX]


def _captured(table: Table, relation: str) -> dict[str, str]:
    """Which rows and columns come, and by which key. Debezium reads lists of names as regular expressions."""
    listed = "|".join(map(re.escape, named_columns(table)))
    signals = rf"{re.escape(signals_beside(relation))}\.({'|'.join(SIGNAL_COLUMNS)})"
    return {
        "table.include.list": re.escape(relation),
        "column.include.list": rf"{re.escape(relation)}\.({listed}),{signals}",
        "message.key.columns": f"{re.escape(relation)}:{','.join(table.source_key)}",
    }


def _converter(side: str, schemas: bool) -> dict[str, str]:
    return {
        f"{side}.converter": JSON_CONVERTER,
        f"{side}.converter.schemas.enable": str(schemas).lower(),
        f"{side}.converter.replace.null.with.default": "false",  # else a null comes as the column's DEFAULT
    }


def _routed(table: Table, relation: str) -> dict[str, str]:
    return {
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": re.escape(f"{table.name}.{relation}"),
        "transforms.route.replacement": topic_name(table.name, CHANGES),
    }


def _made_topics(table: Table) -> dict[str, str]:
    """How Connect makes topics that are missing: the input as it must be, the connector's own with one partition."""
    return {
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.default.partitions": "1",
        "topic.creation.groups": "changes",
        "topic.creation.changes.include": re.escape(topic_name(table.name, CHANGES)),
        "topic.creation.changes.replication.factor": "-1",
        "topic.creation.changes.partitions": str(SHARDS_DEFAULT),
        **{f"topic.creation.changes.{name}": value for name, value in REQUIRED_CONFIGS[CHANGES].items()},
    }


def _postgres_sql(table: Table, source: str, signals: str) -> Iterator[str]:
    yield "-- By the table's owner, once, on a server with wal_level = logical."
    yield "-- Every change then tells the whole row before it, and values that Postgres stores apart (TOAST) come, too:"
    yield f"ALTER TABLE {source} REPLICA IDENTITY FULL;"
    yield "-- Asked for an incremental snapshot by a row in it:"
    yield _signal_table(signals)
    yield f'CREATE PUBLICATION "{_slot(table)}" FOR TABLE {source}, {signals};'
    yield "-- The connector's user needs REPLICATION, and:"
    yield f"-- GRANT SELECT ON {source} TO ...; GRANT SELECT, INSERT ON {signals} TO ...;"


def _signal_table(signals: str) -> str:
    columns = "id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048)"
    return f"CREATE TABLE IF NOT EXISTS {signals} ({columns});"


def _quoted(relation: str, quote: str) -> str:
    return ".".join(f"{quote}{part.replace(quote, 2 * quote)}{quote}" for part in relation.split("."))
