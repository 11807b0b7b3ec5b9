"""What a worker knows of itself, as tests want it: well, with two shards, unless they say otherwise."""

from __future__ import annotations

from dataclasses import replace

from streamer.incremental.events.changes import Counts
from streamer.status.facts import HeldFacts, ServerFacts, WorkerFacts

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
