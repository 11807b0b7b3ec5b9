"""What is known of a table, its shards and a worker, as values: from outside, by Redis and Kafka, and from inside.

The rules of this file
----------------------
* A shard has both sides in one value: `redis` and `kafka` are what anybody can look up, `held` is what the worker that
  holds the shard knows by itself. Whoever did not look leaves a side out; from inside is nearer to the truth.
* Times that are shown are in seconds since 1970. How long something lasts, from inside, is in seconds of the process'
  own clock: a clock that is set changes no verdict.
* Counts, names of our own and texts of our own errors: no value of a row, no key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streamer.incremental.events.changes import NO_MESSAGES, Counts
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.snapshot import holds_back
from streamer.incremental.store.base import Meta, Progress
from streamer.incremental.store.redis_lookups import Ownership, RedisNow, Sizes
from streamer.incremental.store.redis_server import Durability


@dataclass(frozen=True, slots=True)
class Waiting:
    """The first message that a shard has not applied: its offset, and when it was written, in seconds since 1970."""

    offset: int
    since: float


@dataclass(frozen=True, slots=True)
class InRedis:
    """What Redis holds of one shard: as read before Kafka was asked, and after; None: it never committed."""

    before: Meta | None = None
    meta: Meta | None = None
    sizes: Sizes = field(default_factory=lambda: Sizes(0, 0, 0, 0))
    custody: Ownership = field(default_factory=Ownership)


@dataclass(frozen=True, slots=True)
class InKafka:
    """What Kafka holds of one shard; position None: it never published.

    refused_lately: how many of the last `lately` messages that were read are dead letters; 0 of 0: not asked, because
    the shard has read no more than that.
    """

    input_state: InputState = field(default_factory=lambda: InputState({}, 0, 0, 0))
    position: Position | None = None
    waiting: Waiting | None = None
    refused_lately: int = 0
    lately: int = 0


@dataclass(frozen=True, slots=True)
class HeldFacts:
    """One shard, as the worker knows it to which Kafka has given it."""

    shard: int
    taken_over: bool = False  # since it was given
    lost: bool = False  # somebody else has it now
    since: float | None = None
    lag: int = 0  # messages and markers that wait
    still_seconds: float = 0.0  # for how long messages wait, and none was applied
    busy_seconds: float = 0.0  # how long its thread is in one call
    computing_seconds: float = 0.0  # of these, while it waited for no server
    error: str = ""  # why it is about to be taken over again
    error_seconds: float = 0.0
    fault_seconds: float | None = None  # since a message was skipped that could not be applied
    releases: bool = False  # it puts the rows of a snapshot into QI groups, which may take long
    rows: int = 0
    pending: int = 0
    pending_since: float | None = None
    qi_groups: int = 0
    counts: Counts = NO_MESSAGES  # of all times, not of this process
    release: int = 0
    committed_at: float | None = None
    ncp: float | None = None  # the mean of the published rows
    ncp_fresh: float | None = None  # the same of a table anonymized afresh
    rebuild: Progress | None = None
    rebuilds: tuple[Progress, ...] = ()
    messages_per_s: float = 0.0
    records_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """One shard; worker: who Kafka gave it to, "" nobody; held: what that worker knows of it, if it was asked."""

    number: int
    redis: InRedis = field(default_factory=InRedis)
    kafka: InKafka = field(default_factory=InKafka)
    worker: str = ""
    held: HeldFacts | None = None

    @property
    def waits(self) -> bool:
        """Whether a message waits, as seen from outside; offsets below the end of the input may hold none."""
        waiting, meta = self.kafka.waiting, self.redis.meta
        return waiting is not None and waiting.offset >= (meta.next if meta else 0)

    @property
    def lag(self) -> int:
        """Offsets that the shard has not read; none if no message waits in them."""
        if self.held is not None:
            return self.held.lag
        next_ = self.redis.meta.next if self.redis.meta else 0
        return max(0, self.kafka.input_state.end - next_) if self.waits else 0

    def still_seconds(self, now: float) -> float:
        """For how long messages wait while none is applied; 0 during a take-over. now: by the clock of Redis."""
        if self.held is not None:
            return self.held.still_seconds if self.held.taken_over else 0.0
        if self.kafka.waiting is None or not self.waits:
            return 0.0
        custody = self.redis.custody
        return now - max(self.kafka.waiting.since, custody.taken_at or 0, custody.committed_at or 0)

    @property
    def releases(self) -> bool:
        """Whether the shard holds back a snapshot, which an algorithm puts into QI groups."""
        if self.held is not None:
            return self.held.releases
        return self.redis.meta is not None and holds_back(self.redis.meta)


@dataclass(frozen=True, slots=True)
class Workers:
    """Which worker Kafka gave which shard; settled: no shard is changing hands. told: Kafka says so at all."""

    by_shard: Mapping[int, str]
    settled: bool = True
    told: bool = True


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table, from outside. topics: partitions by topic, 0 for one that is missing."""

    shards: Sequence[ShardFacts]
    workers: Workers
    topics: Mapping[str, int]
    shards_in_redis: Sequence[int]
    redis_now: RedisNow
    durability: Durability


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server that is asked now and then: how long ago it answered last; full: it takes no writes."""

    name: str
    silent_seconds: float
    full: bool = False


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """One worker, from inside."""

    table: str
    worker: str
    version: str
    now: float
    joined: bool  # Kafka has given the worker its shards, possibly none
    servers: tuple[ServerFacts, ...]
    shards: tuple[HeldFacts, ...]
    refused: Mapping[int, Ownership] = field(default_factory=dict)  # shards it may get and has not taken over
    unjoined_seconds: float = 0.0  # at the start, or since Kafka last began to give out the shards
