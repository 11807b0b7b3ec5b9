"""A worker's outboxes are trimmed in the background, for which nobody waits, and whose failures stop nothing."""

from __future__ import annotations

from threading import Event

import pytest

from agents.servers import WorkerStore
from streamer.errors import Fenced
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.kafka.background import Background
from worlds.workers import wait_until


def test_outboxes_are_trimmed_in_turn_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    trims, may, done = Background("trims"), Event(), list[int]()

    def trim(_store: RedisStore, _fence: str, commit: int) -> None:
        may.wait(60)
        done.append(commit)

    monkeypatch.setattr(RedisStore, "trim", trim)
    store = WorkerStore(connect("redis://127.0.0.1:1/0"), "mine", 0, trims)
    assert not trims.busy
    store.trim("fence", 1)
    store.trim("fence", 2)
    assert (trims.busy, done) == (True, [])
    may.set()
    wait_until(lambda: not trims.busy, 10, lambda: "a trim is still running")
    assert done == [1, 2]
    trims.close()


def test_a_trim_that_fails_or_comes_too_late_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    trims, done = Background("trims"), list[int]()

    def trim(_store: RedisStore, _fence: str, commit: int) -> None:
        if commit == 1:
            raise Fenced("another worker has it")
        done.append(commit)

    monkeypatch.setattr(RedisStore, "trim", trim)
    store = WorkerStore(connect("redis://127.0.0.1:1/0"), "mine", 0, trims)
    store.trim("fence", 1)
    store.trim("fence", 2)
    wait_until(lambda: not trims.busy, 10, lambda: "a trim is still running")
    trims.close()
    store.trim("fence", 3)
    assert done == [2]
