"""The reference of what a worker tells Prometheus: every metric, from the registry itself."""

from __future__ import annotations

from agents.web.watch import registry_of
from streamer.status.facts import WorkerFacts

HEAD = """\
# Metrics

What a worker answers at `/metrics`, if `--web` has it answer ([how](../how-to/watching.md#seen-from-outside)).
Names follow Prometheus' conventions: they end with their unit or with what they count, and counters with `_total`.
Counters count from the start of the process. Alerts and a dashboard that rest on them:
[examples/monitoring](../../examples/monitoring/alerts.yml); their runbooks: [operations](../operations.md#alerts).

| metric | type | labels | what |
|---|---|---|---|
"""

NOBODY = WorkerFacts("", "", "", 0.0, False, (), ())


def page() -> str:
    """The whole page."""
    rows = []
    for metric in registry_of(lambda: NOBODY, {}).collect():
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        labels = ", ".join(f"`{label}`" for label in getattr(metric, "_labelnames", ()))
        rows.append(f"| `{name}` | {metric.type} | {labels} | {metric.documentation} |")
    return HEAD + "\n".join(rows) + "\n"
