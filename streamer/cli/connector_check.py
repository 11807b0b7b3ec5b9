"""What `streamer check --connector` says: connectors held against a table, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from streamer.cli.connector_reading import ReadConnector, read_connectors
from streamer.cli.tables import say
from streamer.errors import UsageError
from streamer.incremental.connectors import sink_findings as sinks
from streamer.incremental.connectors import source_findings as sources
from streamer.incremental.connectors.connector_config import Finding
from streamer.incremental.topics import CHANGES, outputs_of, topic_name
from streamer.table.schema import Table

SOURCE, SINK = "source", "sink"


def check_connectors(table: Table, where: str) -> list[dict[str, Any]]:
    """The connectors behind --connector, each with what was found and what was not checked.

    Of several, those that are about this table. Raises UsageError where none is, or where nothing can be read.
    """
    read = read_connectors(where)
    chosen = read if len(read) == 1 else [one for one in read if _is_about(table, one)]
    if not chosen:
        topics = ", ".join(topic_name(table.name, kind) for kind in (CHANGES, *outputs_of(table.form)))
        others = ", ".join(one.name for one in read) or "no connector at all"
        raise UsageError(f"--connector: none there is about {topics}; there is {others}")
    return [_checked(table, one) for one in chosen]


def print_connectors(checked: list[dict[str, Any]]) -> None:
    """The same for people."""
    for one in checked:
        count = len(one["findings"])
        what = "1 thing loses or misreads rows" if count == 1 else f"{count} things lose or misread rows"
        verdict = what if count else "nothing found"
        say(f"connector {one['name']} ({one['kind']}, {one['class']}): {verdict}")
        for found in one["findings"]:
            say(f"  {Finding(**found)}")
        for left in one["not_checked"]:
            say(f"  not checked: {left}")


def _is_about(table: Table, one: ReadConnector) -> bool:
    return sinks.is_sink_of(table, one.config) or (_kind(one) == SOURCE and sources.is_source_of(table, one.config))


def _kind(one: ReadConnector) -> str:
    """Every sink says which topics it reads, and no source does."""
    return SINK if one.config.get("topics") or one.config.get("topics.regex") else SOURCE


def _checked(table: Table, one: ReadConnector) -> dict[str, Any]:
    kind = _kind(one)
    if kind == SINK:
        findings, left = sinks.sink_findings(table, one.config, one.version), sinks.not_checked(one.config)
    else:
        findings, left = sources.source_findings(table, one.config), sources.not_checked(table, one.config)
    return {
        "name": one.name,
        "kind": kind,
        "class": one.config.connector_class,
        "findings": [asdict(found) for found in (*_halted(one), *findings)],
        "not_checked": left,
    }


def _halted(one: ReadConnector) -> Iterator[Finding]:
    if one.halted:
        mend = "one that was made just now takes a moment; else Connect's status has its trace: mend that, restart it"
        yield Finding("state", ", ".join(one.halted), "nothing moves", mend)
