"""Who is answered what over HTTP, and what every answer carries."""

from __future__ import annotations

import asyncio
import logging
import tomllib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientSession, web

from agents.web.rebuild_requests import TOKEN_HEADER, Wanted
from agents.web.server import LISTENERS_MAX, Answers, web_app
from streamer.cli.web_address import Address
from streamer.errors import ServerUnreachable, StreamerError, UsageError
from worlds.checkout import ROOT
from worlds.patients import CANARY

TOKEN = "the token"
HERE, ANYWHERE = Address("127.0.0.1", 0), Address("0.0.0.0", 0)
HAS_TOKEN = {TOKEN_HEADER: TOKEN}

Story = Callable[["Visitor"], Awaitable[None]]


class Visitor:
    """Asks a server that listens on this machine; asked: what it was asked to do."""

    def __init__(self, session: ClientSession, port: int) -> None:
        self.asked: list[tuple[Wanted, bool]] = []
        self.failure: StreamerError | None = None
        self.reasons: list[str] = []
        self.page_facts: Callable[[], bytes] = lambda: b'{"rows":1}'
        self.stopping = asyncio.Event()
        self.session, self.port = session, port

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.session.get(self.url(path), headers=headers) as answer:
            return answer.status, await answer.text()

    async def post(self, path: str, body: str = "{}", **headers: str) -> tuple[int, str]:
        async with self.session.post(self.url(path), data=body, headers=headers) as answer:
            return answer.status, await answer.text()

    async def ask(self, wanted: Wanted, cancel: bool) -> None:
        if self.failure is not None:
            raise self.failure
        self.asked.append((wanted, cancel))

    def answers(self) -> Answers:
        return Answers(
            metrics=lambda: b"streamer_rows 1\n",
            reasons=lambda: self.reasons,
            waits_for=lambda: self.reasons,
            page_facts=lambda: self.page_facts(),
            ask=self.ask,
            stopping=self.stopping,
        )

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


def visit(story: Story, address: Address = HERE) -> None:
    """A story with a server that stands while it lasts."""

    async def told() -> None:
        async with ClientSession() as session:
            visitor = Visitor(session, 0)
            runner = web.AppRunner(web_app(address, TOKEN, visitor.answers()), shutdown_timeout=0.1)
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                visitor.port = runner.addresses[0][1]
                await story(visitor)
            finally:
                visitor.stopping.set()
                await runner.cleanup()

    asyncio.run(told())


@pytest.mark.parametrize("path", ["/", "/facts", "/metrics", "/health", "/nowhere", "/page/index.html"])
def test_every_answer_forbids_scripts_of_others_guesses_and_copies(path: str) -> None:
    async def story(visitor: Visitor) -> None:
        async with visitor.session.get(visitor.url(path)) as answer:
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'self';")
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
        assert (await visitor.post("/rebuild", Host="rebound.example", **HAS_TOKEN))[0] == 421
        assert visitor.asked == []

    visit(story)


def test_where_others_may_ask_they_may_do_so_by_any_name() -> None:
    async def story(visitor: Visitor) -> None:
        assert (await visitor.get("/metrics", Host="worker:8080"))[0] == 200

    visit(story, ANYWHERE)


def test_a_rebuild_needs_the_token_and_no_page_of_another_site() -> None:
    async def story(visitor: Visitor) -> None:
        assert (await visitor.post("/rebuild"))[0] == 403
        assert (await visitor.post("/rebuild", **{TOKEN_HEADER: "another"}))[0] == 403
        assert (await visitor.post("/rebuild", Origin="http://elsewhere.example", **HAS_TOKEN))[0] == 403
        assert (await visitor.post("/rebuild", Origin="null", **HAS_TOKEN))[0] == 403
        assert visitor.asked == []
        body = '{"shard":1,"algorithm":"mondrian"}'
        assert await visitor.post("/rebuild", body, **HAS_TOKEN) == (202, '{"asked":true}')
        own = f"http://127.0.0.1:{visitor.port}"
        assert (await visitor.post("/rebuild/cancel", Origin=own, **HAS_TOKEN))[0] == 202
        assert visitor.asked == [(Wanted(1, "mondrian"), False), (Wanted(), True)]

    visit(story)


def test_nothing_is_changed_by_a_get() -> None:
    async def story(visitor: Visitor) -> None:
        for path in ("/rebuild", "/rebuild/cancel"):
            assert (await visitor.get(path, **HAS_TOKEN))[0] == 405
        assert visitor.asked == []

    visit(story)


@pytest.mark.parametrize(
    ("failure", "status"), [(UsageError("shard 9: ..."), 400), (ServerUnreachable("Kafka at a:1: ..."), 503)]
)
def test_why_a_rebuild_cannot_be_asked_for_is_told(failure: StreamerError, status: int) -> None:
    async def story(visitor: Visitor) -> None:
        visitor.failure = failure
        assert await visitor.post("/rebuild", **HAS_TOKEN) == (status, f'{{"error":"{failure}"}}')

    visit(story)


def test_a_body_that_is_too_large_or_no_request_is_refused() -> None:
    async def story(visitor: Visitor) -> None:
        assert (await visitor.post("/rebuild", "x", **HAS_TOKEN))[0] == 400
        assert (await visitor.post("/rebuild", "x" * 100_000, **HAS_TOKEN))[0] == 413
        assert visitor.asked == []

    visit(story)


