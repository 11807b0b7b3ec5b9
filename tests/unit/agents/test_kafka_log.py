"""What the Kafka clients may write to the log: a few lines, the rest counted, and no message ever."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from agents.kafka_log import LINES_MAX, REPEATING, AtMost, librdkafka_logger, quiet_aiokafka


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (*REPEATING, "librdkafka")]
    before = [(logger.level, list(logger.filters)) for logger in loggers]
    yield
    for logger, (level, filters) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.filters[:] = filters


def test_the_clients_log_is_kept_short_and_counts_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("agents.kafka_log.monotonic", lambda: now[0])
    at_most = AtMost()

    def line() -> logging.LogRecord:
        return logging.LogRecord("x", logging.ERROR, "x.py", 1, "broker %s is down", ("b",), None)

    assert sum(at_most.filter(line()) for _ in range(50)) == LINES_MAX
    now[0] = 60.0
    next_line = line()
    assert at_most.filter(next_line)
    assert f"{50 - LINES_MAX} lines" in next_line.getMessage()


def test_debug_lines_of_the_consumer_which_hold_whole_messages_are_never_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quiet_aiokafka()
    caplog.handler.setLevel(logging.DEBUG)
    for name in REPEATING:
        logging.getLogger(name).debug("a canary in a message")
    assert caplog.records == []


def test_every_client_is_limited_once_however_often_one_is_made() -> None:
    for _ in range(3):
        librdkafka_logger()
        quiet_aiokafka()
    for name in (*REPEATING, "librdkafka"):
        assert [type(one) for one in logging.getLogger(name).filters].count(AtMost) == 1
