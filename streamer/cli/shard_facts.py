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
from time import monotonic, sleep

from streamer.cli.letters_seen import LATEST_OFFSETS, letter_of, refused_lately
from streamer.errors import UsageError
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.status.facts import InKafka, InRedis, ShardFacts, TableFacts, Waiting, Workers
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import RedisLookups, server_now, shards_of
from streamer.incremental.store.redis_server import connect, durability_of
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
from streamer.kafka.clients import open_admin, open_consumer
from streamer.kafka.reading import Consumer, Place, last_value, places_of, records, shards_in, watermarks
from streamer.kafka.topics import Admin, NotTold, members_of, topic_ids
from streamer.table.schema import Table

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


def _partitions(consumer: Consumer, topic: str) -> int:
    try:
        return len(shards_in(consumer, topic))
    except UsageError:
        return 0


def _in_kafka(
    consumer: Consumer,
    table: Table,
    places: Sequence[Place],
    metas: Sequence[Meta | None],
    ids: Mapping[str, str],
) -> list[InKafka]:
    said = {
        place.partition: last_value(consumer, place) for place in places_of(consumer, topic_name(table.name, POSITIONS))
    }
    positions = {shard: Position.from_json(value) for shard, value in said.items() if value is not None}
    outputs = [topic_name(table.name, kind) for kind in outputs_of(table.form)]
    published = [place for name in outputs for place in places_of(consumer, name)]
    begun = {place.partition for place in published if watermarks(consumer, place)[1] > 0}
    reach = {place: watermarks(consumer, place) for place in places}
    return [
        InKafka(
            InputState(ids, len(places), *reach[place], live_begun=place.partition in begun),
            positions.get(place.partition),
            _waiting(consumer, place, max(reach[place][0], meta.next if meta else 0), reach[place][1]),
            *_refused_lately(consumer, table.name, place.partition, meta),
        )
        for place, meta in zip(places, metas, strict=True)
    ]


def _waiting(consumer: Consumer, place: Place, start: int, end: int) -> Waiting | None:
    """The first message from `start` on: the offsets up to the end may hold none, but markers of transactions."""
    record = next(records(consumer, place, start, end), None)
    return None if record is None else Waiting(record.offset(), record.timestamp()[1] / 1000)


def _refused_lately(consumer: Consumer, table_name: str, shard: int, meta: Meta | None) -> tuple[int, int]:
    """How many of a shard's latest messages are dead letters, of how many; 0 of 0 if the shard's counts tell it."""
    place = Place(topic_name(table_name, DEAD_LETTERS), shard)
    if meta is None or meta.counts.messages <= LATEST_OFFSETS or not places_of(consumer, place.topic):
        return 0, 0
    first, end = watermarks(consumer, place)
    tail = lambda start: map(letter_of, records(consumer, place, start, end))  # noqa: E731
    return refused_lately(meta.next, first, end, tail), LATEST_OFFSETS


def _workers(admin: Admin, table_name: str) -> Workers:
    """The members of the workers' consumer group; the embedded broker, for one, does not tell them."""
    until = monotonic() + GROUP_SECONDS_MAX
    try:
        while (group := members_of(admin, worker_group(table_name), topic_name(table_name, CHANGES))) is None:
            if monotonic() > until:
                return Workers({}, told=False)
            sleep(GROUP_AGAIN_SECONDS)
    except NotTold:
        return Workers({}, told=False)
    return Workers(group.by_partition, settled=group.settled)
