"""Takes what a worker knows of itself: once a second, and whenever somebody asks."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from importlib.metadata import version
from time import monotonic, time

from agents.diary import Diary
from agents.ingest import Ingest
from agents.shard import HeldShard
from agents.web.facts import HeldFacts, ServerFacts, WorkerFacts
from agents.worker_settings import WorkerSettings
from streamer.incremental.shard.holding_back import holds_back

RATE_SECONDS = 5.0
"""Over how long messages and records a second are counted."""

NONE_REFUSED: Mapping[int, str] = {}


class Watch:
    """Looks at a worker's shards; remembers when each moved last, and how fast. ends: of the input, by shard."""

    def __init__(self, settings: WorkerSettings, ingest: Ingest) -> None:
        self.ends: Mapping[int, int] = {}
        self._settings = settings
        self._ingest = ingest
        self._moved: dict[int, tuple[int, float]] = {}
        self._done: dict[int, deque[tuple[float, int, int]]] = {}
        self._unjoined_at: float | None = None
        self._version = version("streamer")

    def facts(self, servers: tuple[ServerFacts, ...], refused: Mapping[int, str] = NONE_REFUSED) -> WorkerFacts:
        """What is known now; servers: as they answered last; refused: shards that are not taken over, and why."""
        held = self._ingest.held
        self._forget_others({shard.number for shard in held})
        return WorkerFacts(
            table=self._settings.table.name,
            worker=self._settings.name,
            version=self._version,
            now=time(),
            joined=self._ingest.joined,
            servers=servers,
            shards=tuple(self._shard(shard, monotonic()) for shard in held),
            diaries=self._ingest.diaries,
            refused=refused,
            unjoined_seconds=self._unjoined_seconds(monotonic()),
        )

    def _unjoined_seconds(self, now: float) -> float:
        if self._ingest.joined:
            self._unjoined_at = None
            return 0.0
        self._unjoined_at = now if self._unjoined_at is None else self._unjoined_at
        return now - self._unjoined_at

    def _forget_others(self, numbers: set[int]) -> None:
        """Who gets a shard back begins anew: what was seen of it before is old."""
        self._moved = {number: seen for number, seen in self._moved.items() if number in numbers}
        self._done = {number: seen for number, seen in self._done.items() if number in numbers}

    def _shard(self, shard: HeldShard, now: float) -> HeldFacts:
        diary, meta = shard.diary, shard.meta
        diary.has_pending(shard.sizes.get("pending", 0))
        lag = max(0, self.ends.get(shard.number, 0) - shard.next) if shard.told else 0
        messages_per_s, records_per_s = self._rates(shard.number, diary, now)
        return HeldFacts(
            shard=shard.number,
            taken_over=shard.told,
            lost=bool(shard.lost),
            since=diary.taken_at if shard.told else None,
            lag=lag,
            still_seconds=self._still_seconds(shard, lag, now),
            busy_seconds=shard.busy_seconds,
            computing_seconds=shard.computing_seconds,
            error=diary.error,
            error_seconds=0.0 if diary.error_since is None else now - diary.error_since,
            fault_seconds=None if diary.fault_at is None else now - diary.fault_at,
            releases=holds_back(meta),
            **shard.sizes,
            pending_since=diary.pending_since,
            counts=meta.counts,
            release=meta.release,
            committed_at=diary.committed_at,
            ncp=shard.ncp,
            ncp_fresh=shard.ncp_fresh,
            rebuild=meta.rebuild,
            rebuilds=meta.rebuilds,
            messages_per_s=messages_per_s,
            records_per_s=records_per_s,
        )

    def _still_seconds(self, shard: HeldShard, lag: int, now: float) -> float:
        next_, moved_at = self._moved.get(shard.number, (-1, now))
        if not lag or next_ != shard.next:
            moved_at = now
        self._moved[shard.number] = shard.next, moved_at
        return now - moved_at

    def _rates(self, number: int, diary: Diary, now: float) -> tuple[float, float]:
        """Messages and records a second, of late."""
        seen = self._done.setdefault(number, deque())
        seen.append((now, diary.done.counts.messages, diary.done.published))
        while len(seen) > 2 and seen[1][0] <= now - RATE_SECONDS:
            seen.popleft()
        then, messages, records = seen[0]
        seconds = max(now - then, 1.0)
        return (seen[-1][1] - messages) / seconds, (seen[-1][2] - records) / seconds
