"""Who is answered what over HTTP, what every answer carries, and how many connections a worker takes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientSession, web

from agents.web.server import Answers, listen, runner_of, web_app
from streamer.cli.web_address import Address
from worlds.patients import CANARY
from worlds.told_facts import facts, shard

HERE, ANYWHERE = Address("127.0.0.1", 0), Address("0.0.0.0", 0)

Story = Callable[["Visitor"], Awaitable[None]]


class Visitor:
    """Asks a server that listens on this machine."""

    def __init__(self, session: ClientSession, port: int) -> None:
        self.reasons: list[str] = []
        self.facts: Callable[[], dict[str, Any]] = lambda: facts(shard(0))
        self.session, self.port = session, port

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.session.get(self.url(path), headers=headers) as answer:
            return answer.status, await answer.text()

    async def post(self, path: str, body: str = "{}", **headers: str) -> tuple[int, str]:
        async with self.session.post(self.url(path), data=body, headers=headers) as answer:
            return answer.status, await answer.text()

    def answers(self) -> Answers:
        return Answers(
            metrics=lambda: b"streamer_rows 1\n",
            problems=lambda: self.reasons,
            not_ready=lambda: self.reasons,
            facts=lambda: self.facts(),
        )

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


def visit(story: Story, address: Address = HERE) -> None:
    """A story with a server that stands while it lasts."""

    async def told() -> None:
        async with ClientSession() as session:
            visitor = Visitor(session, 0)
            runner = runner_of(web_app(address, visitor.answers()))
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                visitor.port = runner.addresses[0][1]
                await story(visitor)
            finally:
                await runner.cleanup()

    asyncio.run(told())


@pytest.mark.parametrize("path", ["/", "/facts", "/metrics", "/health", "/nowhere"])
def test_every_answer_forbids_scripts_of_others_guesses_and_copies(path: str) -> None:
    async def story(visitor: Visitor) -> None:
        async with visitor.session.get(visitor.url(path)) as answer:
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'none';")
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Cache-Control"] == "no-store"
            assert "Access-Control-Allow-Origin" not in answer.headers
            assert "Server" not in answer.headers

    visit(story)


def test_health_and_readiness_are_in_the_status_and_the_reasons_in_the_body() -> None:
    async def story(visitor: Visitor) -> None:
        for path in ("/health", "/ready"):
            visitor.reasons = []
            assert await visitor.get(path) == (200, '{"ok":true,"reasons":[]}')
            visitor.reasons = ["shard 0: ..."]
            assert await visitor.get(path) == (503, '{"ok":false,"reasons":["shard 0: ..."]}')

    visit(story)


def test_a_name_of_another_machine_is_not_answered_where_only_this_one_is_meant() -> None:
    async def story(visitor: Visitor) -> None:
        assert (await visitor.get("/facts", Host="127.0.0.1"))[0] == 200
        assert (await visitor.get("/facts", Host="localhost:1"))[0] == 200
        assert (await visitor.get("/facts", Host="rebound.example"))[0] == 421

    visit(story)


def test_where_others_may_ask_they_may_do_so_by_any_name() -> None:
    async def story(visitor: Visitor) -> None:
        assert (await visitor.get("/metrics", Host="worker:8080"))[0] == 200

    visit(story, ANYWHERE)


def test_the_page_is_html_and_runs_its_own_script_and_no_other() -> None:
    async def story(visitor: Visitor) -> None:
        async with visitor.session.get(visitor.url("/")) as answer:
            html, policy = await answer.text(), answer.headers["Content-Security-Policy"]
            assert answer.content_type == "text/html"
        for kind in ("script", "style"):
            (own,) = re.findall(rf"<{kind}>(.*?)</{kind}>", html, re.S)
            digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
            assert f"{kind}-src 'sha256-{digest}';" in policy
        assert "unsafe" not in policy

    visit(story)


@pytest.mark.parametrize("path", ["/", "/facts", "/rebuild", "/rebuild/cancel"])
def test_nothing_can_be_asked_for_but_to_read(path: str) -> None:
    async def story(visitor: Visitor) -> None:
        assert (await visitor.post(path, '{"shard": 0}'))[0] in (404, 405)

    visit(story)


def test_only_what_is_named_is_served() -> None:
    async def story(visitor: Visitor) -> None:
        for path in ("/events", "/page/", "/page.html", "/%2e%2e/server.py", "/..%2fserver.py", "//etc/hostname"):
            assert (await visitor.get(path))[0] == 404

    visit(story)


def test_an_error_that_nobody_foresaw_is_told_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> dict[str, Any]:
        raise KeyError(CANARY)

    async def story(visitor: Visitor) -> None:
        visitor.facts = failing
        status, body = await visitor.get("/facts")
        assert (status, CANARY in body) == (500, False)

    with caplog.at_level(logging.DEBUG):
        visit(story)
    assert "/facts was not answered: KeyError" in caplog.text
    assert CANARY not in caplog.text


def test_what_somebody_sent_as_a_path_is_not_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def story(visitor: Visitor) -> None:
        assert (await visitor.get(f"/{CANARY}%0aERROR{'x' * 300}"))[0] == 404

    with caplog.at_level(logging.DEBUG):
        visit(story)
    assert CANARY not in caplog.text


@pytest.mark.parametrize(
    ("headers", "body"), [({"Accept": "\udcff\udcfe"}, b""), ({"Content-Encoding": "gzip"}, b"no gzip")]
)
def test_bytes_that_are_no_text_harm_nobody(
    caplog: pytest.LogCaptureFixture, headers: dict[str, str], body: bytes
) -> None:
    async def story(visitor: Visitor) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", visitor.port)
        lines = [f"{name}: {value}" for name, value in {"Host": "127.0.0.1", **headers}.items()]
        head = "\r\n".join(["GET /facts HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""])
        writer.write(head.encode("utf-8", "surrogateescape") + body)
        assert (await reader.readline()).split()[1] in (b"200", b"400")
        writer.close()

    visit(story)
    assert "was not answered" not in caplog.text


# -- connections --------------------------------------------------------------------------------------------------

ARRIVES_SECONDS_MAX = 60.0
QUESTION = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Wires = Callable[[Callable[[], Awaitable[Wire]]], Awaitable[None]]


def connect(story: Wires) -> None:
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
    monkeypatch.setattr("agents.web.server.CONNECTIONS_MAX", 3)

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

    connect(story)


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: 127"], ids=["nothing", "half a request"])
def test_a_connection_that_asks_nothing_is_ended(monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    monkeypatch.setattr("agents.web.server.SILENT_SECONDS_MAX", 0.1)

    async def story(opened: Callable[[], Awaitable[Wire]]) -> None:
        assert await said(await opened(), begun) == b""

    connect(story)


def test_of_what_is_no_http_the_log_has_one_line_without_a_word_of_it(caplog: pytest.LogCaptureFixture) -> None:
    wrong = [
        f"GET / HTTP/1.1\r\nHost: a\r\nX-Token: {CANARY * 2000}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: {CANARY}\r\nHost: {CANARY}\r\n\r\n",
        f"{CANARY}\r\n\r\n",
    ]

    async def story(opened: Callable[[], Awaitable[Wire]]) -> None:
        for question in wrong * 5:
            assert b" 400 " in await said(await opened(), question.encode())

    with caplog.at_level(logging.DEBUG, "aiohttp"):
        connect(story)
    lines = [line for line in caplog.records if line.name == "aiohttp.server"]
    assert 0 < len(lines) < len(wrong)
    assert all(line.levelname == "WARNING" and not line.exc_info for line in lines)
    assert CANARY not in caplog.text
    assert "\n" not in lines[0].getMessage()
