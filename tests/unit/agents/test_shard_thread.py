"""A shard's thread: its order, its limit of time, and what of an error gets out of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable

import pytest

from agents import shard_thread
from agents.shard_thread import EXIT_HUNG, ComputeLock, Cpu, ShardThread, Unexpected
from streamer.errors import Conflict
from worlds.checkout import ROOT
from worlds.patients import CANARY
from worlds.workers import wait_until


def thread(compute_lock: ComputeLock | None = None) -> ShardThread:
    return ShardThread(7, "shard 7 of people", compute_lock or ComputeLock(threading.Lock()))


async def test_what_it_runs_runs_in_one_thread_that_is_named_for_the_shard() -> None:
    its = thread()
    assert [await its.run(lambda: threading.current_thread().name, 5) for _ in range(2)] == ["shard-7_0"] * 2


async def test_an_error_of_ours_comes_out_as_it_is() -> None:
    def conflict() -> None:
        raise Conflict("recreated")

    with pytest.raises(Conflict, match="recreated"):
        await thread().run(conflict, 5)


async def test_the_text_of_an_unforeseen_error_stays_inside() -> None:
    def fail_with_a_value() -> None:
        raise KeyError(CANARY)

    with pytest.raises(Unexpected, match=r"shard 7 of people: unexpected KeyError in test_shard_thread\.py") as caught:
        await thread().run(fail_with_a_value, 5)
    assert CANARY not in "".join(traceback.format_exception(caught.value))


async def test_waiting_for_other_shards_of_the_same_worker_is_not_taken_for_a_hang() -> None:
    """Before: seven shards that ran one large statement, one after the other, ended the process."""
    shared = threading.Lock()
    lock = ComputeLock(shared)

    def compute() -> str:
        with lock:
            return "done"

    shared.acquire()
    asyncio.get_running_loop().call_later(1.5, shared.release)
    assert await thread(lock).run(compute, 0.3) == "done"


def test_a_call_that_hangs_ends_the_process() -> None:
    hangs = (
        "import asyncio, threading, time; from agents.shard_thread import ComputeLock, ShardThread;"
        "its = ShardThread(7, 'shard 7 of people', ComputeLock(threading.Lock()));"
        "asyncio.run(its.run(lambda: time.sleep(60), 0.05))"
    )
    done = subprocess.run([sys.executable, "-c", hangs], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == EXIT_HUNG
    assert "shard 7 of people: a call did not end within 0 s" in done.stderr


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Why the process would have ended."""
    ends: list[str] = []
    monkeypatch.setattr(shard_thread, "end_process", lambda code, why: ends.append(why))
    return ends


async def test_a_call_that_hangs_ends_the_process_after_its_limit(ends: list[str]) -> None:
    goes_on = threading.Event()
    its = ShardThread(7, "shard 7 of people", ComputeLock(threading.Lock()))
    with pytest.raises(Unexpected, match="TimeoutError"):
        await its.run(lambda: goes_on.wait(30), 0.4)
    assert ends == ["shard 7 of people: a call did not end within 0 s"]
    assert its.busy_seconds >= 0.4
    goes_on.set()


async def test_a_thread_is_busy_with_a_call_that_its_caller_has_abandoned() -> None:
    goes_on, its = threading.Event(), thread()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(its.run(lambda: goes_on.wait(30), 60), 0.05)
    was_busy = its.busy
    goes_on.set()
    its.close(lambda: None)
    assert was_busy


async def test_a_call_that_fails_by_a_timeout_of_its_own_does_not_hang() -> None:
    def fail_by_a_timeout() -> None:
        raise TimeoutError

    with pytest.raises(Unexpected):
        await thread().run(fail_by_a_timeout, 5)


async def test_the_last_call_comes_after_the_one_that_is_running() -> None:
    came, its = list[str](), thread()
    await its.run(lambda: came.append("work"), 5)
    its.close(lambda: came.append("last"))
    its.join()
    assert came == ["work", "last"]


def test_what_a_call_computes_counts_without_the_lock_too_and_what_it_waits_for_does_not() -> None:
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


def test_a_call_is_busy_without_the_time_in_which_it_waits_for_the_lock() -> None:
    shared, begun, goes_on = threading.Lock(), threading.Event(), threading.Event()
    lock = ComputeLock(shared)
    its = thread(lock)

    def compute() -> None:
        begun.set()
        with lock:
            goes_on.wait(30)

    def figures() -> tuple[float, float]:
        return its.busy_seconds, its.computing_seconds

    async def story() -> list[tuple[float, float]]:
        shared.acquire()
        call = asyncio.ensure_future(its.run(compute, 1000))
        assert await asyncio.to_thread(begun.wait, 30)
        seen = [figures()]
        while lock.seconds_waited < 1:
            await asyncio.sleep(0.01)
        seen.append(figures())
        shared.release()
        while lock.seconds_computed < 0.5:
            await asyncio.sleep(0.01)
        seen.append(figures())
        goes_on.set()
        await call
        return [*seen, figures()]

    begin, waiting, computing, end = asyncio.run(story())
    assert waiting[0] - begin[0] < 0.9 < 1 <= waiting[1]
    assert computing[0] - begin[0] >= 0.5
    assert computing[1] >= 1.5
    assert end == (0.0, 0.0)


# -- the lock that the shards of a worker share -------------------------------------------------------------------


def test_waiting_and_computing_are_counted_apart() -> None:
    shared = threading.Lock()
    lock = ComputeLock(shared)
    for computed in (0.05, 0.1):
        shared.acquire()
        threading.Timer(0.05, shared.release).start()
        with lock:
            time.sleep(0.05)
            assert lock.seconds_computed >= computed, "also while it computes"
    waited, computed = lock.seconds_waited, lock.seconds_computed
    assert waited >= 0.09
    time.sleep(0.05)
    assert (lock.seconds_waited, lock.seconds_computed) == (waited, computed)


def test_the_lock_is_released_after_an_error_too() -> None:
    shared = threading.Lock()
    with pytest.raises(KeyError), ComputeLock(shared):
        assert shared.locked()
        raise KeyError
    assert not shared.locked()
