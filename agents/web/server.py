"""A worker over HTTP: what may be asked, by whom, how many may ask, and what the answers carry.

The rules of this file
----------------------
* Everything only reads. Nothing here changes anything: who wants a rebuild uses the command.
* If it listens for this machine alone, it answers only to names of this machine: else a page of another site could have
  its name point here (DNS rebinding) and read on.
* Whoever reaches the port may take only so many of the process' files: the shards need theirs for Kafka and Redis.
* What a client sent wrongly is answered to it. The log gets one line without its text, and only so many of them; of
  what nobody foresaw, only the class of the error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from agents.kafka_log import AtMost
from agents.web.page import page, security_policy
from streamer.cli.web_address import Address, host_in, is_loopback
from streamer.incremental.shard.passed_over import told

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 128

SILENT_SECONDS_MAX = 15.0
"""How long a connection may be open without a whole request: after the last one, or before the first."""

END_SECONDS_MAX = 1.0

SERVER_LOG = "aiohttp.server"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Answers:
    """What the paths answer, each when it is asked; all of them are cheap."""

    metrics: Callable[[], bytes]
    problems: Callable[[], list[str]]
    not_ready: Callable[[], list[str]]
    facts: Callable[[], Mapping[str, Any]]


def web_app(address: Address, answers: Answers) -> web.Application:
    """The application that answers at an address."""

    async def index(_request: web.Request) -> web.Response:
        return web.Response(text=page(answers.facts()), content_type="text/html")

    async def facts(_request: web.Request) -> web.Response:
        return _json(answers.facts())

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=answers.metrics(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def health(_request: web.Request) -> web.Response:
        return _verdict(answers.problems())

    async def ready(_request: web.Request) -> web.Response:
        return _verdict(answers.not_ready())

    app = web.Application(middlewares=[_guarded(address)])
    app.on_response_prepare.append(_add_headers)
    for path, handler in {"": index, "facts": facts, "metrics": metrics, "health": health, "ready": ready}.items():
        app.router.add_get(f"/{path}", handler)
    return app


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Content-Security-Policy"] = security_policy()
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "no-store"
    response.headers.popall("Server", None)


def _guarded(address: Address) -> Any:
    """What is looked at before any answer, and what becomes of errors."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        if address.is_loopback and not is_loopback(host_in(request.headers.get("Host", ""))):
            return _refused(421, "this worker answers to names of its own machine only, as 127.0.0.1")
        try:
            return await handler(request)
        except web.HTTPException as answer:
            return _refused(answer.status, answer.reason)
        except Exception as error:
            log.error("%s was not answered: %s", _route_of(request), told(error))
            return _refused(500, "an error that nobody foresaw; the worker's log says where")

    return guarded


def _route_of(request: web.Request) -> str:
    """Which of our paths it came to: the path itself is whatever somebody sent, line ends too."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "a request"


def _refused(status: int, sentence: str) -> web.Response:
    return _json({"error": sentence}, status)


def _verdict(reasons: list[str]) -> web.Response:
    return _json({"ok": not reasons, "reasons": reasons}, 503 if reasons else 200)


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


# -- connections --------------------------------------------------------------------------------------------------


class TextLeftOut(logging.Filter):
    """Leaves of an error its class, and no word of what was sent."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info:
            of = record.exc_info[0]
            record.msg, record.args = f"{record.getMessage()}: {of.__name__ if of else 'an error'}", ()
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


class TurnedAway(asyncio.Protocol):
    """One connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


def runner_of(app: web.Application) -> web.AppRunner:
    """What answers on every connection; `listen` says where they come from."""
    logger = logging.getLogger(SERVER_LOG)
    if not logger.filters:
        logger.addFilter(TextLeftOut())
        logger.addFilter(AtMost())
    return web.AppRunner(app, access_log=None, shutdown_timeout=END_SECONDS_MAX, keepalive_timeout=SILENT_SECONDS_MAX)


async def listen(runner: web.AppRunner, address: Address) -> asyncio.Server:
    """Listens, once the runner is set up. Raises OSError, or UnicodeError if the host is no name."""
    answering = cast(web.Server, runner.server)  # there is one after its setup

    def connected() -> asyncio.Protocol:
        return answering() if len(answering.connections) < CONNECTIONS_MAX else TurnedAway()

    return await asyncio.get_running_loop().create_server(connected, address.host, address.port)
