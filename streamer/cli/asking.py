"""Requests of an operator to shards, written to the control topic: each to its shard's partition, and confirmed."""

from __future__ import annotations

from collections.abc import Iterable

from streamer.incremental.kafka_clients import ANSWER_MS_MAX, open_producer
from streamer.incremental.shard.requests import Request
from streamer.incremental.topics import CONTROL, topic_name


def ask_shards(kafka: str, table_name: str, what: str, requests: Iterable[Request]) -> None:
    """Writes requests, one after the other; what: the command, as the records' key. Raises ServerUnreachable."""
    with open_producer(kafka) as producer:
        for request in requests:
            topic = topic_name(table_name, CONTROL)
            sent = producer.send(topic, request.to_json(), what.encode(), partition=request.shard)
            sent.get(ANSWER_MS_MAX / 1000)
