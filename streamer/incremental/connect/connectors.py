"""Configurations of connectors: Debezium's sources fill a table's input, its JDBC sink reads what is published.

Secrets are references that Connect resolves (`${env:...}`), never values.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from streamer.errors import ConfigError, UsageError
from streamer.incremental.topics import CHANGES, LIVE, REQUIRED_CONFIGS, SHARDS_DEFAULT, topic_name
from streamer.table.published.schemas import key_schema, plain_name, schema_text, sink_table, value_schema
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, Table

POSTGRES, MYSQL, MARIADB = "postgres", "mysql", "mariadb"

PORTS = {POSTGRES: 5432, MYSQL: 3306, MARIADB: 3306}

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:(?P<port>[0-9]{1,5}))?(/(?P<name>[\w$-]+))?")


@dataclass(frozen=True)
class Database:
    """A server and a database on it; an unknown part stands as a word that the operator replaces."""

    host: str = "HOST"
    port: int | None = None
    name: str = "DATABASE"

    def port_of(self, system: str) -> int:
        """The port, by default the system's own."""
        return self.port or PORTS[system]


def database_of(text: str) -> Database:
    """The database in "host[:port][/name]". Raises UsageError without the text: a password may be in it.

    >>> database_of("db.example/hospital")
    Database(host='db.example', port=None, name='hospital')
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"] or 1) not in range(1, 1 << 16):
        raise UsageError("--database: expected HOST[:PORT][/NAME] and nothing else: no user, no password, no protocol")
    return Database(found["host"], int(found["port"]) if found["port"] else None, found["name"] or Database.name)


# -- Kafka Connect's converters ---------------------------------------------------------------------------------------

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"

CONFLUENT, APICURIO = "confluent", "apicurio"

AVRO_CONVERTERS = {
    CONFLUENT: "io.confluent.connect.avro.AvroConverter",
    APICURIO: "io.apicurio.registry.utils.converter.AvroConverter",
}

_CONFLUENT_IDS = {
    "apicurio.registry.as-confluent": "true",
    "apicurio.registry.use-id": "contentId",
    "apicurio.registry.headers.enabled": "false",
}
"""Makes Apicurio's converter keep the schema's id as Confluent's does: a zero byte and four bytes before the value."""


def avro_converter(side: str, made_by: str, registry: str, *, writes: bool = False) -> dict[str, str]:
    """The settings of a connector's converter.

    side: `key` or `value`. made_by: one of AVRO_CONVERTERS. registry: its address; of Apicurio's registry, that of its
    own API (`.../apis/registry/v2`). writes: the converter registers schemas.
    """
    if made_by == CONFLUENT:
        settings = {"schema.registry.url": registry}
    else:
        settings = {"apicurio.registry.url": registry, **_CONFLUENT_IDS}
        settings |= {"apicurio.registry.auto-register": "true"} if writes else {}
    converter = f"{side}.converter"
    return {converter: AVRO_CONVERTERS[made_by], **{f"{converter}.{name}": text for name, text in settings.items()}}


# -- MySQL and MariaDB: what readers of a binlog need besides ---------------------------------------------------------

BINLOGS = {
    MYSQL: "io.debezium.connector.mysql.MySqlConnector",
    MARIADB: "io.debezium.connector.mariadb.MariaDbConnector",
}

NOT_IN_BINLOG = (
    "the binlog does not have rows that a foreign key changes by CASCADE or SET NULL (MariaDB, MySQL before 9.6), "
    "that a session writes with binlog_format=STATEMENT or without the log, or that go with a table or a part of one "
    "(DROP, RENAME, ALTER TABLE ... PARTITION): these stay published as they were",
    "some values come as other values: a zero date in a column that is NOT NULL as 1970-01-01, BIGINT UNSIGNED from "
    "2^63 on as negative; and a TIMESTAMP with a fraction cannot be in a primary key: a snapshot and a change write it "
    "differently",
)
"""Losses and misreadings in silence, whatever the connector's settings; printed with the SQL."""

