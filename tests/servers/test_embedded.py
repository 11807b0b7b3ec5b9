"""A worker with Kafka and Redis inside its process."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from servers.broker.servers import NamedServer, Servers
from streamer.incremental.store.redis_server import connect
from streamer.kafka.clients import open_consumer
from streamer.kafka.embedded import SHARDS, embedded_servers
from streamer.kafka.reading import shards_in
from streamer.kafka.shard_input import KafkaInput
from worlds.patients import Changes
from worlds.workers import WorkedTable, Worker, wait_until


def test_both_servers_answer_and_every_topic_has_its_partitions() -> None:
    with embedded_servers("patients") as servers:
        assert connect(servers.redis).ping()
        state = KafkaInput(servers.kafka, "patients", SHARDS - 1).state()
        assert (state.topic_ids, state.shards, state.earliest, state.end) == ({}, SHARDS, 0, 0)


def test_they_ask_no_one_for_the_password_of_another_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("KAFKA_CONFIG", "missing.properties")
    with embedded_servers("patients") as servers, open_consumer(servers.kafka) as consumer:
        assert [place.partition for place in shards_in(consumer, "patients.live")] == list(range(SHARDS))
    assert os.environ["KAFKA_SECURITY_PROTOCOL"] == "SASL_SSL"


@pytest.mark.slow
def test_a_worker_runs_with_nothing_installed_and_logs_nothing_but_objects(tmp_path: Path) -> None:
    world = WorkedTable(Servers("inside", "", "", NamedServer(), NamedServer()), tmp_path, shards=0, name="inside")
    world.shards, world.changes = SHARDS, Changes(SHARDS)
    more = ["--embedded", "--web", "0", "--log-format", "json"]
    worker = Worker(tmp_path / "worker.log", {"STREAMER_TABLE": str(world.table)}, more=more)
    world.workers.append(worker)
    try:
        wait_until(lambda: len(worker.taken_over()) == SHARDS, 30, world.logs)
        begins = messages_of(worker)[0]
        assert begins.startswith("Kafka and Redis run inside this process: they keep nothing")
        addresses = re.search(r"kafka +(\S+)\s+redis +(\S+)", begins)
        assert addresses is not None
        world.bootstrap, world.environment["REDIS_URL"] = addresses.groups()
        world.write(400)
        world.wait_until_published(30)
        world.assert_published_as_expected()
        assert worker.terminate()[0] == 0
    finally:
        worker.kill()
    assert len([said for said in messages_of(worker) if said.startswith("web: http://127.0.0.1:")]) == 1


def messages_of(worker: Worker) -> list[str]:
    """What each line of the log says; every line is an object."""
    return [json.loads(line)["message"] for line in worker.log.read_text().splitlines()]
