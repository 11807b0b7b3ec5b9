"""The tasks of Kafka Connect that do not run, and the call that starts each again.

Connect starts no failed task again by itself: a sink whose database was away for a moment stays dead. Its traces quote
rows, so none is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPException
from typing import Literal
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import ProxyHandler, build_opener

import msgspec

from streamer.errors import ServerUnreachable, UsageError

ANSWER_SECONDS_MAX = 10.0
RUNS, ON_PURPOSE, PASSING = "RUNNING", ("PAUSED", "STOPPED"), ("UNASSIGNED", "RESTARTING")


class _ConnectTask(msgspec.Struct):
    state: str
    id: int = 0


class _Status(msgspec.Struct):
    connector: _ConnectTask
    tasks: list[_ConnectTask] = []


_answer = msgspec.json.Decoder(dict[str, dict[Literal["status"], _Status]]).decode


def connectors_at(address: str) -> dict[str, list[str]]:
    """By connector: what of it does not run, and the call that helps. address: HOST:PORT or a URL.

    Raises UsageError without the address if that is none; ServerUnreachable.
    """
    url = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(url)
        is_address = (
            parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc and parts.port != 0
        )
    except ValueError:  # a port that is no number
        is_address = False
    if not is_address:
        raise UsageError("--connect: expected HOST:PORT of Kafka Connect's REST interface, or its URL without a user")
    url = url.rstrip("/")
    try:
        with build_opener(ProxyHandler({})).open(f"{url}/connectors?expand=status", timeout=ANSWER_SECONDS_MAX) as said:
            found = _answer(said.read())
    except HTTPError as error:
        raise ServerUnreachable(f"Kafka Connect at {url} refuses the request ({error.code}): try again") from None
    except (OSError, HTTPException):
        raise ServerUnreachable(f"Kafka Connect at {url} does not answer") from None
    except msgspec.MsgspecError:
        raise ServerUnreachable(f"what answers at {url} is not Kafka Connect's REST interface") from None
    return {name: list(_faults(url, name, one["status"])) for name, one in sorted(found.items()) if one}


def _faults(url: str, name: str, status: _Status) -> Iterator[str]:
    call = f"{url}/connectors/{quote(name, safe='')}"
    states = {"the connector": status.connector.state, **{f"task {one.id}": one.state for one in status.tasks}}
    for part, state in states.items():
        if state in ON_PURPOSE:
            yield f"{part} of {name} is {state}: if not on purpose, `curl -X PUT {call}/resume`"
        elif state in PASSING:
            yield f"{part} of {name} is {state}: look again in a moment"
        elif state != RUNS:
            at = f"{call}/tasks/{part.removeprefix('task ')}" if part != "the connector" else call
            yield f"{part} of {name} is {state}: Connect's log says why; then `curl -X POST {at}/restart`"
    if not status.tasks and status.connector.state == RUNS:
        yield f"{name} has no task: `curl -X POST '{call}/restart?includeTasks=true'`"
