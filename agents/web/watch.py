"""Collects a worker's facts: about itself every second, about its servers every two, about its table while it is shown.

The rules of this file
----------------------
* Kafka is asked for the end of the input, for the lag, by the client that reads it. Redis is asked for its clock and
  whether it is full, and for refusals of shards that are not taken over, over a connection of its own.
* Calls that may wait for a server run in threads of their own, not in the event loop or in a shard's thread.
* Nothing here may end a worker, or keep one from ending: what fails is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import accumulate
from time import monotonic, time
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from agents.ingest import Ingest
from agents.shard_agent import HeldShard
from agents.shard_metrics import BOUNDS, ShardMetrics
from streamer.errors import StreamerError
from streamer.incremental.events.changes import NO_MESSAGES, Counts
from streamer.incremental.shard import requests
from streamer.incremental.shard.outlet import POSITION_FORMAT
from streamer.incremental.shard.ready import Facts
from streamer.incremental.shard.rebuild import losses
from streamer.incremental.shard.snapshot import holds_back
from streamer.incremental.store.base import Meta, Progress
from streamer.incremental.store.codec import FORMAT_VERSION
from streamer.incremental.store.redis_lookups import Ownership, RedisLookups, RedisNow, server_now
from streamer.incremental.store.redis_server import RedisClient, connect
from streamer.incremental.topics import CHANGES, topic_name
from streamer.privacy.models import model_of, words
from streamer.status.facts import (
    HeldFacts,
    InKafka,
    SealedFacts,
    ServerFacts,
    ShardFacts,
    TableFacts,
    WorkerFacts,
    mean_over_rows,
    overdue_seconds,
)
from streamer.status.verdict import Verdict, held_problems, judge, not_ready, silent_servers, worker_problems
from streamer.table.data_warnings import unknown_category_warnings
from streamer.table.schema import ENGINE_VERSION, REPAIR_VERSION, Table
from streamer.table.space import Space
from streamer.worker.settings import WorkerSettings

log = logging.getLogger(__name__)

RATE_SECONDS = 5.0  # the window of messages and records per second

PROBE_SECONDS, FIRST_PROBE_SECONDS = 2.0, 0.5  # between two questions to a server; and before the first assignment
KAFKA_ANSWER_SECONDS_MAX, REDIS_ANSWER_SECONDS_MAX = 4.0, 2.0

PAGE_LOOK_SECONDS = 5.0  # after this time the facts of the whole table are collected again
NOT_OF_NOW_SECONDS = 15.0  # after this time they no longer prove that everything works
OLD_SECONDS = 60.0  # after this time they are not shown any more


class FactCollector:
    """Facts of a worker's shards; it remembers when each shard last went on, and how fast it is."""

    def __init__(self, settings: WorkerSettings, ingest: Ingest) -> None:
        self.ends: Mapping[int, int] = {}  # of the input, by shard
        self._settings, self._ingest = settings, ingest
        # by shard the last facts: while it is loaded again after an error, it has as many rows as before
        self._known: dict[int, Facts] = {}
        self._moved: dict[int, tuple[int, float]] = {}
        self._done: dict[int, deque[tuple[float, int, int]]] = {}
        self._unjoined_at: float | None = None
        self._version = version("streamer")

    def facts(self, servers: tuple[ServerFacts, ...], refused: Mapping[int, Ownership], now: float) -> WorkerFacts:
        """The facts. servers: as they last answered; refused: of shards not taken over; now: by the monotonic clock."""
        held = self._ingest.held
        numbers = {shard.number for shard in held}  # a shard that comes back is measured from the start
        self._known = {number: known for number, known in self._known.items() if number in numbers}
        self._moved = {number: seen for number, seen in self._moved.items() if number in numbers}
        self._done = {number: seen for number, seen in self._done.items() if number in numbers}
        return WorkerFacts(
            table=self._settings.table.name,
            worker=self._settings.name,
            version=self._version,
            now=time(),
            joined=self._ingest.joined,
            servers=servers,
            shards=tuple(self._shard(shard, now) for shard in held),
            refused=refused,
            unjoined_seconds=self._unjoined_seconds(now),
        )

    def _unjoined_seconds(self, now: float) -> float:
        if self._ingest.joined:
            self._unjoined_at = None
            return 0.0
        self._unjoined_at = now if self._unjoined_at is None else self._unjoined_at
        return now - self._unjoined_at

    def _shard(self, shard: HeldShard, now: float) -> HeldFacts:
        metrics, meta, facts = shard.metrics, shard.meta, shard.facts
        if not facts.sizes and shard.tenure.is_owner:
            facts = self._known.get(shard.number, facts)
        self._known[shard.number] = facts
        metrics.has_pending(facts.sizes.get("pending", 0) - facts.withheld)  # withheld rows may be for ever
        lag = max(0, self.ends.get(shard.number, 0) - meta.next) if shard.tenure.is_owner else 0
        messages_per_s, records_per_s = self._rates(shard.number, metrics, now)
        return HeldFacts(
            shard=shard.number,
            taken_over=shard.tenure.is_owner,
            lost=bool(shard.tenure.lost),
            refused=shard.tenure.refused,
            since=metrics.taken_at if shard.tenure.is_owner else None,
            lag=lag,
            still_seconds=self._still_seconds(shard, lag, now),
            busy_seconds=shard.thread.busy_seconds,
            computing_seconds=shard.thread.computing_seconds,
            error=shard.tenure.failed,
            error_seconds=now - shard.tenure.failed_at if shard.tenure.failed else 0.0,
            fault_seconds=None if metrics.fault_at is None else now - metrics.fault_at,
            releases=holds_back(meta),
            **facts.sizes,
            pending_since=metrics.pending_since,
            counts=meta.counts,
            release=meta.release,
            committed_at=metrics.committed_at,
            ncp=facts.ncp,
            ncp_fresh=facts.ncp_fresh,
            rebuild=meta.rebuild,
            rebuilds=meta.rebuilds,
            messages_per_s=messages_per_s,
            records_per_s=records_per_s,
            sealed=facts.sealed and SealedFacts(*facts.sealed, overdue_seconds(shard.table, meta, self._ingest.now)),
        )

    def _still_seconds(self, shard: HeldShard, lag: int, now: float) -> float:
        next_, moved_at = self._moved.get(shard.number, (-1, now))
        if not lag or next_ != shard.meta.next:
            moved_at = now
        self._moved[shard.number] = shard.meta.next, moved_at
        return now - moved_at

    def _rates(self, number: int, metrics: ShardMetrics, now: float) -> tuple[float, float]:
        seen = self._done.setdefault(number, deque())
        seen.append((now, metrics.done.counts.messages, metrics.done.published))
        while len(seen) > 2 and seen[1][0] <= now - RATE_SECONDS:
            seen.popleft()
        then, messages, records = seen[0]
        seconds = max(now - then, 1.0)
        return (seen[-1][1] - messages) / seconds, (seen[-1][2] - records) / seconds


