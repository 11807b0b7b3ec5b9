"""Reads partitions from one offset to another: one loop for workers, commands and tools.

The rules of this file
----------------------
* Committed records only. Transaction markers, aborted and compacted records occupy offsets too: an end is reached when
  the client says so, or with the first record beyond it, never by counting.
* A request is repeated if it came too early: the topic was just created, or the broker just restarted.
* Errors are raised as KafkaException; its second argument, if any, is the right (`errors.Right`) that its topic needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from time import monotonic, sleep
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import Message as Record
from confluent_kafka import TopicPartition as Place

from streamer.errors import ServerUnreachable
from streamer.incremental.shard.outlet import Position
from streamer.incremental.topics import POSITIONS, topic_name
from streamer.kafka.errors import READ_RIGHT, TOO_EARLY, Right, missing_topic, sent_nothing

CALL_SECONDS_MAX = 20.0
"""Limit of each call: longer than a broker needs to serve transactions again after a crash."""
SILENCE_SECONDS_MAX = 15.0
SEEN_SECONDS_MAX, SEEN_AGAIN_SECONDS = 2.0, 0.1
SETTLING_SECONDS_MAX, SETTLED_AGAIN_SECONDS = 20.0, 0.1
"""A request that came too early is repeated for that time."""

POLL_SECONDS = 0.5
RECORDS_PER_POLL = 5_000
FIRST_WINDOW_OFFSETS, WINDOW_GROWTH = 16, 16

__all__ = ["Consumer", "Place", "Record"]

Bounds = Mapping[Place, tuple[int, int]]
"""The begin and end of the records that are read, by partition."""


def shards_in(client: Any, topic: str, operation: str = READ_RIGHT) -> list[Place]:
    """All partitions of a topic by number. Raises UsageError if the topic does not exist.

    It waits a moment for a topic that was just created. client: any of confluent-kafka's. operation: what the caller
    does with the topic, for the message about a missing right.
    """
    until = monotonic() + SEEN_SECONDS_MAX
    while not (places := places_of(client, topic, operation)):
        if monotonic() > until:
            raise missing_topic(topic)
        sleep(SEEN_AGAIN_SECONDS)
    return places


def places_of(client: Any, topic: str, operation: str = READ_RIGHT) -> list[Place]:
    """All partitions of a topic by number, as of now; none if it does not exist."""
    found = client.list_topics(topic, timeout=CALL_SECONDS_MAX).topics[topic]
    if found.error is not None and found.error.name() not in TOO_EARLY:
        raise KafkaException(found.error, Right([operation], [topic]))
    return [Place(topic, number) for number in sorted(found.partitions)]


def watermarks(consumer: Consumer, place: Place) -> tuple[int, int]:
    """First and end offset of a partition. It waits while the cluster elects a leader."""
    deadline = monotonic() + SETTLING_SECONDS_MAX
    while True:
        try:
            first, end = consumer.get_watermark_offsets(place, timeout=CALL_SECONDS_MAX, cached=False)
        except KafkaException as error:
            if error.args[0].name() not in TOO_EARLY or monotonic() > deadline:
                raise KafkaException(error.args[0], Right([READ_RIGHT], [place.topic])) from None
            sleep(SETTLED_AGAIN_SECONDS)
        else:
            return first, end


def batches(
    consumer: Consumer, starts: Iterable[Place], ends: Mapping[Place, int] | None = None, deadline: float | None = None
) -> Iterator[list[Record]]:
    """The records of partitions from the offsets in `starts` on, some at a time; in order within a partition.

    ends: exclusive offsets; without it, the end of each partition when it is reached. deadline: by the monotonic clock.
    Raises ServerUnreachable at the deadline, or if Kafka sends nothing for a while; KafkaException.
    """
    ends = ends or {}
    unread = {place: place.offset for place in starts if place.offset < ends.get(place, place.offset + 1)}
    consumer.assign(list(unread))
    heard = monotonic()
    while unread:
        found = []
        for record in _came(consumer):
            place, is_end = Place(record.topic(), record.partition()), record.error() is not None
            end = ends.get(place)
            if not is_end and (end is None or record.offset() < end):
                found.append(record)
            if is_end or (end is not None and record.offset() >= end - 1):
                unread.pop(place, None)
        if found:
            yield found
            heard = monotonic()
        _check_time(heard, deadline, unread)


def _came(consumer: Consumer) -> list[Record]:
    """Waits for a first record, and returns all that came: records, and "errors" for the ends that were reached."""
    first = consumer.poll(POLL_SECONDS)
    came = [] if first is None else [first, *consumer.consume(RECORDS_PER_POLL, 0)]
    found = []
    for record in came:
        error = record.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            found.append(record)
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # the client names a group, and does not join it
            raise KafkaException(error, *([Right([READ_RIGHT], [record.topic()])] if record.topic() else []))
    return found


def _check_time(heard: float, deadline: float | None, unread: Mapping[Place, int]) -> None:
    topics = " and ".join(sorted({place.topic for place in unread}))
    if unread and deadline is not None and monotonic() > deadline:
        raise ServerUnreachable(f"{topics} could not be read within {CALL_SECONDS_MAX:.0f} s")
    if unread and deadline is None and monotonic() - heard > SILENCE_SECONDS_MAX:
        raise sent_nothing(SILENCE_SECONDS_MAX)


def batches_in(consumer: Consumer, bounds: Bounds) -> Iterator[list[Record]]:
    """The records of partitions between two offsets each, some at a time. The consumer has only these afterwards."""
    starts = [Place(one.topic, one.partition, begin) for one, (begin, _) in bounds.items()]
    return batches(consumer, starts, {one: end for one, (_, end) in bounds.items()})


def records(consumer: Consumer, place: Place, start: int, end: int) -> Iterator[Record]:
    """The records of one partition between two offsets."""
    return chain.from_iterable(batches_in(consumer, {place: (start, end)}))


def coming(consumer: Consumer, ends: Mapping[Place, int]) -> Iterator[list[Record]]:
    """Follows partitions from these offsets on for ever; an empty list after a moment without records."""
    consumer.assign([Place(place.topic, place.partition, end) for place, end in ends.items()])
    while True:
        yield [record for record in _came(consumer) if record.error() is None]


def last_value(consumer: Consumer, place: Place, deadline: float | None = None) -> bytes | None:
    """The value of the last committed record of a partition, None if there is none.

    Kafka cannot be asked for it: it is searched from the end backwards, in growing windows.
    """
    first, end = watermarks(consumer, place)
    start, window = end, FIRST_WINDOW_OFFSETS
    while start > first:
        start = max(first, end - window)
        window *= WINDOW_GROWTH
        at = Place(place.topic, place.partition, start)
        values = (record.value() for record in chain.from_iterable(batches(consumer, [at], {at: end}, deadline)))
        if found := deque((value for value in values if value is not None), maxlen=1):
            return bytes(found[0])
    return None


def last_position(consumer: Consumer, table_name: str, shard: int) -> Position | None:
    """The last published position of a shard, None if it has none. Raises KafkaException, and what `shards_in` does."""
    places = shards_in(consumer, topic_name(table_name, POSITIONS))
    value = last_value(consumer, places[shard]) if shard < len(places) else None
    return None if value is None else Position.from_json(value)
