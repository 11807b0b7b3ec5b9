"""The sink's configuration: it folds the changelog, and reads nothing that was not published."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from streamer.errors import UsageError
from streamer.incremental.connectors.database import MYSQL, Database
from streamer.incremental.connectors.jdbc_sink import sink_config
from streamer.table.connect_schemas import key_schema, value_schema
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, LOSSY_JOIN
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


def test_a_schema_in_each_record_needs_no_setting_of_connects() -> None:
    config = sink_config(replace(TABLE, format=CONNECT_JSON))
    assert {name: text for name, text in config.items() if "converter" in name} == {
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "true",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
    }


def test_avro_is_read_by_the_registry_of_connects_environment() -> None:
    config = sink_config(replace(TABLE, format=AVRO))
    assert {name: text for name, text in config.items() if "converter" in name} == {
        "key.converter": "io.confluent.connect.avro.AvroConverter",
        "key.converter.schema.registry.url": "${env:SCHEMA_REGISTRY_URL}",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "${env:SCHEMA_REGISTRY_URL}",
    }


def test_apicurio_s_converter_reads_ids_where_the_others_write_them() -> None:
    config = sink_config(replace(TABLE, format=AVRO), converter="apicurio")
    assert {name: text for name, text in config.items() if name.startswith("value.converter")} == {
        "value.converter": "io.apicurio.registry.utils.converter.AvroConverter",
        "value.converter.apicurio.registry.url": "${env:SCHEMA_REGISTRY_URL}",
        "value.converter.apicurio.registry.as-confluent": "true",
        "value.converter.apicurio.registry.use-id": "contentId",
        "value.converter.apicurio.registry.headers.enabled": "false",
    }


def test_a_list_in_avro_cannot_be_sunk_and_one_beside_a_schema_is_left_out() -> None:
    with pytest.raises(UsageError, match="or `format: connect-json`"):
        sink_config(replace(TABLE, form=GROUPS, format=AVRO))
    assert sink_config(replace(TABLE, form=GROUPS, format=CONNECT_JSON))
