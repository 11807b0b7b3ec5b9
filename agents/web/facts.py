"""What a worker knows of itself, as values: taken in the event loop, and cheap, because no server is asked for it.

The rules of this file
----------------------
* Times that are shown are seconds since 1970. What is judged is how many seconds something has lasted, by the process'
  own clock, so that a clock that is set changes no verdict.
* Counts, names of our own and texts of our own errors: no value of a row, no key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.diary import Diary
from streamer.incremental.events.counts import NO_MESSAGES, Counts
from streamer.incremental.store.rebuild import Progress


@dataclass(frozen=True, slots=True)
class HeldFacts:
    """One shard that Kafka has given to this worker.

    taken_over: whether it was, since it was given; lost: somebody else has it now. lag: messages and markers that wait.
    still_seconds: for how long messages wait, and none was applied; busy_seconds: how long its thread is in one call;
    computing_seconds: and waited for no server in it. error: why it is about to be taken over again, and for how long;
    fault_seconds: since when a message was passed over that could not be applied. releases: it puts the rows of a
    snapshot into QI groups, which may take long. ncp: the mean of the published rows; ncp_fresh: of a fresh table.
    counts: of all times; done, in `WorkerFacts`: of this process.
    """

    shard: int
    taken_over: bool = False
    lost: bool = False
    since: float | None = None
    lag: int = 0
    still_seconds: float = 0.0
    busy_seconds: float = 0.0
    computing_seconds: float = 0.0
    error: str = ""
    error_seconds: float = 0.0
    fault_seconds: float | None = None
    releases: bool = False
    rows: int = 0
    pending: int = 0
    pending_since: float | None = None
    qi_groups: int = 0
    counts: Counts = NO_MESSAGES
    release: int = 0
    committed_at: float | None = None
    ncp: float | None = None
    ncp_fresh: float | None = None
    rebuild: Progress | None = None
    rebuilds: tuple[Progress, ...] = ()
    messages_per_s: float = 0.0
    records_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """A server that is asked now and then: how long ago it answered last; full: it takes no writes."""

    name: str
    silent_seconds: float
    full: bool = False


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """One worker now. joined: Kafka has given it its shards, be it none; unjoined_seconds: for how long it has not, at
    the start or since they were last given out anew. diaries: of all shards that it ever had.

    refused: why shards are refused that it has, or may get, and has not taken over: it may have ended by that before.
    """

    table: str
    worker: str
    version: str
    now: float
    joined: bool
    servers: tuple[ServerFacts, ...]
    shards: tuple[HeldFacts, ...]
    diaries: Mapping[int, Diary]
    refused: Mapping[int, str] = field(default_factory=dict)
    unjoined_seconds: float = 0.0
