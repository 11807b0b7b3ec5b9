"""`streamer check --connector`: checks connectors, from a file or from Kafka Connect, against a table.

Connect's answers may hold passwords, and its traces rows: only names and states get into messages. The password for
Connect itself comes from the environment, never from the address.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec

from streamer.cli.support.tables import say
from streamer.errors import ServerUnreachable, UsageError
from streamer.incremental.connect.lint import ConnectorConfig, Finding, config_of, findings, is_about, not_checked
from streamer.incremental.topics import CHANGES, outputs_of, topic_name
from streamer.table.schema import Table

USER, PASSWORD = "CONNECT_USER", "CONNECT_PASSWORD"
CONNECT_SECONDS_MAX, CONNECT_ANSWER_SECONDS_MAX = 5.0, 15.0
CONNECTORS_PATH = "/connectors"


class ReadConnector(NamedTuple):
    """A connector as it was read."""

    name: str
    config: ConnectorConfig
    halted: tuple[str, ...] = ()  # parts that do not run, with their states


def check_connectors(table: Table, where: str) -> list[dict[str, Any]]:
    """The connectors that --connector names, each with its findings and what was not checked.

    If there are several, those about this table. Raises UsageError if none is, or if nothing can be read.
    """
    read = read_connectors(where)
    chosen = read if len(read) == 1 else [one for one in read if is_about(table, one.config)]
    if not chosen:
        topics = ", ".join(topic_name(table.name, kind) for kind in (CHANGES, *outputs_of(table.form)))
        others = ", ".join(one.name for one in read) or "no connector at all"
        raise UsageError(f"--connector: none is about {topics}; found: {others}")
    return [
        {
            "name": one.name,
            "kind": one.config.kind,
            "class": one.config.connector_class,
            "findings": [found._asdict() for found in (*_halt_findings(one), *findings(table, one.config))],
            "not_checked": not_checked(table, one.config),
        }
        for one in chosen
    ]


def print_connectors(checked: list[dict[str, Any]]) -> None:
    for one in checked:
        count = len(one["findings"])
        what = "1 thing loses or misreads rows" if count == 1 else f"{count} things lose or misread rows"
        say(f"connector {one['name']} ({one['kind']}, {one['class']}): {what if count else 'nothing found'}")
        for found in one["findings"]:
            say(f"  {Finding(**found)}")
        for left in one["not_checked"]:
            say(f"  not checked: {left}")


def _halt_findings(one: ReadConnector) -> Iterator[Finding]:
    if one.halted:
        remedy = "a new connector needs a moment; else Connect's status shows its trace: remove the cause, restart it"
        yield Finding("state", ", ".join(one.halted), "nothing moves", remedy)


# -- reading ----------------------------------------------------------------------------------------------------------


def read_connectors(where: str) -> list[ReadConnector]:
    """The connector in a file, all connectors of Connect, or the one that the address names.

    Raises UsageError and ServerUnreachable.
    """
    if where.startswith(("http://", "https://")):
        return _from_connect(where)
    try:
        name, config = config_of(msgspec.json.decode(Path(where).read_bytes()))
    except OSError as error:
        raise UsageError(f"--connector: the file cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UsageError("--connector: the file is not JSON; expected a connector's configuration") from None
    return [ReadConnector(name or Path(where).stem, config)]


def _from_connect(where: str) -> list[ReadConnector]:
    worker, wanted = _address(where)
    shown = f"{worker.host}:{worker.port}" if worker.port else worker.host
    read = [
        ReadConnector(name, config_of(parts.get("info"))[1], tuple(_not_running(parts.get("status") or {})))
        for name, parts in _connectors(worker, shown).items()
    ]
    chosen = [one for one in read if wanted in (None, one.name)]
    if wanted is not None and not chosen:
        names = ", ".join(one.name for one in read) or "none"
        raise UsageError(f"--connector: {shown} has no connector of this name; it has {names}")
    return chosen


def _address(where: str) -> tuple[httpx.URL, str | None]:
    """The worker's address, and the connector's name if the address has one."""
    try:
        url = httpx.URL(where)
    except httpx.InvalidURL:
        raise UsageError("--connector: this is not an address; expected http://HOST:PORT") from None
    if url.userinfo or not url.host:
        raise UsageError(
            f"--connector: expected http://HOST:PORT, without user or password: set {USER} and {PASSWORD} instead"
        )
    before, found, after = url.path.rstrip("/").partition(CONNECTORS_PATH)
    name = after.strip("/").partition("/")[0] if found else ""
    return url.copy_with(path=before or "/", query=None, fragment=None), name or None


def _connectors(worker: httpx.URL, shown: str) -> dict[str, Any]:
    """All connectors of a Connect worker. Raises UsageError and ServerUnreachable."""
    user = os.environ.get(USER)
    auth = (user, os.environ.get(PASSWORD, "")) if user else None
    timeout = httpx.Timeout(CONNECT_ANSWER_SECONDS_MAX, connect=CONNECT_SECONDS_MAX)
    try:
        url = f"{str(worker).rstrip('/')}{CONNECTORS_PATH}?expand=info&expand=status"
        answer = httpx.get(url, auth=auth, timeout=timeout)
    except httpx.HTTPError as error:
        raise ServerUnreachable(f"Kafka Connect at {shown} does not answer ({type(error).__name__})") from None
    if answer.status_code in (401, 403):
        raise UsageError(f"Kafka Connect at {shown} refuses ({answer.status_code}): set {USER} and {PASSWORD}")
    if answer.status_code >= 500:
        raise ServerUnreachable(f"Kafka Connect at {shown} fails ({answer.status_code})")
    try:
        return msgspec.json.decode(answer.content, type=dict[str, dict[str, Any]])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UsageError(f"--connector: what answers at {shown} is not Kafka Connect's REST interface") from None


def _not_running(status: dict[str, Any]) -> Iterator[str]:
    """The parts of a connector that do not run, with their states."""
    tasks = status.get("tasks") or []
    parts = [("connector", status.get("connector") or {}), *((f"task {task.get('id')}", task) for task in tasks)]
    for part, facts in parts:
        if (state := facts.get("state")) and state != "RUNNING":
            yield f"{part} {state}"
    if status and not tasks:
        yield "no task"
