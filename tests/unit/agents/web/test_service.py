"""The service that answers: where it listens, what it says at its start, and that it cannot harm the worker."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import ClientSession

from agents.diary import Diary
from agents.web.service import Web
from agents.worker_settings import WorkerSettings
from streamer.cli.web_address import Address
from streamer.errors import ServerUnreachable
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS

SETTINGS = WorkerSettings(load_table(PATIENTS), "127.0.0.1:1", "redis://127.0.0.1:1/0", name="here:1")

HERE = Address("127.0.0.1", 0)


def no_shard() -> Any:
    """A reader that was given none."""
    return SimpleNamespace(held=[], joined=True, diaries=defaultdict(Diary), consumer=None)


def tell(
    story: Callable[[Web], Awaitable[None]],
    address: Address = HERE,
    reader: Any = None,
) -> None:
    async def told() -> None:
        web = Web(SETTINGS, address, cast(Any, reader or no_shard()))
        await web.start()
        try:
            await story(web)
        finally:
            await web.stop()

    with asyncio.Runner() as runner:
        runner.run(told())


def url_in(log: str) -> str:
    found = re.search(r"http://\S+", log)
    assert found is not None, log
    return found[0].rstrip(",")


async def asked(url: str) -> tuple[int, Any]:
    async with ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


def test_it_says_where_it_listens_and_answers_there(caplog: pytest.LogCaptureFixture) -> None:
    async def story(web: Web) -> None:
        url = url_in(caplog.text)
        assert (await asked(f"{url}/ready"))[0] == (await asked(f"{url}/health"))[0] == 200
        status, facts = await asked(f"{url}/facts")
        assert (status, '"table":"patients"' in facts) == (200, True)
        status, page = await asked(url)
        assert status == 200
        assert "Everything works" in page and "None: Kafka has not given any shard yet." in page

    with caplog.at_level(logging.DEBUG):
        tell(story)
    assert "other machines" not in caplog.text


def test_an_address_that_others_can_reach_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def story(web: Web) -> None: ...

    tell(story, address=Address("0.0.0.0", 0))
    assert [line.levelname for line in caplog.records if "other machines" in line.getMessage()] == ["WARNING"]


def test_an_address_that_cannot_be_had_ends_the_worker_with_the_reason() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        async def story(web: Web) -> None:
            assert str(web.failure).startswith(f"--web 127.0.0.1:{port}: ")

        tell(story, address=Address("127.0.0.1", port))


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "nowhere.invalid"])
def test_a_host_that_is_none_ends_the_worker_with_the_reason(host: str) -> None:
    async def story(web: Web) -> None:
        assert str(web.failure).startswith(f"--web {host}:80: ")

    tell(story, address=Address(host, 80))


def test_a_shard_that_cannot_be_looked_at_ends_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.web.service.SAMPLE_SECONDS", 0.01)

    async def story(web: Web) -> None:
        for _ in range(1000):
            if caplog.text.count("could not be looked at") > 1:
                break
            await asyncio.sleep(0.01)
        assert caplog.text.count("could not be looked at") > 1
        assert (await asked(f"{url_in(caplog.text)}/metrics"))[0] == 500
        assert not web.crashed

    with caplog.at_level(logging.INFO):
        tell(story, reader=SimpleNamespace(held=[object()], joined=True, diaries={}, consumer=None))


def test_a_look_at_the_table_that_hangs_stops_neither_answers_nor_the_history(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, looks = threading.Event(), []

    def hanging(*where: Any) -> Any:
        looks.append(where)
        goes_on.wait(60)
        raise ServerUnreachable("Kafka at a:1: no answer")

    monkeypatch.setattr("agents.web.service.SAMPLE_SECONDS", 0.01)
    monkeypatch.setattr("agents.web.watch.look", hanging)

    async def story(web: Web) -> None:
        url, seen = f"{url_in(caplog.text)}/facts", 0
        for _ in range(1000):
            status, body = await asked(url)
            assert status == 200
            seen = len(json.loads(body)["history"])
            if looks and seen > 20:
                break
            await asyncio.sleep(0.01)
        assert (len(looks), seen > 20, web.busy) == (1, True, True)
        goes_on.set()

    with caplog.at_level(logging.INFO):
        tell(story)
