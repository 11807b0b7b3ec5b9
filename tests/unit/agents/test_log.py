"""What the reading client may write to the log: a few lines, and no message ever."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version

import click
import msgspec
import pytest

from agents.log import REPEATING, fatal_error_logged, log_minute, log_start, print_note, quiet_aiokafka, write_logs
from streamer.errors import ShardRefused
from streamer.incremental.events.changes import Counts
from streamer.incremental.shard.steps import StepReport
from streamer.kafka.clients import AtMost
from streamer.table.yaml.loading import load_table
from streamer.worker.options import JSON, TEXT
from streamer.worker.settings import WorkerSettings
from worlds.checkout import PATIENTS
from worlds.patients import CANARY


@pytest.fixture
def loggers_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in REPEATING]
    before = [(logger.level, list(logger.filters)) for logger in loggers]
    yield
    for logger, (level, filters) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.filters[:] = filters


@pytest.mark.usefixtures("loggers_as_before")
def test_debug_lines_of_the_consumer_which_hold_whole_messages_are_never_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quiet_aiokafka()
    caplog.handler.setLevel(logging.DEBUG)
    for name in REPEATING:
        logging.getLogger(name).debug("a canary in a message")
    assert caplog.records == []


@pytest.mark.usefixtures("loggers_as_before")
def test_every_logger_is_limited_once_however_often_it_is_asked_for() -> None:
    for _ in range(3):
        quiet_aiokafka()
    for name in REPEATING:
        assert [type(one) for one in logging.getLogger(name).filters].count(AtMost) == 1


# What stands in a worker's log: its first line, a line a minute, and no secret; as text and as JSON.

DONE = StepReport(Counts(applied=1_200, ignored=2, dead_letters=1), published=3_011, commits=60, merges=4, splits=3)
NOW = {"rows": 15_002, "pending": 0, "qi_groups": 2_999, "lag": 7}


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    root, levels = logging.getLogger(), {name: logging.getLogger(name).level for name in ("agents", "streamer", "mode")}
    handlers, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, former in levels.items():
        logging.getLogger(name).setLevel(former)


@pytest.mark.usefixtures("logging_as_before")
def test_the_first_line_says_version_table_and_servers_and_no_password(capfd: pytest.CaptureFixture[str]) -> None:
    table = load_table(PATIENTS)
    settings = WorkerSettings(table, "a:9092", f"redis://me:{CANARY}@b:6379/0", name="here:1")
    write_logs("info")
    log_start(settings, "Redis b:6379", 4)
    line = capfd.readouterr().err
    assert line.rstrip().endswith(
        f"INFO agents.log: streamer {version('streamer')}, worker here:1: table {table.name} (k = {table.k}, 4 "
        f"shards, fingerprint {table.fingerprint}), Kafka at a:9092, Redis b:6379"
    )
    assert CANARY not in line


@pytest.mark.usefixtures("logging_as_before")
def test_a_minute_of_a_shard_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    write_logs("info", TEXT)
    log_minute("shard 2 of people", DONE, NOW)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.split(": ", 1)[1] == (
        "shard 2 of people: 1203 messages (1200 applied, 2 ignored, 1 dead letters), 3011 records in 60 commits, "
        "4 merges, 3 splits; 15002 rows (0 pending), 2999 QI groups, lag 7"
    )


@pytest.mark.usefixtures("logging_as_before")
def test_a_minute_in_which_the_vocabulary_drifted_says_so_by_column(capfd: pytest.CaptureFixture[str]) -> None:
    drifted = replace(DONE, counts=msgspec.structs.replace(DONE.counts, unlisted={"job": 12, "city": 1}))
    for form in (TEXT, JSON):
        write_logs("info", form)
        log_minute("shard 2 of people", drifted, NOW)
    text, as_json = capfd.readouterr().err.splitlines()
    assert text.endswith("lag 7; categories that table.yaml does not list: job 12, city 1")
    assert json.loads(as_json)["unlisted"] == {"job": 12, "city": 1}


@pytest.mark.usefixtures("logging_as_before")
def test_as_json_its_numbers_are_fields(capfd: pytest.CaptureFixture[str]) -> None:
    write_logs("info", JSON)
    log_minute("shard 2 of people", DONE, NOW)
    (line,) = capfd.readouterr().err.splitlines()
    said = json.loads(line)
    assert said.items() >= {"level": "INFO", "logger": "agents.log", "shard": "shard 2 of people"}.items()
    assert (said["applied"], said["records"], said["lag"]) == (1_200, 3_011, 7)
    assert said["message"].startswith("shard 2 of people: 1203 messages") and said["time"]


@pytest.mark.usefixtures("logging_as_before")
@pytest.mark.parametrize(
    ("error", "kind", "says", "code"),
    [
        (ShardRefused("what is wrong"), "ShardRefused", "what is wrong", 2),
        (KeyError(CANARY), "Unexpected", "KeyError", 1),
    ],
)
def test_as_json_the_error_that_ends_the_worker_is_a_line_like_any_other(
    error: Exception, kind: str, says: str, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    write_logs("error", JSON)
    with pytest.raises(click.exceptions.Exit) as ended, fatal_error_logged(JSON):
        raise error
    (line,) = capfd.readouterr().err.splitlines()
    said = json.loads(line)
    assert (said["level"], said["kind"], said["exit_code"], ended.value.exit_code) == ("CRITICAL", kind, code, code)
    assert says in said["message"] and CANARY not in line


@pytest.mark.usefixtures("logging_as_before")
def test_as_text_the_command_says_what_ended_it(capfd: pytest.CaptureFixture[str]) -> None:
    write_logs("error", TEXT)
    with pytest.raises(ShardRefused), fatal_error_logged(TEXT):
        raise ShardRefused("what is wrong")
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("logging_as_before")
def test_as_json_a_warning_of_python_is_one_line_too() -> None:
    """In a process of its own: pytest takes warnings for itself."""
    warns = "import warnings; from agents.log import *; write_logs('info', 'json'); warnings.warn('it is old')"
    said = subprocess.run([sys.executable, "-c", warns], capture_output=True, text=True, check=True).stderr
    (line,) = said.splitlines()
    assert "it is old" in json.loads(line)["message"]


@pytest.mark.usefixtures("logging_as_before")
def test_what_is_said_beside_the_log_is_an_object_among_objects_and_heard_by_no_handler(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    write_logs("error", JSON)
    for form in (TEXT, JSON):
        print_note("first\n  second", form)
    *text, as_json = capfd.readouterr().err.splitlines()
    assert text == ["first", "  second"]
    said = json.loads(as_json)
    assert (said["level"], said["message"], caplog.text) == ("INFO", "first\n  second", "") and said["time"]


@pytest.mark.usefixtures("logging_as_before")
def test_libraries_are_heard_from_warnings_on_whatever_the_level(capfd: pytest.CaptureFixture[str]) -> None:
    write_logs("debug")
    logging.getLogger("aiokafka.conn").debug(CANARY)
    logging.getLogger("agents.shard_agent").debug("a batch")
    logging.getLogger("aiokafka.conn").warning("away")
    assert [line.split(" ", 2)[2] for line in capfd.readouterr().err.splitlines()] == [
        "DEBUG agents.shard_agent: a batch",
        "WARNING aiokafka.conn: away",
    ]
