"""What the other side needs to know of a table: its source's connector, its sink's, and the view that readers get.

This is the one seam between the tests and whoever writes configurations. Secrets are references that Connect resolves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from streamer.incremental.topics import CHANGES, LIVE, topic_name
from streamer.table.published import all_box_columns, published_columns
from streamer.table.schema import NumericAttribute, Table

JSON = "org.apache.kafka.connect.json.JsonConverter"
SIGNALS = "debezium_signal"
"""The table by which an operator asks Debezium for an incremental snapshot."""

SECRETS = ("SOURCE_USER", "SOURCE_PASSWORD", "SINK_USER", "SINK_PASSWORD")
"""The variables of Connect's process that configurations refer to."""

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
    snapshot: Debezium's snapshot.mode. more: other settings of the connector, which count.
    """

    schemas: bool = True
    decimals: str = "string"
    flattening: str = ""
    snapshot: str = "initial"
    more: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Database:
    """Where a connector finds Postgres."""

    host: str
    port: int
    name: str


IN_COMPOSE = Database("postgres", 5432, "postgres")
"""Where the connectors of docker-compose.yml find it."""


def source_sql(table: Table) -> str:
    """What the owner of the source's table runs once."""
    columns = "id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048)"
    return (
        f"CREATE TABLE IF NOT EXISTS public.{SIGNALS} ({columns});\n"
        f"CREATE PUBLICATION streamer_{table.name} FOR TABLE public.{table.name}, public.{SIGNALS};\n"
    )


def source_config(table: Table, shape: Shape, database: Database) -> dict[str, str]:
    """Debezium's connector for a table of its own name in schema public."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": database.host,
        "database.port": str(database.port),
        "database.user": "${env:SOURCE_USER}",
        "database.password": "${env:SOURCE_PASSWORD}",
        "database.dbname": database.name,
        "topic.prefix": table.name,
        "table.include.list": f"public.{table.name}",
        "plugin.name": "pgoutput",
        "slot.name": f"streamer_{table.name}",
        "publication.name": f"streamer_{table.name}",
        "publication.autocreate.mode": "disabled",
        "signal.data.collection": f"public.{SIGNALS}",
        "skipped.operations": "none",
        "key.converter": JSON,
        "value.converter": JSON,
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.default.partitions": "1",
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": rf"{table.name}\.public\.{table.name}",
        "transforms.route.replacement": topic_name(table.name, CHANGES),
        **shaped("route", shape),
    }


def shaped(transforms: str, shape: Shape) -> dict[str, str]:
    """What a shape changes in a connector that has some transforms."""
    flattened = {f"transforms.flatten.{name}": value for name, value in FLATTENINGS[shape.flattening].items()}
    return {
        "snapshot.mode": shape.snapshot,
        "decimal.handling.mode": shape.decimals,
        "key.converter.schemas.enable": str(shape.schemas).lower(),
        "value.converter.schemas.enable": str(shape.schemas).lower(),
        "transforms": f"flatten,{transforms}" if flattened else transforms,
        **flattened,
        **dict(shape.more),
    }


def sink_config(table: Table, database: Database) -> dict[str, str]:
    """Debezium's JDBC sink into the table `sink_table`."""
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "topics": topic_name(table.name, LIVE),
        "connection.url": f"jdbc:postgresql://{database.host}:{database.port}/{database.name}",
        "connection.username": "${env:SINK_USER}",
        "connection.password": "${env:SINK_PASSWORD}",
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "schema.evolution": "none",
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
    """The sink's table, and the view `view_of`: rows that share QI group and box with at least k - 1 others."""
    types = {"string": "text", "int64": "bigint", "double": "double precision"}
    columns = ", ".join(f"{name} {types[kind]}" for name, kind in _published_types(table).items())
    alike = ", ".join(["qi_group", *all_box_columns(table)])
    return (
        f"CREATE TABLE {sink_table(table)} ({columns}, slot bigint, PRIMARY KEY (qi_group, slot));\n"
        f"CREATE VIEW {view_of(table)} AS SELECT * FROM {sink_table(table)} WHERE ({alike}) IN\n"
        f"(SELECT {alike} FROM {sink_table(table)} GROUP BY {alike} HAVING count(*) >= {table.k});\n"
    )


def sink_table(table: Table) -> str:
    return f"{table.name}_live"


def view_of(table: Table) -> str:
    return f"{table.name}_anonymous"


def _published_types(table: Table) -> dict[str, str]:
    """Connect's types of the published columns."""
    types = dict.fromkeys(published_columns(table), "string")
    for attribute in table.attributes:
        if isinstance(attribute, NumericAttribute):
            whole = attribute.step is not None and attribute.step == int(attribute.step)
            ends = (f"{attribute.name}_lo", f"{attribute.name}_hi")
            types |= dict.fromkeys(ends, "int64" if whole else "double")
    return types


def _struct(types: Mapping[str, str], optional: bool) -> dict[str, object]:
    fields = [{"field": name, "type": kind, "optional": optional} for name, kind in types.items()]
    return {"type": "struct", "optional": optional, "fields": fields}
