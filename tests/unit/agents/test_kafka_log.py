"""What the reading client may write to the log: a few lines, and no message ever."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from agents.kafka_log import REPEATING, AtMost, quiet_aiokafka


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in REPEATING]
    before = [(logger.level, list(logger.filters)) for logger in loggers]
    yield
    for logger, (level, filters) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.filters[:] = filters


def test_debug_lines_of_the_consumer_which_hold_whole_messages_are_never_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quiet_aiokafka()
    caplog.handler.setLevel(logging.DEBUG)
    for name in REPEATING:
        logging.getLogger(name).debug("a canary in a message")
    assert caplog.records == []


def test_every_logger_is_limited_once_however_often_it_is_asked_for() -> None:
    for _ in range(3):
        quiet_aiokafka()
    for name in REPEATING:
        assert [type(one) for one in logging.getLogger(name).filters].count(AtMost) == 1