_SERVER_IDS = range(1 << 16, 1 << 31)  # small numbers are the servers' own
_BOOLEANS = "io.debezium.connector.binlog.converters.TinyIntOneToBooleanConverter"


def binlog_settings(table: Table, relation: str, kafka: str) -> dict[str, str]:
    """The settings of a connector that reads a binlog; kafka: bootstrap servers, for the schema history."""
    booleans = ",".join(
        re.escape(f"{relation}.{column.name}") for column in table.kept if column.source.type == "boolean"
    )
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
    """A replica's number, one per table: a server disconnects the first of two replicas with one number."""
    return _SERVER_IDS[zlib.crc32(table_name.encode()) % len(_SERVER_IDS)]


def _binlog_sql(_table: Table, relation: str, source: str, signals: str) -> Iterator[str]:
    database, _, name = relation.replace("\\", "\\\\").replace("'", "''").rpartition(".")
    actions = "('CASCADE', 'SET NULL', 'SET DEFAULT')"
    yield "-- For a server with binlog_format = ROW, binlog_row_image = FULL. Whatever these are:"
    yield from (f"-- * {sentence}." for sentence in NOT_IN_BINLOG)
    yield "-- So this query must return nothing, except on MySQL 9.6 and newer:"
    yield "SELECT constraint_name, update_rule, delete_rule FROM information_schema.referential_constraints"
    yield f"WHERE constraint_schema = '{database}' AND table_name = '{name}'"
    yield f"AND (update_rule IN {actions} OR delete_rule IN {actions});"
    yield from _signal_table(relation, signals)
    yield "-- The connector's user needs:"
    yield "-- GRANT RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO ...;"
    yield f"-- GRANT SELECT ON {source} TO ...; GRANT SELECT, INSERT ON {signals} TO ...;"


# -- Debezium's source connector --------------------------------------------------------------------------------------
#
# A setting is here for one of three reasons. Without it rows are lost or misread (`skipped.operations`,
# `decimal.handling.mode`, `replace.null.with.default`, `message.key.columns`, the router). Or more columns than
# table.yaml names would come to Kafka (`column.include.list`). Or a missing topic would make the connector hang
# (`topic.creation`). All else is Debezium's default.

CLASSES = {POSTGRES: "io.debezium.connector.postgresql.PostgresConnector", **BINLOGS}
_BAD_KEY_COLUMN = re.compile(r"[\s:;,]")  # a name that `message.key.columns` cannot hold
NAME_CHARS_MAX = 63  # of a replication slot in Postgres
SIGNALS = "debezium_signal"
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
    """The configuration of a source connector, `connector` one of CLASSES.

    schemas: messages carry Connect's schema, which says what times and decimals are. relation: the table's
    name in the database, with its schema (in MySQL, its database); None: by table.yaml. kafka: bootstrap servers, for
    readers of a binlog. Raises ConfigError for a key column that `message.key.columns` cannot name.
    """
    if any(_BAD_KEY_COLUMN.search(column) for column in table.source_key):
        raise ConfigError(
            "key: Debezium's message.key.columns cannot hold a name with a space, colon, comma or semicolon"
        )
    place = database or Database()
    relation = relation or default_relation(table, connector, place)
    name, columns = re.escape(relation), "|".join(map(re.escape, named_columns(table)))
    signals = rf"{re.escape(signals_beside(relation))}\.(id|type|data)"
    return {
        "connector.class": CLASSES[connector],
        "tasks.max": "1",
        "database.hostname": place.host,
        "database.port": str(place.port_of(connector)),
        "database.user": SOURCE_USER,
        "database.password": SOURCE_PASSWORD,
        **(_postgres_settings(table, place) if connector == POSTGRES else binlog_settings(table, relation, kafka)),
        "topic.prefix": table.name,
        # which rows and columns come, and by which key; Debezium reads names as regular expressions
        "table.include.list": name,
        "column.include.list": rf"{name}\.({columns}),{signals}",
        "message.key.columns": f"{name}:{','.join(table.source_key)}",
        "snapshot.mode": "initial",
        "skipped.operations": "none",
        "tombstones.on.delete": "true",
        "decimal.handling.mode": "string",
        "heartbeat.interval.ms": "10000",
        "signal.enabled.channels": "source",
        "signal.data.collection": signals_beside(relation),
        **_source_converter("key", schemas),
        **_source_converter("value", schemas),
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": re.escape(f"{table.name}.{relation}"),
        "transforms.route.replacement": topic_name(table.name, CHANGES),
        **_made_topics(table),
    }


