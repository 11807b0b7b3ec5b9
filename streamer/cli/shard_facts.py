"""What `streamer status` sees of a table: of every shard, of its topics, of its workers and of Redis itself.

The rules of this file
----------------------
* Cheap: counts, last records, and at most one message per shard; no shard is loaded. Nothing is written, and nothing is
  asked in a way that a full Redis refuses.
* Redis and Kafka cannot be read at one moment. What a shard holds is read before and after what Kafka says of it, and
  both readings are handed on: where they agree the shard was at rest meanwhile.
* The positions are read before the end of `live`: what was published with a position is then below that end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import monotonic, sleep
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import (
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    IncompatibleBrokerVersion,
    NotCoordinatorError,
)

from streamer.cli.last_positions import last_positions, records_between
from streamer.cli.letters_seen import LATEST_OFFSETS, letter_of, refused_lately
from streamer.errors import UsageError
from streamer.incremental.kafka_clients import open_admin, open_consumer, shards_in
from streamer.incremental.shard.input import InputState
from streamer.incremental.status.facts import InKafka, InRedis, ShardFacts, TableFacts, Waiting, Workers
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import RedisLookups, server_now, shards_of
from streamer.incremental.store.redis_server import connect, durability_of
from streamer.incremental.topic_ids import topic_ids
from streamer.incremental.topics import (
    CHANGES,
    DEAD_LETTERS,
    OUTPUTS,
    POSITIONS,
    outputs_of,
    topic_name,
    topics_of,
    worker_group,
)
from streamer.table.schema import Table

SETTLED = ("Stable", "Empty", "Dead")
"""States of a consumer group in which it is known who has which partition: one without members is empty or dead."""

NO_GROUP_YET = (CoordinatorNotAvailableError, NotCoordinatorError)
"""What a broker answers that looks after no group so far: to be asked makes it begin."""

GROUP_SECONDS_MAX, GROUP_AGAIN_SECONDS = 10.0, 0.2


def look(table: Table, kafka: str, redis: str) -> TableFacts:
    """Looks once. Raises UsageError where the input topic does not exist; ServerUnreachable."""
    table_name, outputs = table.name, outputs_of(table.form)
    client = connect(redis)
    with open_consumer(kafka) as consumer:
        places = shards_in(consumer, topic_name(table_name, CHANGES))
        stores = [RedisLookups(client, table_name, place.partition) for place in places]
        before = [store.meta() for store in stores]
        topics = {topic.name: _partitions(consumer, topic.name) for topic in topics_of(table_name, table.form)}
        with open_admin(kafka) as admin:
            ids, workers = topic_ids(admin, table_name), _workers(admin, table_name)
        ids = {kind: id_ for kind, id_ in ids.items() if kind not in OUTPUTS or kind in outputs}
        in_kafka = _in_kafka(consumer, table, places, before, ids)
    in_redis = [
        InRedis(first, sizes=store.sizes(), custody=store.custody(), meta=store.meta())
        for store, first in zip(stores, before, strict=True)
    ]
    shards = [
        ShardFacts(place.partition, of_redis, of_kafka, workers.by_shard.get(place.partition, ""))
        for place, of_redis, of_kafka in zip(places, in_redis, in_kafka, strict=True)
    ]
    return TableFacts(shards, workers, topics, shards_of(client, table_name), server_now(client), durability_of(client))


def _partitions(consumer: KafkaConsumer, topic: str) -> int:
    try:
        return len(shards_in(consumer, topic))
    except UsageError:
        return 0


def _in_kafka(
    consumer: KafkaConsumer,
    table: Table,
    places: Sequence[TopicPartition],
    metas: Sequence[Meta | None],
    ids: Mapping[str, str],
) -> list[InKafka]:
    positions = last_positions(consumer, _places(consumer, topic_name(table.name, POSITIONS)))
    outputs = [topic_name(table.name, kind) for kind in outputs_of(table.form)]
    published = consumer.end_offsets([place for name in outputs for place in _places(consumer, name)])
    begun = {place.partition for place, end in published.items() if end > 0}
    first, end = consumer.beginning_offsets(places), consumer.end_offsets(places)
    return [
        InKafka(
            InputState(ids, len(places), first[place], end[place], live_begun=place.partition in begun),
            positions.get(place.partition),
            _waiting(consumer, place, max(first[place], meta.next if meta else 0), end[place]),
            *_refused_lately(consumer, table.name, place.partition, meta),
        )
        for place, meta in zip(places, metas, strict=True)
    ]


def _places(consumer: KafkaConsumer, topic: str) -> list[TopicPartition]:
    """The partitions of a topic; none where it is missing."""
    return [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]


def _waiting(consumer: KafkaConsumer, place: TopicPartition, start: int, end: int) -> Waiting | None:
    """The first message from `start` on: the offsets up to the end may hold none, but markers of transactions."""
    record = next(records_between(consumer, place, start, end), None) if start < end else None
    return None if record is None else Waiting(record.offset, record.timestamp / 1000)


def _refused_lately(consumer: KafkaConsumer, table_name: str, shard: int, meta: Meta | None) -> tuple[int, int]:
    """How many of a shard's latest messages are dead letters, of how many; 0 of 0 if the shard's counts tell it."""
    place = TopicPartition(topic_name(table_name, DEAD_LETTERS), shard)
    if meta is None or meta.counts.messages <= LATEST_OFFSETS or not _places(consumer, place.topic):
        return 0, 0
    first, end = consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]
    tail = partial(records_between, consumer, place, end=end)
    return refused_lately(meta.next, first, end, lambda start: map(letter_of, tail(start))), LATEST_OFFSETS


def _workers(admin: KafkaAdminClient, table_name: str) -> Workers:
    """The members of the workers' consumer group; the embedded broker, for one, does not tell them."""
    until = monotonic() + GROUP_SECONDS_MAX
    try:
        while (group := _group(admin, worker_group(table_name))) is None:
            if monotonic() > until:
                return Workers({}, told=False)
            sleep(GROUP_AGAIN_SECONDS)
    except (GroupAuthorizationFailedError, IncompatibleBrokerVersion):
        return Workers({}, told=False)
    by_shard = {
        number: member.client_id
        for member in group.members
        if member.member_assignment
        for topic, numbers in member.member_assignment.assignment
        if topic == topic_name(table_name, CHANGES)
        for number in numbers
    }
    return Workers(by_shard, settled=group.state in SETTLED)


def _group(admin: KafkaAdminClient, name: str) -> Any:
    try:
        (group,) = admin.describe_consumer_groups([name])
    except NO_GROUP_YET:
        return None
    return group
