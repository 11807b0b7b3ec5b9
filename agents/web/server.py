"""The pages of a worker over HTTP: what may be asked, by whom, and what the answers carry.

The rules of this file
----------------------
* Everything but a rebuild only reads. A rebuild needs the token in a header, which no page of another site can send
  without being asked about it first, and nobody answers that question.
* Where it listens for this machine alone, it answers only to names of this machine: else a page of another site could
  have its name point here (DNS rebinding) and read on.
* Answers say facts; of what nobody foresaw, only the class of the error is logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from agents.web.rebuild_requests import TOKEN_HEADER, Wanted, is_token, read_wanted
from streamer.cli.web_address import Address, host_in, is_loopback
from streamer.errors import ServerUnreachable, StreamerError, UsageError
from streamer.incremental.shard.passed_over import told

log = logging.getLogger(__name__)

PAGE = Path(__file__).parent / "page"
BODY_BYTES_MAX = 4_096
LISTENERS_MAX = 32
EVENT_SECONDS = 1.0

UNREAD_SECONDS_MAX = 10.0
"""How long a listener may leave unread what it was sent, before another one gets its place."""

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Answers:
    """Where answers come from; all but `ask` are cheap. ask: sends a request, or with True the end of a rebuild."""

    metrics: Callable[[], bytes]
    reasons: Callable[[], list[str]]
    waits_for: Callable[[], list[str]]
    page_facts: Callable[[], bytes]
    ask: Callable[[Wanted, bool], Awaitable[None]]
    stopping: asyncio.Event


def web_app(address: Address, token: str, answers: Answers) -> web.Application:
    """The application that answers at an address."""
    pages = Pages(token, answers)
    app = web.Application(middlewares=[_guarded(address)], client_max_size=BODY_BYTES_MAX)
    app.on_response_prepare.append(_add_headers)
    app.router.add_get("/", pages.index)
    app.router.add_get("/metrics", pages.metrics)
    app.router.add_get("/health", pages.health)
    app.router.add_get("/ready", pages.ready)
    app.router.add_get("/facts", pages.facts)
    app.router.add_get("/events", pages.events, allow_head=False)
    app.router.add_post("/rebuild", pages.rebuild)
    app.router.add_post("/rebuild/cancel", pages.cancel)
    app.router.add_static("/page", PAGE)
    return app


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
    response.headers.popall("Server", None)


def _guarded(address: Address) -> Any:
    """What is looked at before any answer, and what becomes of errors."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = request.headers.get("Host", "")
        if address.is_loopback and not is_loopback(host_in(host)):
            return _refused(421, "this worker answers to names of its own machine only, as 127.0.0.1")
        try:
            return await handler(request)
        except web.HTTPException as answer:
            return _refused(answer.status, answer.reason)
        except UsageError as error:
            return _refused(400, str(error))
        except StreamerError as error:
            return _refused(503 if isinstance(error, ServerUnreachable) else 500, str(error))
        except ConnectionError:
            return _refused(400, "who asked has gone")  # nobody reads it; raised on, it would be logged as a fault
        except web.RequestPayloadError:
            return _refused(400, "the body cannot be read")
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


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


class Pages:
    """What each path answers."""

    def __init__(self, token: str, answers: Answers) -> None:
        self._token = token
        self._answers = answers
        self._listeners = 0

    async def index(self, _request: web.Request) -> web.StreamResponse:
        return web.FileResponse(PAGE / "index.html")

    async def metrics(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(body=self._answers.metrics(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def health(self, _request: web.Request) -> web.StreamResponse:
        return _verdict(self._answers.reasons())

    async def ready(self, _request: web.Request) -> web.StreamResponse:
        return _verdict(self._answers.waits_for())

    async def facts(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(body=self._answers.page_facts(), content_type="application/json")

    async def events(self, request: web.Request) -> web.StreamResponse:
        """The same object every second, until the listener goes or the worker ends."""
        if self._listeners >= LISTENERS_MAX:
            return _refused(503, f"{LISTENERS_MAX} pages are open already")
        self._listeners += 1
        try:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            while not self._answers.stopping.is_set():
                if not await _written(response, b"data: " + self._answers.page_facts() + b"\n\n"):
                    if request.transport is not None:
                        request.transport.abort()
                    break
                await _first_of(self._answers.stopping, EVENT_SECONDS)
            return response
        finally:
            self._listeners -= 1

    async def rebuild(self, request: web.Request) -> web.StreamResponse:
        return await self._ask(request, cancel=False)

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        return await self._ask(request, cancel=True)

    async def _ask(self, request: web.Request, cancel: bool) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != request.headers.get("Host", ""):
            return _refused(403, "a page of another site asks")
        if not is_token(request.headers.get(TOKEN_HEADER, ""), self._token):
            return _refused(403, f"the header {TOKEN_HEADER} does not have this worker's token: its start prints it")
        await self._answers.ask(read_wanted(await request.read()), cancel)
        return _json({"asked": True}, 202)


def _verdict(reasons: list[str]) -> web.Response:
    return _json({"ok": not reasons, "reasons": reasons}, 503 if reasons else 200)


async def _written(response: web.StreamResponse, event: bytes) -> bool:
    """Whether the listener reads on."""
    try:
        await asyncio.wait_for(response.write(event), UNREAD_SECONDS_MAX)
    except TimeoutError:
        return False
    return True


async def _first_of(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return
