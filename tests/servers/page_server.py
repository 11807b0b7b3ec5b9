"""A server of the status page that tells what a test says: the page and headers of a worker, but a test's own facts."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine
from typing import Any

from aiohttp import web

from agents.web.server import HEADERS, PAGE
from servers.broker.servers import free_ports

EVENT_SECONDS = 0.2
STOP_SECONDS_MAX = 30.0


class PageServer:
    """Runs in a thread of its own, on one port for life; `facts`, `frozen` and `answer` are a test's to change."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.frozen = False
        self.answer: tuple[int, dict[str, Any]] = (202, {"asked": True})
        self.asked: list[tuple[str, dict[str, Any], str]] = []
        """Path, body and token of every POST."""
        self._port = free_ports(1)[0]
        self.address = f"http://127.0.0.1:{self._port}/"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner: web.AppRunner | None = None
        self.start()

    def start(self) -> None:
        self._do(self._start())

    def stop(self) -> None:
        """Open connections are cut: so it looks when a worker dies."""
        self._do(self._stop())

    def end(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS_MAX)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(STOP_SECONDS_MAX)

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_get("/", self._index)
        app.router.add_static("/page", PAGE)
        app.router.add_get("/events", self._events)
        app.router.add_post("/rebuild", self._post)
        app.router.add_post("/rebuild/cancel", self._post)
        app.on_response_prepare.append(_with_headers)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()

    async def _stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _index(self, request: web.Request) -> web.StreamResponse:
        return web.FileResponse(PAGE / "index.html")

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        while True:
            if self.facts and not self.frozen:
                await response.write(f"data: {json.dumps(self.facts)}\n\n".encode())
            await asyncio.sleep(EVENT_SECONDS)

    async def _post(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, await request.json(), request.headers.get("X-Streamer-Token", "")))
        status, body = self.answer
        return web.json_response(body, status=status)


async def _with_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
