"""A worker's outboxes are trimmed by a thread of its own, for which nobody waits, and whose failures stop nothing."""

from __future__ import annotations

from threading import Event

from agents.servers import Trims
from streamer.errors import Fenced
from worlds.workers import wait_until


def test_outboxes_are_trimmed_in_turn_and_nobody_waits() -> None:
    trims, may, done = Trims(), Event(), list[int]()
    assert not trims.busy
    trims.submit(lambda: done.append(int(may.wait(60))))
    trims.submit(lambda: done.append(2))
    assert (trims.busy, done) == (True, [])
    may.set()
    wait_until(lambda: not trims.busy, 10, lambda: "a trim is still running")
    assert done == [1, 2]
    trims.close()


def test_a_trim_that_fails_or_comes_too_late_stops_nothing() -> None:
    def fail() -> None:
        raise Fenced("another worker has it")

    trims, done = Trims(), list[int]()
    trims.submit(fail)
    trims.submit(lambda: done.append(1))
    wait_until(lambda: not trims.busy, 10, lambda: "a trim is still running")
    trims.close()
    trims.submit(lambda: done.append(2))
    assert done == [1]
