"""`streamer topics` on a real Kafka: makes what is missing, changes nothing that is there, and says what is wrong."""

from __future__ import annotations

import json
import traceback
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from servers.broker.servers import Servers
from streamer.cli.main import main
from streamer.incremental import remedies
from streamer.incremental.topics import topics_of
from streamer.table.schema import ROWS
from worlds.kafka_and_redis import fresh_name

DAY_MS = str(24 * 60 * 60 * 1000)
NOWHERE = "127.0.0.1:1"

Table = tuple[str, str]
"""Name and path of a table."""


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Name and path of a table that no other test uses."""
    name, path = fresh_name(), tmp_path / "table.yaml"
    path.write_text(
        f"table: {name}\nkey: id\n"
        "columns:\n  age: {role: quasi-identifier, type: integer, domain: [0, 119], grid: 5}\n"
        "privacy: {k: 2}\npublish: {live: {form: rows}}\n"
    )
    return name, str(path)


def topics(servers: Servers, table: Table, *arguments: str) -> Result:
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


def test_create_makes_every_topic_with_the_settings_that_the_guarantees_need(servers: Servers, table: Table) -> None:
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


@pytest.mark.parametrize(("replicas", "confirming"), [("1", None), ("3", "2")])
def test_topics_of_three_copies_are_asked_for_with_two_that_confirm(
    servers: Servers, table: Table, monkeypatch: pytest.MonkeyPatch, replicas: str, confirming: str | None
) -> None:
    asked: list[tuple[int, str | None]] = []

    def one_copy(admin: AdminClient, news: list[NewTopic], **limits: object) -> object:
        """The tests' Kafka is one broker: it is asked for one copy, whatever the command asked for."""
        asked.extend((new.replication_factor, new.config.get("min.insync.replicas")) for new in news)
        for new in news:
            new.replication_factor = 1
        return create_topics(admin, news, **limits)

    create_topics = AdminClient.create_topics
    monkeypatch.setattr(AdminClient, "create_topics", one_copy)
    made = topics(servers, table, "create", "--replicas", replicas)
    assert made.exit_code == 0, made.output
    assert asked == [(int(replicas), confirming)] * len(topics_of(table[0], ROWS))
    assert setting_of(servers, f"{table[0]}.live", "min.insync.replicas") == (confirming or "1")


def test_create_twice_is_create_once_and_check_agrees(servers: Servers, table: Table) -> None:
    assert topics(servers, table, "create").exit_code == 0
    again = topics(servers, table, "create", "--json")
    assert again.exit_code == 0
    assert not any(topic["created"] for topic in json.loads(again.stdout)["topics"])
    assert topics(servers, table, "check").exit_code == 0


def test_a_topic_with_another_setting_is_refused_once_the_others_are_made(servers: Servers, table: Table) -> None:
    name = table[0]
    make(servers, f"{name}.live", 4, cleanup_policy="delete", min_compaction_lag_ms=DAY_MS, delete_retention_ms=DAY_MS)
    refused = topics(servers, table, "create")
    assert refused.exit_code == 2
    told = f"wanted compact (`kafka-configs --bootstrap-server {servers.kafka_bootstrap} --alter --entity-type topics"
    assert f"{name}.live: cleanup.policy is delete, {told} --entity-name {name}.live --add-config" in refused.stderr
    assert existing(servers, name) == {topic.name for topic in topics_of(name, ROWS)}
    assert "no existing one was changed" in refused.stderr


def test_an_input_that_expires_is_refused(servers: Servers, table: Table) -> None:
    make(servers, f"{table[0]}.changes", 4, retention_ms="604800000")
    refused = topics(servers, table, "create")
    assert refused.exit_code == 2
    assert f"{table[0]}.changes: retention.ms is 604800000, wanted -1" in refused.stderr


# -- topics that somebody else made first ---------------------------------------------------------------------------


