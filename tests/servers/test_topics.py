"""`streamer topics` on a real Kafka: makes what is missing, changes nothing that is there, and says what is wrong."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from servers.broker.servers import Servers
from streamer.cli.main import main
from streamer.incremental import remedies
from streamer.incremental.topics import LIVE, topics_of
from worlds.checkout import PATIENTS
from worlds.kafka_and_redis import admin_of, expire, grow, wait_until_deleted
from worlds.workers import WorkedTable

DAY_MS = str(24 * 60 * 60 * 1000)


@pytest.fixture
def table(servers: Servers, tmp_path: Path) -> WorkedTable:
    """A table that has no topics yet."""
    return WorkedTable(servers, tmp_path, shards=0)


def make(table: WorkedTable, kind: str, partitions: int, **config: str) -> None:
    """A topic that others have made."""
    settings = {setting.replace("_", "."): value for setting, value in config.items()}
    new = NewTopic(f"{table.name}.{kind}", partitions, 1, config=settings)
    admin = admin_of(table.bootstrap)
    admin.create_topics([new])[new.topic].result(20)


def existing(table: WorkedTable) -> set[str]:
    there = admin_of(table.bootstrap).list_topics(timeout=20).topics
    return {topic for topic in there if topic.startswith(f"{table.name}.")}


@pytest.mark.parametrize(("replicas", "confirming"), [("1", None), ("3", "2")])
def test_topics_of_three_copies_are_asked_for_with_two_that_confirm(
    table: WorkedTable, monkeypatch: pytest.MonkeyPatch, replicas: str, confirming: str | None
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
    said = table.must("topics create", "--replicas", replicas).stderr
    assert ("can lose confirmed records" in said) == (replicas == "1")
    assert asked == [(int(replicas), confirming)] * len(topics_of(table.name, [LIVE]))
    assert setting_of(table, f"{table.name}.live", "min.insync.replicas") == (confirming or "1")


def test_create_twice_is_create_once_and_check_agrees(table: WorkedTable) -> None:
    table.must("topics create")
    assert not any(topic["created"] for topic in table.report("topics create")["topics"])
    table.must("topics check")


def test_a_topic_with_another_setting_is_refused_once_the_others_are_made(table: WorkedTable) -> None:
    name = table.name
    make(table, "live", 4, cleanup_policy="delete", min_compaction_lag_ms=DAY_MS, delete_retention_ms=DAY_MS)
    refused = table.refused("topics create")
    told = f"wanted compact (`kafka-configs --bootstrap-server {table.bootstrap} --alter --entity-type topics"
    assert f"{name}.live: cleanup.policy is delete, {told} --entity-name {name}.live --add-config" in refused
    assert existing(table) == {topic.name for topic in topics_of(name, [LIVE])}
    assert "no existing topic was changed" in refused


def test_an_input_that_expires_is_refused(table: WorkedTable) -> None:
    make(table, "changes", 4, retention_ms="604800000")
    refused = table.refused("topics create")
    assert f"{table.name}.changes: retention.ms is 604800000, wanted -1" in refused
    assert "`streamer topics create --adopt` corrects them" in refused
    assert setting_of(table, f"{table.name}.changes", "retention.ms") == "604800000"


# -- topics that someone else made first ---------------------------------------------------------------------------


def test_what_connect_made_first_is_adopted_and_its_other_settings_stay(table: WorkedTable) -> None:
    name = table.name
    make(table, "changes", 3, retention_ms="604800000", segment_ms="60000", cleanup_policy="compact")
    make(table, "live", 3, cleanup_policy="delete", max_message_bytes="9000000")
    adopted = table.must("topics create", "--adopt", "--json")
    report = {topic["topic"].removeprefix(f"{name}."): topic for topic in json.loads(adopted.stdout)["topics"]}
    assert report["changes"]["adopted_from"] == {"cleanup.policy": "compact", "retention.ms": "604800000"}
    assert report["live"]["config"]["cleanup.policy"] == "compact"
    assert report["live"]["config"]["max.message.bytes"] == "9000000", "more than needed is not too much"
    assert report["positions"]["created"] and report["positions"]["adopted_from"] is None
    assert {topic["partitions"] for topic in report.values()} == {3}
    table.must("topics check")
    assert setting_of(table, f"{name}.changes", "segment.ms") == "60000"
    assert "has lost its first messages" not in adopted.stderr, "nothing had been dropped"
    assert not any(topic["adopted_from"] for topic in table.report("topics create", "--adopt")["topics"])


def setting_of(table: WorkedTable, topic: str, setting: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = admin_of(table.bootstrap)
    value: str = admin.describe_configs([resource])[resource].result(20)[setting].value
    return value


def test_an_input_that_dropped_messages_before_it_was_adopted_is_told(table: WorkedTable) -> None:
    changes = f"{table.name}.changes"
    make(table, "changes", 1, retention_ms="604800000")
    table.send([(0, None, b"{}")])
    expire(table.bootstrap, changes, {0: 1})
    adopted = table.must("topics create", "--adopt")
    assert f"{changes} has lost its first messages" in adopted.stderr
    assert f"adopted  {changes}  1 partition  " in adopted.stdout


def test_partitions_are_never_changed_and_nothing_is_adopted_beside_them(table: WorkedTable) -> None:
    name = table.name
    make(table, "changes", 1, retention_ms="604800000")
    refused = table.refused("topics create", "--adopt", "--shards", "4")
    assert "would get into other shards than the row" in refused
    assert "delete all topics" in refused
    assert setting_of(table, f"{name}.changes", "retention.ms") == "604800000"
    assert existing(table) == {f"{name}.changes"}


def test_another_number_of_partitions_is_refused_by_create_and_by_check(table: WorkedTable) -> None:
    name = table.name
    table.must("topics create", "--shards", "2")
    refused = table.refused("topics create", "--shards", "5")
    assert f"--shards 5: the topics of {name} have 2 partitions" in refused
    table.must("topics check")
    table.must("topics create")
    table.refused("topics check", "--shards", "5")


def test_what_was_deleted_is_made_with_as_many_partitions_as_the_others_have(table: WorkedTable) -> None:
    table.must("topics create", "--shards", "7")
    table.delete_topics("live")
    wait_until_deleted(table.bootstrap, table.name, "live")
    assert {topic["partitions"] for topic in table.report("topics create")["topics"]} == {7}


@pytest.mark.parametrize("command", ["topics check", "topics create"])
def test_of_a_grown_input_the_advice_is_to_reload_and_never_to_recreate_the_others_alone(
    table: WorkedTable, command: str
) -> None:
    name = table.name
    table.must("topics create", "--shards", "4")
    grow(table.bootstrap, table.input, 6)
    grown = table.refused(command)
    assert f"{name}.changes 6, {name}.live 4" in grown
    assert remedies.keep_new_partitions(name) in grown
    assert remedies.reload_from_file(name) in grown


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("live", remedies.publish_again),
        ("dead-letters", "delete {0}.dead-letters and run `streamer topics create`".format),
    ],
)
def test_of_another_grown_topic_the_advice_is_its_own(
    table: WorkedTable, kind: str, advice: Callable[[str], str]
) -> None:
    table.must("topics create")
    grow(table.bootstrap, f"{table.name}.{kind}", 5)
    assert advice(table.name) in table.refused("topics check")


@pytest.mark.parametrize(
    ("command", "words", "says"),
    [
        ("topics create", ["--replicas", "99"], "--replicas 99"),
        ("topics check", ["--kafka", "broker"], "HOST:PORT"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(table: WorkedTable, command: str, words: list[str], says: str) -> None:
    assert says in table.refused(command, *words)


PASSWORD = "pw-Canary-7316"


@pytest.mark.parametrize(
    "kafka",
    [
        f"user:{PASSWORD}@host:9092",
        f"host:1,user:{PASSWORD}@host:9092",
        f"sasl://{PASSWORD}:9092",
        f"{PASSWORD}:99999",
    ],
)
@pytest.mark.parametrize("command", ["topics check", "topics create", "subscribe", "status"])
def test_a_password_in_the_address_is_refused_and_never_printed(command: str, kafka: str) -> None:
    refused = CliRunner().invoke(main, [*command.split(), "--table", str(PATIENTS), "--kafka", kafka])
    assert refused.exit_code == 2
    assert "HOST:PORT" in refused.stderr
    assert PASSWORD not in refused.output
    assert refused.exc_info is None or PASSWORD not in "".join(traceback.format_exception(refused.exc_info[1]))
