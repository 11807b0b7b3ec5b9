"""Facts of a table, its shards and a worker, as values.

The rules of this file
----------------------
* `ShardFacts` has both sides of a shard: `redis` and `kafka` are what the servers show, `held` is what its own worker
  knows, which is more exact. A side that was not looked at is left out.
* Times are in seconds since 1970. Durations that a worker measures are by its monotonic clock: a clock that is set
  changes no verdict.
* Counts, our own names and texts of our own errors: no value of a row, no key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streamer.incremental.events.changes import NO_MESSAGES, Counts
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.shard.snapshot import holds_back
from streamer.incremental.store.base import Meta, Progress
from streamer.incremental.store.redis_lookups import Measured, Ownership, RedisNow, Sizes
from streamer.incremental.store.redis_server import Durability
from streamer.table.schema import Table


@dataclass(frozen=True, slots=True)
class Waiting:
    """The first message that a shard has not applied, or that an open transaction holds back."""

    offset: int
    since: float  # when it was written


@dataclass(frozen=True, slots=True)
class InRedis:
    """Redis' data of one shard."""

    before: Meta | None = None  # read before Kafka was asked; None: the shard never committed
    meta: Meta | None = None  # read afterwards
    sizes: Sizes = field(default_factory=lambda: Sizes(0, 0, 0, 0))
    custody: Ownership = field(default_factory=Ownership)
    master: str = ""  # of a cluster, the server that has the shard


@dataclass(frozen=True, slots=True)
class InKafka:
    """Kafka's data of one shard."""

    input_state: InputState = field(default_factory=lambda: InputState({}, 0, 0, 0))
    position: Position | None = None  # None: it never published
    waiting: Waiting | None = None
    refused_lately: int = 0  # messages that are refused still and not acknowledged, among the last `lately` messages
    lately: int = 0  # 0: the letters were not looked at
    refused_now: int = 0  # the same of the last minutes, among the last `now` messages
    now: int = 0
    refused_at: float = 0.0  # when the last one of them was refused
    truncations: tuple[int, ...] = ()  # offsets of captured truncations that are dead letters
    held_back: Waiting | None = None  # by an open transaction of a producer: nobody can read it yet


@dataclass(frozen=True, slots=True)
class SealedFacts:
    """The sealed changelog of a shard, as its worker knows it."""

    epoch: int = 0  # the last one that is over
    cohorts: int = 0  # published
    waiting: int = 0  # rows in no cohort
    overdue_seconds: float = 0.0  # since the next epoch should have been over; 0 if it counts row changes


def overdue_seconds(table: Table, meta: Meta | None, now: float) -> float:
    """The seconds since an epoch that lasts a time should have been over; 0 before the first one and for others."""
    length = None if table.sealed is None else table.sealed.epoch.seconds
    if length is None or meta is None or meta.sealed is None or not meta.sealed.epoch or holds_back(meta):
        return 0.0
    return max(0.0, now - (meta.sealed.seconds + length))


