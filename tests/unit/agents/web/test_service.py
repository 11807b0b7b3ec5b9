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
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import ClientSession

from agents.diary import Diary
from agents.web.rebuild_requests import Wanted
from agents.web.service import Web
from agents.worker_settings import WorkerSettings
from streamer.cli.options import JSON
from streamer.cli.web_address import Address
from streamer.errors import ServerUnreachable
from streamer.incremental.store.rebuild import Progress, Rebuild
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS
from worlds.worker_facts import WELL, worker

SETTINGS = WorkerSettings(load_table(PATIENTS), "127.0.0.1:1", "redis://127.0.0.1:1/0", name="here:1")

HERE = Address("127.0.0.1", 0)


def no_shard() -> Any:
    """A reader that was given none."""
    return SimpleNamespace(held=[], joined=True, diaries=defaultdict(Diary), consumer=None)


def tell(
    story: Callable[[Web], Awaitable[None]],
    settings: WorkerSettings = SETTINGS,
    address: Address = HERE,
    reader: Any = None,
) -> None:
    async def told() -> None:
        web = Web(settings, address, cast(Any, reader or no_shard()))
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


def test_it_says_where_it_listens_and_its_token_stands_in_no_log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async def story(web: Web) -> None:
        assert (await asked(f"{url_in(caplog.text)}/ready"))[0] == 200
        status, facts = await asked(f"{url_in(caplog.text)}/facts")
        assert (status, '"table":"patients"' in facts) == (200, True)

    with caplog.at_level(logging.DEBUG):
        tell(story)
    said = capfd.readouterr().err
    token = re.search(r"token for rebuilds from the page: (\S+)", said)
    assert token is not None
    assert token[1] not in caplog.text
    assert "other machines" not in caplog.text


def test_the_token_is_an_object_where_the_log_has_objects(capfd: pytest.CaptureFixture[str]) -> None:
    async def story(web: Web) -> None: ...

    tell(story, replace(SETTINGS, log_format=JSON))
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "token" in line]
    assert re.search(r"token for rebuilds from the page: \S+ ", json.loads(line)["message"])


def test_a_token_that_an_operator_chose_is_not_said_at_all(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async def story(web: Web) -> None: ...

    with caplog.at_level(logging.DEBUG):
        tell(story, replace(SETTINGS, web_token="chosen"))
    assert "chosen" not in caplog.text + capfd.readouterr().err + repr(replace(SETTINGS, web_token="chosen"))


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
    monkeypatch.setattr("agents.web.table_look.look", hanging)

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


def test_rebuilds_that_are_to_end_are_said_to_be_until_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.web.service.send", lambda *_: None)
    running = {number: Progress(Rebuild(f"id-{number}", "ordered", 1, 1), 4) for number in (0, 1)}

    async def story(web: Web) -> None:
        def shards() -> Any:
            return tuple(replace(WELL, shard=number, rebuild=rebuild) for number, rebuild in running.items())

        monkeypatch.setattr(web, "facts", lambda: worker(*shards()))

        def cancelling() -> list[bool]:
            return [one["rebuild"]["cancelling"] for one in json.loads(web._page_facts())["shards"]]

        await web._ask(Wanted(0), True)
        assert cancelling() == [True, False]
        await web._ask(Wanted(1), True)
        assert cancelling() == [True, True]

    tell(story)


def test_a_request_that_hangs_takes_no_thread_of_a_shards_and_is_known_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goes_on, begun = threading.Event(), threading.Event()

    def hanging(*_: Any) -> None:
        begun.set()
        goes_on.wait(60)

    monkeypatch.setattr("agents.web.service.send", hanging)

    async def story(web: Web) -> None:
        asking = [asyncio.ensure_future(web._ask(Wanted(), False)) for _ in range(100)]
        await asyncio.to_thread(begun.wait, 60)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "at once"), 30) == "at once"
        assert web.busy
        await web.stop()
        goes_on.set()
        await asyncio.gather(*asking, return_exceptions=True)

    tell(story)
