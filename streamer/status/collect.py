"""What `streamer status` and the worker's page see of a table, as its servers tell it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Any, Final

import msgspec

from streamer.errors import UsageError
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.steps import REFUSED, REFUSED_AGAIN, RETRIED, SUPERSEDED
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
from streamer.kafka.reading import Consumer, Place, Record, last_value, places_of, records, shards_in, watermarks
from streamer.kafka.topics import Admin, NotTold, members_of, topic_ids
from streamer.status.facts import InKafka, InRedis, ShardFacts, TableFacts, Waiting, Workers
from streamer.table.schema import Table

# Dead letters as they are read back: one of them, what many come to, and how many there were lately.
#
# * A letter holds coordinates (shard and offset of the input), a reason and the column at fault, and nothing of what
#   the message said. Kinds: "refused", the message was not applied; "partial", a statement was, and some of its rows
#   kept their old values; "retried", "superseded" and "refused-again", what became of a refused one that an operator
#   had tried again.
# * Letters are counted as they pass, by kind, reason and column: a topic of millions is not held in memory.
# * "Lately" means a number of source offsets, not a time: the share of what was refused is then one of messages,
#   whatever the traffic, and the letters' own coordinates tell which belong to it.

LATEST_OFFSETS: Final = 10_000
"""Of the messages of a shard, so many count as the latest."""

TAIL_FIRST: Final = 512
"""Records that are read first when the latest letters are sought; then twice as many, and so on."""


class Letter(msgspec.Struct, frozen=True):
    """One dead letter; partition and offset: where the message stands in the input topic."""

    kind: str
    reason: str
    detail: str
    partition: int
    offset: int
    column: str | None = None
    rows: int | None = None


class LetterCount(msgspec.Struct):
    """The letters that have kind, reason and column in common. first, last: when they were written, ISO 8601, UTC.

    shards: the numbers of those that wrote them. example: coordinates of the last one.
    """

    kind: str
    reason: str
    column: str | None
    letters: int = 0
    first: str = ""
    last: str = ""
    shards: list[int] = []
    example: dict[str, int] = {}

    def add(self, letter: Letter, milliseconds: int) -> None:
        """Counts one more letter, written at a time in milliseconds since 1970."""
        at = written_at(milliseconds)
        self.letters += 1
        self.first = min(self.first or at, at)
        if letter.partition not in self.shards:
            self.shards = sorted([*self.shards, letter.partition])
        if at >= self.last:
            self.last, self.example = at, {"partition": letter.partition, "offset": letter.offset}


class Tallies:
    """What any number of letters come to."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str, str | None], LetterCount] = {}

    def add(self, letter: Letter, milliseconds: int) -> None:
        """Counts one more letter, written at a time in milliseconds since 1970."""
        alike = letter.kind, letter.reason, letter.column
        self._of.setdefault(alike, LetterCount(*alike)).add(letter, milliseconds)

    @property
    def total(self) -> int:
        return sum(one.letters for one in self._of.values())

    def most_common(self) -> list[LetterCount]:
        """The most frequent first."""
        return sorted(self._of.values(), key=lambda one: (-one.letters, one.kind, one.reason, one.column or ""))


def written_at(milliseconds: int) -> str:
    """A time of Kafka's, to the second.

    >>> written_at(1_764_000_000_123)
    '2025-11-24T16:00:00+00:00'
    """
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def letter_of(record: Record) -> Letter:
    """The letter that a record of the dead-letters topic holds; of kind "foreign" where somebody else wrote it."""
    try:
        return msgspec.json.decode(record.value() or b"", type=Letter)
    except msgspec.DecodeError:
        detail = "somebody else wrote this record of the dead-letters topic"
        return Letter("foreign", "not-a-dead-letter", detail, record.partition(), record.offset())


def row_of(letter: Letter, milliseconds: int) -> dict[str, Any]:
    """A letter as one line of a file, with the time it was written."""
    return {"at": written_at(milliseconds), **msgspec.structs.asdict(letter)}


def standing_refused(letters: Iterable[Letter]) -> dict[int, Letter]:
    """Of one shard's letters, in the order they were written, those whose message is refused to this day, by offset."""
    standing: dict[int, Letter] = {}
    for letter in letters:
        if letter.kind in (REFUSED, REFUSED_AGAIN):
            standing[letter.offset] = letter
        elif letter.kind in (RETRIED, SUPERSEDED):
            standing.pop(letter.offset, None)
    return standing


def refused_lately(reached: int, first: int, end: int, letters_from: Callable[[int], Iterable[Letter]]) -> int:
    """How many of the LATEST_OFFSETS before `reached` are dead letters, by the end of the topic of dead letters.

    first, end: its offsets; letters_from: its letters from an offset on, which are read back as far as is needed.
    """
    since, n_records = reached - LATEST_OFFSETS, TAIL_FIRST
    while True:
        start = max(first, end - n_records)
        tail = list(letters_from(start))
        refused = [letter.offset for letter in tail if letter.kind == REFUSED]
        if start == first or any(offset < since for offset in refused):
            return sum(since <= offset < reached for offset in standing_refused(tail))
        n_records *= 2


# What `streamer status` sees of a table: of every shard, of its topics, of its workers and of Redis itself.
#
# * Cheap: counts, last records, and at most one message per shard; no shard is loaded. Nothing is written, and nothing
#   is asked in a way that a full Redis refuses.
# * Redis and Kafka cannot be read at one moment. What a shard holds is read before and after what Kafka says of it, and
#   both readings are handed on: where they agree the shard was at rest meanwhile.
# * The positions are read before the end of `live`: what was published with a position is then below that end.

GROUP_SECONDS_MAX, GROUP_AGAIN_SECONDS = 10.0, 0.2


def look(table: Table, kafka: str, redis: str) -> TableFacts:
    """Looks once. Raises UsageError if the input topic does not exist; ServerUnreachable."""
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
