"""What the other side needs to know of a table: its source's connector, its sink's, and the view that readers get.

This is the one seam between the tests and whoever writes configurations. Secrets are references that Connect resolves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamer.incremental.connect import connectors, sql_tables
from streamer.incremental.connect.connectors import APICURIO, POSTGRES
from streamer.incremental.connect.connectors import SIGNALS as SIGNALS
from streamer.incremental.connect.connectors import Database as Database
from streamer.table.published.schemas import sink_table as sink_table
from streamer.table.published.schemas import view_name
from streamer.table.schema import JSON, Table

IN_COMPOSE = Database("postgres", 5432, "postgres")
"""Where the connectors of docker-compose.yml find Postgres."""

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
    snapshot: Debezium's snapshot.mode. more: other settings of the connector, which count. live: publish.live.format.
    """

    schemas: bool = True
    decimals: str = "string"
    flattening: str = ""
    snapshot: str = "initial"
    more: tuple[tuple[str, str], ...] = ()
    live: str = JSON


def source_sql(table: Table) -> str:
    """What the owner of the source's table runs once."""
    return connectors.source_sql(table, POSTGRES, f"public.{table.name}")


def source_config(table: Table, shape: Shape, database: Database) -> dict[str, str]:
    """Debezium's connector for a table of its own name in schema public."""
    made = connectors.source_config(table, POSTGRES, schemas=shape.schemas, database=database)
    return {**made, **shaped(made["transforms"], shape)}


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
    """Debezium's JDBC sink into the table `sink_table`; Avro is read by Apicurio's converter."""
    return connectors.sink_config(table, POSTGRES, database=database, converter=APICURIO)


def view_sql(table: Table) -> str:
    """The sink's table, and the view `view_of`."""
    return sql_tables.view_sql(table, POSTGRES)


def view_of(table: Table) -> str:
    return view_name(table)
