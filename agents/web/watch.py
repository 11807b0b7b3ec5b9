"""What a worker sees: of itself, once a second; of its servers, every two; of the whole table, while somebody looks.

The rules of this file
----------------------
* Kafka is asked where the input ends, by the client that reads it: that is the lag, too. Redis is asked for its clock
  and whether it is full, and until all shards are taken over, whether one was refused; over a connection of our own.
* Whoever may wait for a server does so in a thread of its own, never in the event loop or in a shard's thread.
* Nothing here may end a worker, or keep one from ending: what fails is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from itertools import accumulate
from time import monotonic, time

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from agents.ingest import Ingest
from agents.shard_agent import HeldShard
from agents.shard_metrics import BOUNDS, Durations, ShardMetrics
from streamer.errors import StreamerError
from streamer.incremental.shard.snapshot import holds_back
from streamer.incremental.store.redis_lookups import Ownership, RedisLookups, RedisNow, server_now
from streamer.incremental.store.redis_server import RedisClient, connect
from streamer.incremental.topics import CHANGES, topic_name
from streamer.status.collect import look
from streamer.status.facts import HeldFacts, ServerFacts, TableFacts, WorkerFacts
from streamer.status.verdict import held_problems, not_ready, worker_problems
from streamer.table.schema import Table
from streamer.worker.settings import WorkerSettings

log = logging.getLogger(__name__)

RATE_SECONDS = 5.0
"""Over how long messages and records a second are counted."""

PROBE_SECONDS, FIRST_PROBE_SECONDS = 2.0, 0.5
"""Between two questions; and before Kafka has given the worker its shards."""

KAFKA_ANSWER_SECONDS_MAX, REDIS_ANSWER_SECONDS_MAX = 4.0, 2.0

PAGE_LOOK_SECONDS = 5.0
"""How old a look at the whole table may be before there is another one."""

OLD_SECONDS = 60.0
"""How old it may be before it says nothing any more."""


class FactCollector:
    """Looks at a worker's shards; remembers when each moved last, and how fast. ends: of the input, by shard."""

    def __init__(self, settings: WorkerSettings, ingest: Ingest) -> None:
        self.ends: Mapping[int, int] = {}
        self._settings = settings
        self._ingest = ingest
        self._moved: dict[int, tuple[int, float]] = {}
        self._done: dict[int, deque[tuple[float, int, int]]] = {}
        self._unjoined_at: float | None = None
        self._version = version("streamer")

    def facts(self, servers: tuple[ServerFacts, ...], refused: Mapping[int, Ownership]) -> WorkerFacts:
        """What is known now; servers: as they answered last; refused: of shards that are not taken over."""
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

    def _rates(self, number: int, diary: ShardMetrics, now: float) -> tuple[float, float]:
        """Messages and records a second, of late."""
        seen = self._done.setdefault(number, deque())
        seen.append((now, diary.done.counts.messages, diary.done.published))
        while len(seen) > 2 and seen[1][0] <= now - RATE_SECONDS:
            seen.popleft()
        then, messages, records = seen[0]
        seconds = max(now - then, 1.0)
        return (seen[-1][1] - messages) / seconds, (seen[-1][2] - records) / seconds


