"""What Prometheus reads is what the worker knows, and names nobody."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from agents.diary import Diary
from agents.web.exposition import exposed, registry_of
from streamer.incremental.events.counts import Counts
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.status.facts import WorkerFacts
from worlds.worker_facts import NOW, WELL, worker

STEP = StepReport(
    Counts(applied=5, ignored=1, dead_letters=2, unlisted={"job": 3}),
    published=9,
    commits=1,
    merges=2,
    splits=1,
    reasons=Counter({"key-exists": 2}),
    seconds={"commit": 0.004, "publish": 0.3},
)


def busy_diary() -> Diary:
    diary = Diary(take_overs=3, fenced=1)
    diary.step(STEP)
    diary.step(STEP)
    return diary


def read(facts: WorkerFacts, **diaries: Diary) -> dict[str, Metric]:
    """The metrics of a worker; diaries: of its shards, as `_4`."""
    by_shard = {int(name.removeprefix("_")): diary for name, diary in diaries.items()}
    text = exposed(registry_of(lambda: facts, by_shard)).decode()
    return {metric.name: metric for metric in text_string_to_metric_families(text)}


def value(metrics: dict[str, Metric], name: str, sample: str = "", **labels: str) -> float:
    found = [
        one.value
        for one in metrics[name].samples
        if one.name == (sample or name) and labels.items() <= one.labels.items()
    ]
    assert len(found) == 1, metrics[name].samples
    return found[0]


def test_a_shard_is_told_as_it_is() -> None:
    metrics = read(worker(replace(WELL, lag=12, pending=3, pending_since=NOW - 40)))
    wanted = {
        "streamer_lag_messages": 12, "streamer_rows": 90, "streamer_pending_rows": 3, "streamer_qi_groups": 20,
        "streamer_pending_oldest_seconds": 40, "streamer_ncp": 0.25, "streamer_ncp_fresh": 0.2, "streamer_release": 7,
        "streamer_shard_healthy": 1,
    }  # fmt: skip
    assert {name: value(metrics, name, table="patients", shard="0") for name in wanted} == wanted


def test_what_is_not_known_is_not_told() -> None:
    metrics = read(worker(replace(WELL, ncp=None, ncp_fresh=None)))
    assert metrics["streamer_ncp"].samples == metrics["streamer_ncp_fresh"].samples == []


def test_counts_are_those_of_the_process_and_stay_when_the_shard_has_gone() -> None:
    metrics = read(replace(worker(), shards=()), _4=busy_diary())
    of = {"table": "patients", "shard": "4"}
    messages = {
        became: value(metrics, "streamer_messages", "streamer_messages_total", became=became, **of)
        for became in ("applied", "ignored", "dead-letter")
    }
    assert messages == {"applied": 10, "ignored": 2, "dead-letter": 4}
    reason = value(metrics, "streamer_dead_letters", "streamer_dead_letters_total", reason="key-exists", **of)
    totals = ("records_published", "commits", "merges", "splits", "take_overs", "fenced")
    assert reason == 4
    name = "streamer_unlisted_categories"
    assert value(metrics, name, f"{name}_total", column="job", **of) == 6
    assert [value(metrics, f"streamer_{name}", f"streamer_{name}_total", **of) for name in totals] == [
        18, 2, 4, 2, 3, 1,
    ]  # fmt: skip
    assert metrics["streamer_rows"].samples == []


@pytest.mark.parametrize(("name", "below", "above"), [("commit", "0.0025", "0.005"), ("publish", "0.25", "0.5")])
def test_durations_of_steps_are_histograms(name: str, below: str, above: str) -> None:
    metrics, of = read(worker(WELL), _0=busy_diary()), f"streamer_{name}_seconds"
    buckets = {bound: value(metrics, of, f"{of}_bucket", le=bound) for bound in (below, above, "+Inf")}
    assert buckets == {below: 0, above: 2, "+Inf": 2}
    assert value(metrics, of, f"{of}_count") == 2
    assert value(metrics, of, f"{of}_sum") == pytest.approx(2 * STEP.seconds[name])


def test_the_worker_says_whether_it_is_well_and_which_server_is_silent() -> None:
    well, ill = read(worker()), read(worker(replace(WELL, lag=1, still_seconds=60.0)))
    assert [value(one, "streamer_healthy") for one in (well, ill)] == [1, 0]
    assert [value(one, "streamer_shard_healthy", shard="0") for one in (well, ill)] == [1, 0]
    assert value(well, "streamer_server_silent_seconds", server="redis") == 2
    assert value(well, "streamer_worker_info", worker="here:1", version="1.2.3") == 1


def test_every_metric_says_what_it_is_and_begins_with_our_name() -> None:
    for name, metric in read(worker(WELL), _0=busy_diary()).items():
        assert name.startswith("streamer_")
        assert metric.documentation.endswith(".")
