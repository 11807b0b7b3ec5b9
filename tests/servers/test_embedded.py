"""A worker with Kafka and Redis inside its process."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.kafka.clients import open_consumer
from streamer.kafka.embedded import SHARDS, embedded_servers
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.reading import shards_in
from streamer.kafka.shard_input import KafkaInput
from worlds.kafka_and_redis import read, write
from worlds.patients import Changes, expected, folded, write_table
from worlds.workers import Worker, wait_until


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
def test_a_log_of_objects_has_nothing_else_from_its_first_line_to_its_last(tmp_path: Path) -> None:
    environment = {"STREAMER_TABLE": str(write_table(tmp_path, "inside"))}
    more = ["--embedded", "--web", "0", "--log-format", "json"]
    worker = Worker(tmp_path / "worker.log", environment, more=more)
    try:
        wait_until(lambda: len(worker.taken_over()) == SHARDS, 30, worker.log.read_text)
        assert worker.terminate()[0] == 0
    finally:
        worker.kill()
    said = [json.loads(line)["message"] for line in worker.log.read_text().splitlines()]
    assert said[0].startswith("Kafka and Redis run inside this process")
    assert len([line for line in said if line.startswith("web: http://127.0.0.1:")]) == 1


@pytest.mark.slow
def test_a_worker_runs_with_nothing_installed(tmp_path: Path) -> None:
    table = write_table(tmp_path, "inside")
    worker = Worker(tmp_path / "worker.log", {"STREAMER_TABLE": str(table)}, more=["--embedded"])
    try:
        wait_until(lambda: len(worker.taken_over()) == SHARDS, 30, worker.log.read_text)
        told = re.search(r"kafka +(\S+)\s+redis +(\S+)", worker.log.read_text())
        assert told is not None
        kafka, redis = told.groups()
        changes = Changes(SHARDS)
        write(kafka, "inside.changes", changes.more(400))
        for shard, messages in enumerate(changes.messages):
            outlet = KafkaOutlet(kafka, "inside", shard)
            wait_until(lambda: getattr(outlet.position(), "next", 0) == len(messages), 30, worker.log.read_text)  # noqa: B023
            records = read(kafka, "inside", "live", shard)
            meta = RedisStore(connect(redis), "inside", shard).meta()
            assert meta is not None
            rows, _ = expected(table, shard, messages, SHARDS, meta.secret)
            assert folded([(record.key(), record.value()) for record in records]) == rows
        assert worker.terminate()[0] == 0
        assert "keep nothing" in worker.log.read_text()
    finally:
        worker.kill()