class Probes:
    """The servers of one worker, asked again and again. watch: gets to know where the input ends."""

    def __init__(self, settings: WorkerSettings, ingest: Ingest, watch: FactCollector) -> None:
        self._settings = settings
        self._ingest = ingest
        self._watch = watch
        self._topic = topic_name(settings.table.name, CHANGES)
        self._kafka_at = self._redis_at = monotonic()
        self._redis_full = False
        self.refused: Mapping[int, Ownership] = {}
        """Of the shards that this worker has, or may get, and has not taken over: those that a worker refused."""
        self._client: RedisClient | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="redis-probe")
        self._asked: Future[tuple[RedisNow, Mapping[int, Ownership]]] | None = None

    @property
    def busy(self) -> bool:
        """Whether an answer of Redis is still to come."""
        return self._asked is not None and not self._asked.done()

    def facts(self) -> tuple[ServerFacts, ...]:
        """How long ago each answered."""
        now = monotonic()
        return (
            ServerFacts("Kafka", now - self._kafka_at),
            ServerFacts("Redis", now - self._redis_at, self._redis_full),
        )

    async def run(self) -> None:
        """Asks both, again and again, until it is cancelled."""
        await asyncio.gather(self._repeat(self._ask_kafka), self._repeat(self._ask_redis))

    def close(self) -> None:
        """Asks no more; a question that is under way is let end."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _repeat(self, ask: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await ask()
            except (KafkaError, StreamerError, TimeoutError):
                pass  # the time of the last answer says it
            except Exception as error:
                log.warning("a server could not be asked: %s", type(error).__name__)
            await asyncio.sleep(PROBE_SECONDS if self._ingest.joined else FIRST_PROBE_SECONDS)

    async def _ask_kafka(self) -> None:
        consumer, numbers = self._ingest.reader.consumer, self._shards()
        if not numbers:
            return
        places = [TopicPartition(self._topic, number) for number in numbers]
        ends = await asyncio.wait_for(consumer.end_offsets(places), KAFKA_ANSWER_SECONDS_MAX)
        seen = {place: consumer.highwater(place) or 0 for place in consumer.assignment()}  # with open transactions
        self._watch.ends = {place.partition: max(end, seen.get(place, 0)) for place, end in ends.items()}
        self._kafka_at = monotonic()

    async def _ask_redis(self) -> None:
        self._asked = self._thread.submit(self._ask_in_thread, self._not_taken_over())
        now, self.refused = await asyncio.wrap_future(self._asked)
        self._redis_at, self._redis_full = monotonic(), now.full

    def _shards(self) -> list[int]:
        """All shards of the table, as far as the client knows them."""
        consumer = self._ingest.reader.consumer
        return sorted((consumer.partitions_for_topic(self._topic) if consumer is not None else None) or ())

    def _not_taken_over(self) -> list[int]:
        if not self._ingest.joined:
            return self._shards()
        return [shard.number for shard in self._ingest.held if not shard.told]

    def _ask_in_thread(self, numbers: Sequence[int]) -> tuple[RedisNow, Mapping[int, Ownership]]:
        if self._client is None:
            self._client = connect(self._settings.redis, REDIS_ANSWER_SECONDS_MAX)
        now = server_now(self._client)
        lookups = {number: RedisLookups(self._client, self._settings.table.name, number) for number in numbers}
        custodies = {number: one.custody() for number, one in lookups.items()}
        return now, {number: one for number, one in custodies.items() if one.refusal is not None or one.beginning}


@dataclass(frozen=True, slots=True)
class Seen:
    """The whole table as it was seen last, if it was; problem or warning: why it could not be looked at since."""

    facts: TableFacts | None = None
    problem: str = ""
    warning: str = ""


class TableLook:
    """The last look at one table; clock: of the process."""

    def __init__(self, table: Table, kafka: str, redis: str, clock: Callable[[], float] = monotonic) -> None:
        self._seen = Seen()
        self._table, self._kafka, self._redis, self._clock = table, kafka, redis, clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="table-look")
        self._under_way: Future[TableFacts] | None = None
        self._began = -PAGE_LOOK_SECONDS

    @property
    def seen(self) -> Seen:
        """What it found; nothing if that is long ago, because nobody asked since."""
        return self._seen if self._clock() - self._began <= OLD_SECONDS else Seen()

    @property
    def busy(self) -> bool:
        """Whether a look is under way."""
        return self._under_way is not None and not self._under_way.done()

    def close(self) -> None:
        """Looks no more; a look that is under way is let end."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def look(self) -> None:
        """Looks, unless that is under way or was done just now; what fails is a problem that is seen."""
        if self.busy or self._clock() - self._began < PAGE_LOOK_SECONDS:
            return
        self._seen, self._began = self.seen, self._clock()
        self._under_way = self._thread.submit(look, self._table, self._kafka, self._redis)
        try:
            found = await asyncio.wrap_future(self._under_way)
            self._seen = Seen(found)
        except StreamerError as error:
            self._seen = Seen(self._seen.facts, problem=str(error))
        except Exception as error:  # a client's own, whose text may be anything
            log.warning("the table could not be looked at: %s", type(error).__name__)
            self._seen = Seen(self._seen.facts, warning="the whole table could not be looked at just now")


