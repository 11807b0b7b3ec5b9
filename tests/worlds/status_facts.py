"""What `streamer status` and a worker know of shards that are well, and what a test says is otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streamer.incremental.events.changes import Counts
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import Ownership, Sizes
from streamer.incremental.topics import CHANGES
from streamer.status.facts import HeldFacts, InKafka, InRedis, ServerFacts, ShardFacts, WorkerFacts, Workers
from streamer.table.yaml.loading import load_table
from worlds.checkout import PATIENTS

NOW = 1_764_000_000.0

WELL = HeldFacts(
    shard=0,
    taken_over=True,
    since=NOW - 60,
    rows=90,
    pending=0,
    qi_groups=20,
    counts=Counts(applied=100, ignored=2, dead_letters=3),
    release=7,
    committed_at=NOW - 1,
    ncp=0.25,
    ncp_fresh=0.2,
)

SERVERS = (ServerFacts("Kafka", 1.0), ServerFacts("Redis", 2.0))


def worker(
    *shards: HeldFacts,
    servers: tuple[ServerFacts, ...] = SERVERS,
    joined: bool = True,
) -> WorkerFacts:
    """A worker that holds these shards, by default two that are well."""
    held = shards or (WELL, replace(WELL, shard=1))
    return WorkerFacts("patients", "here:1", "1.2.3", NOW, joined, servers, held)


TABLE = load_table(PATIENTS)
ALICE, BOB = "alice:1", "bob:2"
META = Meta(
    commit=4, next=100, release=3, counts=Counts(applied=90, ignored=1), shards=2, fingerprint=TABLE.fingerprint,
    topic_ids={CHANGES: "id"},
)  # fmt: skip
BY_ALICE = Workers({0: ALICE, 1: ALICE})


def shard(
    meta: Meta | None = META, *, worker: str = ALICE, before: Meta | None = META, begun: bool = True, **more: Any
) -> ShardFacts:
    """A shard that Alice holds, at rest, all of it published; `more` replaces what is seen of it."""
    position = Position.of(meta) if meta else None
    end = meta.next if meta else 0
    in_kafka: dict[str, Any] = {
        "input_state": InputState({}, 2, 0, end, begun),
        "position": position,
        "waiting": None,
        "refused_lately": 0,
        "lately": 0,
    }
    in_redis: dict[str, Any] = {
        "sizes": Sizes(30, 5, 2, 0),
        "custody": Ownership(ALICE, int(NOW) - 500, int(NOW) - 300),
    }
    for name, value in more.items():
        (in_kafka if name in in_kafka else in_redis)[name] = value
    return ShardFacts(0, InRedis(before, meta, **in_redis), InKafka(**in_kafka), worker)
