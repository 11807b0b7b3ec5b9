"""What MySQL's and MariaDB's connectors are told beside the rest, and what their binlog never tells is said."""

from __future__ import annotations

from streamer.incremental.connectors.binlog_source import UNTOLD, binlog_settings, server_id
from streamer.incremental.connectors.database import MYSQL
from streamer.incremental.connectors.debezium_source import source_sql
from worlds.published_forms import TABLE


def test_the_history_of_the_table_is_kept_where_the_connector_is_told() -> None:
    settings = binlog_settings(TABLE, "ward.people", "broker:9092")
    assert settings["schema.history.internal.kafka.bootstrap.servers"] == "broker:9092"
    assert settings["schema.history.internal.kafka.topic"] == "people.schema-history"


def test_the_connectors_of_two_tables_are_two_replicas_for_their_server() -> None:
    assert server_id("people") == server_id("people") != server_id("beds")
    assert all(1 << 16 <= server_id(f"table{n}") < 1 << 31 for n in range(100))


def test_whoever_owns_the_table_is_told_what_the_binlog_leaves_out() -> None:
    sql = source_sql(TABLE, MYSQL, "ward.people")
    assert all(f"-- * {sentence}." in sql for sentence in UNTOLD)


def test_names_are_texts_in_the_question_for_foreign_keys() -> None:
    assert "constraint_schema = 'o''neill' AND table_name = 'a\\\\b'" in source_sql(TABLE, MYSQL, "o'neill.a\\b")