# What a worker tells Prometheus: the facts as metrics, in the text format, in a registry of our own.
#
# * Names are a contract: `examples/monitoring` rests on them, and people's dashboards do. Units stand in the names.
# * Labels are the table, the shard's number, columns of table.yaml and codes of our own, all of them few. No value of a
#   person, no key.
# * Counters count from the start of the process on, over all the times that it held a shard.

SHARD = ["table", "shard"]

GAUGES: dict[str, tuple[str, Callable[[HeldFacts, float], float | None]]] = {
    "lag_messages": ("Offsets of the input that are not applied yet.", lambda one, _: one.lag),
    "rows": ("Rows that the shard holds.", lambda one, _: one.rows),
    "pending_rows": ("Rows that are accepted and not publishable yet.", lambda one, _: one.pending),
    "pending_oldest_seconds": (
        "For how long the shard has had pending rows, as far as this process has seen it; 0 where it has none.",
        lambda one, now: 0.0 if one.pending_since is None else max(0.0, now - one.pending_since),
    ),
    "qi_groups": ("QI groups that are published.", lambda one, _: one.qi_groups),
    "release": ("Number of the last release.", lambda one, _: one.release),
    "ncp": ("Mean NCP of the published rows: what generalizing loses.", lambda one, _: one.ncp),
    "ncp_fresh": ("The same of a table anonymized afresh, by the last look for drift.", lambda one, _: one.ncp_fresh),
    "still_seconds": ("For how long messages wait while none is applied.", lambda one, _: one.still_seconds),
    "shard_healthy": ("Whether nothing is wrong with the shard.", lambda one, _: float(not held_problems(one))),
    "rebuild_running": ("Whether a rebuild is under way.", lambda one, _: float(one.rebuild is not None)),
}
"""Of the shards that the worker holds: name, what it is, and how to read it; None: not known, and left out."""

COUNTERS: dict[str, tuple[str, Callable[[ShardMetrics], float]]] = {
    "records_published": ("Records written to the changelog.", lambda diary: diary.done.published),
    "commits": ("Commits that steps made.", lambda diary: diary.done.commits),
    "merges": ("QI groups merged.", lambda diary: diary.done.merges),
    "splits": ("QI groups split.", lambda diary: diary.done.splits),
    "take_overs": ("How often the shard was taken over, again after errors included.", lambda diary: diary.take_overs),
    "fenced": ("How often another worker has shut this one out of the shard.", lambda diary: diary.fenced),
}

DURATIONS: dict[str, tuple[str, Callable[[ShardMetrics], Durations]]] = {
    "commit_seconds": ("Seconds that a step's commits to Redis took.", lambda diary: diary.commit_seconds),
    "publish_seconds": ("Seconds that a step's transactions to Kafka took.", lambda diary: diary.publish_seconds),
}


class WorkerCollector(Collector):
    """Metrics of one worker; facts: what it knows when it is asked; diaries: of all shards that it ever had."""

    def __init__(self, facts: Callable[[], WorkerFacts], diaries: Mapping[int, ShardMetrics]) -> None:
        self._facts, self._diaries = facts, diaries

    def collect(self) -> Iterator[Metric]:
        facts = self._facts()
        yield from _of_worker(facts)
        yield from _gauges(facts)
        yield from _counters(facts.table, self._diaries)
        yield from _histograms(facts.table, self._diaries)


def registry_of(facts: Callable[[], WorkerFacts], diaries: Mapping[int, ShardMetrics]) -> CollectorRegistry:
    """A registry that holds one worker's metrics, and nothing of the process or of a library."""
    registry = CollectorRegistry()
    registry.register(WorkerCollector(facts, diaries))
    return registry


