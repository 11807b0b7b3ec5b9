"""A worker's end: it waits for no call that hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from threading import Event
from time import monotonic

import pytest

from agents.app import Calls, run
from streamer.cli.support.signals import terminated_in_order
from streamer.errors import ServerUnreachable
from streamer.uninterrupted import abandoned, told_to_end

SILENT_SECONDS = 30


class Server:
    """Answers once it may."""

    def __init__(self) -> None:
        self.asked, self.may_answer = Event(), Event()

    def answer(self) -> None:
        self.asked.set()
        self.may_answer.wait(SILENT_SECONDS)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.may_answer.set()
    abandoned.clear()


async def ended_by_an_error(server: Server) -> None:
    """Asks a server, and ends before it has been given the answer."""
    asyncio.get_running_loop().set_default_executor(Calls())
    await asyncio.to_thread(len, "a call that has ended")
    asked = asyncio.ensure_future(asyncio.to_thread(server.answer))
    while not server.asked.is_set():
        await asyncio.sleep(0.001)
    asked.cancel()
    raise ServerUnreachable("Redis does not answer")


def test_an_error_ends_a_worker_although_a_server_is_silent(server: Server) -> None:
    began = monotonic()
    with pytest.raises(ServerUnreachable):
        asyncio.run(ended_by_an_error(server))
    assert monotonic() - began < SILENT_SECONDS / 2
    assert abandoned.is_set()


def test_the_process_ends_in_order_if_every_call_has_ended(server: Server) -> None:
    server.may_answer.set()
    with suppress(ServerUnreachable):
        asyncio.run(ended_by_an_error(server))
    assert not abandoned.is_set()
    with pytest.raises(SystemExit), terminated_in_order():
        raise SystemExit(3)


def test_a_worker_does_not_start_if_a_library_has_lost_the_signal_to_end() -> None:
    told_to_end.set()
    try:
        asyncio.run(run(None))  # type: ignore[arg-type]  # of whose settings nothing is read
    finally:
        told_to_end.clear()
