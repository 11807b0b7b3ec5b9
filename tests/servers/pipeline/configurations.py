"""What the other side needs to know of a table: its source's connector, its sink's, and the view that readers get.

This is the one seam between the tests and whoever writes configurations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from streamer.incremental.topics import CHANGES, LIVE, topic_name
from streamer.table.published import all_box_columns, published_columns
from streamer.table.schema import NumericAttribute, Table

JSON = "org.apache.kafka.connect.json.JsonConverter"

REWRITTEN = {
    "type": "io.debezium.transforms.ExtractNewRecordState",
    "delete.tombstone.handling.mode": "rewrite-with-tombstone",
    "add.fields": "op,source.snapshot",
}
"""Flattened rows that still say what happened to them."""

BARE = {"type": "io.debezium.transforms.ExtractNewRecordState"}
"""Flattened rows as the transform leaves them by default: a row is there, or a tombstone."""

FLATTENINGS: Mapping[str, Mapping[str, str]] = {"": {}, "rewritten": REWRITTEN, "bare": BARE}


@dataclass(frozen=True)
class Shape:
    """How a connector writes its messages.

    schemas: with Connect's schema in each. decimals: Debezium's decimal.handling.mode. flattening: out of FLATTENINGS.
    snapshot: Debezium's snapshot.mode.
    """

    schemas: bool = True
    decimals: str = "string"
    flattening: str = ""
    snapshot: str = "initial"


@dataclass(frozen=True)
class Database:
    """Where a connector finds Postgres; values or references that Connect resolves."""

    host: str
    port: str
    password: str
    user: str = "postgres"
    name: str = "postgres"


BY_ENVIRONMENT = Database("${env:POSTGRES_HOST}", "${env:POSTGRES_PORT}", "${env:POSTGRES_PASSWORD}")
"""Out of the variables of Connect's own process: no configuration that Connect shows holds a secret."""


def source_config(table: Table, shape: Shape, database: Database = BY_ENVIRONMENT) -> dict[str, str]:
    """Debezium's connector for a table of its own name in schema public."""
    flatten = {f"transforms.flatten.{name}": value for name, value in FLATTENINGS[shape.flattening].items()}
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": database.host,
        "database.port": database.port,
        "database.user": database.user,
        "database.password": database.password,
        "database.dbname": database.name,
        "topic.prefix": table.name,
        "table.include.list": f"public.{table.name}",
        "plugin.name": "pgoutput",
        "slot.name": table.name,
        "publication.name": table.name,
        "publication.autocreate.mode": "filtered",
        "snapshot.mode": shape.snapshot,
        "signal.data.collection": "public.signals",
        "skipped.operations": "none",
        "decimal.handling.mode": shape.decimals,
        "key.converter": JSON,
        "key.converter.schemas.enable": str(shape.schemas).lower(),
        "value.converter": JSON,
        "value.converter.schemas.enable": str(shape.schemas).lower(),
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
        "transforms": ",".join([*(["flatten"] if flatten else []), "route"]),
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": rf"{table.name}\.public\.{table.name}",
        "transforms.route.replacement": topic_name(table.name, CHANGES),
        **flatten,
    }


def sink_config(table: Table, database: Database = BY_ENVIRONMENT) -> dict[str, str]:
    """Debezium's JDBC sink into the table `sink_table`, which it makes."""
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "topics": topic_name(table.name, LIVE),
        "connection.url": f"jdbc:postgresql://{database.host}:{database.port}/{database.name}",
        "connection.username": database.user,
        "connection.password": database.password,
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "schema.evolution": "basic",
        "collection.name.format": sink_table(table),
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.auto.offset.reset": "earliest",
        "key.converter": JSON,
        "key.converter.schemas.enable": "true",
        "key.converter.schema.content": json.dumps(_struct({"qi_group": "string", "slot": "int64"}, optional=False)),
        "value.converter": JSON,
        "value.converter.schemas.enable": "true",
        "value.converter.schema.content": json.dumps(_struct(_published_types(table), optional=True)),
    }


def view_sql(table: Table) -> str:
    """The view `view_of`: rows whose QI group and box they share with at least k - 1 others."""
    alike = ", ".join(["qi_group", *all_box_columns(table)])
    return (
        f"CREATE VIEW {view_of(table)} AS SELECT * FROM {sink_table(table)} WHERE ({alike}) IN "
        f"(SELECT {alike} FROM {sink_table(table)} GROUP BY {alike} HAVING count(*) >= {table.k})"
    )


def sink_table(table: Table) -> str:
    return f"{table.name}_live"


def view_of(table: Table) -> str:
    return f"{table.name}_anonymous"


def _published_types(table: Table) -> dict[str, str]:
    """Connect's types of the published columns."""
    numbers = {a.name: a for a in table.attributes if isinstance(a, NumericAttribute)}
    types = dict.fromkeys(published_columns(table), "string")
    for name, attribute in numbers.items():
        whole = attribute.step is not None and attribute.step == int(attribute.step)
        types |= dict.fromkeys((f"{name}_lo", f"{name}_hi"), "int64" if whole else "double")
    return types


def _struct(types: Mapping[str, str], optional: bool) -> dict[str, object]:
    fields = [{"field": name, "type": kind, "optional": optional} for name, kind in types.items()]
    return {"type": "struct", "optional": optional, "fields": fields}