def test_what_connect_made_first_is_adopted_and_its_other_settings_stay(servers: Servers, table: Table) -> None:
    name = table[0]
    make(servers, f"{name}.changes", 3, retention_ms="604800000", segment_ms="60000", cleanup_policy="compact")
    make(servers, f"{name}.live", 3, cleanup_policy="delete", max_message_bytes="9000000")
    adopted = topics(servers, table, "create", "--adopt", "--json")
    assert adopted.exit_code == 0, adopted.output
    report = {topic["topic"].removeprefix(f"{name}."): topic for topic in json.loads(adopted.stdout)["topics"]}
    assert report["changes"]["adopted_from"] == {"cleanup.policy": "compact", "retention.ms": "604800000"}
    assert report["live"]["config"]["cleanup.policy"] == "compact"
    assert report["live"]["config"]["max.message.bytes"] == "9000000", "more than needed is not too much"
    assert report["positions"]["created"] and report["positions"]["adopted_from"] is None
    assert {topic["partitions"] for topic in report.values()} == {3}
    assert topics(servers, table, "check").exit_code == 0
    assert setting_of(servers, f"{name}.changes", "segment.ms") == "60000"
    assert adopted.stderr == "", "nothing had been dropped"
    again = topics(servers, table, "create", "--adopt", "--json")
    assert not any(topic["adopted_from"] for topic in json.loads(again.stdout)["topics"])


def setting_of(servers: Servers, topic: str, setting: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": servers.kafka_bootstrap})
    value: str = admin.describe_configs([resource])[resource].result(20)[setting].value
    return value


def test_an_input_that_dropped_messages_before_it_was_adopted_is_told(servers: Servers, table: Table) -> None:
    changes = f"{table[0]}.changes"
    make(servers, changes, 1, retention_ms="604800000")
    producer = Producer({"bootstrap.servers": servers.kafka_bootstrap})
    producer.produce(changes, b"{}", partition=0)
    producer.flush(20)
    admin = AdminClient({"bootstrap.servers": servers.kafka_bootstrap})
    for answer in admin.delete_records([TopicPartition(changes, 0, 1)]).values():
        answer.result(20)
    adopted = topics(servers, table, "create", "--adopt")
    assert adopted.exit_code == 0, adopted.output
    assert f"{changes} has dropped its first messages already" in adopted.stderr
    assert f"adopted  {changes}  1 partition  " in adopted.stdout


def test_partitions_are_never_changed_and_nothing_is_adopted_beside_them(servers: Servers, table: Table) -> None:
    name = table[0]
    make(servers, f"{name}.changes", 1, retention_ms="604800000")
    refused = topics(servers, table, "create", "--adopt", "--shards", "4")
    assert refused.exit_code == 2
    assert "would come to other shards than the row" in refused.stderr
    assert "delete all topics" in refused.stderr
    assert setting_of(servers, f"{name}.changes", "retention.ms") == "604800000"
    assert existing(servers, name) == {f"{name}.changes"}


def test_who_did_not_ask_for_it_is_told_of_adopt(servers: Servers, table: Table) -> None:
    make(servers, f"{table[0]}.changes", 1, retention_ms="604800000")
    refused = topics(servers, table, "create")
    assert refused.exit_code == 2
    assert "`streamer topics create --adopt` sets them" in refused.stderr
    assert setting_of(servers, f"{table[0]}.changes", "retention.ms") == "604800000"


def grow(servers: Servers, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers.kafka_bootstrap})
    for answer in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        answer.result(20)


def test_another_number_of_partitions_is_refused_by_create_and_by_check(servers: Servers, table: Table) -> None:
    name = table[0]
    assert topics(servers, table, "create", "--shards", "2").exit_code == 0
    refused = topics(servers, table, "create", "--shards", "5")
    assert refused.exit_code == 2
    assert f"--shards 5: the topics of {name} have 2 partitions" in refused.stderr
    assert topics(servers, table, "check").exit_code == 0, "check takes the number that is there"
    assert topics(servers, table, "create").exit_code == 0, "and so does create"
    assert topics(servers, table, "check", "--shards", "5").exit_code == 2


