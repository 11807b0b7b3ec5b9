"""Requests of an operator to shards, written to the control topic."""

from __future__ import annotations

from collections.abc import Iterable

from streamer.errors import UsageError
from streamer.incremental.shard.requests import Request
from streamer.incremental.topics import CHANGES, CONTROL, topic_name
from streamer.kafka.clients import open_consumer, open_writer
from streamer.kafka.reading import shards_in


def shards_asked(kafka: str, table_name: str, shard: int | None) -> list[int]:
    """The shards that a request is for; shard None: all of them. Raises UsageError if there is no such shard."""
    with open_consumer(kafka) as consumer:
        n_shards = len(shards_in(consumer, topic_name(table_name, CHANGES)))
    require_shard(shard, n_shards, topic_name(table_name, CHANGES))
    return list(range(n_shards)) if shard is None else [shard]


def require_shard(shard: int | None, n_shards: int, of: str) -> None:
    """Raises UsageError if --shard names none of these."""
    if shard is not None and shard >= n_shards:
        raise UsageError(f"--shard {shard}: {of} has the shards 0 to {n_shards - 1}")


def ask_shards(kafka: str, table_name: str, what: str, requests: Iterable[Request]) -> None:
    """Writes each request to its shard's partition and waits until Kafka confirms it; what: the records' key.

    Raises ServerUnreachable.
    """
    with open_writer(kafka, topic_name(table_name, CONTROL)) as writer:
        for request in requests:
            writer.send(request.to_json(), what.encode(), request.shard)
            writer.flush()
