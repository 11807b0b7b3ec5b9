"""The last published position of shards, and other records of a partition between two offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord

from streamer.incremental.kafka_clients import records_until, shards_in
from streamer.incremental.last_record import last_value
from streamer.incremental.shard.outlet import Position
from streamer.incremental.topics import POSITIONS, topic_name


def last_positions(consumer: KafkaConsumer, places: Sequence[TopicPartition]) -> dict[int, Position]:
    """The last committed position of every shard that has one, by number; places: partitions of its topic."""
    first, end = consumer.beginning_offsets(places), consumer.end_offsets(places)
    positions: dict[int, Position] = {}
    for one in places:
        value = last_value(first[one], end[one], partial(_values, consumer, one, end[one]))
        if value is not None:
            positions[one.partition] = Position.from_json(value)
    return positions


def last_position(consumer: KafkaConsumer, table_name: str, shard: int) -> Position | None:
    """The last committed position of one shard. Whoever may not read positions is told so, by `shards_in`."""
    places = shards_in(consumer, topic_name(table_name, POSITIONS))
    return last_positions(consumer, [place for place in places if place.partition == shard]).get(shard)


def _values(consumer: KafkaConsumer, one: TopicPartition, end: int, start: int) -> Iterator[bytes]:
    return (record.value for record in records_between(consumer, one, start, end))


def records_between(consumer: KafkaConsumer, one: TopicPartition, start: int, end: int) -> Iterator[ConsumerRecord]:
    """The records of a partition from one offset to another; the consumer reads this partition alone from then on."""
    consumer.assign([one])
    consumer.seek(one, start)
    return records_until(consumer, {one: end})
