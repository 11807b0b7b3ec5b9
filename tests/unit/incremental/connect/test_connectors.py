"""Where a database is: read from the command line, and never repeated where it is wrong."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from streamer.errors import ConfigError, UsageError
from streamer.incremental.connect.connectors import (
    APICURIO,
    CONFLUENT,
    MARIADB,
    MYSQL,
    NOT_IN_BINLOG,
    POSTGRES,
    Database,
    avro_converter,
    binlog_settings,
    database_of,
    default_relation,
    named_columns,
    server_id,
    signals_beside,
    sink_config,
    source_config,
    source_sql,
)
from streamer.table.schema import AVRO, CONNECT_JSON, GROUPS, LOSSY_JOIN
from worlds.published_forms import TABLE, published_as


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("db", Database("db")),
        ("db.example:5433", Database("db.example", 5433)),
        ("[::1]:3307/ward", Database("[::1]", 3307, "ward")),
    ],
)
def test_host_port_and_name_are_read(text: str, expected: Database) -> None:
    assert database_of(text) == expected


@pytest.mark.parametrize(
    "text", ["", "me:pw-Canary@db", "postgres://pw-Canary@db/x", "db:99999", "db:0", "pw-Canary db"]
)
def test_anything_else_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        database_of(text)
    assert "HOST[:PORT][/NAME]" in str(refused.value)
    assert "Canary" not in str(refused.value)


def test_the_default_port_is_the_system_s_own() -> None:
    assert (Database().port_of(POSTGRES), Database().port_of(MYSQL), Database("h", 1).port_of(MYSQL)) == (5432, 3306, 1)


# Both converters of Avro find a schema where the other one, and a worker, writes its id.


def test_confluent_s_converter_needs_the_registry_alone() -> None:
    assert avro_converter("key", CONFLUENT, "http://registry") == {
        "key.converter": "io.confluent.connect.avro.AvroConverter",
        "key.converter.schema.registry.url": "http://registry",
    }


def test_apicurio_s_converter_is_set_to_the_ids_of_the_others() -> None:
    read = avro_converter("value", APICURIO, "http://registry")
    assert read == {
        "value.converter": "io.apicurio.registry.utils.converter.AvroConverter",
        "value.converter.apicurio.registry.url": "http://registry",
        "value.converter.apicurio.registry.as-confluent": "true",
        "value.converter.apicurio.registry.use-id": "contentId",
        "value.converter.apicurio.registry.headers.enabled": "false",
    }
    written = avro_converter("value", APICURIO, "http://registry", writes=True)
    assert written == read | {"value.converter.apicurio.registry.auto-register": "true"}


# What MySQL's and MariaDB's connectors are told beside the rest, and what their binlog never tells is said.


def test_the_schema_history_is_kept_in_the_given_kafka() -> None:
    settings = binlog_settings(TABLE, "ward.people", "broker:9092")
    assert settings["schema.history.internal.kafka.bootstrap.servers"] == "broker:9092"
    assert settings["schema.history.internal.kafka.topic"] == "people.schema-history"


def test_the_connectors_of_two_tables_are_two_replicas_for_their_server() -> None:
    assert server_id("people") == server_id("people") != server_id("beds")
    assert all(1 << 16 <= server_id(f"table{n}") < 1 << 31 for n in range(100))


def test_the_sql_says_what_the_binlog_leaves_out() -> None:
    sql = source_sql(TABLE, MYSQL, "ward.people")
    assert all(f"-- * {sentence}." in sql for sentence in NOT_IN_BINLOG)


def test_names_are_texts_in_the_question_for_foreign_keys() -> None:
    assert "constraint_schema = 'o''neill' AND table_name = 'a\\\\b'" in source_sql(TABLE, MYSQL, "o'neill.a\\b")


# Debezium's side of a table (for Postgres: tests/golden/outputs/connect-source.txt).

JSON = "org.apache.kafka.connect.json.JsonConverter"


def test_the_configuration_for_mysql_differs_in_what_mysql_needs() -> None:
    config = source_config(TABLE, MYSQL, database=Database("db", name="ward"), kafka="broker:9092")
    of_postgres = source_config(TABLE, POSTGRES)
    own = {name: value for name, value in config.items() if of_postgres.get(name) != value}
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


def test_mariadb_has_the_settings_of_mysql_and_its_own_connector() -> None:
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
def test_a_key_column_that_debezium_cannot_name_is_refused(column: str) -> None:
    with pytest.raises(ConfigError, match=r"message\.key\.columns"):
        source_config(replace(TABLE, source_key=(column,)), POSTGRES)


def test_the_sql_for_postgres_logs_whole_rows_and_publishes_table_and_signals() -> None:
    sql = source_sql(TABLE, POSTGRES, default_relation(TABLE, POSTGRES, Database()))
    statements = [line for line in sql.splitlines() if not line.startswith(("--", " "))]
    assert statements == [
        'ALTER TABLE "public"."people" REPLICA IDENTITY FULL;',
        "DO $$ DECLARE part regclass; BEGIN",
        "END $$;",
        'CREATE TABLE IF NOT EXISTS "public"."debezium_signal" '
        "(id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048));",
        'CREATE PUBLICATION "streamer_people" FOR TABLE "public"."people", "public"."debezium_signal" '
        "WITH (publish_via_partition_root = true);",
    ]


def test_the_sql_for_mysql_says_what_the_binlog_must_hold() -> None:
    sql = source_sql(TABLE, MYSQL, "ward.people")
    assert "binlog_row_image = FULL" in sql
    assert "WHERE constraint_schema = 'ward' AND table_name = 'people'" in sql
    assert f"CREATE TABLE IF NOT EXISTS `ward`.`{signals_beside('ward.people').partition('.')[2]}`" in sql


# The sink's configuration (for Postgres: tests/golden/outputs/connect-sink.txt) reads nothing that is not published.


def test_another_database_is_another_address() -> None:
    config = sink_config(TABLE, MYSQL, database=Database("db", 3307, "ward"))
    assert config["connection.url"] == "jdbc:mysql://db:3307/ward"


def test_whole_groups_are_sunk_by_their_name() -> None:
    schema = json.loads(sink_config(published_as(GROUPS))["key.converter.schema.content"])
    assert [field["field"] for field in schema["fields"]] == ["qi_group"]


def test_a_lossy_join_cannot_be_sunk() -> None:
    with pytest.raises(UsageError, match="two moments"):
        sink_config(published_as(LOSSY_JOIN))


@pytest.mark.parametrize(
    ("format_", "converter", "settings"),
    [
        (CONNECT_JSON, CONFLUENT, {"": JSON, ".schemas.enable": "true"}),
        (
            AVRO,
            CONFLUENT,
            {"": "io.confluent.connect.avro.AvroConverter", ".schema.registry.url": "${env:SCHEMA_REGISTRY_URL}"},
        ),
        (
            AVRO,
            APICURIO,
            {
                "": "io.apicurio.registry.utils.converter.AvroConverter",
                ".apicurio.registry.url": "${env:SCHEMA_REGISTRY_URL}",
                ".apicurio.registry.as-confluent": "true",
                ".apicurio.registry.use-id": "contentId",
                ".apicurio.registry.headers.enabled": "false",
            },
        ),
    ],
)
def test_a_sink_reads_schemas_from_each_record_or_from_the_registry(
    format_: str, converter: str, settings: dict[str, str]
) -> None:
    config = sink_config(replace(TABLE, format=format_), converter=converter)
    assert {name: text for name, text in config.items() if "converter" in name} == {
        f"{side}.converter{name}": text for side in ("key", "value") for name, text in settings.items()
    }


def test_a_list_in_avro_cannot_be_sunk_and_one_beside_a_schema_is_left_out() -> None:
    with pytest.raises(UsageError, match="or `format: connect-json`"):
        sink_config(replace(TABLE, form=GROUPS, format=AVRO))
    assert sink_config(replace(TABLE, form=GROUPS, format=CONNECT_JSON))
