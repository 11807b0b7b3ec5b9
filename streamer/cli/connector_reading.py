"""Reads configurations of connectors: from a file, or from Kafka Connect's REST interface.

Connect answers with whatever stands in a configuration, passwords too, and its traces may quote rows: nothing of an
answer gets into a message but names and states. A password for Connect itself comes from the environment, never from
the address.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec

from streamer.errors import ServerUnreachable, UsageError
from streamer.incremental.connectors.connector_config import ConnectorConfig, config_of

USER, PASSWORD = "CONNECT_USER", "CONNECT_PASSWORD"
CONNECT_SECONDS_MAX, ANSWER_SECONDS_MAX = 5.0, 15.0
PATH = "/connectors"


@dataclass(frozen=True)
class ReadConnector:
    """A connector as it was read. Of a worker also: its version, and what does not run of the connector."""

    name: str
    config: ConnectorConfig
    version: str | None = None
    halted: tuple[str, ...] = ()


def read_connectors(where: str) -> list[ReadConnector]:
    """The connector in a file, or behind an address all of Connect, or the one that the address names.

    Raises UsageError and ServerUnreachable.
    """
    if where.startswith(("http://", "https://")):
        return _from_connect(where)
    name, config = config_of(_from_file(Path(where)))
    return [ReadConnector(name or Path(where).stem, config)]


def _from_file(path: Path) -> object:
    try:
        return msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise UsageError(f"--connector: the file cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UsageError("--connector: the file is not JSON; expected a connector's configuration") from None


def _from_connect(where: str) -> list[ReadConnector]:
    worker, name = _address(where)
    with httpx.Client(auth=_credentials(), timeout=_timeouts()) as client:
        version = _asked(client, worker, "/")
        version = version.get("version") if isinstance(version, dict) else None
        said = _asked(client, worker, f"{PATH}?expand=info&expand=status")
        if not isinstance(said, dict):
            raise _no_connect(worker)
    read = list(_listed(said, str(version) if version else None))
    if name is None:
        return read
    chosen = [one for one in read if one.name == name]
    if not chosen:
        raise UsageError(f"--connector: {_shown(worker)} has no connector of this name; it has {_names(read)}")
    return chosen


def _address(where: str) -> tuple[httpx.URL, str | None]:
    """The worker's address, and the connector's name where the address has one."""
    try:
        url = httpx.URL(where)
    except httpx.InvalidURL:
        raise UsageError("--connector: this is no address; expected http://HOST:PORT") from None
    if url.userinfo or not url.host:
        raise UsageError(
            f"--connector: expected http://HOST:PORT, without user or password: these stand in {USER} and {PASSWORD}"
        )
    before, found, after = url.path.rstrip("/").partition(PATH)
    name = after.strip("/").partition("/")[0] if found else ""
    return url.copy_with(path=before or "/", query=None, fragment=None), name or None


def _credentials() -> tuple[str, str] | None:
    user = os.environ.get(USER)
    return (user, os.environ.get(PASSWORD, "")) if user else None


def _timeouts() -> httpx.Timeout:
    return httpx.Timeout(ANSWER_SECONDS_MAX, connect=CONNECT_SECONDS_MAX)


def _asked(client: httpx.Client, worker: httpx.URL, path: str) -> Any:
    try:
        answer = client.get(f"{str(worker).rstrip('/')}{path}")
    except httpx.HTTPError as error:
        reason = type(error).__name__
        raise ServerUnreachable(f"Kafka Connect at {_shown(worker)} does not answer ({reason})") from None
    if answer.status_code in (401, 403):
        raise UsageError(f"Kafka Connect at {_shown(worker)} refuses ({answer.status_code}): set {USER} and {PASSWORD}")
    if answer.status_code >= 500:
        raise ServerUnreachable(f"Kafka Connect at {_shown(worker)} fails ({answer.status_code})")
    try:
        return msgspec.json.decode(answer.content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _no_connect(worker) from None


def _listed(said: dict[str, Any], version: str | None) -> Iterator[ReadConnector]:
    for name, parts in said.items():
        _, config = config_of(parts.get("info"))
        yield ReadConnector(name, config, version, tuple(_halted(parts.get("status") or {})))


def _halted(status: dict[str, Any]) -> Iterator[str]:
    """The parts of a connector that do not run, with their states."""
    tasks = status.get("tasks") or []
    named = [("connector", status.get("connector") or {}), *((f"task {task.get('id')}", task) for task in tasks)]
    for part, said in named:
        if (state := said.get("state")) and state != "RUNNING":
            yield f"{part} {state}"
    if status and not tasks:
        yield "no task"


def _names(read: list[ReadConnector]) -> str:
    return ", ".join(one.name for one in read) or "none"


def _shown(worker: httpx.URL) -> str:
    return f"{worker.host}:{worker.port}" if worker.port else worker.host


def _no_connect(worker: httpx.URL) -> UsageError:
    return UsageError(f"--connector: what answers at {_shown(worker)} is not Kafka Connect's REST interface")
