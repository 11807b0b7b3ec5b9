"""What a worker tells Prometheus: the facts as metrics, in the text format, in a registry of our own.

The rules of this file
----------------------
* Names are a contract: `examples/monitoring` rests on them, and people's dashboards do. Units stand in the names.
* Labels are the table, the shard's number, columns of table.yaml and codes of our own, all of them few. No value of a
  person, no key.
* Counters count from the start of the process on, over all the times that it held a shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from agents.diary import BOUNDS, Diary, Durations
from streamer.incremental.status.facts import HeldFacts, WorkerFacts
from streamer.incremental.status.verdict import held_problems, not_ready, worker_problems

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

COUNTERS: dict[str, tuple[str, Callable[[Diary], float]]] = {
    "records_published": ("Records written to the changelog.", lambda diary: diary.done.published),
    "commits": ("Commits that steps made.", lambda diary: diary.done.commits),
    "merges": ("QI groups merged.", lambda diary: diary.done.merges),
    "splits": ("QI groups split.", lambda diary: diary.done.splits),
    "take_overs": ("How often the shard was taken over, again after errors included.", lambda diary: diary.take_overs),
    "fenced": ("How often another worker has shut this one out of the shard.", lambda diary: diary.fenced),
}

DURATIONS: dict[str, tuple[str, Callable[[Diary], Durations]]] = {
    "commit_seconds": ("Seconds that a step's commits to Redis took.", lambda diary: diary.commit_seconds),
    "publish_seconds": ("Seconds that a step's transactions to Kafka took.", lambda diary: diary.publish_seconds),
}


class WorkerCollector(Collector):
    """Metrics of one worker; facts: what it knows when it is asked; diaries: of all shards that it ever had."""

    def __init__(self, facts: Callable[[], WorkerFacts], diaries: Mapping[int, Diary]) -> None:
        self._facts, self._diaries = facts, diaries

    def collect(self) -> Iterator[Metric]:
        facts = self._facts()
        yield from _of_worker(facts)
        yield from _gauges(facts)
        yield from _counters(facts.table, self._diaries)
        yield from _histograms(facts.table, self._diaries)


def registry_of(facts: Callable[[], WorkerFacts], diaries: Mapping[int, Diary]) -> CollectorRegistry:
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


def _counters(table: str, diaries: Mapping[int, Diary]) -> Iterator[Metric]:
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


def _histograms(table: str, diaries: Mapping[int, Diary]) -> Iterator[Metric]:
    for name, (told, durations_of) in DURATIONS.items():
        metric = HistogramMetricFamily(f"streamer_{name}", told, labels=SHARD)
        for number, diary in sorted(diaries.items()):
            durations = durations_of(diary)
            bounds = [*(f"{bound:g}" for bound in BOUNDS), "+Inf"]
            classes = list(zip(bounds, accumulate(durations.counts), strict=True))
            metric.add_metric([table, str(number)], classes, durations.seconds)
        yield metric