def test_only_the_pages_own_files_are_served() -> None:
    async def story(visitor: Visitor) -> None:
        assert (await visitor.get("/"))[0] == (await visitor.get("/page/index.html"))[0] == 200
        for path in ("/page/", "/page/%2e%2e/server.py", "/page/..%2fserver.py", "/page//etc/hostname"):
            assert (await visitor.get(path))[0] in (403, 404)

    visit(story)


def test_an_error_that_nobody_foresaw_is_told_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> bytes:
        raise KeyError(CANARY)

    async def story(visitor: Visitor) -> None:
        visitor.page_facts = failing
        status, body = await visitor.get("/facts")
        assert (status, CANARY in body) == (500, False)

    with caplog.at_level(logging.DEBUG):
        visit(story)
    assert "/facts was not answered: KeyError" in caplog.text
    assert CANARY not in caplog.text


def test_the_log_names_a_path_of_ours_and_not_what_somebody_sent(caplog: pytest.LogCaptureFixture) -> None:
    async def story(visitor: Visitor) -> None:
        too_long = "x" * 300  # of no file system
        assert (await visitor.get(f"/page/{CANARY}%0aERROR{too_long}"))[0] == 500

    visit(story)
    assert "/page was not answered: OSError" in caplog.text
    assert CANARY not in caplog.text


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({TOKEN_HEADER: "\udcff\udcfe"}, b"{}", 403),
        (HAS_TOKEN, b'{"algorithm": "\xff"}', 400),
        (HAS_TOKEN | {"Content-Encoding": "gzip"}, b"no gzip", 400),
    ],
    ids=["token", "text", "compressed"],
)
def test_bytes_that_are_no_text_are_the_askers_fault(
    caplog: pytest.LogCaptureFixture, headers: dict[str, str], body: bytes, status: int
) -> None:
    async def story(visitor: Visitor) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", visitor.port)
        lines = [f"{name}: {value}" for name, value in {"Host": "127.0.0.1", **headers}.items()]
        head = "\r\n".join(["POST /rebuild HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""])
        writer.write(head.encode("utf-8", "surrogateescape") + body)
        assert (await reader.readline()).split()[1] == str(status).encode()
        writer.close()
        assert visitor.asked == []

    visit(story)
    assert "was not answered" not in caplog.text


async def first_line(answer: Any) -> str:
    return (await answer.content.readline()).decode()


def test_a_page_gets_an_object_at_once_and_more_until_the_worker_ends() -> None:
    async def story(visitor: Visitor) -> None:
        async with visitor.session.get(visitor.url("/events")) as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            for _ in range(2):
                assert (await first_line(answer), await first_line(answer)) == ('data: {"rows":1}\n', "\n")
            visitor.stopping.set()
            await asyncio.wait_for(answer.content.read(), 30)

    visit(story)


def test_so_many_pages_are_open_and_no_more_and_one_that_goes_makes_room() -> None:
    async def story(visitor: Visitor) -> None:
        listening = [await visitor.session.get(visitor.url("/events")) for _ in range(LISTENERS_MAX)]
        assert (await visitor.get("/events"))[0] == 503
        for answer in listening:
            answer.close()
        status = 503
        for _ in range(300):
            async with visitor.session.get(visitor.url("/events")) as answer:
                status = answer.status
            if status == 200:
                break
            await asyncio.sleep(0.1)
        assert status == 200

    visit(story)


def test_a_listener_that_does_not_read_loses_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.web.server.UNREAD_SECONDS_MAX", 0.1)
    monkeypatch.setattr("agents.web.server.LISTENERS_MAX", 1)

    async def story(visitor: Visitor) -> None:
        visitor.page_facts = lambda: b"x" * 20_000_000  # more than lies between two sockets
        reader, writer = await asyncio.open_connection("127.0.0.1", visitor.port, limit=1)
        writer.write(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert await reader.readexactly(8) == b"HTTP/1.1"
        visitor.page_facts = lambda: b"{}"
        status = 503
        for _ in range(600):
            async with visitor.session.get(visitor.url("/events")) as answer:
                status = answer.status
            if status == 200:
                break
            await asyncio.sleep(0.1)
        assert status == 200
        writer.close()

    visit(story)


def test_a_page_that_is_closed_is_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    written = asyncio.Event()

    async def story(visitor: Visitor) -> None:
        answer = await visitor.session.get(visitor.url("/events"))
        await first_line(answer)

        def noted() -> bytes:
            written.set()
            return b"{}"

        visitor.page_facts = noted
        answer.close()
        for _ in range(600):
            if written.is_set():  # to a page that has gone
                break
            await asyncio.sleep(0.1)
        assert written.is_set()

    visit(story)
    assert caplog.records == []


def test_the_pages_files_are_part_of_what_is_installed() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["agents.web"]
    folder = ROOT / "agents" / "web"
    missing = [
        file.name
        for file in (folder / "page").iterdir()
        if not any(file.relative_to(folder).match(pattern) for pattern in patterns)
    ]
    assert missing == []
