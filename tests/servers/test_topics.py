"""`streamer topics` on a real Kafka: makes what is missing, changes nothing that is there, and says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from servers.broker.servers import Servers
from streamer.cli.main import main
from worlds.kafka_side import fresh_name

DAY_MS = str(24 * 60 * 60 * 1000)
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def table(tmp_path: Path) -> tuple[str, str]:
    """Name and path of a table that no other test uses."""
    name, path = fresh_name(), tmp_path / "table.yaml"
    path.write_text(
        f"table: {name}\nkey: id\n"
        "columns:\n  age: {role: quasi-identifier, type: integer, domain: [0, 119], grid: 5}\n"
        "privacy: {k: 2}\npublish: {live: {form: rows}}\n"
    )
    return name, str(path)


def topics(servers: Servers, table: tuple[str, str], *arguments: str) -> Result:
    command, *more = arguments
    return CliRunner().invoke(main, ["topics", command, "--table", table[1], "--kafka", servers.kafka_bootstrap, *more])


def make(servers: Servers, name: str, partitions: int, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers.kafka_bootstrap})
    settings = {setting.replace("_", "."): value for setting, value in config.items()}
    for answer in admin.create_topics([NewTopic(name, partitions, 1, config=settings)]).values():
        answer.result(20)


def existing(servers: Servers, name: str) -> set[str]:
    there = AdminClient({"bootstrap.servers": servers.kafka_bootstrap}).list_topics(timeout=20).topics
    return {topic for topic in there if topic.startswith(f"{name}.")}


def test_create_makes_every_topic_with_the_settings_that_the_guarantees_need(servers, table):
    made = topics(servers, table, "create", "--shards", "3", "--json")
    assert made.exit_code == 0, made.output
    report = json.loads(made.stdout)
    assert report["shards"] == 3
    by_name = {topic["topic"].partition(".")[2]: topic for topic in report["topics"]}
    assert set(by_name) == {"changes", "live", "positions", "dead-letters", "control"}
    assert all(topic["created"] and topic["partitions"] == 3 for topic in by_name.values())
    assert by_name["changes"]["config"]["retention.ms"] == "-1"
    assert by_name["live"]["config"]["cleanup.policy"] == "compact"
    assert by_name["live"]["config"]["min.compaction.lag.ms"] == DAY_MS
    assert by_name["live"]["config"]["delete.retention.ms"] == DAY_MS
    assert by_name["positions"]["config"]["cleanup.policy"] == "compact"


def test_create_twice_is_create_once_and_check_agrees(servers, table):
    assert topics(servers, table, "create").exit_code == 0
    again = topics(servers, table, "create", "--json")
    assert again.exit_code == 0
    assert not any(topic["created"] for topic in json.loads(again.stdout)["topics"])
    assert topics(servers, table, "check").exit_code == 0


def test_a_topic_with_another_setting_is_refused_by_name_and_nothing_is_made(servers, table):
    name = table[0]
    make(servers, f"{name}.live", 4, cleanup_policy="delete", min_compaction_lag_ms=DAY_MS, delete_retention_ms=DAY_MS)
    refused = topics(servers, table, "create")
    assert refused.exit_code == 2
    assert f"{name}.live: cleanup.policy is delete, wanted compact" in refused.stderr
    assert existing(servers, name) == {f"{name}.live"}


def test_an_input_that_expires_is_refused(servers, table):
    make(servers, f"{table[0]}.changes", 4, retention_ms="604800000")
    refused = topics(servers, table, "create")
    assert refused.exit_code == 2
    assert f"{table[0]}.changes: retention.ms is 604800000, wanted -1" in refused.stderr


def test_another_number_of_partitions_is_refused_by_create_and_by_check(servers, table):
    name = table[0]
    assert topics(servers, table, "create", "--shards", "2").exit_code == 0
    refused = topics(servers, table, "create", "--shards", "5")
    assert refused.exit_code == 2
    assert f"{name}.changes: the number of partitions is 2, wanted 5" in refused.stderr
    assert topics(servers, table, "check").exit_code == 0, "check takes the input's number"
    assert topics(servers, table, "check", "--shards", "5").exit_code == 2


def test_an_output_with_fewer_partitions_than_the_input_fails_the_check(servers, table):
    assert topics(servers, table, "create", "--shards", "2").exit_code == 0
    admin = AdminClient({"bootstrap.servers": servers.kafka_bootstrap})
    for answer in admin.create_partitions([NewPartitions(f"{table[0]}.changes", 3)]).values():
        answer.result(20)
    grown = topics(servers, table, "check")
    assert grown.exit_code == 2
    assert f"{table[0]}.live: the number of partitions is 2, wanted 3" in grown.stderr


def test_check_names_what_is_missing_and_makes_nothing(servers, table):
    found = topics(servers, table, "check")
    assert found.exit_code == 2
    assert f"{table[0]}.positions: the topic is missing" in found.stderr
    assert existing(servers, table[0]) == set()


def test_more_copies_than_brokers_is_a_usage_error(servers, table):
    refused = topics(servers, table, "create", "--replicas", "99")
    assert refused.exit_code == 2
    assert "--replicas 99" in refused.stderr


def test_a_kafka_that_does_not_answer_ends_with_3(table):
    refused = CliRunner().invoke(main, ["topics", "create", "--table", table[1], "--kafka", NOWHERE])
    assert refused.exit_code == 3
    assert NOWHERE in refused.stderr


def test_an_address_without_a_port_is_a_usage_error(table):
    refused = CliRunner().invoke(main, ["topics", "check", "--table", table[1], "--kafka", "broker"])
    assert refused.exit_code == 2
    assert "HOST:PORT" in refused.stderr