class Probes:
    """Asks the servers of one worker again and again. collector: gets the ends of the input."""

    def __init__(self, settings: WorkerSettings, ingest: Ingest, collector: FactCollector) -> None:
        self._settings, self._ingest, self._collector = settings, ingest, collector
        self._topic = topic_name(settings.table.name, CHANGES)
        self._kafka_at = self._redis_at = monotonic()
        self._redis_full = False
        # the shards that a worker refused, of those that this worker has or may get, and has not taken over
        self.refused: Mapping[int, Ownership] = {}
        self._client: RedisClient | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="redis-probe")
        self._asked: Future[tuple[RedisNow, Mapping[int, Ownership]]] | None = None

    @property
    def busy(self) -> bool:
        """True if a question to Redis is running."""
        return self._asked is not None and not self._asked.done()

    def facts(self) -> tuple[ServerFacts, ...]:
        """The seconds since each server answered."""
        now = monotonic()
        redis = ServerFacts("Redis", now - self._redis_at, self._redis_full)
        return ServerFacts("Kafka", now - self._kafka_at), redis

    async def run(self) -> None:
        """Asks both again and again until it is cancelled."""
        await asyncio.gather(self._repeat(self._ask_kafka), self._repeat(self._ask_redis))

    def close(self) -> None:
        """Asks no more; a question that is running may end."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _repeat(self, ask: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await ask()
            except (KafkaError, StreamerError, TimeoutError):
                pass  # the time of the last answer shows it
            except Exception as error:
                log.warning("a server did not answer: %s", type(error).__name__)
            await asyncio.sleep(PROBE_SECONDS if self._ingest.joined else FIRST_PROBE_SECONDS)

    async def _ask_kafka(self) -> None:
        consumer, numbers = self._ingest.reader.consumer, self._shards()
        if not numbers:
            return
        places = [TopicPartition(self._topic, number) for number in numbers]
        ends = await asyncio.wait_for(consumer.end_offsets(places), KAFKA_ANSWER_SECONDS_MAX)
        # Ends of what can be read: what an open transaction holds back does not wait for this worker.
        self._collector.ends = {place.partition: end for place, end in ends.items()}
        self._kafka_at = monotonic()

    async def _ask_redis(self) -> None:
        self._asked = self._thread.submit(self._ask_in_thread, self._not_taken_over())
        now, self.refused = await asyncio.wrap_future(self._asked)
        self._redis_at, self._redis_full = monotonic(), now.full

    def _shards(self) -> list[int]:
        consumer = self._ingest.reader.consumer
        return sorted((consumer.partitions_for_topic(self._topic) if consumer is not None else None) or ())

    def _not_taken_over(self) -> list[int]:
        if not self._ingest.joined:
            return self._shards()
        return [shard.number for shard in self._ingest.held if not shard.tenure.is_owner]

    def _ask_in_thread(self, numbers: Sequence[int]) -> tuple[RedisNow, Mapping[int, Ownership]]:
        if self._client is None:
            self._client = connect(self._settings.redis, REDIS_ANSWER_SECONDS_MAX)
        now = server_now(self._client)
        lookups = {number: RedisLookups(self._client, self._settings.table.name, number) for number in numbers}
        custodies = {number: one.custody() for number, one in lookups.items()}
        return now, {number: one for number, one in custodies.items() if one.refusal is not None or one.beginning}


@dataclass(frozen=True, slots=True)
class Seen:
    """The whole table when it was last seen; problem or warning: why it could not be seen since."""

    facts: TableFacts | None = None
    problem: str = ""
    warning: str = ""
    age: float = 0.0  # in seconds

    @property
    def is_of_now(self) -> bool:
        """True if the whole table was seen just now."""
        return self.facts is not None and not self.warning and self.age <= NOT_OF_NOW_SECONDS


class TableLook:
    """Calls `look` now and then, in a thread, and keeps what it returned. clock: in seconds."""

    def __init__(self, look: Callable[[], TableFacts], clock: Callable[[], float] = monotonic) -> None:
        self._seen = Seen()
        self._look, self._clock = look, clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="table-look")
        self._under_way: Future[TableFacts] | None = None
        self._began = -PAGE_LOOK_SECONDS

    @property
    def seen(self) -> Seen:
        """The last look, if it is not too old."""
        age = self._clock() - self._began
        return replace(self._seen, age=age) if age <= OLD_SECONDS else Seen()

    @property
    def busy(self) -> bool:
        """True if a look is running."""
        return self._under_way is not None and not self._under_way.done()

    def close(self) -> None:
        """Looks no more; a look that is running may end."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def look(self) -> None:
        """Looks, unless a look is running or recent. An error of ours becomes a problem."""
        if self.busy or self._clock() - self._began < PAGE_LOOK_SECONDS:
            return
        self._seen, self._began = self.seen, self._clock()
        self._under_way = self._thread.submit(self._look)
        try:
            found = await asyncio.wrap_future(self._under_way)
            self._seen = Seen(found)
        except StreamerError as error:
            self._seen = Seen(self._seen.facts, problem=str(error))
        except Exception as error:  # a library's, whose text may hold values
            log.warning("the state of the table could not be read: %s", type(error).__name__)
            self._seen = Seen(self._seen.facts, warning="the state of the whole table could not be read just now")