def exposed(registry: CollectorRegistry) -> bytes:
    """All of it as text."""
    return generate_latest(registry)


def _of_worker(facts: WorkerFacts) -> Iterator[Metric]:
    of = [facts.table]
    info = GaugeMetricFamily(
        "streamer_worker_info", "Which worker this is; always 1.", labels=["table", "version", "worker"]
    )
    info.add_metric([facts.table, facts.version, facts.worker], 1)
    yield info
    yield _gauge(
        "streamer_healthy", "Whether /health says that the worker is well.", of, float(not worker_problems(facts))
    )
    yield _gauge(
        "streamer_ready", "Whether all shards given to the worker are taken over.", of, float(not not_ready(facts))
    )
    yield _gauge("streamer_shards_held", "Shards that Kafka has given to the worker.", of, len(facts.shards))
    silent = GaugeMetricFamily(
        "streamer_server_silent_seconds", "How long ago a server answered last.", labels=["table", "server"]
    )
    for server in facts.servers:
        silent.add_metric([facts.table, server.name.lower()], server.silent_seconds)
    yield silent


def _gauge(name: str, told: str, of: list[str], value: float) -> Metric:
    metric = GaugeMetricFamily(name, told, labels=["table"])
    metric.add_metric(of, value)
    return metric


def _gauges(facts: WorkerFacts) -> Iterator[Metric]:
    for name, (told, value_of) in GAUGES.items():
        metric = GaugeMetricFamily(f"streamer_{name}", told, labels=SHARD)
        for shard in facts.shards:
            value = value_of(shard, facts.now)
            if value is not None:
                metric.add_metric([facts.table, str(shard.shard)], value)
        yield metric


def _counters(table: str, diaries: Mapping[int, ShardMetrics]) -> Iterator[Metric]:
    for name, (told, value_of) in COUNTERS.items():
        metric = CounterMetricFamily(f"streamer_{name}", told, labels=SHARD)
        for number, diary in sorted(diaries.items()):
            metric.add_metric([table, str(number)], value_of(diary))
        yield metric
    messages = CounterMetricFamily("streamer_messages", "Messages by what became of them.", labels=[*SHARD, "became"])
    letters = CounterMetricFamily("streamer_dead_letters", "Dead letters by reason.", labels=[*SHARD, "reason"])
    unlisted = CounterMetricFamily(
        "streamer_unlisted_categories",
        "Applied messages with a category that table.yaml does not list and its `other` takes, by column.",
        labels=[*SHARD, "column"],
    )
    rebuilds = CounterMetricFamily("streamer_rebuilds", "Rebuilds by how they ended.", labels=[*SHARD, "ended"])
    for number, diary in sorted(diaries.items()):
        of, counts = [table, str(number)], diary.done.counts
        messages.add_metric([*of, "applied"], counts.applied)
        messages.add_metric([*of, "ignored"], counts.ignored)
        messages.add_metric([*of, "dead-letter"], counts.dead_letters)
        for reason, count in sorted(diary.done.reasons.items()):
            letters.add_metric([*of, reason], count)
        for column, count in sorted(counts.unlisted.items()):
            unlisted.add_metric([*of, column], count)
        for state, count in sorted(diary.rebuilds.items()):
            rebuilds.add_metric([*of, state], count)
    yield from (messages, letters, unlisted, rebuilds)


def _histograms(table: str, diaries: Mapping[int, ShardMetrics]) -> Iterator[Metric]:
    for name, (told, durations_of) in DURATIONS.items():
        metric = HistogramMetricFamily(f"streamer_{name}", told, labels=SHARD)
        for number, diary in sorted(diaries.items()):
            durations = durations_of(diary)
            bounds = [*(f"{bound:g}" for bound in BOUNDS), "+Inf"]
            classes = list(zip(bounds, accumulate(durations.counts), strict=True))
            metric.add_metric([table, str(number)], classes, durations.seconds)
        yield metric