@dataclass(frozen=True, slots=True)
class HeldFacts:
    """One shard, as the worker to which it is assigned knows it."""

    shard: int
    taken_over: bool = False  # since its assignment
    lost: bool = False  # another worker has it now
    refused: str = ""  # why its worker does not serve it, although it serves others
    since: float | None = None
    lag: int = 0  # messages and markers that wait
    still_seconds: float = 0.0  # since messages wait and none was applied
    busy_seconds: float = 0.0  # since its thread is in one call
    computing_seconds: float = 0.0  # of these, while it waited for no server
    error: str = ""  # why it is about to be taken over again
    error_seconds: float = 0.0
    fault_seconds: float | None = None  # since a message was skipped that could not be applied
    releases: bool = False  # the rows of a snapshot are put into QI groups, which may take long
    rows: int = 0
    pending: int = 0
    pending_since: float | None = None
    qi_groups: int = 0
    counts: Counts = NO_MESSAGES  # over the shard's whole life, not of this process
    release: int = 0
    committed_at: float | None = None
    ncp: float | None = None  # mean loss of the published rows (`Space.mean_loss`)
    ncp_fresh: float | None = None  # the same if the table were anonymized again
    rebuild: Progress | None = None
    rebuilds: tuple[Progress, ...] = ()
    messages_per_s: float = 0.0
    records_per_s: float = 0.0
    sealed: SealedFacts | None = None


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """One shard."""

    number: int
    redis: InRedis = field(default_factory=InRedis)
    kafka: InKafka = field(default_factory=InKafka)
    worker: str = ""  # to which Kafka assigned it; "": to none
    held: HeldFacts | None = None  # what that worker knows

    @property
    def waits(self) -> bool:
        """True if a message waits, by the servers; offsets below the end of the input may hold no message."""
        waiting, meta = self.kafka.waiting, self.redis.meta
        return waiting is not None and waiting.offset >= (meta.next if meta else 0)

    @property
    def lag(self) -> int:
        """Offsets that the shard has not read; 0 if they hold no message."""
        if self.held is not None:
            return self.held.lag
        next_ = self.redis.meta.next if self.redis.meta else 0
        return max(0, self.kafka.input_state.end - next_) if self.waits else 0

    def still_seconds(self, now: float) -> float:
        """The seconds that messages wait while none is applied; 0 during a take-over. now: Redis' time."""
        if self.held is not None:
            return self.held.still_seconds if self.held.taken_over else 0.0
        if self.kafka.waiting is None or not self.waits:
            return 0.0
        custody = self.redis.custody
        return now - max(self.kafka.waiting.since, custody.taken_at or 0, custody.committed_at or 0)

    @property
    def releases(self) -> bool:
        """True if the shard holds back a snapshot, whose rows an algorithm puts into QI groups."""
        if self.held is not None:
            return self.held.releases
        return self.redis.meta is not None and holds_back(self.redis.meta)


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers to which Kafka assigned shards."""

    by_shard: Mapping[int, str]
    settled: bool = True  # no rebalance is running
    told: bool = True  # Kafka shows the consumer group to this user


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table, as its servers show it."""

    shards: Sequence[ShardFacts]
    workers: Workers
    topics: Mapping[str, int]  # numbers of partitions; 0: the topic is missing
    shards_in_redis: Sequence[int]
    redis_now: RedisNow
    durability: Durability


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server that the worker asks now and then."""

    name: str
    silent_seconds: float  # since its last answer
    full: bool = False  # it takes no writes


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """One worker, as it knows itself."""

    table: str
    worker: str
    version: str
    now: float
    joined: bool  # the assignment is complete; it may be empty
    servers: tuple[ServerFacts, ...]
    shards: tuple[HeldFacts, ...]
    refused: Mapping[int, Ownership] = field(default_factory=dict)  # of its shards, or those it may get
    unjoined_seconds: float = 0.0  # since the start, or since the last rebalance began


def mean_over_rows(parts: Sequence[tuple[float | None, int]]) -> float | None:
    """The mean over rows, of a value and its number of rows each; None if a value is unknown.

    >>> mean_over_rows([(0.25, 10), (0.5, 30), (None, 0)]), mean_over_rows([(0.25, 10), (None, 30)])
    (0.4375, None)
    """
    parts = [(value, rows) for value, rows in parts if rows]
    if not parts or any(value is None for value, _ in parts):
        return None
    rows = sum(rows for _, rows in parts)
    return round(sum((value or 0.0) * rows for value, rows in parts) / rows, 6)


def of_table(shards: Sequence[ShardFacts]) -> Measured:
    """The measures of all shards together: means over rows, sums of counts, and the time of the oldest one."""
    parts = [(shard.redis.custody.measured, shard.redis.sizes) for shard in shards]
    published = [(one, max(0, sizes.records - sizes.pending - one.withheld)) for one, sizes in parts]
    return Measured(
        mean_over_rows([(one.ncp, rows) for one, rows in published]),
        mean_over_rows([(one.ncp_fresh, rows) for one, rows in published]),
        sum(one.messages for one, _ in parts),
        sum(one.records for one, _ in parts),
        min((one.at for one, _ in parts if one.at), default=0),
        sum(one.withheld for one, _ in parts),
    )