# The facts as one JSON object, at /facts, of which the page is made.
#
# * The worker's own shards are shown as it knows them now, others as the last look saw them. One verdict is over both.
# * Times are ISO 8601 in UTC; what nobody knows yet is null, such as `ok` until the whole table was looked at.
# * No value of a row and no key. The page escapes all texts.
# * NCP is the mean over the published rows and the quasi-identifiers, 0 to 1 (`Space.mean_loss`). For a rebuild it is
#   that of the regions done.

POINTS_MAX = 360  # of the history: beyond that every second point goes, and new ones come half as often

HELD, TAKING_OVER, STANDING_STILL = "held", "taking over", "standing still"
REFUSED_SHARD, ELSEWHERE, NOBODY = "refused", "elsewhere", "nobody"

COUNTED = ("lag", "rows", "pending", "qi_groups", "messages", "applied", "ignored", "dead_letters")
"""Figures of a shard that are known without its worker."""


class History:
    """Points of the whole time of the process, oldest first, the coarser the longer it runs."""

    def __init__(self, points_max: int = POINTS_MAX) -> None:
        self.points: list[dict[str, Any]] = []
        self._points_max, self._every, self._seen = points_max, 1, 0

    def add(self, point: dict[str, Any]) -> None:
        """Takes the next of points at equal distances, or leaves it out."""
        if self._seen % self._every == 0:
            if len(self.points) == self._points_max:
                self.points, self._every = self.points[::2], 2 * self._every
            if self._seen % self._every == 0:
                self.points.append(point)
        self._seen += 1


