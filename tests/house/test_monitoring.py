"""examples/monitoring rests on names that a worker reports, and Prometheus takes its files."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agents.shard_metrics import ShardMetrics
from agents.web.watch import registry_of
from servers.broker.servers import NoServers
from servers.promtool import promtool
from streamer.incremental.events.changes import Counts
from streamer.incremental.shard.steps import StepReport
from streamer.incremental.store.base import DONE, Progress, Rebuild
from worlds.checkout import ROOT
from worlds.status_facts import WELL, worker

MONITORING = ROOT / "examples" / "monitoring"
OPERATIONS = ROOT / "docs" / "operations.md"


def dashboard() -> dict[str, Any]:
    return json.loads((MONITORING / "grafana.json").read_text("utf-8"))


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((MONITORING / "alerts.yml").read_text("utf-8"))["groups"]
    return group["rules"]


def expressions() -> Iterator[tuple[str, str]]:
    """Where each one stands, and the expression."""
    yield from ((rule["alert"], rule["expr"]) for rule in rules())
    for panel in dashboard()["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])


def everything_told() -> bytes:
    """What a worker reports that has seen everything once."""
    diary = ShardMetrics()
    diary.step(StepReport(Counts(dead_letters=1, unlisted={"job": 1}), commits=1))
    diary.done.reasons["key-exists"] += 1
    diary.rebuilt(Progress(Rebuild("1", "ordered", 1, 1), 1, state=DONE))
    facts = worker(replace(WELL, pending_since=0.0))
    return generate_latest(registry_of(lambda: facts, {0: diary}))


def told() -> dict[str, set[str]]:
    """The labels of every sample that a worker reports, by name."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(everything_told().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.parametrize(("where", "expression"), list(expressions()), ids=lambda text: text[:40])
def test_every_metric_that_is_asked_for_is_said_with_these_labels(where: str, expression: str) -> None:
    known = told()
    names = set(re.findall(r"\bstreamer_\w+", expression))
    assert names <= set(known), where
    labels = {label for some in re.findall(r"by \(([^)]*)\)", expression) for label in some.split(", ")}
    labels |= set(re.findall(r"[{,](\w+)=", expression)) - {"job"}
    assert labels <= set().union(*(known[name] for name in names), set()) or not names, where


def test_every_alert_says_what_is_wrong_and_what_to_do_and_has_a_runbook() -> None:
    headings = re.findall(r"^### (\w+)\n\n(\w+)\.", OPERATIONS.read_text("utf-8"), re.M)
    severities = {f"#{alert.lower()}": severity.lower() for alert, severity in headings}
    assert len(rules()) == len(severities) >= 5, "no runbook without its alert"
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        place, anchor, _ = rule["annotations"]["runbook_url"].partition(f"#{rule['alert'].lower()}")
        assert (place, severities[anchor]) == (f"https://YOUR-DOCS/{OPERATIONS.name}", rule["labels"]["severity"])


# -- names, by Prometheus' conventions ------------------------------------------------------------------------------

UNITS = {"seconds", "bytes", "ratio", "number"}
COUNTED_THINGS = {"messages", "rows", "groups", "cohorts", "shards"}
OTHER_UNITS = {"ms", "milliseconds", "minutes", "hours", "days", "percent", "kilobytes", "megabytes"}


def wrong_names(text: str) -> list[str]:
    """What breaks a convention in what a worker tells, metric by metric."""
    types = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)
    found = [f"{name}: _total" for name, type_ in types if name.endswith("_total") != (type_ == "counter")]
    for family in text_string_to_metric_families(text):
        words, about, values = family.name.split("_"), family.documentation, [one.value for one in family.samples]
        unit = words[-1]
        is_said = unit in UNITS | COUNTED_THINGS | {"info"} or about.startswith("Whether ")
        labels = {label for sample in family.samples for label in sample.labels}
        broken = {
            "words": words[0] != "streamer" or not all(map(str.islower, words)) or bool(OTHER_UNITS & {*words}),
            "a histogram ends with its unit": family.type == "histogram" and unit not in UNITS,
            "a gauge ends with its unit, or says whether": family.type == "gauge" and not is_said,
            "a ratio is 0 to 1": unit == "ratio" and not all(0 <= value <= 1 for value in values),
            "info is 1": unit == "info" and {*values} != {1},
            "labels": not all(re.fullmatch(r"[a-z]+(_[a-z]+)*", label) for label in labels),
            "help": not re.fullmatch(r"[A-Z].{10,}[.1]", about),
        }
        found += [f"{family.name}: {what}" for what, is_broken in broken.items() if is_broken]
    return found


