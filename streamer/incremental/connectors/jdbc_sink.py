"""The configuration of Debezium's JDBC sink: the published table, kept current in a database.

Upserts and deletions by the record's key are the whole fold; only committed records are read, else a sink keeps rows
that were never published. The sink's table is made by the SQL of `connect view`, not by the connector, so that its
types, and in MySQL its collation, are the ones the view counts on. Secrets are references, never values.

Where the converter has the schema from follows from `publish.live.format`: from the setting printed here (Connect 4.2
or newer), out of each record, or from the registry that the environment of Connect names.
"""

from __future__ import annotations

from typing import Any

from streamer.errors import UsageError
from streamer.incremental.connectors.converters import CONFLUENT, JSON_CONVERTER, avro_converter
from streamer.incremental.connectors.database import MYSQL, POSTGRES, Database
from streamer.incremental.topics import LIVE, topic_name
from streamer.table.connect_schemas import key_schema, schema_text, value_schema
from streamer.table.published_types import sink_table
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, Table

SINK_CLASS = "io.debezium.connector.jdbc.JdbcSinkConnector"
USER, PASSWORD = "${env:SINK_USER}", "${env:SINK_PASSWORD}"
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
        "connection.username": USER,
        "connection.password": PASSWORD,
        "collection.name.format": sink_table(table),
        "quote.identifiers": "true",
        "schema.evolution": "none",
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.auto.offset.reset": "earliest",
        **_converter(table, "key", key_schema(table), converter),
        **_converter(table, "value", value_schema(table), converter),
    }


def _converter(table: Table, side: str, schema: dict[str, Any], of_avro: str) -> dict[str, str]:
    """The settings by which keys, or values, are read."""
    if table.format == AVRO:
        return avro_converter(side, of_avro, REGISTRY)
    converter = f"{side}.converter"
    enabled = {converter: JSON_CONVERTER, f"{converter}.schemas.enable": "true"}
    return enabled if table.format == CONNECT_JSON else {**enabled, f"{converter}.schema.content": schema_text(schema)}