def page_facts(
    table: Table, facts: WorkerFacts, metrics: Mapping[int, ShardMetrics], seen: Seen, history: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """The object at /facts. metrics: of all shards that the worker ever had, by number."""
    shards, drift = _shards(facts, seen), table.rebuilding.drift
    told = seen.facts is None or seen.facts.workers.told
    silent = silent_servers(facts)
    verdict = _verdict(table, facts, shards, seen)
    counts = sum((shard.held.counts if shard.held else _meta(shard).counts for shard in shards), NO_MESSAGES)
    letters = sum((one.done.reasons for one in metrics.values()), Counter[str]())
    return {
        "table": facts.table, "version": facts.version, "worker": facts.worker, "now": iso(facts.now),
        "k": table.k, "model": words(table, model_of(table)), "form": table.form,
        "drift": None if drift is None else float(drift),
        "servers": [
            {"name": one.name, "answered": iso(facts.now - one.silent_seconds), "silent": one in silent}
            for one in facts.servers
        ],
        "verdict": {
            "ok": False if verdict.problems else True if seen.is_of_now else None,
            "problems": verdict.problems, "warnings": verdict.warnings,
        },
        "shards": [_described(shard, facts, told, table.space) for shard in shards],
        "dead_letters": dict(sorted(letters.items())),
        "unlisted": list(unknown_category_warnings(table, counts.unlisted, counts.applied, "applied messages")),
        "history": list(history),
    }  # fmt: skip


def point(facts: WorkerFacts) -> dict[str, Any]:
    """A point of the history: sums over the shards that the worker serves; None if the value is unknown just then."""
    shards = [shard for shard in facts.shards if shard.taken_over]
    totals = {
        "lag": sum(shard.lag for shard in shards) if not silent_servers(facts) else None,
        "pending": sum(shard.pending for shard in shards),
        "rows": sum(shard.rows for shard in shards),
        "dead_letters": sum(shard.counts.dead_letters for shard in shards),
    }
    return {
        "at": iso(facts.now),
        "messages_per_s": round(sum(shard.messages_per_s for shard in shards), 1),
        "records_per_s": round(sum(shard.records_per_s for shard in shards), 1),
        "ncp": mean_over_rows([(shard.ncp, shard.rows - shard.pending) for shard in shards]),
        "ncp_fresh": mean_over_rows([(shard.ncp_fresh, shard.rows - shard.pending) for shard in shards]),
        **(totals if shards else dict.fromkeys(totals)),
    }


def _shards(facts: WorkerFacts, seen: Seen) -> list[ShardFacts]:
    """All known shards by number, each as the worker knows it and as the servers show it."""
    found = {shard.number: shard for shard in (seen.facts.shards if seen.facts is not None else ())}
    for held in facts.shards:
        found[held.shard] = replace(found.get(held.shard, ShardFacts(held.shard)), worker=facts.worker, held=held)
    return [found[number] for number in sorted(found)]


def _verdict(table: Table, facts: WorkerFacts, shards: Sequence[ShardFacts], seen: Seen) -> Verdict:
    """The verdict on worker and table; on the worker alone if the table could not be seen."""
    if seen.facts is None or seen.problem or seen.warning:
        return Verdict([*worker_problems(facts), *filter(None, [seen.problem])], [*filter(None, [seen.warning])])
    numbers = {shard.number for shard in shards}
    refused = {number: custody for number, custody in facts.refused.items() if number not in numbers}
    verdict = Verdict(worker_problems(replace(facts, refused=refused)))
    _, whole = judge(table, replace(seen.facts, shards=shards), table.limits.dead_letters_share_max)
    verdict.problems += [problem for problem in whole.problems if problem not in verdict.problems]
    verdict.warnings += whole.warnings
    return verdict


def _described(shard: ShardFacts, facts: WorkerFacts, told: bool, space: Space) -> dict[str, Any]:
    """One shard. told: whether Kafka says who holds which shard."""
    here, custody = shard.held is not None, facts.refused.get(shard.number, shard.redis.custody)
    worker = shard.worker if here or told else custody.owner
    held = _held(shard, worker)
    refusal = held.refused or (custody.refusal.reason if custody.refusal and not held.taken_over else "")
    wrong = held_problems(held, worker) if here else []
    is_known, counts = held.taken_over or shard.kafka != InKafka(), held.counts
    figures: tuple[int, ...] = (held.lag, held.rows, held.pending, held.qi_groups)
    figures += (counts.messages, counts.applied, counts.ignored, counts.dead_letters)
    counted = dict(zip(COUNTED, figures, strict=True)) if is_known else dict.fromkeys(COUNTED)
    rates = {"messages_per_s": round(held.messages_per_s, 1), "records_per_s": round(held.records_per_s, 1)}
    state = ELSEWHERE if worker else NOBODY
    if here:
        state = STANDING_STILL if wrong else HELD if held.taken_over else TAKING_OVER
    return {
        "shard": shard.number, "worker": worker or None, "here": here,
        "state": REFUSED_SHARD if refusal else state, "since": iso(held.since),
        **counted, "pending_oldest": iso(held.pending_since),
        **(rates if here else dict.fromkeys(rates)),
        "release": held.release or None, "last_commit": iso(held.committed_at or custody.committed_at),
        "ncp": _rounded(held.ncp), "ncp_fresh": _rounded(held.ncp_fresh),
        "reason": refusal or "; ".join(wrong) or None,
        "rebuild": _running(held.rebuild) if held.rebuild else None,
        "rebuilds": [_ended(one, space) for one in reversed(held.rebuilds) if not one.is_answer],
    }  # fmt: skip


def _held(shard: ShardFacts, worker: str) -> HeldFacts:
    """A shard as its worker knows it, if that is this one and serves it; else as the last look saw it."""
    if shard.held is not None and shard.held.taken_over:
        return shard.held
    meta, sizes, custody = _meta(shard), shard.redis.sizes, shard.redis.custody
    since = custody.taken_at if shard.held is None and worker and worker == custody.owner else None
    return replace(
        shard.held or HeldFacts(shard.number),
        since=since,
        lag=replace(shard, held=None).lag,
        rows=sizes.records,
        pending=sizes.pending,
        qi_groups=sizes.qi_groups,
        counts=meta.counts,
        release=meta.release,
        ncp=custody.measured.ncp,
        ncp_fresh=custody.measured.ncp_fresh,
        rebuild=meta.rebuild,
        rebuilds=meta.rebuilds,
    )


def _meta(shard: ShardFacts) -> Meta:
    return shard.redis.meta or Meta()


def _running(one: Progress) -> dict[str, Any]:
    began = {"algorithm": one.rebuild.algorithm, "why": one.why, "began": iso(one.began)}
    return {**began, "done": one.done, "of": one.total}


def _ended(one: Progress, space: Space) -> dict[str, Any]:
    before, after = losses(one, space)
    return {
        "algorithm": one.rebuild.algorithm, "why": one.why, "at": iso(one.at), "ended": one.state,
        "ncp_before": _rounded(before), "ncp_after": _rounded(after),
        "rows_published": one.rows_published_again,
    }  # fmt: skip


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def iso(seconds: float | None) -> str | None:
    """A time in seconds since 1970, for programs.

    >>> iso(0)
    '1970-01-01T00:00:00.000Z'
    """
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# The facts as metrics for Prometheus.
#
# * Names are a contract with dashboards and `examples/monitoring`, by Prometheus' conventions: they end with their unit
#   (seconds; ratio, 0 to 1; or what is counted), counters with `_total`. How something ended is the label `result`.
# * Labels are the table, the shard's number, columns of table.yaml and codes of our own: few, and no value of a row.
# * Counters count from the start of the process, over all its assignments of a shard.

SHARD = ["table", "shard"]

STORED_BY = {
    "engine": f"{ENGINE_VERSION}.{REPAIR_VERSION}",
    "redis_format": str(FORMAT_VERSION),
    "positions_format": str(POSITION_FORMAT),
    "control_format": str(requests.FORMAT),
}
"""Labels of the build: as `streamer --version` says them."""


def of_sealed(held: HeldFacts, name: str) -> float | None:
    return None if held.sealed is None else float(getattr(held.sealed, name))


GAUGES: dict[str, tuple[str, Callable[[HeldFacts, float], float | None]]] = {
    "lag_messages": ("Offsets of the input that are not applied yet.", lambda one, _: one.lag),
    "rows": ("Rows that the shard holds.", lambda one, _: one.rows),
    "pending_rows": ("Rows that are accepted and not publishable yet.", lambda one, _: one.pending),
    "pending_oldest_seconds": (
        "For how long the shard has had pending rows, as far as this process has seen it; 0 if it has none.",
        lambda one, now: 0.0 if one.pending_since is None else max(0.0, now - one.pending_since),
    ),
    "qi_groups": ("QI groups that are published.", lambda one, _: one.qi_groups),
    "last_release_number": ("Number of the last release.", lambda one, _: one.release),
    "information_loss_ratio": (
        "Detail given up, the mean over published rows and quasi-identifiers: 0 is exact, 1 nothing left.",
        lambda one, _: one.ncp,
    ),
    "fresh_information_loss_ratio": (
        "The same of a table anonymized afresh, by the last look for drift.",
        lambda one, _: one.ncp_fresh,
    ),
    "sealed_last_epoch_number": (
        "The last epoch of the sealed changelog that is over.",
        lambda one, _: of_sealed(one, "epoch"),
    ),
    "sealed_cohorts": ("Sealed cohorts that are published.", lambda one, _: of_sealed(one, "cohorts")),
    "sealed_waiting_rows": ("Rows that wait for a sealed cohort.", lambda one, _: of_sealed(one, "waiting")),
    "sealed_overdue_seconds": (
        "For how long an epoch of the sealed changelog should have been over.",
        lambda one, _: of_sealed(one, "overdue_seconds"),
    ),
    "stalled_seconds": ("For how long messages wait while none is applied.", lambda one, _: one.still_seconds),
    "shard_healthy": ("Whether nothing is wrong with the shard.", lambda one, _: float(not held_problems(one))),
    "rebuild_running": ("Whether a rebuild is under way.", lambda one, _: float(one.rebuild is not None)),
}
"""Gauges of held shards, by name: help text, and the value, None if it is unknown."""

COUNTERS: dict[str, tuple[str, Callable[[ShardMetrics], float]]] = {
    "published_records": ("Records written to the changelog.", lambda one: one.done.published),
    "commits": ("Commits that steps made.", lambda one: one.done.commits),
    "merges": ("QI groups merged.", lambda one: one.done.merges),
    "splits": ("QI groups split.", lambda one: one.done.splits),
    "old_reads": (
        "Rows that a snapshot had read before they were changed or deleted: they are ignored.",
        lambda one: one.done.counts.old_reads,
    ),
    "take_overs": ("How often the shard was taken over, again after errors included.", lambda one: one.take_overs),
    "fencings": ("How often another worker has shut this one out of the shard.", lambda one: one.fenced),
}

LABELLED: dict[str, tuple[str, str, Callable[[ShardMetrics], Mapping[str, float]]]] = {
    "messages": ("Messages by what became of them.", "result", lambda one: _results(one.done.counts)),
    "dead_letters": ("Dead letters by reason.", "reason", lambda one: one.done.reasons),
    "unlisted_categories": (
        "Applied messages with a category that table.yaml does not list and its `other` takes, by column.",
        "column",
        lambda one: one.done.counts.unlisted,
    ),
    "rebuilds": ("Rebuilds by how they ended.", "result", lambda one: one.rebuilds),
}
"""Counters with one more label, by name: help text, the label, and the count by its value."""


def _results(counts: Counts) -> Mapping[str, float]:
    return {"applied": counts.applied, "dead-letter": counts.dead_letters, "ignored": counts.ignored}


DURATIONS: dict[str, tuple[str, Callable[[ShardMetrics], tuple[list[int], float]]]] = {
    "commit_duration_seconds": (
        "Seconds that a step's commits to Redis took.",
        lambda one: (one.commits_by_seconds, one.done.commit_seconds),
    ),
    "publish_duration_seconds": (
        "Seconds that a step's transactions to Kafka took.",
        lambda one: (one.publications_by_seconds, one.done.publish_seconds),
    ),
}


class WorkerCollector(Collector):
    """Metrics of one worker. metrics: of all shards that it ever had."""

    def __init__(self, facts: Callable[[], WorkerFacts], metrics: Mapping[int, ShardMetrics]) -> None:
        self._facts, self._metrics = facts, metrics

    def collect(self) -> Iterator[Metric]:
        facts = self._facts()
        yield from _of_worker(facts)
        yield from _gauges(facts)
        yield from _counters(facts.table, self._metrics)
        yield from _histograms(facts.table, self._metrics)


def registry_of(facts: Callable[[], WorkerFacts], metrics: Mapping[int, ShardMetrics]) -> CollectorRegistry:
    """A registry of one worker's metrics, without those of the process or of libraries."""
    registry = CollectorRegistry()
    registry.register(WorkerCollector(facts, metrics))
    return registry


def _gauge(name: str, help_text: str, labels: Sequence[str], values: Iterable[tuple[list[str], float]]) -> Metric:
    metric = GaugeMetricFamily(f"streamer_{name}", help_text, labels=labels)
    for of, value in values:
        metric.add_metric(of, value)
    return metric


def _of_worker(facts: WorkerFacts) -> Iterator[Metric]:
    of, table, healthy, ready = [facts.table], ["table"], not worker_problems(facts), not not_ready(facts)
    build = {**STORED_BY, "version": facts.version}
    silent = (([facts.table, server.name.lower()], server.silent_seconds) for server in facts.servers)
    yield _gauge(
        "build_info", "Versions of streamer and of what it stores; always 1.", [*build], [([*build.values()], 1)]
    )
    yield _gauge("worker_info", "Which worker this is; always 1.", ["table", "worker"], [([*of, facts.worker], 1)])
    yield _gauge("healthy", "Whether /health says that the worker is well.", table, [(of, float(healthy))])
    yield _gauge("ready", "Whether all shards given to the worker are taken over.", table, [(of, float(ready))])
    yield _gauge("held_shards", "Shards that Kafka has given to the worker.", table, [(of, len(facts.shards))])
    yield _gauge("server_silent_seconds", "How long ago a server answered last.", ["table", "server"], silent)


def _gauges(facts: WorkerFacts) -> Iterator[Metric]:
    for name, (help_text, value_of) in GAUGES.items():
        values = (([facts.table, str(one.shard)], value_of(one, facts.now)) for one in facts.shards)
        yield _gauge(name, help_text, SHARD, ((of, value) for of, value in values if value is not None))


def _counters(table: str, metrics: Mapping[int, ShardMetrics]) -> Iterator[Metric]:
    for name, (help_text, value_of) in COUNTERS.items():
        metric = CounterMetricFamily(f"streamer_{name}", help_text, labels=SHARD)
        for number, one in sorted(metrics.items()):
            metric.add_metric([table, str(number)], value_of(one))
        yield metric
    for name, (help_text, label, counts_of) in LABELLED.items():
        metric = CounterMetricFamily(f"streamer_{name}", help_text, labels=[*SHARD, label])
        for number, one in sorted(metrics.items()):
            for value, count in sorted(counts_of(one).items()):
                metric.add_metric([table, str(number), value], count)
        yield metric


def _histograms(table: str, metrics: Mapping[int, ShardMetrics]) -> Iterator[Metric]:
    bounds = [*(f"{bound:g}" for bound in BOUNDS), "+Inf"]
    for name, (help_text, durations_of) in DURATIONS.items():
        metric = HistogramMetricFamily(f"streamer_{name}", help_text, labels=SHARD)
        for number, one in sorted(metrics.items()):
            counts, seconds = durations_of(one)
            metric.add_metric([table, str(number)], list(zip(bounds, accumulate(counts), strict=True)), seconds)
        yield metric