def test_every_name_follows_prometheus_conventions() -> None:
    assert wrong_names(everything_told().decode()) == []


@pytest.mark.parametrize(
    ("metric", "broken"),
    [
        ("ncp gauge The mean loss of rows.| 0.2", "a gauge ends with its unit, or says whether"),
        ("loss_ratio gauge The mean loss of rows.| 18", "a ratio is 0 to 1"),
        ("commits counter Commits that steps made.| 5", "_total"),
        ("rows_total gauge Rows that a shard holds.| 5", "_total"),
        ("silent_ms gauge How long a server is silent.| 5", "words"),
        ("build_info gauge Versions of what is stored; always 1.| 2", "info is 1"),
        ('rows gauge Rows that a shard holds.|{Shard="0"} 2', "labels"),
        ("rows gauge rows| 2", "help"),
    ],
)
def test_a_name_against_the_conventions_is_found(metric: str, broken: str) -> None:
    said, _, value = metric.partition("|")
    name, type_, about = said.split(" ", 2)
    text = f"# HELP streamer_{name} {about}\n# TYPE streamer_{name} {type_}\nstreamer_{name}{value}\n"
    assert any(line.endswith(f": {broken}") for line in wrong_names(text)), wrong_names(text)


def test_the_dashboard_shows_no_two_panels_in_one_place() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard()["panels"]]
    assert len(set(places)) == len(places) >= 8
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(places)


@pytest.fixture(name="promtool", scope="module")
def parser() -> str:
    try:
        return promtool()
    except NoServers as reason:
        pytest.skip(str(reason))


def test_prometheus_takes_the_files(promtool: str) -> None:
    done = subprocess.run(
        [promtool, "check", "config", "prometheus.yml"], cwd=MONITORING, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_what_a_worker_tells(promtool: str) -> None:
    done = subprocess.run([promtool, "check", "metrics"], input=everything_told(), capture_output=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def told_by(worker: str, before: str, since: str, first: int) -> list[dict[str, str]]:
    """Series of a worker that is scraped every 15 s and holds other shards from scrape `first` on."""
    of = f'table="people",instance="{worker}"'
    told = {"series": f"streamer_held_shards{{{of}}}", "values": f"{len(before)}x{first - 1} {len(since)}x100"}
    lags = {
        shard: f"0x{first - 1}" + (" 0x100" if shard in since else " stale") if shard in before else f"_x{first} 0x100"
        for shard in {*before, *since}
    }
    return [told, *({"series": f'streamer_lag_messages{{{of},shard="{of_}"}}', "values": lags[of_]} for of_ in lags)]


NOBODY_HOLDS = "fewer shards of people are held than an hour ago"

CHANGES = {
    "for one scrape both workers tell of two shards": (
        [*told_by("a", before="0123", since="01", first=9), *told_by("b", before="", since="23", first=8)],
        False,
    ),
    "two shards are with nobody": (told_by("a", before="0123", since="01", first=9), True),
    "the worker that is left holds none": (told_by("a", before="0123", since="", first=9), True),
}
"""What two workers tell, and whether someone is called."""


@pytest.mark.parametrize("change", CHANGES)
def test_someone_is_called_where_no_one_holds_a_shard_and_not_where_it_changes_hands(
    change: str, promtool: str, tmp_path: Any
) -> None:
    series, called = CHANGES[change]
    (rule,) = (rule for rule in rules() if rule["alert"] == "StreamerShardHeldByNobody")
    alert = {
        "exp_labels": {"table": "people", **rule["labels"]},
        "exp_annotations": {**rule["annotations"], "summary": NOBODY_HOLDS},
    }
    case = {
        "interval": "15s",
        "input_series": series,
        "alert_rule_test": [{"eval_time": "15m", "alertname": rule["alert"], "exp_alerts": [alert] if called else []}],
    }
    file = tmp_path / "case.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(MONITORING / "alerts.yml")], "tests": [case]}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_expression_of_the_dashboard_is_one(promtool: str, tmp_path: Any) -> None:
    rules = [
        {"record": f"of:panel{number}", "expr": expression.replace("$table", "people")}
        for number, (_, expression) in enumerate(expressions())
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
