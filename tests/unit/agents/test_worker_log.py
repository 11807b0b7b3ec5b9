"""What stands in a worker's log: its first line, a line a minute, and no secret; as text and as JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from importlib.metadata import version

import pytest

from agents.worker_log import JSON, TEXT, tell_minute, tell_start, write_logs
from agents.worker_settings import WorkerSettings
from streamer.incremental.events.counts import Counts
from streamer.incremental.shard.steps import StepReport
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS
from worlds.patients import CANARY

DONE = StepReport(Counts(applied=1_200, ignored=2, dead_letters=1), published=3_011, commits=60, merges=4, splits=3)
NOW = {"rows": 15_002, "pending": 0, "qi_groups": 2_999, "lag": 7}


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root, levels = logging.getLogger(), {name: logging.getLogger(name).level for name in ("agents", "streamer", "mode")}
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, former in levels.items():
        logging.getLogger(name).setLevel(former)


def test_the_first_line_says_version_table_and_servers_and_no_password(capfd: pytest.CaptureFixture[str]) -> None:
    table = load_table(PATIENTS)
    settings = WorkerSettings(table, "a:9092", f"redis://me:{CANARY}@b:6379/0", name="here:1")
    write_logs("info")
    tell_start(settings, "Redis b:6379", 4)
    line = capfd.readouterr().err
    assert line.rstrip().endswith(
        f"INFO agents.worker_log: streamer {version('streamer')}, worker here:1: table {table.name} (k = {table.k}, 4 "
        f"shards, fingerprint {table.fingerprint}), Kafka at a:9092, Redis b:6379"
    )
    assert CANARY not in line


def test_a_minute_of_a_shard_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    write_logs("info", TEXT)
    tell_minute("shard 2 of people", DONE, NOW)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.split(": ", 1)[1] == (
        "shard 2 of people: 1203 messages (1200 applied, 2 ignored, 1 dead letters), 3011 records in 60 commits, "
        "4 merges, 3 splits; 15002 rows (0 pending), 2999 QI groups, lag 7"
    )


def test_as_json_its_numbers_are_fields(capfd: pytest.CaptureFixture[str]) -> None:
    write_logs("info", JSON)
    tell_minute("shard 2 of people", DONE, NOW)
    (line,) = capfd.readouterr().err.splitlines()
    said = json.loads(line)
    assert said.items() >= {"level": "INFO", "logger": "agents.worker_log", "shard": "shard 2 of people"}.items()
    assert (said["applied"], said["records"], said["lag"]) == (1_200, 3_011, 7)
    assert said["message"].startswith("shard 2 of people: 1203 messages") and said["time"]


def test_libraries_are_heard_from_warnings_on_whatever_the_level(capfd: pytest.CaptureFixture[str]) -> None:
    write_logs("debug")
    logging.getLogger("aiokafka.conn").debug(CANARY)
    logging.getLogger("agents.shard").debug("a batch")
    logging.getLogger("aiokafka.conn").warning("away")
    assert [line.split(" ", 2)[2] for line in capfd.readouterr().err.splitlines()] == [
        "DEBUG agents.shard: a batch",
        "WARNING aiokafka.conn: away",
    ]
