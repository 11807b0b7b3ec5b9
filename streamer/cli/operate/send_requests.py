"""Requests of an operator to shards, written to the control topic: each to its shard's partition, and confirmed."""

from __future__ import annotations

from collections.abc import Iterable

from streamer.incremental.shard.requests import Request
from streamer.incremental.topics import CONTROL, topic_name
from streamer.kafka.clients import open_writer


def ask_shards(kafka: str, table_name: str, what: str, requests: Iterable[Request]) -> None:
    """Writes requests, one after the other; what: the command, as the records' key. Raises ServerUnreachable."""
    with open_writer(kafka, topic_name(table_name, CONTROL)) as writer:
        for request in requests:
            writer.send(request.to_json(), what.encode(), request.shard)
            writer.flush()
