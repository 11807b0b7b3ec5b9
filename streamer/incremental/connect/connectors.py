"""Settings of connectors that fill a table's input and read what is published."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from streamer.errors import ConfigError, UsageError
from streamer.incremental.topics import CHANGES, LIVE, REQUIRED_CONFIGS, SHARDS_DEFAULT, topic_name
from streamer.table.published.schemas import key_schema, plain_name, schema_text, sink_table, value_schema
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, Table

# Where a database is, as the operator says it, or as a word that the operator is to replace.

POSTGRES, MYSQL, MARIADB = "postgres", "mysql", "mariadb"

PORTS = {POSTGRES: 5432, MYSQL: 3306, MARIADB: 3306}

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:(?P<port>[0-9]{1,5}))?(/(?P<name>[\w$-]+))?")


@dataclass(frozen=True)
class Database:
    """A server and a database on it."""

    host: str = "HOST"
    port: int | None = None
    name: str = "DATABASE"

    def port_of(self, system: str) -> int:
        """The port, if none is said the system's own."""
        return self.port or PORTS[system]


def database_of(text: str) -> Database:
    """The database in "host[:port][/name]". Raises UsageError, which never repeats the text: a password may be in it.

    >>> database_of("db.example/hospital")
    Database(host='db.example', port=None, name='hospital')
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"] or 1) not in range(1, 1 << 16):
        raise UsageError("--database: expected HOST[:PORT][/NAME] and nothing else: no user, no password, no protocol")
    return Database(found["host"], int(found["port"]) if found["port"] else None, found["name"] or Database.name)


# Kafka Connect's converters: JSON's, those for Avro by a schema registry, and what each is told of it.
#
# Confluent's and Apicurio's have the same name. Apicurio's has the schema's id where everybody else looks for it, in
# four bytes behind a zero byte, only if it is told so; else in eight bytes, or in a header.

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"

CONFLUENT, APICURIO = "confluent", "apicurio"

AVRO_CONVERTERS = {
    CONFLUENT: "io.confluent.connect.avro.AvroConverter",
    APICURIO: "io.apicurio.registry.utils.converter.AvroConverter",
}

IDS_AS_CONFLUENT = {
    "apicurio.registry.as-confluent": "true",
    "apicurio.registry.use-id": "contentId",
    "apicurio.registry.headers.enabled": "false",
}
"""What makes Apicurio's converter read and write ids as Confluent's does."""


def avro_converter(side: str, made_by: str, registry: str, *, writes: bool = False) -> dict[str, str]:
    """The settings of a connector's converter; side: `key` or `value`; made_by: out of AVRO_CONVERTERS.

    registry: its address, of Apicurio's that of its own interface (`.../apis/registry/v2`). writes: schemas are made
    known.
    """
    if made_by == CONFLUENT:
        told = {"schema.registry.url": registry}
    else:
        told = {"apicurio.registry.url": registry, **IDS_AS_CONFLUENT}
        told |= {"apicurio.registry.auto-register": "true"} if writes else {}
    converter = f"{side}.converter"
    return {converter: AVRO_CONVERTERS[made_by], **{f"{converter}.{name}": text for name, text in told.items()}}


# What MySQL's and MariaDB's connectors need beside what every source of Debezium's does, and what no binlog tells.
#
# Both read the binlog and are told the same; one system's connector may get along with the other system, but each is
# meant for its own. `UNTOLD` stands in no configuration: it is printed with the SQL for the table's owner, and by
# `check --connector`.

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


# Debezium's side of a table: the configuration of its source connector, and the SQL that the database needs first.
#
# * Everything is derived from table.yaml; where the database is, the operator says. Secrets are references that Connect
#   resolves (`${env:...}`), never values.
# * Settings stand here for one of three reasons: without them rows are lost or misread (`skipped.operations`,
#   `decimal.handling.mode`, `replace.null.with.default`, `message.key.columns`, the router); more than table.yaml names
#   would come to Kafka (`column.include.list`); or a topic that is missing would make the connector hang
#   (`topic.creation`). What Debezium does rightly by default is left to it.
# * Messages carry their schemas, unless the operator wants them small: times and exact decimals say what they are by
#   it.

CLASSES = {POSTGRES: "io.debezium.connector.postgresql.PostgresConnector", **BINLOGS}
_NO_KEY_COLUMN = re.compile(r"[\s:;,]")
"""What a name in `message.key.columns` may not have."""

NAME_CHARS_MAX = 63
"""Postgres' limit of the name of a replication slot."""

