"""The configuration of Debezium's JDBC sink: the published table, kept current in a database.

Upserts and deletions by the record's key are the whole fold; only committed records are read, else a sink keeps rows
that were never published. The sink's table is made by the SQL of `connect view`, not by the connector, so that its
types, and in MySQL its collation, are the ones the view counts on. Secrets are references, never values.
"""

from __future__ import annotations

from streamer.incremental.connectors.connector_config import JSON_CONVERTER
from streamer.incremental.connectors.database import MYSQL, POSTGRES, Database
from streamer.incremental.topics import LIVE, topic_name
from streamer.table.connect_schemas import key_schema, schema_text, value_schema
from streamer.table.published_types import sink_table
from streamer.table.schema import Table

SINK_CLASS = "io.debezium.connector.jdbc.JdbcSinkConnector"
USER, PASSWORD = "${env:SINK_USER}", "${env:SINK_PASSWORD}"
_SCHEMES = {POSTGRES: "postgresql", MYSQL: "mysql"}


def sink_config(table: Table, system: str = POSTGRES, *, database: Database | None = None) -> dict[str, str]:
    """The configuration of a sink into a database, `system` POSTGRES or MYSQL; needs Connect 4.2 or newer.

    Raises UsageError for a lossy join, ConfigError for a column without a type.
    """
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
        "key.converter": JSON_CONVERTER,
        "key.converter.schemas.enable": "true",
        "key.converter.schema.content": schema_text(key_schema(table)),
        "value.converter": JSON_CONVERTER,
        "value.converter.schemas.enable": "true",
        "value.converter.schema.content": schema_text(value_schema(table)),
    }
