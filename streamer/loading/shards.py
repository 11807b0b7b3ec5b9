"""The shards of a table as a command that loads them finds them, and its claims on them.

One command at a time loads a shard: it claims it before it looks at anything, and renews its claim. A command that was
away for longer than the lease, and comes back after another one, is shut out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread

from streamer.errors import Conflict, StreamerError, UsageError
from streamer.incremental.formats.live_format import LiveFormat
from streamer.incremental.shard.input import InputState
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import RedisLookups, shards_of
from streamer.incremental.store.redis_server import connect, connect_now, require_durable
from streamer.incremental.topics import CHANGES, published_kinds
from streamer.kafka.clients import require_answer
from streamer.kafka.outlet import KafkaOutlet
from streamer.kafka.shard_input import KafkaInput, KafkaReading, kafka_topics
from streamer.worker.settings import WorkerSettings


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards of a table: their inputs and stores, and how to read and write their output."""

    settings: WorkerSettings
    claims: Mapping[int, str]  # of the command that loads them, by shard; none if it only looks
    chosen: Sequence[int]  # the shards that it loads
    inputs: Sequence[KafkaInput]
    states: Sequence[InputState]
    stores: Sequence[RedisLookups]
    metas: Sequence[Meta | None]  # read before the states: no commit has read more than these hold

    def __len__(self) -> int:
        return len(self.states)

    def outlet(self, shard: int) -> KafkaOutlet:
        return KafkaOutlet(*self._output_of(shard))

    def former(self) -> list[int]:
        """Numbers of shards in Redis that the input no longer has, because it was recreated with fewer partitions."""
        held = shards_of(connect(self.settings.redis), self.settings.table.name)
        return [number for number in held if number >= len(self)]

    def holds_something(self, shard: int) -> bool:
        meta = self.metas[shard]
        is_stored = meta is not None and meta.commit > 0
        return is_stored or self.outlet(shard).position() is not None or self.states[shard].live_begun

    def read_to(self, shard: int) -> int:
        """The first offset of the input that the shard has not read; 0 if it has read nothing of this input."""
        meta, ids = self.metas[shard], self.states[shard].topic_ids
        return meta.next if meta is not None and meta.topic_ids.get(CHANGES) == ids.get(CHANGES) else 0

    def reading(self, shard: int) -> KafkaReading:
        return KafkaReading(*self._output_of(shard))

    def _output_of(self, shard: int) -> tuple[str, str, int, Sequence[str], LiveFormat]:
        settings = self.settings
        return settings.kafka, settings.table.name, shard, published_kinds(settings.table), settings.live_format


LEASE_SECONDS, RENEWED_EVERY_SECONDS = 30.0, 5.0
"""A command that is killed keeps others out until its lease ends, which is after a failover of Redis, as a rule."""

ENDING_SECONDS_MAX = 1.0

OTHER_TOPICS = "the topics were recreated or have grown since the command started: call it again"


def loaded(claims: Mapping[int, str], shards: Sequence[int] | None, n: int) -> list[int]:
    """The shards that a command loads, of n. Raises UsageError; Conflict if its claims are those of other shards."""
    chosen = list(range(n) if shards is None else shards)
    if chosen[-1] >= n:
        raise UsageError(f"--shards: there is no shard {chosen[-1]}: the input has {n} partitions, 0 to {n - 1}")
    if claims and sorted(claims) != chosen:
        raise Conflict(OTHER_TOPICS)
    return chosen


@contextmanager
def claimed(settings: WorkerSettings, command: str, shards: Sequence[int] | None = None) -> Iterator[dict[int, str]]:
    """Claims shards, None: all, for the block, and yields the claims by shard: no other command loads them meanwhile.

    Raises Conflict if another command has one of them, UsageError, ServerUnreachable. What was seen of the shards
    before the block must not be written by.
    """
    client, table = connect_now(settings.redis), settings.table.name
    require_answer(settings.kafka)
    claims: dict[int, str] = {}
    first = KafkaInput(settings.kafka, table, 0, outputs=published_kinds(settings.table))
    chosen = loaded(claims, shards, first.state().shards)
    stores = [RedisLookups(client, table, shard) for shard in chosen]
    ended = Event()
    renewing = Thread(target=_renew, args=(stores, claims, ended), name="claim", daemon=True)
    renewing.start()
    try:
        for store in stores:
            claims[store.shard] = store.claim(f"`{command}` ({settings.name})", LEASE_SECONDS)
        yield claims
    finally:
        ended.set()
        renewing.join(ENDING_SECONDS_MAX)  # if Redis does not answer, a claim ends by itself


def _renew(stores: Sequence[RedisLookups], claims: Mapping[int, str], ended: Event) -> None:
    """Renews claims until the command ends. If that fails, and another command comes, no write will be taken."""
    seconds = LEASE_SECONDS
    while seconds:
        seconds = 0 if ended.wait(RENEWED_EVERY_SECONDS) else LEASE_SECONDS
        for store in stores:
            if store.shard in claims:
                with suppress(StreamerError):  # another command came, or Redis does not answer now
                    store.renew(claims[store.shard], seconds)


def found_shards(settings: WorkerSettings, claims: Mapping[int, str], shards: Sequence[int] | None = None) -> Shards:
    """Reads the state of all shards from Kafka and Redis, and shuts commands with earlier claims out.

    shards: those that are looked at, if none is claimed. Raises ConfigError, ShardRefused, NotDurable,
    ServerUnreachable; Fenced if a later command has claimed one.
    """
    kafka, table = settings.kafka, settings.table
    if claims:  # else nothing is written, and no schema registered
        settings.live_format.begin()
    client, outputs = connect(settings.redis), published_kinds(table)
    topics = kafka_topics(kafka, table.name, outputs)
    require_answer(kafka)
    require_durable(client, table.durability_stated or settings.embedded)
    n = KafkaInput(kafka, table.name, 0, topics, outputs).state().shards
    inputs = [KafkaInput(kafka, table.name, shard, topics, outputs) for shard in range(n)]
    stores = [RedisLookups(client, table.name, shard) for shard in range(n)]
    chosen = loaded(claims, shards, n)
    for shard, claim in claims.items():
        stores[shard].shut_out_older(claim)
    metas = [store.meta() for store in stores]
    return Shards(settings, claims, chosen, inputs, [one.state() for one in inputs], stores, metas)


def empty_shards(settings: WorkerSettings, claims: Mapping[int, str], shards: Sequence[int] | None = None) -> Shards:
    """As `found_shards`. Raises UsageError if one of the shards that are loaded holds something already.

    A command that ended in the middle has left its mark in them: this one begins again, whatever it filled.
    """
    found = found_shards(settings, claims, shards)
    if any(found.stores[shard].custody().beginning for shard in found.chosen):
        return found
    if filled := [*filter(found.holds_something, found.chosen), *found.former()]:
        raise UsageError(
            f"shard {filled[0]} of {settings.table.name} is not empty, and `load` fills empty tables only; "
            "`streamer reload --from-source` replaces what is there"
        )
    return found