HEARTBEAT_MS = 10_000
SIGNALS = "debezium_signal"
SIGNAL_COLUMNS = ("id", "type", "data")
SOURCE_USER, SOURCE_PASSWORD = "${env:SOURCE_USER}", "${env:SOURCE_PASSWORD}"


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
        "database.user": SOURCE_USER,
        "database.password": SOURCE_PASSWORD,
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
        **_source_converter("key", schemas),
        **_source_converter("value", schemas),
        **_routed(table, relation),
        **_made_topics(table),
    }


def default_relation(table: Table, connector: str, database: Database) -> str:
    """The table's name in the database if nobody says another one."""
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


def _source_converter(side: str, schemas: bool) -> dict[str, str]:
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


# The configuration of Debezium's JDBC sink: the published table, kept current in a database.
#
# Upserts and deletions by the record's key are the whole fold; only committed records are read, else a sink keeps rows
# that were never published. The sink's table is made by the SQL of `connect view`, not by the connector, so that its
# types, and in MySQL its collation, are the ones the view counts on. Secrets are references, never values.
#
# Where the converter has the schema from follows from `publish.live.format`: from the setting printed here (Connect 4.2
# or newer), out of each record, or from the registry that the environment of Connect names.

SINK_CLASS = "io.debezium.connector.jdbc.JdbcSinkConnector"
SINK_USER, SINK_PASSWORD = "${env:SINK_USER}", "${env:SINK_PASSWORD}"
REGISTRY = "${env:SCHEMA_REGISTRY_URL}"
_SCHEMES = {POSTGRES: "postgresql", MYSQL: "mysql"}


def sink_config(
    table: Table, system: str = POSTGRES, *, database: Database | None = None, converter: str = CONFLUENT
) -> dict[str, str]:
    """The configuration of a sink into a database, `system` POSTGRES or MYSQL.

    converter: whose reads Avro, out of AVRO_CONVERTERS. Raises UsageError for a lossy join and for a list in Avro,
    ConfigError for a column without a type.
    """
    if table.format == AVRO and table.form == GROUPS:
        raise UsageError(
            "publish.live.format: avro: a JDBC sink has no column for the list of a QI group's values, and Avro's"
            " schema has it: publish `form: rows`, or `format: connect-json`, whose schema leaves it out"
        )
    place = database or Database()
    return {
        "connector.class": SINK_CLASS,
        "tasks.max": "1",
        "topics": topic_name(table.name, LIVE),
        "connection.url": f"jdbc:{_SCHEMES[system]}://{place.host}:{place.port_of(system)}/{place.name}",
        "connection.username": SINK_USER,
        "connection.password": SINK_PASSWORD,
        "collection.name.format": sink_table(table),
        "quote.identifiers": "true",
        "schema.evolution": "none",
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.auto.offset.reset": "earliest",
        **_sink_converter(table, "key", key_schema(table), converter),
        **_sink_converter(table, "value", value_schema(table), converter),
    }


def _sink_converter(table: Table, side: str, schema: dict[str, Any], of_avro: str) -> dict[str, str]:
    """The settings by which keys, or values, are read."""
    if table.format == AVRO:
        return avro_converter(side, of_avro, REGISTRY)
    converter = f"{side}.converter"
    enabled = {converter: JSON_CONVERTER, f"{converter}.schemas.enable": "true"}
    return enabled if table.format == CONNECT_JSON else {**enabled, f"{converter}.schema.content": schema_text(schema)}
