"""Messages of a shard's input that were read before, read once more, for those that an operator has tried again.

Over a connection of their own, in pieces of bounded size: whoever asks for a long way goes on from where a piece ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from confluent_kafka import TopicPartition

from agents.kafka_calls import CALL_SECONDS_MAX, KafkaCalls
from streamer.incremental.shard.input import Message
from streamer.incremental.topics import CHANGES, topic_name

PIECE_MESSAGES_MAX, PIECE_BYTES_MAX = 20_000, 16_000_000


def read_piece(kafka: KafkaCalls, start: int, end: int) -> tuple[list[Message], int]:
    """Messages from `start` on, and the offset that they do not reach, `end` at most.

    What has expired is not among them. Raises ServerUnreachable, ShardRefused.
    """
    place = TopicPartition(topic_name(kafka.table_name, CHANGES), kafka.shard)
    found: list[Message] = []
    n_bytes = 0
    with kafka.failures("reading the input once more"), kafka.consumer() as consumer:
        first, _ = kafka.watermarks(consumer, place)
        if max(first, start) >= end:
            return [], end
        for record in kafka.records(consumer, place, max(first, start), monotonic() + CALL_SECONDS_MAX):
            offset = record.offset()
            if offset >= end:
                return found, end
            found.append(Message(offset, record.key(), record.value()))
            n_bytes += len(record.value() or b"")
            if len(found) >= PIECE_MESSAGES_MAX or n_bytes >= PIECE_BYTES_MAX:
                return found, offset + 1
    return found, end


def read_at(kafka: KafkaCalls, offsets: Sequence[int]) -> list[Message]:
    """The messages at some offsets, as far as the input still holds them. Raises ServerUnreachable, ShardRefused."""
    return [message for offset in offsets for message in read_piece(kafka, offset, offset + 1)[0]]