def default_relation(table: Table, connector: str, database: Database) -> str:
    """The table's name in the database, by default."""
    return f"{'public' if connector == POSTGRES else database.name}.{table.name}"


def signals_beside(relation: str) -> str:
    """The table of signals: in the same schema."""
    return f"{relation.rpartition('.')[0]}.{SIGNALS}"


def named_columns(table: Table) -> tuple[str, ...]:
    """The columns of the source that table.yaml names, each once."""
    individual = () if table.individual is None else (table.individual,)
    columns = (*table.source_key, *individual, *(a.name for a in table.attributes), *(c.name for c in table.kept))
    return tuple(dict.fromkeys(columns))


def source_sql(table: Table, connector: str, relation: str) -> str:
    """The SQL that the owner of the source's table runs once, before the connector starts."""
    quote = '"' if connector == POSTGRES else "`"
    source, signals = (_quoted(name, quote) for name in (relation, signals_beside(relation)))
    sql_of = _postgres_sql if connector == POSTGRES else _binlog_sql
    return "\n".join(sql_of(table, relation, source, signals)) + "\n"


def _postgres_settings(table: Table, database: Database) -> dict[str, str]:
    return {
        "database.dbname": database.name,
        "plugin.name": "pgoutput",
        "slot.name": _slot(table),
        "publication.name": _slot(table),
        "publication.autocreate.mode": "disabled",  # to create one, the connector would have to own the table
    }


def _slot(table: Table) -> str:
    return f"streamer_{plain_name(table).lower()}"[:NAME_CHARS_MAX]


def _source_converter(side: str, schemas: bool) -> dict[str, str]:
    return {
        f"{side}.converter": JSON_CONVERTER,
        f"{side}.converter.schemas.enable": str(schemas).lower(),
        f"{side}.converter.replace.null.with.default": "false",  # else a null comes as the column's DEFAULT
    }


def _made_topics(table: Table) -> dict[str, str]:
    """Settings of topics that Connect creates: the input as it must be, the connector's own with one partition."""
    return {
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.default.partitions": "1",
        "topic.creation.groups": "changes",
        "topic.creation.changes.include": re.escape(topic_name(table.name, CHANGES)),
        "topic.creation.changes.replication.factor": "-1",
        "topic.creation.changes.partitions": str(SHARDS_DEFAULT),
        **{f"topic.creation.changes.{name}": value for name, value in REQUIRED_CONFIGS[CHANGES].items()},
    }


def _postgres_sql(table: Table, relation: str, source: str, signals: str) -> Iterator[str]:
    yield "-- Run once by the table's owner, on a server with wal_level = logical."
    yield "-- With this, a change has the whole row before it, and values that Postgres stores apart (TOAST):"
    yield f"ALTER TABLE {source} REPLICA IDENTITY FULL;"
    yield "-- Each partition needs that, too: run this block again whenever one is attached or made."
    yield from _PARTITIONS.format(source.replace("'", "''")).splitlines()
    yield from _signal_table(relation, signals)
    yield "-- Changes of partitions come under the table's own name:"
    yield f'CREATE PUBLICATION "{_slot(table)}" FOR TABLE {source}, {signals} WITH (publish_via_partition_root = true);'
    yield "-- No message tells that a partition was truncated, dropped or detached: delete its rows before, or reload."
    yield "-- The connector's user needs REPLICATION, and:"
    yield f"-- GRANT USAGE ON SCHEMA {source.rpartition('.')[0]} TO ...;"
    yield f"-- GRANT SELECT ON {source} TO ...; GRANT SELECT, INSERT ON {signals} TO ...;"


