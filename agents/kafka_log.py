"""What the reading client may write to the log: enough to see a fault, not the same line twenty times a second.

aiokafka's debug lines have whole messages in them, people's values too: they are never written, whatever the level.
"""

from __future__ import annotations

import logging

from streamer.kafka.clients import AtMost, limited

__all__ = ["AtMost", "quiet_aiokafka"]

REPEATING = (
    "aiokafka",
    "aiokafka.client",
    "aiokafka.cluster",
    "aiokafka.conn",
    "aiokafka.consumer.fetcher",
    "aiokafka.consumer.group_coordinator",
)


def quiet_aiokafka() -> None:
    """Limits what the consumer's client writes."""
    logging.getLogger("aiokafka").setLevel(logging.WARNING)
    for name in REPEATING:
        limited(name)
