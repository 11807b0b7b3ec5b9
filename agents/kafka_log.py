"""What the Kafka clients may write to the log: enough to see a fault, not the same line twenty times a second.

While a broker is away each client repeats itself: of each logger a few lines per period are kept, the rest counted.
aiokafka's debug lines have whole messages in them, people's values too: they are never written, whatever the level.
Those of librdkafka name brokers, topics and settings only.
"""

from __future__ import annotations

import logging
from time import monotonic

LINES_MAX, PERIOD_SECONDS = 2, 10.0

REPEATING = (
    "aiokafka",
    "aiokafka.client",
    "aiokafka.cluster",
    "aiokafka.conn",
    "aiokafka.consumer.fetcher",
    "aiokafka.consumer.group_coordinator",
)


class AtMost(logging.Filter):
    """Lets `LINES_MAX` lines pass in any `PERIOD_SECONDS`, and says how many it held back."""

    def __init__(self) -> None:
        super().__init__()
        self._began = float("-inf")
        self._passed = self._held_back = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = monotonic()
        if now - self._began >= PERIOD_SECONDS:
            if self._held_back:
                record.msg, record.args = f"{record.getMessage()} ({self._held_back} lines were left out)", ()
            self._began, self._passed, self._held_back = now, 0, 0
        self._passed += 1
        self._held_back += self._passed > LINES_MAX
        return self._passed <= LINES_MAX


def librdkafka_logger() -> logging.Logger:
    """The one logger of all C clients of this process."""
    return _limited("librdkafka")


def quiet_aiokafka() -> None:
    """Limits what the consumer's client writes."""
    logging.getLogger("aiokafka").setLevel(logging.WARNING)
    for name in REPEATING:
        _limited(name)


def _limited(name: str) -> logging.Logger:
    logger = logging.getLogger(name)
    if not any(isinstance(filter_, AtMost) for filter_ in logger.filters):
        logger.addFilter(AtMost())
    return logger
