"""Collects a table's facts from Redis and Kafka for `streamer status` and the worker's page, and reads dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic, sleep, time
from typing import Any, Final

import msgspec

from streamer.errors import UsageError
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.preflight import message_read_last
from streamer.incremental.shard.steps import ACKNOWLEDGED, REFUSED, REFUSED_AGAIN, RETRIED, SUPERSEDED
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import RedisLookups, server_now, shards_of
from streamer.incremental.store.redis_server import connect_now, durability_of
from streamer.incremental.topics import (
    CHANGES,
    CONTROL,
    DEAD_LETTERS,
    OUTPUTS,
    POSITIONS,
    SEALED,
    published_kinds,
    topic_name,
    topics_of,
    worker_group,
)
from streamer.kafka.clients import open_admin, open_consumer
from streamer.kafka.reading import Consumer, Place, Record, last_value, places_of, records, shards_in, watermarks
from streamer.kafka.shard_input import message_at
from streamer.kafka.topics import Admin, GroupHidden, members_of, reach_of, topic_ids, written_since
from streamer.status.facts import InKafka, InRedis, ShardFacts, TableFacts, Waiting, Workers
from streamer.table.schema import Table

# Dead letters: one, the counts of many, and how many there were lately.
#
# * A dead letter holds coordinates (shard and offset of the input), a reason and the column at fault, and nothing of
#   the message. Kinds: "refused", the message was not applied; "partial", a statement was applied, and some of its rows
#   kept their old values; "retried", "superseded" and "refused-again", the outcomes of a retry.
# * Dead letters are counted while they are read, by kind, reason and column: a topic of millions is not kept in memory.
# * "Lately" means a number of input offsets, not a time: so the share of dead letters is one of messages, whatever the
#   traffic, and their coordinates say which of them count.
# * "Now" means the last minutes: a source that writes nothing right any more is red long before it fills that number.
#   Its messages are those written since, or from the first letter of these minutes on, if a worker reads older ones.
# * What an operator has acknowledged counts in neither, except truncations: the rows of before are still published.

LATEST_OFFSETS: Final = 10_000  # of a shard
NOW_SECONDS: Final = 600.0
TAIL_FIRST: Final = 512  # records that are read from the end at first; then twice as many, and so on
TRUNCATION: Final = "truncate-one-shard"
"""The reason of a captured truncation that is not applied: whatever the share, rows are published that are gone."""


class Letter(msgspec.Struct, frozen=True):
    """One dead letter. partition, offset: of the message in the input topic."""

    kind: str
    reason: str
    detail: str
    partition: int
    offset: int
    column: str | None = None
    rows: int | None = None


class LetterCount(msgspec.Struct):
    """The dead letters of one kind, reason and column."""

    kind: str
    reason: str
    column: str | None
    letters: int = 0
    first: str = ""  # when it was written, ISO 8601, UTC
    last: str = ""
    shards: list[int] = []  # that wrote them
    example: dict[str, int] = {}  # coordinates of the last one

    def add(self, letter: Letter, milliseconds: int) -> None:
        """Counts a dead letter, written at a time in milliseconds since 1970."""
        at = written_at(milliseconds)
        self.letters += 1
        self.first = min(self.first or at, at)
        if letter.partition not in self.shards:
            self.shards = sorted([*self.shards, letter.partition])
        if at >= self.last:
            self.last, self.example = at, {"partition": letter.partition, "offset": letter.offset}


class Tallies:
    """Counts of any number of dead letters."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str, str | None], LetterCount] = {}

    def add(self, letter: Letter, milliseconds: int) -> None:
        """Counts a dead letter, written at a time in milliseconds since 1970."""
        alike = letter.kind, letter.reason, letter.column
        self._of.setdefault(alike, LetterCount(*alike)).add(letter, milliseconds)

    @property
    def total(self) -> int:
        return sum(one.letters for one in self._of.values())

    def most_common(self) -> list[LetterCount]:
        """The most frequent first."""
        return sorted(self._of.values(), key=lambda one: (-one.letters, one.kind, one.reason, one.column or ""))


def written_at(milliseconds: int) -> str:
    """A time of Kafka's in ISO 8601, to the second.

    >>> written_at(1_764_000_000_123)
    '2025-11-24T16:00:00+00:00'
    """
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def letter_of(record: Record) -> Letter:
    """The dead letter in a record; of kind "foreign" if we did not write it."""
    try:
        return msgspec.json.decode(record.value() or b"", type=Letter)
    except msgspec.DecodeError:
        detail = "somebody else wrote this record of the dead-letters topic"
        return Letter("foreign", "not-a-dead-letter", detail, record.partition(), record.offset())


