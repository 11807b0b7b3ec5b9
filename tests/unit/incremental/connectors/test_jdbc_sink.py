"""The sink's configuration: it folds the changelog, and reads nothing that was not published."""

from __future__ import annotations

import json

import pytest

from streamer.errors import UsageError
from streamer.incremental.connectors.database import MYSQL, Database
from streamer.incremental.connectors.jdbc_sink import sink_config
from streamer.table.connect_schemas import key_schema, value_schema
from streamer.table.schema import GROUPS, LOSSY_JOIN
from worlds.published_forms import TABLE, published_as


def test_the_configuration_of_a_sink_into_postgres() -> None:
    config = sink_config(TABLE)
    schemas = {name: json.loads(config.pop(f"{name}.converter.schema.content")) for name in ("key", "value")}
    assert schemas == {"key": key_schema(TABLE), "value": value_schema(TABLE)}
    assert config == {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "tasks.max": "1",
        "topics": "people.live",
        "connection.url": "jdbc:postgresql://HOST:5432/DATABASE",
        "connection.username": "${env:SINK_USER}",
        "connection.password": "${env:SINK_PASSWORD}",
        "collection.name.format": "people_live",
        "quote.identifiers": "true",
        "schema.evolution": "none",
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.auto.offset.reset": "earliest",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "true",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
    }


def test_another_database_is_another_address() -> None:
    config = sink_config(TABLE, MYSQL, database=Database("db", 3307, "ward"))
    assert config["connection.url"] == "jdbc:mysql://db:3307/ward"


def test_whole_groups_are_sunk_by_their_name() -> None:
    schema = json.loads(sink_config(published_as(GROUPS))["key.converter.schema.content"])
    assert [field["field"] for field in schema["fields"]] == ["qi_group"]


def test_a_lossy_join_cannot_be_sunk() -> None:
    with pytest.raises(UsageError, match="two moments"):
        sink_config(published_as(LOSSY_JOIN))
