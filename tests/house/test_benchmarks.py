"""The benchmarks run, and what they print is one JSON object with the figures that their texts promise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from math import prod
from typing import Any

import numpy as np
import pytest

from benchmarks import kinds, losses
from servers.broker.servers import Servers
from streamer.recoding.algorithms.catalog import ALGORITHMS, DEFAULT_ALGORITHM
from streamer.table.schema import REPAIR
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


@pytest.mark.night
def test_the_last_line_after_the_tables_is_the_json_object() -> None:
    *table, last = run("formats")
    assert len(table) > 3
    assert json.loads(last)


@pytest.mark.night
def test_locate_tells_the_cost_at_every_size_and_its_growth() -> None:
    found = figures("locate")
    assert len(found["sizes"]) == 2
    assert all(size["inside"] > 0 and size["flat_scan"] > 0 and size["nearest"] > 0 for size in found["sizes"])
    assert found["growth"]["inside"] > 0
    assert found["last_step"]["outside"] > 0
    assert found["equal_boxes"]["inside"] > 0


@pytest.mark.night
@pytest.mark.usefixtures("adult")
def test_beside_arx_tells_loss_and_time_of_both() -> None:
    if not (classpath := os.environ.get("ARX")):
        pytest.skip("ARX is not here: let the variable ARX be its class path")
    (line,) = run("beside_arx", "--json", "--arx", classpath)
    (alone,) = json.loads(line)["results"]
    assert 0 < alone["ordered"] < alone["arx"] < 1
    assert 0 <= alone["arx_suppressed"] < 1
    assert alone["s"] < alone["arx_s"]


@pytest.mark.night
@pytest.mark.usefixtures("adult")
def test_sealed_tells_what_each_setting_costs_beside_live() -> None:
    found = figures("sealed")
    at_once, waiting = found["results"]
    assert at_once["over_live"] == pytest.approx(at_once["loss"] / at_once["loss_of_live"], abs=0.01)
    assert at_once["loss_of_newcomers"] > at_once["loss"] > waiting["loss"] > 0
    assert 0 < at_once["withheld"] < 1
    assert waiting["waiting"] > at_once["waiting"]


@pytest.mark.night
@pytest.mark.timeout(SECONDS_MAX + 60)
@pytest.mark.usefixtures("adult")
def test_scale_tells_every_part_and_what_it_made_smaller(servers: Servers) -> None:
    found = figures("scale", **servers.environment())
    parts = found["parts"]
    assert set(parts) == {
        "engine",
        "commit",
        "threads",
        "statements",
        "sealed",
        "takeover",
        "initial",
        "crowded",
        "models",
        "steps",
    }
    assert all(figure > 0 for part in parts.values() for figure in part.values())
    takeover = parts["takeover"]
    assert takeover["reading_s"] + takeover["building_s"] == pytest.approx(takeover["whole_s"], rel=0.01)
    assert len(found["skipped"]) > len(parts) - 1  # a quick run is made smaller everywhere, and says so


@pytest.mark.night
@pytest.mark.timeout(SECONDS_MAX + 60)
@pytest.mark.usefixtures("adult")
def test_page_tells_what_being_looked_at_costs(servers: Servers) -> None:
    (size,) = figures("page", **servers.environment())["sizes"]
    assert size["off"]["rate_over_off"] == 1
    assert all(size[way]["events_per_s"] > 0 and size[way]["cpu_over_off"] > 0 for way in ("off", "alone", "watched"))
    assert size["watched"]["metrics_ms_max"] > 0


@pytest.mark.night
def test_drift_tells_loss_over_a_fresh_run_and_records_of_every_table_and_stream() -> None:
    found = figures("drift")["results"]
    pairs = list(zip(found[::2], found[1::2], strict=True))
    assert len({(one["table"], one["stream"]) for one in found}) == len(pairs) == 40
    for without, repaired in pairs:
        assert (without["repair"], repaired["repair"]) == ("off", str(REPAIR))
        assert len(without["over_fresh"]) == len(repaired["over_fresh"]) == 2
        assert repaired["records_per_event"] > 0
    assert sum(repaired["over_fresh"][-1] <= without["over_fresh"][-1] for without, repaired in pairs) > 36


@pytest.mark.night
@pytest.mark.usefixtures("adult")
@pytest.mark.timeout(SECONDS_MAX + 60)
def test_change_costs_tells_records_and_bytes_of_every_table_with_local_repair_and_without() -> None:
    found = figures("change_costs")["results"]
    assert [one["table"] for one in found[::4]] == ["three numbers", "adult", "sparse"]
    assert {(one["rows"], one["repair"]) for one in found} == {
        (n, way) for n in (200, 400) for way in ("off", str(REPAIR))
    }
    assert all(one["alone"]["bytes"] > 100 * one["alone"]["records"] > 0 for one in found)
    assert all(("foreseen" in one) == (one["rows"] == 400) for one in found)


@pytest.mark.night
@pytest.mark.usefixtures("adult")
def test_regions_tells_what_a_rebuild_gains_and_publishes_again() -> None:
    one, several = figures("regions")["results"]
    assert one["regions"] == 1 < several["regions"]
    assert one["ncp_now"] <= several["ncp_now"] < several["ncp_before"] == one["ncp_before"]
    assert 0 < several["rows_published_again"] <= several["records"]


@pytest.mark.night
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
    assert {mean["algorithm"] for mean in found["means"]} == set(ALGORITHMS) - {DEFAULT_ALGORITHM}
    assert {search["algorithm"] for search in found["searches"]} == {"ola", "degree-first"}
    assert all(search["details"]["nodes_tested"] > 0 for search in found["searches"])
    assert found["bars"]
    assert all((bar["met"] is None) == (bar["value"] is None) for bar in found["bars"])


def loss(table: str, algorithm: str, ncp: float) -> losses.Result:
    return {"table": table, "model": "k = 5", "algorithm": algorithm, "ncp": ncp}


def test_the_default_is_near_the_best_up_to_two_percent() -> None:
    found = [
        loss("one", DEFAULT_ALGORITHM, 0.102),
        loss("one", "emp", 0.1),
        loss("two", DEFAULT_ALGORITHM, 0.103),
        loss("two", "emp", 0.1),
    ]
    assert [(v["table"], v["best"], v["within_2_percent"]) for v in losses.judged(found)] == [
        ("one", "emp", True),
        ("two", "emp", False),
    ]


def test_what_was_left_out_is_in_no_verdict() -> None:
    left_out: losses.Result = {"table": "one", "model": "k = 5", "algorithm": "emp", "skipped": "too large"}
    assert losses.judged([loss("one", DEFAULT_ALGORITHM, 0.1), left_out]) == []


def test_an_algorithm_is_held_against_the_default_in_the_mean_of_the_ratios() -> None:
    found = [
        loss("one", DEFAULT_ALGORITHM, 0.1),
        loss("one", "emp", 0.3),
        loss("two", DEFAULT_ALGORITHM, 0.4),
        loss("two", "emp", 0.2),
    ]
    (mean,) = losses.in_the_mean(found)
    assert (mean["algorithm"], mean["settings"], mean["default_is_better"]) == ("emp", 2, True)
    assert mean["mean_ratio"] == pytest.approx((3 + 0.5) / 2)


@pytest.mark.parametrize("name", [name for name in losses.WORKLOADS if not name.startswith("adult")])
def test_every_kind_of_table_can_hold_its_models_and_is_the_same_each_time(name: str) -> None:
    kind = losses.WORKLOADS[name]
    people = kind.table()
    assert 1_000 <= len(people) <= 10_000
    assert (people.cells >= 0).all()
    assert (people.cells < people.space.n_cells).all()
    for model in kind.models.values():
        assert model.holds(people.subjects(model.subjects))
    for made in (
        kinds.stroke,
        kinds.cmc,
        kinds.rare,
        kinds.flat_codes,
        kinds.correlated,
        kinds.individuals,
        kinds.mixture,
    ):
        made.cache_clear()
    assert (kind.table().codes == people.codes).all()


def test_the_kinds_are_what_they_are_named_for() -> None:
    stroke, rare, people = kinds.stroke(), kinds.rare(), kinds.individuals()
    assert (len(stroke), stroke.space.d, len(kinds.cmc()), kinds.cmc().space.d) == (5_110, 10, 1_473, 9)
    assert 0.04 < stroke.values.sum() / len(stroke) < 0.06
    assert np.bincount(rare.values[:, 0]).min() < 0.02 * len(rare)
    assert [len(tree.labels) for _, tree in kinds.flat_codes(300, 0.0).space.trees] == [301, 3]
    who = people.individuals
    assert who is not None
    assert len(people) > 2 * len(np.unique(who))
    assert len(np.unique(np.column_stack([who, people.codes]), axis=0)) == len(np.unique(who))


def test_the_large_lattice_is_as_large_as_it_says() -> None:
    levels = [attribute.levels.n_levels for attribute in kinds.cmc(drafted=True).table.attributes]
    assert prod(levels) == kinds.NODES_OF_DRAFTED_CMC


def test_load_reads_back_every_row_it_wrote(servers: Servers) -> None:
    found = figures("load", **servers.environment())
    assert found["rows_loaded"] == found["rows"] == 20_000
    assert found["outbox_entries"] == 20_010  # of the large step, and the ten of the commit after it


@pytest.mark.night
@pytest.mark.timeout(SECONDS_MAX + 60)
@pytest.mark.usefixtures("adult")
def test_first_load_tells_both_ways_beside_what_they_are_held_to(servers: Servers) -> None:
    found = figures("first_load", **servers.environment())
    assert found["rows"] == 5_000
    assert found["replay_to_algorithm"] > 1
    assert found["load_to_passthrough"] > 0
    assert 0 < found["load_gb"] < found["replay_gb"] + 1


@pytest.mark.night
@pytest.mark.usefixtures("adult")
def test_retries_tells_what_reading_once_more_costs_at_every_distance() -> None:
    found = figures("retries")
    assert [(one["distance"], one["at_once"]) for one in found["readings"]] == [
        (1_000, 1),
        (1_000, 50),
        (3_000, 1),
        (3_000, 50),
    ]
    assert all(one["ratio"] > 0 for one in found["readings"])
    assert found["growth"].keys() == {"1", "50"}
    assert all(ratio > 0 for ratio in found["growth"].values())
    assert 0 < found["applied_late"] <= 50
    assert found["applying_ratio"] > 0


@pytest.mark.night
@pytest.mark.timeout(SECONDS_MAX + 60)
@pytest.mark.usefixtures("adult")
def test_end_to_end_runs_both_workers_and_accounts_for_every_phase(servers: Servers) -> None:
    found = figures("end_to_end", **servers.environment())
    assert len(found["streamer_events_per_s"]) == len(found["passthrough_events_per_s"]) == 1
    assert found["ratio"] > 0
    assert list(found["latency_ms"]) == ["1/s", "10/s", "500/s"]
    for row in found["latency_ms"].values():
        assert 0 < row["p50"] <= row["p99"]
        assert min(row["transactions/s"], row["records/event"]) > 0
    phases = dict(found["us_per_event"])
    whole = phases.pop("all")
    assert phases.pop("records") > 1
    assert list(phases) == ["handle", "commit", "publish"]
    assert sum(phases.values()) == pytest.approx(whole, abs=0.3)  # each is rounded


@pytest.mark.night
@pytest.mark.timeout(SECONDS_MAX + 60)
@pytest.mark.usefixtures("adult")
def test_rebuild_tells_gain_and_cost_and_what_changes_wait(servers: Servers) -> None:
    found = figures("rebuild", **servers.environment())
    (size,) = found["sizes"]
    assert 0.9 * size["ncp_one_run"] < size["ncp_after"] < size["ncp_before"]
    assert 0 < size["published_again"] <= 1
    assert 0 < size["of_what_changes_published"] <= 1
    assert len(size["drift_estimated"]) == 5
    waits = found["latency"]
    assert 0 < waits["before"]["p50"] <= waits["before"]["p99"]
    assert waits["during"]["changes"] > 0
    assert len(waits["gain"]) == 4
    assert found["speed"]["before"] > 0
    assert found["speed"]["during"] >= 0  # a quick run's backlog may be worked off before its rebuild begins


def test_rebalance_tells_how_long_shards_stand_still_and_which_are_loaded(servers: Servers) -> None:
    found = figures("rebalance", **servers.environment())
    for what in ("joins", "leaves", "restarts"):
        assert {"worst_s", "worst_that_stays_s", "median_s", "loaded", "kept"} == found[what].keys()
        assert 0 < found[what]["median_s"] <= found[what]["worst_s"]


@pytest.mark.night
def test_big_tables_tells_loss_and_cost_over_one_run() -> None:
    found = figures("big_tables")
    assert all(0.9 < line["over one run"] < 1.5 and line["k"] >= 5 for line in found["loss"])
    assert {line["way"] for line in found["size"]} == {"fragments", "one run", "pandas reads it"}


@pytest.mark.night
def test_formats_tells_what_each_costs_over_plain_json() -> None:
    for formats in figures("formats")["batches"].values():
        assert formats["json"]["ratio"] == 1
        assert formats["avro"]["us"] > 0
        assert formats["avro"]["bytes"] < formats["json"]["bytes"] < formats["connect-json"]["bytes"]