def row_of(letter: Letter, milliseconds: int) -> dict[str, Any]:
    """A dead letter as one line of a file, with the time when it was written."""
    return {"at": written_at(milliseconds), **msgspec.structs.asdict(letter)}


def standing_refused(letters: Iterable[Letter]) -> dict[int, Letter]:
    """The dead letters whose message is still refused, and not acknowledged, by offset.

    letters: of a shard, in their order.
    """
    standing: dict[int, Letter] = {}
    for letter in letters:
        if letter.kind in (REFUSED, REFUSED_AGAIN):
            standing[letter.offset] = letter
        elif letter.kind in (RETRIED, SUPERSEDED):
            standing.pop(letter.offset, None)
        elif letter.kind == ACKNOWLEDGED:
            below = letter.offset
            standing = {at: one for at, one in standing.items() if at >= below or one.reason == TRUNCATION}
    return standing


def latest_standing(since: int, first: int, end: int, letters_from: Callable[[int], Iterable[Letter]]) -> list[Letter]:
    """The dead letters whose message is still refused, of the offsets from `since` on, and others that lie near.

    first, end: offsets of the topic of dead letters; letters_from: its letters from an offset on, read as far back as
    needed, and at least the last TAIL_FIRST.
    """
    n_records = TAIL_FIRST
    while True:
        start = max(first, end - n_records)
        tail = list(letters_from(start))
        if start == first or any(letter.offset < since for letter in tail if letter.kind == REFUSED):
            return list(standing_refused(tail).values())
        n_records *= 2


# The facts of a table: every shard, the topics, the workers and Redis itself.
#
# * Cheap: counts, last records, and at most one message per shard; no shard is loaded. Nothing is left behind, and a
#   full Redis answers every question.
# * Redis and Kafka cannot be read at one moment. A shard's data in Redis are read before and after Kafka's: if both
#   readings agree, the shard was at rest in between.
# * The positions are read before the end of `live`: all records published with a position are then below that end.

GROUP_SECONDS_MAX, GROUP_AGAIN_SECONDS = 10.0, 0.2


def look(table: Table, kafka: str, redis: str) -> TableFacts:
    """Collects the facts once. Raises UsageError if the input topic does not exist; ServerUnreachable."""
    table_name, outputs = table.name, published_kinds(table)
    with open_consumer(kafka) as consumer:
        client = connect_now(redis)
        places = shards_in(consumer, topic_name(table_name, CHANGES))
        stores = [RedisLookups(client, table_name, place.partition) for place in places]
        before = [store.meta() for store in stores]
        topics = {topic.name: _partitions(consumer, topic.name) for topic in topics_of(table_name, outputs)}
        with open_admin(kafka) as admin:
            ids, workers = topic_ids(admin, table_name), _workers(admin, table_name)
            positions = _positions(consumer, table_name)
            published = [place for kind in outputs for place in places_of(consumer, topic_name(table_name, kind))]
            reach = {place: (found.begin, found.end) for place, found in reach_of(admin, [*published, *places]).items()}
            now_from = written_since(admin, places, time() - NOW_SECONDS)
        ids = {kind: id_ for kind, id_ in ids.items() if kind not in (*OUTPUTS, SEALED) or kind in outputs}
        in_kafka = [
            replace(
                _in_kafka(consumer, table, place, meta, positions.get(place.partition), ids, reach, len(places), kafka),
                **_letters(consumer, table.name, place.partition, meta, now_from.get(place)),
            )
            for place, meta in zip(places, before, strict=True)
        ]
    in_kafka = _with_transactions(kafka, dict(zip(places, in_kafka, strict=True)), reach)
    in_redis = [
        InRedis(first, sizes=store.sizes(), custody=store.custody(), meta=store.meta(), master=store.master)
        for store, first in zip(stores, before, strict=True)
    ]
    shards = [
        ShardFacts(place.partition, of_redis, of_kafka, workers.by_shard.get(place.partition, ""))
        for place, of_redis, of_kafka in zip(places, in_redis, in_kafka, strict=True)
    ]
    redis_now = server_now(client, table_name, len(places))
    return TableFacts(shards, workers, topics, shards_of(client, table_name), redis_now, durability_of(client))


def _partitions(consumer: Consumer, topic: str) -> int:
    with suppress(UsageError):
        return len(shards_in(consumer, topic))
    return 0


