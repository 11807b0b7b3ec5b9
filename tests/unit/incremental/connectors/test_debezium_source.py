"""Debezium's side of a table: what would be lost or misread without a setting is set, and nothing secret is in it.

That Debezium knows every setting was looked up in the ConfigDef of its connectors, release 3.3.1.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from streamer.errors import ConfigError
from streamer.incremental.connectors.binlog_source import server_id
from streamer.incremental.connectors.database import MARIADB, MYSQL, POSTGRES, Database
from streamer.incremental.connectors.debezium_source import (
    default_relation,
    named_columns,
    signals_beside,
    source_config,
    source_sql,
)
from worlds.published_forms import TABLE, published_as

JSON = "org.apache.kafka.connect.json.JsonConverter"
POSTGRES_CONFIG = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "tasks.max": "1",
    "database.hostname": "HOST",
    "database.port": "5432",
    "database.user": "${env:SOURCE_USER}",
    "database.password": "${env:SOURCE_PASSWORD}",
    "database.dbname": "DATABASE",
    "plugin.name": "pgoutput",
    "slot.name": "streamer_people",
    "publication.name": "streamer_people",
    "publication.autocreate.mode": "disabled",
    "topic.prefix": "people",
    "table.include.list": r"public\.people",
    "column.include.list": r"public\.people\.(id|age|bmi|city|problem|cost|visits|smokes),"
    r"public\.debezium_signal\.(id|type|data)",
    "message.key.columns": r"public\.people:id",
    "snapshot.mode": "initial",
    "skipped.operations": "none",
    "tombstones.on.delete": "true",
    "decimal.handling.mode": "string",
    "heartbeat.interval.ms": "10000",
    "signal.enabled.channels": "source",
    "signal.data.collection": "public.debezium_signal",
    "key.converter": JSON,
    "key.converter.schemas.enable": "true",
    "key.converter.replace.null.with.default": "false",
    "value.converter": JSON,
    "value.converter.schemas.enable": "true",
    "value.converter.replace.null.with.default": "false",
    "transforms": "route",
    "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.route.regex": r"people\.public\.people",
    "transforms.route.replacement": "people.changes",
    "topic.creation.default.replication.factor": "-1",
    "topic.creation.default.partitions": "1",
    "topic.creation.groups": "changes",
    "topic.creation.changes.include": r"people\.changes",
    "topic.creation.changes.replication.factor": "-1",
    "topic.creation.changes.partitions": "4",
    "topic.creation.changes.cleanup.policy": "delete",
    "topic.creation.changes.retention.ms": "-1",
    "topic.creation.changes.retention.bytes": "-1",
}


def test_the_configuration_for_postgres() -> None:
    assert source_config(TABLE, POSTGRES) == POSTGRES_CONFIG


def test_the_configuration_for_mysql_differs_in_what_mysql_needs() -> None:
    config = source_config(TABLE, MYSQL, database=Database("db", name="ward"), kafka="broker:9092")
    own = {name: value for name, value in config.items() if POSTGRES_CONFIG.get(name) != value}
    assert own == {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "database.hostname": "db",
        "database.port": "3306",
        "database.server.id": str(server_id("people")),
        "database.include.list": "ward",
        "schema.history.internal.kafka.bootstrap.servers": "broker:9092",
        "schema.history.internal.kafka.topic": "people.schema-history",
        "schema.history.internal.store.only.captured.tables.ddl": "true",
        "include.schema.changes": "false",
        "converters": "boolean",
        "boolean.type": "io.debezium.connector.binlog.converters.TinyIntOneToBooleanConverter",
        "boolean.selector": r"ward\.people\.smokes",
        "table.include.list": r"ward\.people",
        "column.include.list": r"ward\.people\.(id|age|bmi|city|problem|cost|visits|smokes),"
        r"ward\.debezium_signal\.(id|type|data)",
        "message.key.columns": r"ward\.people:id",
        "signal.data.collection": "ward.debezium_signal",
        "transforms.route.regex": r"people\.ward\.people",
    }
    assert "plugin.name" not in config


def test_mariadb_is_told_what_mysql_is_by_a_connector_of_its_own() -> None:
    place = Database("db", name="ward")
    assert source_config(TABLE, MARIADB, database=place) == source_config(TABLE, MYSQL, database=place) | {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector"
    }
    assert source_sql(TABLE, MARIADB, "ward.people") == source_sql(TABLE, MYSQL, "ward.people")


def test_schemas_are_in_keys_and_values_or_in_neither() -> None:
    config = source_config(TABLE, POSTGRES, schemas=False)
    assert config["key.converter.schemas.enable"] == config["value.converter.schemas.enable"] == "false"


def test_columns_that_table_yaml_does_not_name_stay_in_the_database() -> None:
    table = published_as(individual="ssn")
    assert named_columns(table) == ("id", "ssn", "age", "bmi", "city", "problem", "cost", "visits", "smokes")
    listed = source_config(table, POSTGRES)["column.include.list"].split(",")
    assert any(re.fullmatch(pattern, "public.people.ssn") for pattern in listed)
    assert not any(re.fullmatch(pattern, "public.people.name") for pattern in listed)


def test_names_are_taken_by_letter_where_debezium_reads_regular_expressions() -> None:
    config = source_config(replace(TABLE, name="ward-7.people"), POSTGRES, relation="Ward.People")
    assert re.fullmatch(config["table.include.list"], "Ward.People")
    assert not re.fullmatch(config["table.include.list"], "WardxPeople")
    assert re.fullmatch(config["transforms.route.regex"], "ward-7.people.Ward.People")
    assert config["slot.name"] == "streamer_ward_7_people"


def test_a_composite_key_comes_in_the_order_of_table_yaml() -> None:
    config = source_config(replace(TABLE, source_key=("ward", "number")), POSTGRES)
    assert config["message.key.columns"] == r"public\.people:ward,number"


@pytest.mark.parametrize("column", ["the id", "a:b", "a,b"])
def test_a_key_that_debezium_cannot_be_told_is_refused(column: str) -> None:
    with pytest.raises(ConfigError, match=r"message\.key\.columns"):
        source_config(replace(TABLE, source_key=(column,)), POSTGRES)


def test_postgres_is_told_to_log_whole_rows_and_to_publish_table_and_signals() -> None:
    sql = source_sql(TABLE, POSTGRES, default_relation(TABLE, POSTGRES, Database()))
    statements = [line for line in sql.splitlines() if not line.startswith("--")]
    assert statements == [
        'ALTER TABLE "public"."people" REPLICA IDENTITY FULL;',
        'CREATE TABLE IF NOT EXISTS "public"."debezium_signal" '
        "(id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048));",
        'CREATE PUBLICATION "streamer_people" FOR TABLE "public"."people", "public"."debezium_signal";',
    ]


def test_mysql_is_told_what_its_log_must_hold() -> None:
    sql = source_sql(TABLE, MYSQL, "ward.people")
    assert "binlog_row_image = FULL" in sql
    assert "WHERE constraint_schema = 'ward' AND table_name = 'people'" in sql
    assert f"CREATE TABLE IF NOT EXISTS `ward`.`{signals_beside('ward.people').partition('.')[2]}`" in sql
