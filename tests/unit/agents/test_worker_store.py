"""A worker's outboxes are trimmed in the background, for which nobody waits, and whose failures stop nothing."""

from __future__ import annotations

from threading import Event

import pytest

from agents import servers
from agents.servers import WorkerStore
from streamer.errors import Fenced
from streamer.incremental.store.redis import RedisStore
from streamer.incremental.store.redis_server import connect
from streamer.kafka.background import Background
from worlds.workers import wait_until


def test_an_outbox_is_trimmed_up_to_the_newest_commit_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    trims, begun, may, done = Background("trims"), Event(), Event(), list[int]()

    def trim(_store: RedisStore, _fence: str, commit: int) -> None:
        begun.set()
        may.wait(60)
        done.append(commit)

    monkeypatch.setattr(RedisStore, "trim", trim)
    store = WorkerStore(connect("redis://127.0.0.1:1/0"), "mine", 0, trims, Event())
    assert not trims.busy
    store.trim("fence", 1)
    assert begun.wait(10)
    store.trim("fence", 2)
    store.trim("fence", 3)
    assert (trims.busy, done) == (True, [])
    may.set()
    wait_until(lambda: not trims.busy, 10, lambda: "a trim is still running")
    assert done == [1, 3]
    trims.close()


def test_a_busy_shard_is_not_trimmed_after_every_commit_and_a_worker_that_ends_trims_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trims, ends, done = Background("trims"), Event(), list[int]()
    monkeypatch.setattr(servers, "TRIM_SECONDS", 100.0)
    monkeypatch.setattr(RedisStore, "trim", lambda _store, _fence, commit: done.append(commit))
    store = WorkerStore(connect("redis://127.0.0.1:1/0"), "mine", 0, trims, ends)
    store.trim("fence", 1)
    wait_until(lambda: not trims.busy, 10, lambda: "the first trim waits")
    for commit in range(2, 6):
        store.trim("fence", commit)
    assert (trims.busy, done) == (True, [1])
    ends.set()
    wait_until(lambda: not trims.busy, 10, lambda: "a trim waits for more commits than there are")
    assert done == [1, 5]
    trims.close()


def test_a_trim_that_fails_or_comes_too_late_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    trims, done = Background("trims"), list[int]()

    def trim(_store: RedisStore, _fence: str, commit: int) -> None:
        if commit == 1:
            raise Fenced("another worker has it")
        done.append(commit)

    monkeypatch.setattr(RedisStore, "trim", trim)
    store = WorkerStore(connect("redis://127.0.0.1:1/0"), "mine", 0, trims, Event())
    for commit in (1, 2):
        store.trim("fence", commit)
        wait_until(lambda: not trims.busy, 10, lambda: "a trim is still running")
    trims.close()
    store.trim("fence", 3)
    assert done == [2]