def test_what_was_deleted_is_made_with_as_many_partitions_as_the_others_have(servers: Servers, table: Table) -> None:
    assert topics(servers, table, "create", "--shards", "7").exit_code == 0
    admin = AdminClient({"bootstrap.servers": servers.kafka_bootstrap})
    admin.delete_topics([f"{table[0]}.live"])[f"{table[0]}.live"].result(20)
    made = topics(servers, table, "create", "--json")
    assert made.exit_code == 0, made.output
    assert {topic["partitions"] for topic in json.loads(made.stdout)["topics"]} == {7}


@pytest.mark.parametrize("command", ["check", "create"])
def test_a_grown_input_makes_the_advice_to_begin_the_table_anew_and_never_to_remake_the_others_alone(
    servers: Servers, table: Table, command: str
) -> None:
    name = table[0]
    assert topics(servers, table, "create", "--shards", "4").exit_code == 0
    grow(servers, f"{name}.changes", 6)
    grown = topics(servers, table, command)
    assert grown.exit_code == 2
    assert f"{name}.changes 6, {name}.live 4" in grown.stderr
    assert remedies.after_growth(name) in grown.stderr
    assert remedies.begin_from_file(name) in grown.stderr


def test_an_output_with_another_number_is_to_be_published_again(servers: Servers, table: Table) -> None:
    assert topics(servers, table, "create").exit_code == 0
    grow(servers, f"{table[0]}.live", 5)
    grown = topics(servers, table, "check")
    assert grown.exit_code == 2
    assert remedies.publish_again(table[0]) in grown.stderr


def test_dead_letters_with_another_number_are_to_be_deleted_alone(servers: Servers, table: Table) -> None:
    assert topics(servers, table, "create").exit_code == 0
    grow(servers, f"{table[0]}.dead-letters", 5)
    grown = topics(servers, table, "check")
    assert grown.exit_code == 2
    assert f"delete {table[0]}.dead-letters and run `streamer topics create`" in grown.stderr


def test_check_names_what_is_missing_and_makes_nothing(servers: Servers, table: Table) -> None:
    found = topics(servers, table, "check")
    assert found.exit_code == 2
    assert f"{table[0]}.positions: the topic is missing" in found.stderr
    assert existing(servers, table[0]) == set()


def test_more_copies_than_brokers_is_a_usage_error(servers: Servers, table: Table) -> None:
    refused = topics(servers, table, "create", "--replicas", "99")
    assert refused.exit_code == 2
    assert "--replicas 99" in refused.stderr


def test_a_kafka_that_does_not_answer_ends_with_3(table: Table) -> None:
    refused = CliRunner().invoke(main, ["topics", "create", "--table", table[1], "--kafka", NOWHERE])
    assert refused.exit_code == 3
    assert NOWHERE in refused.stderr


def test_an_address_without_a_port_is_a_usage_error(table: Table) -> None:
    refused = CliRunner().invoke(main, ["topics", "check", "--table", table[1], "--kafka", "broker"])
    assert refused.exit_code == 2
    assert "HOST:PORT" in refused.stderr


PASSWORD = "pw-Canary-7316"


ADDRESSES = (
    f"user:{PASSWORD}@host:9092",
    f"host:1,user:{PASSWORD}@host:9092",
    f"sasl://{PASSWORD}:9092",
    f"{PASSWORD}:99999",
)


@pytest.mark.parametrize("kafka", ADDRESSES)
@pytest.mark.parametrize("command", ["topics check", "topics create", "subscribe", "status"])
def test_a_password_in_the_address_is_refused_and_never_printed(table: Table, kafka: str, command: str) -> None:
    refused = CliRunner().invoke(main, [*command.split(), "--table", table[1], "--kafka", kafka])
    assert refused.exit_code == 2
    assert "HOST:PORT" in refused.stderr
    assert PASSWORD not in refused.output
    assert refused.exc_info is None or PASSWORD not in "".join(traceback.format_exception(refused.exc_info[1]))
