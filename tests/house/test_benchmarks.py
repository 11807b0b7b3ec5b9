"""The benchmarks run, and what they print is one JSON object with the figures that their texts promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from servers.broker.servers import Servers
from streamer.recoding.algorithms.catalog import ALGORITHMS, DEFAULT
from worlds.checkout import ROOT

SECONDS_MAX = 240


def run(name: str, *options: str, **environment: str) -> list[str]:
    """What a benchmark prints in its quick form, line by line."""
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / f"{name}.py", "--quick", *options],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True, text=True, timeout=SECONDS_MAX,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def figures(name: str, **environment: str) -> dict[str, Any]:
    """The JSON object; with --json it is all that is printed."""
    (line,) = run(name, "--json", **environment)
    return json.loads(line)


@pytest.mark.slow
def test_the_last_line_after_the_tables_is_the_json_object() -> None:
    *table, last = run("locate")
    assert len(table) > 3
    assert json.loads(last)


@pytest.mark.slow
def test_locate_tells_the_cost_at_every_size_and_its_growth() -> None:
    found = figures("locate")
    assert len(found["sizes"]) == 2
    assert all(size["locate"] > 0 and size["flat_scan"] > 0 and size["nearest"] > 0 for size in found["sizes"])
    assert found["growth"]["locate"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("adult")
def test_drift_tells_information_loss_beside_a_fresh_mondrian() -> None:
    (result,) = figures("drift")["results"]
    assert 0 < result["ncp"] < 1
    assert result["ncp_ratio"] == pytest.approx(result["ncp"] / result["ncp_fresh_mondrian"], abs=0.01)
    assert result["similarity_writes_per_event"] <= 3


@pytest.mark.slow
@pytest.mark.timeout(SECONDS_MAX + 60)
@pytest.mark.usefixtures("adult")
def test_batch_tells_time_and_loss_of_every_algorithm_and_judges_the_bars() -> None:
    found = figures("batch")
    assert {time["algorithm"] for time in found["times"]} == set(ALGORITHMS)
    assert all("skipped" in time or time["units"] > 0 for time in found["times"])
    assert {loss["algorithm"] for loss in found["losses"]} == set(ALGORITHMS)
    assert {(loss["table"], loss["model"]) for loss in found["losses"]} >= {("adult", "k = 5"), ("adult", "k = 10")}
    assert all(0 < loss["ncp"] < 1 for loss in [*found["losses"], *found["options"]])
    settings = {(loss["table"], loss["model"]) for loss in found["losses"]}
    assert {(verdict["table"], verdict["model"]) for verdict in found["verdicts"]} == settings
    assert {mean["algorithm"] for mean in found["means"]} == set(ALGORITHMS) - {DEFAULT}
    assert {search["details"]["nodes"] for search in found["searches"]} == {331_776}
    assert found["bars"]
    assert all((bar["met"] is None) == (bar["value"] is None) for bar in found["bars"])


def test_load_reads_back_every_row_it_wrote(servers: Servers) -> None:
    found = figures("load", **servers.environment())
    assert found["rows_loaded"] == found["rows"] == 20_000
    assert found["outbox_entries"] == 20_010  # of the large step, and the ten of the commit after it


@pytest.mark.slow
@pytest.mark.timeout(SECONDS_MAX + 60)
@pytest.mark.usefixtures("adult")
def test_end_to_end_runs_both_workers_and_accounts_for_every_phase(servers: Servers) -> None:
    found = figures("end_to_end", **servers.environment())
    assert len(found["streamer_events_per_s"]) == len(found["passthrough_events_per_s"]) == 1
    assert found["ratio"] > 0
    assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["p99"]
    phases = dict(found["us_per_event"])
    whole = phases.pop("all")
    assert phases.pop("records") > 1
    assert list(phases) == ["decode", "apply", "drain", "commit", "publish"]
    assert 0.8 * whole < sum(phases.values()) <= whole
