"""How many connections a worker takes, and that nothing of what a client sent gets into the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from agents.web.connections import listen, runner_of
from streamer.cli.web_address import Address
from worlds.patients import CANARY

ARRIVES_SECONDS_MAX = 60.0
QUESTION = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Story = Callable[[Callable[[], Awaitable[Wire]]], Awaitable[None]]


def visit(story: Story) -> None:
    """A story with a server that answers everything with "here"; the story opens its connections."""

    async def answer(_request: web.BaseRequest) -> web.Response:
        return web.Response(text="here")

    async def told() -> None:
        app = web.Application()
        app.router.add_get("/", answer)
        runner = runner_of(app)
        await runner.setup()
        listening = await listen(runner, Address("127.0.0.1", 0))
        port = listening.sockets[0].getsockname()[1]
        try:
            await story(lambda: asyncio.open_connection("127.0.0.1", port))
        finally:
            listening.close()
            await runner.cleanup()

    asyncio.run(told())


async def said(wire: Wire, question: bytes) -> bytes:
    """All that comes back; nothing where the connection is ended instead."""
    reader, writer = wire
    try:
        writer.write(question)
        return await asyncio.wait_for(reader.read(), ARRIVES_SECONDS_MAX)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def test_so_many_connections_are_taken_and_one_that_ends_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.web.connections.CONNECTIONS_MAX", 3)

    async def story(opened: Callable[[], Awaitable[Wire]]) -> None:
        silent = [await opened() for _ in range(3)]
        assert await said(await opened(), QUESTION) == b""
        silent[0][1].close()
        answer = b""
        for _ in range(600):
            answer = await said(await opened(), QUESTION)
            if answer:
                break
            await asyncio.sleep(0.1)
        assert answer.endswith(b"here")
        for _, writer in silent:
            writer.close()

    visit(story)


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: 127"], ids=["nothing", "half a request"])
def test_a_connection_that_asks_nothing_is_ended(monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    monkeypatch.setattr("agents.web.connections.SILENT_SECONDS_MAX", 0.1)

    async def story(opened: Callable[[], Awaitable[Wire]]) -> None:
        assert await said(await opened(), begun) == b""

    visit(story)


def test_of_what_is_no_http_the_log_has_one_line_without_a_word_of_it(caplog: pytest.LogCaptureFixture) -> None:
    wrong = [
        f"GET / HTTP/1.1\r\nHost: a\r\nX-Streamer-Token: {CANARY * 2000}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: {CANARY}\r\nHost: {CANARY}\r\n\r\n",
        f"{CANARY}\r\n\r\n",
    ]

    async def story(opened: Callable[[], Awaitable[Wire]]) -> None:
        for question in wrong * 5:
            assert b" 400 " in await said(await opened(), question.encode())

    with caplog.at_level(logging.DEBUG, "aiohttp"):
        visit(story)
    lines = [line for line in caplog.records if line.name == "aiohttp.server"]
    assert 0 < len(lines) < len(wrong)
    assert all(line.levelname == "WARNING" and not line.exc_info for line in lines)
    assert CANARY not in caplog.text
    assert "\n" not in lines[0].getMessage()
