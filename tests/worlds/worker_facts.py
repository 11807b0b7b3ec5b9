"""What a worker knows of itself, as tests want it: well, with two shards, unless they say otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agents.diary import Diary
from agents.web.facts import HeldFacts, ServerFacts, WorkerFacts
from streamer.incremental.events.counts import Counts

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
    diaries: Mapping[int, Diary] | None = None,
) -> WorkerFacts:
    """A worker that holds these shards, by default two that are well."""
    held = shards or (WELL, replace(WELL, shard=1))
    kept = {shard.shard: Diary() for shard in held} if diaries is None else diaries
    return WorkerFacts("patients", "here:1", "1.2.3", NOW, joined, servers, held, kept)