_PARTITIONS = """\
DO $$ DECLARE part regclass; BEGIN
  IF EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent
             WHERE i.inhparent = '{0}'::regclass AND c.relkind = 'r') THEN
    RAISE EXCEPTION 'tables inherit from {0}: their changes would come under their own names, and be lost. '
      'Partition the table instead, or capture each of them as a table of its own';
  END IF;
  FOR part IN SELECT relid FROM pg_partition_tree('{0}'::regclass) LOOP
    EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', part);
  END LOOP;
END $$;"""
"""Refuses a table that others inherit from; `pg_partition_tree` is empty for a table without partitions."""


def _signal_table(relation: str, signals: str) -> Iterator[str]:
    columns = "id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048)"
    name = re.sub(
        r"[^\w.-]", r"[\g<0>]", relation
    )  # Debezium reads a regular expression, and SQL no backslash as it is
    asked = msgspec.json.encode({"type": "incremental", "data-collections": [name]}).decode().replace("'", "''")
    yield "-- A row in this table starts an incremental snapshot:"
    yield f"CREATE TABLE IF NOT EXISTS {signals} ({columns});"
    yield "-- Not now, but if rows were refused or missed that the source has right: this has all rows read again."
    yield "-- The id is a new one each time. Rows that were deleted meanwhile go by `streamer reload` only."
    yield f"-- INSERT INTO {signals} VALUES ('again-1', 'execute-snapshot', '{asked}');"


def _quoted(relation: str, quote: str) -> str:
    return ".".join(f"{quote}{part.replace(quote, 2 * quote)}{quote}" for part in relation.split("."))


# -- Debezium's JDBC sink: keeps the published table current in a database --------------------------------------------
#
# Upserts and deletions by the record's key are the whole fold. Only committed records are read: else the sink would
# keep rows that were never published. The SQL of `connect view` creates the sink's table, so that its types, and in
# MySQL its collation, are those the view relies on. The converter has the schema from the setting printed here
# (Connect 4.2 or newer), from each record, or from a registry, by `publish.live.format`.

SINK_CLASS = "io.debezium.connector.jdbc.JdbcSinkConnector"
SINK_USER, SINK_PASSWORD = "${env:SINK_USER}", "${env:SINK_PASSWORD}"
REGISTRY = "${env:SCHEMA_REGISTRY_URL}"
_SCHEMES = {POSTGRES: "postgresql", MYSQL: "mysql"}


def sink_config(
    table: Table, system: str = POSTGRES, *, database: Database | None = None, converter: str = CONFLUENT
) -> dict[str, str]:
    """The configuration of a sink into a database, `system` POSTGRES or MYSQL.

    converter: for Avro, one of AVRO_CONVERTERS. Raises UsageError for a lossy join and for a list in Avro, ConfigError
    for a column without a type.
    """
    if table.format == AVRO and table.form == GROUPS:
        raise UsageError(
            "publish.live.format: avro: a JDBC sink has no column for the list of a QI group's values, and the Avro"
            " schema has it: publish `form: rows`, or `format: connect-json`, whose schema leaves the list out"
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
        **_sink_converter(table, "value", value_schema(table, exact=True), converter),
    }


def _sink_converter(table: Table, side: str, schema: dict[str, Any], of_avro: str) -> dict[str, str]:
    if table.format == AVRO:
        return avro_converter(side, of_avro, REGISTRY)
    converter = f"{side}.converter"
    enabled = {converter: JSON_CONVERTER, f"{converter}.schemas.enable": "true"}
    return enabled if table.format == CONNECT_JSON else {**enabled, f"{converter}.schema.content": schema_text(schema)}
