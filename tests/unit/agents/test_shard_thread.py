"""A shard's thread: its order, its limit of time, and what of an error gets out of it."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections.abc import Callable

import pytest

from agents.shard_thread import EXIT_HUNG, ComputeLock, Cpu, ShardThread, Unexpected
from streamer.errors import Conflict
from worlds.patients import CANARY
from worlds.workers import wait_until


def thread(turn: threading.Lock | None = None) -> ShardThread:
    return ShardThread(7, "shard 7 of people", ComputeLock(turn or threading.Lock()))


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    codes: list[int] = []
    monkeypatch.setattr("agents.shard_thread.end_process", lambda code, why: codes.append(code))
    return codes


def test_what_it_runs_runs_in_one_thread_that_is_named_for_the_shard() -> None:
    async def twice() -> list[str]:
        its = thread()
        return [await its.run(lambda: threading.current_thread().name, 5) for _ in range(2)]

    assert asyncio.run(twice()) == ["shard-7_0"] * 2


def test_an_error_of_ours_comes_out_as_it_is() -> None:
    def conflict() -> None:
        raise Conflict("made anew")

    with pytest.raises(Conflict, match="made anew"):
        asyncio.run(thread().run(conflict, 5))


def test_the_text_of_an_unforeseen_error_stays_inside() -> None:
    def fail_with_a_value() -> None:
        raise KeyError(CANARY)

    with pytest.raises(Unexpected, match=r"shard 7 of people: unexpected KeyError in test_shard_thread\.py") as caught:
        asyncio.run(thread().run(fail_with_a_value, 5))
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_waiting_for_other_shards_of_the_same_worker_is_not_taken_for_a_hang(ended: list[int]) -> None:
    """Before: seven shards that ran one large statement, one after the other, ended the process."""
    shared = threading.Lock()
    turn = ComputeLock(shared)

    def compute() -> str:
        with turn:
            return "done"

    async def wait() -> str:
        shared.acquire()
        asyncio.get_running_loop().call_later(1.5, shared.release)
        return await ShardThread(7, "shard 7", turn).run(compute, 0.3)

    assert (asyncio.run(wait()), ended) == ("done", [])


def test_a_call_that_hangs_ends_the_process(ended: list[int]) -> None:
    go_on = threading.Event()

    async def hang() -> bool:
        its = thread()
        with pytest.raises(Unexpected):
            await its.run(lambda: go_on.wait(10), 0.05)
        was_busy = its.busy
        go_on.set()
        its.close(lambda: None)
        return was_busy

    assert asyncio.run(hang()), "nobody waits for the call any more, but its thread is at work"
    assert ended == [EXIT_HUNG]


def test_a_call_that_fails_by_a_timeout_of_its_own_does_not_hang(ended: list[int]) -> None:
    def fail_by_a_timeout() -> None:
        raise TimeoutError

    with pytest.raises(Unexpected):
        asyncio.run(thread().run(fail_by_a_timeout, 5))
    assert ended == []


def test_what_is_to_come_last_comes_behind_the_call_it_is_in() -> None:
    came: list[str] = []

    async def give_back() -> None:
        its = thread()
        await its.run(lambda: came.append("work"), 5)
        its.close(lambda: came.append("last"))
        its.join()

    asyncio.run(give_back())
    assert came == ["work", "last"]


def test_what_a_call_computes_counts_outside_of_its_turn_too_and_what_it_waits_for_does_not() -> None:
    """Before: bytes for the servers, and compiled code, were no computing, and a large statement was standing still."""

    async def after(work: Callable[[], None]) -> tuple[float, float]:
        its, done, goes_on = thread(), threading.Event(), threading.Event()

        def call() -> None:
            work()
            done.set()
            goes_on.wait(30)

        running = asyncio.ensure_future(its.run(call, 1000))
        assert await asyncio.to_thread(done.wait, 30)
        seen = its.computing_seconds, its.busy_seconds
        goes_on.set()
        await running
        return seen

    def computes() -> None:
        until = time.thread_time() + 0.3
        while time.thread_time() < until:
            pass

    computing, _ = asyncio.run(after(computes))
    assert computing >= 0.3
    computing, busy = asyncio.run(after(lambda: time.sleep(0.3)))
    assert computing < busy / 2


def test_a_thread_that_has_ended_meanwhile_computes_nothing() -> None:
    counted: list[Cpu] = []
    its = threading.Thread(target=lambda: counted.append(Cpu()))
    its.start()
    its.join()  # which returns a moment before the system's thread has ended
    wait_until(lambda: counted[0].seconds <= 0, 5, lambda: f"{counted[0].seconds} s of a thread that has ended")


def test_how_long_it_is_in_one_call_is_told_without_what_it_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("agents.shard_thread.monotonic", lambda: now[0])
    shared, begun, goes_on = threading.Lock(), threading.Event(), threading.Event()
    turn = ComputeLock(shared)
    its = ShardThread(7, "shard 7 of people", turn)

    def compute() -> None:
        begun.set()
        with turn:
            goes_on.wait(30)

    def waits() -> bool:
        return turn._waiting_since is not None

    def seconds() -> tuple[float, float]:
        return its.busy_seconds, its.computing_seconds

    async def told() -> list[tuple[float, float]]:
        shared.acquire()
        call = asyncio.ensure_future(its.run(compute, 1000))
        assert await asyncio.to_thread(begun.wait, 30)
        while not waits():
            await asyncio.sleep(0.01)
        now[0] += 50
        seen = [seconds()]
        shared.release()
        while waits() or not turn._waited:
            await asyncio.sleep(0.01)
        now[0] += 7
        seen.append(seconds())
        goes_on.set()
        await call
        return [*seen, seconds()]

    wanted = [(0.0, 50.0), (7.0, 57.0), (0.0, 0.0)]
    assert asyncio.run(told()) == [pytest.approx(one, abs=1) for one in wanted], "it computes for a moment, really"
