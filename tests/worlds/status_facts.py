"""What `streamer status` and a worker know of shards that are well, in Python and as /facts says it."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from streamer.incremental.events.changes import Counts
from streamer.incremental.shard.input import InputState
from streamer.incremental.shard.outlet import Position
from streamer.incremental.store.base import Meta
from streamer.incremental.store.redis_lookups import Ownership, Sizes
from streamer.incremental.topics import CHANGES
from streamer.status.facts import HeldFacts, InKafka, InRedis, ServerFacts, ShardFacts, WorkerFacts, Workers
from streamer.status.verdict import OUTDATED_SECONDS
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
        "input_state": InputState({}, 2, 0, end, begun, control_end=2),
        "position": position,
        "waiting": None,
        "refused_lately": 0,
        "lately": 0,
        "refused_now": 0,
        "now": 0,
        "refused_at": 0.0,
        "truncations": (),
    }
    in_redis: dict[str, Any] = {
        "sizes": Sizes(30, 5, 2, 0),
        "custody": Ownership(ALICE, int(NOW) - 500, int(NOW) - 300),
    }
    for name, value in more.items():
        (in_kafka if name in in_kafka else in_redis)[name] = value
    return ShardFacts(0, InRedis(before, meta, **in_redis), InKafka(**in_kafka), worker)


NOW_AS_DATE = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def before(seconds: float) -> str:
    """The moment that lies so far before NOW_AS_DATE, as the worker writes it."""
    return (NOW_AS_DATE - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def shard_as_json(number: int, **changes: Any) -> dict[str, Any]:
    """A shard that is held here and at rest."""
    calm = {
        "shard": number, "worker": "streamer-a1", "here": True, "state": "held", "since": before(7300),
        "lag": 0, "rows": 41_250, "pending": 0, "pending_oldest": None, "qi_groups": 5_480, "messages": 98_765,
        "applied": 98_700, "ignored": 60, "dead_letters": 5, "messages_per_s": 412.4, "records_per_s": 633.0,
        "release": 3_211, "last_commit": before(3), "ncp": 0.1824, "ncp_fresh": 0.1631,
        "reason": None, "rebuild": None, "rebuilds": [],
    }  # fmt: skip
    return calm | changes


def facts(*shards: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Everything works, an hour of history."""
    calm = {
        "table": "patients", "version": "0.1.0", "worker": "streamer-a1", "now": before(0), "k": 5,
        "model": "at least 5 rows", "form": "rows",
        "drift": 1.2, "servers": [server("Kafka"), server("Redis")],
        "verdict": {"ok": True, "problems": [], "warnings": []},
        "shards": list(shards), "dead_letters": {"unknown-category": 4, "internal-error": 1}, "unlisted": [],
        "history": history(),
    }  # fmt: skip
    return calm | changes


def server(name: str, silent: float = 1.0) -> dict[str, Any]:
    """A server that answered so many seconds ago."""
    return {"name": name, "answered": before(silent), "silent": silent > OUTDATED_SECONDS}


def history(points: int = 360) -> list[dict[str, Any]]:
    """An hour: a wave of messages, a lag that comes with it and goes, a loss that drifts."""
    return [_point(i / points, before(3600 * (1 - i / points))) for i in range(points)]


def _point(share: float, at: str) -> dict[str, Any]:
    wave = max(0.0, math.sin(share * 12))
    return {
        "at": at, "lag": int(2_400 * wave**4), "messages_per_s": 300 + 900 * wave, "records_per_s": 420 + 1_300 * wave,
        "ncp": 0.166 + 0.016 * share, "ncp_fresh": None if share < 0.1 else 0.162 + 0.001 * wave, "pending": 0,
        "rows": 122_500 + int(1_250 * share), "dead_letters": int(15 * share),
    }  # fmt: skip


def red(*problems: str, warnings: tuple[str, ...] = ()) -> dict[str, Any]:
    """A verdict with problems."""
    return {"ok": False, "problems": list(problems), "warnings": list(warnings)}
