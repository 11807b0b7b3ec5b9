"""`streamer doctor`: every part that a worker needs is tried on real servers, and a fault comes with its remedy."""

from __future__ import annotations

import json
from pathlib import Path
from time import time
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from servers.broker.servers import Servers
from servers.registry import StubRegistry
from streamer.cli.operate import doctor
from worlds.calls import streamer
from worlds.kafka_and_redis import admin_of
from worlds.workers import WorkedTable


@pytest.fixture
def table(servers: Servers, tmp_path: Path) -> WorkedTable:
    return WorkedTable(servers, tmp_path, shards=2)


def looked(table: WorkedTable, *more: object, **environment: str) -> tuple[int, dict[str, Any]]:
    """The exit code and what was tried, by part."""
    result = streamer("doctor", "--json", *more, **(table.environment | environment))
    report = json.loads(result.stdout)
    assert report["ok"] == (result.exit_code == 0)
    return result.exit_code, {one["part"]: one for one in report["parts"]}


def test_a_missing_topic_is_told_and_what_does_not_need_it_is_tried(servers: Servers, tmp_path: Path) -> None:
    exit_code, parts = looked(WorkedTable(servers, tmp_path, shards=0))
    assert exit_code == 1
    assert [parts[part]["ok"] for part in ("Kafka", "topics", "input", "Redis", "clocks")] == [
        True, False, None, True, True,
    ]  # fmt: skip
    assert "`streamer topics create` creates what is missing" in parts["topics"]["said"]
    assert parts["input"]["said"] == "not tried, because of the fault of topics"


def test_a_topic_with_a_wrong_setting_is_told_with_the_remedy(table: WorkedTable) -> None:
    resource = ConfigResource(ResourceType.TOPIC, f"{table.name}.changes")
    resource.add_incremental_config(ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET))
    admin = admin_of(table.bootstrap)
    admin.incremental_alter_configs([resource])[resource].result(20)
    exit_code, parts = looked(table)
    assert (exit_code, parts["topics"]["ok"], parts["topics' settings"]["ok"]) == (1, True, False)
    assert "retention.ms is 1000, wanted -1" in parts["topics' settings"]["said"]


def test_clocks_that_differ_are_a_fault(table: WorkedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "time", lambda: time() - 60)
    exit_code, parts = looked(table)
    assert (exit_code, parts["clocks"]["ok"]) == (1, False)
    assert "60 s ahead of that of this machine: set both by NTP" in parts["clocks"]["said"]


def test_a_registry_is_asked_with_its_password_which_is_not_shown(table: WorkedTable) -> None:
    registry = StubRegistry("reader:Canary-4711")
    registry.open()
    settings = {"SCHEMA_REGISTRY_URL": registry.url, "SCHEMA_REGISTRY_BASIC_AUTH": "reader:Canary-4711"}
    exit_code, parts = looked(table, **settings)
    assert (exit_code, parts["schema registry"]["ok"]) == (0, True), parts["schema registry"]
    exit_code, parts = looked(table, **{**settings, "SCHEMA_REGISTRY_BASIC_AUTH": "reader:Canary-other"})
    assert (exit_code, parts["schema registry"]["ok"]) == (1, False)
    assert "refuses us (401)" in parts["schema registry"]["said"]
    assert "Canary" not in json.dumps(parts)
    registry.shut()
    assert looked(table, **settings)[1]["schema registry"]["ok"] is False