def _positions(consumer: Consumer, table_name: str) -> dict[int, Position]:
    places = places_of(consumer, topic_name(table_name, POSITIONS))
    said = {place.partition: last_value(consumer, place) for place in places}
    return {shard: Position.from_json(value) for shard, value in said.items() if value is not None}


def _in_kafka(
    consumer: Consumer,
    table: Table,
    place: Place,
    meta: Meta | None,
    position: Position | None,
    ids: Mapping[str, str],
    reach_of_topics: Mapping[Place, tuple[int, int]],
    shards: int,
    kafka: str,
) -> InKafka:
    """Kafka's data of one shard. place: of its input."""
    (earliest, end), shard = watermarks(consumer, place), place.partition
    published = {kind: Place(topic_name(table.name, kind), shard) for kind in published_kinds(table)}
    reach = {kind: reach_of_topics[of] for kind, of in published.items() if of in reach_of_topics}
    last = message_read_last(meta, position)
    again = () if last is None else message_at(kafka, consumer, place, last.offset)
    begun = any(end > 0 for _, end in reach.values())
    control = next((of for of in places_of(consumer, topic_name(table.name, CONTROL)) if of.partition == shard), None)
    control_end = 0 if control is None else watermarks(consumer, control)[1]
    return InKafka(
        InputState(ids, shards, earliest, end, begun, control_end, reach, again),
        position,
        _waiting(consumer, place, max(earliest, meta.next if meta else 0), end),
    )


def _with_transactions(
    kafka: str, in_kafka: Mapping[Place, InKafka], reach: Mapping[Place, tuple[int, int]]
) -> list[InKafka]:
    """The same, with the first message that an open transaction holds back; one consumer looks at all of them."""
    ends = {place: (one.input_state.end, reach.get(place, (0, 0))[1]) for place, one in in_kafka.items()}
    ends = {place: (stable, end) for place, (stable, end) in ends.items() if stable < end}
    if not ends:
        return [*in_kafka.values()]
    with open_consumer(kafka, committed=False) as consumer:
        held_back = {place: _waiting(consumer, place, stable, end) for place, (stable, end) in ends.items()}
    return [replace(one, held_back=held_back.get(place)) for place, one in in_kafka.items()]


def _waiting(consumer: Consumer, place: Place, start: int, end: int) -> Waiting | None:
    """The first message from `start` on; the offsets up to the end may hold transaction markers only."""
    record = next(records(consumer, place, start, end), None)
    return None if record is None else Waiting(record.offset(), record.timestamp()[1] / 1000)


def _letters(
    consumer: Consumer, table_name: str, shard: int, meta: Meta | None, now_from: int | None
) -> dict[str, Any]:
    """The fields of `InKafka` that dead letters tell; now_from: the first offset of the input of the last minutes."""
    place = Place(topic_name(table_name, DEAD_LETTERS), shard)
    if meta is None or not meta.counts.dead_letters or not places_of(consumer, place.topic):
        return {}
    first, end = watermarks(consumer, place)
    since = max(meta.next - LATEST_OFFSETS, meta.letters_from)
    times: dict[int, float] = {}  # when a message was refused last, by its offset

    def letters_from(start: int) -> Iterator[Letter]:
        for record in records(consumer, place, start, end):
            letter = letter_of(record)
            if letter.kind != ACKNOWLEDGED:
                times[letter.offset] = record.timestamp()[1] / 1000
            yield letter

    standing = [one for one in latest_standing(since, first, end, letters_from) if one.offset >= meta.letters_from]
    lately = [one.offset for one in standing if since <= one.offset < meta.next]
    recent = [offset for offset in lately if time() - times[offset] <= NOW_SECONDS]
    now_from = min([*recent, meta.next if now_from is None else now_from])
    return {
        "refused_lately": len(lately),
        "lately": min(LATEST_OFFSETS, meta.counts.messages),
        "refused_now": len(recent),
        "now": min(meta.next - now_from, meta.counts.messages),
        "refused_at": max((times[offset] for offset in lately), default=0.0),
        "truncations": tuple(one.offset for one in standing if one.reason == TRUNCATION and meta.shards > 1),
    }


def _workers(admin: Admin, table_name: str) -> Workers:
    """The members of the workers' consumer group; some brokers, as the embedded one, do not show them."""
    until = monotonic() + GROUP_SECONDS_MAX
    asked = worker_group(table_name), topic_name(table_name, CHANGES)
    with suppress(GroupHidden):
        while (group := members_of(admin, *asked)) is None and monotonic() <= until:
            sleep(GROUP_AGAIN_SECONDS)
        if group is not None:
            return Workers(group.by_partition, settled=group.settled)
    return Workers({}, told=False)
